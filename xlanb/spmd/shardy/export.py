"""Export a Program to HLO, with HLO shardings (xla/service/spmd/shardy/stablehlo_round_trip).

Constraints become copies, and manual computations become calls between SPMDFullToShardShape and
SPMDShardToFullShape. Loops and branches get tuples again; a body's free values become its last
arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.hlo.text.parse_metadata import frontend_attributes_text
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.shape.shape import array
from xlanb.spmd.conversions import evenly_sharded, to_hlo_sharding
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.module_meshes import module_frontend_attributes
from xlanb.spmd.sdy import MESHES, TensorSharding
from xlanb.spmd.shardy.editing import captured
from xlanb.spmd.shardy.import_ import CONSTRAINT, PREFIX
from xlanb.spmd.shardy.program import ShardyOp, ShardyProgram, ShardyRegion, ShardyValue, ValueKind
from xlanb.spmd.shardy.result_layouts import result_shape

FULL_TO_SHARD = "SPMDFullToShardShape"
SHARD_TO_FULL = "SPMDShardToFullShape"
SOURCE_NAMES = "source names"
"""The module note of former instruction names: {name now: name of the value}."""
_MANUAL_BODY = "xla.sdy.inlinable_manual_computation_body"
_STEERING = (MESHES, "xla.sdy.use_tuple_args", "xla.sdy.import_mhlo_shardings", "xla.sdy.in_tuple_shardings")


@dataclass(frozen=True)
class _Manual:
    """The axes that are manual in the enclosing computation, and their mesh."""

    axes: tuple[str, ...] = ()
    mesh: str = ""


@dataclass
class _Body:
    """A computation being written, and the instruction of each value in it."""

    exporter: _Exporter
    computation: HloComputation
    manual: _Manual
    env: dict[ShardyValue, HloInstruction] = field(default_factory=dict)

    # -- shardings ---------------------------------------------------------------------------------

    def sharding(self, sharding: TensorSharding | None, rank: int, manual: _Manual | None = None) -> HloSharding | None:
        """Return the HLO sharding; with manual axes, every value has one."""
        manual = self.manual if manual is None else manual
        if sharding is None:
            if not manual.axes:
                return None
            sharding = TensorSharding.fully_closed(manual.mesh, rank)
        mesh = self.exporter.program.meshes[sharding.mesh]
        known = manual.axes if not manual.axes or sharding.mesh == manual.mesh else tuple(mesh.sizes)
        return to_hlo_sharding(sharding.without_axes(known), mesh, known)

    def shardings(self, values: Sequence[ShardyValue], *, always: bool = False) -> list[HloSharding] | None:
        """Return the result shardings of one operation, replicated if only others have one.

        Returns None if no result has one, unless `always`.
        """
        found = [self.sharding(v.sharding, v.rank) for v in values]
        if not always and all(s is None for s in found):
            return None
        return [s or HloSharding.replicate() for s in found]

    def set_sharding(self, i: HloInstruction, shardings: Sequence[HloSharding] | None) -> HloInstruction:
        """Set an instruction's sharding from its leaves' shardings."""
        if shardings:
            whole = isinstance(i.shape, TupleShape)
            text = str(HloSharding.tuple_of(shardings) if whole else shardings[0])
            self.computation.update(i, sharding=text)
        return i

    # -- operations --------------------------------------------------------------------------------

    def write(self, region: ShardyRegion) -> None:
        """Append the operations of a region."""
        for op in region.ops:
            _WRITERS[op.kind](self, op)

    def operands(self, op: ShardyOp) -> list[HloInstruction]:
        """Return the instructions of an operation's operands."""
        return [self.env[v] for v in op.operands]

    def bind(self, i: HloInstruction, results: Sequence[ShardyValue], shardings: Sequence[HloSharding] | None) -> None:
        """Bind values to an instruction: to itself, or to its used tuple elements."""
        self.set_sharding(i, shardings)
        if results:
            self.exporter.source_names[i.name] = results[0].name
        if not isinstance(i.shape, TupleShape):
            for value in results:
                self.env[value] = i
            return
        for n, value in enumerate(results):
            if value.uses or value.returned:
                part = self.part(i, n)
                self.set_sharding(part, shardings[n : n + 1] if shardings else None)
                self.exporter.source_names[part.name] = value.name
                self.env[value] = part

    def part(self, i: HloInstruction, number: int) -> HloInstruction:
        """Return a leaf of a (nested) tuple."""
        shape = i.shape
        while isinstance(shape, TupleShape):
            for n, s in enumerate(shape.shapes):
                count = s.leaf_count if isinstance(s, TupleShape) else 1
                if number < count:
                    i = self.computation.add(O.GET_TUPLE_ELEMENT, [i], s, metadata=i.metadata, index=n)
                    shape = s
                    break
                number -= count
        return i

    def tuple(self, values: Iterable[HloInstruction], like: HloInstruction) -> HloInstruction:
        """Write a tuple of instructions."""
        return self.computation.add(O.TUPLE, list(values), metadata=like.metadata)


