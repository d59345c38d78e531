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
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field
from functools import cached_property
from importlib import import_module
from types import FunctionType
from typing import Any, TypeAlias, final

from xlanb.analysis.dynamic import involves_dynamic
from xlanb.conditions import Condition, asked_names, holding_beyond
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.tracing import (
    Cause,
    Decision,
    DeferredDecisions,
    Predicate,
    caused_by,
    current_cause,
    emit_decision,
    emit_deferred_decisions,
    is_observed,
    make_tuple,
)
from xlanb.transforms.builder import Builder
from xlanb.transforms.depth_first import DepthFirstVisit
from xlanb.transforms.guard_predicates import GuardPredicates, captured
from xlanb.transforms.match import Captures, FlatNames, Pattern, operand_names
from xlanb.transforms.purpose import place_of
from xlanb.transforms.verdict import Verdict
from xlanb.transforms.worklist import Worklist

_INDEXED = 3
"""The number of operands used in the index of rules: more would give a key per instruction."""


_UNOBSERVED = nullcontext()

Guard: TypeAlias = Condition[Mapping[str, Any]]
"""A condition of a rule over its captures, `root` and `options`.

`holds` gets the captures that `wants` names.
"""


def guard(name: str, holds: Callable[..., object], *wants: str) -> Guard:
    """A named condition over the captures in `wants`; if empty, over the parameters of `holds`."""
    return Condition(name, holds, wants=wants or _parameters(holds))


def _parameters(function: Callable[..., object]) -> tuple[str, ...]:
    if isinstance(function, FunctionType) and not hasattr(function, "__wrapped__"):  # as most are
        code = function.__code__
        return code.co_varnames[: code.co_argcount]
    return tuple(inspect.signature(function).parameters)


@dataclass(frozen=True)
class Rule:
    """A rewrite: label, pattern, guards, formula and verdict."""

    label: str
    pattern: Pattern
    guards: tuple[Guard, ...]
    formula: Callable[..., HloInstruction | None]
    wants: tuple[str, ...]
    keeps: Verdict

    @cached_property
    def where(self) -> str:
        """The source location of the formula: "file.py:line"."""
        return place_of(self.formula)

    @cached_property
    def builds_in_guards(self) -> bool:
        """Whether a guard needs a Builder: most do not, and most guards fail."""
        return any("b" in (g.wants or ()) for g in self.guards)

    @cached_property
    def wanted_until(self) -> tuple[tuple[str, ...], ...]:
        """The names that its guards use, by the index of the last checked guard; the last entry:
        all.
        """
        wanted = [[w for g in self.guards[: n + 1] for w in g.wants or () if w != "b"] for n in range(len(self.guards))]
        return tuple(tuple(dict.fromkeys(names)) for names in [*wanted, wanted[-1] if wanted else []])

    @cached_property
    def _captured(self) -> tuple[str, ...]:
        """The names of the instructions that it rewrites."""
        return ("root", *self.pattern.names)

    @cached_property
    def _pattern_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.pattern.names))

    @cached_property
    def _asked(self) -> tuple[tuple[Callable[..., object], str | None, tuple[str, ...]], ...]:
        """Each guard's predicate, its name if it takes only one, and its names."""
        wanted = [(g.holds, g.wants or ()) for g in self.guards]
        return tuple((holds, wants[0] if len(wants) == 1 else None, wants) for holds, wants in wanted)

    @cached_property
    def outcomes(self) -> tuple[tuple[bool, ...], ...]:
        """Whether each checked guard held, by the index of the first that failed; the last entry:
        all held.
        """
        count = len(self.guards)
        return (*((*(True,) * n, False) for n in range(count)), (True,) * count)

    @cached_property
    def failures(self) -> tuple[GuardFailure, ...]:
        """What is reported for an instruction once, by the index of the guard that failed."""
        return tuple(GuardFailure(self, n) for n in range(len(self.guards)))

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
                if is_observed() and (failure := self.failures[n]) not in (known := scope["root"].reported()):
                    scope["root"].report((*known, failure))
                    self.explain(scope, n)
                return False
        return True

    def matched(self, root: HloInstruction, options: Any) -> dict[str, Any] | None:
        """Return the captures for guards and formula if the pattern matches `root`, or None."""
        captures: Captures = {}
        if not self.pattern.match(root, captures):
            return None
        scope: dict[str, Any] = captures  # from here on it holds more than instructions
        scope["root"], scope["options"] = root, options
        scope["b"] = Builder(root) if self.builds_in_guards else None
        return scope

    @cached_property
    def flat(self) -> FlatRule | None:
        """How to check the guards without a match, or None.

        This works if the pattern has only the root's opcode and names for its operands.
        """
        names = operand_names(self.pattern)
        if names is None or self.builds_in_guards:
            return None
        return FlatRule(names, self._asked)

    def explain(self, scope: dict[str, Any], failed: int | None) -> None:
        """Report which guards held and which failed, with their values.

        The same failure for an unchanged instruction is reported once.
        """
        at = len(self.guards) if failed is None else failed
        outcomes: tuple[bool | None, ...] = self.outcomes[at]
        root, asked = scope["root"], asked_names()
        if asked and failed is not None and root.name in asked:
            outcomes = (*outcomes, *holding_beyond(self.guards[failed + 1 :], scope))
            at = len(self.guards)
        told: Sequence[Predicate] = ()
        if self.guards:
            names = self.wanted_until[at]
            told = GuardPredicates(self.guards, outcomes, names, captured([scope[name] for name in names]))
        emit_decision(self.cause(current_cause()), self.label, (root.name,), failed is None, told)

    def cause(self, current: Cause) -> Cause:
        """The cause of a decision about this rule."""
        if current.where == self.where:
            return current
        return self._causes.get(current.pass_name) or self._cause(current.pass_name)

    @cached_property
    def _causes(self) -> dict[str, Cause]:
        """The cause of a decision about this rule, by pass."""
        return {}

    def _cause(self, pass_name: str) -> Cause:
        made = self._causes[pass_name] = Cause(pass_name, self.label, self.where)
        return made

    def _cause_of(self, root: HloInstruction, scope: dict[str, Any]) -> Cause:
        """This rule as a cause, with its pattern and its captures."""
        outer = current_cause()
        parts = (("root", root.name), *[(name, scope[name].name) for name in self._pattern_names])
        return make_tuple(
            Cause,
            (outer.pass_name, self.label, self.where, self.pattern_text, parts, outer.purpose, self.keeps.text),
        )

    def apply(self, root: HloInstruction, scope: dict[str, Any]) -> HloInstruction | None:
        """Build the formula's instructions and replace root by the result.

        Returns the replacement, or None if the formula declines. Instructions with dynamic shapes
        are never rewritten, since formulas compute with the bounds of dimensions.
        """
        for name in self._captured:
            if involves_dynamic(scope[name]):
                return None
        observed = is_observed()
        with caused_by(self._cause_of(root, scope)) if observed else _UNOBSERVED:
            version = root.parent.module.version
            new = self.formula(*[scope[w] for w in self.wants])
            if new is None or (new is root and root.parent.module.version == version):
                return None
            if new is root:
                if observed:
                    self.explain(scope, None)
                return new
            if not fits(root, new, scope["options"]):
                root.parent.remove_dead(new)
                return None
            if observed:
                self.explain(scope, None)
            root.parent.replace(root, new)
        return new


