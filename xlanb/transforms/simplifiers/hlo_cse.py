"""Merge equal instructions: common subexpression elimination (xla/service/hlo_cse.h).

    a = add(x, y);  b = add(x, y);  multiply(a, b)    =>    a = add(x, y);  multiply(a, a)

Instructions are equal if opcode, operands, attributes, shape and (if both have one) sharding are.
Called computations are compared by content, not by name. Equal constants are merged too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias, final

from xlanb.conditions import Condition, asked_names, first_failing, predicates_of
from xlanb.conditions import asked as asked_conditions
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import InstructionRecord
from xlanb.lazy_dataclass import dataclass
from xlanb.tracing import Decision, LazySequence, Predicate, current_cause, emit, is_observed
from xlanb.transforms.base import HloPass, has_layouts
from xlanb.transforms.reason import reason

Key: TypeAlias = tuple[Any, ...]

_NUMBERS = (HloOpcode.PARTITION_ID, HloOpcode.REPLICA_ID)
_UNIQUE = frozenset(
    (HloOpcode.PARAMETER, HloOpcode.RNG, HloOpcode.RNG_GET_AND_UPDATE_STATE, HloOpcode.AFTER_ALL, HloOpcode.OPT_BARRIER)
)


@dataclass(frozen=True)
class HloCse(HloPass):
    """Merges instructions that compute the same value.

    Attributes:
        is_layout_sensitive: shapes must have equal layouts too, as needed after layout-assignment.
            None: true if the module has fusions or bitcasts.
        only_scalars: merge only scalars.
        only_fusion_computations: merge only in bodies of fusions.
    """

    name = "cse"
    is_layout_sensitive: bool | None = None
    only_scalars: bool = False
    only_fusion_computations: bool = False

    def apply(self, module: HloModule) -> None:
        sensitive = self.is_layout_sensitive
        keys = _Keys(has_layouts(module) if sensitive is None else sensitive)
        reader = (self.name, keys.is_layout_sensitive, self.only_scalars)
        is_recording = is_observed()
        for c in self._computations(module):
            if c.is_settled(reader) and not is_recording:
                continue
            version = c.version
            self._merge_constants(c, keys)
            self._merge(c, keys)
            # Callers are compared by the content of the computations they call.
            if c.version == version and not c.calls:
                c.settle(reader)

    def _computations(self, module: HloModule) -> Iterable[HloComputation]:
        if not self.only_fusion_computations:
            return module.post_order()
        return list(dict.fromkeys(i.fused_computation for i in module.instructions() if i.opcode is HloOpcode.FUSION))

    def _merge_constants(self, computation: HloComputation, keys: _Keys) -> None:
        constants = [i for i in computation if i.opcode is HloOpcode.CONSTANT and self._concerns(i)]
        if len(constants) < 2:
            return
        first: dict[Key, HloInstruction] = {}
        for i in constants:
            # As in XLA, shardings don't keep constants apart: every device can hold one whole.
            kept = first.setdefault(_unsharded(keys.of(i)), i)
            if kept is not i:
                _merge_into(kept, i)

    def _merge(self, computation: HloComputation, keys: _Keys) -> None:
        first: dict[Key, _Alike] = {}
        conditions = (_SCALAR, *_MERGEABLE) if self.only_scalars else _MERGEABLE
        asked = asked_names()
        order = computation.post_order()
        if not asked and not _has_pair(order):  # true for most reducers: nothing to compare
            return
        for i in order:
            if not i.operands and i.opcode not in _NUMBERS:
                continue
            start = keys.start(i)
            alike = first.get(start)
            if alike is None:  # as nearly always: what else it has does not matter
                first[start] = _Alike(i, keys, conditions)
            elif i in computation and first_failing(conditions, i) is None:
                kept = alike.find(i)
                if kept is not None:
                    _merge_into(kept, i)
                elif is_observed():
                    alike.tell_apart(i)
        if asked and is_observed():
            self._answer(computation, conditions, keys, asked)

    def _answer(
        self,
        computation: HloComputation,
        conditions: Sequence[Condition[HloInstruction]],
        keys: _Keys,
        names: frozenset[str],
    ) -> None:
        """Report all conditions that keep apart the pairs that an observer asked about."""
        found = [i for i in computation.post_order() if i.name in names and i.opcode is not HloOpcode.CONSTANT]
        for a, b in combinations(found, 2):
            alone = [
                p._replace(name=f"{i.name} {p.name}")
                for i in (a, b)
                for p in asked_conditions(conditions, i, to_the_end=True)
            ]
            pair = _Pair(a, keys.of(a), b, keys.of(b))
            found_apart = (*alone, *asked_conditions(_SAME, pair, to_the_end=True))
            if not all(p.holds for p in found_apart):
                emit(Decision(current_cause(), "cse", (a.name, b.name), False, found_apart))

    def _concerns(self, i: HloInstruction) -> bool:
        return not self.only_scalars or bool(_SCALAR.holds(i))


class _Alike:
    """Instructions with the same opcode and operands. Keys are built if there are two or more."""

    __slots__ = ("_by_key", "_conditions", "_first", "_keys", "_waiting")

    def __init__(self, first: HloInstruction, keys: _Keys, conditions: Sequence[Condition[HloInstruction]]) -> None:
        self._waiting: HloInstruction | None = first
        self._keys, self._conditions = keys, conditions
        self._by_key: dict[Key, list[HloInstruction]] = {}
        self._first: tuple[HloInstruction, Key] | None = None

    def find(self, i: HloInstruction) -> HloInstruction | None:
        """Return the instruction that `i` can be replaced by; otherwise add `i` and return None."""
        first, self._waiting = self._waiting, None
        if first is not None and first_failing(self._conditions, first) is None:
            self._keep(first, self._keys.of(first))
        key = self._keys.of(i)
        for other in self._by_key.get(_unsharded(key), ()):
            if _shardings_agree(other.sharding, i.sharding):
                return other
        self._keep(i, key)
        return None

    def _keep(self, i: HloInstruction, key: Key) -> None:
        if self._first is None:
            self._first = i, key
        self._by_key.setdefault(_unsharded(key), []).append(i)

    def tell_apart(self, i: HloInstruction) -> None:
        """Report the first later key part in which `i` differs from the first instruction."""
        if self._first is not None and self._first[0] is not i:
            _report_difference(_Pair(*self._first, i, self._keys.of(i)))


def _has_pair(instructions: Iterable[HloInstruction]) -> bool:
    """Whether two of them have the same opcode and operand count, so that they may be equal."""
    seen = set()
    for i in instructions:
        if i.operands or i.opcode in _NUMBERS:
            key = (i.opcode, len(i.operands))
            if key in seen:
                return True
            seen.add(key)
    return False


@final
class _Identical(LazySequence[Predicate]):
    """An instruction is identical to another; its text is printed when it is read."""

    __slots__ = ("_copy",)

    def __init__(self, copy: InstructionRecord) -> None:
        super().__init__()
        self._copy = copy

    def _create(self) -> tuple[Predicate, ...]:
        return (Predicate("identical", True, self._copy.text),)


@reason("identical")
def _merge_into(kept: HloInstruction, copy: HloInstruction) -> None:
    if is_observed():
        emit(Decision(current_cause(), "cse", (kept.name, copy.name), True, _Identical(copy.record())))
    copy.parent.replace(copy, kept)


def _report_difference(pair: _Pair) -> None:
    """Report why two instructions with equal opcode and operands are not merged."""
    later = _SAME[_ALIKE:]
    failed = first_failing(later, pair)
    if failed is not None:
        subject = (pair.first.name, pair.second.name)
        emit(Decision(current_cause(), "cse", subject, False, predicates_of(later, failed, pair)))


_SCALAR: Condition[HloInstruction] = Condition(
    "is a scalar", lambda i: i.shape.is_array and not i.array_shape.dimensions, lambda i: str(i.shape)
)

_MERGEABLE: tuple[Condition[HloInstruction], ...] = (
    Condition(
        "is not an instruction that must stay unique", lambda i: i.opcode not in _UNIQUE, lambda i: i.opcode.text
    ),
    Condition(
        "has operands",
        lambda i: i.operands or i.opcode in _NUMBERS,
        lambda i: "" if i.operands else f"{i.opcode.text}: each is cheap to fuse",
    ),
    Condition("has no side effect", lambda i: not i.has_side_effect, lambda i: i.opcode.text),
    Condition(
        "has no control dependencies",
        lambda i: not i.control_predecessors and not i.control_successors,
        lambda i: ", ".join(o.name for o in (*i.control_predecessors, *i.control_successors)),
        lambda i: f"remove the control dependencies of `{i.name}`",
    ),
)
"""Conditions for merging an instruction with another."""


class _Pair(NamedTuple):
    """Two instructions with their keys."""

    first: HloInstruction
    first_key: Key
    second: HloInstruction
    second_key: Key

    @property
    def operands(self) -> str:
        texts = [", ".join(o.name for o in i.operands) for i in (self.first, self.second)]
        return " and ".join(dict.fromkeys(texts))


def _same(name: str, part: int, value: Callable[[_Pair], str], remedy: Callable[[_Pair], str]) -> Condition[_Pair]:
    """A part of the keys that must be equal."""
    return Condition(name, lambda p: p.first_key[part] == p.second_key[part], value, remedy)


def _give(p: _Pair, what: str) -> str:
    return f"give `{p.second.name}` the {what} of `{p.first.name}`"


def _differing(p: _Pair) -> str:
    """The names of the attributes in which two instructions differ."""
    a, b = (dict(k[3]) if k[0] is not HloOpcode.CONSTANT else {} for k in (p.first_key, p.second_key))
    return ", ".join(sorted(n for n in a.keys() | b.keys() if a.get(n) != b.get(n)))


def _unsharded(key: Key) -> Key:
    return (*key[:_SHARDING], *key[_SHARDING + 1 :])


def _shardings_agree(a: str, b: str) -> bool:
    """Whether shardings are compatible: a value without one takes the other's."""
    return not a or not b or a == b


