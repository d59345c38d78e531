"""A pass in the configuration of a target.

make_pass("algsimp", "hlo_normalization", "a100") is layout-sensitive, as XLA:GPU runs it after
layout assignment.
"""

from __future__ import annotations

from typing import Final

from xlanb.errors import UnknownPassError, nearest
from xlanb.hooks import Hook
from xlanb.transforms.base import HloPass
from xlanb.transforms.pipeline import AnyPass, HloPassPipeline

target_pipelines: Final[Hook[[str], tuple[HloPassPipeline, ...]]] = Hook("transforms.target_pipelines")
"""XLA's pipelines for a target: that for one device, then that for several if different."""


def make_pass(name: str, pipeline: str = "", target: str = "cpu") -> HloPass:
    """The pass `name` as a pipeline of the target configures it.

    Args:
        name: XLA's name of the pass: "algsimp".
        pipeline: the innermost pipeline around it, as in the names of a dump's files
            ("simplification"). If it is empty, or the target does not run the pass there: the first
            run of the pass.
        target: "cpu", or a GPU by its name ("a100", "h100").

    Raises:
        UnknownPassError: XLA runs no such pass for the target, or it does not exist here. It is a
            KeyError.
        XlanbError: the target is unknown.
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
    """The passes in a pipeline in order, each with the names of the surrounding pipelines."""
    if isinstance(part, HloPass):
        return [(path, part)]
    if not isinstance(part, HloPassPipeline):
        return _leaves(part.inner, path)
    return [leaf for p in part.passes for leaf in _leaves(p, (*path, part.name))]
