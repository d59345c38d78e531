"""One pass as a target configures it.

make_pass("algsimp", "hlo_normalization", "a100")     layout-sensitive, as XLA:GPU runs it after layout assignment
"""

from __future__ import annotations

from typing import Final

from xlanb.errors import UnknownPassError, nearest
from xlanb.hooks import Hook
from xlanb.transforms.base import HloPass
from xlanb.transforms.pipeline import AnyPass, HloPassPipeline

target_pipelines: Final[Hook[[str], tuple[HloPassPipeline, ...]]] = Hook("transforms.target_pipelines")
"""XLA's pipelines for a target: first that for a single device, then that for several devices if different."""


def make_pass(name: str, pipeline: str = "", target: str = "cpu") -> HloPass:
    """The pass `name` as the target's pipeline of a name configures it.

    Args:
        name: XLA's name of the pass: "algsimp".
        pipeline: the pipeline around it, as in the names of a dump's files ("simplification"); the innermost one counts.
            Where the target runs the pass but not there, or `pipeline` is empty: its first run.
        target: "cpu", or a GPU by its name ("a100", "h100").

    Raises:
        UnknownPassError: XLA runs no such pass for the target, or it does not exist here. It is a KeyError.
        XlanbError: nothing has the target's name.
    """
    found: HloPass | None = None
    whole = target_pipelines(target)
    for one in whole:
        for path, hlo_pass in _leaves(one, ()):
            if hlo_pass.name == name:
                if path[-1] == pipeline:
                    return hlo_pass
                found = found or hlo_pass
    if found is None:
        known = sorted({hlo_pass.name for one in whole for _, hlo_pass in _leaves(one, ())})
        raise UnknownPassError(f"no pass {name!r} in the pipelines of {target!r}{nearest(name, known)}")
    return found


def _leaves(part: AnyPass, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], HloPass]]:
    """The passes in a pipeline in order, each with the names of the pipelines around it."""
    if isinstance(part, HloPass):
        return [(path, part)]
    if not isinstance(part, HloPassPipeline):
        return _leaves(part.inner, path)
    return [leaf for p in part.passes for leaf in _leaves(p, (*path, part.name))]
