"""The array types of the decision maths, and how an array is closed to writing."""

from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.intp]

_Item = TypeVar("_Item", bound=np.generic)


def read_only(array: NDArray[_Item]) -> NDArray[_Item]:
    """The same array, closed to writing."""
    array.setflags(write=False)
    return array


def sealed(mask: BoolArray) -> BoolArray:
    """A copy of a mask that nobody can open to writing again.

    `setflags` could reopen an array that owns its memory; a view of bytes it cannot. A mask
    that several decisions share must stay what it was when each of them was recorded.
    """
    return np.frombuffer(np.ascontiguousarray(mask).tobytes(), dtype=np.bool_).reshape(mask.shape)
