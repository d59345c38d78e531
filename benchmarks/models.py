"""Real models from flax, Keras and plain JAX with random weights, against XLA:CPU, PyTorch,
onnxruntime.

`python -m benchmarks models [PART ...]` runs the rows whose names contain one of the parts,
ignoring case. Each row is measured in its own process: a crash costs only its row. All run
alternately with the same number of threads; the figures are medians of rounds, and ratios above 1
mean that xlanb is faster. PyTorch and onnxruntime are measured if installed. Weights are arguments,
except for Keras, where xlanb takes models with weights as literals; XLA is
`tf.function(jit_compile=True)` there, and the compile ratio is that of the first calls, tracing
included.

`cold` is XLA's time by ours from HLO text to the first result in a fresh process, including
compiler imports (see _cold_start), with xlanb's program-independent routines in the user's cache;
`second start s` is the same for ours with the executable in the folder of XLANB_CACHE_DIR.
"""

from __future__ import annotations

import gc
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks._beside import hlo_text, threads

Call = Callable[[], Any]
Row = dict[str, Any]

ROUNDS = 15
_SECONDS = 12.0
"""The maximum of all rounds together, if a round is slow."""
_COMPILE_SECONDS = 8.0


@dataclass(frozen=True)
class Model:
    """A row: the functions of _models_jax and _models_torch that make the program, with
    arguments.
    """

    make: Callable[[], Any]
    torch: Callable[[], Any] | None = None
    wide: bool = False
    group: str = ""


def _jax(name: str, *args: Any) -> Any:
    return getattr(import_module("benchmarks._models_jax"), name)(*args)


def _flax(name: str, inputs: str, *sizes: int) -> Any:
    programs = import_module("benchmarks._models_jax")
    return programs.applied(getattr(programs, name)(), getattr(programs, inputs)(*sizes))


def _torch(name: str, *args: Any) -> Any:
    return getattr(import_module("benchmarks._models_torch"), name)(*args)


def _routine(name: str, *args: Any) -> Any:
    return getattr(import_module("benchmarks.jax_routines"), name)(*args)


CONVOLUTIONS, PRODUCTS, OTHERS = "convolutions", "products", "others"
KERAS = "ResNet50 InceptionV3 DenseNet121 MobileNetV2 EfficientNetB0 ConvNeXtTiny".split()  # fmt: skip


def _models() -> dict[str, Model]:
    rows = {
        f"ResNet-50 b{b}": Model(
            partial(_flax, "ResNet50", "images", b), partial(_torch, "resnet", b), group=CONVOLUTIONS
        )
        for b in (1, 8)
    }
    rows |= {f"Keras {name}": Model(partial(_keras, name), group=CONVOLUTIONS) for name in KERAS}
    rows |= {
        "ViT-B/16 b1": Model(partial(_flax, "ViT", "images", 1), partial(_torch, "vit")),
        "BERT-base 128": Model(partial(_flax, "Bert", "tokens", 128, 30522), partial(_torch, "bert")),
        "GPT-2 small 128": Model(partial(_flax, "Gpt2", "tokens", 128, 50257), partial(_torch, "gpt2")),
        "GPT-2 small 128 train": Model(partial(_jax, "gpt2_train"), partial(_torch, "gpt2_train")),
        "MLP 4x1024 b256 train": Model(partial(_jax, "mlp_train"), partial(_torch, "mlp_train")),
        "matvec 768x50257": Model(partial(_jax, "matvec"), partial(_torch, "matvec")),
    }
    for n, kind in ((2048, "float32"), (1024, "float64"), (1024, "int8")):
        product = partial(_jax, "matmul", n, kind), partial(_torch, "matmul", n, kind)
        rows[f"matmul {kind} {n}"] = Model(*product, wide=kind == "float64")
    rows = {name: row if row.group else Model(row.make, row.torch, row.wide, PRODUCTS) for name, row in rows.items()}
    rows["causal attention 12x1024x64"] = Model(partial(_jax, "causal_attention"), partial(_torch, "causal_attention"))
    rows |= {f"LSTM 256 b{b}": Model(partial(_jax, "lstm", b), partial(_torch, "lstm", b)) for b in (1, 32)}
    for name in ("all_pairs", "neighbour_list"):
        rows[f"Lennard-Jones {name} 500"] = Model(partial(_routine, name, 500, 3, "f32", 50))
    for name in ("eig", "schur", "sqrtm"):
        rows[f"{name} f64 128"] = Model(partial(_routine, name, 128, "f64"), wide=True)
    return {name: row if row.group else Model(row.make, row.torch, row.wide, OTHERS) for name, row in rows.items()}