def fits(old: HloInstruction, new: HloInstruction, options: Any) -> bool:
    """Whether `new` may replace `old`: equal shapes, and layouts if the pass considers them."""
    if getattr(options, "is_layout_sensitive", False):
        return old.shape == new.shape
    return old.shape.without_layout() == new.shape.without_layout()


@final
class GuardFailure:
    """The first guard of a rule that failed, for any instruction."""

    __slots__ = ("at", "rule")

    def __init__(self, rule: Rule, at: int) -> None:
        self.rule, self.at = rule, at


class FlatRule:
    """The guards of a rule whose pattern is an opcode over unconstrained operands.

    Values are in one tuple: the operands by number, the options, the root. `count` is the number of
    operands, None for any. Most rules that are tried fail, so this saves most matches.
    """

    __slots__ = ("_asked", "_names", "_place", "_root", "count")

    def __init__(
        self, names: FlatNames, asked: Iterable[tuple[Callable[..., object], str | None, tuple[str, ...]]]
    ) -> None:
        self._names, self._root = names.operands or (), names.root
        self.count = None if names.operands is None else len(names.operands)
        place = {name: n for n, name in enumerate(self._names)} | {"options": -2, "root": -1}
        if self._root:
            place[self._root] = -1
        self._place = place
        self._asked = [
            (n, holds, -1 if only is None else place[only], None if only else [place[w] for w in wants])
            for n, (holds, only, wants) in enumerate(asked)
        ]

    def first_failing(self, values: tuple[Any, ...]) -> int | None:
        """The index of the first guard that fails; None if all hold."""
        for n, holds, at, several in self._asked:
            if not (holds(values[at]) if several is None else holds(*[values[k] for k in several])):
                return n
        return None

    def saw(self, names: Sequence[str], captures: Sequence[Any]) -> tuple[Any, ...]:
        """Return the values of some names from `captured(values)`."""
        found: list[Any] = []
        for name in names:
            at = 2 * self._place[name]
            found += captures[at], captures[at + 1]
        return tuple(found)

    def scope(self, root: HloInstruction, options: Any) -> dict[str, Any]:
        """Return the same captures as `Rule.matched`."""
        scope: dict[str, Any] = dict(zip(self._names, root.operands, strict=False))
        if self._root:
            scope[self._root] = root
        scope["root"], scope["options"], scope["b"] = root, options, None
        return scope


