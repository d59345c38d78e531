"""Whether `trace.bisect` names the faulty rule: rules and passes are made wrong, one at a time.

For every rule of algsimp and every pass with an example, the mutations below are tried in turn,
until one changes the program's result; a mutation without effect is not a fault. The programs are
the examples of the tests and modules drawn from the rules' patterns, each with three correct ones,
and two JAX training steps, through the default pipeline (passes that are not in it: between cse,
dce and fusion).

Columns: what was made wrong and how, the result of the bisection, whether it is right, wall seconds
of the bisection (one thread).
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from tests.browser.programs import residual_step, transformer_step
from tests.transforms.algebraic_simplifier.test_algebraic_simplifier import EXAMPLES, written
from tests.transforms.meaning import drawn, mantissas
from tests.transforms.test_goldens import INPUTS
from tests.transforms.verdicts.drawing import Drawing, RedrawError
from xlanb import from_jax
from xlanb.cpu import pipeline
from xlanb.errors import XlanbError
from xlanb.evaluator import evaluate
from xlanb.explorer.bisection import compiled_meaning
from xlanb.explorer.numbers import compared, leaves_of, module_of, tolerance_of
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.hlo import HloComputation, HloInstruction, HloOpcode, parse
from xlanb.shape import PrimitiveType
from xlanb.tracing import Cause, Edit, Event, cause_of_edit, current_cause, observing
from xlanb.transforms import PASSES, HloPassPipeline
from xlanb.transforms.algebraic_simplifier import algebraic_simplifier as simplifier
from xlanb.transforms.algebraic_simplifier.algebraic_simplifier import RULES
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import Rule, RuleSet

Mutation = Callable[[Builder, HloInstruction], HloInstruction | None]
_BESIDE = 3
_DRAWN = 8
_MARGIN = 8.0
_SEED = 7


# -- what is made wrong ----------------------------------------------------------------------------


def _negated(b: Builder, x: HloInstruction) -> HloInstruction | None:
    t = x.array_shape.element_type
    if t.text == "pred":
        return b.unary(HloOpcode.NOT, x)
    return b.unary(HloOpcode.NEGATE, x) if t.is_floating or t.is_signed or t.is_complex else None


def _off_by_one(b: Builder, x: HloInstruction) -> HloInstruction | None:
    if x.array_shape.element_type.text == "pred":
        return None
    return b.binary(HloOpcode.ADD, x, b.full(1, x.array_shape))


def _cut_at_zero(b: Builder, x: HloInstruction) -> HloInstruction | None:
    """Wrong for negative numbers only."""
    t = x.array_shape.element_type
    if not (t.is_floating or t.is_signed):
        return None
    return b.binary(HloOpcode.MAXIMUM, x, b.full(0, x.array_shape))


def _rounded(b: Builder, x: HloInstruction) -> HloInstruction | None:
    if not x.array_shape.element_type.is_floating:
        return None
    return b.add(HloOpcode.REDUCE_PRECISION, (x,), x.shape, exponent_bits=8, mantissa_bits=4)


def _reversed(b: Builder, x: HloInstruction) -> HloInstruction | None:
    sizes = x.array_shape.dimensions
    along = next((d for d in reversed(range(len(sizes))) if sizes[d] > 1), None)
    return None if along is None else b.add(HloOpcode.REVERSE, (x,), x.shape, dimensions=(along,))


def _first_wrong(b: Builder, x: HloInstruction) -> HloInstruction | None:
    """Wrong in the first row only."""
    s = x.array_shape
    if not s.rank or s.dimensions[0] < 2:
        return None
    wrong = _negated(b, x)
    if wrong is None:
        return None
    rows = b.add(HloOpcode.IOTA, (), s.with_type(PrimitiveType.S32), iota_dimension=0)
    return b.select(b.compare(rows, "EQ", b.full(0, rows.array_shape)), wrong, x)


MUTATIONS: dict[str, Mutation] = {
    "rounded to 4 bits": _rounded,
    "the first row negated": _first_wrong,
    "cut at zero": _cut_at_zero,
    "elements reversed": _reversed,
    "off by one": _off_by_one,
    "negated": _negated,
}


class Nobody:
    """An observer that ignores all events."""

    def on_event(self, event: Event) -> None:
        """Do nothing."""


@dataclass
class Fault:
    """A fault: the pass, the rule ("" if named at run time), the mutation, and the rule in which it
    was made.
    """

    pass_name: str
    rule: str
    how: str
    made: set[str]


def _swapped(rule: Rule, fault: Fault) -> Rule | None:
    """Return the rule with the first two operands of its formula exchanged, if of one shape."""
    names = [w for w in rule.wants if w not in ("b", "root", "options")]
    if len(names) < 2:
        return None

    def wrong(*given: Any) -> HloInstruction | None:
        scope = dict(zip(rule.wants, given, strict=True))
        first, second = (scope[n] for n in names[:2])
        if first is not second and first.shape == second.shape:
            scope[names[0]], scope[names[1]] = second, first
            fault.made.add(rule.label)
        return rule.formula(*[scope[w] for w in rule.wants])

    return replace(rule, formula=wrong)


def _mutated(rule: Rule, mutation: Mutation, fault: Fault) -> Rule:
    def wrong(b: Builder, root: HloInstruction, *given: Any) -> HloInstruction | None:
        new = rule.formula(*given)
        if new is None or new is root or not new.shape.is_array:
            return new
        made = mutation(b, new)
        if made is None:
            return new
        fault.made.add(rule.label)
        return made

    return replace(rule, formula=wrong, wants=("b", "root", *rule.wants))


def _unguarded(rule: Rule, k: int, fault: Fault) -> Rule:
    """The rule without one of its guards."""
    guard = rule.guards[k]

    def holds(*seen: Any) -> bool:
        if not guard.holds(*seen):
            fault.made.add(rule.label)
        return True

    return replace(rule, guards=tuple(replace(g, holds=holds) if g is guard else g for g in rule.guards))


@contextmanager
def _rule_as(old: Rule, new: Rule) -> Iterator[None]:
    """Let algsimp have another rule in the place of one."""
    right = simplifier.RULES
    try:
        simplifier.RULES = RuleSet(right.name, [new if r is old else r for r in right.rules])
        yield
    finally:
        simplifier.RULES = right


@contextmanager
def _pass_wrong(fault: Fault, mutation: Mutation) -> Iterator[None]:
    """Mutate the replacements of an array by one rule of the pass, the first that makes any."""
    right = HloComputation.replace

    def wrong(self: HloComputation, old: HloInstruction, new: HloInstruction, **options: Any) -> Any:
        rule = cause_of_edit().rule
        is_it = current_cause().pass_name == fault.pass_name and fault.made <= {rule}
        if is_it and new.shape.is_array and old.shape == new.shape:
            made = mutation(Builder(new), new)
            if made is not None:
                fault.made.add(rule)
                new = made
        return right(self, old, new, **options)

    try:
        HloComputation.replace = wrong  # type: ignore[method-assign]
        yield
    finally:
        HloComputation.replace = right  # type: ignore[method-assign]


# -- programs --------------------------------------------------------------------------------------


def texts_of(rule: Rule) -> Iterator[str]:
    """Yield programs in which a rule may fire: its test's, then some drawn from its pattern.

    The rule's guards are not considered.
    """
    if rule.label in EXAMPLES:
        yield written(EXAMPLES[rule.label])
    for seed in range(_DRAWN):
        kind = (PrimitiveType.F32, PrimitiveType.S32)[seed % 2]
        with suppress(XlanbError, RedrawError):
            yield str(Drawing(kind, np.random.default_rng(seed), moderate=True).of(rule.pattern, (3, 4)))


def together(texts: Sequence[str]) -> str:
    """One program that calls the entries of some and returns all results."""
    parts, calls, results, shapes, count = [], [], [], [], itertools.count()
    for k, text in enumerate(texts):
        module = parse(text)
        entry = module.entry_computation
        body = re.sub(r"^HloModule.*\n", "", str(module))
        for c in module.computations:
            body = re.sub(rf"%{re.escape(c.name)}(?=[ ,)}}\n])", f"%{c.name}_of_{k}", body)
        parts.append(body.replace("ENTRY ", ""))
        taken = []
        for p in entry.parameters:
            n = next(count)
            calls.append(f"  p{n} = {p.shape} parameter({n})")
            taken.append(f"p{n}")
        calls.append(f"  r{k} = {entry.root.shape} call({', '.join(taken)}), to_apply=%{entry.name}_of_{k}")
        results.append(f"r{k}")
        shapes.append(str(entry.root.shape))
    root = f"  ROOT t = ({', '.join(shapes)}) tuple({', '.join(results)})"
    return "\n".join(["HloModule together", *parts, "ENTRY everything {", *calls, root, "}"])


def traced(text: str, pass_name: str) -> Trace:
    """The stages of the default pipeline; of a few passes around one that is not in it."""
    module = parse(text)
    trace = Trace("m", [Stage("hlo", "before_optimizations", None, module.record())])
    chosen = pipeline()
    if pass_name not in chosen.names:
        chosen = HloPassPipeline("some", [PASSES[name]() for name in ("cse", pass_name, "dce", "fusion")])
    with observing(Nobody()):  # causes are reported to observers only
        results = list(chosen.steps(module))
    for n, r in enumerate(results, 1):
        trace.stages.append(Stage("hlo_pass", r.name, r.before, r.after, index=n, pipeline=r.pipeline))
    return trace


@dataclass(frozen=True)
class Program:
    """HLO text, its arguments, and an upper bound of the relative error of correct passes."""

    text: str
    inputs: tuple[Any, ...]
    tolerance: float | None = None


def program(text: str) -> Program:
    """A text with numbers of random mantissas for its parameters."""
    rng = np.random.default_rng(_SEED)
    return Program(text, tuple(drawn(p.shape, rng, mantissas) for p in parse(text).entry_computation.parameters))


def training_step(step: Callable[[], Any]) -> tuple[Program, list[Rule]]:
    """Return a JAX training step with its arguments, and the rules of algsimp that fire in it."""
    import jax

    function, arguments = step()
    text = str(from_jax(function, *arguments))
    inputs = tuple(np.asarray(a) for a in jax.tree_util.tree_leaves(arguments))
    fired = Fired()
    with observing(fired):
        list(pipeline().steps(parse(text)))
    plain = Program(text, inputs)
    error = max(error_of(traced(text, "algsimp"), plain))
    return replace(plain, tolerance=_MARGIN * error), [r for r in RULES.rules if r.label in fired.rules]


class Fired:
    """The rules under which algsimp made edits."""

    def __init__(self) -> None:
        self.rules: set[str] = set()

    def on_event(self, event: Event) -> None:
        """Take one edit."""
        if isinstance(event, Edit) and event.cause.pass_name == "algsimp":
            self.rules.add(event.cause.rule)


def error_of(trace: Trace, given: Program) -> list[float]:
    """Return the error of each result of the last module against the first.

    Infinite if NaNs or infinities are at other places.
    """
    first, last = (module_of(s.after) for s in (trace.stages[0], trace.stages[-1]))  # type: ignore[arg-type]
    meaning = compiled_meaning(trace, trace.stages[-1])
    wanted, got = (leaves_of(evaluate(meaning(m), *given.inputs)) for m in (first, last))
    pairs = [compared(a, b) for a, b in zip(got, wanted, strict=True)]
    return [float("inf") if broken else error for error, broken in pairs]


def moves(trace: Trace, given: Program) -> bool:
    """Whether the last module computes other numbers than the first."""
    first = module_of(trace.stages[0].after)  # type: ignore[arg-type]
    limit = given.tolerance
    if limit is None:
        limit = tolerance_of(leaves_of(evaluate(first, *given.inputs)))
    return any(error > limit for error in error_of(trace, given))


# -- the table -------------------------------------------------------------------------------------


Candidate = tuple[Fault, AbstractContextManager[None]]


def _in_turn(n: int) -> list[str]:
    names = list(MUTATIONS)
    return names[n % len(names) :] + names[: n % len(names)]


def subjects() -> Iterator[tuple[str, Iterator[tuple[Program, Iterator[Candidate]]]]]:
    """Yield rules and passes to make wrong, with the programs and the faults to try."""
    beside = [written(text) for text in EXAMPLES.values()]
    for n, rule in enumerate(RULES.rules):
        others = [beside[(7 * n + k) % len(beside)] for k in range(_BESIDE)]
        yield rule.label, _programs(rule, others, partial(_of_formula, n, rule))
        for k, guard in enumerate(rule.guards):
            yield f"{rule.label}: {guard.name}", _programs(rule, others, partial(_of_guard, rule, k))
    for n, path in enumerate(INPUTS):
        text = path.read_text(encoding="utf-8")
        yield f"{path.parent.name}: {path.stem}", iter([(program(text), _of_pass(n, path.parent.name))])
    for step in (residual_step, transformer_step):
        whole, fired = training_step(step)
        for n, rule in enumerate(fired):
            yield f"{step.__name__}: {rule.label}", iter([(whole, _of_formula(n, rule))])


def _programs(
    rule: Rule, beside: list[str], faults: Callable[[], Iterator[Candidate]]
) -> Iterator[tuple[Program, Iterator[Candidate]]]:
    for text in texts_of(rule):
        with suppress(XlanbError):  # a drawing need not be a program
            yield program(together([beside[0], text, *beside[1:]])), faults()


def _of_guard(rule: Rule, k: int) -> Iterator[Candidate]:
    fault = Fault("algsimp", rule.label, f"guard dropped: {rule.guards[k].name}", set())
    yield fault, _rule_as(rule, _unguarded(rule, k, fault))


def _of_formula(n: int, rule: Rule) -> Iterator[Candidate]:
    fault = Fault("algsimp", rule.label, "operands exchanged", set())
    swapped = _swapped(rule, fault)
    if swapped is not None:
        yield fault, _rule_as(rule, swapped)
    for how in _in_turn(n):
        fault = Fault("algsimp", rule.label, how, set())
        yield fault, _rule_as(rule, _mutated(rule, MUTATIONS[how], fault))


def _of_pass(n: int, name: str) -> Iterator[Candidate]:
    for how in _in_turn(n):
        fault = Fault(name, "", how, set())
        yield fault, _pass_wrong(fault, MUTATIONS[how])


def attempt(programs: Iterator[tuple[Program, Iterator[Candidate]]]) -> dict[str, Any] | None:
    """Return the bisection of the first fault that changes the result, or None."""
    for given, candidates in programs:
        for fault, wrong in candidates:
            with wrong:
                row = _bisected(fault, given)
            if row is not None:
                if not moves(traced(given.text, fault.pass_name), given):
                    return row
                break  # this program moves without a fault
    return None


def _bisected(fault: Fault, given: Program) -> dict[str, Any] | None:
    """Return a row of the table; None if the fault has no effect, or breaks the program itself."""
    try:
        trace = traced(given.text, fault.pass_name)
        if not fault.made or not moves(trace, given):
            return None
    except Exception:  # noqa: BLE001 - a formula without its guard may raise anything
        return None
    rules = set(fault.made)
    start = time.perf_counter()
    found = trace.bisect(*given.inputs, tolerance=given.tolerance)
    seconds = time.perf_counter() - start
    cause = found.rewrite.cause if found.rewrite is not None else Cause()
    is_it = cause.pass_name == fault.pass_name and cause.rule in rules
    named = "yes" if is_it else f"{found.stage.name if found.stage else 'no stage'}: {cause.rule or 'no rule'}"
    size = parse(given.text).instruction_count
    row = {"pass": fault.pass_name, "rule": min(rules), "fault": fault.how, "instructions": size}
    return {**row, "named": named, "s": round(seconds, 2)}


def table() -> pd.DataFrame:
    """A row for each fault, and the sum."""
    rows = [row for _, programs in subjects() if (row := attempt(programs)) is not None]
    frame = pd.DataFrame(rows)
    right = int((frame["named"] == "yes").sum())
    total = {
        "pass": "all",
        "rule": f"{len(frame)} faults",
        "named": f"{right} of {len(frame)}",
        "s": frame["s"].median(),
    }
    return pd.concat([frame, pd.DataFrame([total])])
