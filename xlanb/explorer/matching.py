"""Match the instructions of two modules: by computation, names, neighbors, and last text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.hlo.records import ComputationName, InstructionRecord, ModuleRecord
from xlanb.shape import Literal

_MAX_DEPTH = 200
_LEAVES = frozenset({Op.CONSTANT, Op.IOTA, Op.PARAMETER})

Key = tuple[str, str]


class ModuleSide:
    """A module's instructions by (computation, name), with a number for what each computes."""

    def __init__(self, module: ModuleRecord) -> None:
        self.module = module
        self.meaning: dict[Key, int] = {}
        self._seen_through: set[str] = set()
        self._computations: dict[str, int] = {}
        for c in module.computations:
            if c.name not in self._seen_through and c.name not in self._fused:
                self._visit(c.name, None, 0)

    @cached_property
    def _fused(self) -> frozenset[str]:
        return frozenset(
            n
            for c in self.module.computations
            for i in c.instructions
            if i.opcode is Op.FUSION
            for n in i.called_computations
        )

    def items(self) -> Iterator[tuple[Key, InstructionRecord]]:
        """Yield all instructions except fused computations' parameters, which are operands."""
        for c in self.module.computations:
            fused = c.name in self._fused
            for i in c.instructions:
                if not (fused and i.opcode is Op.PARAMETER):
                    yield (c.name, i.name), i

    @cached_property
    def users(self) -> Mapping[Key, list[Key]]:
        """Each instruction's users within its computation, without repeats."""
        found: dict[Key, list[Key]] = defaultdict(list)
        for (c, name), i in self.items():
            for o in dict.fromkeys(i.operands):
                found[c, o].append((c, name))
        return found

    @cached_property
    def callers(self) -> Mapping[str, Key]:
        """The fusion of each fused computation."""
        return {
            n: (c.name, i.name)
            for c in self.module.computations
            for i in c.instructions
            if i.opcode is Op.FUSION
            for n in i.called_computations[:1]
        }

    def local(self, key: Key) -> tuple[Any, ...]:
        """Return an instruction's own properties, without names, layouts and operands."""
        return _local(self.at(key), self.called)

    def source(self, key: Key) -> Key:
        """Return where a value is computed, looking through fusions and tuples.

        A fused computation's parameter is the fusion's operand, a fusion is its root, and a tuple's
        element is the operand of the tuple.
        """
        for _ in range(_MAX_DEPTH):
            i = self.at(key)
            if i.opcode is Op.PARAMETER and key[0] in self.callers:
                caller = self.callers[key[0]]
                operands, number = self.at(caller).operands, int(i.attributes.get("parameter_number", 0))
                if number >= len(operands):
                    return key
                key = (caller[0], operands[number])
            elif i.opcode is Op.FUSION and i.called_computations and i.called_computations[0] in self.module.by_name:
                inner = self.module.by_name[i.called_computations[0]]
                key = (inner.name, inner.root)
            elif i.opcode is Op.GET_TUPLE_ELEMENT:
                whole = self.source((key[0], i.operands[0]))
                index = int(i.attributes.get("index", 0))
                if self.at(whole).opcode is not Op.TUPLE or index >= len(self.at(whole).operands):
                    return key
                key = (whole[0], self.at(whole).operands[index])
            else:
                return key
        return key

    def at(self, key: Key) -> InstructionRecord:
        """Return the instruction of a key."""
        return self.module.by_name[key[0]].by_name[key[1]]

    def _visit(self, name: str, arguments: Sequence[int] | None, depth: int) -> int:
        """Compute the meaning of every instruction of a computation; return the root's.

        `arguments` are the meanings of a fusion's operands.
        """
        computation = self.module.by_name[name]
        self._seen_through.add(name)
        for i in computation.instructions:
            self.meaning[name, i.name] = self._meaning_of(name, i, arguments, depth)
        return self.meaning.get((name, computation.root), 0)

    def _meaning_of(self, name: str, i: InstructionRecord, arguments: Sequence[int] | None, depth: int) -> int:
        operands = tuple(self.meaning.get((name, o), 0) for o in i.operands)
        if i.opcode is Op.PARAMETER:
            number = int(i.attributes.get("parameter_number", 0))
            if arguments is not None and number < len(arguments):
                return arguments[number]
            return hash((str(i.opcode), number, i.shape.text(layout=False)))
        if i.opcode is Op.FUSION and i.called_computations and depth < _MAX_DEPTH:
            return self._visit(i.called_computations[0], operands, depth + 1)
        if i.opcode is Op.GET_TUPLE_ELEMENT and operands:
            return self._element(name, i, operands[0])
        return hash((_local(i, self.called), operands))

    def _element(self, name: str, i: InstructionRecord, whole: int) -> int:
        """Return the meaning of a tuple's element, made by a fusion or a tuple instruction."""
        index = i.attributes.get("index", 0)
        source_in, source = name, self.module.by_name[name].by_name.get(i.operands[0])
        while source is not None and source.opcode is Op.FUSION and source.called_computations:
            source_in = source.called_computations[0]
            inner = self.module.by_name[source_in]
            source = inner.by_name.get(inner.root)
        if source is not None and source.opcode is Op.TUPLE and index < len(source.operands):
            return self.meaning.get((source_in, source.operands[index]), 0)
        return hash(("element", index, whole))

    def called(self, name: str) -> int:
        """Return the meaning of a called computation (a reducer, a loop's body)."""
        if name not in self._computations:
            self._computations[name] = 0  # a recursive call stands for itself
            if name in self.module.by_name:
                self._computations[name] = self._visit(name, None, 1)
        return self._computations[name]


