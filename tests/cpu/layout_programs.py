"""Random HLO modules with random array layouts that change wherever HLO allows it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tests.cpu.layout_rules import BYTES_RULES, MOVED, RULES, Made
from xlanb.hlo import parse
from xlanb.shape import ArrayShape


@dataclass
class Program:
    """Builds one module; `bitcasts` allows bitcasts and fusions, so that the layouts matter."""

    seed: int
    bitcasts: bool = False
    steps: int = 8
    largest: int = 3000
    lines: list[str] = field(default_factory=list)
    computations: list[str] = field(default_factory=list)
    values: list[Made] = field(default_factory=list)
    parameters: list[Made] = field(default_factory=list)
    ends: list[Made] = field(default_factory=list)
    """Results that are only approximately right, and so compared but not used further."""

    rules: tuple[Callable[[Program], None], ...] | None = None

    def __post_init__(self) -> None:
        self.r = random.Random(self.seed)
        self.count = 0

    # -- parts -------------------------------------------------------------------------------------

    def name(self, stem: str = "v") -> str:
        """A new name."""
        self.count += 1
        return f"{stem}{self.count}"

    def layout(self, rank: int) -> tuple[int, ...]:
        """A random dimension order, sometimes row-major."""
        order = list(range(rank))[::-1]
        if self.r.random() < 0.8:
            self.r.shuffle(order)
        return tuple(order)

    def dims(self) -> tuple[int, ...]:
        """Random dimensions, few or many elements."""
        rank = self.r.choice((1, 2, 2, 3, 3, 3, 4, 5))
        sizes = (1, 2, 3, 4, 5, 7, 8, 16, 33, 64) if rank < 4 else (1, 2, 3, 4, 5, 8)
        sizes += (32, 100, 257) if self.largest > 10_000 else ()
        while True:
            found = tuple(self.r.choice(sizes) for _ in range(rank))
            if prod(found) <= self.largest:
                return found

    def emit(self, kind: str, dims: tuple[int, ...], text: str, layout: tuple[int, ...] | None = None) -> Made:
        """Add an instruction with a random layout."""
        made = Made(self.name(), kind, dims, self.layout(len(dims)) if layout is None else layout)
        self.lines.append(f"  {made.name} = {made.shape} {text}")
        self.values.append(made)
        return made

    def pick(self, *kinds: str, rank: int = 0) -> Made | None:
        """A value of one of some types (default: any), with a minimum rank."""
        found = [v for v in self.values if (not kinds or v.kind in kinds) and len(v.dims) >= rank]
        return self.r.choice(found) if found else None

    def parameter(self, kind: str, dims: tuple[int, ...]) -> Made:
        """Add a parameter."""
        made = self.emit(kind, dims, f"parameter({len(self.parameters)})")
        self.parameters.append(made)
        return made

    def like(self, v: Made) -> Made:
        """Another value of the same type and dimensions: an existing one, or a parameter."""
        found = [o for o in self.values if (o.kind, o.dims) == (v.kind, v.dims) and o is not v]
        return self.r.choice(found) if found and self.r.random() < 0.7 else self.parameter(v.kind, v.dims)

    # -- whole programs ----------------------------------------------------------------------------

    def text(self) -> str:
        """The module's text."""
        for _ in range(self.r.choice((1, 2, 2, 3))):
            self.parameter(self.r.choice(MOVED), self.dims())
        rules = list(self.rules or RULES)
        rules += BYTES_RULES * 2 if self.bitcasts else []
        for _ in range(self.steps):
            self.r.choice(rules)(self)
        outputs = self.r.sample(self.values, min(len(self.values), self.r.choice((1, 2, 3, 4))))
        outputs += [self.values[-1], *self.ends]
        declared = [Made("", v.kind, v.dims, self.layout(len(v.dims))) for v in outputs]
        names = ", ".join(v.name for v in outputs)
        shapes = ", ".join(v.shape for v in (declared if self.r.random() < 0.7 else outputs))
        self.lines.append(f"  ROOT out = ({shapes}) tuple({names})")
        header = "HloModule m"
        if self.r.random() < 0.4:
            outside = [Made("", v.kind, v.dims, self.layout(len(v.dims))) for v in (*self.parameters, *outputs)]
            given, back = outside[: len(self.parameters)], outside[len(self.parameters) :]
            header += (
                f", entry_computation_layout={{({', '.join(v.shape for v in given)})->"
                f"({', '.join(v.shape for v in back)})}}"
            )
        return "\n".join([header, "", *self.computations, "ENTRY main {", *self.lines, "}", ""])

    def arguments(self) -> list[Any]:
        """Small numbers for each parameter."""
        rng = np.random.default_rng(self.seed)
        return [_numbers(rng, s) for s in (p.array_shape for p in parse(self.text_once).entry_computation.parameters)]

    @property
    def text_once(self) -> str:
        """The text, made once."""
        if not hasattr(self, "_text"):
            self._text = self.text()
        return self._text


def _numbers(rng: np.random.Generator, shape: ArrayShape) -> Any:
    kind = shape.element_type
    if str(kind) == "pred":
        return rng.integers(0, 2, shape.dimensions).astype(bool)
    low = 0 if not kind.is_signed and not kind.is_floating and not kind.is_complex else -4
    values = rng.integers(low, 5, shape.dimensions)
    if kind.is_complex:
        return (values + 1j * rng.integers(-4, 5, shape.dimensions)).astype(shape.dtype)
    return values.astype(shape.dtype)
