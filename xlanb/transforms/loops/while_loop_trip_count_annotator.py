"""Annotate while loops with their trip count, if known.

while(t), condition=c, body=b
  =>  while(t), condition=c, body=b, backend_config={"known_trip_count":{"n":"10"},...}

Source: xla/hlo/transforms/while_loop_trip_count_annotator.h.
"""

from __future__ import annotations

import json

from xlanb.analysis.while_loop import induction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.transforms.base import HloPass


class WhileLoopTripCountAnnotator(HloPass):
    """Annotates while loops with their trip count; changes nothing else."""

    name = "while-loop-trip-count-annotator"
    triggers = frozenset((HloOpcode.WHILE,))

    def apply(self, module: HloModule) -> None:
        for c in module.post_order():
            for i in c.post_order():
                found = induction(i) if i.opcode is HloOpcode.WHILE and not i.backend_config else None
                if found is None or found.trip_count is None:
                    continue
                config = {
                    "known_trip_count": {"n": str(found.trip_count)},
                    "known_init_step": {"init": str(found.start), "step": str(found.step)},
                    "known_induction_variable": {"tuple_index": str(found.index)},
                }
                c.update(i, backend_config=json.dumps(config, separators=(",", ":")))
