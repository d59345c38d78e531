"""HLO: the IR, its text, its rules."""

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.text.parser import parse

__all__ = ["HloComputation", "HloInstruction", "HloModule", "HloOpcode", "parse"]
