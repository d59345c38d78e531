"""Transforms that other optimizations of graphs do: folding, merging, inlining, Grappler's."""

from __future__ import annotations

from xlanb.graph.graph import Graph
from xlanb.graph.optimize.fold_batch_norms import fold_batch_norms
from xlanb.graph.optimize.graph_transforms.transform import TransformContext, node_name
from xlanb.graph.optimize.grappler import arithmetic_optimizer, layout, remapper
from xlanb.graph.optimize.inline import inline_calls
from xlanb.graph.optimize.steps import fold_constants, merge_common_subgraphs


def fold_norms(graph: Graph, context: TransformContext) -> Graph:
    """Fold batch norms into the convolutions or products before them."""
    return fold_batch_norms(graph, context.keep)


def fold_all_constants(graph: Graph, context: TransformContext) -> Graph:
    """Compute what depends on constants only; `clear_output_shapes=false` keeps _output_shapes."""
    fed = {node_name(name) for name in context.inputs}
    folded = fold_constants(graph, context.keep, fed, context.evaluate, identities=True)
    if context.transform.true("clear_output_shapes", True) and any("_output_shapes" in op.attrs for op in folded):
        folded = folded.copy()
        for op in folded:
            if "_output_shapes" in op.attrs:
                op.remove_attr("_output_shapes")
    return folded


def merge_duplicates(graph: Graph, context: TransformContext) -> Graph:
    """Merge nodes that compute the same, until none do."""
    fed = {node_name(name) for name in context.inputs}
    while (merged := merge_common_subgraphs(graph, context.keep, fed)) is not graph:
        graph = merged
    return graph


def _fed(context: TransformContext) -> frozenset[str]:
    return frozenset(map(node_name, context.inputs))


def optimize_arithmetic(graph: Graph, context: TransformContext) -> Graph:
    """Apply Grappler's arithmetic optimizer."""
    made, rewrites = arithmetic_optimizer(graph, context.keep, _fed(context))
    context.rewrites.extend(rewrites)
    return made


def remap(graph: Graph, context: TransformContext) -> Graph:
    """Apply Grappler's remapper."""
    made, rewrites = remapper(graph, context.keep, _fed(context))
    context.rewrites.extend(rewrites)
    return made


def change_layout(graph: Graph, context: TransformContext) -> Graph:
    """Apply Grappler's layout optimizer; `to` is the data format, NCHW by default."""
    made, rewrites = layout(graph, context.keep, _fed(context), context.transform.one("to", "NCHW"))
    context.rewrites.extend(rewrites)
    return made


def inline_all_calls(graph: Graph, _context: TransformContext) -> Graph:
    """Replace calls of functions by their bodies."""
    copy = graph.copy()
    inline_calls(copy)
    return copy
