"""Replace dots that are not fused by cuBLAS calls (xla/service/gpu/transforms/gemm_rewriter.cc).

    d = dot(a, b);  r = maximum(add(d, broadcast(v)), 0)
    =>  custom-call(a, b, v), "__cublas$lt$matmul", BIAS_RELU

The call computes activation(alpha * a b + beta * c + bias), and also returns a workspace. The users
of a product are fused one by one: a constant factor, a vector along the last dimension, a whole
array, a ReLU, a GELU. f8 products become f16 or bf16 products, because devices that multiply f8
have kernels for them. A GELU whose input has other users is not fused, nor is a vector added to a
column-major product.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import field
from math import prod
from typing import Any, Final

import numpy as np

from xlanb.analysis import cublas_gemm
from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.dot_dimensions import free_dimensions
from xlanb.conditions import Condition, decide, first_failing, objecting
from xlanb.gpu import backend_config
from xlanb.gpu.devices import GpuDevice, gpu_device
from xlanb.gpu.transforms.gemm_fusion import TINY, is_left_to_loops
from xlanb.gpu.triton.support_legacy import UNSET, elements_of
from xlanb.hlo.attributes import PaddingDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.shape import PrimitiveType as T
from xlanb.shape.shape import array, tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL

_CONFIG: Final = "gemm_backend_config"
_FLOAT8: Final = frozenset(t for t in T if str(t).startswith("f8"))
_TYPES: Final = frozenset((T.F8E4M3FN, T.F8E5M2, T.F16, T.BF16, T.F32, T.F64, T.C64))
"""Types for which a matrix-vector product is supported."""
_TYPES_OF_MATRICES: Final = frozenset((T.F8E3M4, T.F8E4M3, T.F8E4M3FNUZ, T.F8E5M2FNUZ, T.C128))
_LT: Final = frozenset(
    ((T.F16, T.F32), (T.BF16, T.F32), *((t, t) for t in (T.F16, T.BF16, T.F32, T.F64, T.C64, T.C128)))
)
"""Operand and result types supported by cublasLt."""
_EPILOGUE_TYPES: Final = frozenset((T.F16, T.BF16, T.F32, T.F64))
_ALGORITHMS: Final = frozenset(
    (UNSET, "dot_bf16_bf16_f32", "dot_f16_f16_f32", "dot_f32_f32_f32", "dot_tf32_tf32_f32", "dot_f64_f64_f64")
)
_LT_BATCHES: Final = (1 << 16) - 1
_WORKSPACE, _HOPPER_WORKSPACE, _HOPPER = 4 << 20, 32 << 20, (9, 0)
_GELU_USERS: Final = 4
"""The instructions of a GELU that use its input."""


@dataclass(frozen=True)
class CublasGemmRewriter(HloPass):
    """Replaces remaining dots by cuBLAS calls, and fuses their users into the calls."""

    name = "cublas-gemm-rewriter"
    triggers = frozenset((O.DOT,))
    keeps = REAL
    ulps = 8.0
    device: GpuDevice = field(default_factory=lambda: gpu_device("a100"))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.DOT and i.operands[0].shape.element_type in _FLOAT8 and _is_taken(i):
                    _widen(i)
            for i in c.post_order():
                if i in c and (rewrite := _BY_OPCODE.get(i.opcode)) is not None:
                    rewrite(i)
            for i in c.post_order():
                if _is_new_call(i):
                    _give_workspace(i, _most_workspace(self.device))


# -- dots ------------------------------------------------------------------------------------------


def _dimensions_objection(dot: HloInstruction) -> str:
    for side, o in zip(("lhs", "rhs"), dot.operands, strict=False):
        if len(dot.ints(f"{side}_contracting_dims")) != 1:
            return f"the {side} does not have exactly one contracting dimension"
        if o.array_shape.rank - 1 in dot.ints(f"{side}_batch_dims"):
            return f"the last dimension of the {side} is a batch dimension"
        if len(free_dimensions(dot, side)) > 1:
            return f"the {side} has several non-contracting dimensions"
    return ""


def _matrices(dot: HloInstruction) -> int:
    """Return how many operands have more than one row or column."""
    sides = zip(("lhs", "rhs"), dot.operands, strict=False)
    return sum(prod(o.array_shape.dimensions[d] for d in free_dimensions(dot, n)) > 1 for n, o in sides)


def _has_type(dot: HloInstruction) -> bool:
    t = dot.shape.element_type
    if t is T.S32:
        return all(o.shape.element_type is T.S8 for o in dot.operands)
    return t in _TYPES or (t in _TYPES_OF_MATRICES and _matrices(dot) > 1)


_DOT: Final[tuple[Condition[HloInstruction], ...]] = (
    Condition("it has no control dependencies", lambda i: not (i.control_predecessors or i.control_successors)),
    Condition("it has no sparsity descriptor", lambda i: len(i.operands) == 2),
    objecting("cuBLAS supports its dimensions", _dimensions_objection),
    Condition("one of its operands is a matrix", lambda i: _matrices(i) > 0),
    Condition("cuBLAS supports the type", _has_type, lambda i: str(i.shape.element_type)),
    Condition(
        "cuBLAS supports the algorithm", lambda i: i.get("algorithm") in _ALGORITHMS, lambda i: str(i.get("algorithm"))
    ),
    Condition(
        f"it is large enough: its operands have {TINY} elements or more",
        lambda i: not is_left_to_loops(i),
        lambda i: f"{elements_of(i)} elements",
        lambda i: f"use larger operands for `{i.name}`",
    ),
)


def _is_taken(dot: HloInstruction) -> bool:
    return first_failing(_DOT, dot) is None


@reason("dot(f8, f8) => dot(f16, f16)")
def _widen(dot: HloInstruction) -> None:
    c, b, result = dot.parent, Builder(dot), dot.shape.element_type
    wide = T.BF16 if result is T.BF16 else T.F16
    operands = [b.convert(o, wide) for o in dot.operands]
    shape = dot.array_shape.with_type(wide) if result in _FLOAT8 else dot.array_shape
    made = c.clone_instruction(dot, operands, shape)
    c.replace(dot, b.convert(made, result) if result in _FLOAT8 else made)


@reason("dot => cuBLAS's product")
def _call(dot: HloInstruction) -> None:
    if not decide("call cuBLAS", (dot.name,), _DOT, dot):
        return
    c, operands, algorithm = dot.parent, list(dot.operands), str(dot.get("algorithm"))
    if algorithm == "dot_bf16_bf16_f32":
        operands = [o if o.shape.element_type is T.BF16 else Builder(dot).convert(o, T.BF16) for o in operands]
        algorithm = UNSET
    made = c.add(
        O.CUSTOM_CALL,
        operands,
        dot.shape,
        metadata=dot.metadata,
        custom_call_target=_target(dot, operands),
    )
    c.update(made, backend_config=backend_config.changed(gemm_backend_config=_config(dot, algorithm)))
    c.replace(dot, made)


def _target(dot: HloInstruction, operands: Sequence[HloInstruction]) -> str:
    a = operands[0]
    batches = prod(a.array_shape.dimensions[d] for d in dot.ints("lhs_batch_dims"))
    fits = (a.shape.element_type, dot.shape.element_type) in _LT and batches <= _LT_BATCHES
    return cublas_gemm.MATMUL if fits else cublas_gemm.GEMM


def _config(dot: HloInstruction, algorithm: str) -> dict[str, Any]:
    names = ("contracting", "batch")
    precision = dot.get("operand_precision") or ("default", "default")
    numbers = {
        f"{side}_{name}_dimensions": [str(d) for d in dot.ints(f"{side}_{name}_dims")]
        for name in names
        for side in ("lhs", "rhs")
    }
    strides = {
        f"{side}_stride": str(prod(o.array_shape.dimensions[len(dot.ints(f"{side}_batch_dims")) :]))
        for side, o in zip(("lhs", "rhs"), dot.operands, strict=True)
    }
    algorithm_name = "ALG_UNSET" if algorithm == UNSET else f"ALG_{algorithm.upper()}"
    return {
        "alpha_real": 1,
        "beta": 0,
        "dot_dimension_numbers": numbers,
        "alpha_imag": 0,
        "precision_config": {"operand_precision": [str(p).upper() for p in precision], "algorithm": algorithm_name},
        "epilogue": "DEFAULT",
        **strides,
        "grad_x": False,
        "grad_y": False,
        "damax_output": False,
        "autotune_workspace_size": "0",
        "scale_mode": 0,
    }


# -- calls and their results -----------------------------------------------------------------------


def _is_new_call(i: HloInstruction) -> bool:
    """Whether an instruction is a call that has no workspace yet."""
    return i.opcode is O.CUSTOM_CALL and isinstance(i.shape, ArrayShape) and cublas_gemm.is_gemm(i)


@dataclass(frozen=True)
class _GemmUse:
    """A use of a call's result, directly or through a slice, bitcast or conversion.

    `path` are the instructions in between.
    """

    instruction: HloInstruction
    call: HloInstruction
    path: tuple[HloInstruction, ...]
    operand: int

    @property
    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = backend_config.read(self.call)[_CONFIG]
        return found

    @property
    def other(self) -> HloInstruction:
        """The other one of two operands."""
        return self.instruction.operands[1 - self.operand]

    @property
    def is_lt(self) -> bool:
        return bool(self.call.get("custom_call_target") == cublas_gemm.MATMUL)

    @property
    def is_alone(self) -> bool:
        """Whether the result and the path have no other users."""
        readers = (*self.path[1:], self.instruction)
        chain = (self.call, *self.path)
        read = self.path[:1] or readers[-1:]
        return all(i.user_count == 1 and not i.is_root for i in chain) and self.call.uses_by(read[0]) == 1


def _uses(i: HloInstruction, *between: frozenset[O]) -> list[_GemmUse]:
    """Return the operands of an instruction that are results of calls.

    Between them there may be at most one instruction of each set in `between`.
    """
    found = []
    for n, o in enumerate(i.operands):
        path: list[HloInstruction] = []
        for opcodes in between:
            if o.opcode in opcodes:
                path.insert(0, o)
                o = o.operands[0]
        if _is_new_call(o):
            found.append(_GemmUse(i, o, tuple(path), n))
    return found


_SLICE, _BITCAST, _CONVERT = frozenset((O.SLICE,)), frozenset((O.BITCAST,)), frozenset((O.CONVERT,))


def _holds(action: str, conditions: Sequence[Condition[_GemmUse]], use: _GemmUse) -> bool:
    return decide(action, (use.instruction.name, use.call.name), conditions, use)


def _renew(
    use: _GemmUse,
    operands: Sequence[HloInstruction],
    element_type: T | None = None,
    *,
    in_place: bool = False,
    **settings: Any,
) -> None:
    """Replace a use by a call with other operands, settings or type, followed by the path."""
    call, c = use.call, use.call.parent
    shape = call.array_shape if element_type is None else call.array_shape.with_type(element_type)
    made = c.clone_instruction(call, operands, shape)
    c.update(made, backend_config=backend_config.changed(made, **{_CONFIG: use.settings | settings}))
    if made.get("custom_call_target") == cublas_gemm.MATMUL:
        c.rename(made, "cublas-lt-matmul")
    else:
        is_batch = bool(use.settings["dot_dimension_numbers"]["lhs_batch_dimensions"])
        c.rename(made, "cublas-batch-gemm" if is_batch else "cublas-gemm")
    if in_place:
        c.update(made, attributes={"output_to_operand_aliasing": "{{}: (2, {})}"})
    for i in use.path:
        made = c.clone_instruction(i, (made,)) if element_type is None or i.opcode is not O.CONVERT else made
    c.replace(use.instruction, made)


_ALONE: Final[Condition[_GemmUse]] = Condition(
    "the product has no other users", lambda u: u.is_alone, lambda u: f"{u.call.name} has {u.call.user_count} users"
)
_WAITS: Final[Condition[_GemmUse]] = Condition(
    "it has no control dependencies",
    lambda u: not any(i.control_predecessors or i.control_successors for i in (u.instruction, u.call, *u.path)),
)
_FLOATING: Final[Condition[_GemmUse]] = Condition(
    "cublasLt supports epilogues for the type",
    lambda u: u.is_lt and u.call.shape.element_type in _EPILOGUE_TYPES,
    lambda u: str(u.call.shape.element_type),
)


def _scalar(i: HloInstruction) -> complex | None:
    """Return the number that a constant, or a broadcast of one, repeats."""
    i = i.operands[0] if i.opcode is O.BROADCAST else i
    if i.opcode is not O.CONSTANT or not i.array_shape.is_scalar or i.literal.is_elided:
        return None
    value = np.asarray(i.literal.array).reshape(-1)[0]
    return complex(value) if np.iscomplexobj(value) else float(value)


def _number(value: float) -> float:
    """Return the number as JSON has it: 2, not 2.0."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


