"""Many devices: shardings, their propagation (Shardy) and the partitioner, with a reason for every collective.

mesh, hlo_sharding, sharding_util      what lies where: Shardy's meshes, HLO's shardings and what XLA computes of them
sdy, conversions                       shardings by axes of a mesh, and to HLO's and back
shardy/                                propagation: a module as values and factors, import, export
shardy_xla, spmd_partitioning          the two passes
partitioner/                           from one program for the whole to one for each device
plan, explanation, annotations         the collectives of a program with bytes and time (costs, device_axes), why each is there, and where the program names shardings
remedies                               other annotations, tried on a fork of the compilation

Names are resolved when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FACE = {
    "HloSharding": "hlo_sharding",
    "INTERCONNECTS": "costs",
    "Interconnect": "costs",
    "Mesh": "mesh",
    "collectives": "explanation",
    "findings": "explanation",
    "why": "explanation",
}

__all__ = list(_FACE)


def __getattr__(name: str) -> Any:
    if name not in _FACE:
        raise AttributeError(f"module 'xlanb.spmd' has no attribute {name!r}")
    value = getattr(import_module(f"xlanb.spmd.{_FACE[name]}"), name)
    globals()[name] = value
    return value
