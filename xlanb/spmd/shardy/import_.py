"""Import a module with Shardy's attributes as a Program.

Follows xla/service/spmd/shardy/sdy_round_trip and shardy/dialect/sdy/transforms/import. Tuples are
flattened. Custom calls become constraints, groups, barriers and manual computations (JAX's
shard_map). Values that a while loop only passes through are used directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from xlanb.errors import UnimplementedError, XlanbError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.module_meshes import meshes_of
from xlanb.spmd.sdy import (
    SHARDING,
    AxisRef,
    TensorSharding,
    parse_manual_axes,
    parse_shardings,
)
from xlanb.spmd.shardy.editing import captured, remove_dead, replace_uses_within
from xlanb.spmd.shardy.program import (
    DataFlowEdge,
    ShardyOp,
    ShardyProgram,
    ShardyRegion,
    ShardyValue,
    ValueKind,
    add_edge,
    add_op,
    set_results,
)

PREFIX = "xla.sdy."
CONSTRAINT = "Sharding"
_MANUAL_BODY = f"{PREFIX}manual_computation_body"
_OPEN_DIMS = "unspecified_dims=["


@dataclass
class _Importer:
    program: ShardyProgram
    aliases: dict[ShardyValue, tuple[ShardyValue, TensorSharding]] = field(default_factory=dict)
    """For results of xla.sdy.FuncResultSharding: the value, and its sharding as entry result."""
    groups: dict[str, list[ShardyValue]] = field(default_factory=dict)

    # -- computations ------------------------------------------------------------------------------

    def computation(
        self, source: HloComputation, arguments: Sequence[list[ShardyValue]], region: ShardyRegion
    ) -> list[ShardyValue]:
        """Append a computation's operations to a region; return its root's leaves."""
        env: dict[HloInstruction, list[ShardyValue]] = {}
        live = _live(source)
        for i in source.post_order():
            if i not in live:
                continue
            if i.opcode is O.PARAMETER:
                env[i] = list(arguments[i.parameter_number])
            elif i.opcode is O.TUPLE:
                env[i] = [v for o in i.operands for v in env[o]]
            elif i.opcode is O.GET_TUPLE_ELEMENT:
                env[i] = _part(env[i.operands[0]], i.operands[0].shape, i.tuple_index)
            else:
                env[i] = self._instruction(i, env, region)
        return env[source.root]

    def _instruction(
        self, i: HloInstruction, env: dict[HloInstruction, list[ShardyValue]], region: ShardyRegion
    ) -> list[ShardyValue]:
        given = [v for o in i.operands for v in env[o]]
        operands = [self.seen(v) for v in given]
        if i.opcode is O.WHILE:
            return self._while(i, operands, region)
        if i.opcode is O.CONDITIONAL:
            return self._conditional(i, [[self.seen(v) for v in env[o]] for o in i.operands], region)
        if i.opcode is O.CALL:
            return self._call(i, operands, region)
        if i.opcode is O.OPT_BARRIER:
            op = add_op(region, ValueKind.OPTIMIZATION_BARRIER, i, operands, _leaf_shapes(i.shape))
            for result in op.results:
                add_edge(self.program, DataFlowEdge(result, [result], op, (result.index,)))
            return op.results
        if i.opcode is O.CUSTOM_CALL:
            special = self._custom_call(i, operands, region)
            if special is not None:
                return special
        op = add_op(region, ValueKind.HLO, i, operands, _leaf_shapes(i.shape))
        self.annotate(i, op.results)
        return op.results

    def seen(self, value: ShardyValue) -> ShardyValue:
        """Return the value behind an xla.sdy.FuncResultSharding."""
        return self.aliases[value][0] if value in self.aliases else value

    def annotate(self, i: HloInstruction, values: Sequence[ShardyValue]) -> None:
        """Give values the shardings that their instruction names."""
        text = dict(i.frontend_attributes).get(SHARDING)
        if not text:
            return
        shardings = self.parse(text)
        if len(shardings) != len(values):
            raise XlanbError(f"{len(shardings)} shardings do not match the {len(values)} values of {i}")
        for value, sharding in zip(values, shardings, strict=True):
            if value.is_array and sharding.rank != value.rank:
                raise XlanbError(
                    f"the sharding {sharding} has rank {sharding.rank}, which does not match {value.shape} of {i}"
                )
            value.sharding = sharding

    def parse(self, text: str) -> list[TensorSharding]:
        """Parse shardings in Shardy's text, dropping axes of size 1."""
        return [without_trivial_axes(s, self.program.meshes) for s in parse_shardings(text, self.program.meshes)]

    # -- custom calls ------------------------------------------------------------------------------

    def _custom_call(
        self, i: HloInstruction, operands: list[ShardyValue], region: ShardyRegion
    ) -> list[ShardyValue] | None:
        """Import one of Shardy's custom calls; return None for any other."""
        target = i.attributes.get("custom_call_target", "")
        attributes = dict(i.frontend_attributes)
        if target in (CONSTRAINT, f"{PREFIX}ShardingConstraint"):
            return self._constraint(i, operands, region)
        if target == f"{PREFIX}FuncResultSharding":
            (sharding,) = self.parse(attributes[SHARDING])
            alias = ShardyValue(i.name, i.shape)
            self.aliases[alias] = operands[0], sharding
            return [alias]
        if target == f"{PREFIX}ShardingGroup":
            self.groups.setdefault(attributes[f"{PREFIX}sharding_group_id"], []).append(operands[0])
            return []
        if target == f"{PREFIX}PropagationBarrier":
            op = add_op(region, ValueKind.BARRIER, i, operands, [i.shape])
            op.attributes["allowed_direction"] = attributes.get(f"{PREFIX}allowed_direction", "NONE").split()[-1]
            return op.results
        if target in (f"{PREFIX}GlobalToLocalShape", f"{PREFIX}LocalToGlobalShape"):
            return operands  # the call between them handles both
        return None

    def _constraint(self, i: HloInstruction, operands: list[ShardyValue], region: ShardyRegion) -> list[ShardyValue]:
        text = dict(i.frontend_attributes).get(SHARDING)
        if not text:
            raise UnimplementedError(f"the sharding constraint has no Shardy sharding: {i}")
        (sharding,) = self.parse(text)
        config = i.backend_config
        if _OPEN_DIMS in config:
            listed = config.partition(_OPEN_DIMS)[2].partition("]")[0]
            for d in map(int, listed.split(",")):
                sharding = sharding.with_dim(d, replace(sharding.dims[d], is_closed=False))
        op = add_op(region, ValueKind.CONSTRAINT, i, operands, [i.shape])
        op.results[0].sharding = sharding
        return op.results

    # -- bodies ------------------------------------------------------------------------------------

    def _while(self, i: HloInstruction, operands: list[ShardyValue], region: ShardyRegion) -> list[ShardyValue]:
        condition, body = i.attributes["condition"], i.attributes["body"]
        shapes = _leaf_shapes(i.shape)
        passed = self._passed_through(body, shapes)
        kept = [n for n in range(len(shapes)) if n not in passed]
        op = add_op(region, ValueKind.WHILE, i, [operands[n] for n in kept], [shapes[n] for n in kept])
        for source in (condition, body):
            inner = ShardyRegion(parent=op)
            op.regions.append(inner)
            inner.arguments = [ShardyValue(f"{source.name}.{n}", shapes[n]) for n in kept]
            own = iter(inner.arguments)
            leaves = [operands[n] if n in passed else next(own) for n in range(len(shapes))]
            results = self.computation(source, [leaves], inner)
            set_results(inner, results if source is condition else [results[n] for n in kept])
        for n, result in enumerate(op.results):
            targets = [result, *(r.arguments[n] for r in op.regions)]
            add_edge(self.program, DataFlowEdge(result, targets, op, (n,), ((op.regions[1], n),)))
        given = iter(op.results)
        out = [operands[n] if n in passed else next(given) for n in range(len(shapes))]
        if not passed:
            self.annotate(i, out)
        return out

    def _passed_through(self, body: HloComputation, shapes: list[Shape]) -> frozenset[int]:
        """Return the indices of a loop's state that its body returns unchanged."""
        scratch = _Importer(ShardyProgram(ShardyRegion(), dict(self.program.meshes)))
        arguments = [ShardyValue("", s) for s in shapes]
        results = scratch.computation(body, [arguments], ShardyRegion())
        return frozenset(n for n, (a, r) in enumerate(zip(arguments, results, strict=True)) if a is r)

    def _conditional(
        self, i: HloInstruction, operands: list[list[ShardyValue]], region: ShardyRegion
    ) -> list[ShardyValue]:
        op = add_op(region, ValueKind.CASE, i, operands[0], _leaf_shapes(i.shape))
        branches = i.called_computations
        for source, given in zip(branches, operands[1:], strict=True):
            inner = ShardyRegion(parent=op)
            op.regions.append(inner)
            set_results(inner, self.computation(source, [given], inner))
        for n, result in enumerate(op.results):
            add_edge(self.program, DataFlowEdge(result, [result], op, (), tuple((r, n) for r in op.regions)))
        self.annotate(i, op.results)
        return op.results

    def _call(self, i: HloInstruction, operands: list[ShardyValue], region: ShardyRegion) -> list[ShardyValue]:
        if _MANUAL_BODY in i.to_apply.name:
            return self._manual(i, operands, region)
        op = add_op(region, ValueKind.NAMED, i, operands, _leaf_shapes(i.shape))
        inner = ShardyRegion(parent=op)
        op.regions.append(inner)
        inner.arguments = [ShardyValue(f"{i.to_apply.name}.{n}", v.shape) for n, v in enumerate(operands)]
        set_results(inner, self.computation(i.to_apply, _by_parameter(i.to_apply, inner.arguments), inner))
        self._edges(op, inner)
        for p in i.to_apply.parameters:
            self.annotate(p, _by_parameter(i.to_apply, inner.arguments)[p.parameter_number])
        self.annotate(i, op.results)
        return op.results

    def _edges(self, op: ShardyOp, inner: ShardyRegion) -> None:
        """Add the edges of a body that runs once: into each argument and out to each result."""
        for n, argument in enumerate(inner.arguments):
            add_edge(self.program, DataFlowEdge(argument, [argument], op, (n,)))
        for n, result in enumerate(op.results):
            add_edge(self.program, DataFlowEdge(result, [result], op, (), ((inner, n),)))

    def _manual(self, i: HloInstruction, operands: list[ShardyValue], region: ShardyRegion) -> list[ShardyValue]:
        """Import a shard_map: xla.sdy.GlobalToLocalShape, the call, xla.sdy.LocalToGlobalShape."""
        before, after = _shape_change(i.operands, "GlobalToLocalShape"), _shape_change(i.users, "LocalToGlobalShape")
        in_shardings = self._shape_shardings(before, "in_shardings")
        out_shardings = self._shape_shardings(after, "out_shardings")
        if len(in_shardings) != len(operands):
            raise XlanbError(f"{len(in_shardings)} shardings do not match the {len(operands)} operands of {i}")
        shapes = _leaf_shapes(after.shape) if after else _leaf_shapes(i.shape)
        op = add_op(region, ValueKind.MANUAL, i, operands, shapes)
        manual = next((dict(c.frontend_attributes).get(f"{PREFIX}manual_axes") for c in (before, after) if c), None)
        every = [*in_shardings, *out_shardings]
        axes = _nontrivial(parse_manual_axes(manual) if manual else (), every, self.program.meshes)
        op.attributes.update(manual_axes=axes, in_shardings=in_shardings, out_shardings=out_shardings)
        inner = ShardyRegion(parent=op)
        op.regions.append(inner)
        local = _leaf_shapes_of(i.to_apply)
        inner.arguments = [ShardyValue(f"{i.to_apply.name}.{n}", s) for n, s in enumerate(local)]
        set_results(inner, self.computation(i.to_apply, _by_parameter(i.to_apply, inner.arguments), inner))
        for n, (source, argument) in enumerate(zip(operands, inner.arguments, strict=True)):
            edge = DataFlowEdge(argument, [argument], op, (n,), owner_is_inside=True)
            _set_manual(edge, in_shardings[n], axes, source.shape)
            add_edge(self.program, edge)
            argument.sharding = in_shardings[n].without_axes(axes)
        for n, result in enumerate(op.results):
            edge = DataFlowEdge(result, [result], op, (), ((inner, n),))
            _set_manual(edge, out_shardings[n], axes, result.shape)
            add_edge(self.program, edge)
            result.sharding = out_shardings[n]
        return op.results

    def _shape_shardings(self, call: HloInstruction | None, name: str) -> list[TensorSharding]:
        text = dict(call.frontend_attributes).get(f"{PREFIX}{name}") if call else None
        return self.parse(text) if text else []


