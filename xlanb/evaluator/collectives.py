"""Collectives over the values of all devices of a group.

A program on one device is a group by itself. On several, `participant.current()` synchronizes the
members of a group; this file computes the results.
Source: openxla.org/xla/operation_semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from xlanb.errors import EvaluationError, UnimplementedError
from xlanb.evaluator import participant
from xlanb.evaluator.control import leaves
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import TOKEN, Array, Value, describe, mismatch, narrow, scalar_int, widen
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.device_groups import DeviceGrid, device_pairs, group_of, pairs_of_devices
from xlanb.hlo.devices import PAIRS, check_one_device
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.patterns import pattern
from xlanb.shape import Shape, TupleShape
from xlanb.shape.shape import subshape

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator

_UFUNCS: Final[dict[Op, Any]] = {
    Op.ADD: np.add, Op.MULTIPLY: np.multiply, Op.MAXIMUM: np.maximum, Op.MINIMUM: np.minimum,
    Op.AND: np.bitwise_and, Op.OR: np.bitwise_or, Op.XOR: np.bitwise_xor,
}  # fmt: skip
"""The NumPy equivalent of a reduction over two parameters."""


Rows = Sequence[Sequence[Array]]
"""The arrays of each member of a group, in order."""
_Meaning = Callable[["Evaluator", HloInstruction, Rows], Rows]


def _of_shape(i: HloInstruction, result: Value, shape: Shape) -> Value:
    """The result; raises if it does not have the shape."""
    if mismatch(result, shape) is not None:
        raise EvaluationError(
            f"{i.opcode} of {describe(result)} into {shape.text(layout=False)} needs more than one participant"
        )
    return result


def _exchange(ev: Evaluator, i: HloInstruction, operands: Sequence[Value], meaning: _Meaning) -> Value:
    """The result of a collective on this device.

    `meaning` computes a row of results for each member from the rows of operands.
    """
    here = participant.current()
    if here is None:
        check_one_device(i)
        return tuple(meaning(ev, i, [operands])[0])
    group = group_of(i, here.device, here.grid)
    return here.meet(i, group, tuple(operands), lambda rows: [tuple(r) for r in meaning(ev, i, rows)])


def _one_or_all(i: HloInstruction, results: Value, shape: Shape) -> Value:
    """The results as the shape requires: a tuple, or the only one."""
    return _of_shape(i, results if isinstance(shape, TupleShape) else results[0], shape)


# -- reductions ------------------------------------------------------------------------------------


def reduced(ev: Evaluator, to_apply: HloComputation, arrays: Sequence[Array]) -> Array:
    """Arrays of one shape reduced elementwise, in order; 16-bit floats are rounded once, last."""
    if len(arrays) == 1:
        return arrays[0]
    opcode = reduction(to_apply)
    if opcode is not None:
        ufunc = _UFUNCS[opcode]
        total = np.array(widen(arrays[0]))
        for a in arrays[1:]:
            ufunc(total, widen(a), out=total)
        return narrow(total, arrays[0].dtype)
    return reduce(lambda x, y: np.asarray(ev.map(to_apply, (x, y))), arrays)


def reduction(to_apply: HloComputation) -> Op | None:
    """The opcode of a computation that only combines its two parameters, else None."""
    return to_apply.root.opcode if _is_plain(to_apply) and to_apply.root.opcode in _UFUNCS else None


def _is_plain(to_apply: HloComputation) -> bool:
    return len(to_apply.parameters) == 2 and {*to_apply.root.operands} == {*to_apply.parameters}


def _all_reduce_meaning(ev: Evaluator, i: HloInstruction, rows: Rows) -> Rows:
    result = [reduced(ev, i.to_apply, column) for column in zip(*rows, strict=True)]
    return [result] * len(rows)


def _reduce_scatter_meaning(ev: Evaluator, i: HloInstruction, rows: Rows) -> Rows:
    (dim,) = i.ints("dimensions")
    whole = [reduced(ev, i.to_apply, column) for column in zip(*rows, strict=True)]
    return list(zip(*(_pieces(i, w, len(rows), dim) for w in whole), strict=True))


@rule("all-reduce", "all-reduce-start")
def _all_reduce(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    return _one_or_all(i, _exchange(ev, i, operands, _all_reduce_meaning), i.shape)


@rule("all-reduce-done")
def _all_reduce_done(ev: Evaluator, i: HloInstruction, state: Value) -> Value:
    return _of_shape(i, state, i.shape)


@rule("reduce-scatter")
def _reduce_scatter(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    return _one_or_all(i, _exchange(ev, i, operands, _reduce_scatter_meaning), i.shape)


@rule("collective-reduce")
def _collective_reduce(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    """The reduction at the root; other members keep their operands.

    The root is the group's first member, or the one that the last operand names.
    """
    given, root = _with_root(i, operands)

    def meaning(ev: Evaluator, i: HloInstruction, rows: Rows) -> Rows:
        results = list(rows)
        if len(rows) > 1:
            results[root] = [reduced(ev, i.to_apply, column) for column in zip(*rows, strict=True)]
        return results

    return _one_or_all(i, _exchange(ev, i, given, meaning), i.shape)


def _with_root(i: HloInstruction, operands: Sequence[Array]) -> tuple[Sequence[Array], int]:
    """The arrays that are exchanged, and the index of the root in the group."""
    if not i.get("has_dynamic_root"):
        return operands, 0
    return operands[:-1], scalar_int(operands[-1].reshape(-1)[0])


def _pieces(i: HloInstruction, array: Array, count: int, dim: int) -> list[Array]:
    """The array split into equal pieces along a dimension."""
    if array.shape[dim] % count:
        raise EvaluationError(
            f"{i.opcode} cannot split dimension {dim} of {array.shape[dim]} elements into {count} equal pieces"
        )
    return np.split(array, count, dim)


# -- exchanges -------------------------------------------------------------------------------------


def _all_gather_meaning(ev: Evaluator, i: HloInstruction, rows: Rows) -> Rows:
    (dim,) = i.ints("dimensions")
    if len(rows) == 1:
        return rows
    return [[np.concatenate(column, dim) for column in zip(*rows, strict=True)]] * len(rows)


def _all_to_all_meaning(ev: Evaluator, i: HloInstruction, rows: Rows) -> Rows:
    """Give member j the j-th piece of every member.

    That is the j-th operand, or the j-th part of the only operand along a dimension; the received
    parts are then concatenated.
    """
    dims, count = i.ints("dimensions"), len(rows)
    if dims:
        cut = [_pieces(i, row[0], count, dims[0]) for row in rows]
        return [[np.concatenate([pieces[j] for pieces in cut], dims[0])] for j in range(count)]
    if len(i.operands) != count:
        raise EvaluationError(f"{i.opcode} of {len(i.operands)} operands among {count} participants")
    return [[row[j] for row in rows] for j in range(count)]


def _broadcast_meaning(ev: Evaluator, i: HloInstruction, rows: Rows) -> Rows:
    return [rows[0]] * len(rows)


@rule("all-gather")
def _all_gather(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    return _one_or_all(i, _exchange(ev, i, operands, _all_gather_meaning), i.shape)


@rule("all-to-all")
def _all_to_all(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    return _one_or_all(i, _exchange(ev, i, operands, _all_to_all_meaning), i.shape)


@rule("ragged-all-to-all")
def _ragged_all_to_all(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    """Write rows of the input to the receiver's output at the sender's offsets.

    Operands: input, output, input offsets, send sizes, output offsets, receive sizes.
    """

    def meaning(ev: Evaluator, i: HloInstruction, rows: Rows) -> Rows:
        outputs = [np.array(row[1]) for row in rows]
        for row in rows:
            given, _, starts, sizes, places, _ = row
            if starts.size % len(rows) or not starts.size == sizes.size == places.size:
                raise EvaluationError(f"{i.name}: expected one offset and one size for each of {len(rows)} devices")
            updates = starts.size // len(rows)
            flat = (a.reshape(-1).tolist() for a in (starts, sizes, places))
            for k, (start, size, place) in enumerate(zip(*flat, strict=True)):
                output = outputs[k // updates]
                if not (0 <= start <= start + size <= len(given) and 0 <= place <= place + size <= len(output)):
                    raise EvaluationError(
                        f"{i.name}: update {k} is out of bounds: it copies rows {start}:{start + size} of {len(given)} "
                        f"to rows {place}:{place + size} of {len(output)}"
                    )
                output[place : place + size] = given[start : start + size]
        return [[o] for o in outputs]

    return _one_or_all(i, _exchange(ev, i, operands, meaning), i.shape)


@rule("collective-broadcast")
def _collective_broadcast(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    given, root = _with_root(i, operands)
    meaning = _broadcast_meaning if not root else lambda _, __, rows: [rows[root]] * len(rows)
    return _one_or_all(i, _exchange(ev, i, given, meaning), i.shape)


@rule("collective-permute")
def _collective_permute(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    return _one_or_all(i, _permuted(i, operands), i.shape)


def _permuted(i: HloInstruction, operands: tuple[Any, ...]) -> tuple[Value, ...]:
    """The operands of this device's source; zeros if it has none."""
    here = participant.current()
    if here is None:
        check_one_device(i)
        sources = {t: s for s, t in i.get("source_target_pairs") or ()}
        return operands if 0 in sources else tuple(np.zeros_like(a) for a in leaves(operands))
    if i.get("slice_sizes"):
        raise UnimplementedError(f"{i.opcode} of slices into another buffer is not supported on several devices")
    group = group_of(i, here.device, here.grid)
    result: tuple[Value, ...] = here.meet(i, group, operands, lambda rows: permuted(i, group, rows, here.grid))
    return result