# -- factors ---------------------------------------------------------------------------------------

_ALPHA: Final = (
    _WAITS,
    _ALONE,
    Condition[_GemmUse](
        "it is multiplied by a constant",
        lambda u: u.other.opcode is O.BROADCAST and u.other.user_count == 1 and _scalar(u.other) is not None,
    ),
    Condition[_GemmUse]("the product is not of integer type", lambda u: u.call.shape.element_type is not T.S32),
    Condition[_GemmUse]("the call does not add anything yet", lambda u: len(u.call.operands) == 2),
    Condition[_GemmUse]("the call has no activation yet", lambda u: u.settings["epilogue"] == "DEFAULT"),
)


@reason("multiply(dot, s) => dot with a scale")
def _factor(use: _GemmUse) -> bool:
    factor = _scalar(use.other)
    if not _holds("scale in the call", _ALPHA, use) or factor is None:
        return False
    old = complex(float(use.settings["alpha_real"]), float(use.settings["alpha_imag"]))
    alpha = complex(factor) * old
    _renew(use, use.call.operands, alpha_real=_number(alpha.real), alpha_imag=_number(alpha.imag))
    return True


# -- addends ---------------------------------------------------------------------------------------


def _vector_objection(u: _GemmUse) -> str:
    """Return why a broadcast cannot be added as a vector along the last dimension, or ""."""
    made = u.other
    if made.opcode is not O.BROADCAST or made.operands[0].array_shape.rank != 1:
        return "it is not the broadcast of a vector"
    numbers = u.settings["dot_dimension_numbers"]
    columns = u.call.operands[1].array_shape.rank - 1 - len(numbers["rhs_batch_dimensions"])
    if columns != 1:
        return "the product has no columns"
    results = (u.call, *u.path)
    if any(not _is_by_rows(i.array_shape) for i in results):
        return "the product is column-major"
    if made.dimensions != (made.array_shape.rank - 1,):
        return "the vector is not added along the last dimension"
    if any(i.opcode is O.BITCAST for i in u.path):
        sizes = [i.array_shape.dimensions[-1] for i in results]
        if sizes[0] != sizes[-1]:
            return "the last dimension is a different one in the product"
    return ""