def _set_manual(edge: DataFlowEdge, sharding: TensorSharding, axes: tuple[str, ...], shape: Shape) -> None:
    """Set what only the outer side of an edge names."""
    edge.manual_axes, edge.shape = axes, shape
    edge.manual = tuple(tuple(a for a in d.axes if a.name in axes) for d in sharding.dims)
    edge.replicated = tuple(a for a in sharding.replicated if a.name in axes)


def _shape_change(near: Sequence[HloInstruction], name: str) -> HloInstruction | None:
    """Return the shape-changing custom call next to a manual body's call."""
    for i in near:
        found = i.operands[0] if i.opcode is O.GET_TUPLE_ELEMENT and i.operands else i
        users = (found, *(u for g in near if g.opcode is O.GET_TUPLE_ELEMENT for u in g.users))
        for candidate in users:
            if candidate.attributes.get("custom_call_target") == f"{PREFIX}{name}":
                return candidate
    return None


def _nontrivial(axes: tuple[str, ...], shardings: Sequence[TensorSharding], meshes: dict[str, Mesh]) -> tuple[str, ...]:
    """Return manual axes in mesh order, without those of size 1."""
    if not shardings:
        return axes
    mesh = meshes[shardings[0].mesh]
    return tuple(name for name, _ in mesh.axes if name in axes)


