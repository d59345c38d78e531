"""Partition a module (SpmdPartitioner).

Shardings for all instructions come first, then each computation, then the entry's shapes on a
device.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

import xlanb.spmd.partitioner as handlers
from xlanb.errors import PassError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.causes import Causes
from xlanb.spmd.partitioner.collectives import Channels
from xlanb.spmd.partitioner.preprocess import preprocess_hlos
from xlanb.spmd.partitioner.state import PartitionerOptions
from xlanb.spmd.partitioner.unreduced import clear_marks, convert_unreduced
from xlanb.spmd.partitioner.utilities import set_sharding, sharding_of
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, SpmdProgram
from xlanb.spmd.sharding_util import replicate_all_data_dims

_O = HloOpcode
_CONTROL_FLOW = (_O.WHILE, _O.CONDITIONAL, _O.CALL)
SUFFIX = "_spmd"
"""The suffix of a partitioned computation's name."""


def is_partitioned(module: HloModule) -> bool:
    """Whether the entry is already a device's program."""
    return module.entry_computation.name.endswith(SUFFIX)


def partition(
    module: HloModule, num_partitions: int, num_replicas: int = 1, options: PartitionerOptions | None = None
) -> Causes:
    """Partition a module in place, from a program on whole arrays to one device's program.

    Returns:
        Why each collective is there.

    Raises:
        UnimplementedError: an instruction cannot be partitioned.
    """
    for found in iter_modules(handlers.__path__):
        import_module(f"{handlers.__name__}.{found.name}")
    annotate(module)
    specialize_call_sites(module)
    preprocess_hlos(module)
    _record_shardings(module)
    convert_unreduced(module)
    causes = Causes()
    program = SpmdProgram(
        num_partitions, num_replicas, options or PartitionerOptions(), Channels(causes, _next_channel(module))
    )
    before = module.entry_layout
    for computation, root_sharding in _to_partition(module):
        made = SpmdPartitioningVisitor(computation, program).run(root_sharding)
        _replace(module, computation, made)
    module.remove_unused_computations()
    if before is not None:
        _set_entry_layout(module, before)
    module.notes["causes"] = causes
    return causes


def _next_channel(module: HloModule) -> int:
    """Return the first channel id that the program does not use, at least 1."""
    return max((i.attributes.get("channel_id") or 0 for i in module.instructions()), default=0) + 1


# -- preprocessing ---------------------------------------------------------------------------------


def annotate(module: HloModule) -> None:
    """Replicate what has no sharding; random number generation is on device 0."""
    for computation in module.computations:
        for hlo in computation:
            if hlo.sharding:
                set_sharding(hlo, sharding_of(hlo).normalize_tuple(hlo.shape))
                continue
            sharding = HloSharding.assign_device(0) if hlo.opcode is _O.RNG else HloSharding.replicate()
            set_sharding(hlo, sharding.normalize_tuple(hlo.shape))


def _record_shardings(module: HloModule) -> None:
    """Record the whole program's shardings, which the device's program no longer has."""
    entry = module.entry_computation
    module.spmd_parameters_shardings = tuple(p.sharding for p in entry.parameters)
    module.spmd_output_sharding = entry.root.sharding


def specialize_call_sites(module: HloModule) -> None:
    """Clone computations that are called with differently sharded arguments.

    Parameters then have the shardings of the arguments.
    """
    known: dict[HloComputation, dict[tuple[object, ...], HloComputation]] = {}
    for caller in [i for c in module.post_order() for i in c.post_order() if i.opcode in _CONTROL_FLOW]:
        for number, called in enumerate(caller.called_computations):
            variants = known.setdefault(called, {})
            key = (caller.opcode, *_argument_shardings(caller, number))
            if key not in variants:
                variants[key] = called if not variants else module.clone_computation(called, f"{called.name}.clone")
            if variants[key] is not called:
                _call_instead(caller, number, variants[key])
    for caller in [i for c in module.post_order() for i in c.post_order() if i.opcode in _CONTROL_FLOW]:
        for number, called in enumerate(caller.called_computations):
            for p, sharding in zip(called.parameters, _argument_shardings(caller, number), strict=True):
                set_sharding(p, HloSharding.parse(sharding))
        if caller.opcode is _O.WHILE:
            root = caller.attributes["condition"].root
            set_sharding(root, replicate_all_data_dims(sharding_of(root)))


