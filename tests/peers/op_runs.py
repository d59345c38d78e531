"""Run one op type with one dtype by the real XLA through TensorFlow and by xlanb, and compare."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.peers.op_cases import CASES, PROGRAMS, Case, D, K, V

_TWINS = {"float32": "complex64", "float64": "complex128"}
_TWINNED = {"Complex": ("T", "Tout"), "ComplexAbs": ("Tout", "T"), "Real": ("Tout", "T"), "Imag": ("Tout", "T"), "Angle": ("Tout", "T"),
            "RFFT": ("Treal", "Tcomplex"), "RFFT2D": ("Treal", "Tcomplex"), "RFFT3D": ("Treal", "Tcomplex"),
            "IRFFT": ("Treal", "Tcomplex"), "IRFFT2D": ("Treal", "Tcomplex"), "IRFFT3D": ("Treal", "Tcomplex")}  # fmt: skip
_TOLERANCE = {
    "float64": 1e-8,
    "complex128": 1e-8,
    "float32": 3e-5,
    "complex64": 3e-5,
    "float16": 6e-3,
    "bfloat16": 5e-2,
}
_QUANTISED = {"qint8": "int8", "quint8": "uint8", "qint32": "int32", "qint16": "int16", "quint16": "uint16"}
# TensorFlow's XLA:CPU hands back 4-bit numbers packed in buffers of another size, and aborts
_NOT_TRIED = ("resource", "variant", "string", "int4", "uint4")
# TensorFlow's own kernels do not order complex numbers, and its XLA gives nonsense or aborts
_NO_ORDER = frozenset(
    "ClipByValue FloorDiv LowerBound UpperBound ResourceScatterMax ResourceScatterMin TensorScatterMax TensorScatterMin UnsortedSegmentMax UnsortedSegmentMin "
    "SegmentMaxV2 SegmentMinV2 XlaSelfAdjointEig XlaSort XlaVariadicSort XlaSelectAndScatter".split()
)
_FIRST = ("float32", "int32", "complex64", "bool", "qint8", "uint32")


@dataclass(frozen=True)
class Outcome:
    """`status` is "ok", "wrong", "fails" (here) or "refused" (by TensorFlow); `text` says how."""

    status: str
    text: str = ""


def tensorflow() -> Any:
    """TensorFlow, quiet."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    return tf


