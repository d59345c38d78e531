"""Prove both sides of a rewrite equal, as terms per element, for all inputs at once.

Three algebras. `Free`: equal terms are the same operations on the same operands, so they have the
same bits in every type (sums of two and products commute, a - b is a + -b, -(-a) is a). `Reals`
(SymPy): equality over the real numbers. `Bits` (Z3): integers of their width that wrap around, with
HLO's results for division by zero and shifts by too much.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from xlanb.hlo import HloComputation, HloInstruction, HloModule, HloOpcode
from xlanb.hlo import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import ArrayShape

T = PrimitiveType
MILLISECONDS = 3000
"""The time limit of Z3 for one element."""
_MOST = 400
"""The most elements of a value that is made of terms."""


class UnprovableError(Exception):
    """An instruction, a constant or a size that the algebra does not support."""


class Algebra(ABC):
    """The elements, and how an opcode combines them."""

    @abstractmethod
    def symbol(self, name: str, kind: PrimitiveType) -> Any:
        """An element of a parameter."""

    @abstractmethod
    def number(self, value: Any, kind: PrimitiveType) -> Any:
        """An element of a constant."""

    @abstractmethod
    def apply(self, i: HloInstruction, args: Sequence[Any]) -> Any:
        """An elementwise opcode over one element of each operand."""

    @abstractmethod
    def binary(self, code: HloOpcode, kind: PrimitiveType, a: Any, b: Any) -> Any:
        """`code` of two elements, for reductions."""

    @abstractmethod
    def equal(self, a: Any, b: Any) -> bool:
        """Whether two terms are known to be equal for all inputs."""


class Free(Algebra):
    """Terms that are equal if written alike; stored as numbers of a table."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], int] = {}
        self._of: list[tuple[Any, ...]] = []

    def _term(self, *parts: Any) -> int:
        if parts not in self._known:
            self._known[parts] = len(self._of)
            self._of.append(parts)
        return self._known[parts]

    def symbol(self, name: str, kind: PrimitiveType) -> int:
        return self._term("symbol", name, kind)

    def number(self, value: Any, kind: PrimitiveType) -> int:
        return self._term("number", np.asarray(value, kind.dtype).tobytes(), kind)

    def apply(self, i: HloInstruction, args: Sequence[int]) -> int:
        kind = i.shape.element_type
        if i.opcode is O.NEGATE:
            inner = self._of[args[0]]
            return int(inner[3][0]) if inner[0] is O.NEGATE else self._term(O.NEGATE, kind, "", tuple(args))
        if len(args) == 2 and i.opcode in (O.ADD, O.SUBTRACT, O.MULTIPLY):
            return self.binary(i.opcode, kind, *args)
        return self._term(i.opcode, kind, str(sorted(map(str, i.attributes.items()))), tuple(args))

    def binary(self, code: HloOpcode, kind: PrimitiveType, a: int, b: int) -> int:
        if code is O.SUBTRACT:
            inner = self._of[b]
            b = int(inner[3][0]) if inner[0] is O.NEGATE else self._term(O.NEGATE, kind, "", (b,))
            code = O.ADD
        return self._term(code, kind, "", tuple(sorted((a, b))) if code.is_commutative else (a, b))

    def equal(self, a: int, b: int) -> bool:
        return a == b


