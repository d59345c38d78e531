"""Read the decisions of XLA:GPU's priority fusion (a FusionProcessDumpProto in text form).

The pass keeps a queue of producers. Each step says that a producer cannot be fused and why, or how
long its users take with and without it fused into them (`us_fused`, `us_unfused`, by XLA's own cost
model), or that it was fused into one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from google.protobuf import text_format

from xlanb.errors import DumpError
from xlanb.protos import Schema

MAX_STEPS = 500_000
_MODULE = re.compile(r"^hlo_module_before_fusion\b.*$", re.MULTILINE)

_SCHEMA = Schema(
    "xlanb.fusion_process",
    """
    message FusionStep
      1 fusion_name string
      2 producer_name string
      3 consumer_name string
    message UpdatePriorityStep
      1 producer_name string
      2 consumer_names string*
      3 us_fused float
      4 us_unfused float
    message ProducerIneligibleStep
      1 producer_name string
      2 reason string
    message FusionProcessStep
      3 fusion FusionStep?
      4 update_priority UpdatePriorityStep?
      5 producer_ineligible ProducerIneligibleStep?
    message FusionProcessDumpProto
      1 fusion_steps FusionProcessStep*
    """,
)


@dataclass(frozen=True)
class FusionStep:
    """One step, about one producer.

    `kind` is "fusion" (it was fused into the single one of `consumers`, giving `fusion`),
    "priority" (its users
    `consumers` take `us_fused` microseconds with it and `us_unfused` without), or "ineligible"
    (because of
    `reason`).
    """

    kind: str
    producer: str
    consumers: tuple[str, ...] = ()
    fusion: str = ""
    us_fused: float = 0.0
    us_unfused: float = 0.0
    reason: str = ""


def parse_fusion_process(text: str) -> tuple[FusionStep, ...]:
    """Parse the steps of a priority_fusion_dump, in order.

    Raises:
        DumpError: it is malformed, or has more than MAX_STEPS steps.
    """
    message = _SCHEMA.FusionProcessDumpProto()
    try:
        # Drop the module before fusion, a string of megabytes: the stage before has it.
        text_format.Parse(_MODULE.sub("", text), message, allow_unknown_field=True)
    except (text_format.ParseError, ValueError) as error:  # a number out of its field's range is a ValueError
        raise DumpError(f"not a priority fusion dump: {str(error)[:300]}") from error
    except RecursionError:
        raise DumpError("not a priority fusion dump: its messages are nested too deeply") from None
    if len(message.fusion_steps) > MAX_STEPS:
        raise DumpError(f"the priority fusion dump has more than {MAX_STEPS:,} steps")
    return tuple(s for step in message.fusion_steps if (s := _step(step)) is not None)


def _step(step: object) -> FusionStep | None:
    fused, cost, not_fused = (getattr(step, n) for n in ("fusion", "update_priority", "producer_ineligible"))
    if fused.producer_name:
        return FusionStep("fusion", fused.producer_name, (fused.consumer_name,), fused.fusion_name)
    if cost.producer_name:
        times = {"us_fused": round(cost.us_fused, 5), "us_unfused": round(cost.us_unfused, 5)}
        return FusionStep("priority", cost.producer_name, tuple(cost.consumer_names), **times)
    if not_fused.producer_name:
        return FusionStep("ineligible", not_fused.producer_name, reason=not_fused.reason)
    return None
