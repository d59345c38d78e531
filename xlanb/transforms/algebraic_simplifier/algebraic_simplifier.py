"""Simplify algebra by the rules of this folder (XLA's algsimp).

    a = f32[8] add(x, broadcast(0))    =>    x

Walks over each computation, operands before users, with at most one rewrite per instruction, until
a walk changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.module import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.algebraic_simplifier.arithmetic import ARITHMETIC
from xlanb.transforms.algebraic_simplifier.broadcast import BROADCAST
from xlanb.transforms.algebraic_simplifier.compare_select import COMPARE_SELECT
from xlanb.transforms.algebraic_simplifier.constant import CONSTANT
from xlanb.transforms.algebraic_simplifier.convert import CONVERT
from xlanb.transforms.algebraic_simplifier.convolution import CONVOLUTION
from xlanb.transforms.algebraic_simplifier.division import DIVISION
from xlanb.transforms.algebraic_simplifier.dot import DOT
from xlanb.transforms.algebraic_simplifier.dynamic_slice import DYNAMIC_SLICE
from xlanb.transforms.algebraic_simplifier.logic import LOGIC
from xlanb.transforms.algebraic_simplifier.power import POWER
from xlanb.transforms.algebraic_simplifier.reduce import REDUCE
from xlanb.transforms.algebraic_simplifier.reshape_transpose import RESHAPE_TRANSPOSE
from xlanb.transforms.algebraic_simplifier.slice_pad_concat import SLICE_PAD_CONCAT
from xlanb.transforms.algebraic_simplifier.structure import STRUCTURE
from xlanb.transforms.base import HloPass, has_layouts
from xlanb.transforms.rules import RuleSet
from xlanb.transforms.verdict import REAL

RULES = RuleSet.union(
    "algsimp",
    (
        ARITHMETIC,
        DIVISION,
        POWER,
        LOGIC,
        COMPARE_SELECT,
        CONVERT,
        RESHAPE_TRANSPOSE,
        BROADCAST,
        REDUCE,
        SLICE_PAD_CONCAT,
        DYNAMIC_SLICE,
        DOT,
        CONVOLUTION,
        CONSTANT,
        STRUCTURE,
    ),
)

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
