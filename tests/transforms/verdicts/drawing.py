"""Draw random modules that a rule's pattern matches.

They are drawn from the root down, each instruction with the shape and type that its user needs.
Operands that a pattern leaves open become a parameter, a constant, or an instruction that rules
check for (a broadcast scalar, an iota, exp, a square). Whether the guards hold too is found by
trying.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.numeric_values import some_of
from xlanb.hlo import HloInstruction, HloModule, HloOpcode
from xlanb.hlo import HloOpcode as O
from xlanb.hlo.attributes import ConvolutionDimensionNumbers, PaddingDimension, SliceDimension, Window, WindowDimension
from xlanb.hlo.regions import binary_region, comparator
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.transforms.match import Anything, ConstantPattern, OpPattern, Pattern

T = PrimitiveType
Dims = tuple[int, ...]
SIZES = (0, 1, 1, 2, 3, 4)
_LOGIC = (O.AND, O.OR, O.XOR, O.NOT)
_SHIFTS = (O.SHIFT_LEFT, O.SHIFT_RIGHT_ARITHMETIC, O.SHIFT_RIGHT_LOGICAL)
_ORDERS = (O.MAXIMUM, O.MINIMUM, O.CLAMP)
_PARTS = {T.F32: T.C64, T.F64: T.C128}
_WHOLES = {v: k for k, v in _PARTS.items()}
_REDUCERS = (O.ADD, O.MULTIPLY, O.MAXIMUM, O.MINIMUM, O.AND, O.OR)


def moderate_values(kind: PrimitiveType, rng: np.random.Generator, count: int) -> Any:
    """Floats (complex numbers) between 1/2 and 2 in magnitude, of either sign."""
    drawn = rng.uniform(0.5, 2, count) * rng.choice((-1, 1), count)
    if kind.is_complex:
        drawn = drawn + 1j * rng.uniform(0.5, 2, count) * rng.choice((-1, 1), count)
    return drawn.astype(kind.dtype)


class RedrawError(Exception):
    """The drawing so far fits nothing: start again."""


class Drawing:
    """One random module of a pattern, with values of element type `kind`.

    Args:
        kind: the element type of most values.
        rng: the source of every choice.
        plain: open operands become only parameters, scalar constants, exp and squares, nothing that
            moves elements.
        moderate: floating-point constants have magnitudes between 1/2 and 2, so that nothing
            overflows.
        constants: values for the pattern's own constants, in order, instead of random ones.
    """

    def __init__(
        self,
        kind: PrimitiveType,
        rng: np.random.Generator,
        *,
        plain: bool = False,
        moderate: bool = False,
        constants: Sequence[Any] = (),
    ) -> None:
        self.kind, self.rng, self.plain, self.moderate = kind, rng, plain, moderate
        self.constants = list(constants)
        self.open_constants = 0
        self.module = HloModule("drawn")
        self.regions: dict[Any, Any] = {}
        self.entry = self.module.add_computation("main", entry=True)
        self.made: dict[str, HloInstruction] = {}

    def of(self, pattern: Pattern, dims: Dims) -> HloModule:
        """The module whose root matches the pattern.

        Raises:
            RedrawError, XlanbError: this drawing failed.
        """
        codes = sorted(pattern.opcodes or (), key=str)
        root = self.op(pattern, self._choice(codes), dims, self.kind)
        if not self.plain and self._often(0.25):
            root = self.user(root)
        self.entry.set_root(root)
        return self.module

    # -- choices -----------------------------------------------------------------------------------

    def _choice(self, options: Sequence[Any]) -> Any:
        if not options:
            raise RedrawError
        return options[int(self.rng.integers(len(options)))]

    def _often(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _some_dims(self, low: int = 0, high: int = 3) -> Dims:
        return tuple(int(self._choice(SIZES)) for _ in range(int(self.rng.integers(low, high + 1))))

    def _permutation(self, n: int) -> list[int]:
        if self._often(0.3):
            return list(range(n))
        return [int(d) for d in self.rng.permutation(n)]

    # -- leaves ------------------------------------------------------------------------------------

    def parameter(self, dims: Dims, kind: PrimitiveType, name: str = "p") -> HloInstruction:
        number = len(self.entry.parameters)
        shape = array(kind, dims)
        if dims and not self.plain and self._often(0.3):
            shape = shape.with_layout(self._permutation(len(dims)))
        return self.entry.add(O.PARAMETER, (), shape, name=name, parameter_number=number)

    def scalar(self, kind: PrimitiveType, value: float | None = None) -> HloInstruction:
        with np.errstate(all="ignore"):
            drawn = some_of(kind.text, self.rng, 1)[0] if value is None else np.asarray(value).astype(kind.dtype)
            if value is None and self._often(0.3):
                drawn = np.asarray(self._choice((0, 1, -1, 2, 4, 3))).astype(kind.dtype)
            if value is None and self.moderate and not kind.is_integral and kind is not T.PRED:
                drawn = moderate_values(kind, self.rng, 1)[0]
        return self.entry.constant(np.asarray(drawn, kind.dtype))

    def constant(self, dims: Dims, kind: PrimitiveType, value: float | None = None) -> HloInstruction:
        if dims and not self.plain and value is None and 0 not in dims and self._often(0.2):
            return self.entry.constant(self._values(dims, kind))
        scalar = self.scalar(kind, value)
        if not dims and self._often(0.8):
            return scalar
        return self.entry.add(O.BROADCAST, (scalar,), array(kind, dims), dimensions=())

    def _values(self, dims: Dims, kind: PrimitiveType) -> Any:
        count = int(np.prod(dims))
        if self.moderate and not kind.is_integral and kind is not T.PRED:
            return moderate_values(kind, self.rng, count).reshape(dims)
        how = int(self.rng.integers(3))
        if how == 0:
            return some_of(kind.text, self.rng, count).reshape(dims)
        step = 0 if how == 1 else int(self._choice((1, 1, 2, -3)))
        return (3 * (how == 1) + step * np.arange(count)).reshape(dims).astype(kind.dtype)

    def free(self, dims: Dims, kind: PrimitiveType, name: str = "p") -> HloInstruction:
        """An instruction for an open operand of a pattern."""
        if self._often(0.6 if not self.plain else 0.85):
            return self.parameter(dims, kind, name)
        makers: list[Callable[[], HloInstruction]] = [lambda: self.constant(dims, kind)]
        if not kind.is_complex and kind is not T.PRED and dims and not self.plain:
            makers.append(lambda: self.draw_iota(None, dims, kind))
        if kind.is_floating:
            makers.append(lambda: self._unary(O.EXPONENTIAL, dims, kind))
            makers.append(lambda: self._square(dims, kind))
        if not self.plain:
            makers += [
                lambda: self.draw_broadcast(None, dims, kind),
                lambda: self.draw_slice(None, dims, kind),
                lambda: self.entry.add(O.BROADCAST, (self.parameter((), kind),), array(kind, dims), dimensions=()),
            ]
        made: HloInstruction = self._choice(makers)()
        return made

    def _unary(self, code: HloOpcode, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        return self.entry.add(code, (self.parameter(dims, kind),))

    def _square(self, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        a = self.parameter(dims, kind)
        return self.entry.add(O.MULTIPLY, (a, a))

    def user(self, root: HloInstruction) -> HloInstruction:
        """A user of the root, since some rules rewrite the users of what they match."""
        if not root.shape.is_array:
            return root
        dims, kind = root.array_shape.dimensions, root.shape.element_type
        if root.opcode is O.BROADCAST and self._often(0.7):
            if root.dimensions or not dims or self._often(0.3):
                other = self.parameter(root.operands[0].array_shape.dimensions, kind)
                beside = self.entry.add(O.BROADCAST, (other,), array(kind, dims), dimensions=root.dimensions)
                return self.entry.add(self._choice(self.binaries(kind)), (root, beside))
            k = int(self.rng.integers(4))
            if k == 0:
                return self.entry.add(O.REVERSE, (root,), dimensions=tuple(range(len(dims))))
            if k == 1:
                return self.entry.add(O.TRANSPOSE, (root,), dimensions=tuple(self._permutation(len(dims))))
            if k == 2:
                return self.entry.add(O.RESHAPE, (root,), array(kind, (int(np.prod(dims)),)))
            boxes = tuple(SliceDimension(n // 2, n) for n in dims)
            return self.entry.add(O.SLICE, (root,), slice=boxes)
        return self.entry.add(O.TUPLE, (root,))

    def binaries(self, kind: PrimitiveType) -> tuple[HloOpcode, ...]:
        """Binary opcodes for a type."""
        if kind is T.PRED:
            return (O.AND, O.OR, O.XOR)
        if kind.is_complex:
            return (O.ADD, O.SUBTRACT, O.MULTIPLY)
        return (O.ADD, O.SUBTRACT, O.MULTIPLY, O.MAXIMUM)

    # -- patterns ----------------------------------------------------------------------------------

    def pattern(self, p: Pattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        """An instruction that matches a pattern, with a given shape."""
        if p is None:
            return self.free(dims, kind)
        name = getattr(p, "name", "")
        if name and name in self.made:
            known = self.made[name]
            if known.shape.without_layout() != array(kind, dims).without_layout():
                raise RedrawError
            return known
        if isinstance(p, ConstantPattern):
            new = self._of_pattern(p, dims, kind)
        elif isinstance(p, Anything):
            new = self.free(dims, kind, p.name)
        else:
            new = self.op(p, self._choice(sorted(p.opcodes or (), key=str)), dims, kind)
        if name:
            self.made[name] = new
        return new

    def _of_pattern(self, p: ConstantPattern, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        if p.value is not None:
            is_zero = p.value == 0 and kind.is_floating and self._often(0.3)
            return self.constant(dims, kind, -0.0 if is_zero else p.value)
        self.open_constants += 1
        made = self.constant(dims, kind)
        if not self.constants:
            return made
        self.entry.remove_dead(made)
        scalar = self.entry.constant(np.asarray(self.constants.pop(0), kind.dtype))
        return self.entry.add(O.BROADCAST, (scalar,), array(kind, dims), dimensions=()) if dims else scalar

    def op(self, p: Pattern, code: HloOpcode, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        """An instruction of an opcode with operands that match a pattern's."""
        assert isinstance(p, OpPattern)
        if (code in _SHIFTS and not kind.is_integral) or (code in _ORDERS and kind.is_complex):
            raise RedrawError  # the verifier accepts them, but they have no value
        if code in _LOGIC and not (kind.is_integral or kind is T.PRED):
            raise RedrawError
        make = getattr(self, f"draw_{code.text.replace('-', '_')}", None)
        made = make(p, dims, kind) if make is not None else self.elementwise(p, code, dims, kind)
        assert isinstance(made, HloInstruction)
        if p.name:
            self.made[p.name] = made
        return made

    def inner(self, p: OpPattern | None, k: int, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        """Operand k of an instruction that matches a pattern."""
        return self.pattern(p.operands[k] if p is not None and p.operands is not None else None, dims, kind)

    # -- elementwise -------------------------------------------------------------------------------

    def elementwise(self, p: OpPattern, code: HloOpcode, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        kinds = self._operand_kinds(code, kind)
        if code is O.CLAMP and kind.is_integral and self._often(0.3):
            self.constants = [ml_dtypes.iinfo(kind.dtype).min, ml_dtypes.iinfo(kind.dtype).max]
        count = len(p.operands) if p.operands is not None else (code.arity or 1)
        if p.operands is not None and count == 2 and code.is_commutative and self._often(0.5):
            second = self.inner(p, 1, dims, kinds[-1])
            operands = [second, self.inner(p, 0, dims, kinds[0])]
        else:
            operands = [self.inner(p, k, dims, kinds[min(k, len(kinds) - 1)]) for k in range(count)]
        attributes: dict[str, Any] = {}
        if code is O.COMPARE:
            only_equal = kind.is_complex
            attributes = {
                "direction": self._choice(("EQ", "NE") if only_equal else ("EQ", "NE", "LT", "LE", "GT", "GE"))
            }
        if code is O.REDUCE_PRECISION:
            attributes = {"exponent_bits": int(self._choice((4, 5, 8))), "mantissa_bits": int(self._choice((2, 3, 10)))}
        if code in (O.CONVERT, O.BITCAST_CONVERT):
            return self.entry.add(code, operands, array(kind, dims))
        if code is O.CLAMP and self._often(0.3) and dims and not self.plain:
            raise RedrawError
        if code is O.ABS and kind.is_unsigned:
            # its shape is not inferred, and rules match it
            return self.entry.add(code, operands, array(kind, dims))
        return self.entry.add(code, operands, **attributes)

    def _operand_kinds(self, code: HloOpcode, kind: PrimitiveType) -> list[PrimitiveType]:
        if code is O.COMPARE:
            return [kind, kind]
        if code is O.SELECT:
            return [T.PRED, kind, kind]
        if code in (O.REAL, O.IMAG):
            return [_PARTS[kind]] if kind in _PARTS else [kind]
        if code is O.COMPLEX:
            return [_WHOLES[kind]] * 2 if kind in _WHOLES else [kind, kind]
        if code is O.ABS and kind in _PARTS and self._often(0.3):
            return [_PARTS[kind]]
        if code is O.CONVERT:
            return [self._choice((kind, kind, T.PRED, T.S8, T.U8, T.S32, T.F16, T.BF16, T.F32, T.F64, self.kind))]
        if code is O.BITCAST_CONVERT:
            if kind.is_complex:
                raise RedrawError
            return [
                self._choice([t for t in T if t.bits == kind.bits and t is not T.PRED and not t.is_complex and t.bits])
            ]
        return [kind]

    # -- movement ----------------------------------------------------------------------------------

    def draw_reshape(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        return self.entry.add(O.RESHAPE, (self.inner(p, 0, self._refactored(dims), kind),), self._shape(dims, kind))

    def draw_bitcast(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        a = self.inner(p, 0, self._refactored(dims), kind)
        if not a.array_shape.layout or not a.array_shape.layout.is_default:
            raise RedrawError
        return self.entry.add(O.BITCAST, (a,), array(kind, dims))

    def draw_copy(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        return self.entry.add(O.COPY, (self.inner(p, 0, dims, kind),), self._shape(dims, kind))

    def _shape(self, dims: Dims, kind: PrimitiveType) -> Any:
        shape = array(kind, dims)
        return shape.with_layout(self._permutation(len(dims))) if dims and self._often(0.3) else shape

    def _refactored(self, dims: Dims) -> Dims:
        """Other dimensions with as many elements: merged, split, with ones inserted or removed."""
        made = list(dims)
        for _ in range(int(self.rng.integers(4))):
            how = int(self.rng.integers(4))
            if how == 0:
                made.insert(int(self.rng.integers(len(made) + 1)), 1)
            elif how == 1 and 1 in made:
                made.remove(1)
            elif how == 2 and len(made) > 1:
                k = int(self.rng.integers(len(made) - 1))
                made[k : k + 2] = [made[k] * made[k + 1]]
            elif how == 3 and any(n > 2 and n % 2 == 0 for n in made):
                k = next(k for k, n in enumerate(made) if n > 2 and n % 2 == 0)
                made[k : k + 1] = [2, made[k] // 2] if self._often(0.5) else [made[k] // 2, 2]
        return tuple(made)

    def draw_transpose(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        order = self._permutation(len(dims))
        source = [0] * len(dims)
        for place, d in enumerate(order):
            source[d] = dims[place]
        a = self.inner(p, 0, tuple(source), kind)
        if self._often(0.3):
            layout = [order.index(d) for d in a.array_shape.minor_to_major]
            return self.entry.add(O.TRANSPOSE, (a,), array(kind, dims).with_layout(layout), dimensions=tuple(order))
        return self.entry.add(O.TRANSPOSE, (a,), self._shape(dims, kind), dimensions=tuple(order))

    def draw_broadcast(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        kept = [d for d in self._permutation(len(dims)) if self._often(0.6)]
        if self._often(0.5):
            kept.sort()
        if self._often(0.2):
            kept = []
        a = self.inner(p, 0, tuple(dims[d] for d in kept), kind)
        return self.entry.add(O.BROADCAST, (a,), self._shape(dims, kind), dimensions=tuple(kept))

    def draw_iota(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        del p
        if not dims or kind is T.PRED or kind.is_complex:
            raise RedrawError
        return self.entry.add(O.IOTA, (), array(kind, dims), iota_dimension=int(self.rng.integers(len(dims))))

    def draw_constant(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        del p
        if 0 in dims:
            raise RedrawError
        return self.entry.constant(self._values(dims, kind))

    def draw_reverse(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        turned = tuple(d for d in range(len(dims)) if self._often(0.6))
        return self.entry.add(O.REVERSE, (self.inner(p, 0, dims, kind),), dimensions=turned)

    def draw_slice(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        boxes, sizes = [], []
        whole, plain, front = self._often(0.2), self._often(0.4), self._often(0.2)
        for k, n in enumerate(dims):
            if whole or (front and k):
                boxes.append(SliceDimension(0, n))
                sizes.append(n)
                continue
            stride = 1 if plain or front else int(self._choice((1, 1, 2, 3)))
            start = 0 if front else int(self._choice((0, 0, 1, 2)))
            limit = start + max(0, (n - 1) * stride + 1 if n else 0)
            if stride > 1 and n and self._often(0.3):
                limit += 1
            boxes.append(SliceDimension(start, limit, stride))
            sizes.append(limit + int(self._choice((0, 0, 1, 2))))
        return self.entry.add(O.SLICE, (self.inner(p, 0, tuple(sizes), kind),), slice=tuple(boxes))

    def draw_pad(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        rows, sizes = [], []
        nothing, cut, empty = self._often(0.15), self._often(0.2), self._often(0.1)
        for n in dims:
            if nothing or self._often(0.3):
                rows.append(PaddingDimension())
                sizes.append(n)
                continue
            size = n + int(self._choice((0, 1, 2))) if cut else 0 if empty else int(self._choice((1, 1, 2, n)))
            interior = 0 if cut else int(self._choice((0, 0, 1, 2)))
            spread = size + max(0, size - 1) * interior
            low = -int(self.rng.integers(size - n + 1)) if cut else int(self._choice((0, 1, -1)))
            rows.append(PaddingDimension(low, n - spread - low, interior))
            sizes.append(size)
        a = self.inner(p, 0, tuple(sizes), kind)
        return self.entry.add(O.PAD, (a, self.inner(p, 1, (), kind)), array(kind, dims), padding=tuple(rows))

    def draw_concatenate(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        if not dims:
            raise RedrawError
        d = int(self.rng.integers(len(dims)))
        count = len(p.operands) if p is not None and p.operands is not None else int(self._choice((1, 2, 2, 3)))
        if (p is None or p.operands is None) and (special := self._alike(dims, d, kind)):
            return special
        cuts = sorted(int(self.rng.integers(dims[d] + 1)) for _ in range(count - 1))
        sizes = [b - a for a, b in zip([0, *cuts], [*cuts, dims[d]], strict=True)]
        parts = [(*dims[:d], n, *dims[d + 1 :]) for n in sizes]
        operands = [self.inner(p, k, part, kind) if p else self.free(part, kind) for k, part in enumerate(parts)]
        return self.entry.add(O.CONCATENATE, operands, array(kind, dims), dimensions=(d,))

    def _alike(self, dims: Dims, d: int, kind: PrimitiveType) -> HloInstruction | None:
        """Concatenations that rules match.

        Of one operand, of adjacent slices, of broadcasts of one scalar, of concatenations.
        """
        how, n = int(self.rng.integers(8)), dims[d]
        shape = array(kind, dims)
        if how == 0 and n > 1:
            a = self.parameter((*dims[:d], 1, *dims[d + 1 :]), kind)
            return self.entry.add(O.CONCATENATE, (a,) * n, shape, dimensions=(d,))
        if how == 1 and n > 1:
            first = int(self.rng.integers(1, n))
            a = self.parameter((*dims[:d], n + 2, *dims[d + 1 :]), kind)
            ends = [(1, 1 + first), (1 + first, 1 + n)]
            boxes = [
                tuple(SliceDimension(*e) if k == d else SliceDimension(0, s) for k, s in enumerate(dims)) for e in ends
            ]
            return self.entry.add(
                O.CONCATENATE, [self.entry.add(O.SLICE, (a,), slice=box) for box in boxes], shape, dimensions=(d,)
            )
        if how == 2:
            first, a = n // 2, self.parameter((), kind)
            sizes = [(*dims[:d], s, *dims[d + 1 :]) for s in (first, n - first)]
            filled = [self.entry.add(O.BROADCAST, (a,), array(kind, s), dimensions=()) for s in sizes]
            return self.entry.add(O.CONCATENATE, filled, shape, dimensions=(d,))
        if how == 3 and n > 1:
            inner = self.draw_concatenate(None, (*dims[:d], n - 1, *dims[d + 1 :]), kind)
            if inner.dimensions != (d,):
                raise RedrawError
            both = [inner, self.parameter((*dims[:d], 1, *dims[d + 1 :]), kind)]
            return self.entry.add(O.CONCATENATE, both if self._often(0.5) else both[::-1], shape, dimensions=(d,))
        return None

    def draw_dynamic_slice(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        sizes = self._larger(dims)
        a = self.inner(p, 0, sizes, kind) if p is not None and p.operands else self.free(sizes, kind)
        return self.entry.add(
            O.DYNAMIC_SLICE, (a, *self._starts(len(dims))), array(kind, dims), dynamic_slice_sizes=dims
        )

    def _larger(self, dims: Dims) -> Dims:
        add = (0,) if self._often(0.3) else (0, 1, 2)
        return tuple(n + int(self._choice(add)) for n in dims)

    def _starts(self, count: int) -> list[HloInstruction]:
        t = self._choice((T.S32, T.S64, T.U32))
        if self._often(0.4):
            return [self.entry.constant(np.asarray(self._choice((0, 1, 2, 7)), t.dtype)) for _ in range(count)]
        return [self.parameter((), t, "start") for _ in range(count)]

    def draw_dynamic_update_slice(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        del p
        whole = self._often(0.2)
        update = dims if whole else tuple(int(self.rng.integers(n + 1)) for n in dims)
        starts = self._starts(len(dims))
        if self._often(0.2) and kind:
            spread = self.entry.add(O.BROADCAST, (self.scalar(kind),), array(kind, dims), dimensions=())
            return self.entry.add(O.DYNAMIC_UPDATE_SLICE, (spread, self.parameter(update, kind), *starts))
        a = self.parameter(dims, kind)
        back = self._often(0.3)
        b = (
            self.entry.add(O.DYNAMIC_SLICE, (a, *starts), array(kind, update), dynamic_slice_sizes=update)
            if back
            else self.parameter(update, kind)
        )
        return self.entry.add(O.DYNAMIC_UPDATE_SLICE, (a, b, *starts))

    def draw_sort(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        if not dims or kind.is_complex:
            raise RedrawError
        d = int(self.rng.integers(len(dims)))
        region = comparator(self.module, self.regions, "LT", [kind])
        return self.entry.add(O.SORT, (self.inner(p, 0, dims, kind),), dimensions=(d,), to_apply=region)

    def draw_get_tuple_element(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        del p
        parts = [self.parameter(self._some_dims(), kind), self.parameter(dims, kind)]
        made = self.entry.add(O.TUPLE, parts, name="t")
        self.made["t"] = made
        return self.entry.add(O.GET_TUPLE_ELEMENT, (made,), index=1)

    def draw_conditional(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        which = self.entry.add(O.CONVERT, (self.parameter((), T.PRED),), array(T.S32))
        branches = []
        for name in ("kept", "reversed"):
            branch = self.module.add_computation(name)
            given = branch.add(O.PARAMETER, (), array(kind, dims), parameter_number=0)
            other = branch.add(O.REVERSE, (given,), dimensions=tuple(range(len(dims)))) if branches else given
            branch.set_root(other)
            branches.append(branch)
        operands = (which, *(self.inner(p, k, dims, kind) for k in (1, 2)))
        return self.entry.add(O.CONDITIONAL, operands, array(kind, dims), branch_computations=tuple(branches))

    def draw_map(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        del p
        region = binary_region(self.module, self.regions, self._choice(self.binaries(kind)), kind)
        if self._often(0.5):
            region = self.module.add_computation("answer")
            for k in range(2):
                region.add(O.PARAMETER, (), array(kind), parameter_number=k)
            region.set_root(region.constant(np.asarray(some_of(kind.text, self.rng, 1)[0], kind.dtype)))
        operands = [self.parameter(dims, kind) for _ in range(2)]
        return self.entry.add(O.MAP, operands, array(kind, dims), dimensions=tuple(range(len(dims))), to_apply=region)

    # -- folds -------------------------------------------------------------------------------------

    def reducer(self, kind: PrimitiveType) -> HloOpcode:
        """The opcode of a reduction; usually the same one in a whole module."""
        if "reducer" not in self.regions:
            codes = [O.AND, O.OR] if kind is T.PRED else [O.ADD, O.ADD, O.MULTIPLY]
            codes += [] if kind is T.PRED or kind.is_complex else [O.MAXIMUM, O.MINIMUM]
            self.regions["reducer"] = self._choice(codes)
        code: HloOpcode = self.regions["reducer"]
        return code

    def start(self, p: OpPattern | None, k: int, kind: PrimitiveType) -> HloInstruction:
        """The initial value of a reduction; usually a neutral constant."""
        if (p is not None and p.operands is not None and isinstance(p.operands[k], ConstantPattern)) or self._often(
            0.3
        ):
            return self.inner(p, k, (), kind)
        ends = {O.MAXIMUM: -np.inf, O.MINIMUM: np.inf} if kind.is_floating else {}
        neutral = {O.MULTIPLY: 1, O.AND: 1, **ends}.get(self.reducer(kind), 0)
        made = self.scalar(kind, neutral)
        if p is not None and p.operands is not None:
            self.made[getattr(p.operands[k], "name", "")] = made
        return made

    def draw_reduce(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        kept: list[int | None] = list(dims)
        of_ones = self.plain or self._often(0.2)
        for _ in range(int(self.rng.integers(2 if self.plain else 3))):
            kept.insert(int(self.rng.integers(len(kept) + 1)), None)
        folded = [d for d, n in enumerate(kept) if n is None]
        sizes = [(1 if of_ones else int(self._choice(SIZES))) if n is None else n for n in kept]
        init = self.start(p, 1, kind)
        a = self.inner(p, 0, tuple(sizes), kind)
        region = binary_region(self.module, self.regions, self.reducer(kind), kind)
        return self.entry.add(O.REDUCE, (a, init), array(kind, dims), dimensions=tuple(folded), to_apply=region)

    def draw_reduce_window(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        init = self.start(p, 1, kind)
        window = Window(tuple(WindowDimension(1) for _ in dims))
        region = binary_region(self.module, self.regions, self.reducer(kind), kind)
        return self.entry.add(O.REDUCE_WINDOW, (self.inner(p, 0, dims, kind), init), window=window, to_apply=region)

    def draw_dot(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        batch = int(self.rng.integers(len(dims) + 1))
        left = int(self.rng.integers(batch, len(dims) + 1))
        contracted = self._some_dims(0, 2)
        sides = [(*dims[:batch], *free, *contracted) for free in (dims[batch:left], dims[left:])]
        operands, attributes = [], {}
        for k, (side, name) in enumerate(zip(sides, ("lhs", "rhs"), strict=True)):
            order = self._permutation(len(side))
            place = {d: n for n, d in enumerate(order)}
            free = [place[d] for d in range(batch, len(side) - len(contracted))]
            if free != sorted(free):
                raise RedrawError
            operands.append(self.inner(p, k, tuple(side[d] for d in order), kind))
            attributes[f"{name}_batch_dims"] = tuple(place[d] for d in range(batch))
            first = len(side) - len(contracted)
            attributes[f"{name}_contracting_dims"] = tuple(place[d] for d in range(first, len(side)))
        return self.entry.add(O.DOT, operands, array(kind, dims), **attributes)

    def draw_convolution(self, p: OpPattern | None, dims: Dims, kind: PrimitiveType) -> HloInstruction:
        """A window of size 1 over an image, features last."""
        if len(dims) < 2 or 0 in dims:
            raise RedrawError
        n, features = len(dims) - 2, int(self._choice((1, 2, 3)))
        a = self.inner(p, 0, (*dims[:-1], features), kind)
        b = self.inner(p, 1, (*(1,) * n, features, dims[-1]), kind)
        places = tuple(range(1, n + 1))
        numbers = ConvolutionDimensionNumbers(0, n + 1, places, n, n + 1, tuple(range(n)), 0, n + 1, places)
        window = Window(tuple(WindowDimension(1) for _ in places))
        return self.entry.add(O.CONVOLUTION, (a, b), array(kind, dims), window=window, dim_labels=numbers)
