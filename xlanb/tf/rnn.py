"""tf.nn.dynamic_rnn and its kin: a cell applied along time (python/ops/rnn.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders import math_ops, nest
from xlanb.graph.builders.array_ops import (
    concat,
    identity,
    rank,
    reverse,
    shape,
    stack,
    transpose,
    unstack,
    where,
    zeros,
)
from xlanb.graph.builders.control_flow import assert_that, while_loop
from xlanb.graph.builders.math_ops import range as range_
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.tensor_array import TensorArray
from xlanb.graph.builders.variable_scope import variable_scope
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import int32
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor
from xlanb.graph.tensor_shape import TensorShape


def _swap_batch_and_time(x: Tensor) -> Tensor:
    known = x.shape.as_tuple()
    if known is not None and len(known) < 2:
        return x
    swapped = transpose(x, concat([[1, 0], range_(2, rank(x))], axis=0))
    if known is not None:
        swapped.set_shape([known[1], known[0], *known[2:]])
    return swapped


def _batch_size(flat: Sequence[Tensor]) -> Any:
    """Return the second dimension, a number if one of them has it statically."""
    for tensor in flat:
        known = tensor.shape.as_tuple()
        if known is None:
            continue
        if len(known) < 2:
            raise GraphValueError(f"Input tensor should have rank >= 2. Received input={tensor!r}")
        if known[1] is not None:
            return known[1]
    return shape(flat[0])[1]


def _state_type(dtype: Any, state: Any) -> Any:
    if dtype is not None:
        return dtype
    found = [s.dtype for s in nest.flatten(state)]
    if not found or any(t is not found[0] for t in found):
        raise GraphValueError(f"the state {state!r} has no unique dtype: pass dtype")
    return found[0]


def dynamic_rnn(
    cell: Any, inputs: Any, sequence_length: Any = None, initial_state: Any = None, dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False, time_major: bool = False, scope: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the outputs of all steps, [batch, time, ...] (or [time, batch, ...]), and the last
    state.

    `sequence_length`: steps of each example; after them outputs are 0 and the state is kept.

    Raises:
        GraphValueError: neither initial_state nor dtype, or inputs of unknown depth.
    """
    with variable_scope(scope or "rnn"):
        flat = nest.flatten(inputs)
        if not time_major:
            flat = [_swap_batch_and_time(convert_to_tensor(t)) for t in flat]
        lengths = None
        if sequence_length is not None:
            lengths = math_ops.cast(sequence_length, int32)
            if lengths.shape.rank not in {None, 1}:
                raise GraphValueError(f"sequence_length must be a vector of length batch_size, got {lengths!r}")
            lengths = identity(lengths, name="sequence_length")
        batch = _batch_size(flat)
        if initial_state is None and not dtype:
            raise GraphValueError("If no initial_state is provided, argument `dtype` must be specified")
        state = initial_state if initial_state is not None else _zero_state(cell, batch, dtype)
        if lengths is not None:
            lengths = _checked_lengths(lengths, batch)
        walk = _TimeWalk(cell, nest.pack_like(inputs, flat), state, lengths, dtype)
        outputs, last = walk.run(parallel_iterations or 32, swap_memory=swap_memory)
        if not time_major:
            outputs = nest.map_structure(_swap_batch_and_time, outputs)
        return outputs, last


def _zero_state(cell: Any, batch: Any, dtype: Any) -> Any:
    make = getattr(cell, "get_initial_state", None)
    return cell.zero_state(batch, dtype) if make is None else make(inputs=None, batch_size=batch, dtype=dtype)


def _checked_lengths(lengths: Tensor, batch: Any) -> Tensor:
    found, wanted = shape(lengths), stack([batch])
    message = [f"Expected shape for Tensor {lengths.name} is ", wanted, " but saw shape: ", found]
    holds = assert_that(math_ops.reduce_all(call("Equal", found, wanted)), message)
    with get_default_graph().control_dependencies([holds]):
        return identity(lengths, name="CheckSeqLen")


