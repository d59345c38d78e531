"""Prefix op names with the op name of the call (xla/hlo/transforms/propagate_call_metadata.h).

    call(x), metadata={op_name="outer"}, to_apply={ROOT n = negate(p), metadata={op_name="inner"}}
      =>  n with metadata={op_name="outer/inner"}

Loops and conditionals inside the called computation get the prefix too. Stack frames are unchanged.
"""

from __future__ import annotations

from dataclasses import replace

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass

_LONGEST = 1024
_CONTROL = frozenset({O.WHILE, O.CONDITIONAL})


class PropagateCallMetadata(HloPass):
    """Prefixes the op names in a called computation with the call's, outermost calls first."""

    name = "propagate-call-metadata"
    triggers = frozenset((O.CALL,))

    def apply(self, module: HloModule) -> None:
        for c in reversed(nonfusion_computations(module)):
            for i in c.post_order():
                if i.opcode is O.CALL and i.metadata.op_name.rstrip("/"):
                    _propagate(i.to_apply, i.metadata.op_name.rstrip("/"))


def _propagate(c: HloComputation, prefix: str) -> None:
    for i in c.post_order():
        joined = _joined(prefix, i.metadata.op_name.strip("/"))
        if joined is not None:
            c.update(i, metadata=replace(i.metadata, op_name=joined))
        if i.opcode in _CONTROL:
            for d in i.called_computations:
                _propagate(d, prefix)


def _joined(prefix: str, name: str) -> str | None:
    """prefix/name; None if the name has the prefix already, or would become too long."""
    if name.startswith(prefix) or len(prefix) + len(name) >= _LONGEST:
        return None
    return f"{prefix}/{name}" if name else prefix
