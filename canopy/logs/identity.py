"""The identity of a log's content, whatever files it came from and however many rows they hold."""

import hashlib
import json
from typing import TYPE_CHECKING, Final

import numpy as np

from canopy.domain.ids import HASH_LENGTH
from canopy.logs import schema
from canopy.logs.canonical import column_bytes
from canopy.logs.schema import LogFacts

if TYPE_CHECKING:
    import pyarrow as pa

HASHED_ROWS: Final = 2**17
"""Rows are hashed so many at a time: a log read in passing then has the hash of the whole."""


class LogIdentity:
    """Reads a log's rows in their order, in parts of any size.

    Args:
        facts: What is true of the whole log.
    """

    def __init__(self, facts: LogFacts) -> None:
        self._digest = hashlib.sha256(
            json.dumps([facts.plans, facts.kind, facts.reward_range]).encode()
        )
        self._waiting: list[pa.Table] = []
        self._n_waiting = 0

    def add(self, table: "pa.Table") -> None:
        """Read on.

        Args:
            table: Canonical rows, which follow those read so far.
        """
        import pyarrow as pa

        if schema.DRAWN not in table.column_names:
            # The column is absent where it would say nothing; a part may say so of itself alone.
            drawn = pa.array(np.ones(table.num_rows, dtype=np.bool_))
            table = table.append_column(schema.DRAWN, drawn)
        self._waiting.append(table)
        self._n_waiting += table.num_rows
        if self._n_waiting < HASHED_ROWS:
            return
        rows = pa.concat_tables(self._waiting)
        whole = rows.num_rows - rows.num_rows % HASHED_ROWS
        for start in range(0, whole, HASHED_ROWS):
            self._hash(rows.slice(start, HASHED_ROWS))
        self._waiting, self._n_waiting = [rows.slice(whole)], rows.num_rows - whole

    def content_hash(self) -> str:
        """The identity of what was read; nothing can be added after."""
        import pyarrow as pa

        if self._n_waiting:
            self._hash(pa.concat_tables(self._waiting))
            self._waiting, self._n_waiting = [], 0
        return self._digest.hexdigest()[:HASH_LENGTH]

    def _hash(self, rows: "pa.Table") -> None:
        for name in sorted(rows.column_names):
            column = rows.column(name)
            if name == schema.DRAWN and column.to_numpy().all():
                continue
            self._digest.update(name.encode() + b"\0")
            for block in column_bytes(column):
                self._digest.update(block)