def table(*parts: str) -> pd.DataFrame:
    """A row per model, and geometric means of all and of each group.

    Raises:
        SystemExit: no name has one of the parts.
    """
    found = _models()
    chosen = [n for n in found if not parts or any(p.lower() in n.lower() for p in parts)]
    if not chosen:
        raise SystemExit(f"none of {', '.join(found)} has {' or '.join(parts)} in its name")
    rows = []
    for name in chosen:
        rows.append(_in_process(name))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return with_means(rows)


def with_means(rows: list[Row]) -> pd.DataFrame:
    """The rows of the table, with those of geometric means of ratios behind them."""
    models = _models()
    whole = pd.DataFrame(rows)
    ratios = [c for c in ("XLA by ours", "torch by ours", "onnxruntime by ours", "compile", "cold") if c in whole]
    means = []
    for group in ("", CONVOLUTIONS, PRODUCTS, OTHERS):
        part = whole[[group in {"", models[n].group} for n in whole["program"]]]
        if len(part) > 1:
            means.append({"program": f"geometric mean{group and ', '}{group}", **{c: _mean(part[c]) for c in ratios}})
    return pd.concat([whole, pd.DataFrame(means)], ignore_index=True).round(2)


def _mean(ratios: Any) -> float:
    logarithms = [math.log(r) for r in ratios if r > 0]
    return math.exp(statistics.fmean(logarithms)) if logarithms else math.nan


def _in_process(name: str) -> Row:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        try:
            return {"program": name, "threads": threads(), **process.submit(measured, name).result()}
        except Exception as error:  # noqa: BLE001 - one row failed, of whatever it calls
            return {"program": name, "threads": threads(), "failed": f"{type(error).__name__}: {error}"[:200]}


def measured(name: str) -> Row:
    """A row, but for its name."""
    os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    os.environ.pop("XLANB_CACHE_DIR", None)  # would cache compilations
    model = _models()[name]
    if name.startswith("Keras"):
        calls, row = model.make()
    else:
        import jax

        with jax.enable_x64(model.wide):
            calls, row = _jax_calls(*model.make())
    if model.torch is not None and find_spec("torch") is not None:
        calls |= _torch_calls(name, model.torch)
    wall = medians(calls)
    row = {"instructions": row.pop("instructions"), **{f"{k} ms": s * 1e3 for k, s in wall.items()}} | {
        f"{k} by ours": s / wall["ours"] for k, s in wall.items() if k != "ours"
    } | row  # fmt: skip
    return {k: v if isinstance(v, int) else float(f"{v:.4g}") for k, v in row.items()}