def op_def(name: str) -> Any:
    """TensorFlow's OpDef."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(name)


def variants(name: str, kernels: dict[str, Any]) -> list[dict[str, str]]:
    """Return dtypes by attribute: each attribute varies over its kernels' dtypes, the others are
    fixed.
    """
    if name in PROGRAMS:
        kinds = next(
            (kernels[a] for a in ("element_dtype", "dtype", "T", "Tin", "elem_type", "LhsT") if a in kernels),
            ["float32"],
        )
        return [{"T": d} for d in sorted(kinds) if d not in _NOT_TRIED and _is_defined(name, {"T": d})]
    known = {a.name: a for a in op_def(name).attr if a.type in ("type", "list(type)")}
    allowed = {a: sorted((kernels.get(a) if a != "shape_dtype" else None) or _allowed(known[a])) for a in known}
    base = {a: next((f for f in _FIRST if f in kinds), kinds[0]) for a, kinds in allowed.items() if kinds}
    found = [base]
    for attr, kinds in allowed.items():
        for kind in kinds:
            if kind in _NOT_TRIED:
                continue
            made = _paired(name, {**base, attr: kind}, attr)
            if made not in found and _is_defined(name, made):
                found.append(made)
    return found


def _is_defined(name: str, types: dict[str, str]) -> bool:
    return name not in _NO_ORDER or not any(t.startswith("complex") for t in types.values())


def _allowed(attr: Any) -> list[str]:
    tf = tensorflow()
    if attr.name == "shape_dtype":
        return ["int32", "int64"]
    if not attr.HasField("allowed_values"):
        return ["float32", "int32"]
    return [tf.as_dtype(t).name for t in attr.allowed_values.list.type]


def _paired(name: str, types: dict[str, str], varied: str) -> dict[str, str]:
    if name in _TWINNED:
        real, twin = _TWINNED[name]
        if varied == real:
            types[twin] = _TWINS.get(types[real], types[twin])
        elif varied == twin:
            types[real] = {v: k for k, v in _TWINS.items()}.get(types[twin], types[real])
    return types


def _numbers(shape: tuple[int, ...], dtype: str, low: float, high: float, rng: Any) -> Any:
    import ml_dtypes

    dtype = _QUANTISED.get(dtype, dtype)
    scalar = getattr(ml_dtypes, dtype, None) or getattr(np, {"bool": "bool_"}.get(dtype, dtype))
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("complex"):
        return (rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(scalar)
    if dtype.startswith(("float", "bfloat")):
        return np.asarray(rng.uniform(low, high, shape)).astype(scalar)
    floor = 0 if dtype.startswith("u") else int(np.floor(low * 2 if low < 0 else low))
    return rng.integers(
        max(floor, int(np.ceil(max(low, -4))) if low > 0 else floor),
        int(np.ceil(high)) + (2 if high <= 2 else 1),
        shape,
    ).astype(scalar)


def _array(spec: Any, dtype: str, rng: Any) -> Any:
    if isinstance(spec, D):
        return _numbers(spec.shape, dtype, spec.low, spec.high, rng)
    if isinstance(spec, tuple):
        return _numbers(spec, dtype, -2.0, 2.0, rng)
    return _cast(np.asarray(spec), dtype)


def _cast(array: Any, dtype: str) -> Any:
    import ml_dtypes

    dtype = _QUANTISED.get(dtype, dtype)
    return array.astype(getattr(ml_dtypes, dtype, None) or np.dtype(dtype))


def _tensor(tf: Any, array: Any, dtype: str) -> Any:
    held = tf.constant(array)
    return tf.bitcast(held, tf.as_dtype(dtype)) if dtype in _QUANTISED else held


class _ByName:
    """TensorFlow's ops as methods, those without a Python name among them."""

    def __getattr__(self, name: str) -> Any:
        from tensorflow.python.framework import op_def_library

        named = getattr(tensorflow().raw_ops, name, None)
        return named or (lambda **given: op_def_library.apply_op(name, **given))


