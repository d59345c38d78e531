"""tf.nn.rnn_cell: one step of a recurrent network (python/ops/rnn_cell_impl.py of TensorFlow
1.15).
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders import initializers, math_ops, nest, nn_ops
from xlanb.graph.builders.array_ops import concat, split, zeros
from xlanb.graph.builders.clip_ops import clip_by_value
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variable_scope import variable_scope
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import int32
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor
from xlanb.tf.layers import Layer

LSTMStateTuple = namedtuple("LSTMStateTuple", ("c", "h"))  # noqa: PYI024 - TensorFlow's is one


class RNNCell(Layer):
    """A cell: `cell(inputs, state)` returns the output and the next state.

    Attributes:
        state_size, output_size: numbers of units, or structures of them.
    """

    state_size: Any = None
    output_size: Any = None

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None, **how: Any) -> Any:
        """The output [batch, output_size] and the next state."""
        if scope is not None and self._scope is None:
            with variable_scope(scope) as captured:
                self._scope = captured
        return super().__call__(inputs, state=state)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The state of zeros: tensors [batch_size, size] in a structure like state_size."""
        with name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            return self._zeros(batch_size, dtype)

    def _zeros(self, batch_size: Any, dtype: Any) -> Any:
        sizes = nest.flatten(self.state_size)
        return nest.pack_like(self.state_size, [_zero_state(batch_size, size, dtype) for size in sizes])

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """The state of zeros."""
        return self.zero_state(batch_size, dtype)


def _zero_state(batch_size: Any, size: int, dtype: Any) -> Tensor:
    if isinstance(batch_size, Tensor):
        sizes = concat([call("ExpandDims", batch_size, 0), constant([size], int32)], 0)
        made = zeros(sizes, dtype)
        made.set_shape([None, size])
        return made
    sizes = concat([constant([batch_size], int32), constant([size], int32)], 0)
    made = zeros(sizes, dtype)
    made.set_shape([batch_size, size])
    return made


def _matrix(inputs: Any, h: Any) -> Tensor:
    return concat([inputs, h], 1)


def _depth(shape: Any) -> int:
    size = shape.as_list()[-1] if shape.rank is not None else None
    if size is None:
        raise GraphValueError(f"Expected inputs.shape[-1] to be known, saw shape: {shape}")
    return int(size)


class BasicRNNCell(RNNCell):
    """output = new state = activation([inputs, state] @ kernel + bias)."""

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **_kwargs: Any,
    ) -> None:
        super().__init__("basic_rnn_cell", name, trainable=True, dtype=dtype, reuse=reuse)
        self._units = num_units
        self._activation = activation or math_tanh
        self.state_size = self.output_size = num_units

    def build(self, input_shape: Any) -> None:
        """kernel [inputs + units, units], bias [units]."""
        self._kernel = self.add_variable("kernel", [_depth(input_shape) + self._units, self._units])
        self._bias = self.add_variable("bias", [self._units], initializers.Zeros())

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """One step."""
        gates = nn_ops.bias_add(math_ops.matmul(_matrix(inputs, how["state"]), self._kernel), self._bias)
        output = self._activation(gates)
        return output, output


def math_tanh(x: Any, name: str | None = None) -> Tensor:
    """The hyperbolic tangent."""
    return call("Tanh", x, name=name)


