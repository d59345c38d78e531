"""Rules: a pattern and a formula under XLA's own label; RuleSet: rules applied in one walk.

    @ARITHMETIC.rule(
        "(A + C1) + C2 => A + (C1 + C2)",
        m.op(HloOpcode.ADD, m.op(HloOpcode.ADD, "a", m.constant("c1")), m.constant("c2")),
        guard("one user", lambda c1: ...),
        keeps=REAL,
    )
    def _(b, a, c1, c2): return b.binary(HloOpcode.ADD, a, b.binary(HloOpcode.ADD, c1, c2))

Parameters of formulas and guards name what they use: captures, `root` (the matched instruction),
`b` (a Builder of new instructions), `options` (from the pass). `keeps` is the rule's verdict: what
it preserves of the values. A formula returns the replacement of root; `root` itself if it rewrote
root or its users in place; or None if it declines and has changed nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from xlanb.analysis.dynamic import involves_dynamic
from xlanb.conditions import Condition, asked_names, holding_beyond
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.tracing import Cause, Decision, because, current_cause, emit, is_observed
from xlanb.transforms.builder import Builder
from xlanb.transforms.depth_first import DepthFirstVisit
from xlanb.transforms.guard_predicates import GuardPredicates, captured
from xlanb.transforms.match import Captures, Pattern
from xlanb.transforms.purpose import place_of
from xlanb.transforms.verdict import Verdict
from xlanb.transforms.worklist import Worklist

_INDEXED = 3
"""The number of operands used in the index of rules: more would give a key per instruction."""


Guard: TypeAlias = Condition[Mapping[str, Any]]
"""A condition of a rule over its captures, `root` and `options`.

