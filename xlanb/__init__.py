"""Compile TensorFlow graphs, JAX functions, StableHLO and HLO as XLA does, one pass at a time.

Every step can be inspected. Names are resolved on first use: `import xlanb` itself loads next to
nothing.
"""

from __future__ import annotations

from importlib import import_module

from xlanb.hooks import TYPE_CHECKING, set_providers

if TYPE_CHECKING:
    from typing import Any

# the face: name -> its module
_FACE = {
    "Compilation": "xlanb.explorer.live",
    "cluster": "xlanb.clustering.clustering",
    "compile": "xlanb.runtime.compile",
    "evaluate": "xlanb.runtime.evaluate",
    "explore": "xlanb.notebook.explore",
    "extract": "xlanb.runtime.extract",
    "flags": "xlanb.debug_options",
    "from_jax": "xlanb.frontends.jax",
    "from_stablehlo": "xlanb.frontends.stablehlo",
    "get_threads": "xlanb.cpu.thread_limit",
    "jit": "xlanb.runtime.jit",
    "load": "xlanb.cpu.saved",
    "load_ipython_extension": "xlanb.notebook.magic",
    "read_dot": "xlanb.dump.dot",
    "read_dump": "xlanb.explorer.dump_directory",
    "recording": "xlanb.explorer.recording",
    "reduce": "xlanb.reducer.search",
    "reproducer": "xlanb.explorer.reproducer",
    "set_threads": "xlanb.cpu.thread_limit",
    "targets": "xlanb.peers.targets.installed",
    "trace": "xlanb.explorer.explore",
}
_ROOMS = (
    "cpu", "dump", "errors", "explorer", "gpu", "graph", "hlo", "peers", "shape", "spmd", "teach", "tf", "tracing",
    "transforms", "view"
)  # fmt: skip

# Hooks that packages declare: name -> the higher module that implements it.
# It is imported when the hook is first called.
_PROVIDERS = {
    "tf2xla.runs_on_host": "xlanb.runtime.host.ops",
    "spmd.broadcast": "xlanb.spmd.partitioner.replicate",
    "spmd.replicate_partial": "xlanb.spmd.partitioner.replicate",
    "spmd.reshard_array": "xlanb.spmd.partitioner.reshard",
    "spmd.reshard_as_windowed_input": "xlanb.spmd.partitioner.reshard",
    "display.figure": "xlanb.view.plots.figures",
    "display.mimebundle": "xlanb.view.reprs",
    "display.shared_code": "xlanb.notebook.shared_code",
    "display.table_html": "xlanb.view.tables",
    "dump.dot_source": "xlanb.view.dot",
    "dump.html_page": "xlanb.view.reprs",
    "dump.llo_trace": "xlanb.explorer.tpu_stages",
    "errors.render_traceback": "xlanb.notebook.faults",
    "evaluator.on_devices": "xlanb.spmd.devices.evaluation",
    "explorer.explore_traces": "xlanb.notebook.explore",
    "explorer.real_xla": "xlanb.peers.xla",
    "explorer.reproducer_of": "xlanb.explorer.reproducer",
    "explorer.trace_text": "xlanb.view.text",
    "explorer.write_film": "xlanb.view.film.page",
    "explorer.write_page": "xlanb.view.page",
    "graph.binary_operator": "xlanb.graph.builders.operators",
    "graph.flatten_foreign_call": "xlanb.peers.tensorflow_binding",
    "graph.graph_of_objects": "xlanb.peers.tensorflow_objects",
    "graph.graph_of_program": "xlanb.graph.foreign",
    "graph.graph_to_proto": "xlanb.graph.graphdef",
    "graph.index_tensor": "xlanb.graph.builders.operators",
    "graph.infer_shapes": "xlanb.graph.shapes",
    "graph.make_graph": "xlanb.graph.graph",
    "graph.make_tf_function": "xlanb.peers.tensorflow_objects",
    "graph.pack_tensors": "xlanb.graph.op_library",
    "graph.read_graphdef": "xlanb.graph.graphdef",
    "graph.stablehlo_module": "xlanb.frontends.stablehlo",
    "graph.resource_variables_wanted": "xlanb.graph.builders.variable_scope",
    "graph.unary_operator": "xlanb.graph.builders.operators",
    "graph.write_graphdef": "xlanb.graph.graphdef",
    "graph.write_graphdef_text": "xlanb.graph.graphdef",
    "graph.write_picture": "xlanb.view.dot",
    "hlo.parse_text": "xlanb.hlo.text.parser",
    "hlo.print_form": "xlanb.hlo.text.printer",
    "hlo.print_instruction": "xlanb.hlo.text.printer",
    "hlo.print_module": "xlanb.hlo.text.printer",
    "hlo.read_proto": "xlanb.hlo.proto",
    "hlo.reread": "xlanb.hlo.text.printer",
    "hlo.verify": "xlanb.hlo.verifier",
    "hlo.write_proto": "xlanb.hlo.proto",
    "reducer.reproducer": "xlanb.explorer.reproducer",
    "runtime.timeline_figure": "xlanb.view.timeline",
    "spmd.optimize": "xlanb.cpu.compiler",
    "spmd.named_sharding": "xlanb.spmd.named_sharding",
    "transforms.higher_passes": "xlanb.runtime.passes",
    "transforms.target_pipelines": "xlanb.runtime.targets",
}
set_providers(_PROVIDERS)

__all__ = [*_FACE, *_ROOMS]  # noqa: PLE0604 - said once, above


def __getattr__(name: str) -> Any:
    if name in _FACE:
        with import_module("xlanb.gc_thresholds").importing():
            value = getattr(import_module(_FACE[name]), name)
    elif name in _ROOMS:
        value = import_module(f"xlanb.{name}")
    elif name == "__version__":
        value = import_module("importlib.metadata").version("xlanb")
    else:
        raise AttributeError(f"module 'xlanb' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names only, without imported subpackages and this file's own imports."""
    return sorted([*__all__, "__doc__", "__file__", "__name__", "__path__"])
