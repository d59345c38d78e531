"""Rename constants for PTX: no dots and hyphens (sanitize_constant_names.cc).

    constant.3 = f32[] constant(1)    =>    constant_3 = f32[] constant(1)

A large constant becomes a PTX global of the same name, and PTX names have letters, digits, `_` and
`$` only.
"""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.names import NameUniquer
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

_TO_UNDERSCORE = str.maketrans(".-", "__")


class SanitizeConstantNames(HloPass):
    """Replaces `.` and `-` by `_` in constants' names; no other instruction is renamed."""

    name = "sanitize-constant-names"
    triggers = frozenset((O.CONSTANT,))

    def apply(self, module: HloModule) -> None:
        names = NameUniquer(separator="_")
        instructions = [i for c in module.post_order() for i in c]
        for i in instructions:
            if i.opcode is not O.CONSTANT:
                names.unique(i.name)
        for i in instructions:
            if i.opcode is O.CONSTANT:
                _rename(i, names.unique(i.name.translate(_TO_UNDERSCORE)))


@reason("a PTX identifier cannot contain dots or hyphens")
def _rename(i: HloInstruction, name: str) -> None:
    i.parent.rename(i, name)