def _write_hlo(body: _Body, op: ShardyOp) -> None:
    operands = body.operands(op)
    if any(isinstance(o.shape, TupleShape) for o in op.hlo.operands):
        operands = _regrouped(body, op.hlo, operands)
    copy = body.computation.clone_instruction(op.hlo, operands, result_shape(op.hlo, operands))
    attributes = {k: body.exporter.called(v, body.manual) for k, v in op.hlo.attributes.items()}
    body.computation.update(copy, attributes=attributes, sharding="", frontend_attributes=_kept(op.hlo))
    body.bind(copy, op.results, body.shardings(op.results))


def _regrouped(body: _Body, source: HloInstruction, leaves: list[HloInstruction]) -> list[HloInstruction]:
    """Return operands in the tuples that the source had."""
    left = iter(leaves)

    def made(shape: Shape) -> HloInstruction:
        return body.tuple([made(s) for s in shape.shapes], source) if isinstance(shape, TupleShape) else next(left)

    return [made(o.shape) for o in source.operands]


def _write_copy(body: _Body, op: ShardyOp) -> None:
    (operand,) = body.operands(op)
    copy = body.computation.add(O.COPY, [operand], operand.shape, name=op.name, metadata=op.hlo.metadata)
    body.bind(copy, op.results, body.shardings(op.results))


def _write_nothing(body: _Body, op: ShardyOp) -> None:
    for source, result in zip(op.operands, op.results, strict=True):
        body.env[result] = body.env[source]


def _write_barrier(body: _Body, op: ShardyOp) -> None:
    operands = body.operands(op)
    given = operands[0] if len(operands) == 1 else body.tuple(operands, op.hlo)
    shardings = body.shardings(op.results)
    body.set_sharding(given, shardings if len(operands) > 1 else None)
    made = body.computation.add(O.OPT_BARRIER, [given], given.shape, name=op.name, metadata=op.hlo.metadata)
    body.bind(made, op.results, shardings)


def _write_while(body: _Body, op: ShardyOp) -> None:
    free = captured(op.regions)
    carried = [*op.operands, *free]
    shardings = [*(body.shardings(op.results, always=True) or ()), *(body.shardings(free, always=True) or ())]
    condition, loop = op.regions
    computations = [
        body.exporter.looped(r, s.name, [*r.arguments, *free], shardings, body.manual, free if r is loop else None)
        for r, s in ((condition, op.hlo.attributes["condition"]), (loop, op.hlo.attributes["body"]))
    ]
    given = _as_tuple(body, [body.env[v] for v in carried], op.hlo, shardings)
    made = body.computation.add(
        O.WHILE,
        [given],
        given.shape,
        name=op.name,
        metadata=op.hlo.metadata,
        condition=computations[0],
        body=computations[1],
    )
    if op.hlo.backend_config:
        body.computation.update(made, backend_config=op.hlo.backend_config)
    body.bind(made, op.results, shardings)


def _as_tuple(
    body: _Body, values: list[HloInstruction], like: HloInstruction, shardings: Sequence[HloSharding] | None
) -> HloInstruction:
    """Return a single value itself, and several as a tuple."""
    if len(values) == 1:
        return values[0]
    return body.set_sharding(body.tuple(values, like), shardings)


