r"""Shardings that a program names: on parameters, on results, and as constraints.

Finds them, and changes them in a copy of the program.

x = parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}, {}]>"}
    of a parameter
c = custom-call(y), custom_call_target="Sharding", frontend_attributes={xla.sdy.sharding=...}
    a constraint
r = custom-call(y), custom_call_target="xla.sdy.FuncResultSharding", frontend_attributes={...}
    of a result
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum

from xlanb.errors import XlanbError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.python_lines import place_text
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.spmd.conversions import from_hlo_sharding, to_hlo_sharding
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import TensorSharding, parse_shardings, shardings_text
from xlanb.transforms.inlining import bypass

SHARDING = "xla.sdy.sharding"
_CONSTRAINTS = ("Sharding", "xla.sdy.ShardingConstraint")
_RESULT = "xla.sdy.FuncResultSharding"


class AnnotationKind(Enum):
    """The kind of instruction that carries a sharding."""

    PARAMETER = "parameter"
    CONSTRAINT = "constraint"
    RESULT = "result"


@dataclass(frozen=True)
class ShardingAnnotation:
    """A sharding that the program names, with the name of the instruction that carries it."""

    instruction: str
    kind: AnnotationKind
    sharding: TensorSharding
    place: str = ""

    def __str__(self) -> str:
        at = f" ({self.place})" if self.place else ""
        return f"{self.kind.value} {self.instruction}{at} is annotated {dims_text(self.sharding)}"


@dataclass(frozen=True)
class AnnotationChange:
    """A new sharding for an annotation, or a new constraint on an instruction's result.

    `sharding` None removes the annotation.
    """

    instruction: str
    sharding: TensorSharding | None
    is_new: bool = False


def dims_text(sharding: TensorSharding) -> str:
    """The dimensions of a sharding without its mesh: `[{"data"}, {}]`."""
    return sharding.text.removeprefix(f"<@{sharding.mesh}, ").removesuffix(">")


def axes_named(text: str, mesh: Mesh | None, rank: int | None) -> TensorSharding | None:
    """Return an HLO sharding in terms of mesh axes, or None if they cannot express it.

    Args:
        text: the HLO sharding.
        mesh: the mesh whose axes to use; None gives None.
        rank: the array's rank, for a sharding that does not imply one.
    """
    if not text or mesh is None:
        return None
    try:
        sharding = HloSharding.parse(text)
    except XlanbError:
        return None
    own = sharding.tiled_data_rank if sharding.is_tiled else rank
    return from_hlo_sharding(sharding, mesh, own) if own is not None else None


def sharding_words(text: str, mesh: Mesh | None, rank: int | None) -> str:
    """Return an HLO sharding for a reader: by mesh axes or in words, followed by HLO's text."""
    if not text or text.startswith("{{"):
        return text
    named = axes_named(text, mesh, rank)
    if named is not None:
        return f"{dims_text(named)}, that is {text}"
    sharding = HloSharding.parse(text)
    if mesh is not None and sharding.is_tiled and sharding.num_devices < mesh.num_devices:
        return f"{text} within each group of {sharding.num_devices} devices"
    return text


def annotation_of(i: HloInstruction, meshes: Mapping[str, Mesh]) -> ShardingAnnotation | None:
    """Return the sharding that an instruction names, or None if it names none or several."""
    kind = _kind(i)
    text = dict(i.frontend_attributes).get(SHARDING)
    if kind is None or not text or not isinstance(i.shape, ArrayShape):
        return None
    found = parse_shardings(text, dict(meshes))
    if len(found) != 1:
        return None
    return ShardingAnnotation(i.name, kind, found[0], place_text(*i.metadata.python_line) or i.metadata.op_name)


def _kind(i: HloInstruction) -> AnnotationKind | None:
    if i.opcode is HloOpcode.PARAMETER:
        return AnnotationKind.PARAMETER
    target = i.attributes.get("custom_call_target") if i.opcode is HloOpcode.CUSTOM_CALL else None
    if target == _RESULT:
        return AnnotationKind.RESULT
    return AnnotationKind.CONSTRAINT if target in _CONSTRAINTS else None


