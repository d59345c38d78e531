"""Simplify algebra by the rules of this folder (XLA's algsimp).

    a = f32[8] add(x, broadcast(0))    =>    x

Walks over each computation, operands before users, with at most one rewrite per instruction, until
a walk changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.base import HloPass, has_layouts
from xlanb.transforms.rules import RuleSet
from xlanb.transforms.verdict import REAL

_FILES: Mapping[str, tuple[O, ...]] = {
    "arithmetic": (O.ABS, O.ADD, O.MAXIMUM, O.MINIMUM, O.MULTIPLY, O.NEGATE, O.SUBTRACT),
    "division": (O.DIVIDE, O.REMAINDER),
    "power": (
        O.CEIL,
        O.COMPLEX,
        O.COPY,
        O.FLOOR,
        O.IMAG,
        O.LOG,
        O.POWER,
        O.REAL,
        O.ROUND_NEAREST_AFZ,
        O.ROUND_NEAREST_EVEN,
        O.RSQRT,
        O.SIGN,
        O.SQRT,
    ),
    "logic": (O.AND, O.NOT, O.OR, O.SHIFT_LEFT, O.SHIFT_RIGHT_ARITHMETIC, O.SHIFT_RIGHT_LOGICAL, O.XOR),
    "compare_select": (O.CLAMP, O.COMPARE, O.SELECT),
    "convert": (O.BITCAST_CONVERT, O.CONVERT, O.REDUCE_PRECISION),
    "reshape_transpose": (O.BITCAST, O.COPY, O.RESHAPE, O.REVERSE, O.TRANSPOSE),
    "broadcast": (O.BROADCAST, O.IOTA),
    "reduce": (O.REDUCE, O.REDUCE_WINDOW),
    "slice_pad_concat": (O.CONCATENATE, O.PAD, O.REDUCE_WINDOW, O.SLICE),
    "dynamic_slice": (O.DYNAMIC_SLICE, O.DYNAMIC_UPDATE_SLICE),
    "dot": (O.DOT,),
    "convolution": (O.CONVOLUTION,),
    "constant": (O.CONSTANT,),
    "structure": (O.CONDITIONAL, O.GET_TUPLE_ELEMENT, O.MAP, O.SORT),
}
"""The files of rules in order, with the opcodes that their rules rewrite."""

RULES = RuleSet("algsimp", parts={f"{__package__}.{file}:{file.upper()}": opcodes for file, opcodes in _FILES.items()})

_SWEEPS = 25
"""XLA's limit on the iterations to a fixed point."""


@dataclass(frozen=True)
class AlgebraicSimplifier(HloPass):
    """Applies the rules of algebraic simplification.

    Attributes:
        is_layout_sensitive: a replacement must have exactly the same layout, and a reshape or
            transpose that moves no bytes becomes a bitcast. None: true if the module has fusions or
            bitcasts, which appear only after layout assignment.
        reassociates_floats: fold the constants of `(x * 2.5) * 3.5`. XLA:CPU in JAX 0.12 folds only
            those of integers.
        inverts_divisors: compute the inverse of a broadcast divisor once and multiply by it.
            XLA:GPU divides each element.
        inverts_narrow_constants: multiply by the inverse of a constant also in types narrower than
            32 bits, which rounds twice.
        sweeps: the maximum number of walks; 1 if a surrounding pipeline runs to a fixed point, as
            XLA:GPU's does.
    """

    name = "algsimp"
    keeps = REAL
    is_layout_sensitive: bool | None = None
    reassociates_floats: bool = True
    inverts_divisors: bool = True
    inverts_narrow_constants: bool = False
    sweeps: int = _SWEEPS

    def apply(self, module: HloModule) -> None:
        options = self
        if self.is_layout_sensitive is None:
            options = replace(self, is_layout_sensitive=has_layouts(module))
        for c in nonfusion_computations(module):
            if self.sweeps == 1:
                RULES.walk(c, options)
            else:
                RULES.run(c, options, self.sweeps)
