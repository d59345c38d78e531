"""Run the rewrites that a user registered (xla/service/xla_transform.h).

    @register_hlo_module_transformation
    def double(module): ...           # an HloModule, rewritten in place

Each runs where the pipeline has this pass for its stage: "pre_scheduler" (after XLA's last rewrite)
or "post_scheduler". Its edits are recorded like those of any pass; the rule is its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from xlanb.errors import PassError
from xlanb.hlo.module import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.tracing import because
from xlanb.transforms.base import HloPass
from xlanb.transforms.purpose import place_of

Transformation = Callable[[HloModule], None]
_T = TypeVar("_T", bound=Transformation)
STAGES = ("pre_scheduler", "post_scheduler")
_REGISTERED: dict[str, dict[str, Transformation]] = {stage: {} for stage in STAGES}


@dataclass(frozen=True)
class ApplyXlaTransforms(HloPass):
    """Runs the transformations of one stage in the order of their registration."""

    name = "apply-xla-transforms"
    stage: str = "pre_scheduler"

    def apply(self, module: HloModule) -> None:
        for name, transformation in tuple(_of(self.stage).items()):
            with because(rule=name, where=place_of(transformation)):
                transformation(module)


def register_hlo_module_transformation(transformation: _T, stage: str = "pre_scheduler") -> _T:
    """Run `transformation` in every pipeline from now on.

    It replaces an earlier one of the same name.

    Raises:
        PassError: there is no such stage.
    """
    _of(stage)[_name(transformation)] = transformation
    return transformation


def clear_hlo_module_transformation(transformation: Transformation, stage: str = "pre_scheduler") -> bool:
    """Unregister a transformation; return whether it was registered.

    Raises:
        PassError: there is no such stage.
    """
    return _of(stage).pop(_name(transformation), None) is not None


def _name(transformation: Transformation) -> str:
    return getattr(transformation, "__name__", None) or type(transformation).__name__


def _of(stage: str) -> dict[str, Transformation]:
    if stage not in _REGISTERED:
        raise PassError(f"unknown stage {stage!r} for transformations; known stages: {', '.join(STAGES)}")
    return _REGISTERED[stage]