def _jax_calls(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[dict[str, Call], Row]:
    """Return calls of a program by XLA and by ours, its instruction count, and both compile
    times.
    """
    import jax
    import numpy as np

    import xlanb

    placed = jax.tree.map(jax.device_put, args)
    lowered = jax.jit(function).lower(*placed)
    compiled = lowered.compile()
    text = hlo_text(lowered, compiled)
    kept = lowered._lowering.compile_args.get("kept_var_idx")  # noqa: SLF001 - said nowhere else
    leaves = [np.asarray(x) for x in jax.tree.leaves(args)]
    flat = [x for i, x in enumerate(leaves) if kept is None or i in kept]
    executable = xlanb.compile(text)
    _check(executable(*flat), jax.tree.leaves(compiled(*placed)))

    def compile_again() -> None:
        jax.clear_caches()
        fresh = jax.jit(function).lower(*placed)
        begin = time.perf_counter()
        fresh.compile()
        spent["XLA"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        xlanb.compile(text)
        spent["ours"].append(time.perf_counter() - begin)

    spent: dict[str, list[float]] = {"XLA": [], "ours": []}
    end = time.perf_counter() + _COMPILE_SECONDS / 2
    while not spent["XLA"] or (len(spent["XLA"]) < 5 and time.perf_counter() < end):
        compile_again()
    xla, ours = (statistics.median(spent[k]) for k in ("XLA", "ours"))
    row: Row = {"instructions": text.count(" = "), "compile": xla / ours}
    row |= _starts(text, flat)
    calls = {"XLA": lambda: jax.block_until_ready(compiled(*placed)), "ours": lambda: executable(*flat)}
    return calls, row


def _check(ours: Any, theirs: list[Any]) -> None:
    """Raise where the two do not give the same numbers: a wrong result is not fast."""
    import numpy as np

    found = list(ours) if isinstance(ours, tuple) else [ours]
    for mine, other in zip(found, map(np.asarray, theirs), strict=True):
        scale = max(1.0, float(np.max(np.abs(other), initial=0)))
        off = float(np.max(np.abs(np.asarray(mine, other.dtype) - other), initial=0)) / scale
        if not off < 2e-2:
            raise AssertionError(f"results differ by {off:.1e} of the largest")


def _starts(text: str, arguments: list[Any]) -> Row:
    """Return XLA's time by ours from text to result in fresh processes, and our seconds.

    Also our seconds of a second start with cached executables.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.hlo"
        path.write_text(text)
        path.with_suffix(".json").write_text(json.dumps([(a.shape, a.dtype.name) for a in arguments]))
        cold = {kind: [] for kind in ("xla", "xlanb")}
        _fresh("xlanb", path)  # Python writes the bytecode of modules, as installing the package does
        end = time.perf_counter() + _COMPILE_SECONDS
        while not cold["xla"] or (len(cold["xla"]) < 3 and time.perf_counter() < end):
            for kind, seconds in cold.items():
                seconds.append(_fresh(kind, path))
        kept = Path(folder) / "kept"
        kept.mkdir(mode=0o700)
        second = [_fresh("xlanb", path, XLANB_CACHE_DIR=str(kept)) for _ in range(2)][1]
    theirs, ours = (statistics.median(cold[k]) for k in ("xla", "xlanb"))
    return {"cold": theirs / ours, "cold s": ours, "second start s": second}


def _fresh(kind: str, path: Path, **environment: str) -> float:
    command = [sys.executable, "-m", "benchmarks._cold_start", kind, str(path)]
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | environment
    made = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if made.returncode:
        raise RuntimeError(f"{kind} alone: {made.stderr.strip().splitlines()[-1:]}")
    return float(made.stdout.split()[-1])


def _keras(name: str) -> tuple[dict[str, Call], Row]:
    """Calls of a model of keras.applications, and the times of its first calls."""
    import numpy as np
    import tensorflow as tf

    import xlanb

    model = getattr(tf.keras.applications, name)(weights=None)
    random = np.random.default_rng(0)
    for v in model.variables:  # scales of 1 and offsets of 0 would simplify away
        if len(v.shape) == 1:
            near = 1 if "gamma" in v.path or "variance" in v.path else 0
            v.assign(near + np.abs(0.1 * random.standard_normal(v.shape, np.float32)))
    images = random.standard_normal((1, *model.input_shape[1:]), np.float32)
    placed = tf.constant(images)
    function = tf.function(lambda x: model(x, training=False), jit_compile=True, autograph=False)
    begin = time.perf_counter()
    theirs = function(placed).numpy()
    their_first = time.perf_counter() - begin
    begin = time.perf_counter()
    executable = xlanb.compile(model, images)
    ours = executable(images)
    row: Row = {"compile": their_first / (time.perf_counter() - begin)}
    _check(ours, [theirs])
    module = xlanb.runtime.program.to_module(model, images)
    row["instructions"] = module.instruction_count
    return {"XLA": lambda: function(placed).numpy(), "ours": lambda: executable(images)}, row


def _torch_calls(name: str, make: Callable[[], Any]) -> dict[str, Call]:
    """Return a call of the model in PyTorch, and one in onnxruntime if possible."""
    import torch

    torch.set_num_threads(threads())
    found = make()
    calls: dict[str, Call] = {"torch": found.call}
    if find_spec("onnxruntime") is None or find_spec("onnx") is None:
        return calls
    programs = import_module("benchmarks._models_torch")
    if found.module is not None:
        model = programs.onnx_bytes(found.module, found.inputs)
        inputs = [x.numpy() for x in found.inputs]
    elif "int8" in name:
        import numpy as np

        model, inputs = programs.integer_product(1024), list(np.ones((2, 1024, 1024), np.int8))
    else:
        return calls
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {given.name: x for given, x in zip(session.get_inputs(), inputs, strict=True)}
    return calls | {"onnxruntime": lambda: session.run(None, feed)}


def medians(calls: Mapping[str, Call]) -> dict[str, float]:
    """Return seconds of a call of each: medians over rounds that alternate all of them.

    Before a turn is timed, the previous one's threads have a pause to stop spinning, and the call
    is made once.
    """
    once = {k: _seconds(call, 1) for k, call in calls.items() if _seconds(call, 1) >= 0}
    repeats = {k: max(1, min(1000, int(0.03 / s))) for k, s in once.items()}
    round_seconds = sum(once[k] * (repeats[k] + 1) for k in calls)
    rounds = max(3, min(ROUNDS, int(_SECONDS / round_seconds)))
    found: dict[str, list[float]] = {k: [] for k in calls}
    gc.disable()
    for _ in range(rounds):
        for k, call in calls.items():
            time.sleep(0.02)
            call()
            found[k].append(_seconds(call, repeats[k]))
    gc.enable()
    return {k: statistics.median(v) for k, v in found.items()}


def _seconds(call: Call, repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begin) / repeats
