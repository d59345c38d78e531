"""Read HLO shardings by mesh axes as tiles (xla/hlo/ir/named_sharding.h).

    {mesh['x'=4,'y'=2], [{'x'}, {}]}    =>    {devices=[4,1,2]<=[8] last_tile_dim_replicate}

XLA writes either form; both are equivalent.
"""

from __future__ import annotations

import re

import numpy as np

from xlanb.errors import UnimplementedError
from xlanb.spmd.conversions import to_hlo_sharding
from xlanb.spmd.hlo_sharding import HloSharding, named_sharding
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import AxisRef, DimensionSharding, TensorSharding

_MESH = re.compile(r"\{mesh\[([^\]]*)\](?:, device_ids=\((.*?)\)(?=, |\}))?")
_MAXIMAL = re.compile(r"\{maximal_mesh\[device_id=(\d+)\]")
_AXIS_SIZE = re.compile(r"'([^']*)'=(\d+)")
_AXIS = re.compile(r"'([^']*)'(?::\((\d+)\)(\d+))?")
_IOTA = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")
_WHOLE = {
    "replicated": HloSharding.replicate(),
    "manual": HloSharding.manual(),
    "unreduced": HloSharding.unreduced(),
}


@named_sharding.implement
def parse_named_sharding(text: str) -> HloSharding:
    """Return the tiles of a canonical `{mesh[...], ...}` or `{maximal_mesh[device_id=3]}`.

    Ignores its metadata.

    Raises:
        UnimplementedError: it is unreduced by an operation other than a sum.
    """
    single = _MAXIMAL.match(text)
    if single:
        return HloSharding.assign_device(int(single[1]))
    found = _MESH.match(text)
    if not found:
        raise UnimplementedError(f"unknown form of sharding: {text}")
    mesh = Mesh("", tuple((n, int(size)) for n, size in _AXIS_SIZE.findall(found[1])), _device_ids(found[2] or ""))
    rest = text[found.end() :].partition(", metadata=")[0]
    word = re.match(r", (\w+)\}?$", rest)
    if word:
        return _WHOLE[word[1]]
    if re.search(r"unreduced=(?:max|min)", rest):
        raise UnimplementedError(f"a sharding unreduced by maximum or minimum is not supported: {text}")
    dims = re.match(r", \[(.*?)\](?=, |\}|$)", rest)
    sharding = TensorSharding(
        "",
        tuple(DimensionSharding(_axes(d), "?" not in d) for d in re.findall(r"\{([^}]*)\}", dims[1] if dims else "")),
        _listed(rest, "replicated"),
        _listed(rest, "unreduced"),
    )
    return to_hlo_sharding(sharding, mesh, [a.name for a in _listed(rest, "manual")])


def _listed(text: str, name: str) -> tuple[AxisRef, ...]:
    found = re.search(rf"{name}=\{{([^}}]*)\}}", text)
    return _axes(found[1]) if found else ()


def _axes(text: str) -> tuple[AxisRef, ...]:
    return tuple(AxisRef(n, int(pre), int(sub)) if sub else AxisRef(n) for n, pre, sub in _AXIS.findall(text))


def _device_ids(text: str) -> tuple[int, ...]:
    """`0,2,1,3`, or an iota `[2,2]T(1,0)`."""
    iota = _IOTA.fullmatch(text)
    if not iota:
        return tuple(map(int, text.split(","))) if text else ()
    dims = tuple(map(int, iota[1].split(",")))
    perm = tuple(map(int, iota[2].split(","))) if iota[2] else tuple(range(len(dims)))
    return tuple(np.arange(int(np.prod(dims))).reshape(dims).transpose(perm).reshape(-1).tolist())
