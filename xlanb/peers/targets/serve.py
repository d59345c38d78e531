"""The child process: compile one program for a described device with the real XLA.

Run as `python serve.py REQUEST`, by any Python that has JAX: it does not import xlanb. REQUEST is a
folder with request.json and the program (program.mlir: StableHLO, as bytecode or a portable
artifact; or program.hlo: HLO text). It writes answer.json and final.hlo to it; XLA writes its dumps
where the environment's flags say.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_UNKNOWN_FIELD = re.compile(r'has no field named "(\w+)"')


def serve(folder: Path) -> dict[str, Any]:
    """Compile the program in a folder; returns the answer."""
    request = json.loads((folder / "request.json").read_text())
    left_out: list[str] = []
    topology = _topology(request, left_out)
    devices = topology.devices[: request["partitions"] * request["replicas"]]
    if len(devices) < request["partitions"] * request["replicas"]:
        wanted = request["partitions"] * request["replicas"]
        return {"error": f"it needs {wanted} devices, but {request['name']} has {len(topology.devices)}"}
    begin = time.perf_counter()
    executable = _compiled(folder, request, devices)
    seconds = time.perf_counter() - begin
    module = executable.hlo_modules()[0]
    (folder / "final.hlo").write_text(module.to_string())
    return {
        "name": module.name,
        "device_kind": devices[0].device_kind,
        "device_count": len(topology.devices),
        "compile_seconds": seconds,
        "left_out": left_out,
        "cost": _numbers(executable.cost_analysis),
        "memory": _numbers(executable.get_compiled_memory_stats),
    }


def _topology(request: dict[str, Any], left_out: list[str]) -> Any:
    """Make the description of the devices, without GPU fields that the plugin does not know."""
    from jax.experimental import topologies

    if request["platform"] == "tpu":
        return topologies.get_topology_desc(platform="tpu", topology_name=request["topology"])
    text = request["config"]
    while True:
        said, made = _with_stderr(
            lambda text=text: topologies.get_topology_desc(  # type: ignore[misc]
                platform=request["platform"], target_config=text, topology=request["topology"]
            )
        )
        if not isinstance(made, Exception):
            return made
        unknown = _UNKNOWN_FIELD.search(f"{said}\n{made}")
        if unknown is None or unknown[1] in left_out:
            raise made
        left_out.append(unknown[1])
        text = without_field(text, unknown[1])


def without_field(text: str, field: str) -> str:
    """A message in text form without the lines that set a field.

    A nested message's lines are those to its closing brace.
    """
    kept, depth = [], 0
    for line in text.split("\n"):
        if depth or re.match(rf"\s*{re.escape(field)}\b", line):
            depth = max(0, depth + line.count("{") - line.count("}"))
        else:
            kept.append(line)
    return "\n".join(kept)


def _with_stderr(call: Callable[[], Any]) -> tuple[str, Any]:
    """Return a call's standard error output, native code included, and its result or exception."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            made = call()
        except Exception as error:  # noqa: BLE001 - handed back, and raised where nothing mends it
            made = error
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read().decode("utf-8", "replace"), made


def _compiled(folder: Path, request: dict[str, Any], devices: Any) -> Any:
    import numpy as np
    from jax._src.interpreters import mlir
    from jaxlib import _jax

    options = _jax.CompileOptions()
    build = options.executable_build_options
    for holder in (options, build):
        holder.num_replicas, holder.num_partitions = request["replicas"], request["partitions"]
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = True
    build.allow_spmd_sharding_propagation_to_parameters = request["propagate_to_parameters"]
    build.allow_spmd_sharding_propagation_to_output = request["propagate_to_output"]
    assigned = np.arange(len(devices), dtype=np.int32).reshape(request["replicas"], request["partitions"])
    build.device_assignment = _jax.DeviceAssignment.create(assigned)
    with mlir.make_ir_context() as context:
        module = _module(folder, context)
        return devices[0].client.compile(module, _jax.DeviceList(tuple(devices)), options)


def _module(folder: Path, context: Any) -> Any:
    from jaxlib import _hlo, _jax
    from jaxlib.mlir import ir

    text = folder / "program.hlo"
    if text.exists():
        proto = _hlo.hlo_module_from_text(text.read_text()).as_serialized_hlo_module_proto()
        return ir.Module.parse(_jax.mlir.xla_computation_to_mlir_module(_hlo.XlaComputation(proto)), context)
    data = (folder / "program.mlir").read_bytes()
    if b"StableHLO_v" in data[:64]:
        made = _jax.mlir.deserialize_portable_artifact(data, context)
        return made if isinstance(made, ir.Module) else ir.Module.parse(made, context)
    return ir.Module.parse(data, context)


def _numbers(call: Callable[[], Any]) -> dict[str, float]:
    """Return the numbers of an analysis; empty if the platform has none."""
    try:
        found = call()
    except Exception as error:  # the extension's own kind, for UNIMPLEMENTED
        if "UNIMPLEMENTED" not in str(error):
            raise
        return {}
    if isinstance(found, list):
        found = found[0] if found else {}
    if found is not None and not isinstance(found, dict):
        found = {n: getattr(found, n) for n in dir(found) if n.endswith("_in_bytes")}
    return {k: float(v) for k, v in (found or {}).items()}


def main(folder: Path) -> int:
    """Serve one request; errors are returned in the answer."""
    try:
        told = serve(folder)
    except Exception as error:  # noqa: BLE001 - whatever it was, the parent raises it
        told = {"error": f"{type(error).__name__}: {error}"}
    (folder / "answer.json").write_text(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