def _is_by_rows(shape: ArrayShape) -> bool:
    return list(shape.minor_to_major) == list(range(shape.rank))[::-1]


_VECTOR: Final = (
    _WAITS,
    _ALONE,
    _FLOATING,
    Condition[_GemmUse](
        "the call has no activation yet",
        lambda u: u.settings["epilogue"] == "DEFAULT",
        lambda u: str(u.settings["epilogue"]),
    ),
    objecting("a vector is added along the last dimension", _vector_objection),
)


@reason("add(dot, broadcast(v)) => dot with a vector")
def _vector(use: _GemmUse) -> bool:
    if not _holds("add a vector in the call", _VECTOR, use):
        return False
    _renew(use, (*use.call.operands, use.other.operands[0]), epilogue="BIAS")
    return True


def _may_be_overwritten(i: HloInstruction) -> bool:
    """Whether the result may overwrite an addend's memory.

    It must have no other users, and not be a parameter unless donated.
    """
    if i.user_count > 1 or i.is_root:
        return False
    if i.opcode is not O.PARAMETER:
        return True
    module = i.parent.module
    if i.parent is not module.entry_computation:
        return False
    donated = re.findall(r"\((\d+), \{\}", str(module.header.get("input_output_alias", "")))
    return str(i.get("parameter_number")) in donated


