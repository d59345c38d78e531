"""The size of a module after every call gets its own copy of its callee.

n computations that each call the previous one twice become 2^n. Passes that copy computations
(call-inliner, flatten-call-graph, simplify-conditional, conditional-to-select) check it first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from xlanb import debug_options
from xlanb.analysis.call_graph import CallGraph
from xlanb.errors import PassError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule

_GROWTH = 8
"""A module may always grow by this factor.

A large one that shares small computations is harmless.
"""

Copied = Callable[[HloInstruction], Collection[HloComputation]]
"""The called computations of which an instruction gets copies."""


def _all_called(i: HloInstruction) -> Collection[HloComputation]:
    return i.called_computations


def expanded_sizes(
    module: HloModule, copied: Copied = _all_called, graph: CallGraph | None = None
) -> dict[HloComputation, int]:
    """By computation, its instructions and those of a copy of each callee per call.

    `copied` limits which callees are copied. Linear in the module.
    """
    sites = (graph or CallGraph(module)).sites
    sizes: dict[HloComputation, int] = {}
    stack = list(module.computations)
    while stack:
        c = stack[-1]
        called = [] if c in sizes else [d for site in sites[c] for d in copied(site.instruction)]
        pending = [d for d in called if d not in sizes]
        stack += pending
        if not pending:
            stack.pop()
            sizes.setdefault(c, len(c) + sum(sizes[d] for d in called))
    return sizes


def check_expansion(module: HloModule, by: str, copied: Copied = _all_called) -> None:
    """Raise if a module would become too large after copying callees for each call.

    Args:
        module: the module before the copies.
        by: the name of what copies, for the message.
        copied: the called computations of an instruction that are copied; by default all.

    Raises:
        PassError: more than --xlanb_max_expanded_instructions, and more than eight times as many as
            now.
    """
    if len(module.computations) == 1:
        return
    graph = CallGraph(module)
    sizes = expanded_sizes(module, copied, graph)
    kept = {module.entry_computation}
    for site in (s for sites in graph.sites.values() for s in sites):
        kept.update(set(site.computations).difference(copied(site.instruction)))
    count, now = sum(sizes[c] for c in kept), module.instruction_count
    limit = max(debug_options.current().xlanb_max_expanded_instructions, _GROWTH * now)
    if count <= limit:
        return
    callers = graph.callers
    worst = max(sizes, key=lambda c: sizes[c] * (len(callers[c]) > 1))
    shown = f"{count:,}" if count < 10**15 else f"about 10^{len(str(count)) - 1}"
    raise PassError(
        f"{by}: {module.name} has {now:,} instructions; with one copy of each computation per call "
        f"it would have {shown}, more than the limit of "
        f"{limit:,}; {worst.name} is called {len(callers[worst])} times. Reuse computations less "
        "often, or raise --xlanb_max_expanded_instructions in XLA_FLAGS"
    )
