"""OpShardingRule: which dimensions of an operation's arrays correspond, as factors.

Follows Shardy's OpShardingRuleAttr.

    dot([8, 16], [16, 4]) -> [8, 4]       ([i, k], [k, j])->([i, j]) {i=8, j=4, k=16} reduction={k}
    reshape [8, 4] -> [2, 16]             ([ij, k])->([i, jk]) {i=2, j=4, k=4}

Each dimension is a list of factors, slowest first. A factor in several arrays is split alike in all
of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from enum import Enum

from xlanb.errors import XlanbError
from xlanb.lazy_dataclass import dataclass

TensorMapping = tuple[tuple[int, ...], ...]
"""The factors of each dimension of an array."""

NO_DIM = -1
"""In add_factor: this array has no dimension with the factor."""


class FactorType(Enum):
    """The communication needed to keep a factor split."""

    PASS_THROUGH = "pass_through"
    """None."""
    REDUCTION = "reduction"
    """A sum over the devices."""
    NEED_REPLICATION = "need_replication"
    """It must be gathered first."""
    PERMUTATION = "permutation"
    """Neighbors exchange data."""


@dataclass(frozen=True)
class OpShardingRule:
    """Factor sizes, and the factors of each operand's and result's dimensions.

    `blocked` factors are not propagated.
    """

    factor_sizes: tuple[int, ...]
    operands: tuple[TensorMapping, ...]
    results: tuple[TensorMapping, ...]
    reduction: frozenset[int] = frozenset()
    need_replication: frozenset[int] = frozenset()
    permutation: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    is_custom: bool = False

    def is_pass_through(self, factor: int) -> bool:
        """Whether the factor may stay split without communication."""
        return not (factor in self.reduction or factor in self.need_replication or factor in self.permutation)

    def __str__(self) -> str:
        sides = [", ".join(map(_mapping_text, side)) for side in (self.operands, self.results)]
        sizes = ", ".join(f"{symbol(n)}={size}" for n, size in enumerate(self.factor_sizes))
        text = f"({sides[0]})->({sides[1]})" + (f" {{{sizes}}}" if sizes else "")
        for word, factors in (
            ("reduction", self.reduction),
            ("need_replication", self.need_replication),
            ("permutation", self.permutation),
            ("blocked_propagation", self.blocked),
        ):
            if factors:
                text += f" {word}={{{', '.join(map(symbol, sorted(factors)))}}}"
        return f"<{text}{', custom' if self.is_custom else ''}>"


def symbol(factor: int) -> str:
    """Return a factor's letter: i, j, ..., z, z_1, z_2, ..."""
    last = ord("z") - ord("i")
    return chr(ord("i") + factor) if factor <= last else f"z_{factor - last}"


def _mapping_text(mapping: TensorMapping) -> str:
    return "[" + ", ".join("".join(map(symbol, dim)) for dim in mapping) + "]"


_RULE = re.compile(
    r"(?:#sdy\.op_sharding_rule)?<\((?P<operands>.*?)\)->\((?P<results>.*?)\)\s*(?:\{(?P<sizes>[^}]*)\})?(?P<rest>.*)>"
)
_SYMBOL = re.compile(r"z_\d+|[i-z]")


def parse_rule(text: str) -> OpShardingRule:
    """Parse a rule in Shardy's text, as a custom call may carry it.

    Raises:
        XlanbError: the text is not a rule.
    """
    found = _RULE.fullmatch(text.replace('\\"', '"').strip())
    if not found:
        raise XlanbError(
            f"not a sharding rule of the form #sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {{i=2, ...}}>: {text}"
        )
    sizes = dict(re.findall(r"(z_\d+|[i-z])\s*=\s*(\d+)", found["sizes"] or ""))
    number = {name: n for n, name in enumerate(sizes)}

    def mappings(side: str) -> tuple[TensorMapping, ...]:
        return tuple(
            tuple(tuple(number[s] for s in _SYMBOL.findall(dim)) for dim in one.split(",") if dim.strip())
            for one in re.findall(r"\[([^\]]*)\]", side)
        )

    def factors(word: str) -> frozenset[int]:
        listed = re.search(rf"\b{word}=\{{([^}}]*)\}}", found["rest"])
        return frozenset(number[s] for s in _SYMBOL.findall(listed[1])) if listed else frozenset()

    return OpShardingRule(
        tuple(map(int, sizes.values())),
        mappings(found["operands"]),
        mappings(found["results"]),
        factors("reduction"),
        factors("need_replication"),
        factors("permutation"),
        factors("blocked_propagation"),
        "custom" in found["rest"],
    )


