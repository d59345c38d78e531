"""Expand instructions that have no kernel by XLA's expanders.

This also covers expanders that the passes did not run.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlanb.analysis.dynamic import involves_dynamic
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.transforms import PASSES

_EXPANDERS: Mapping[str, tuple[Op, ...]] = {
    "topk-decomposer": (Op.TOPK,),
    "select_and_scatter_expander": (Op.SELECT_AND_SCATTER,),
    "batchnorm_expander": (Op.BATCH_NORM_TRAINING, Op.BATCH_NORM_INFERENCE, Op.BATCH_NORM_GRAD),
    "rng-bit-generator-expander": (Op.RNG_BIT_GENERATOR,),
    "scan_expander": (Op.SCAN,),
}
"""The opcodes that each pass removes completely."""


def expand(module: HloModule) -> None:
    """Rewrite a module in place."""
    for name, opcodes in _EXPANDERS.items():
        if any(i.opcode in opcodes and not involves_dynamic(i) for i in module.instructions()):
            PASSES[name]().apply(module)
