"""Check a module against every rule of HLO, in time linear in its size.

Source: xla/service/hlo_verifier.cc.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlanb.boundary import boundary
from xlanb.hlo.async_chain import ASYNC_OPCODES
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule, verify
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.verifier.aliases import verify_instruction_aliases, verify_module_aliases
from xlanb.hlo.verifier.async_chains import verify_async_chains
from xlanb.hlo.verifier.executable import EXECUTABLE_CHECKS, verify_dynamic, verify_entry_sizes, verify_sizes
from xlanb.hlo.verifier.fault import VerifierOptions
from xlanb.hlo.verifier.instructions import CHECKS
from xlanb.hlo.verifier.layouts import verify_layouts
from xlanb.hlo.verifier.module import (
    verify_channels,
    verify_constrained_layouts,
    verify_device_counts,
    verify_entry_layout,
    verify_fusions,
    verify_schedule,
)
from xlanb.hlo.verifier.shapes import verify_shape
from xlanb.hlo.verifier.structure import verify_structure

__all__ = ["VerifierOptions", "verify_layouts", "verify_module"]

_DEFAULT = VerifierOptions()


@boundary("verify a module")
def verify_module(module: HloModule, options: VerifierOptions = _DEFAULT) -> None:
    """Check every rule of HLO.

    Raises:
        HloVerifierError: a rule is broken; the message names the instruction and shows ten
            instructions before and after it.
    """
    verify_structure(module)
    verify_device_counts(module)
    fusions: list[HloInstruction] = []
    channels: list[HloInstruction] = []
    reductions: list[HloInstruction] = []
    links: list[HloInstruction] = []
    for computation in module.computations:
        for i in computation._instructions:
            opcode = i.opcode
            verify_shape(i, options)
            check = CHECKS.get(opcode)
            if check is not None:
                check(i)
            if options.executable:
                if opcode in EXECUTABLE_CHECKS:
                    EXECUTABLE_CHECKS[opcode](i)
                verify_sizes(i)
                verify_dynamic(i)
            if opcode is HloOpcode.FUSION:
                fusions.append(i)
            elif opcode is HloOpcode.ALL_REDUCE or opcode is HloOpcode.ALL_REDUCE_START:
                reductions.append(i)
            elif opcode in ASYNC_OPCODES:
                links.append(i)
            if "channel_id" in i.attributes:
                channels.append(i)
            if "output_to_operand_aliasing" in i.attributes:
                verify_instruction_aliases(i)
            if i.sharding or i.origin:
                _verify_annotations(i)
    verify_fusions(module, fusions)
    verify_channels(channels)
    verify_constrained_layouts(reductions)
    verify_async_chains(links)
    verify_entry_layout(module)
    if options.executable:
        verify_entry_sizes(module)
    if options.layout_sensitive:
        verify_layouts(module)
    verify_schedule(module)
    verify_module_aliases(module)


@verify.implement
def _verify(module: HloModule, options: Mapping[str, bool]) -> None:
    verify_module(module, VerifierOptions(**options))


def _verify_annotations(i: HloInstruction) -> None:
    from xlanb.hlo.verifier.sharding import verify_origin, verify_sharding

    if i.sharding:
        verify_sharding(i)
    if i.origin:
        verify_origin(i)
