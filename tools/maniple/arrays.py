"""Arrays that a caller gives, of numpy or of another library, as numpy arrays for the program."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def real_array(given: Any, dtype: DTypeLike, what: str) -> NDArray[Any]:
    """`given`, numbers or an array with __dlpack__, as a contiguous array of `dtype`. Raises ValueError, in which `what` is its name, for
    complex numbers and for arrays that numpy cannot read."""
    if not isinstance(given, np.ndarray) and hasattr(given, "__dlpack__"):
        try:
            given = np.from_dlpack(given)
        except (BufferError, RuntimeError, TypeError) as error:
            raise ValueError(f"{what}: found an array that numpy cannot read ({error}); allowed: float32 or float64 in the memory "
                             "of the CPU") from error
    if np.iscomplexobj(given):
        raise ValueError(f"{what}: found complex numbers; allowed: real numbers")
    return np.ascontiguousarray(given, dtype)


def check_finite(rows: NDArray[Any], what: str) -> None:
    """Raises ValueError for infinities and NaN in `rows` [env, component]."""
    if not np.isfinite(rows).all():
        env, k = np.argwhere(~np.isfinite(rows))[0]
        raise ValueError(f"{what}: found {rows[env, k]} in component {k} of environment {env}; allowed: finite numbers")
