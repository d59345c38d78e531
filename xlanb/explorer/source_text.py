"""Write values and functions as Python source for a self-contained file."""

from __future__ import annotations

import base64
import dis
import inspect
import sys
import textwrap
import types
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlanb.errors import ArgumentError
from xlanb.shape.narrow_types import narrow_type

_FEW = 64
"""Up to this many elements are written as numbers; larger arrays as packed bytes."""
_PLAIN = (bool, int, float, str, bytes, type(None))


def arrays_source(arrays: Sequence[Any]) -> str:
    """Return a Python list of arrays, with tuples of arrays as tuples.

    It uses `np`, `ml_dtypes` and `unpacked` as needed.
    """
    if not arrays:
        return "[]"
    return "[\n" + "".join(f"    {value_source(a)},\n" for a in arrays) + "]"


def value_source(value: Any) -> str:
    """Return the source of an array, or a tuple of arrays, bit for bit.

    For few elements, NaN keeps its sign and kind, but not its payload.
    """
    if isinstance(value, tuple):
        return "(" + "".join(f"{value_source(v)}, " for v in value).rstrip(" ") + ")"
    array = np.asarray(value)
    dtype = _dtype_source(array.dtype)
    if array.size and bool(np.all(_same(array))):
        return f"np.full({array.shape}, {_number(array.flat[0])}, {dtype})"
    if array.size > _FEW:
        packed = base64.b85encode(zlib.compress(np.ascontiguousarray(array).tobytes(), 9)).decode()
        return f"unpacked({packed!r}, {dtype}, {array.shape})"
    return f"np.array({_nested(array)}, {dtype}).reshape{array.shape}"


def _same(array: NDArray[Any]) -> NDArray[Any]:
    """Return which elements have the same bits as the first."""
    words = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    same: NDArray[Any] = np.all(words == words[0], axis=1)
    return same


def _nested(array: NDArray[Any]) -> str:
    return f"[{', '.join(_number(x) for x in array.reshape(-1))}]"


def _number(x: Any) -> str:
    """Return a number whose conversion to the array's dtype has the same bits."""
    if isinstance(x, np.bool_):
        return str(bool(x))
    if isinstance(x, complex | np.complexfloating):
        return f"complex({_float(x.real)}, {_float(x.imag)})"
    if isinstance(x, np.integer) or type(x).__name__.startswith(("int", "uint")):
        return str(int(x))
    return _float(x)


def _float(x: Any) -> str:
    text = repr(float(x))
    return text if text[-1].isdigit() else f'float("{text}")'


def _dtype_source(dtype: np.dtype[Any]) -> str:
    if dtype.name == "bool":
        return "bool"
    home = "np" if getattr(np, dtype.name, None) is not None else "ml_dtypes"
    if home == "ml_dtypes" and narrow_type(dtype.name) is None:
        raise ArgumentError(f"an array of {dtype} cannot be written to a file")
    return f"{home}.{dtype.name}"


UNPACKED = """
def unpacked(text, dtype, shape):
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype).reshape(shape)
"""
"""The function that unpacks such arrays; it needs base64, zlib and NumPy as np."""


def function_source(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the imports and the source of a function, or of an object's class.

    Includes the plain values and functions of its own module that it uses.

    Raises:
        ArgumentError: its source is not known, or it uses a value that cannot be written; the
            message names it.
    """
    imports: dict[str, None] = {}
    sources: dict[str, str] = {}
    _collect(function, function.__name__, imports, sources)
    return "\n".join(sorted(imports)), "\n\n".join(sources.values())


def _collect(function: Any, name: str, imports: dict[str, None], sources: dict[str, str]) -> None:
    if name in sources:
        return
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise ArgumentError(f"{name} cannot be written to a file: its source is unknown ({error})") from None
    if not source.lstrip().startswith(("def ", "class ", "@")):
        raise ArgumentError(f"{name} cannot be written to a file: it is not a named function (def {name}(...))")
    sources[name] = ""  # it is defined before its users, and may be recursive
    for key, value in _used(function).items():
        if isinstance(value, types.ModuleType):
            imports[f"import {value.__name__}" + (f" as {key}" if key != value.__name__ else "")] = None
        elif isinstance(value, _PLAIN):
            sources[f"{key} ="] = f"{key} = {value!r}"
        elif _can_be_imported(value):
            alias = "" if value.__name__ == key else f" as {key}"
            imports[f"from {value.__module__} import {value.__name__}{alias}"] = None
        elif isinstance(value, types.FunctionType | type):
            _collect(value, key, imports, sources)
        else:
            raise ArgumentError(
                f"{name} cannot be written to a file: it uses {key}, a "
                f"{type(value).__name__}; create that inside the function"
            )
    sources.pop(name)
    sources[name] = source.rstrip("\n") + "\n"


def _used(function: Any) -> dict[str, Any]:
    """Return the outside names that a function or a class's functions use, with their values."""
    functions, out = [function], dict[str, Any]()
    if isinstance(function, type):
        file = inspect.getsourcefile(function)
        functions = [
            f for f in vars(function).values() if isinstance(f, types.FunctionType) and f.__code__.co_filename == file
        ]  # not those made by a decorator
        home = vars(sys.modules.get(function.__module__, types.ModuleType("nowhere")))
        decorated = inspect.getsource(function).lstrip().startswith("@")
        out = {k: v for k, v in home.items() if any(v is base for base in function.__bases__)}
        out |= {"dataclass": dataclass} if decorated and is_dataclass(function) else {}
    for f in functions:
        bound = inspect.getclosurevars(f).nonlocals
        names = _global_names(f.__code__)
        out |= {k: v for k, v in {**f.__globals__, **bound}.items() if k in names | set(bound) and k != f.__name__}
    return out


def _global_names(code: types.CodeType) -> set[str]:
    """Return the names that a function and its nested functions use from outside."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    mine = {str(i.argval) for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return mine.union(*(_global_names(c) for c in inner))


def _can_be_imported(value: Any) -> bool:
    """Whether a function or class is from an installed package, not from a user's file."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    file = getattr(module, "__file__", None) or ""
    return "site-packages" in file or (
        module is not None and module.__name__.split(".")[0] in ("xlanb", "jax", "numpy", "dataclasses")
    )
