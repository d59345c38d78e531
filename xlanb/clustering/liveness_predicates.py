"""Formulas of when a tensor is alive: Symbol, And, Or, Not and AndRecurrence, simplified.

As in TensorFlow's deadness analysis. Equal formulas are the same object as far as the
simplifications find out. They are printed as in TensorFlow: `(*p:0 & ~*q:0)`,
`{#true,&,*while/LoopCond:0}<while_context>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

AND, OR, NOT, AND_RECURRENCE, SYMBOL = "and", "or", "not", "and_recurrence", "symbol"
_DEEPEST = 8  # beyond, formulas are taken as they are: simplification is exponential


@dataclass(frozen=True, slots=True, eq=False)
class Liveness:
    """One formula, made by a LivenessFactory. `number` is its serial number and orders operands."""

    number: int
    kind: str
    operands: tuple[Liveness, ...] = ()
    text: str = ""

    def __str__(self) -> str:
        if self.kind in (AND, OR):
            if not self.operands:
                return "#true" if self.kind == AND else "#false"
            return f"({(' & ' if self.kind == AND else ' | ').join(map(str, self.operands))})"
        if self.kind == NOT:
            return f"~{self.operands[0]}"
        if self.kind == AND_RECURRENCE:
            return f"{{{self.operands[0]},&,{self.operands[1]}}}<{self.text}>"
        return self.text

    def parts(self) -> Iterator[Liveness]:
        """The formula and all within it, each once."""
        seen, stack = {self}, [self]
        while stack:
            current = stack.pop()
            yield current
            for operand in current.operands:
                if operand not in seen:
                    seen.add(operand)
                    stack.append(operand)


class LivenessFactory:
    """Make formulas, simplifying: nested And in And, `p & ~p`, De Morgan, common factors,
    recurrences.

    The last: `~step & {start,&,step}`.
    """

    def __init__(self) -> None:
        self._made: dict[object, Liveness] = {}
        self._negations: dict[Liveness, Liveness] = {}
        self._count = 0
        self._depth = 0

    def symbol(self, tensor: str, *, must_be_true: bool = False, value: int | None = None) -> Liveness:
        """Return the formula that the tensor is alive, and optionally true or equal to `value`."""
        text = f"*{tensor}" if must_be_true else tensor if value is None else f"{tensor}={value}"
        return self._intern((SYMBOL, text, value is not None), SYMBOL, (), text)

    def true(self) -> Liveness:
        """Always alive."""
        return self.all_of(())

    def false(self) -> Liveness:
        """Never alive."""
        return self.any_of(())

    def all_of(self, operands: Iterable[Liveness]) -> Liveness:
        """All operands hold."""
        return self._and_or(tuple(operands), AND)

    def any_of(self, operands: Iterable[Liveness]) -> Liveness:
        """One operand holds."""
        return self._and_or(tuple(operands), OR)

    def recurrence(self, start: Liveness, step: Liveness, frames: Iterable[str]) -> Liveness:
        """Alive in iteration 1 if `start`, in later ones if `step` held in all previous ones."""
        text = ";".join(frames)
        return self._intern((AND_RECURRENCE, start, step, text), AND_RECURRENCE, (start, step), text)

    def negation(self, operand: Liveness) -> Liveness:
        """The operand does not hold."""
        known = self._negations.get(operand)
        if known is None:
            known = self._negations[operand] = self._negate(operand)
        return known

    def _negate(self, operand: Liveness) -> Liveness:
        self._depth += 1
        try:
            if self._depth < _DEEPEST:
                if operand.kind in (AND, OR):
                    inner = [self.negation(o) for o in operand.operands]
                    return self.all_of(inner) if operand.kind == OR else self.any_of(inner)
                if operand.kind == NOT:
                    return operand.operands[0]
            return self._intern((NOT, operand), NOT, (operand,), "")
        finally:
            self._depth -= 1

    def _intern(self, key: object, kind: str, operands: tuple[Liveness, ...], text: str) -> Liveness:
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = Liveness(self._count, kind, operands, text)
            self._count += 1
        return known

    def _sorted(self, operands: Iterable[Liveness], kind: str) -> Liveness:
        ordered = tuple(sorted(operands, key=lambda o: o.number))
        return self._intern((kind, ordered), kind, ordered, "")

    def _and_or(self, operands: tuple[Liveness, ...], kind: str) -> Liveness:
        self._depth += 1
        try:
            return self._sorted(operands, kind) if self._depth >= _DEEPEST else self._simplified(operands, kind)
        finally:
            self._depth -= 1

    def _simplified(self, operands: tuple[Liveness, ...], kind: str) -> Liveness:
        flat, seen = _flattened(operands, kind)
        if len(flat) == 1:
            return flat[0]
        negated: set[Liveness] = set()
        for operand in flat:
            if operand in negated:
                return self._sorted((), OR if kind == AND else AND)
            opposite = self.negation(operand)
            if opposite.kind == kind and all(o in seen for o in opposite.operands):
                return self._sorted((), OR if kind == AND else AND)
            negated.add(opposite)
        if kind == AND:
            flat = self._without_finished_loops(flat, negated)
        common = _common_operands(flat, OR if kind == AND else AND)
        return self._factored(flat, common, kind) if common else self._sorted(flat, kind)

    def _without_finished_loops(self, operands: list[Liveness], negated: set[Liveness]) -> list[Liveness]:
        """Simplify `{S,&,X} & ~X` to S: a loop's output is alive if its input was."""
        gone: set[Liveness] = set()
        starts = []
        for operand in operands:
            if operand.kind == AND_RECURRENCE and operand.operands[1] in negated:
                gone |= {operand, self.negation(operand.operands[1])}
                starts.append(operand.operands[0])
        return [o for o in operands if o not in gone] + starts

    def _factored(self, operands: list[Liveness], common: list[Liveness], kind: str) -> Liveness:
        """`(a & b) | (a & c)` is `a & (b | c)`."""
        other = OR if kind == AND else AND
        rests = [self._and_or(tuple(o for o in op.operands if o not in common), other) for op in operands]
        inner = self._and_or(tuple(rests), kind)
        return self._and_or((inner, *common), other)


def _flattened(operands: Iterable[Liveness], kind: str) -> tuple[list[Liveness], set[Liveness]]:
    seen: set[Liveness] = set()
    flat: list[Liveness] = []
    for operand in operands:
        if operand in seen:
            continue
        seen.add(operand)
        for part in operand.operands if operand.kind == kind else (operand,):
            if part is operand or part not in seen:
                seen.add(part)
                flat.append(part)
    return flat, seen


def _common_operands(operands: list[Liveness], kind: str) -> list[Liveness]:
    """Operands that all of several formulas of this kind share."""
    common: list[Liveness] = []
    for place, operand in enumerate(operands):
        if operand.kind != kind:
            return []
        common = list(operand.operands) if place == 0 else [o for o in operand.operands if o in common]
        if not common:
            return []
    return common