class RuleBuilder:
    """Builds a rule, factor by factor, for arrays of these shapes (None: a token)."""

    def __init__(self, operands: Sequence[tuple[int, ...]], results: Sequence[tuple[int, ...]]) -> None:
        self.sizes: list[int] = []
        self.operands: list[list[list[int]]] = [[[] for _ in shape] for shape in operands]
        self.results: list[list[list[int]]] = [[[] for _ in shape] for shape in results]
        self.types: dict[FactorType, list[int]] = {kind: [] for kind in FactorType}
        self.blocked: list[int] = []

    def _new_factor(self, size: int, kind: FactorType, blocked: bool) -> int:
        factor = len(self.sizes)
        self.sizes.append(size)
        self.types[kind].append(factor)
        if blocked:
            self.blocked.append(factor)
        return factor

    def add_factor(
        self,
        operand_dims: Iterable[int],
        result_dims: Iterable[int],
        size: int,
        kind: FactorType = FactorType.PASS_THROUGH,
        *,
        blocked: bool = False,
    ) -> RuleBuilder:
        """Add a factor at these dimensions, one for each operand and result; NO_DIM for none.

        A factor of size 1 adds nothing to a dimension that has others.
        """
        factor = self._new_factor(size, kind, blocked)
        for mappings, dims in ((self.operands, operand_dims), (self.results, result_dims)):
            for mapping, dim in zip(mappings, dims, strict=True):
                if dim != NO_DIM and not (size == 1 and mapping[dim]):
                    mapping[dim].append(factor)
        return self

    def add_common_factor(
        self,
        dim: int,
        size: int,
        kind: FactorType = FactorType.PASS_THROUGH,
        *,
        blocked: bool = False,
        operands: bool = True,
        results: bool = True,
    ) -> RuleBuilder:
        """Add a factor at the same dimension of every operand and result, except scalars."""
        factor = self._new_factor(size, kind, blocked)
        for mapping in (*(self.operands if operands else ()), *(self.results if results else ())):
            if mapping:
                mapping[dim].append(factor)
        return self

    def add_pointwise(
        self,
        shape: Sequence[int],
        kind: Callable[[int], FactorType] = lambda _: FactorType.PASS_THROUGH,
        blocked: Callable[[FactorType], bool] = lambda _: False,
        where: Callable[[int], bool] = lambda _: True,
    ) -> RuleBuilder:
        """Add a common factor for each dimension; `where` selects them."""
        for dim, size in enumerate(shape):
            if where(dim):
                self.add_common_factor(dim, size, kind(dim), blocked=blocked(kind(dim)))
        return self

    def add_pointwise_but(
        self, before: Sequence[int], after: Sequence[int], kind: FactorType, *, blocked: bool
    ) -> RuleBuilder:
        """Add a common factor for each dimension, of another type where the sizes differ."""
        for dim, (size, other) in enumerate(zip(before, after, strict=True)):
            if size == other:
                self.add_common_factor(dim, size)
            else:
                self.add_common_factor(dim, size, kind, blocked=blocked)
        return self

    def build(self) -> OpShardingRule:
        """Return the rule; a dimension without factors gets its own one of size 1."""
        sizes = list(self.sizes)

        def closed(mappings: list[list[list[int]]]) -> tuple[TensorMapping, ...]:
            out = []
            for mapping in mappings:
                dims = []
                for factors in mapping:
                    if not factors:
                        sizes.append(1)
                    dims.append(tuple(factors) or (len(sizes) - 1,))
                out.append(tuple(dims))
            return tuple(out)

        operands, results = closed(self.operands), closed(self.results)
        return OpShardingRule(
            tuple(sizes),
            operands,
            results,
            frozenset(self.types[FactorType.REDUCTION]),
            frozenset(self.types[FactorType.NEED_REPLICATION]),
            frozenset(self.types[FactorType.PERMUTATION]),
            frozenset(self.blocked),
        )


def pointwise_rule(operands: Sequence[tuple[int, ...]], results: Sequence[tuple[int, ...]]) -> OpShardingRule:
    """Return the rule for arrays with equal dimensions; scalars are ignored."""
    return RuleBuilder(operands, results).add_pointwise(results[0]).build()