def permuted(i: HloInstruction, group: Sequence[int], rows: Rows, grid: DeviceGrid) -> list[Value]:
    """What each device of a group receives; zeros if no device sends to it.

    Raises:
        EvaluationError: a source or target is not a device of the program.
    """
    given = dict(zip(group, rows, strict=True))
    pairs = device_pairs(i, group[0], grid)
    strange = next((d for pair in pairs for d in pair if d not in given), None)
    if strange is not None:
        raise EvaluationError(f"{i.name}: source_target_pairs name device {strange}; the program has {grid.count}")
    results = {device: tuple(map(np.zeros_like, row)) for device, row in given.items()}
    results.update({t: tuple(given[s]) for s, t in pairs})
    return [results[device] for device in group]


_MEANINGS: Final[dict[Op, _Meaning]] = {
    Op.ALL_REDUCE: _all_reduce_meaning, Op.REDUCE_SCATTER: _reduce_scatter_meaning, Op.ALL_GATHER: _all_gather_meaning,
    Op.ALL_TO_ALL: _all_to_all_meaning, Op.COLLECTIVE_BROADCAST: _broadcast_meaning,
}  # fmt: skip


def is_plain_collective(i: HloInstruction) -> bool:
    """Whether `collective_results` can compute the results of a collective."""
    if i.opcode is Op.COLLECTIVE_PERMUTE:
        return not i.get("slice_sizes")
    return i.opcode in _MEANINGS and not i.get("has_dynamic_root")


