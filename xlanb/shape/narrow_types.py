"""The element types that NumPy lacks (bf16, f8, s4, ...), which ml_dtypes brings.

Where ml_dtypes is not installed, as in a browser, there is no build of it: everything with NumPy's own types works, and
an array of a narrow type raises MissingLibraryError.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_library: Any
try:
    import ml_dtypes as _library
except ModuleNotFoundError:  # WebAssembly: Pyodide has it from version 314 on
    _library = None

MISSING = "needs ml_dtypes, which is not installed: pip install ml_dtypes"


def narrow_type(name: str) -> Any:
    """The NumPy scalar type of this name of ml_dtypes ("bfloat16", "int4", ...); None where there is none."""
    return getattr(_library, name, None)


def finfo(dtype: Any) -> Any:
    """The limits of a real floating point type, as `np.finfo` gives them."""
    limits: Any = np.finfo if _library is None else _library.finfo
    return limits(dtype)


def iinfo(dtype: Any) -> Any:
    """The limits of an integer type, as `np.iinfo` gives them."""
    limits: Any = np.iinfo if _library is None else _library.iinfo
    return limits(dtype)