class GRUCell(RNNCell):
    """A gated recurrent unit (Cho et al. 2014)."""

    def __init__(
        self, num_units: int, activation: Any = None, reuse: Any = None, kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None, dtype: Any = None, **_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__("gru_cell", name, trainable=True, dtype=dtype, reuse=reuse)
        self._units = num_units
        self._activation = activation or math_tanh
        self._how = (kernel_initializer, bias_initializer)
        self.state_size = self.output_size = num_units

    def build(self, input_shape: Any) -> None:
        """gates/kernel, gates/bias (ones), candidate/kernel, candidate/bias (zeros)."""
        depth, units = _depth(input_shape) + self._units, self._units
        kernel, bias = self._how
        self._gate_kernel = self.add_variable("gates/kernel", [depth, 2 * units], kernel)
        self._gate_bias = self.add_variable(
            "gates/bias", [2 * units], bias if bias is not None else initializers.Constant(1.0)
        )
        self._candidate_kernel = self.add_variable("candidate/kernel", [depth, units], kernel)
        self._candidate_bias = self.add_variable(
            "candidate/bias", [units], bias if bias is not None else initializers.Zeros()
        )

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """One step."""
        state = how["state"]
        gates = nn_ops.bias_add(math_ops.matmul(_matrix(inputs, state), self._gate_kernel), self._gate_bias)
        r, u = split(value=math_ops.sigmoid(gates), num_or_size_splits=2, axis=1)
        candidate = math_ops.matmul(_matrix(inputs, r * state), self._candidate_kernel)
        c = self._activation(nn_ops.bias_add(candidate, self._candidate_bias))
        new = u * state + (1 - u) * c
        return new, new


class BasicLSTMCell(RNNCell):
    """LSTM without peepholes (Zaremba et al. 2015); `forget_bias` is added to the forget gate."""

    def __init__(
        self, num_units: int, forget_bias: float = 1.0, state_is_tuple: bool = True, activation: Any = None,
        reuse: Any = None,
        name: str | None = None, dtype: Any = None, **_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__("basic_lstm_cell", name, trainable=True, dtype=dtype, reuse=reuse)
        self._units, self._forget_bias, self._is_tuple = num_units, forget_bias, state_is_tuple
        self._activation = activation or math_tanh
        self.state_size = LSTMStateTuple(num_units, num_units) if state_is_tuple else 2 * num_units
        self.output_size = num_units

    def build(self, input_shape: Any) -> None:
        """kernel [inputs + units, 4 * units], bias [4 * units]; gates in the order i, j, f, o."""
        self._kernel = self.add_variable("kernel", [_depth(input_shape) + self._units, 4 * self._units])
        self._bias = self.add_variable("bias", [4 * self._units], initializers.Zeros())

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """One step."""
        state = how["state"]
        one = constant(1, dtype=int32)
        c, h = state if self._is_tuple else split(value=state, num_or_size_splits=2, axis=one)
        gates = nn_ops.bias_add(math_ops.matmul(_matrix(inputs, h), self._kernel), self._bias)
        i, j, f, o = split(value=gates, num_or_size_splits=4, axis=one)
        bias = constant(self._forget_bias, dtype=f.dtype)
        add, multiply = math_ops.add, _multiply
        new_c = add(multiply(c, math_ops.sigmoid(add(f, bias))), multiply(math_ops.sigmoid(i), self._activation(j)))
        new_h = multiply(self._activation(new_c), math_ops.sigmoid(o))
        return new_h, (LSTMStateTuple(new_c, new_h) if self._is_tuple else concat([new_c, new_h], 1))


def _multiply(x: Any, y: Any) -> Tensor:
    return call("Mul", x, y)


class LSTMCell(RNNCell):
    """LSTM with optional peepholes, clipping and projection (Sak et al. 2014)."""

    def __init__(
        self, num_units: int, use_peepholes: bool = False, cell_clip: float | None = None, initializer: Any = None,
        num_proj: int | None = None, proj_clip: float | None = None, forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None, reuse: Any = None, name: str | None = None, dtype: Any = None, **_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__("lstm_cell", name, trainable=True, dtype=dtype, reuse=reuse)
        if not state_is_tuple:
            raise GraphValueError(
                "LSTMCell keeps its state as a tuple (c, h) here: state_is_tuple=False is not supported"
            )
        self._units, self._forget_bias, self._peepholes = num_units, forget_bias, use_peepholes
        self._cell_clip, self._proj, self._proj_clip = cell_clip, num_proj, proj_clip
        self._initializer = initializer
        self._activation = activation or math_tanh
        size = num_units if num_proj is None else num_proj
        self.state_size = LSTMStateTuple(num_units, size)
        self.output_size = size

    def build(self, input_shape: Any) -> None:
        """Make kernel, bias, and, on request, w_f_diag, w_i_diag, w_o_diag, projection/kernel."""
        units, init = self._units, self._initializer
        self._kernel = self.add_variable("kernel", [_depth(input_shape) + self.output_size, 4 * units], init)
        self._bias = self.add_variable("bias", [4 * units], initializers.Zeros())
        if self._peepholes:
            self._diagonals = [self.add_variable(f"w_{g}_diag", [units], init) for g in "fio"]
        if self._proj is not None:
            self._projection = self.add_variable("projection/kernel", [units, self._proj], init)

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """One step."""
        c, m = how["state"]
        gates = nn_ops.bias_add(math_ops.matmul(_matrix(inputs, m), self._kernel), self._bias)
        i, j, f, o = split(value=gates, num_or_size_splits=4, axis=1)
        if self._peepholes:
            f_diag, i_diag, o_diag = self._diagonals
            forget = math_ops.sigmoid(f + self._forget_bias + f_diag * c)
            new_c = forget * c + math_ops.sigmoid(i + i_diag * c) * self._activation(j)
        else:
            new_c = math_ops.sigmoid(f + self._forget_bias) * c + math_ops.sigmoid(i) * self._activation(j)
        if self._cell_clip is not None:
            new_c = _clipped(new_c, self._cell_clip)
        opened = math_ops.sigmoid(o + o_diag * new_c) if self._peepholes else math_ops.sigmoid(o)
        new_m = opened * self._activation(new_c)
        if self._proj is not None:
            new_m = math_ops.matmul(new_m, self._projection)
            if self._proj_clip is not None:
                new_m = _clipped(new_m, self._proj_clip)
        return new_m, LSTMStateTuple(new_c, new_m)


def _clipped(x: Tensor, bound: float) -> Tensor:
    found: Tensor = clip_by_value(x, -bound, bound)
    return found


class MultiRNNCell(RNNCell):
    """Cells one above the other; each gets the output of the one below."""

    def __init__(self, cells: Sequence[RNNCell], state_is_tuple: bool = True) -> None:
        super().__init__("multi_rnn_cell", None, trainable=True)
        if not cells:
            raise GraphValueError("Must specify at least one cell for MultiRNNCell.")
        if not state_is_tuple:
            raise GraphValueError("MultiRNNCell keeps its state as a tuple here: state_is_tuple=False is not supported")
        self._cells = list(cells)
        self.state_size = tuple(c.state_size for c in self._cells)
        self.output_size = self._cells[-1].output_size

    def _zeros(self, batch_size: Any, dtype: Any) -> Any:
        return tuple(c.zero_state(batch_size, dtype) for c in self._cells)

    def call(self, inputs: Tensor, **how: Any) -> Any:
        """One step of each."""
        current: Any = inputs
        states = []
        for index, cell in enumerate(self._cells):
            with variable_scope(f"cell_{index}"):
                current, new = cell(current, how["state"][index])
            states.append(new)
        return current, tuple(states)


class DropoutWrapper(RNNCell):
    """A cell with dropout on its inputs, states and outputs."""

    def __init__(
        self,
        cell: RNNCell,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        seed: int | None = None,
    ) -> None:
        super().__init__("dropout_wrapper", None, trainable=True)
        self._cell, self._seed = cell, seed
        self._keep = {"input": input_keep_prob, "output": output_keep_prob, "state": state_keep_prob}
        self.state_size, self.output_size = cell.state_size, cell.output_size

    def _zeros(self, batch_size: Any, dtype: Any) -> Any:
        return self._cell.zero_state(batch_size, dtype)

    def _thinned(self, value: Any, kind: str) -> Any:
        keep = self._keep[kind]
        if not isinstance(keep, Tensor) and keep >= 1.0:
            return value
        return nn_ops.dropout(value, keep_prob=keep, seed=self._seed)

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None, **how: Any) -> Any:
        """One step."""
        output, new = self._cell(self._thinned(convert_to_tensor(inputs), "input"), state, scope)
        if isinstance(new, LSTMStateTuple):  # the memory itself is kept
            new = LSTMStateTuple(new.c, self._thinned(new.h, "state"))
        else:
            new = nest.map_structure(lambda s: self._thinned(s, "state"), new)
        return self._thinned(output, "output"), new


class ResidualWrapper(RNNCell):
    """A cell that adds its inputs to its outputs."""

    def __init__(self, cell: RNNCell) -> None:
        super().__init__("residual_wrapper", None, trainable=True)
        self._cell = cell
        self.state_size, self.output_size = cell.state_size, cell.output_size

    def _zeros(self, batch_size: Any, dtype: Any) -> Any:
        return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None, **how: Any) -> Any:
        """One step."""
        output, new = self._cell(inputs, state, scope)
        return inputs + output, new


class DeviceWrapper(RNNCell):
    """A cell with its nodes on a requested device."""

    def __init__(self, cell: RNNCell, device: Any) -> None:
        super().__init__("device_wrapper", None, trainable=True)
        self._cell, self._device = cell, device
        self.state_size, self.output_size = cell.state_size, cell.output_size

    def _zeros(self, batch_size: Any, dtype: Any) -> Any:
        with get_default_graph().device(self._device):
            return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any = None, scope: Any = None, **how: Any) -> Any:
        """One step."""
        with get_default_graph().device(self._device):
            return self._cell(inputs, state, scope)
