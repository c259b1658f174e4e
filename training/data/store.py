"""The rows that train: in memory while one window holds them, beyond that mapped from disk.

What a run holds at once does not grow with the number of rows. The rows on disk are an Arrow file
that `datasets` maps; it is unlinked as soon as it is mapped, so that nothing is left of it
whatever ends the run.
"""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa
import torch

from canopy.domain.errors import TrainingRefusedError
from training.data.blocks import Block

if TYPE_CHECKING:
    from datasets import Dataset
    from datasets.arrow_writer import ArrowWriter

MOST_WINDOW_ROWS: Final = 2**17
STRETCH: Final = 1_024
"""Rows that lie together on disk are read together; stretches come in random order."""

_LEAST_WINDOW_ROWS: Final = 4 * STRETCH
_WINDOW_BYTES: Final = 2**26


def window_rows(width: int, n_plans: int) -> int:
    """How many rows are held at once.

    Args:
        width: Columns of an encoded context.
        n_plans: Plans of the catalog.
    """
    fit = _WINDOW_BYTES // (n_plans + 4 * width + 48)
    return max(_LEAST_WINDOW_ROWS, min(MOST_WINDOW_ROWS, fit))


class RowStore:
    """All training rows that left a choice.

    Attributes:
        n_single: Training rows left out because one plan alone was feasible: nothing was chosen.
        window: Most rows held at once.
    """

    def __init__(
        self, rows: "Block | Dataset", *, n_single: int, window: int, width: int, n_plans: int
    ) -> None:
        self._rows = rows
        self._width = width
        self._n_plans = n_plans
        self.n_single = n_single
        self.window = window

    @classmethod
    def of(cls, block: Block, *, n_single: int = 0) -> "RowStore":
        """Rows in memory, in one window whatever their number.

        Args:
            block: The rows.
            n_single: See the class.

        Raises:
            TrainingRefusedError: If there are none.
        """
        _refuse_none(len(block))
        return cls(
            block, n_single=n_single, window=len(block),
            width=block.features.shape[1], n_plans=block.feasible.shape[1],
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def is_whole(self) -> bool:
        """Whether one window holds all rows."""
        return isinstance(self._rows, Block) or len(self._rows) <= self.window

    def blocks(self) -> Iterator[Block]:
        """All rows in their order, a window at a time."""
        for start in range(0, len(self), self.window):
            yield self._read([(start, min(start + self.window, len(self)))])

    def shuffled(self, order: torch.Generator) -> Iterator[Block]:
        """All rows once, a window at a time: stretches in random order, to be shuffled within.

        Args:
            order: Decides; the same state gives the same windows.
        """
        n_stretches = -(-len(self) // STRETCH)
        per_window = self.window // STRETCH
        for numbers in torch.split(torch.randperm(n_stretches, generator=order), per_window):
            starts = sorted(int(number) * STRETCH for number in numbers)
            yield self._read([(start, min(start + STRETCH, len(self))) for start in starts])

    def sample(self, most: int) -> Block:
        """At most so many rows, evenly from all; all of them where they are no more.

        Args:
            most: At least 1.
        """
        if len(self) <= most:
            return self._read([(0, len(self))])
        n_stretches = max(1, most // STRETCH)
        size = min(STRETCH, most)
        starts = np.linspace(0, len(self) - size, n_stretches).astype(int).tolist()
        return self._read([(start, start + size) for start in starts])

    @cached_property
    def reward_extremes(self) -> tuple[float, float]:
        """Least and greatest reward."""
        extremes = [(block.reward.min(), block.reward.max()) for block in self.blocks()]
        return float(min(low for low, _ in extremes)), float(max(high for _, high in extremes))

    @cached_property
    def mean_stands_for(self) -> float:
        """How many decisions a row stands for in the mean: 1 over its keep probability."""
        return sum(float((1.0 / block.keep_prob).sum()) for block in self.blocks()) / len(self)

    def _read(self, stretches: list[tuple[int, int]]) -> Block:
        if isinstance(self._rows, Block):
            ((start, stop),) = stretches
            if stop - start == len(self._rows):
                return self._rows
            return self._rows.take(np.arange(start, stop))
        table = pa.concat_tables([self._rows[start:stop] for start, stop in stretches])
        n = table.num_rows
        packed = _matrix(table, "feasible", n)
        return Block(
            position=np.concatenate([np.arange(*stretch, dtype=np.intp) for stretch in stretches]),
            features=np.ascontiguousarray(_matrix(table, "features", n)[:, : self._width]),
            feasible=np.unpackbits(packed, axis=1, count=self._n_plans).astype(np.bool_),
            action=table.column("action").to_numpy().astype(np.intp),
            propensity=table.column("propensity").to_numpy(),
            keep_prob=table.column("keep_prob").to_numpy(),
            reward=table.column("reward").to_numpy(),
            fold_place=table.column("fold_place").to_numpy(),
            is_training=True,
        )


class RowWriter:
    """Takes rows in, and gives a store of them; a context manager.

    Args:
        folder: Where rows are put that no window holds; made if missing.
        width: Columns of an encoded context.
        n_plans: Plans of the catalog.
        window: Most rows held at once; None for what fits.
    """

    def __init__(self, folder: Path, *, width: int, n_plans: int, window: int | None) -> None:
        self._folder = folder
        self._width = width
        self._n_plans = n_plans
        self._window = window or window_rows(width, n_plans)
        self._held: list[Block] = []
        self._scratch: TemporaryDirectory[str] | None = None
        self._file: ArrowWriter | None = None
        self._n_single = 0
        self.n_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def add(self, block: Block, *, n_single: int) -> None:
        """Take rows in.

        Args:
            block: The rows; their positions follow those of the last.
            n_single: Rows beside them that left no choice.
        """
        self.n_rows += len(block)
        self._n_single += n_single
        self._held.append(block)
        if self.n_rows > self._window:
            for held in self._held:
                self._write(held)
            self._held.clear()

    def store(self) -> RowStore:
        """All rows taken in.

        Raises:
            TrainingRefusedError: If there are none.
        """
        _refuse_none(self.n_rows)
        if self._file is None or self._scratch is None:
            return RowStore.of(_joined(self._held), n_single=self._n_single)
        from datasets import Dataset  # noqa: PLC0415 - takes a second; few logs need it

        self._file.finalize()
        mapped = Dataset.from_file(str(Path(self._scratch.name) / "rows.arrow"))
        # Unlinked while it is mapped: the disk is free again when the run ends, however it ends.
        self._scratch.cleanup()
        return RowStore(
            mapped.with_format("arrow"),
            n_single=self._n_single, window=self._window,
            width=self._width, n_plans=self._n_plans,
        )  # fmt: skip

    def _write(self, block: Block) -> None:
        if self._file is None:
            self._file = self._opened()
        # Arrow has no lists of length 0.
        features = block.features if self._width else np.zeros((len(block), 1), dtype=np.float32)
        columns: dict[str, Any] = {
            "features": _lists(features),
            "feasible": _lists(np.packbits(block.feasible, axis=1)),
            "action": block.action.astype(np.int32),
            "propensity": block.propensity,
            "keep_prob": block.keep_prob,
            "reward": block.reward,
            "fold_place": block.fold_place,
        }
        self._file.write_table(pa.table(columns))

    def _opened(self) -> "ArrowWriter":
        from datasets import Features, List, Value  # noqa: PLC0415 - as above
        from datasets.arrow_writer import ArrowWriter  # noqa: PLC0415 - as above

        self._folder.mkdir(parents=True, exist_ok=True)
        self._scratch = TemporaryDirectory(prefix="rows-", dir=self._folder)
        numbers = ("propensity", "keep_prob", "reward", "fold_place")
        features = Features({
            "features": List(Value("float32"), length=max(1, self._width)),
            "feasible": List(Value("uint8"), length=-(-self._n_plans // 8)),
            "action": Value("int32"),
            **{name: Value("float64") for name in numbers},
        })  # fmt: skip
        return ArrowWriter(features=features, path=str(Path(self._scratch.name) / "rows.arrow"))


def _refuse_none(n_rows: int) -> None:
    if n_rows == 0:
        raise TrainingRefusedError(
            "log", "no row with more than one feasible plan counts: there is nothing to choose.",
            "Train on a log whose decisions had alternatives.",
        )  # fmt: skip


def _joined(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    parts: dict[str, Any] = {
        name: np.concatenate([getattr(block, name) for block in blocks])
        for name in Block.__dataclass_fields__
        if name != "is_training"
    }
    return Block(**parts, is_training=True)


def _lists(matrix: Any) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def _matrix(table: pa.Table, name: str, n_rows: int) -> Any:
    """A column of lists of one length as a matrix of its own, shape (n_rows, length)."""
    parts = [chunk.flatten().to_numpy() for chunk in table.column(name).chunks]
    return np.concatenate(parts).reshape(n_rows, -1)