def _tell(root: HloInstruction, options: Any, failures: Sequence[GuardFailure]) -> None:
    """Report rules over one root whose guards failed."""
    root.report((*root.reported(), *failures))
    asked = asked_names()
    if not asked or root.name not in asked:
        emit_deferred_decisions(_FailedRules(failures, current_cause().pass_name, root, options))
        return
    for failure in failures:
        if failure.rule.flat is not None:
            failure.rule.explain(failure.rule.flat.scope(root, options), failure.at)


@final
class _FailedRules(DeferredDecisions):
    """The decisions against rules over one root; the values of their guards are captured once."""

    __slots__ = ("_failed", "_pass_name", "_root_name", "_seen")

    def __init__(self, failed: Sequence[GuardFailure], pass_name: str, root: HloInstruction, options: object) -> None:
        self._failed, self._pass_name, self._root_name = failed, pass_name, root.name
        self._seen = captured((*root.operands, options, root))

    def decisions(self) -> tuple[Decision, ...]:
        found = []
        for failure in self._failed:
            rule = failure.rule
            names = rule.wanted_until[failure.at]
            told = GuardPredicates(
                rule.guards,
                rule.outcomes[failure.at],
                names,
                rule.flat.saw(names, self._seen) if rule.flat is not None else (),
            )
            found.append(Decision(rule.cause(Cause(self._pass_name)), rule.label, (self._root_name,), False, told))
        return tuple(found)


@dataclass
class RuleSet:
    """Rules in order, indexed by the opcode of their root.

    The first that fires wins; each instruction is visited once.

    Attributes:
        name: the name of the set.
        own: rules of this set.
        parts: further sets, as "module:NAME", with the opcodes of their rules' roots. A module is
            imported when an instruction has one of its opcodes.
    """

    name: str
    own: list[Rule] = field(default_factory=list)
    parts: Mapping[str, tuple[HloOpcode, ...]] = field(default_factory=dict)
    _index: dict[HloOpcode, tuple[Rule, ...]] = field(default_factory=dict, repr=False)
    _by_operands: dict[tuple[HloOpcode, ...], tuple[Rule, ...]] = field(default_factory=dict, repr=False)

    def rule(
        self, label: str, pattern: Pattern, *guards: Guard, keeps: Verdict
    ) -> Callable[[Callable[..., HloInstruction | None]], Callable[..., HloInstruction | None]]:
        """Add the decorated formula as a rule; `keeps` is what it preserves of the values."""
        known = {"root", "b", "options", *pattern.names}

        def register(formula: Callable[..., HloInstruction | None]) -> Callable[..., HloInstruction | None]:
            wants = _parameters(formula)
            for w in (*wants, *(w for g in guards for w in g.wants or ())):
                if w not in known:
                    raise TypeError(f"rule {label!r} does not capture {w!r}, only {', '.join(sorted(known))}")
            self.own.append(Rule(label, pattern, guards, formula, wants, keeps))
            self._index.clear()
            self._by_operands.clear()
            return formula

        return register

    @property
    def rules(self) -> list[Rule]:
        """All rules, in order."""
        return [*self.own, *(r for part in self.parts for r in _part(part).rules)]

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
            own = (r for r in self.own if r.pattern.opcodes is None or opcode in r.pattern.opcodes)
            parts = [_part(part) for part, opcodes in self.parts.items() if opcode in opcodes]
            found = self._index[opcode] = (*own, *(r for part in parts for r in part.for_opcode(opcode)))
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
        values = (*root.operands, options, root)
        observed = is_observed()
        reported = root.reported() if observed else ()
        failures: list[GuardFailure] = []
        for r in rules:
            flat = r.flat
            if flat is None:
                scope = r.matched(root, options)
                if scope is None:
                    continue
                if failures:
                    _tell(root, options, failures)
                    failures = []
                if not r.check(scope):
                    continue
            else:
                if flat.count is not None and flat.count != len(values) - 2:
                    continue
                failed = flat.first_failing(values)
                if failed is not None:
                    if observed and (failure := r.failures[failed]) not in reported:
                        failures.append(failure)
                    continue
                scope = flat.scope(root, options)
                if failures:
                    _tell(root, options, failures)
                    failures = []
            scope["b"] = Builder(root)
            if r.apply(root, scope) is not None:
                return True
        if failures:
            _tell(root, options, failures)
        return False

    def __str__(self) -> str:
        return "\n".join(map(str, self.rules))


def _part(name: str) -> RuleSet:
    module, _, attribute = name.partition(":")
    part: RuleSet = getattr(import_module(module), attribute)
    return part