class Reals(Algebra):
    """SymPy's expressions over real symbols."""

    def __init__(self) -> None:
        import sympy

        self.sympy = sympy

    def symbol(self, name: str, kind: PrimitiveType) -> Any:
        if not kind.is_floating:
            raise UnprovableError(kind)
        return self.sympy.Symbol(name, real=True)

    def number(self, value: Any, kind: PrimitiveType) -> Any:
        if not kind.is_floating or not np.isfinite(float(value)):
            raise UnprovableError(value)
        return self.sympy.Rational(float(value))

    def apply(self, i: HloInstruction, args: Sequence[Any]) -> Any:
        s = self.sympy
        unary: dict[HloOpcode, Callable[[Any], Any]] = {
            O.NEGATE: lambda a: -a,
            O.ABS: s.Abs,
            O.EXPONENTIAL: s.exp,
            O.LOG: s.log,
            O.SQRT: s.sqrt,
            O.RSQRT: lambda a: 1 / s.sqrt(a),
            O.CONVERT: lambda a: a,
        }
        if len(args) == 1 and i.opcode in unary:
            return unary[i.opcode](args[0])
        if len(args) == 2:
            return self.binary(i.opcode, i.shape.element_type, *args)
        raise UnprovableError(i.opcode)

    def binary(self, code: HloOpcode, kind: PrimitiveType, a: Any, b: Any) -> Any:
        del kind
        known: dict[HloOpcode, Callable[[Any, Any], Any]] = {
            O.ADD: lambda x, y: x + y,
            O.SUBTRACT: lambda x, y: x - y,
            O.MULTIPLY: lambda x, y: x * y,
            O.DIVIDE: lambda x, y: x / y,
            O.POWER: lambda x, y: x**y,
            O.MAXIMUM: self.sympy.Max,
            O.MINIMUM: self.sympy.Min,
        }
        if code not in known:
            raise UnprovableError(code)
        made = known[code](a, b)
        if made.has(self.sympy.zoo, self.sympy.nan, self.sympy.oo):
            raise UnprovableError("a division by zero")
        return made

    def equal(self, a: Any, b: Any) -> bool:
        if a == b or self.sympy.expand(a - b) == 0:
            return True
        return bool(self.sympy.simplify(a - b) == 0)