`holds` gets the captures that `wants` names.
"""


def guard(name: str, holds: Callable[..., object], *wants: str) -> Guard:
    """A named condition over the captures in `wants`; if empty, over the parameters of `holds`."""
    return Condition(name, holds, wants=wants or tuple(inspect.signature(holds).parameters))


@dataclass(frozen=True)
class Rule:
    """A rewrite: label, pattern, guards, formula, source location ("file.py:line") and verdict."""

    label: str
    pattern: Pattern
    guards: tuple[Guard, ...]
    formula: Callable[..., HloInstruction | None]
    wants: tuple[str, ...]
    where: str
    keeps: Verdict

    @cached_property
    def builds_in_guards(self) -> bool:
        """Whether a guard needs a Builder: most do not, and most guards fail."""
        return any("b" in (g.wants or ()) for g in self.guards)

    @cached_property
    def wanted_by_guards(self) -> tuple[str, ...]:
        """The names that its guards use."""
        return tuple(dict.fromkeys(w for g in self.guards for w in g.wants or () if w != "b"))

    @cached_property
    def _captured(self) -> tuple[str, ...]:
        """The names of the instructions that it rewrites."""
        return ("root", *self.pattern.names)

    @cached_property
    def _asked(self) -> tuple[tuple[Callable[..., object], str | None, tuple[str, ...]], ...]:
        """Each guard's predicate, its name if it takes only one, and its names."""
        wanted = [(g.holds, g.wants or ()) for g in self.guards]
        return tuple((holds, wants[0] if len(wants) == 1 else None, wants) for holds, wants in wanted)

    @cached_property
    def _outcomes(self) -> tuple[tuple[bool, ...], ...]:
        """The outcomes of the checked guards, by the index of the first that failed.

        The last entry is for guards that all hold.
        """
        count = len(self.guards)
        return (*((*(True,) * n, False) for n in range(count)), (True,) * count)

    @cached_property
    def pattern_text(self) -> str:
        """The pattern as text, created once."""
        return str(self.pattern)

    def __str__(self) -> str:
        guards = "".join(f"\n    if {g.name}" for g in self.guards)
        return f"{self.label}    [{self.where}]\n    {self.pattern}{guards}\n    keeps: {self.keeps}"

    def check(self, scope: dict[str, Any]) -> bool:
        """Whether every guard holds; if one does not, this is explained to observers."""
        for n, (holds, only, wants) in enumerate(
            self._asked
        ):  # same as first_failing, inlined: it runs a hundred thousand times in a compilation
            if not (holds(*[scope[w] for w in wants]) if only is None else holds(scope[only])):
                if is_observed() and scope["root"].tell_once((id(self), n)):
                    self._explain(scope, n)
                return False
        return True

    def _explain(self, scope: dict[str, Any], failed: int | None) -> None:
        """Report which guards held and which failed, with the values that they checked.

        A failure is reported once for an instruction that stays unchanged.
        """
        outcomes: tuple[bool | None, ...] = self._outcomes[-1 if failed is None else failed]
        names = asked_names()
        if names and failed is not None and scope["root"].name in names:
            outcomes = (*outcomes, *holding_beyond(self.guards[failed + 1 :], scope))
        told = GuardPredicates(self.guards, outcomes, captured(self.wanted_by_guards, scope)) if self.guards else ()
        cause = current_cause()
        if cause.where != self.where:
            cause = Cause(cause.pass_name, self.label, self.where)
        emit(Decision(cause, self.label, (scope["root"].name,), failed is None, told))

    def _because(self, root: HloInstruction, scope: dict[str, Any]) -> because:
        """This rule as a cause; for observers with its pattern and its captures."""
        if not is_observed():
            return because(rule=self.label, where=self.where)
        parts = tuple((name, scope[name].name) for name in dict.fromkeys(self.pattern.names))
        return because(
            "", self.label, self.where, self.pattern_text, (("root", root.name), *parts), keeps=self.keeps.text
        )

    def apply(self, root: HloInstruction, scope: dict[str, Any]) -> HloInstruction | None:
        """Build the formula's instructions and replace root by the result.

        Returns the replacement, or None if the formula declines. Instructions with dynamic shapes
        are never rewritten, since formulas compute with the bounds of dimensions.
        """
        for name in self._captured:
            if involves_dynamic(scope[name]):
                return None
        with self._because(root, scope):
            version = root.parent.module.version
            new = self.formula(*[scope[w] for w in self.wants])
            if new is None or (new is root and root.parent.module.version == version):
                return None
            if new is root:
                if is_observed():
                    self._explain(scope, None)
                return new
            if not fits(root, new, scope["options"]):
                root.parent.remove_dead(new)
                return None
            if is_observed():
                self._explain(scope, None)
            root.parent.replace(root, new)
        return new


def fits(old: HloInstruction, new: HloInstruction, options: Any) -> bool:
    """Whether `new` may replace `old`: equal shapes, and layouts if the pass considers them."""
    if getattr(options, "is_layout_sensitive", False):
        return old.shape == new.shape
    return old.shape.without_layout() == new.shape.without_layout()


