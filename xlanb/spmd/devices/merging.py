"""Merge the programs of all devices into one program for a single device.

It computes the same result without devices.

    p = f32[2] parameter(0), sharding={devices=[4]<=[4]}          P = f32[8] parameter(0)
    s = f32[2] all-reduce(p), replica_groups={{0,1,2,3}}    =>    a, b, c, d = slices of P
                                                                  s = add(add(add(a, b), c), d)

Each instruction is written once per device, or once for all devices if its operands are the same
for all. A collective becomes a sum of its operands, a concatenation, or slices; a device's number
becomes a constant. Arguments and results are whole arrays. The compiler then optimizes the result
as any other program: it fuses across devices, and no device waits for another.

Loops and branches that contain collectives are merged if all devices decide alike, that is, if
their conditions are the same instruction for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from xlanb.analysis.mixed_precision import is_mixed
from xlanb.evaluator.collectives import is_plain_collective, reduction
from xlanb.evaluator.interpreter import evaluate_instruction
from xlanb.hlo.attributes import PaddingDimension, SliceDimension
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.device_groups import device_groups, device_pairs
from xlanb.hlo.devices import why_several
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.hlo.shape_inference.registry import compatible
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.spmd.devices.distribution import Distribution, row_major
from xlanb.spmd.devices.lifting import lifted
from xlanb.spmd.devices.not_merged import NotMergedError
from xlanb.spmd.devices.split import ShardTiling, tiling
from xlanb.spmd.devices.tiles import Tiles, Values, cut, tiles_of, whole_of
from xlanb.spmd.devices.writing import Writer, dimensions, everything, splat
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.tracing import unobserved
from xlanb.transforms.simplifiers.hlo_dce import HloDce

_STATEFUL: Final = frozenset((Op.RNG, Op.RNG_GET_AND_UPDATE_STATE))
_CALLS: Final = frozenset((Op.WHILE, Op.CONDITIONAL, Op.CALL))
_NUMBERS: Final = frozenset((Op.PARTITION_ID, Op.REPLICA_ID))
_FEW: Final = 16
"""The most elements of an operation that is folded while writing, if all its operands are known."""
_WRITTEN: Final = 8
"""How many times the final instruction limit may be written: most slices of slices die later."""
_WIDER: Final = frozenset((PrimitiveType.BF16, PrimitiveType.F16))
"""Element types that reductions between devices sum in f32, rounding once."""


def merged(module: HloModule, distribution: Distribution, most: int) -> HloModule:
    """Return the module that computes the whole result of a module of several devices.

    Its arguments are whole arrays.

    Args:
        module: the program of each device; it is not changed.
        distribution: how whole arrays are sharded over the devices.
        most: the most instructions that the result may have, including called computations.

    Raises:
        NotMergedError: the result would have more instructions, or an instruction is not a function
            of the arguments alone (a per-device random number, a host callback), or devices may
            take different paths to a collective.
    """
    with unobserved():
        return _merged(module.clone(), distribution, most)


def _merged(module: HloModule, distribution: Distribution, most: int) -> HloModule:
    if module.host_callbacks:
        raise NotMergedError("it calls Python functions, which may depend on the device")
    _refuse_mixed_precision(module)
    _drop_layouts(module)
    source = module.entry_computation
    target = module.add_computation(f"{source.name}_all_devices")
    build = _MergedBuilder(target, distribution, most * _WRITTEN)
    arguments: dict[HloInstruction, Values] = {}
    for n, (p, shape, parts) in enumerate(
        zip(source.parameters, distribution.parameters, distribution.shardings, strict=True)
    ):
        if not isinstance(shape, ArrayShape) or not isinstance(p.shape, ArrayShape):
            raise NotMergedError(f"{p.name} is not an array")
        whole = target.add(Op.PARAMETER, (), shape.with_default_layout(), name=p.name, parameter_number=n)
        arguments[p] = build.shards(whole, parts[0], p.shape)
    results = build.run(source, arguments)
    target.set_root(build.joined(results, source.root.shape))
    module.set_entry(target)
    module.entry_layout = None
    module.spmd_parameters_shardings, module.spmd_output_sharding = (), ""
    module.calling = None
    kept = {k: v for k, v in module.header.items() if k in _KEPT_HEADER}
    module.header.clear()
    module.header.update(kept)
    HloDce().run(module)
    if module.instruction_count > most:
        raise NotMergedError(f"{module.instruction_count} instructions, more than {most}")
    return module


_KEPT_HEADER: Final = frozenset(("is_dynamic",))


def _refuse_mixed_precision(module: HloModule) -> None:
    """Check that operations on views of whole arrays can take their element type from operands.

    Raises:
        NotMergedError: floats of several types meet in an instruction, or in a call's arguments.
    """
    for i in module.instructions():
        if is_mixed(i) or (i.opcode in _CALLS and not _takes_its_arguments(i)):
            raise NotMergedError(f"{i.name} mixes floats of several types")


def _takes_its_arguments(i: HloInstruction) -> bool:
    """Whether the parameters and results of what a call runs have the types of its own."""
    condition = i.attributes.get("condition")
    for n, c in enumerate(i.called_computations):
        given = (i.operands[1 + n],) if i.opcode is Op.CONDITIONAL else i.operands
        if not all(compatible(p.shape, o.shape) for p, o in zip(c.parameters, given, strict=True)):
            return False
        if c is not condition and not compatible(c.root.shape, i.shape):
            return False
    return True


def _drop_layouts(module: HloModule) -> None:
    """Make all arrays row-major: a layout belongs to a device's part, and does not change values.

    Raises:
        NotMergedError: an instruction depends on the layout, or was compiled for it.
    """
    laid_out = [i for i in module.instructions() if not _is_row_major(i.shape)]
    fusions = [c for i in module.instructions() if i.opcode is Op.FUSION for c in i.called_computations]
    for i in laid_out:
        fixed = next((u for u in (i, *i.users) if u.opcode in _FOR_LAYOUTS or u.parent in fusions), None)
        if fixed is not None:
            raise NotMergedError(f"{fixed.name} depends on layouts, and {i.name} is not row-major")
        if i.opcode is not Op.CUSTOM_CALL:  # a custom call may write in another order; its users read by index
            i.parent.update(i, shape=row_major(i.shape))


_FOR_LAYOUTS: Final = frozenset((Op.BITCAST, Op.FUSION))


def _is_row_major(shape: Shape) -> bool:
    arrays = [s for _, s in shape.leaves() if isinstance(s, ArrayShape)]
    return all(s.layout is None or s.layout.is_default for s in arrays)


class _MergedBuilder:
    """Writes the instructions of all devices into one computation."""

    def __init__(self, target: HloComputation, distribution: Distribution, most: int) -> None:
        self.target, self.distribution, self.most = target, distribution, most
        self.write = Writer(target, most)
        self.grid = distribution.grid
        self.count = self.grid.count

    def within(self, name: str) -> _MergedBuilder:
        """Return a builder for another computation of the module."""
        return _MergedBuilder(self.target.module.add_computation(name), self.distribution, self.most)

    # -- computations ------------------------------------------------------------------------------

    def run(self, source: HloComputation, known: dict[HloInstruction, Values]) -> Values:
        """Write a computation and return its value on each device, given its parameters' values."""
        values = dict(known)
        for i in source.post_order():
            if i in values:
                continue
            if any(isinstance(leaf, ArrayShape) and leaf.is_dynamic for _, leaf in i.shape.leaves()):
                raise NotMergedError(f"{i.name} has a dynamic size")
            values[i] = self._values(i, [values[o] for o in i.operands])
        return values[source.root]

    def _values(self, i: HloInstruction, operands: Sequence[Values]) -> Values:
        op = i.opcode
        if op in _NUMBERS:
            which = 1 if op is Op.PARTITION_ID else 0
            return tuple(self.write.constant(np.uint32(self.grid.of(d)[which])) for d in range(self.count))
        if op is Op.GET_TUPLE_ELEMENT:
            index = i.attributes["index"]
            return tuple(self.write.element(v, index) for v in operands[0])
        if why_several(i):
            return self._collective(i, operands)
        if op in _STATEFUL or (i.has_side_effect and op not in _CALLS):
            raise NotMergedError(f"{i.name} is not a pure function of its operands")
        if op is Op.CALL:
            (called,) = i.called_computations
            return self.run(called, dict(zip(called.parameters, operands, strict=True)))
        if op in _CALLS and _meets(i):
            return self._while(i, operands[0]) if op is Op.WHILE else self._conditional(i, operands)
        if i.has_side_effect or any(_meets(j) for c in i.called_computations for j in c):
            raise NotMergedError(f"{i.name} is not a pure function of its operands")
        if all(map(_is_same, operands)):
            return (self._one(i, [column[0] for column in operands]),) * self.count
        rows = [[column[d] for column in operands] for d in range(self.count)]
        return lifted(self.write, i, operands) or tuple(self._one(i, row) for row in rows)

    def _one(self, i: HloInstruction, operands: Sequence[HloInstruction]) -> HloInstruction:
        """Write an operation for one device, or for all devices whose operands are the same."""
        op, write = i.opcode, self.write
        if self._is_known(i, operands):
            return write.constant(evaluate_instruction(i, [o.literal.array for o in operands]))
        if op is Op.CONSTANT and i.array_shape.element_count <= _FEW:
            return write.constant(i.literal)
        if op is Op.SLICE:
            return write.slice(operands[0], i.attributes["slice"])
        if op is Op.CONCATENATE:
            return write.concatenate(operands, i.ints("dimensions")[0])
        if op is Op.RESHAPE:
            return write.reshape(operands[0], i.array_shape.dimensions)
        if op is Op.TRANSPOSE:
            return write.transpose(operands[0], i.ints("dimensions"))
        if op is Op.DYNAMIC_SLICE and all(o.opcode is Op.CONSTANT for o in operands[1:]):
            sizes, dims = i.ints("dynamic_slice_sizes"), dimensions(operands[0])
            starts = [
                min(max(int(o.literal.array), 0), n - size)
                for o, n, size in zip(operands[1:], dims, sizes, strict=True)
            ]
            box = [SliceDimension(s, s + size, 1) for s, size in zip(starts, sizes, strict=True)]
            return write.slice(operands[0], box)
        if op is Op.SELECT and (chosen := splat(operands[0])) is not None:
            return operands[1 if chosen else 2]
        if op is Op.DOT:
            operands = [write.local(o) for o in operands]
        return write.copy(i, operands)

    @staticmethod
    def _is_known(i: HloInstruction, operands: Sequence[HloInstruction]) -> bool:
        """Whether an operation on few elements can be folded, as for the devices' offsets."""
        shape = i.shape
        is_small = isinstance(shape, ArrayShape) and shape.is_array and shape.element_count <= _FEW
        return is_small and bool(operands) and all(o.opcode is Op.CONSTANT for o in operands)

    # -- collectives -------------------------------------------------------------------------------

    def _collective(self, i: HloInstruction, operands: Sequence[Values]) -> Values:
        if not is_plain_collective(i):
            raise NotMergedError(f"{i.name}: {i.opcode} cannot be expressed by other instructions")
        if any(not isinstance(o.shape, ArrayShape) for o in i.operands):
            raise NotMergedError(f"{i.name} takes a tuple")
        results: dict[int, Sequence[HloInstruction]] = {}
        if i.opcode in (Op.ALL_REDUCE, Op.REDUCE_SCATTER):
            total = self._totals if i.opcode is Op.ALL_REDUCE else self._scattered
            columns = [total(i, values) for values in operands]
            results = {d: [c[d] for c in columns] for d in range(self.count)}
            return self._device_results(i, results)
        for group in device_groups(i, self.grid):
            rows = [[column[d] for column in operands] for d in group]
            given = self._MEANINGS[i.opcode](self, i, group, rows)
            results.update(zip(group, given, strict=True))
        if len(results) != self.count:
            raise NotMergedError(f"{i.name}: not all devices take part")
        return self._device_results(i, results)

    def _device_results(self, i: HloInstruction, results: Mapping[int, Sequence[HloInstruction]]) -> Values:
        """Return a collective's result on each device, as a tuple if its shape is one."""
        if isinstance(i.shape, TupleShape):
            return tuple(self.write.add(Op.TUPLE, results[d]) for d in range(self.count))
        return tuple(results[d][0] for d in range(self.count))

    def _totals(self, i: HloInstruction, values: Values) -> Values:
        """Reduce each device's array with those of its group, in device order."""
        opcode = reduction(i.to_apply)
        if opcode is None:
            raise NotMergedError(f"{i.name}: {i.to_apply.name} is not a plain binary operation")
        groups = {d: group for group in device_groups(i, self.grid) for d in group}
        size = len(groups[0]) if 0 in groups else 0
        if set(groups) != set(range(self.count)) or any(len(g) != size for g in groups.values()):
            raise NotMergedError(f"{i.name}: its groups differ in size")
        shape = values[0].array_shape
        wide = ArrayShape(PrimitiveType.F32, shape.dimensions).with_default_layout()
        is_rounded = size > 1 and shape.element_type in _WIDER
        given = self._each(Op.CONVERT, (values,), wide) if is_rounded else values
        members = [tuple(given[groups[d][rank]] for d in range(self.count)) for rank in range(size)]
        total = members[0]
        for values_of_rank in members[1:]:
            total = self._each(opcode, (total, values_of_rank))
        return self._each(Op.CONVERT, (total,), shape) if is_rounded else total

    def _each(self, opcode: Op, operands: Sequence[Values], shape: Shape | None = None) -> Values:
        """Write an elementwise operation for all devices."""
        first = self.write.add(opcode, [values[0] for values in operands], shape)
        if all(map(_is_same, operands)):
            return (first,) * self.count
        rows = zip(*operands, strict=True)
        return lifted(self.write, first, operands) or tuple(self.write.add(opcode, row, shape) for row in rows)

    def _scattered(self, i: HloInstruction, values: Values) -> Values:
        """Return the piece of its group's total that each device gets."""
        (dim,) = i.ints("dimensions")
        totals, found = self._totals(i, values), dict[int, HloInstruction]()
        for group in device_groups(i, self.grid):
            found.update(zip(group, self._pieces(totals[group[0]], len(group), dim), strict=True))
        return tuple(found[d] for d in range(self.count))

    def _all_gather(self, i: HloInstruction, _: Sequence[int], rows: _Rows) -> _Rows:
        (dim,) = i.ints("dimensions")
        return [[self.write.concatenate(column, dim) for column in zip(*rows, strict=True)]] * len(rows)

    def _all_to_all(self, i: HloInstruction, _: Sequence[int], rows: _Rows) -> _Rows:
        dims, count = i.ints("dimensions"), len(rows)
        if not dims:
            if len(i.operands) != count:
                raise NotMergedError(f"{i.name}: {len(i.operands)} operands do not match {count} devices")
            return [[row[j] for row in rows] for j in range(count)]
        cut = [self._pieces(row[0], count, dims[0]) for row in rows]
        return [[self.write.concatenate([pieces[j] for pieces in cut], dims[0])] for j in range(count)]

    def _broadcast(self, _: HloInstruction, __: Sequence[int], rows: _Rows) -> _Rows:
        return [rows[0]] * len(rows)

    def _permute(self, i: HloInstruction, group: Sequence[int], rows: _Rows) -> _Rows:
        given = dict(zip(group, rows, strict=True))
        results = {d: [self.write.zeros(x.array_shape) for x in row] for d, row in given.items()}
        pairs = device_pairs(i, group[0], self.grid)
        strange = next((d for pair in pairs for d in pair if d not in given), None)
        if strange is not None:
            raise NotMergedError(f"{i.name}: no device {strange} among {len(given)}")
        results.update({t: list(given[s]) for s, t in pairs})
        return [results[d] for d in group]

    def _pieces(self, value: HloInstruction, count: int, dim: int) -> list[HloInstruction]:
        dims = dimensions(value)
        if dims[dim] % count:
            raise NotMergedError(f"{dims[dim]} elements cannot be split into {count} equal pieces")
        size, box = dims[dim] // count, list(everything(dims))
        pieces = []
        for k in range(count):
            box[dim] = SliceDimension(k * size, (k + 1) * size, 1)
            pieces.append(self.write.slice(value, box))
        return pieces

    _MEANINGS: Final[dict[Op, Callable[..., _Rows]]] = {
        Op.ALL_GATHER: _all_gather,
        Op.ALL_TO_ALL: _all_to_all, Op.COLLECTIVE_BROADCAST: _broadcast, Op.COLLECTIVE_PERMUTE: _permute,
    }  # fmt: skip

    # -- control -----------------------------------------------------------------------------------

    def _while(self, i: HloInstruction, init: Values) -> Values:
        """Write one loop over the states of all devices.

        A state element that is the same for all devices, or tiles of one array, before and after an
        iteration is carried once.
        """
        if not isinstance(i.shape, TupleShape):
            raise NotMergedError(f"{i.name} is a loop over one array")
        source_body, source_condition = i.attributes["body"], i.attributes["condition"]
        size = len(i.shape.shapes)
        before = [tuple(self.write.element(v, k) for v in init) for k in range(size)]
        kinds = [self._kind(column) for column in before]
        while True:
            body = self.within(source_body.name)
            shape = tuple_of([s for k in range(size) for s in self._kept_shapes(i.shape.shapes[k], kinds[k])])
            results = body.run(source_body, {source_body.parameters[0]: body.states(shape, kinds)})
            after = [tuple(body.write.element(v, k) for v in results) for k in range(size)]
            still = [self._still(body, kinds, *row) for row in zip(kinds, before, after, strict=True)]
            if still == kinds:
                break
            body.drop()
            kinds = still
        body.target.set_root(body.write.add(Op.TUPLE, body.packed(after, kinds)))
        condition = self.within(source_condition.name)
        goes_on = condition.run(source_condition, {source_condition.parameters[0]: condition.states(shape, kinds)})
        if not _is_same(goes_on):
            raise NotMergedError(f"{i.name}: devices may exit the loop in different iterations")
        condition.target.set_root(goes_on[0])
        whole = self.write.add(Op.TUPLE, self.packed(before, kinds))
        loop = self.target.clone_instruction(i, (whole,), shape)
        self.target.update(
            loop, sharding="", frontend_attributes=(), attributes={"body": body.target, "condition": condition.target}
        )
        return self.unpacked(loop, kinds)

    def _kind(self, column: Values) -> Tiles | None:
        """Return how a state element is carried: tiles of one array, or None for one per device."""
        tiles = tiles_of(self.write, column)
        return tiles if tiles is not None and tiles.covers else None

    def _still(
        self, body: _MergedBuilder, kinds: Sequence[Tiles | None], kind: Tiles | None, before: Values, after: Values
    ) -> Tiles | None:
        """Return how a state element can be carried, given its value after an iteration.

        An element that is no longer the same for all devices may be tiled as another element of the
        state is; the next iteration checks this.
        """
        if kind is None:
            return None
        if whole_of(body.write, after, kind) is not None:
            return kind
        if not kind.is_whole:
            return None
        others = [k for k in kinds if k is not None and not k.is_whole and k.sizes == kind.sizes]
        guesses = [body._kind(after), *others]
        return next((g for g in guesses if g is not None and whole_of(self.write, before, g) is not None), None)

    def _kept_shapes(self, shape: Shape, kind: Tiles | None) -> list[Shape]:
        return [shape] * self.count if kind is None else [kind.whole.shape]

    def packed(self, columns: Sequence[Values], kinds: Sequence[Tiles | None]) -> list[HloInstruction]:
        """Flatten the states of all devices, element by element."""
        flat: list[HloInstruction] = []
        for column, kind in zip(columns, kinds, strict=True):
            one = whole_of(self.write, column, kind) if kind is not None else None
            flat += column if one is None else [one]
        return flat

    def states(self, shape: Shape, kinds: Sequence[Tiles | None]) -> Values:
        """Return each device's state in a loop, by taking the loop's parameter apart."""
        return self.unpacked(self.target.add(Op.PARAMETER, (), shape, parameter_number=0), kinds)

    def unpacked(self, packed: HloInstruction, kinds: Sequence[Tiles | None]) -> Values:
        """Return a tuple for each device from what `packed` flattened."""
        columns: list[Values] = []
        place = 0
        for kind in kinds:
            taken = self.count if kind is None else 1
            found = [self.write.add(Op.GET_TUPLE_ELEMENT, (packed,), index=place + n) for n in range(taken)]
            columns.append(tuple(found) if kind is None else cut(self.write, kind.of(found[0])))
            place += taken
        return tuple(self.write.add(Op.TUPLE, [c[d] for c in columns]) for d in range(self.count))

    def drop(self) -> None:
        """Remove the computation from the module."""
        self.target.module.remove_computation(self.target)

    def _conditional(self, i: HloInstruction, operands: Sequence[Values]) -> Values:
        """Write one conditional for all devices; each branch handles the values of all devices."""
        if not _is_same(operands[0]):
            raise NotMergedError(f"{i.name}: devices may take different branches")
        branches = i.called_computations
        arguments: list[HloInstruction] = [operands[0][0]]
        made: list[HloComputation] = []
        for branch, given in zip(branches, operands[1:], strict=True):
            build = self.within(branch.name)
            is_alike = _is_same(given)
            packed = given[0] if is_alike else self.write.add(Op.TUPLE, given)
            parameter = build.target.add(Op.PARAMETER, (), packed.shape, parameter_number=0)
            inside = [parameter if is_alike else build.write.element(parameter, d) for d in range(self.count)]
            results = build.run(branch, {branch.parameters[0]: tuple(inside)})
            build.target.set_root(build.write.add(Op.TUPLE, results))
            arguments.append(packed)
            made.append(build.target)
        chosen = self.target.clone_instruction(i, arguments, tuple_of([i.shape] * self.count))
        names = (
            ("branch_computations",)
            if "branch_computations" in i.attributes
            else ("true_computation", "false_computation")
        )
        attributes = {names[0]: tuple(made)} if len(names) == 1 else dict(zip(names, made, strict=True))
        self.target.update(chosen, sharding="", frontend_attributes=(), attributes=attributes)
        return tuple(self.write.add(Op.GET_TUPLE_ELEMENT, (chosen,), index=d) for d in range(self.count))

    # -- whole arrays ------------------------------------------------------------------------------

    def shards(self, whole: HloInstruction, text: str, tile: ArrayShape) -> Values:
        """Return each device's shard of a whole array."""
        lies = tiling(text, tile.rank, self.count)
        if lies is None:
            return (whole,) * self.count
        dims = whole.array_shape.dimensions
        longer = [n * t for n, t in zip(tile.dimensions, lies.tiles, strict=True)]
        if tuple(longer) != dims:
            zero = self.write.constant(np.zeros((), tile.dtype))
            padding = tuple(PaddingDimension(0, n - d, 0) for n, d in zip(longer, dims, strict=True))
            whole = self.write.add(Op.PAD, (whole, zero), padding=padding)
        return tuple(self._tile(whole, place, tile.dimensions) for place in lies.places)

    def _tile(self, whole: HloInstruction, place: Sequence[int], tile: Sequence[int]) -> HloInstruction:
        return self.write.slice(
            whole, [SliceDimension(p * n, (p + 1) * n, 1) for p, n in zip(place, tile, strict=True)]
        )

    def joined(self, values: Values, shape: Shape) -> HloInstruction:
        """Join the devices' results into the whole result."""
        parts = iter(self.distribution.result_shardings)
        result = self.distribution.result
        sizes = iter([s for _, s in result.leaves()] if result is not None else [])

        def join(rows: Values, shape: Shape) -> HloInstruction:
            if isinstance(shape, TupleShape):
                columns = [tuple(self.write.element(v, k) for v in rows) for k in range(len(shape.shapes))]
                return self.write.add(Op.TUPLE, [join(c, s) for c, s in zip(columns, shape.shapes, strict=True)])
            return self._whole(rows, next(parts), next(sizes, None))

        return join(values, shape)

    def _whole(self, rows: Values, text: str, whole: Shape | None) -> HloInstruction:
        at_one = HloSharding.parse(text).unique_device if text else None
        if at_one is not None:
            return rows[at_one]
        if not isinstance(rows[0].shape, ArrayShape):
            raise NotMergedError("a result is not an array")
        lies = tiling(text, rows[0].array_shape.rank, self.count)
        if lies is None:
            if not text and not _is_same(rows):
                raise NotMergedError(
                    "the results of the devices may differ, and they have no sharding to combine them by"
                )
            return rows[0]
        made = self._join_tiles(dict(zip(lies.places, rows, strict=True)), lies)
        if not isinstance(whole, ArrayShape):
            return made
        return self.write.slice(made, everything(whole.dimensions))

    def _join_tiles(self, tiles: dict[tuple[int, ...], HloInstruction], lies: ShardTiling) -> HloInstruction:
        """Join tiles into one array, innermost dimension first."""
        if len(tiles) != math.prod(lies.tiles):
            raise NotMergedError("some tile of a result is on no device")
        for dim in reversed(range(len(lies.tiles))):
            groups: dict[tuple[int, ...], list[HloInstruction]] = {}
            for place in sorted(tiles):
                groups.setdefault(place[:dim], []).append(tiles[place])
            tiles = {place: self.write.concatenate(row, dim) for place, row in groups.items()}
        return tiles[()]


_Rows = Sequence[Sequence[HloInstruction]]


def _is_same(values: Sequence[HloInstruction]) -> bool:
    return all(v is values[0] for v in values)


def _meets(i: HloInstruction) -> bool:
    """Whether an instruction, or one in a computation that it calls, involves several devices."""
    return bool(why_several(i)) or any(_meets(j) for c in i.called_computations for j in c)