def _write_case(body: _Body, op: ShardyOp) -> None:
    operands = body.operands(op)
    computations = []
    shardings = body.shardings(op.results, always=True)
    for region, source in zip(op.regions, op.hlo.called_computations, strict=True):
        free = captured([region])
        given = body.shardings(free)
        operands.append(_as_tuple(body, [body.env[v] for v in free], op.hlo, given))
        computations.append(body.exporter.looped(region, source.name, free, given, body.manual, None, shardings))
    names = [k for k, v in op.hlo.attributes.items() if isinstance(v, HloComputation)]
    attributes = dict(zip(names, computations, strict=True)) if names else {"branch_computations": tuple(computations)}
    shape = computations[0].root.shape
    made = body.computation.add(O.CONDITIONAL, operands, shape, name=op.name, metadata=op.hlo.metadata, **attributes)
    body.bind(made, op.results, shardings)


def _write_named(body: _Body, op: ShardyOp) -> None:
    (region,) = op.regions
    free = captured([region])
    results = [r.sharding for r in op.results]
    called = body.exporter.function(region, op.hlo.to_apply.name, free, results, body.manual)
    operands = [*body.operands(op), *(body.env[v] for v in free)]
    made = body.computation.add(
        O.CALL, operands, called.root.shape, name=op.name, metadata=op.hlo.metadata, to_apply=called
    )
    body.computation.update(made, frontend_attributes=_kept(op.hlo), backend_config=op.hlo.backend_config)
    body.bind(made, op.results, body.shardings(op.results))


def _write_manual(body: _Body, op: ShardyOp) -> None:
    (region,) = op.regions
    outer, axes = body.manual, op.attributes["manual_axes"]
    edges = [v.edge for v in (*region.arguments, *op.results)]
    mesh = next((e.sharding.mesh for e in edges if e is not None and e.sharding is not None), outer.mesh)
    inner = _Manual((*outer.axes, *(a for a in axes if a not in outer.axes)), mesh)
    c, metadata = body.computation, op.hlo.metadata

    def change(
        value: HloInstruction, shape: Shape, target: str, sharding: TensorSharding, ways: list[_Manual]
    ) -> HloInstruction:
        """Write a copy with one side's sharding, and a custom call with the other's."""
        rank = len(sharding.dims)
        copy = c.add(O.COPY, [value], value.shape, name=op.name, metadata=metadata)
        body.set_sharding(copy, _one(body.sharding(sharding, rank, ways[0])))
        made = c.add(O.CUSTOM_CALL, [copy], shape, name=op.name, metadata=metadata, custom_call_target=target)
        return body.set_sharding(made, _one(body.sharding(sharding, rank, ways[1])))

    operands = []
    for value, argument in zip(op.operands, region.arguments, strict=True):
        sharding = argument.edge.sharding if argument.edge else None
        given = body.env[value]
        if sharding is not None and argument.is_array:
            given = change(given, argument.shape, FULL_TO_SHARD, sharding, [outer, inner])
        operands.append(given)
    wanted = [None if r.sharding is None else r.sharding.without_axes(inner.axes) for r in op.results]
    called = body.exporter.function(region, _MANUAL_BODY, [], wanted, inner)
    call = c.add(O.CALL, operands, called.root.shape, name=op.name, metadata=metadata, to_apply=called)
    local = [body.sharding(w, r.rank, inner) or HloSharding.manual() for w, r in zip(wanted, op.results, strict=True)]
    body.set_sharding(call, local)
    for n, result in enumerate(op.results):
        part = call if not isinstance(call.shape, TupleShape) else body.part(call, n)
        if part is not call:
            body.set_sharding(part, [local[n]])
        if result.is_array and result.sharding is not None:
            part = change(part, result.shape, SHARD_TO_FULL, result.sharding, [inner, outer])
        body.env[result] = part


def _one(sharding: HloSharding | None) -> list[HloSharding] | None:
    return None if sharding is None else [sharding]


def _kept(i: HloInstruction) -> tuple[tuple[str, str], ...]:
    """Return the frontend attributes that are not Shardy's."""
    return tuple(a for a in i.frontend_attributes if not a[0].startswith(PREFIX))


_WRITERS = {
    ValueKind.HLO: _write_hlo,
    ValueKind.CONSTRAINT: _write_copy,
    ValueKind.BARRIER: _write_nothing,
    ValueKind.OPTIMIZATION_BARRIER: _write_barrier,
    ValueKind.WHILE: _write_while,
    ValueKind.CASE: _write_case,
    ValueKind.NAMED: _write_named,
    ValueKind.MANUAL: _write_manual,
}


