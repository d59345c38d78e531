r"""Propagate shardings from annotations to every instruction, as Shardy does.

Follows xla/service/spmd/shardy/shardy_xla_pass.h.

    p = parameter(0), frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\"x\"}]>"}
    e = exponential(p)
        =>    p = parameter(0), sharding={devices=[8]<=[8]}
              e = exponential(p), sharding={devices=[8]<=[8]}

With one device there is nothing to propagate, and only the annotations are removed:

    custom-call(x), custom_call_target="xla.sdy.FuncResultSharding",
        frontend_attributes={xla.sdy.sharding="..."}    =>    x
"""

from __future__ import annotations

from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import same
from xlanb.transforms.base import HloPass
from xlanb.transforms.inlining import bypass, take_out

_PREFIX = "xla.sdy."
_PASSING = frozenset(
    f"{_PREFIX}{n}"
    for n in (
        "FuncResultSharding",
        "ShardingConstraint",
        "PropagationBarrier",
        "GlobalToLocalShape",
        "LocalToGlobalShape",
    )
)
_GROUP = f"{_PREFIX}ShardingGroup"
# XLA also keeps rules of custom calls: they describe the call, not a sharding.
_KEPT = frozenset((f"{_PREFIX}sharding_rule",))


class ShardyXla(HloPass):
    """Propagates shardings over a module that names a mesh of several devices.

    In any other module it only removes Shardy's custom calls and attributes.
    """

    name = "shardy-xla"
    takes_out = _PASSING | {_GROUP, "Sharding"}

    def apply(self, module: HloModule) -> None:
        if _has_mesh(module):
            from xlanb.spmd.shardy.spread import spread  # large, and most programs name no mesh

            spread(module)
        else:
            _take_out(module)


def _has_mesh(module: HloModule) -> bool:
    if "frontend_attributes" not in module.header:
        return False
    from xlanb.spmd.module_meshes import meshes_of

    return any(mesh.num_devices > 1 for mesh in meshes_of(module).values())


def _take_out(module: HloModule) -> None:
    for c in module.computations:
        for i in c:
            target = i.attributes.get("custom_call_target") if i.opcode is O.CUSTOM_CALL else None
            if target == _GROUP and i.is_dead:
                take_out(i)
            elif target in _PASSING and len(i.operands) == 1 and same(i.shape, i.operands[0].shape):
                bypass(i, i.operands[0])
            else:
                kept = tuple(a for a in i.frontend_attributes if not a[0].startswith(_PREFIX) or a[0] in _KEPT)
                if kept != i.frontend_attributes:
                    c.update(i, frontend_attributes=kept)