class Bits(Algebra):
    """Z3's bit vectors, and its booleans for predicates."""

    def __init__(self) -> None:
        import z3

        self.z3 = z3

    def symbol(self, name: str, kind: PrimitiveType) -> Any:
        if kind is T.PRED:
            return self.z3.Bool(name)
        if not kind.is_integral:
            raise UnprovableError(kind)
        return self.z3.BitVec(name, kind.bits)

    def number(self, value: Any, kind: PrimitiveType) -> Any:
        if kind is T.PRED:
            return self.z3.BoolVal(bool(value))
        if not kind.is_integral:
            raise UnprovableError(kind)
        return self.z3.BitVecVal(int(value), kind.bits)

    def apply(self, i: HloInstruction, args: Sequence[Any]) -> Any:
        z3, code, kind = self.z3, i.opcode, i.operands[0].shape.element_type
        if code is O.SELECT:
            return z3.If(args[0], args[1], args[2])
        if code is O.COMPARE:
            return self._compare(str(i.get("direction")), kind, *args)
        if code is O.NOT:
            return z3.Not(args[0]) if kind is T.PRED else ~args[0]
        if code is O.CLAMP:
            return self.binary(O.MINIMUM, i.shape.element_type, self.binary(O.MAXIMUM, kind, args[1], args[0]), args[2])
        if code is O.CONVERT:
            return self._convert(args[0], kind, i.shape.element_type)
        if code is O.NEGATE and kind is not T.PRED:
            return -args[0]
        if code is O.ABS and kind is not T.PRED:
            return z3.If(args[0] < 0, -args[0], args[0]) if kind.is_signed else args[0]
        if len(args) == 2:
            return self.binary(code, kind, *args)
        raise UnprovableError(code)

    def _convert(self, a: Any, source: PrimitiveType, target: PrimitiveType) -> Any:
        z3 = self.z3
        if target is T.PRED or not target.is_integral:
            raise UnprovableError(target)
        if source is T.PRED:
            return z3.If(a, z3.BitVecVal(1, target.bits), z3.BitVecVal(0, target.bits))
        if target.bits <= source.bits:
            return z3.Extract(target.bits - 1, 0, a)
        return (z3.SignExt if source.is_signed else z3.ZeroExt)(target.bits - source.bits, a)

    def _compare(self, direction: str, kind: PrimitiveType, a: Any, b: Any) -> Any:
        z3 = self.z3
        if direction in ("EQ", "NE"):
            return a == b if direction == "EQ" else a != b
        if kind is T.PRED:
            one = z3.BitVecVal(1, 1), z3.BitVecVal(0, 1)
            a, b = z3.If(a, *one), z3.If(b, *one)
        less, at_most = (z3.ULT, z3.ULE) if not kind.is_signed else (lambda x, y: x < y, lambda x, y: x <= y)
        return {
            "LT": lambda: less(a, b),
            "LE": lambda: at_most(a, b),
            "GT": lambda: less(b, a),
            "GE": lambda: at_most(b, a),
        }[direction]()

    def binary(self, code: HloOpcode, kind: PrimitiveType, a: Any, b: Any) -> Any:
        z3 = self.z3
        if kind is T.PRED:
            truth = {O.AND: z3.And, O.OR: z3.Or, O.XOR: z3.Xor, O.MAXIMUM: z3.Or, O.MINIMUM: z3.And}
            if code not in truth:
                raise UnprovableError(code)
            return truth[code](a, b)
        plain: dict[HloOpcode, Callable[[], Any]] = {
            O.ADD: lambda: a + b,
            O.SUBTRACT: lambda: a - b,
            O.MULTIPLY: lambda: a * b,
            O.AND: lambda: a & b,
            O.OR: lambda: a | b,
            O.XOR: lambda: a ^ b,
            O.MAXIMUM: lambda: z3.If(self._compare("GE", kind, a, b), a, b),
            O.MINIMUM: lambda: z3.If(self._compare("LE", kind, a, b), a, b),
            # Z3 shifts in zeros (or signs) if the amount is too large, as HLO does.
            O.SHIFT_LEFT: lambda: a << b,
            O.SHIFT_RIGHT_LOGICAL: lambda: z3.LShR(a, b),
            O.SHIFT_RIGHT_ARITHMETIC: lambda: a >> b,
            # Division by zero gives all ones, the remainder the dividend; lowest / -1 wraps in Z3
            # too.
            O.DIVIDE: lambda: z3.If(b == 0, z3.BitVecVal(-1, kind.bits), a / b if kind.is_signed else z3.UDiv(a, b)),
            O.REMAINDER: lambda: z3.If(b == 0, a, z3.SRem(a, b) if kind.is_signed else z3.URem(a, b)),
        }
        if code not in plain:
            raise UnprovableError(code)
        return plain[code]()

    def equal(self, a: Any, b: Any) -> bool:
        z3 = self.z3
        solver = z3.Solver()
        solver.set("timeout", MILLISECONDS)
        solver.add(a != b)
        return bool(solver.check() == z3.unsat)


def terms(module: HloModule, algebra: Algebra) -> Any:
    """The result of a module's entry computation as an array of terms; of a tuple as a list.

    Raises:
        UnprovableError: the algebra or this interpreter does not support a part of it.
    """
    return _Terms(algebra).computation(module.entry_computation, None)