@dataclass
class _Exporter:
    module: HloModule
    program: ShardyProgram
    source_names: dict[str, str] = field(default_factory=dict)

    def called(self, value: object, manual: _Manual) -> object:
        """Return an attribute with its computations copied.

        With manual axes, their instructions get a manual sharding.
        """
        if isinstance(value, HloComputation):
            copy = self.module.clone_computation(value)
            sharding = self._scalar_sharding(manual)
            for i in copy.instructions:
                if i.attributes.get("custom_call_target") == CONSTRAINT:
                    made = copy.add(O.COPY, i.operands, i.shape, name=i.name, metadata=i.metadata)
                    copy.replace_uses(i, made)
                    copy.remove(i)
            for i in copy.instructions:
                if i.sharding != sharding and i.opcode is not O.PARAMETER:
                    copy.update(i, sharding=sharding)
            return copy
        if isinstance(value, tuple) and value and isinstance(value[0], HloComputation):
            return tuple(self.called(v, manual) for v in value)
        return value

    def _scalar_sharding(self, manual: _Manual) -> str:
        if not manual.axes:
            return ""
        mesh = self.program.meshes[manual.mesh]
        return str(to_hlo_sharding(TensorSharding(manual.mesh, ()), mesh, manual.axes))

    def looped(
        self,
        region: ShardyRegion,
        name: str,
        arguments: Sequence[ShardyValue],
        shardings: Sequence[HloSharding] | None,
        manual: _Manual,
        passed: Sequence[ShardyValue] | None,
        result_shardings: Sequence[HloSharding] | None = None,
    ) -> HloComputation:
        """Write a body with one parameter: the only argument, or a tuple of them.

        `passed` values are returned after its results.
        """
        c = self.module.add_computation(name)
        body = _Body(self, c, manual)
        shapes = [a.shape for a in arguments]
        shape = shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))
        parameter = c.add(O.PARAMETER, (), shape, name="arg_tuple", parameter_number=0)
        uses = {v for r in [region] for v in _used(r)} | set(passed or ())
        body.set_sharding(parameter, shardings)
        if len(arguments) == 1:
            body.env[arguments[0]] = parameter
        for n, value in enumerate(arguments if len(arguments) > 1 else ()):
            if value in uses:
                part = c.add(O.GET_TUPLE_ELEMENT, [parameter], value.shape, index=n)
                own = n < len(region.arguments) or body.sharding(value.sharding, value.rank) is not None
                body.env[value] = body.set_sharding(part, shardings[n : n + 1] if shardings and own else None)
        body.write(region)
        results = [body.env[v] for v in (*region.results, *(passed or ()))]
        given = shardings if passed is not None else result_shardings
        c.set_root(_root(body, results, given or [None] * len(results), None))
        return c

    def function(
        self,
        region: ShardyRegion,
        name: str,
        free: Sequence[ShardyValue],
        results: Sequence[TensorSharding | None],
        manual: _Manual,
        root: Shape | None = None,
        names: Sequence[HloInstruction] = (),
    ) -> HloComputation:
        """Write a computation with one parameter per argument and free value."""
        c = self.module.add_computation(name)
        body = _Body(self, c, manual)
        for n, value in enumerate((*region.arguments, *free)):
            made = c.add(O.PARAMETER, (), value.shape, name=value.name, parameter_number=n)
            if n < len(names):
                c.update(made, metadata=names[n].metadata, frontend_attributes=_kept(names[n]))
            self.source_names[made.name] = value.name
            body.env[value] = body.set_sharding(made, _one(body.sharding(value.sharding, value.rank)))
        body.write(region)
        wanted = [body.sharding(s, v.rank) for s, v in zip(results, region.results, strict=True)]
        c.set_root(_root(body, [body.env[v] for v in region.results], wanted, root))
        return c


def _root(
    body: _Body, values: list[HloInstruction], wanted: Sequence[HloSharding | None], shape: Shape | None
) -> HloInstruction:
    """Write a computation's root with the required shardings.

    With `shape` None, a single value is the root itself, and several are a tuple.
    """
    if len(values) == 1 and not isinstance(shape, TupleShape):
        return _root_value(body, values[0], wanted[0])
    if shape is not None and any(w is not None for w in wanted):
        values = [_row_major(body, v, w) for v, w in zip(values, wanted, strict=True)]
    root = _nested(body, iter(values), shape) if shape is not None else body.tuple(values, values[0])
    if any(w is not None for w in wanted):
        body.set_sharding(root, [w or HloSharding.replicate() for w in wanted])
    return _whole(body, root)


