"""Alias donated parameters with results of the same size.

    HloModule m, buffer_donor={ (0, {}) }
      =>  HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }

The largest results are matched first. With `registered_buffer_donor_only`, as in XLA:CPU, only
parameters that the module names as donors are used.
Source: xla/hlo/transforms/simplifiers/optimize_input_output_buffer_alias.h.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlanb.analysis.input_output_alias import Alias, read_aliases, read_donors, write
from xlanb.hlo.module import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, BufferShape, Shape
from xlanb.shape.shape import has_dynamic
from xlanb.transforms.base import HloPass

Leaf = tuple[int, ...]
Entry = tuple[int, int, Leaf]


@dataclass(frozen=True)
class OptimizeInputOutputBufferAlias(HloPass):
    """Aliases donors with results of equal size and memory space, and records it in the header."""

    name = "optimize_input_output_buffer_alias"
    registered_buffer_donor_only: bool = True

    def apply(self, module: HloModule) -> None:
        entry = module.entry_computation
        aliases, donors = read_aliases(module), read_donors(module)
        if (self.registered_buffer_donor_only and not donors) or has_dynamic(entry.root.shape):
            return
        taken = {(a.parameter, a.parameter_leaf) for a in aliases}
        served = {a.result_leaf for a in aliases}
        giving = [
            (p.parameter_number, leaf, s)
            for p in entry.parameters
            for leaf, s in _arrays(p.shape)
            if (p.parameter_number, leaf) not in taken
            and (not self.registered_buffer_donor_only or (p.parameter_number, leaf) in donors)
            and not has_dynamic(s)
        ]
        wanting = [(0, leaf, s) for leaf, s in _arrays(entry.root.shape) if leaf not in served]
        pairs = [
            pair for space in sorted({_space(s) for _, _, s in giving}) for pair in _matched(giving, wanting, space)
        ]
        if pairs:
            new = [Alias(result, number, leaf) for number, leaf, result in pairs]
            left = [d for d in donors if d not in {(n, leaf) for n, leaf, _ in pairs}]
            write(module, aliases + new, left)
            entry.invalidate()  # no mutator reports changes of the header


def _arrays(shape: Shape) -> Iterable[tuple[Leaf, ArrayShape]]:
    return ((leaf, s) for leaf, s in shape.leaves() if not isinstance(s, BufferShape) and s.is_array)


def _space(shape: ArrayShape) -> int:
    return shape.layout.memory_space if shape.layout is not None else 0


def _matched(
    giving: list[tuple[int, Leaf, ArrayShape]], wanting: list[tuple[int, Leaf, ArrayShape]], space: int
) -> list[tuple[int, Leaf, Leaf]]:
    """(parameter, leaf of it, leaf of the result), the largest first."""
    donors, results = (
        sorted((e for e in entries if _space(e[2]) == space), key=lambda e: -e[2].byte_size)
        for entries in (giving, wanting)
    )
    pairs: list[tuple[int, Leaf, Leaf]] = []
    d = r = 0
    while d < len(donors) and r < len(results):
        have, need = donors[d][2].byte_size, results[r][2].byte_size
        if have == need:
            pairs.append((donors[d][0], donors[d][1], results[r][1]))
        d, r = d + (have >= need), r + (have <= need)
    return pairs
