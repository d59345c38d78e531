"""Multiple devices: shardings, sharding propagation (Shardy), and the SPMD partitioner.

mesh, hlo_sharding, sharding_util      Shardy's meshes, HLO shardings, and what XLA computes from
them
sdy, conversions                       shardings by mesh axes; conversion to and from HLO shardings
shardy/                                propagation: import, factors and projections, export
shardy_xla, spmd_partitioning          the two passes
partitioner/                           turns a program on whole arrays into a program for one device
plan (costs, device_axes)              lists a program's collectives with bytes and time
explanation                            why each collective is there
annotations                            where the program itself names shardings
remedies                               other annotations, tried on a copy of the compilation

Names are resolved on first use.
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