class _TimeWalk:
    """One walk along time over inputs [time, batch, depth]."""

    def __init__(self, cell: Any, inputs: Any, state: Any, lengths: Tensor | None, dtype: Any) -> None:
        self._cell, self._inputs, self._state, self._lengths = cell, inputs, state, lengths
        self._flat = nest.flatten(inputs)
        self._steps = shape(self._flat[0])[0]
        self._batch = _batch_size(self._flat)
        for tensor in self._flat:
            dims = tensor.shape.as_tuple()
            if dims is None or None in dims[2:]:
                raise GraphValueError(
                    "Input size (depth of inputs) must be accessible via shape inference, but saw value None "
                    f"for input={tensor!r}."
                )
        self._type = _state_type(dtype, state)

    def run(self, parallel: int, *, swap_memory: bool) -> tuple[Any, Any]:
        """The outputs [time, batch, ...] and the last state."""
        sizes = nest.flatten(self._cell.output_size)
        known = [t.shape.as_list() for t in self._flat]
        zero = [self._zeros(size) for size in sizes]
        self._zero_output = nest.pack_like(self._cell.output_size, zero)
        longest: Any = self._steps
        if self._lengths is not None:
            math_ops.reduce_min(self._lengths)
            longest = math_ops.reduce_max(self._lengths)
        time = constant(0, int32, name="time")
        with name_scope("dynamic_rnn") as base:
            pass
        outs = [
            TensorArray(
                self._type, size=self._steps, tensor_array_name=f"{base}output_{i}",
                element_shape=TensorShape([known[0][1]]).concatenate(TensorShape(_dims(size))),
            )
            for i, size in enumerate(sizes)
        ]  # fmt: skip
        ins = [
            TensorArray(t.dtype, size=self._steps, tensor_array_name=f"{base}input_{i}", element_shape=t.shape[1:])
            for i, t in enumerate(self._flat)
        ]
        self._ins = [a.unstack(t) for a, t in zip(ins, self._flat, strict=True)]
        bound = call("Minimum", self._steps, call("Maximum", 1, longest))
        _, found, last = while_loop(
            lambda time, *_: time < bound, self._step, (time, tuple(outs), self._state), parallel_iterations=parallel,
            maximum_iterations=self._steps, swap_memory=swap_memory,
        )  # fmt: skip
        outputs = [a.stack() for a in found]
        for output, size in zip(outputs, sizes, strict=True):
            output.set_shape([known[0][0], known[0][1], *_dims(size)])
        return nest.pack_like(self._cell.output_size, outputs), last

    def _zeros(self, size: Any) -> Tensor:
        return zeros(stack([self._batch, *_dims(size)]), self._type)

    def _step(self, time: Tensor, outs: Any, state: Any) -> Any:
        now = [a.read(time) for a in self._ins]
        for tensor, whole in zip(now, self._flat, strict=True):
            tensor.set_shape(whole.shape[1:])
        output, new = self._cell(nest.pack_like(self._inputs, now), state)
        if self._lengths is not None:
            over = time >= self._lengths
            output = nest.map_structure(lambda old, value: _kept(over, old, value), self._zero_output, output)
            new = nest.map_structure(lambda old, value: _kept(over, old, value), state, new)
        written = tuple(a.write(time, o) for a, o in zip(outs, nest.flatten(output), strict=True))
        return time + 1, written, new


def _dims(size: Any) -> list[Any]:
    return list(TensorShape(size).as_list()) if isinstance(size, TensorShape) else [size]


def _kept(over: Tensor, old: Tensor, new: Tensor) -> Tensor:
    """The old value of examples that are over, else the new one."""
    if old.shape.rank == 0:
        return new
    with get_default_graph().colocate_with(new):
        result = where(over, old, new)
    result.set_shape(old.shape)
    return result


