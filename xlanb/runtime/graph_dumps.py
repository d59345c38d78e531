"""Which graphs a session writes to the directory TF_DUMP_GRAPH_PREFIX, by flag.

--tf_xla_clustering_debug
    before_mark_for_compilation, mark_for_compilation, mark_for_compilation_annotated,
    before_increase_dynamism_for_auto_jit_pass, increase_dynamism_for_auto_jit_pass
--vmodule=clone_constants_for_better_clustering=1
    before_ and after_clone_constants_for_better_clustering
--vmodule=encapsulate_subgraphs_pass=1
    encapsulate_subgraphs_before, _after, _subgraph_CLUSTER; encapsulate_fdef_CLUSTER,
    encapsulate_fdef_graph_CLUSTER
--vmodule=build_xla_ops_pass=1
    build_xla_ops
--vmodule=xla_compiler=2
    xla_compile_function_CLUSTER_ATTRIBUTES_, xla_compile_graph_CLUSTER_ATTRIBUTES_
"""

from __future__ import annotations

from xlanb.clustering.encapsulate_subgraphs import ClusterFunction
from xlanb.debug_options import current
from xlanb.dump.graphs import dump_annotated, dump_function, dump_graph, dumps_graphs
from xlanb.graph.graph import Graph
from xlanb.logs import verbosity


def dump_pass(name: str, before: Graph, after: Graph) -> None:
    """Write the graphs that TensorFlow writes around one of its passes, if the flags say so.

    Raises:
        DumpError: A file cannot be written.
    """
    if not dumps_graphs():
        return
    is_debugging = current().tf_xla_clustering_debug
    if name == "clone_constants_for_better_clustering" and verbosity(name) >= 1:
        dump_graph(f"before_{name}", before)
        dump_graph(f"after_{name}", after)
    elif name == "mark_for_compilation" and is_debugging:
        dump_graph("before_mark_for_compilation", before)
        dump_graph("mark_for_compilation", after)
        dump_annotated("mark_for_compilation_annotated", after)
    elif name == "increase_dynamism_for_auto_jit" and is_debugging:
        dump_graph("before_increase_dynamism_for_auto_jit_pass", before)
        if after is not before:
            dump_graph("increase_dynamism_for_auto_jit_pass", after)
    elif name == "encapsulate_subgraphs" and verbosity("encapsulate_subgraphs_pass") >= 1:
        _dump_functions(before, after)
    elif name == "build_xla_ops" and verbosity("build_xla_ops_pass") >= 1:
        dump_graph("build_xla_ops", after)


def _dump_functions(before: Graph, after: Graph) -> None:
    dump_graph("encapsulate_subgraphs_before", before)
    called = [after.functions[op.type] for op in after if op.attrs.get("_XlaCompiledKernel")]
    for function in called:
        dump_graph(f"encapsulate_subgraphs_subgraph_{function.name}", function.body)
        dump_graph(f"encapsulate_fdef_graph_{function.name}", function.body)
        dump_function(f"encapsulate_fdef_{function.name}", function)
    dump_graph("encapsulate_subgraphs_after", after)


def dump_compiled(function: ClusterFunction) -> None:
    """Write a cluster's function as passed to the compiler, if the flags say so.

    Raises:
        DumpError: A file cannot be written.
    """
    if dumps_graphs() and verbosity("xla_compiler") >= 2:
        name = attributed_name(function)
        dump_graph(f"xla_compile_function_{name}", function.body)
        dump_graph(f"xla_compile_graph_{name}", function.body)


def attributed_name(function: ClusterFunction) -> str:
    """A cluster's name with its function's attributes, as TensorFlow instantiates it."""
    has_references = any(t.dtype.is_ref_dtype for op in function.body for t in (*op.inputs, *op.outputs))
    attributes = (
        "_XlaCompiledKernel=true",
        f"_XlaHasReferenceVars={str(has_references).lower()}",
        f"_XlaNumConstantArgs={len(function.constant_arguments)}",
        f"_XlaNumResourceArgs={len(function.resource_arguments)}",
    )
    return f"{function.name}[{','.join(attributes)}]"
