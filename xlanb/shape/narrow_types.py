"""The element types that NumPy lacks (bf16, f8, s4, ...), from ml_dtypes.

If ml_dtypes is not installed, as in a browser, everything with NumPy's own types works, and an
array of a narrow type raises MissingLibraryError.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_library: Any
try:
    import ml_dtypes as _library
except ModuleNotFoundError:  # WebAssembly: Pyodide has it since version 314
    _library = None

MISSING = "needs ml_dtypes, which is not installed: pip install ml_dtypes"


def narrow_type(name: str) -> Any:
    """The NumPy scalar type with this name in ml_dtypes ("bfloat16", "int4", ...), or None."""
    return getattr(_library, name, None)


def finfo(dtype: Any) -> Any:
    """The limits of a real floating-point type, as from `np.finfo`."""
    limits: Any = np.finfo if _library is None else _library.finfo
    return limits(dtype)


def iinfo(dtype: Any) -> Any:
    """The limits of an integer type, as from `np.iinfo`."""
    limits: Any = np.iinfo if _library is None else _library.iinfo
    return limits(dtype)
