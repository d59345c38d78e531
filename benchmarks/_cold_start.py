"""Measure seconds from HLO text to the first result in a fresh process.

`python -m benchmarks._cold_start {xla,xlanb} FILE`. NumPy is loaded, and the arguments are in
memory, before the clock starts; importing the compiler is included. Of XLA only jaxlib is loaded,
with its LAPACK handlers if the text calls them.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 - both compilers load it for NumPy's further types
import numpy as np


def xlanb_seconds(text: str, arguments: list[Any]) -> float:
    begin = time.perf_counter()
    import_module("xlanb").compile(text)(*arguments)
    return time.perf_counter() - begin


def xla_seconds(text: str, arguments: list[Any]) -> float:
    begin = time.perf_counter()
    hlo, jaxlib = import_module("jaxlib._hlo"), import_module("jaxlib._jax")
    client = jaxlib.get_tfrt_cpu_client(asynchronous=False)
    device = client.local_devices()[0]
    if "lapack_" in text:
        _register_lapack(jaxlib)
    proto = hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    mlir = jaxlib.mlir.xla_computation_to_mlir_module(hlo.XlaComputation(proto))
    loaded = client.compile_and_load(mlir, jaxlib.DeviceList((device,)), jaxlib.CompileOptions())
    compiled = time.perf_counter() - begin
    jax = import_module("jax")  # it alone puts arrays on a device; not counted
    with jax.enable_x64(True):
        buffers = jax.block_until_ready([jax.device_put(a, device) for a in arguments])
    begin = time.perf_counter()
    results = loaded.execute_sharded(buffers).disassemble_into_single_device_arrays()
    for r in results:
        r[0].block_until_ready()
    return compiled + time.perf_counter() - begin


def _register_lapack(jaxlib: Any) -> None:
    lapack = import_module("jaxlib.cpu._lapack")
    lapack.initialize()  # loads SciPy's LAPACK
    for target, handler in lapack.registrations().items():
        jaxlib.register_custom_call_target(target, handler, "cpu", int(target.endswith("_ffi")))


def main() -> None:
    """Print the seconds.

    FILE has the text, FILE.json the dimensions and dtypes of the arguments (ones).
    """
    kind, path = sys.argv[1], Path(sys.argv[2])
    described = json.loads(path.with_suffix(".json").read_text())
    arguments = [np.ones(shape, dtype) for shape, dtype in described]
    measure = xla_seconds if kind == "xla" else xlanb_seconds
    print(measure(path.read_text(), arguments))


if __name__ == "__main__":
    main()
