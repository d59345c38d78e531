"""Rewrites of graphs before they run: pruning, folding, merging, inlining."""

from xlanb.graph.optimize.steps import (
    fold_constants,
    merge_common_subgraphs,
    optimize_steps,
    prune,
    remove_identities,
)

__all__ = ["fold_constants", "merge_common_subgraphs", "optimize_steps", "prune", "remove_identities"]