class Run:
    """The inputs of a case, and the graph that TensorFlow traces for it."""

    def __init__(self, name: str, types: dict[str, str]) -> None:
        self.tf = tensorflow()
        self.name = name
        self.types = types
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.arrays: list[Any] = []
        self.tensors: list[Any] = []
        self.variables: list[tuple[Any, Any]] = []

    def build(self) -> Any:
        """The function to be traced."""
        if self.name in PROGRAMS:
            dtype = self.types["T"]
            self.arrays = [_numbers((2, 3), dtype, -2, 2, self.rng)]
            self.tensors = [_tensor(self.tf, self.arrays[0], dtype)]
            return lambda x: PROGRAMS[self.name](_ByName(), self.tf, x)
        spec: Case = CASES[self.name]
        definition = op_def(self.name)
        args = dict(spec.args)
        names = {a.name for a in definition.input_arg} | {a.name for a in definition.attr}
        positional = [a for a in definition.input_arg if a.name not in args]
        spare = [k for k in list(args) if k not in names]
        for arg, key in zip(positional, spare, strict=False):  # op types name the same thing x, input, features, ...
            args[arg.name] = args.pop(key)
        for arg in positional[len(spare) :]:
            args[arg.name] = (2, 3)
        makers = {a.name: self._input(a, args[a.name]) for a in definition.input_arg}
        attrs = {k: v for k, v in args.items() if k not in makers}
        for attr in definition.attr:
            inferred = any(attr.name in (a.type_attr, a.number_attr, a.type_list_attr) for a in definition.input_arg)
            if attr.type == "type" and not inferred and not isinstance(attrs.get(attr.name), str):
                attrs[attr.name] = self.tf.as_dtype(self.types[attr.name])
            elif attr.type == "type" and isinstance(attrs.get(attr.name), str):
                attrs[attr.name] = self.tf.as_dtype(attrs[attr.name])
            elif attr.type == "list(type)" and not inferred:
                attrs[attr.name] = [self.tf.as_dtype(self.types[attr.name])] * 2
            elif not inferred and attr.name not in attrs and attr.HasField("default_value"):
                attrs[attr.name] = _default(attr)

        def traced(*given: Any) -> Any:
            from tensorflow.python.framework import op_def_library

            inputs = {k: m(given) for k, m in makers.items()}
            made = op_def_library.apply_op(self.name, name="op", **inputs, **attrs)
            if made is None or isinstance(made, self.tf.Operation):
                return []
            return list(made) if isinstance(made, list | tuple) else [made]

        return traced

    def _input(self, arg: Any, spec: Any) -> Any:
        if isinstance(spec, list):
            parts = [self._input(arg, s) for s in spec]
            return lambda given: [p(given) for p in parts]
        dtype = self._dtype(arg, spec)
        if isinstance(spec, V):
            array = spec.held if isinstance(spec.held, np.ndarray) else _array(spec.held, dtype, self.rng)
            variable = self.tf.Variable(_tensor(self.tf, array, dtype), trainable=False)
            self.variables.append((variable, array))
            return lambda _: variable.handle
        if isinstance(spec, K):
            array = _cast(np.asarray(spec.value), dtype)
            value = _tensor(self.tf, array, dtype)
            kind = self.tf.as_dtype(dtype)
            return lambda _: self.tf.constant(array, kind) if dtype not in _QUANTISED else self.tf.constant(value)
        array = (
            self._pooled(dtype) if isinstance(spec, tuple) and spec == ("MaxPool",) else _array(spec, dtype, self.rng)
        )
        position = len(self.arrays)
        self.arrays.append(array)
        self.tensors.append(_tensor(self.tf, array, dtype))
        return lambda given: given[position]

    def _pooled(self, dtype: str) -> Any:
        image = self.tf.constant(self.arrays[0].astype(np.float32))
        pool = self.tf.nn.max_pool2d if self.arrays[0].ndim == 4 else self.tf.nn.max_pool3d
        return _cast(pool(image, 2, 2, "VALID").numpy(), dtype)

    def _dtype(self, arg: Any, spec: Any) -> str:
        if isinstance(spec, V):
            if isinstance(spec.held, np.ndarray):
                return str(spec.held.dtype)
            return next((self.types[a] for a in ("T", "dtype") if a in self.types), "float32")
        if arg.type_attr:
            return self.types[arg.type_attr]
        if arg.type_list_attr:
            return self.types[arg.type_list_attr]
        return str(self.tf.as_dtype(arg.type).name)


def _default(attr: Any) -> Any:
    held = attr.default_value
    if attr.type.startswith("list("):
        return list(
            getattr(
                held.list,
                {"int": "i", "float": "f", "string": "s", "bool": "b", "shape": "shape", "type": "type"}[
                    attr.type[5:-1]
                ],
            )
        )
    return getattr(
        held, {"int": "i", "float": "f", "string": "s", "bool": "b", "shape": "shape", "type": "type"}[attr.type]
    )


def run(name: str, types: dict[str, str]) -> Outcome:
    """Compare one op type with these dtypes."""
    one = Run(name, types)
    tf = one.tf
    try:
        traced = tf.function(one.build(), jit_compile=True, autograph=False)
        concrete = traced.get_concrete_function(*one.tensors)
        graph = concrete.graph
        feeds = [t.name for t in concrete.inputs]
        fetches = [t.name for t in concrete.outputs]
        want = concrete(*one.tensors)
        want = [_plain(tf, w) for w in (want if isinstance(want, list | tuple) else [want])]
        written = [_plain(tf, v.read_value()) for v, _ in one.variables]
    except Exception as error:  # noqa: BLE001 - whatever TensorFlow says no with
        return Outcome("refused", f"{type(error).__name__}: {str(error)[-200:]}")
    try:
        got, mine = _ours(graph.as_graph_def().SerializeToString(), feeds, fetches, one)
    except Exception as error:  # noqa: BLE001 - the sweep goes on
        return Outcome("fails", f"{type(error).__name__}: {str(error)[:300]}")
    compare = "values" if name in PROGRAMS else CASES[name].compare
    bad = _differ(compare, got, want, one) or _differ("values", mine, written, one)
    if bad:
        found, after = _without_xla(tf, one, want, written)
        if not (_differ(compare, got, found, one) or _differ("values", mine, after, one)):
            bad = ""  # TensorFlow's own kernel and its XLA differ, and this is the kernel
    return Outcome("wrong", bad) if bad else Outcome("ok")