def _slice_objection(u: _GemmUse) -> str:
    for s in u.path:
        if s.opcode is O.SLICE and any(d.start or d.stride != 1 for d in s.attributes["slice"]):
            return f"{s.name} does not start at 0"
    return ""


def _added_type(u: _GemmUse) -> bool:
    """Whether the call may return the sum's type.

    That is its own type, or the type of a result with no further computation.
    """
    wanted, t = u.instruction.shape.element_type, u.call.shape.element_type
    if wanted is t:
        return True
    reads = u.instruction.users
    unread = not reads or (len(reads) == 1 and reads[0].opcode is O.TUPLE and not reads[0].users)
    return unread and u.is_lt and (u.call.operands[0].shape.element_type, wanted) in _LT


_ARRAY: Final = (
    _WAITS,
    _ALONE,
    Condition[_GemmUse](
        "it is not a broadcast, which would have to be materialized", lambda u: u.other.opcode is not O.BROADCAST
    ),
    Condition[_GemmUse]("the product is not of integer type", lambda u: u.call.shape.element_type is not T.S32),
    Condition[_GemmUse]("the call supports the type of the sum", _added_type),
    objecting("the product is sliced only at its ends", _slice_objection),
    Condition[_GemmUse]("no array is added yet", lambda u: float(u.settings["beta"]) == 0),
    Condition[_GemmUse](
        "the call has no activation yet",
        lambda u: u.settings["epilogue"] in ("DEFAULT", "BIAS"),
        lambda u: str(u.settings["epilogue"]),
    ),
    Condition[_GemmUse](
        "the call need not write the result into the array's buffer, or may overwrite it",
        lambda u: u.is_lt or _may_be_overwritten(u.other),
    ),
)