_SHARDING = 4
"""The index of the sharding in a key."""

_SAME: tuple[Condition[_Pair], ...] = (
    _same("same opcode", 0, lambda p: f"{p.first.opcode.text} and {p.second.opcode.text}", lambda _: ""),
    _same("same operands", 1, lambda p: p.operands, lambda p: _give(p, "operands")),
    _same("same shape", 2, lambda p: f"{p.first.shape} and {p.second.shape}", lambda p: _give(p, "shape")),
    _same("same attributes", 3, _differing, lambda p: _give(p, "attributes")),
    Condition(
        "same sharding",
        lambda p: _shardings_agree(p.first.sharding, p.second.sharding),
        lambda p: f"{p.first.sharding} and {p.second.sharding}",
        lambda p: _give(p, "sharding"),
    ),
    _same("same backend config", 5, lambda _: "", lambda p: _give(p, "backend config")),
)
"""The parts of a key in order, as `_Keys.of` returns them."""
_ALIKE = 2
"""The number of parts of `_Keys.start`."""


def computation_keys() -> Callable[[HloComputation], Hashable]:
    """A function that returns a key of a computation.

    Keys are equal if two computations do the same, in the same layouts.
    """
    return _Keys(is_layout_sensitive=True).computation


@dataclass
class _Keys:
    """What two instructions must share to be merged."""

    is_layout_sensitive: bool
    _computations: dict[HloComputation, int] = field(default_factory=dict)
    _numbers: dict[Hashable, int] = field(default_factory=dict)
    """A number for each content of a computation, so that it is hashed only once."""

    def of(self, i: HloInstruction) -> Key:
        """The parts in _SAME: opcode, operands, shape, attributes, sharding, backend config."""
        return (*self.start(i), self.shape(i), self.attributes(i), i.sharding, i.backend_config)

    def start(self, i: HloInstruction) -> Key:
        """The first parts of the key: opcode and operands."""
        operands: tuple[Hashable, ...] = tuple(
            [o.uid if o.opcode is not HloOpcode.IOTA else self._iota(o) for o in i.operands]
        )
        if i.opcode.is_commutative and hash(operands[0]) > hash(operands[1]):
            operands = operands[::-1]
        return i.opcode, operands

    def _iota(self, i: HloInstruction) -> Hashable:
        # As in XLA equal iotas are not merged, since each is cheap to fuse; but as operands they
        # are equal.
        return (i.get("iota_dimension"), self.shape(i))

    def shape(self, i: HloInstruction) -> Hashable:
        return i.shape if self.is_layout_sensitive else i.shape.without_layout()

    def attributes(self, i: HloInstruction) -> Any:
        if i.opcode is HloOpcode.CONSTANT:
            # Literals that differ only in layout are equal.
            literal = i.literal
            return (literal,) if self.is_layout_sensitive or not i.shape.is_array or literal.is_elided else literal.bits
        given = i.attributes
        if not given:
            return ()
        return tuple([(k, self._value(given[k])) for k in (sorted(given) if len(given) > 1 else given)])

    def _value(self, value: Any) -> Any:
        if isinstance(value, HloComputation):
            return self.computation(value)
        if isinstance(value, tuple) and value and isinstance(value[0], HloComputation):
            return tuple([self.computation(v) for v in value])
        return value

    def computation(self, c: HloComputation) -> int:
        """A number that computations of equal content share.

        Instructions are identified by their position in post order.
        """
        found = self._computations.get(c)
        if found is None:
            if c.calls:
                content = self._content(c)
            else:  # kept for the next run
                content = c.derived(("cse content", self.is_layout_sensitive), self._content)
            found = self._computations[c] = self._numbers.setdefault(content, len(self._numbers))
        return found

    def _content(self, c: HloComputation) -> _Content:
        place: dict[HloInstruction, int] = {}
        rows: list[Hashable] = []
        for i in c.post_order():
            rows.append((i.opcode, tuple([place[o] for o in i.operands]), self.shape(i), self.attributes(i)))
            if i.opcode in _UNIQUE and i.opcode is not HloOpcode.PARAMETER:
                rows.append((i.uid,))
            place[i] = len(place)
        return _Content((tuple(rows), place[c.root]))


class _Content:
    """What a computation does; hashed once."""

    __slots__ = ("_hash", "_rows")

    def __init__(self, rows: Hashable) -> None:
        self._rows, self._hash = rows, hash(rows)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and self._hash == other._hash and self._rows == other._rows