@dataclass
class RuleSet:
    """Rules in order, indexed by the opcode of their root.

    The first that fires wins; each instruction is visited once.
    """

    name: str
    rules: list[Rule] = field(default_factory=list)
    _index: dict[HloOpcode, tuple[Rule, ...]] = field(default_factory=dict, repr=False)
    _by_operands: dict[tuple[HloOpcode, ...], tuple[Rule, ...]] = field(default_factory=dict, repr=False)

    def rule(
        self, label: str, pattern: Pattern, *guards: Guard, keeps: Verdict
    ) -> Callable[[Callable[..., HloInstruction | None]], Callable[..., HloInstruction | None]]:
        """Add the decorated formula as a rule; `keeps` is what it preserves of the values."""
        known = {"root", "b", "options", *pattern.names}

        def register(formula: Callable[..., HloInstruction | None]) -> Callable[..., HloInstruction | None]:
            code = formula.__code__
            wants = code.co_varnames[: code.co_argcount]
            for w in (*wants, *(w for g in guards for w in g.wants or ())):
                if w not in known:
                    raise TypeError(f"rule {label!r} does not capture {w!r}, only {', '.join(sorted(known))}")
            self.rules.append(Rule(label, pattern, guards, formula, wants, place_of(formula), keeps))
            self._index.clear()
            self._by_operands.clear()
            return formula

        return register

    @staticmethod
    def union(name: str, sets: Iterable[RuleSet]) -> RuleSet:
        """All rules of several sets, in order."""
        return RuleSet(name, [r for s in sets for r in s.rules])

    def candidates(self, i: HloInstruction) -> tuple[Rule, ...]:
        """The rules that may match an instruction; cached by its and its operands' opcodes."""
        operands = i.operands
        if len(operands) > _INDEXED:
            return self.for_opcode(i.opcode)
        key = (i.opcode, *[o.opcode for o in operands])
        found = self._by_operands.get(key)
        if found is None:
            found = self._by_operands[key] = tuple(
                r for r in self.for_opcode(i.opcode) if r.pattern.admits(i.opcode, key[1:])
            )
        return found

    def for_opcode(self, opcode: HloOpcode) -> tuple[Rule, ...]:
        """The rules whose root can have this opcode."""
        found = self._index.get(opcode)
        if found is None:
            found = self._index[opcode] = tuple(
                r for r in self.rules if r.pattern.opcodes is None or opcode in r.pattern.opcodes
            )
        return found

    def run(self, computation: HloComputation, options: Hashable = None, walks: int = 1) -> None:
        """Apply the first rule that fires to each instruction, until a walk changes nothing.

        Operands are visited before users. An instruction is skipped if nothing near it changed
        since its last visit with the same options, in this run or an earlier one (see Worklist).
        Instructions with control dependencies are not rewritten: the ordering would be lost.

        Args:
            computation: the computation to rewrite.
            options: what guards and formulas get as `options`.
            walks: the maximum number of walks.
        """
        module = computation.module
        header = module.header.get("num_partitions"), module.header.get("replica_count")
        worklist = Worklist(computation, (self.name, options, header))
        is_done = False
        try:
            for _ in range(walks):
                version = module.version
                self._walk_once(computation, options, worklist)
                if module.version == version:
                    is_done = True
                    break
        finally:
            if not is_done:
                worklist.forget()

    def _walk_once(self, computation: HloComputation, options: Any, worklist: Worklist) -> None:
        known, module = self._by_operands, computation.module
        for i in worklist.due(computation.post_order()):
            operands = i.operands
            rules = known.get((i.opcode, *[o.opcode for o in operands])) if len(operands) <= _INDEXED else None
            if rules is None:
                rules = self.candidates(i)
            if rules and i in computation and not i.control_predecessors and not i.control_successors:
                version = module.version
                self.visit(i, rules, options)
                if module.version != version:
                    worklist.update(i)

    def walk(self, computation: HloComputation, options: Any = None) -> None:
        """Apply rules as `run` does, in the order of XLA's visitors.

        A replacement is visited too if a later user reads it.
        """

        def visit(i: HloInstruction) -> None:
            if i in computation and not i.control_predecessors and not i.control_successors:
                self.visit(i, self.candidates(i), options)

        DepthFirstVisit(visit).run(computation)

    def visit(self, root: HloInstruction, rules: Iterable[Rule], options: Any) -> bool:
        """Apply the first of `rules` that fires on `root`; return whether one did."""
        for r in rules:
            captures: Captures = {}
            if not r.pattern.match(root, captures):
                continue
            # from here on it also holds other values than instructions
            scope: dict[str, Any] = captures
            scope["root"], scope["b"], scope["options"] = root, None, options
            if r.builds_in_guards:
                scope["b"] = Builder(root)
            if r.check(scope):
                scope["b"] = Builder(root)
                if r.apply(root, scope) is not None:
                    return True
        return False

    def __str__(self) -> str:
        return "\n".join(map(str, self.rules))
