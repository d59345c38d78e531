"""What must hold for any HLO that parses.

It is rejected with an XlanbError, or printed, compiled, run and traced, with the interpreter's
results. Most inputs are small whole numbers, so that most float arithmetic is exact; some are
extreme: NaN, infinities, negative zeros, the ends of integer types.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial, reduce
from threading import Timer
from typing import Any

import ml_dtypes
import numpy as np

import xlanb
from tests.fuzz import explained
from tests.fuzz.conditioning import is_rounding
from tests.fuzz.on_devices import device_count, evaluated
from tests.fuzz.reference import Noted, Reference
from xlanb.errors import CancelledError, DeviceError, EvaluationError, InternalError, OutOfMemoryError, XlanbError
from xlanb.explorer.numbers import compared, leaves_of
from xlanb.hlo import HloModule, parse
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.runtime.opt import random_value
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.shape.primitive_type import from_dtype

EXECUTED = 0.25
"""The fraction of a campaign's inputs that are compiled and run.

All are parsed, verified, printed and converted to protos.
"""

_LAYOUT = re.compile(r"(?<=\])\{[^{}]*\}")
_FRAMES = re.compile(r"FileNames\n(?s:.*?)\n\n\n|, metadata=\{stack_frame_id=\d+\}| ?stack_frame_id=\d+")
_SUGAR = re.compile(r"(?m)^(.* [a-z-]+-start\(.*?), sharding=\{.*$")
_UNALIGNED = "L(0)"
_UNSAID = ", is_associative=false"
_STEPS = 20_000
_SECONDS = 2.0
_ELEMENTS = 1_000_000
"""The most elements of all arrays of a module that is evaluated; larger ones are only compiled."""
_WRITTEN = 20_000_000
"""The most elements of constants of a module that is converted to a proto.

Elided constants of a short text become zeros, up to 2 GiB of them.
"""
_TRACED = 0.1
_EXTREMES = 0.2
"""The fraction of executed modules whose arguments have extreme elements."""
_ULPS_PLAIN, _ULPS_ROUGH, _ULPS_NARROW = 1, 8, 2
"""The largest difference of floats, in units in the last place of the largest magnitude.

Sums and products of small whole numbers are exact; functions and quotients are rounded more than
once; narrow floats may be kept in wider ones between operations (in their own units).
"""

_UNNEEDED = re.compile(r"custom-call target .* is unknown|needs more than one participant")
"""The interpreter skips calls and collectives without users; compiled code keeps those with side
effects.
"""
_UNREAD = re.compile(r"a sharding of \d+ tiles for \d+ devices")
"""What XLA's proto reader rejects and its parser accepts.