@reason("add(dot, C) => dot with an array")
def _array(use: _GemmUse) -> bool:
    if not _holds("add an array in the call", _ARRAY, use):
        return False
    call, c, addend = use.call, use.call.parent, use.other
    in_place = _may_be_overwritten(addend)
    t = use.instruction.shape.element_type
    changed = None if t is call.shape.element_type else t
    shape = call.array_shape.with_type(t)
    for i in reversed(use.path):
        if i.opcode is O.BITCAST:
            addend = c.add(O.BITCAST, (addend,), i.operands[0].array_shape.with_type(t), like=addend)
        elif i.opcode is O.SLICE:
            addend = _padded(addend, shape)
    operands = (*call.operands[:2], addend, *call.operands[2:])
    _renew(use, operands, changed, in_place=in_place, beta=1)
    return True


def _padded(i: HloInstruction, shape: ArrayShape) -> HloInstruction:
    """Pad an array at its ends with zeros to a shape."""
    b = Builder(i)
    sizes = zip(i.array_shape.dimensions, shape.dimensions, strict=True)
    padding = tuple(PaddingDimension(0, wanted - have, 0) for have, wanted in sizes)
    return b.add(O.PAD, (i, b.scalar(0, shape.element_type)), shape, padding=padding)


# -- activations -----------------------------------------------------------------------------------

_APPLIED: Final[Condition[_GemmUse]] = Condition(
    "the call has no activation yet",
    lambda u: u.settings["epilogue"] in ("DEFAULT", "BIAS"),
    lambda u: str(u.settings["epilogue"]),
)
_RELU: Final = (
    _WAITS,
    _ALONE,
    _FLOATING,
    _APPLIED,
    Condition[_GemmUse]("the other operand is 0", lambda u: u.other.opcode is O.BROADCAST and _scalar(u.other) == 0),
)


@reason("maximum(dot, 0) => dot with a ReLU")
def _relu(use: _GemmUse) -> bool:
    if not _holds("apply a ReLU in the call", _RELU, use):
        return False
    _renew(use, use.call.operands, epilogue=_with("RELU", use))
    return True


def _with(activation: str, use: _GemmUse) -> str:
    return f"BIAS_{activation}" if use.settings["epilogue"] == "BIAS" else activation