def without_trivial_axes(sharding: TensorSharding, meshes: dict[str, Mesh]) -> TensorSharding:
    """Return the sharding without axes that its mesh no longer has, because their size is 1."""
    mesh = meshes.get(sharding.mesh)
    if mesh is None:
        raise XlanbError(f"the sharding {sharding} names a mesh that is not in the module")

    def kept(axes: tuple[AxisRef, ...]) -> tuple[AxisRef, ...]:
        return tuple(a for a in axes if a.name in mesh.sizes)

    dims = tuple(replace(d, axes=kept(d.axes)) for d in sharding.dims)
    return TensorSharding(sharding.mesh, dims, kept(sharding.replicated), kept(sharding.unreduced))


def _live(source: HloComputation) -> set[HloInstruction]:
    """Return the instructions that the root needs or that have side effects."""
    stack = [source.root, *(i for i in source if i.has_side_effect or i.opcode is O.PARAMETER)]
    live: set[HloInstruction] = set()
    while stack:
        i = stack.pop()
        if i not in live:
            live.add(i)
            stack += (*i.operands, *i.control_predecessors)
    return live


def _leaf_shapes(shape: Shape) -> list[Shape]:
    if not isinstance(shape, TupleShape):
        return [shape]
    return [leaf for s in shape.shapes for leaf in _leaf_shapes(s)]