The parser counts the devices of an iota only if they are regrouped.
"""


def check_module(read: Callable[[], HloModule], rng: np.random.Generator | None) -> str | None:
    """The find for the module that `read` returns; None if it is rejected or everything holds.

    It is not compiled if `rng` is None.
    """
    try:
        module = read()
        module.verify()
        return _printed(module) or _carried(module) or (None if rng is None else _executed(module, rng))
    except InternalError as error:
        cause = error.__cause__ or error
        return f"internal {type(cause).__name__} to {error.doing}: {str(cause)[:120]!r}"
    except XlanbError as error:
        text = str(error)
        return f"llvm: {text[:200]!r}" if "LLVM refuses" in text or "LLVM cannot" in text else None


def _printed(module: HloModule) -> str | None:
    """The text of a verified module parses to a module of the same text."""
    text = str(module)
    try:
        again = str(parse(text))
    except InternalError:
        raise
    except XlanbError as error:
        return f"text: what is printed is not parsed: {str(error)[:200]!r}"
    if again == text:
        return None
    # XLA's order of computations follows the order of instructions, which the text changes once.
    # A shape without a layout, as in some protos, is read with the default one.
    # A scan that does not say whether it is associative, as StableHLO may leave open, is read as
    # one that is not.
    # Of the frames that a proto brings the parser keeps those that instructions need, and numbers
    # them anew.
    bare = _is_bare(module)
    # The short form of asynchronous instructions shows the inner sharding, which XLA's parser
    # applies to all parts.
    first, second = (_SUGAR.sub(r"\1", _comparable(t, bare=bare)) for t in (text, again))
    if sorted(second.split("\n\n")) == sorted(first.split("\n\n")) and str(parse(again)) == again:
        return None
    return f"text: parsed and printed again it differs: {_first_difference(text, again)}"


def _comparable(text: str, *, bare: bool) -> str:
    return _FRAMES.sub("", _LAYOUT.sub("", text) if bare else text).replace(_UNSAID, "")


def _is_bare(module: HloModule) -> bool:
    """Whether some array has no layout."""
    parameters, result = module.entry_layout or ((), TupleShape(()))
    shapes = [*parameters, result, *(i.shape for i in module.instructions())]
    return any(getattr(s, "layout", s) is None for shape in shapes for _, s in shape.leaves())


def _carried(module: HloModule) -> str | None:
    """A proto of a verified module is read back as the same module."""
    if sum(_elements(i.shape) for i in module.instructions() if i.opcode is Op.CONSTANT) > _WRITTEN:
        return None
    data = module.to_proto()
    try:
        again = HloModule.from_proto(data)
    except InternalError:
        raise
    except XlanbError as error:
        if _UNREAD.search(str(error)):
            return None
        return f"proto: what is written is not read: {str(error)[:200]!r}"
    if again.to_proto() != data and not _has_zeros(module):
        return f"proto: read and written again it differs: {_first_difference(str(module), str(again))}"
    return None


def _has_zeros(module: HloModule) -> bool:
    """Whether it has a custom-call with no groups, or an alignment to zero elements.

    XLA's text keeps these; its proto reader turns them into one.
    """
    calls = (i for i in module.instructions() if i.opcode is Op.CUSTOM_CALL)
    counts = (i.get(name) for i in calls for name in ("feature_group_count", "batch_group_count"))
    return min(counts, default=1) < 1 or _UNALIGNED in str(module)


def _first_difference(a: str, b: str) -> str:
    pairs = zip([*a.splitlines(), ""], [*b.splitlines(), ""], strict=False)
    return next((f"{x.strip()[:150]!r} / {y.strip()[:150]!r}" for x, y in pairs if x != y), "")


def _executed(module: HloModule, rng: np.random.Generator) -> str | None:
    exe = xlanb.compile(module)
    if rng.random() < _TRACED:
        trace = xlanb.trace(module)
        str(trace)
        trace.why(module.entry_computation.root.name)
    if sum(_elements(i.shape) for i in module.instructions()) > _ELEMENTS:
        return None
    make = _extreme if (has_extremes := rng.random() < _EXTREMES) else _value
    devices = device_count(module)
    rows = [[make(p.shape, rng) for p in module.entry_computation.parameters] for _ in range(devices)]
    arguments = rows[0] if devices == 1 else rows
    try:
        expected, noted = _reference(module, arguments)
    except InternalError:
        raise
    except XlanbError:
        return None  # an infinite loop, or no value
    if _reads_host(module):
        return None
    stop = Timer(_SECONDS, exe.cancel)  # an infinite loop at a fixed point: the interpreter returns its state
    stop.start()
    try:
        got = exe(*arguments) if devices == 1 else exe.run_shards(arguments)
    except (CancelledError, InternalError, OutOfMemoryError):
        raise
    except XlanbError as error:
        if _UNNEEDED.search(str(error)):
            return None
        return f"raises {type(error).__name__} where the interpreter gives a value: {str(error)[:200]!r}"
    finally:
        stop.cancel()
    return _judged(module, arguments, leaves_of(got), expected, noted, has_extremes=has_extremes)


def _reference(module: HloModule, arguments: list[Any]) -> tuple[list[Any], Noted]:
    """The leaves of the interpreter's results, for all devices, and what it noted."""
    expected, references = evaluated(lambda: Reference(_STEPS, _SECONDS), module, arguments)
    return expected, reduce(Noted.union, (r.noted for r in references))


def _kept(made: list[Reference]) -> Reference:
    """A new interpreter that tries other orders; it is kept for its notes in case it fails."""
    made.append(Reference(_STEPS, _SECONDS, tries_orders=True))
    return made[-1]


def _judged(
    module: HloModule,
    arguments: list[Any],
    got: list[Any],
    expected: list[Any],
    noted: Noted,
    *,
    has_extremes: bool,
) -> str | None:
    """The find for the results; leaves explained by a listed kind are not compared."""
    devices = device_count(module)
    kinds = explained.which(module, noted, has_extremes=has_extremes) * devices
    if [(g.dtype, g.shape) for g in got] != [(e.dtype, e.shape) for e in expected] or len(kinds) != len(expected):
        return f"wrong: {[(str(g.dtype), g.shape) for g in got]} for {[(str(e.dtype), e.shape) for e in expected]}"
    is_open = explained.singular(module, noted) * devices
    pairs = [_finite_in_both(g, e) if o else (g, e) for g, e, o in zip(got, expected, is_open, strict=True)]
    got, expected = [g for g, _ in pairs], [e for _, e in pairs]
    got = _closed(got, expected, kinds)
    if not _compared(module, got, expected):
        return None
    again: list[Reference] = []
    with suppress(EvaluationError, DeviceError):  # out of time, with its notes so far
        evaluated(partial(_kept, again), module, arguments)
    noted = reduce(Noted.union, (r.noted for r in again))
    got = _closed(got, expected, explained.which(module, noted, has_extremes=has_extremes) * devices)
    find = _compared(module, got, expected)
    limits = {"max_steps": _STEPS, "max_seconds": _SECONDS}
    return find if find and not is_rounding(module, arguments, got, expected, **limits) else None