def collective_results(ev: Evaluator, i: HloInstruction, group: Sequence[int], rows: Rows, grid: DeviceGrid) -> Rows:
    """The results of a plain collective for each member of a group, from the operands of each."""
    if i.opcode is Op.COLLECTIVE_PERMUTE:
        return permuted(i, group, rows, grid)
    return _MEANINGS[i.opcode](ev, i, rows)


# -- in two halves: what is begun is done at once --------------------------------------------------


@rule("all-gather-start", "collective-permute-start")
def _start(ev: Evaluator, i: HloInstruction, *operands: Value) -> Value:
    """(operands, result, contexts...), as in the shape."""
    if not isinstance(i.shape, TupleShape) or len(i.shape.shapes) < 2:
        raise EvaluationError(f"{i.opcode} has a tuple of operands and results as its shape, not {i.shape}")
    first, second, *rest = i.shape.shapes
    result = (
        _permuted(i, operands)
        if i.opcode is Op.COLLECTIVE_PERMUTE_START
        else _exchange(ev, i, operands, _all_gather_meaning)
    )
    sent: Value = operands if isinstance(first, TupleShape) else operands[0]
    blank = tuple(np.zeros(s.as_array().dimensions, s.as_array().dtype) for s in rest)
    return (sent, _one_or_all(i, result, second), *blank)