def _leaf_shapes_of(source: HloComputation) -> list[Shape]:
    return [s for p in source.parameters for s in _leaf_shapes(p.shape)]


def _by_parameter(source: HloComputation, leaves: Sequence[ShardyValue]) -> list[list[ShardyValue]]:
    """Return the leaves of a computation's parameters, one list per parameter."""
    out: list[list[ShardyValue]] = []
    start = 0
    for p in source.parameters:
        count = len(_leaf_shapes(p.shape))
        out.append(list(leaves[start : start + count]))
        start += count
    return out


def _part(leaves: list[ShardyValue], shape: Shape, index: int) -> list[ShardyValue]:
    if not isinstance(shape, TupleShape):
        raise XlanbError(f"cannot take an element of {shape}, which is not a tuple")
    start = sum(len(_leaf_shapes(s)) for s in shape.shapes[:index])
    return leaves[start : start + len(_leaf_shapes(shape.shapes[index]))]


def import_module(module: HloModule) -> ShardyProgram:
    """Return the Program of a module.

    Raises:
        UnimplementedError: the entry has a tuple parameter.
        XlanbError: an attribute is not in Shardy's form or does not fit its instruction.
    """
    meshes = {n: Mesh(n, tuple(a for a in m.axes if a[1] != 1), m.device_ids) for n, m in meshes_of(module).items()}
    entry = module.entry_computation
    program = ShardyProgram(ShardyRegion(), meshes)
    importer = _Importer(program)
    for p in entry.parameters:
        if not isinstance(p.shape, ArrayShape):
            raise UnimplementedError(
                f"Shardy propagation does not support the entry parameter, which is not an array: {p}"
            )
        value = ShardyValue(p.name, p.shape)
        program.body.arguments.append(value)
        importer.annotate(p, [value])
    leaves = importer.computation(entry, [[v] for v in program.body.arguments], program.body)
    set_results(program.body, [importer.seen(v) for v in leaves])
    program.result_shardings = [importer.aliases[v][1] if v in importer.aliases else None for v in leaves]
    program.groups = list(importer.groups.values())
    remove_dead(program.body)
    open_free_values_of_loops(program, program.body)
    return program


def open_free_values_of_loops(program: ShardyProgram, region: ShardyRegion) -> None:
    """Add open constraints before loops for the loops' free values that have a sharding.

    The constraint leaves every dimension open.
    """
    for op in list(region.ops):
        for inner in op.regions:
            open_free_values_of_loops(program, inner)
        if op.kind is not ValueKind.WHILE:
            continue
        for value in captured(op.regions):
            sharding = value.sharding
            if sharding is None or not sharding.rank:
                continue
            opened = TensorSharding.fully_open(sharding.mesh, sharding.rank)
            if opened == sharding:
                continue
            made = add_op(
                region, ValueKind.CONSTRAINT, op.hlo, [value], [value.shape], opcode=O.COPY, names=[value.name]
            )
            region.ops.remove(made)
            region.ops.insert(region.ops.index(op), made)
            made.results[0].sharding = opened
            replace_uses_within(op.regions, value, made.results[0])