def _root_value(body: _Body, value: HloInstruction, sharding: HloSharding | None) -> HloInstruction:
    """Return a single result, through a tuple if its own sharding differs."""
    if sharding is None or str(sharding) == value.sharding:
        return value
    if not value.sharding:
        return body.set_sharding(value, [sharding])
    whole = body.set_sharding(body.tuple([value], value), [HloSharding.parse(value.sharding)])
    part = body.computation.add(O.GET_TUPLE_ELEMENT, [whole], value.shape, metadata=value.metadata, index=0)
    names = body.exporter.source_names
    names[part.name] = names.get(value.name, value.name)
    return body.set_sharding(part, [sharding])


def _row_major(body: _Body, value: HloInstruction, sharding: HloSharding | None) -> HloInstruction:
    """Reshape a program result whose layout is not XLA's default."""
    if not isinstance(value.shape, ArrayShape):
        return value
    wanted = array(value.shape.element_type, value.shape.dimensions)
    if value.shape.layout in (None, wanted.layout):
        return value
    return body.set_sharding(body.computation.add(O.RESHAPE, [value], wanted), _one(sharding))


def _whole(body: _Body, root: HloInstruction) -> HloInstruction:
    """Return the original tuple if this one holds all its elements with the same shardings."""
    parts = root.operands
    source = parts[0].operands[0] if parts and parts[0].opcode is O.GET_TUPLE_ELEMENT else None
    if source is None or source.shape != root.shape:
        return root
    for n, part in enumerate(parts):
        if part.opcode is not O.GET_TUPLE_ELEMENT or part.operands[0] is not source or part.tuple_index != n:
            return root
    if source.sharding and root.sharding and source.sharding != root.sharding:
        return root
    if root.sharding and not source.sharding:
        body.computation.update(source, sharding=root.sharding)
    body.computation.set_root(source)
    body.computation.remove_dead(root)
    return source


def _nested(body: _Body, leaves: Iterable[HloInstruction], shape: Shape) -> HloInstruction:
    """Write leaves as a tuple of this shape."""
    left = iter(leaves)

    def made(s: Shape) -> HloInstruction:
        return body.computation.add(O.TUPLE, [made(e) for e in s.shapes]) if isinstance(s, TupleShape) else next(left)

    return made(shape)


def _used(region: ShardyRegion) -> set[ShardyValue]:
    """Return the values that a body uses, including nested bodies."""
    out = set(region.results)
    for op in region.walk():
        out.update(op.operands)
        for inner in op.regions:
            out.update(inner.results)
    return out


def export_program(program: ShardyProgram, module: HloModule) -> None:
    """Replace a module's computations with a program's.

    Removes Shardy's attributes and sets `num_partitions`.
    """
    entry = module.entry_computation
    exporter = _Exporter(module, program)
    made = exporter.function(
        program.body,
        entry.name,
        [],
        program.result_shardings,
        _Manual(),
        entry.root.shape,
        entry.parameters,
    )
    module.set_entry(made)
    module.notes[SOURCE_NAMES] = exporter.source_names
    module.remove_unused_computations()
    devices = max((m.num_devices for m in program.meshes.values()), default=1)
    if module.header.get("num_partitions", "1") == "1" and devices > 1:
        module.header["num_partitions"] = str(devices)
    kept = tuple(a for a in module_frontend_attributes(module) if a[0] not in _STEERING)
    module.header.pop("frontend_attributes", None)
    if kept:
        module.header["frontend_attributes"] = frontend_attributes_text(kept)


def make_ends_even(program: ShardyProgram) -> None:
    """Give parameters and results even tiles (UpdateNonDivisibleInputOutputShardings)."""
    for value in program.body.arguments:
        if value.sharding is not None:
            value.sharding = evenly_sharded(value.sharding, value.dimensions, program.mesh_of(value.sharding))
    program.result_shardings = [
        None if s is None else evenly_sharded(s, v.dimensions, program.mesh_of(s))
        for s, v in zip(program.result_shardings, program.body.results, strict=True)
    ]