def _argument_shardings(caller: HloInstruction, number: int) -> tuple[str, ...]:
    """Return the shardings of the arguments of a caller's computation `number`."""
    if caller.opcode is _O.WHILE:
        return (caller.sharding,)
    if caller.opcode is _O.CONDITIONAL:
        return (caller.operands[number + 1].sharding,)
    return tuple(o.sharding for o in caller.operands)


def _call_instead(caller: HloInstruction, number: int, computation: HloComputation) -> None:
    """Make a caller call another computation as its computation `number`."""
    at = 0
    for name, value in caller.attributes.items():
        if isinstance(value, HloComputation):
            if at == number:
                caller.parent.update(caller, attributes={name: computation})
                return
            at += 1
        elif isinstance(value, tuple) and value and isinstance(value[0], HloComputation):
            if at <= number < at + len(value):
                changed = (*value[: number - at], computation, *value[number - at + 1 :])
                caller.parent.update(caller, attributes={name: changed})
                return
            at += len(value)


# -- computations ----------------------------------------------------------------------------------


def _to_partition(module: HloModule) -> list[tuple[HloComputation, HloSharding]]:
    """Return the computations of control flow, callees first, with their results' shardings.

    The entry comes last.
    """
    found: list[tuple[HloComputation, HloSharding]] = []
    entry = module.entry_computation
    for computation in module.post_order():
        if computation is entry:
            found.append((computation, sharding_of(computation.root)))
            continue
        caller = next((i for i in module.callers(computation) if i.opcode in _CONTROL_FLOW), None)
        if caller is None:
            continue
        if caller.opcode is _O.WHILE and caller.attributes["condition"] is computation:
            found.append((computation, sharding_of(computation.root)))
        else:
            found.append((computation, sharding_of(caller)))
    return found


def _replace(module: HloModule, old: HloComputation, new: HloComputation) -> None:
    """Make all callers of a computation call the partitioned one."""
    if old is module.entry_computation:
        module.set_entry(new)
    for caller in module.callers(old):
        for name, value in caller.attributes.items():
            if value is old:
                caller.parent.update(caller, attributes={name: new})
            elif isinstance(value, tuple) and value and isinstance(value[0], HloComputation):
                caller.parent.update(caller, attributes={name: tuple(new if c is old else c for c in value)})
    module.remove_computation(old)


# -- postprocessing --------------------------------------------------------------------------------


def _set_entry_layout(module: HloModule, before: tuple[tuple[Shape, ...], Shape]) -> None:
    """Set the entry's shapes to those of a device, in the whole program's layouts."""
    entry = module.entry_computation
    if len(before[0]) != len(entry.parameters):
        raise PassError(f"{entry.name} has {len(entry.parameters)} parameters, the program had {len(before[0])}")
    parameters = tuple(_laid_out(p.shape, old) for p, old in zip(entry.parameters, before[0], strict=True))
    module.entry_layout = (parameters, _laid_out(entry.root.shape, before[1]))


def _laid_out(shape: Shape, like: Shape) -> Shape:
    if isinstance(shape, TupleShape) and isinstance(like, TupleShape):
        return TupleShape(tuple(_laid_out(s, o) for s, o in zip(shape.shapes, like.shapes, strict=True)))
    if isinstance(shape, ArrayShape) and isinstance(like, ArrayShape):
        return shape.with_layout(like.layout)
    return shape


def clear_shardings(module: HloModule) -> None:
    """Remove the shardings that have no meaning on a device.

    Keeps those of the entry's parameters and of infeed, outfeed, send and recv.
    """
    kept = frozenset((_O.INFEED, _O.OUTFEED, _O.SEND, _O.SEND_DONE, _O.RECV, _O.RECV_DONE))
    clear_marks(module)
    for computation in module.computations:
        for hlo in computation:
            is_parameter = hlo.opcode is _O.PARAMETER and computation.is_entry
            if hlo.sharding and hlo.opcode not in kept and not is_parameter:
                computation.update(hlo, sharding="")