def _without_xla(tf: Any, one: Run, want: list[Any], written: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the results and variables of TensorFlow's kernels, or of its XLA if there are none."""
    try:
        again = Run(one.name, one.types)
        made = tf.function(again.build(), autograph=False)(*again.tensors)
    except Exception:  # noqa: BLE001 - there is no such kernel
        return want, written
    found = [_plain(tf, w) for w in (made if isinstance(made, list | tuple) else [made])]
    return found, [_plain(tf, v.read_value()) for v, _ in again.variables]


def _plain(tf: Any, value: Any) -> Any:
    if value.dtype.name in _QUANTISED:
        value = tf.bitcast(value, tf.as_dtype(_QUANTISED[value.dtype.name]))
    return value.numpy()


def _ours(graphdef: bytes, feeds: list[str], fetches: list[str], one: Run) -> tuple[list[Any], list[Any]]:
    from xlanb import tf as xtf
    from xlanb.runtime.compiler import compiled
    from xlanb.tf2xla.compiler import argument_of, lower

    graph = xtf.Graph.from_graphdef(graphdef)
    captured = [a for _, a in one.variables]
    arrays = [*one.arrays, *captured]
    kinds = ["parameter"] * len(one.arrays) + ["variable"] * len(captured)
    given = [
        (graph.get_tensor_by_name(n), argument_of(a, kind=k)) for n, a, k in zip(feeds, arrays, kinds, strict=True)
    ]
    targets = [o for o in graph.get_operations() if o.type == one.name and not o.outputs]
    result = lower("op", given, [graph.get_tensor_by_name(n) for n in fetches], targets)
    out = compiled(result.module)(*(np.asarray(arrays[i]) for i in result.parameters))
    held = dict(zip(result.updates, out[result.fetch_count :], strict=True))
    first = len(one.arrays)
    return list(out[: result.fetch_count]), [held.get(first + i, a) for i, a in enumerate(captured)]


def _differ(compare: str, got: list[Any], want: list[Any], one: Run) -> str:
    if len(got) != len(want):
        return f"{len(got)} results, not {len(want)}"
    if compare == "bn":  # reserve spaces are the backend's own
        got, want = got[:3], want[:3]
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape:
            return f"result {i} has shape {a.shape}, not {b.shape}"
        if a.dtype != b.dtype:
            return f"result {i} is {a.dtype}, not {b.dtype}"
        if compare in ("shape", "alg"):
            continue
        if compare == "sorted":
            a, b = np.sort(a), np.sort(b)
        if compare in ("qr", "eigh", "svd", "xla_svd"):
            a, b = np.abs(a), np.abs(b)
        if text := _apart(a, b, 20 if compare in ("qr", "eigh", "svd", "xla_svd", "irfft") else 1):
            return f"result {i}: {text}"
    return ""


def _apart(a: Any, b: Any, slack: float) -> str:
    tolerance = _TOLERANCE.get(a.dtype.name)
    if tolerance is None and a.dtype.kind in "biu":
        return "" if (a == b).all() else f"{a.ravel()[:6]} is not {b.ravel()[:6]}"
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        near = (
            (x == y)
            | (np.isnan(x) & np.isnan(y))
            | (np.abs(x - y) <= (tolerance or 0) * slack * np.maximum(1, np.abs(y)))
        )
    return "" if near.all() else f"{x.ravel()[~near.ravel()][:4]} is not {y.ravel()[~near.ravel()][:4]}"
