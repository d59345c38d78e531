"""Gradients of all op types of the sweep against TensorFlow's, the second order too.

    python -m tests.peers.gradient_sweep [--only Exp,MatMul] [--list FILE]

TensorFlow makes the op and differentiates it by its float inputs; xlanb reads only the op and
differentiates it itself; the values are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.peers.op_cases import CASES, Case, K, V
from tests.peers.op_runs import Outcome, _array, _default, op_def, tensorflow
from tests.peers.sweep_report import report

_SLACK = 1e-6
_SINGLE_SLACK = 1e-4

# Differences from TensorFlow's gradient, and the reasons. Finite differences agree with xlanb's.
EXPLAINED = {
    "FusedBatchNormGrad": "TensorFlow stops the gradient through the mean in its third order",
    "FusedBatchNormGradV2": "TensorFlow stops the gradient through the mean in its third order",
    "FusedBatchNormGradV3": "TensorFlow stops the gradient through the mean in its third order",
    "MatrixDiagV2": "TensorFlow reads the gradient's diagonals with the alignment of MatrixDiagV3",
    "StatelessParameterizedTruncatedNormal": "TensorFlow samples by another algorithm where XLA does not compile",
    "XlaEinsum": "TensorFlow leaves out the conjugate of complex operands",
}


def differentiated() -> list[str]:
    """Op types with a case and a gradient in TensorFlow or here."""
    from xlanb.graph.gradients import is_differentiable

    theirs = theirs_gradients()
    return sorted(n for n in CASES if n in theirs or is_differentiable(n))


def theirs_gradients() -> set[str]:
    """Op types through which a gradient flows in TensorFlow."""
    tensorflow()
    from tensorflow.python.framework import ops

    return {name for name, held in ops.gradient_registry._registry.items() if held["type"] is not None}


class _Made:
    """The op in a TensorFlow graph: its float inputs, its float results and the feeds."""

    def __init__(self, name: str, kind: str) -> None:
        tf = tensorflow()
        self.v1 = tf.compat.v1
        self.rng = np.random.default_rng(len(name))
        self.feeds: dict[Any, Any] = {}
        spec: Case = CASES[name]
        definition = op_def(name)
        args = dict(spec.args)
        names = {a.name for a in definition.input_arg} | {a.name for a in definition.attr}
        positional = [a for a in definition.input_arg if a.name not in args]
        for arg, key in zip(positional, [k for k in list(args) if k not in names], strict=False):
            args[arg.name] = args.pop(key)
        for arg in positional:
            args.setdefault(arg.name, (2, 3))
        self.types = {a.name: self._kind(a, kind) for a in definition.attr if a.type in ("type", "list(type)")}
        if name in ("Angle", "Real", "Imag", "ComplexAbs", "IRFFT", "IRFFT2D", "RFFT", "RFFT2D", "Complex"):
            twin = {"float64": "complex128", "float32": "complex64"}[kind]
            reals = {"Tout", "Treal"} if name != "Complex" else {"T"}
            self.types = {a: kind if a in reals else twin for a in self.types}
        inputs = {a.name: self._input(a, args.pop(a.name)) for a in definition.input_arg}
        inferred = {n for a in definition.input_arg for n in (a.type_attr, a.number_attr, a.type_list_attr)}
        for attr in definition.attr:
            if attr.name in inferred:
                args.pop(attr.name, None)
            elif attr.type == "type":
                args[attr.name] = tf.as_dtype(self.types[attr.name])
            elif attr.name not in args and attr.HasField("default_value"):
                args[attr.name] = _default(attr)
        from tensorflow.python.framework import op_def_library

        made = op_def_library.apply_op(name, name="op", **inputs, **args)
        outs = list(made) if isinstance(made, list | tuple) else [made]
        self.ys = [o for o in outs if o.dtype.is_floating or o.dtype.is_complex]
        self.xs = [p for p in self.feeds if p.dtype.is_floating or p.dtype.is_complex]

    def _kind(self, attr: Any, kind: str) -> str:
        tf = tensorflow()
        allowed = [tf.as_dtype(t).name for t in attr.allowed_values.list.type]
        if attr.name in ("Tidx", "Tindices", "Taxis", "Tshape", "Tpaddings", "Tperm", "Tdim", "Tshift", "Tlen", "out_type", "Tmultiples", "Tblock_shape",
                         "Tcrops", "Tnumsegments", "index_type", "Tlabels", "Index", "Targmax", "Tk", "TI", "T_threshold"):  # fmt: skip
            return "int32"
        return (
            kind
            if not allowed or kind in allowed
            else next((a for a in ("complex64", "float32", "int32") if a in allowed), allowed[0])
        )

    def _input(self, arg: Any, spec: Any) -> Any:
        tf = tensorflow()
        if isinstance(spec, list):
            return [self._input(arg, s) for s in spec]
        if isinstance(spec, V) or (isinstance(spec, tuple) and spec == ("MaxPool",)):
            raise NotImplementedError("a case with variables, or of a gradient op")
        attr = arg.type_attr or arg.type_list_attr
        kind = self.types[attr] if attr else tf.as_dtype(arg.type).name
        array = _array(spec.value if isinstance(spec, K) else spec, kind, self.rng)
        if isinstance(spec, K):
            return tf.constant(array, tf.as_dtype(kind))
        placeholder = self.v1.placeholder(tf.as_dtype(kind), array.shape)
        self.feeds[placeholder] = array
        return placeholder


def _weights(ys: list[Any], seed: int, feeds: dict[Any, Any]) -> list[Any]:
    """Random weights in the shapes of tensors; those of open shapes are run for it."""
    tf = tensorflow()
    rng = np.random.default_rng(seed)
    if all(y.shape.is_fully_defined() for y in ys):
        shapes = [y.shape.as_list() for y in ys]
    else:
        with tf.compat.v1.Session(graph=ys[0].graph) as session:
            shapes = [v.shape for v in session.run(ys, feeds)]
    return [tf.constant(rng.uniform(0.5, 1.5, s), y.dtype) for y, s in zip(ys, shapes, strict=True)]


def compare(name: str, kind: str = "float64") -> Outcome:
    """Compare one op type and return the outcome.

    "ok", "wrong", "fails" (here), "missing" (here), "spare" (only here), "explained" or "refused"
    (by TensorFlow).
    """
    tf = tensorflow()
    with tf.Graph().as_default() as graph:
        try:
            made = _Made(name, kind)
            if not made.xs or not made.ys:
                return Outcome("refused", "no float input, or no float result")
            weights = _weights(made.ys, 1, made.feeds)
            forward = graph.as_graph_def().SerializeToString()
            found = tf.compat.v1.gradients(made.ys, made.xs, weights)
            first = [None if g is None else tf.convert_to_tensor(g) for g in found]
            second: list[Any] = [None] * len(made.xs)
            there = [g for g in first if g is not None]
            try:
                second = tf.compat.v1.gradients(there, made.xs, _weights(there, 2, made.feeds)) if there else second
            except (LookupError, ValueError, TypeError, NotImplementedError):
                second = []  # TensorFlow has none
            wanted = [g for g in (*first, *second) if g is not None]
            with tf.compat.v1.Session(graph=graph) as session:
                values = iter(session.run([tf.convert_to_tensor(g) for g in wanted], made.feeds))
        except Exception as error:  # noqa: BLE001 - whatever TensorFlow says no with
            return Outcome("refused", f"{type(error).__name__}: {str(error)[:160]}")
        expected = [None if g is None else next(values) for g in (*first, *second)]
    try:
        got = _ours(forward, made, bool(second))
    except Exception as error:  # noqa: BLE001 - the sweep goes on
        status = "missing" if "no gradient is defined" in str(error) else "fails"
        return Outcome(status, f"{type(error).__name__}: {str(error)[:200]}")
    found = _judge(expected, got, len(made.xs))
    return Outcome("explained", EXPLAINED[name]) if found.status == "wrong" and name in EXPLAINED else found


def _ours(forward: bytes, made: _Made, is_twice: bool) -> list[Any]:
    from xlanb import tf as xtf
    from xlanb.graph.builders.indexed_slices import IndexedSlices
    from xlanb.graph.gradients import gradients

    graph = xtf.Graph.from_graphdef(forward)
    xs, ys = ([graph.get_tensor_by_name(t.name) for t in ts] for ts in (made.xs, made.ys))
    weights = [graph.get_tensor_by_name(o.outputs[0].name) for o in graph.get_operations() if o.type == "Const"][
        -len(ys) :
    ]

    def dense(found: Any) -> Any:
        return found.as_tensor() if isinstance(found, IndexedSlices) else found

    with graph.as_default():
        first = [dense(g) for g in gradients(ys, xs, weights)]
        second: list[Any] = []
        if is_twice and any(g is not None for g in first):
            there = [g for g in first if g is not None]
            rng = np.random.default_rng(2)
            factors = [xtf.constant(rng.uniform(0.5, 1.5, _dims(t, first, made)), t.dtype) for t in there]
            second = [dense(g) for g in gradients(there, xs, factors)]
        elif is_twice:
            second = [None] * len(xs)
    wanted = [g for g in (*first, *second) if g is not None]
    config = xtf.ConfigProto()  # one compilation for the whole, not one for each node
    config.graph_options.optimizer_options.global_jit_level = xtf.OptimizerOptions.ON_1
    with xtf.Session(graph=graph, config=config) as session:
        values = iter(session.run(wanted, {graph.get_tensor_by_name(p.name): v for p, v in made.feeds.items()}))
    return [None if g is None else next(values) for g in (*first, *second)]


def _dims(tensor: Any, first: list[Any], made: _Made) -> list[int]:
    place = next(i for i, g in enumerate(first) if g is tensor)
    return list(made.xs[place].shape.as_list())


def _judge(expected: list[Any], got: list[Any], count: int) -> Outcome:
    spare = ""
    for i, (want, found) in enumerate(zip(expected, got, strict=True)):
        order = f"order {1 + i // count}, input {i % count}"
        if want is None or found is None:
            some = want if found is None else found
            if some is not None and np.any(np.asarray(some)):
                if found is None:
                    return Outcome("wrong", f"{order}: nothing here")
                spare = f"{order}: TensorFlow has none"
            continue
        a, b = np.asarray(found), np.asarray(want)
        if a.shape != b.shape:
            return Outcome("wrong", f"{order}: shape {a.shape}, not {b.shape}")
        slack = _SINGLE_SLACK if b.dtype in ("float32", "complex64") else _SLACK
        near = np.isclose(a, b, rtol=slack, atol=slack, equal_nan=True)
        if not near.all():
            return Outcome("wrong", f"{order}: {a[~near][:3]} is not {b[~near][:3]}")
    return Outcome("spare", spare) if spare else Outcome("ok", "twice" if len(expected) > count else "once")


def compare_any(name: str) -> Outcome:
    """Compare in double precision, or in single where TensorFlow has no other."""
    outcome = compare(name)
    return compare(name, "float32") if outcome.status == "refused" else outcome


if __name__ == "__main__":
    report(differentiated(), compare_any, "op types")
