"""Which rows of a log are reserved: training leaves them out, evidence reads no others."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from canopy.domain.episode import is_reserved
from canopy.logs import schema
from canopy.logs.tabular import DecisionLog

BoolArray: TypeAlias = npt.NDArray[np.bool_]


def reserved_rows(log: DecisionLog) -> BoolArray:
    """True where the row's unit is reserved, shape (n_rows,); each unit is hashed once."""
    units = log.column(schema.UNIT_ID).tolist()
    reserved = {unit: is_reserved(unit) for unit in set(units)}
    return np.array([reserved[unit] for unit in units], dtype=np.bool_)