class _Terms:
    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra

    def computation(self, c: HloComputation, arguments: Sequence[Any] | None) -> Any:
        values: dict[HloInstruction, Any] = {}
        for i in c.post_order():
            if i.opcode is O.PARAMETER:
                values[i] = self._parameter(i) if arguments is None else arguments[i.parameter_number]
            elif i.shape.is_array and i.array_shape.element_count > _MOST:
                raise UnprovableError("too large")
            else:
                values[i] = self._value(i, [values[o] for o in i.operands])
        return values[c.root]

    def _parameter(self, i: HloInstruction) -> Any:
        shape = i.array_shape
        if shape.element_count > _MOST:
            raise UnprovableError("too large")
        made = np.empty(shape.dimensions, object)
        for place in np.ndindex(*shape.dimensions):
            name = f"p{i.parameter_number}_{'_'.join(map(str, place))}"
            made[place] = self.algebra.symbol(name, shape.element_type)
        return made

    def _value(self, i: HloInstruction, x: list[Any]) -> Any:
        make = getattr(self, "_" + i.opcode.text.replace("-", "_"), None)
        if make is not None:
            made = make(i, *x)
            return made if isinstance(made, (np.ndarray, list)) else _scalar(made)
        if i.opcode.is_elementwise:
            return self._lanes(i, x)
        raise UnprovableError(i.opcode)

    def _lanes(self, i: HloInstruction, x: list[Any]) -> Any:
        made = np.empty(i.array_shape.dimensions, object)
        for place in np.ndindex(*made.shape):
            made[place] = self.algebra.apply(i, [a[place] if a.shape else a[()] for a in x])
        return made

    def _numbers(self, values: Any, kind: PrimitiveType) -> Any:
        made = np.empty(np.shape(values), object)
        for place in np.ndindex(*made.shape):
            made[place] = self.algebra.number(values[place], kind)
        return made

    def _constant(self, i: HloInstruction) -> Any:
        return self._numbers(np.asarray(i.literal.array), i.shape.element_type)

    def _iota(self, i: HloInstruction) -> Any:
        shape = i.array_shape
        places = np.indices(shape.dimensions)[i.get("iota_dimension")]
        return self._numbers(places.astype(shape.dtype), shape.element_type)

    def _copy(self, i: HloInstruction, a: Any) -> Any:
        del i
        return a

    def _reshape(self, i: HloInstruction, a: Any) -> Any:
        return a.reshape(i.array_shape.dimensions)

    def _bitcast(self, i: HloInstruction, a: Any) -> Any:
        source, target = i.operands[0].array_shape, i.array_shape
        if source.element_type is not target.element_type:
            raise UnprovableError("bits")
        order = _slow_to_fast(target)
        lying = a.transpose(_slow_to_fast(source)).reshape([target.dimensions[d] for d in order])
        return lying.transpose(np.argsort(order)) if order else lying

    def _broadcast(self, i: HloInstruction, a: Any) -> Any:
        dims, order = i.array_shape.dimensions, np.argsort(i.dimensions)
        spread = [1] * len(dims)
        for d, n in zip(i.dimensions, a.shape, strict=True):
            spread[d] = n
        return np.broadcast_to(a.transpose(order).reshape(spread) if a.ndim else a, dims)

    def _transpose(self, i: HloInstruction, a: Any) -> Any:
        return a.transpose(i.dimensions)

    def _reverse(self, i: HloInstruction, a: Any) -> Any:
        return np.flip(a, i.dimensions)

    def _slice(self, i: HloInstruction, a: Any) -> Any:
        return a[tuple(slice(x.start, x.limit, x.stride) for x in i.attributes["slice"])]

    def _concatenate(self, i: HloInstruction, *x: Any) -> Any:
        return np.concatenate(x, i.dimensions[0])

    def _tuple(self, i: HloInstruction, *x: Any) -> Any:
        del i
        return list(x)

    def _get_tuple_element(self, i: HloInstruction, x: Any) -> Any:
        return x[i.tuple_index]

    def _reduce(self, i: HloInstruction, a: Any, init: Any, *more: Any) -> Any:
        if more:
            raise UnprovableError("a reduction of several arrays")
        kept = [d for d in range(a.ndim) if d not in i.dimensions]
        rows = a.transpose([*kept, *sorted(i.dimensions)])
        made = np.empty(i.array_shape.dimensions, object)
        for place in np.ndindex(*made.shape):
            total = init
            for term in rows[place].ravel() if isinstance(rows[place], np.ndarray) else [rows[place]]:
                total = self.computation(i.to_apply, [total, _scalar(term)])
            made[place] = total[()]
        return made

    def _map(self, i: HloInstruction, *x: Any) -> Any:
        made = np.empty(i.array_shape.dimensions, object)
        for place in np.ndindex(*made.shape):
            made[place] = self.computation(i.to_apply, [_scalar(a[place]) for a in x])[()]
        return made

    def _dot(self, i: HloInstruction, a: Any, b: Any) -> Any:
        sides = []
        for x, side in ((a, "lhs"), (b, "rhs")):
            batch, contracted = i.ints(f"{side}_batch_dims"), i.ints(f"{side}_contracting_dims")
            free = [d for d in range(x.ndim) if d not in batch and d not in contracted]
            rows = x.transpose([*batch, *free, *contracted])
            sizes = [[x.shape[d] for d in group] for group in (batch, free, contracted)]
            sides.append(rows.reshape([int(np.prod(s, dtype=int)) for s in sizes]))
        left, right = sides
        made = np.empty((left.shape[0], left.shape[1], right.shape[1]), object)
        for n, j, k in itertools.product(*map(range, made.shape)):
            made[n, j, k] = self._sum_of_products(i.shape.element_type, left[n, j], right[n, k])
        return made.reshape(i.array_shape.dimensions)

    def _sum_of_products(self, kind: PrimitiveType, x: Any, y: Any) -> Any:
        total = None
        for a, b in zip(x, y, strict=True):
            product = self.algebra.binary(O.MULTIPLY, kind, a, b)
            total = product if total is None else self.algebra.binary(O.ADD, kind, total, product)
        return self.algebra.number(0, kind) if total is None else total

    def _convolution(self, i: HloInstruction, a: Any, b: Any) -> Any:
        n, window = i.attributes["dim_labels"], i.window.dimensions
        groups = i.get("feature_group_count") == i.get("batch_group_count") == 1
        if not groups or any(
            (d.size, d.stride, d.padding_low, d.padding_high, d.base_dilation) != (1, 1, 0, 0, 1) for d in window
        ):
            raise UnprovableError("windows of more than one element")
        image = a.transpose([n.input_batch, *n.input_spatial, n.input_feature])
        kernel = b.transpose([*n.kernel_spatial, n.kernel_output_feature, n.kernel_input_feature])
        kernel = kernel.reshape(kernel.shape[-2:])
        made = np.empty((*image.shape[:-1], kernel.shape[0]), object)
        for place in np.ndindex(*made.shape):
            made[place] = self._sum_of_products(i.shape.element_type, image[place[:-1]], kernel[place[-1]])
        return made.transpose(np.argsort([n.output_batch, *n.output_spatial, n.output_feature]))


def _scalar(term: Any) -> Any:
    made = np.empty((), object)
    made[()] = term
    return made


def _slow_to_fast(shape: ArrayShape) -> list[int]:
    return list(reversed(shape.minor_to_major))


def are_equal(before: HloModule, after: HloModule, algebra: Algebra) -> bool | None:
    """Whether two modules provably give equal results for all inputs; None if unsupported."""
    try:
        x, y = terms(before, algebra), terms(after, algebra)
        return all(_equal(a, b, algebra) for a, b in _pairs(x, y))
    except UnprovableError:
        return None


def _pairs(x: Any, y: Any) -> list[tuple[Any, Any]]:
    return [p for a, b in zip(x, y, strict=True) for p in _pairs(a, b)] if isinstance(x, list) else [(x, y)]


def _equal(a: Any, b: Any, algebra: Algebra) -> bool:
    return a.shape == b.shape and all(algebra.equal(s, t) for s, t in zip(a.ravel(), b.ravel(), strict=True))


def algebra_of(name: str) -> Algebra | None:
    """The algebra "free", "reals" or "bits"; None without its library (extra `prove`)."""
    if name == "free":
        return Free()
    if name == "reals":
        return Reals() if find_spec("sympy") else None
    return Bits() if find_spec("z3") else None