@rule("all-gather-done", "collective-permute-done")
def _done(ev: Evaluator, i: HloInstruction, state: tuple[Value, ...]) -> Value:
    return _of_shape(i, state[1], i.shape)


# -- from one device to another --------------------------------------------------------------------

_PAIR: Final = pattern(r"\{(\d+),(\d+)\}")


def _partner(i: HloInstruction) -> tuple[participant.Participant, int | None]:
    """This device, and the one that it sends to or receives from, or None.

    Raises:
        UnimplementedError: the program runs on one device, or has no source-target pairs.
    """
    here = participant.current()
    text = dict(i.frontend_attributes).get(PAIRS)
    if here is None or text is None or i.get("is_host_transfer"):
        raise UnimplementedError(f"{i.opcode} needs another device or a host program: XLA:CPU has neither")
    mode = "cross_partition" if here.grid.partitions > 1 else "cross_replica"
    pairs = pairs_of_devices([(int(s), int(t)) for s, t in _PAIR.findall(text)], mode, here.device, here.grid)
    is_send = i.opcode in (Op.SEND, Op.SEND_DONE)
    found = [t if is_send else s for s, t in pairs if (s if is_send else t) == here.device]
    return here, found[0] if found else None


@rule("send")
def _send(ev: Evaluator, i: HloInstruction, value: Value, token: Value) -> Value:
    here, target = _partner(i)
    if target is not None:
        here.send(i, target, int(i.get("channel_id") or 0), value)
    return value, np.zeros((), np.uint32), TOKEN


@rule("send-done")
def _send_done(ev: Evaluator, i: HloInstruction, state: Value) -> Value:
    return TOKEN


@rule("recv")
def _recv(ev: Evaluator, i: HloInstruction, token: Value) -> Value:
    """Zeros, which recv-done replaces by the received value."""
    _partner(i)
    shape = subshape(i.shape, (0,))
    return _zeros(shape), np.zeros((), np.uint32), TOKEN


@rule("recv-done")
def _recv_done(ev: Evaluator, i: HloInstruction, state: tuple[Value, ...]) -> Value:
    start = i.operands[0]
    here, source = _partner(start)
    if source is None:
        return state[0], TOKEN
    return here.receive(i, source, int(i.get("channel_id") or start.get("channel_id") or 0)), TOKEN


def _zeros(shape: Shape) -> Value:
    if isinstance(shape, TupleShape):
        return tuple(map(_zeros, shape.shapes))
    return np.zeros(shape.as_array().dimensions, shape.as_array().dtype)


# -- numbers ---------------------------------------------------------------------------------------


@rule("partition-id", "replica-id")
def _number(ev: Evaluator, i: HloInstruction) -> Array:
    here = participant.current()
    if here is None:
        check_one_device(i)
        return np.zeros((), np.uint32)
    replica, partition = here.grid.of(here.device)
    return np.array(partition if i.opcode is Op.PARTITION_ID else replica, np.uint32)