def annotations_before(
    module: HloModule, i: HloInstruction, meshes: Mapping[str, Mesh]
) -> Iterator[ShardingAnnotation]:
    """Yield the annotations on an instruction and on what it is computed from, nearest first.

    Follows calls and loops.
    """
    callers = _callers(module)

    def sources(at: HloInstruction) -> Iterator[HloInstruction]:
        yield from at.operands
        if at.opcode in _CALLS:
            yield from (c.root for c in at.called_computations)
        if at.opcode is HloOpcode.PARAMETER:
            yield from (o for caller in callers[at.parent] for o in _caller_values(caller, at))

    yield from _reachable(i, meshes, sources)


def annotations_after(module: HloModule, i: HloInstruction, meshes: Mapping[str, Mesh]) -> Iterator[ShardingAnnotation]:
    """Yield the annotations on an instruction and on what is computed from it, nearest first.

    Follows calls and loops.
    """
    callers = _callers(module)

    def results(at: HloInstruction) -> Iterator[HloInstruction]:
        yield from at.users
        if at is at.parent.root:
            yield from callers[at.parent]

    yield from _reachable(i, meshes, results)


_CALLS = frozenset((HloOpcode.CALL, HloOpcode.WHILE, HloOpcode.CONDITIONAL))


def _callers(module: HloModule) -> dict[HloComputation, list[HloInstruction]]:
    out: dict[HloComputation, list[HloInstruction]] = defaultdict(list)
    for i in module.instructions():
        if i.opcode in _CALLS:
            for c in i.called_computations:
                out[c].append(i)
    return out


def _caller_values(caller: HloInstruction, parameter: HloInstruction) -> tuple[HloInstruction, ...]:
    """Return a parameter's value at a caller: its operand at a call, otherwise all operands."""
    if caller.opcode is HloOpcode.CALL:
        return (caller.operands[parameter.parameter_number],)
    return caller.operands


def _reachable(
    start: HloInstruction, meshes: Mapping[str, Mesh], neighbors: Callable[[HloInstruction], Iterable[HloInstruction]]
) -> Iterator[ShardingAnnotation]:
    seen, queue = {start}, deque([start])
    while queue:
        at = queue.popleft()
        annotation = annotation_of(at, meshes)
        if annotation is not None:
            yield annotation
        if annotation is not None and annotation.kind is AnnotationKind.CONSTRAINT and at is not start:
            continue  # a constraint ends the search
        for one in neighbors(at):
            if one not in seen:
                seen.add(one)
                queue.append(one)


def with_changes(module: HloModule, changes: Iterable[AnnotationChange], meshes: Mapping[str, Mesh]) -> HloModule:
    """Return a copy of a module with changed annotations.

    Raises:
        XlanbError: no instruction has that name.
    """
    changed = module.clone()
    for change in changes:
        found = changed.find(change.instruction)
        if found is None or found.parent is None:
            raise XlanbError(f"no instruction {change.instruction!r} in module {module.name}")
        if change.sharding is None:
            _drop(found)
        elif change.is_new:
            _constrain(found, change.sharding, meshes)
        else:
            _annotate(found, change.sharding, meshes)
    return changed


def _drop(i: HloInstruction) -> None:
    if i.opcode is HloOpcode.CUSTOM_CALL:
        bypass(i, i.operands[0])
        return
    kept = tuple(a for a in i.frontend_attributes if a[0] != SHARDING)
    i.parent.update(i, sharding="", frontend_attributes=kept)


def _annotate(i: HloInstruction, sharding: TensorSharding, meshes: Mapping[str, Mesh]) -> None:
    kept = tuple(a for a in i.frontend_attributes if a[0] != SHARDING)
    per_value = i.opcode is HloOpcode.CUSTOM_CALL
    text = shardings_text((sharding,)) if per_value else str(sharding)
    hlo = str(to_hlo_sharding(sharding, meshes[sharding.mesh])) if i.sharding else ""
    i.parent.update(i, sharding=hlo, frontend_attributes=(*kept, (SHARDING, text)))


def _constrain(i: HloInstruction, sharding: TensorSharding, meshes: Mapping[str, Mesh]) -> None:
    users, c = list(i.users), i.parent
    made = c.add(HloOpcode.CUSTOM_CALL, (i,), i.shape, like=i, custom_call_target="Sharding")
    hlo = str(to_hlo_sharding(sharding, meshes[sharding.mesh]))
    c.update(made, sharding=hlo, frontend_attributes=((SHARDING, shardings_text((sharding,))),))
    for user in users:
        c.set_operands(user, [made if o is i else o for o in user.operands])
    if c.root is i:
        c.set_root(made)