def _local(i: InstructionRecord, called: Callable[[str], int]) -> tuple[Any, ...]:
    """Return an instruction's own properties, without names and layouts."""
    attributes = tuple((k, plain(v, called)) for k, v in sorted(i.attributes.items()))
    return (str(i.opcode), i.shape.text(layout=False), attributes)


def plain(value: Any, called: Callable[[str], int]) -> Any:
    """Return an attribute's value for comparison; a computation by its meaning."""
    if isinstance(value, ComputationName):
        return called(value.name)
    if isinstance(value, tuple) and value and isinstance(value[0], ComputationName):
        return tuple(called(v.name) for v in value)
    return value if isinstance(value, Literal) else str(value)


# -- pairing ---------------------------------------------------------------------------------------


@dataclass
class Pairs:
    """Matched instructions of two modules; each step pairs what earlier ones left."""

    left: ModuleSide
    right: ModuleSide
    forward: dict[Key, Key] = field(default_factory=dict)
    backward: dict[Key, Key] = field(default_factory=dict)

    def find(self) -> None:
        """Pair instructions, most certain pairs first."""
        self._by(lambda side, key, i: (str(i.opcode), side.meaning.get(key, 0)))
        self._by(lambda side, key, i: (key, i.metadata.op_name, side.local(key)))
        self._by_neighbours(lambda side, key: side.local(key))
        self._by(_looks)
        self._by_neighbours(lambda side, key: side.local(key))
        self._by_neighbours(_opcode_key)
        self._by(lambda _, key, i: None if i.opcode in _LEAVES else (str(i.opcode), key))

    def _add(self, a: Key, b: Key) -> bool:
        """Pair two unpaired instructions."""
        if a in self.forward or b in self.backward:
            return False
        self.forward[a], self.backward[b] = b, a
        return True

    def _by(self, sort: Callable[[ModuleSide, Key, InstructionRecord], Hashable | None]) -> None:
        """Pair instructions with equal keys; a None key matches nothing.

        Of several, pair first those with equal names, then those in one computation, then those
        both inside or outside the entry, then in order.
        """
        groups = []
        for side, taken in ((self.left, self.forward), (self.right, self.backward)):
            groups.append([(k, g) for k, i in side.items() if k not in taken and (g := sort(side, k, i)) is not None])
        entries = (self.left.module.entry, self.right.module.entry)
        for narrow in (
            lambda key, _: key,
            lambda key, _: key[0],
            lambda key, n: key[0] == entries[n],
            lambda _, __: None,
        ):
            free: dict[Hashable, list[Key]] = defaultdict(list)
            for key, group in reversed(groups[1]):
                if key not in self.backward:
                    free[group, narrow(key, 1)].append(key)
            for key, group in groups[0]:
                found = free.get((group, narrow(key, 0)))
                if found and key not in self.forward:
                    self._add(key, found.pop())

    def _by_neighbours(self, sort: Callable[[ModuleSide, Key], Hashable]) -> None:
        """Pair operands of matched instructions, and users that take them at the same position.

        There must be only one such candidate on each side.
        """
        work = list(self.forward.items())
        while work:
            a, b = work.pop()
            x, y = self.left.at(a), self.right.at(b)
            near = []
            if len(x.operands) == len(y.operands):
                near = [((a[0], p), (b[0], q)) for p, q in zip(x.operands, y.operands, strict=True)]
            near = [(u, v) for u, v in near if self._is_free(u, v) and sort(self.left, u) == sort(self.right, v)]
            users = [self._single_users(side, key, sort) for side, key in ((self.left, a), (self.right, b))]
            near += [(users[0][k], users[1][k]) for k in users[0].keys() & users[1].keys()]
            work += [(u, v) for u, v in near if self._add(u, v)]

    def _is_free(self, u: Key, v: Key) -> bool:
        known = u[1] in self.left.module.by_name[u[0]].by_name and v[1] in self.right.module.by_name[v[0]].by_name
        return known and u not in self.forward and v not in self.backward and not self._is_inner(u, v)

    def _is_inner(self, u: Key, v: Key) -> bool:
        """Whether one is a fused computation's parameter, which represents an operand."""
        return any(
            side.at(k).opcode is Op.PARAMETER and k[0] in side.callers for side, k in ((self.left, u), (self.right, v))
        )

    def _single_users(
        self, side: ModuleSide, key: Key, sort: Callable[[ModuleSide, Key], Hashable]
    ) -> dict[Hashable, Key]:
        """Return an instruction's unpaired users by properties and operand position, if unique."""
        taken = self.forward if side is self.left else self.backward
        found: dict[Hashable, list[Key]] = defaultdict(list)
        for user in side.users.get(key, ()):
            if user not in taken:
                operands = side.at(user).operands
                found[sort(side, user), operands.index(key[1]), len(operands)].append(user)
        return {k: users[0] for k, users in found.items() if len(users) == 1}


def _looks(_: ModuleSide, __: Key, i: InstructionRecord) -> Hashable | None:
    """Return opcode, shape and op_name as a key, or None if there is no op_name.

    Constants have no key, because constants with other values differ.
    """
    if i.opcode in _LEAVES or not i.metadata.op_name:
        return None
    return (str(i.opcode), i.shape.text(layout=False), i.metadata.op_name)


def _opcode_key(side: ModuleSide, key: Key) -> Hashable:
    """Return the opcode; for constants, also the shape."""
    i = side.at(key)
    return (str(i.opcode), i.shape.text(layout=False) if i.opcode in _LEAVES else "")