def _closed(got: list[Any], expected: list[Any], kinds: list[str]) -> list[Any]:
    """The results, with the expected values for leaves that some kind explains."""
    return [e if kind else g for g, e, kind in zip(got, expected, kinds, strict=True)]


def _finite_in_both(got: Any, expected: Any) -> tuple[Any, Any]:
    """Both arrays with NaN where either is not finite.

    A rounding error / 0 is infinite, 0 / 0 is NaN, and tiles of a solver spread NaN.
    """
    if not np.issubdtype(got.dtype, np.inexact):
        return got, expected
    keeps = np.isfinite(got) & np.isfinite(expected)
    return tuple(np.where(keeps, x, np.nan).astype(x.dtype) for x in (got, expected))


def _elements(shape: Shape) -> int:
    return sum(s.element_count for _, s in shape.leaves() if isinstance(s, ArrayShape) and s.is_array)


def _value(shape: Shape, rng: np.random.Generator) -> Any:
    if isinstance(shape, TupleShape):
        return tuple(_value(s, rng) for s in shape.shapes)
    if isinstance(shape, ArrayShape) and not shape.is_array:
        return None
    array = shape.as_array()
    low, high = (0, 2) if array.element_type.bits < 4 or not array.element_type.is_signed else (-3, 4)
    if array.element_type.is_floating or array.element_type.is_complex:
        return rng.integers(-3, 4, array.dimensions).astype(np.float32).astype(array.dtype)
    if not array.element_type.is_integral:
        return random_value(shape)
    return rng.integers(low, high, array.dimensions).astype(array.dtype)


def _extreme(shape: Shape, rng: np.random.Generator) -> Any:
    """A value some of whose elements are at the ends of the type."""
    if isinstance(shape, TupleShape):
        return tuple(_extreme(s, rng) for s in shape.shapes)
    value = _value(shape, rng)
    if value is None or value.size == 0:
        return value
    t = shape.as_array().element_type
    if t.is_complex or t.is_floating:
        ends = np.array((np.nan, np.inf, -np.inf, -0.0, 0.5, 2.5), np.float32).astype(value.dtype)
    elif t.is_integral:
        ends = np.array((ml_dtypes.iinfo(value.dtype).min, ml_dtypes.iinfo(value.dtype).max)).astype(value.dtype)
    else:
        return value
    return np.where(rng.random(value.shape) < 0.3, rng.choice(ends, value.shape), value).astype(value.dtype)


def _reads_host(module: HloModule) -> bool:
    return any(i.opcode in (Op.INFEED, Op.RECV, Op.SEND) for i in module.instructions())


def _is_rough(module: HloModule, ops: set[Op]) -> bool:
    """Whether a float may differ in its last places.

    That is due to functions, or arithmetic in narrow types, which may be kept in wider ones.
    """
    return bool(ops & explained.ROUGH) or bool(_narrow_unit(module))


def _narrow_unit(module: HloModule) -> float:
    """The unit in the last place of the coarsest float narrower than 32 bits; 0 if none."""
    types = {s.element_type for i in module.instructions() for _, s in i.shape.leaves() if isinstance(s, ArrayShape)}
    return max((float(ml_dtypes.finfo(t.dtype).eps) for t in types if t.is_floating and t.bits < 32), default=0.0)


def _tolerance(module: HloModule, dtype: Any) -> float:
    if narrow := _narrow_unit(module):
        return _ULPS_NARROW * narrow
    units = _ULPS_ROUGH if _is_rough(module, {i.opcode for i in module.instructions()}) else _ULPS_PLAIN
    return units * float(ml_dtypes.finfo(dtype).eps)


def _compared(module: HloModule, got: list[Any], expected: list[Any]) -> str | None:
    for g, e in zip(got, expected, strict=True):
        with np.errstate(all="ignore"):
            error, broken = compared(g, e)
        if g.dtype.kind == "b" or from_dtype(g.dtype).is_integral:
            if error:
                return f"wrong: {g.dtype} differs: {_shown(g)} for {_shown(e)}"
        elif error > _tolerance(module, e.dtype) or (broken and not _narrow_unit(module)):
            return (
                f"wrong: {g.dtype} differs by {error:.2g}, {broken} not finite on one side: {_shown(g)} for {_shown(e)}"
            )
    return None


def _shown(array: Any) -> str:
    return " ".join(str(array.ravel()[:6]).split())