def bidirectional_dynamic_rnn(
    cell_fw: Any, cell_bw: Any, inputs: Any, sequence_length: Any = None, initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None, parallel_iterations: int | None = None, swap_memory: bool = False, time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:  # fmt: skip
    """A cell along time, and another one against it: both outputs, both last states."""
    how = {
        "sequence_length": sequence_length, "dtype": dtype, "parallel_iterations": parallel_iterations,
        "swap_memory": swap_memory,
        "time_major": time_major,
    }  # fmt: skip
    time_axis, batch_axis = (0, 1) if time_major else (1, 0)

    def reverse_time(x: Tensor) -> Tensor:
        if sequence_length is None:
            return reverse(x, axis=[time_axis])
        result = call("ReverseSequence", x, sequence_length, seq_dim=time_axis, batch_dim=batch_axis)
        result.set_shape(x.shape)
        return result

    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forward:
            out_fw, state_fw = dynamic_rnn(cell_fw, inputs, initial_state=initial_state_fw, scope=forward, **how)
        with variable_scope("bw") as backward:
            against = nest.map_structure(reverse_time, inputs)
            out, state_bw = dynamic_rnn(cell_bw, against, initial_state=initial_state_bw, scope=backward, **how)
    return (out_fw, nest.map_structure(reverse_time, out)), (state_fw, state_bw)


def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Unroll a cell over a list of inputs [batch, depth]; return all outputs and the last state.

    Raises:
        GraphValueError: no inputs, or neither initial_state nor dtype.
    """
    if not inputs:
        raise GraphValueError("static_rnn needs a list of at least one input")
    with variable_scope(scope or "rnn") as scopes:
        first = nest.flatten(inputs[0])[0]
        batch = first.shape.as_list()[0] if first.shape.rank is not None else None
        batch = batch if batch is not None else shape(first)[0]
        if initial_state is None and not dtype:
            raise GraphValueError("If no initial_state is provided, dtype must be specified")
        state = initial_state if initial_state is not None else _zero_state(cell, batch, dtype)
        lengths = (
            None if sequence_length is None else identity(math_ops.cast(sequence_length, int32), name="sequence_length")
        )
        zero = None
        outputs = []
        for time, value in enumerate(inputs):
            if time > 0:
                scopes.reuse_variables()
            output, new = cell(value, state)
            if lengths is not None:
                zero = zero if zero is not None else nest.map_structure(lambda o: zeros(shape(o), o.dtype), output)
                output, new = _bounded_step(lengths, time, (zero, state), (output, new))
            outputs.append(output)
            state = new
        return outputs, state


def _bounded_step(lengths: Tensor, time: int, old: Any, new: Any) -> Any:
    over = call("LessEqual", lengths, time)
    return nest.map_structure(lambda before, after: _kept(over, before, after), old, new)


def static_bidirectional_rnn(
    cell_fw: Any, cell_bw: Any, inputs: Sequence[Any], initial_state_fw: Any = None, initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None, scope: Any = None,
) -> tuple[list[Any], Any, Any]:  # fmt: skip
    """Unroll one cell forwards and one backwards; return concatenated outputs and both last
    states.
    """
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forward:
            out_fw, state_fw = static_rnn(cell_fw, inputs, initial_state_fw, dtype, sequence_length, forward)
        with variable_scope("bw") as backward:
            against = _turned_list(inputs, sequence_length)
            out, state_bw = static_rnn(cell_bw, against, initial_state_bw, dtype, sequence_length, backward)
        out_bw = _turned_list(out, sequence_length)
    return [concat([f, b], 1) for f, b in zip(out_fw, out_bw, strict=True)], state_fw, state_bw


def _turned_list(values: Sequence[Any], lengths: Any) -> list[Any]:
    if lengths is None:
        return list(reversed(values))
    together = stack(values)
    result = call("ReverseSequence", together, lengths, seq_dim=0, batch_dim=1)
    result.set_shape(together.shape)
    return unstack(result)


def raw_rnn(
    cell: Any, loop_fn: Any, parallel_iterations: int | None = None, swap_memory: bool = False, scope: Any = None
) -> Any:
    """Run a cell in a loop controlled by `loop_fn(time, output, state, loop_state)`.

    It returns what is finished, and the next inputs and states. The result is the outputs as a
    TensorArray (or a structure of them), the last state, and the last loop state.
    """
    with variable_scope(scope or "rnn"):
        time = constant(0, int32)
        over, inputs, state, emitted, loop_state = loop_fn(time, None, None, None)
        emitted = cell.output_size if emitted is None else emitted
        batch = _batch_first(nest.flatten(inputs)[0])
        kind = nest.flatten(state)[0].dtype
        flat_emit = nest.flatten(emitted)
        like = [(e.dtype, e.shape) if isinstance(e, Tensor) else (kind, TensorShape(_dims(e))) for e in flat_emit]
        arrays = [
            TensorArray(t, size=0, dynamic_size=True, element_shape=TensorShape([None]).concatenate(s)) for t, s in like
        ]
        zero = nest.pack_like(emitted, [zeros(stack([batch, *s.as_list()]), t) for t, s in like])
        held = loop_state if loop_state is not None else constant(0, int32)

        def step(time: Tensor, over: Tensor, inputs: Any, arrays: Any, state: Any, held: Any) -> Any:
            output, new = cell(inputs, state)
            later = time + 1
            next_over, next_inputs, next_state, emit, next_held = loop_fn(
                later, output, new, held if loop_state is not None else None
            )
            emit = output if emit is None else emit
            emit = nest.map_structure(lambda old, value: _kept(over, old, value), zero, emit)
            next_state = nest.map_structure(lambda old, value: _kept(over, old, value), state, next_state)
            arrays = [a.write(time, e) for a, e in zip(arrays, nest.flatten(emit), strict=True)]
            ended = call("LogicalOr", next_over, over)
            return later, ended, next_inputs, arrays, next_state, held if next_held is None else next_held

        _, _, _, arrays, state, held = while_loop(
            lambda _t, over, *_: call("LogicalNot", math_ops.reduce_all(over)), step,
            (time, over, inputs, arrays, state, held),
            parallel_iterations=parallel_iterations or 32, swap_memory=swap_memory,
        )  # fmt: skip
        return nest.pack_like(emitted, arrays), state, (held if loop_state is not None else None)


def _batch_first(tensor: Tensor) -> Any:
    known = tensor.shape.as_list()[0] if tensor.shape.rank is not None else None
    return known if known is not None else shape(tensor)[0]