def _is_gelu(u: _GemmUse) -> bool:
    """Whether the other operand is (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, for product x."""
    x = u.instruction.operands[u.operand]

    def once(i: HloInstruction, opcode: O) -> bool:
        return i.opcode is opcode and i.user_count == 1

    def other_operand(i: HloInstruction, is_wanted: Callable[[HloInstruction], bool]) -> HloInstruction | None:
        """Return the operand other than the one for which `is_wanted` holds."""
        a, b = i.operands
        return b if is_wanted(a) else a if is_wanted(b) else None

    def near(value: float) -> Callable[[HloInstruction], bool]:
        def is_near(i: HloInstruction) -> bool:
            t = i.shape.element_type
            found = _scalar(i) if i.opcode is O.BROADCAST and t in _EPILOGUE_TYPES else None
            if found is None:
                return False
            step = 2.0 ** -(7 if t is T.BF16 else np.finfo(t.dtype).nmant)
            return bool(abs(found - value) < abs(found + value) * 128 * step)

        return is_near

    def exactly(value: float) -> Callable[[HloInstruction], bool]:
        return lambda i: i.opcode is O.BROADCAST and _scalar(i) == value

    steps: tuple[tuple[O, Callable[[HloInstruction], bool]], ...] = (
        (O.MULTIPLY, exactly(0.5)),
        (O.ADD, exactly(1)),
        (O.TANH, lambda _: True),
        (O.MULTIPLY, near(math.sqrt(2 / math.pi))),
        (O.ADD, lambda i: i is x),
        (O.MULTIPLY, near(0.044715)),
        (O.MULTIPLY, lambda i: i is x),
    )
    at: HloInstruction | None = u.other
    for opcode, is_wanted in steps:
        if at is None or not once(at, opcode):
            return False
        at = at.operands[0] if opcode is O.TANH else other_operand(at, is_wanted)
    return at is not None and once(at, O.MULTIPLY) and all(o is x for o in at.operands)


_GELU: Final = (
    _WAITS,
    _FLOATING,
    _APPLIED,
    Condition[_GemmUse]("it is multiplied by the other factor of a GELU", _is_gelu),
    Condition[_GemmUse](
        "the product has no other users",
        lambda u: (
            not any(i.is_root for i in (u.call, *u.path))
            and u.instruction.operands[u.operand].user_count == _GELU_USERS
            and all(i.user_count == 1 for i in (u.call, *u.path)[:-1])
        ),
    ),
)


@reason("multiply(dot, (1 + tanh(..)) / 2) => dot with a GELU")
def _gelu(use: _GemmUse) -> bool:
    if not _holds("apply a GELU in the call", _GELU, use):
        return False
    _renew(use, use.call.operands, epilogue=_with("GELU", use))
    return True


# -- order of the rewrites -------------------------------------------------------------------------


def _multiply(i: HloInstruction) -> None:
    for use in _uses(i):
        if _factor(use):
            return
    for use in _uses(i, _SLICE | _BITCAST):
        if _gelu(use):
            return


def _add(i: HloInstruction) -> None:
    for use in _uses(i, _BITCAST, _SLICE):
        if _vector(use):
            return
    for use in (*_uses(i, _CONVERT), *(u for u in _uses(i, _BITCAST, _SLICE) if u.path)):
        if _array(use):
            return


def _maximum(i: HloInstruction) -> None:
    for use in _uses(i, _SLICE | _BITCAST):
        if _relu(use):
            return


_BY_OPCODE: Final[dict[O, Callable[[HloInstruction], None]]] = {
    O.DOT: _call,
    O.MULTIPLY: _multiply,
    O.ADD: _add,
    O.MAXIMUM: _maximum,
}


def _most_workspace(device: GpuDevice) -> int:
    return _HOPPER_WORKSPACE if device.architecture.capability >= _HOPPER else _WORKSPACE


@reason("dot => cuBLAS call, with workspace memory")
def _give_workspace(call: HloInstruction, most: int) -> None:
    """Give calls a workspace; legacy calls get no more than their operands' size."""
    c = call.parent
    if call.get("custom_call_target") == cublas_gemm.GEMM:
        most = min(most, sum(o.array_shape.byte_size for o in call.operands))
    made = c.clone_instruction(call, call.operands, tuple_of((call.shape, array(T.S8, (most,)))))
    if call.attributes.get("output_to_operand_aliasing"):
        c.update(made, attributes={"output_to_operand_aliasing": "{{0}: (2, {})}"})
    c.replace(call, c.add(O.GET_TUPLE_ELEMENT, (made,), call.shape, metadata=call.metadata, index=0))
