"""Read and write the backend config of XLA:GPU's instructions, as JSON text.

Follows GpuBackendConfig of xla/service/gpu/backend_configs.proto.

    changed("", fusion_backend_config={"kind": "__triton_gemm"})
    => {"operation_queue_id":"0","fusion_backend_config":{"kind":"__triton_gemm"},
        "force_earliest_schedule":false,...}

As in the JSON form of protocol buffers, 64-bit integers are strings and 32-bit ones are numbers.
Fields are ordered by their numbers in the message.
"""

from __future__ import annotations

import json
from typing import Any, Final

from xlanb.hlo.instruction import HloInstruction

_ALWAYS: Final[dict[str, Any]] = {
    "operation_queue_id": "0",
    "force_earliest_schedule": False,
    "reification_cost": [],
    "device_type": "DEVICE_TYPE_INVALID",
}
"""Fields that are printed even at their defaults."""

_ORDER: Final = (
    "operation_queue_id",
    "wait_on_operation_queues",
    "cudnn_conv_backend_config",
    "gemm_backend_config",
    "bitcast_backend_config",
    "collective_backend_config",
    "fusion_backend_config",
    "cudnn_norm_backend_config",
    "cudnn_fmha_backend_config",
    "custom_call_backend_config",
    "force_earliest_schedule",
    "reification_cost",
    "device_type",
    "dynamic_slice_config",
    "native_emitter_backend_config",
)
_PLACE: Final = {name: n for n, name in enumerate(_ORDER)}


def read(instruction: HloInstruction) -> dict[str, Any]:
    """Return the fields of an instruction's backend config, {} if missing or not a JSON object."""
    if not instruction.backend_config.startswith("{"):
        return {}
    try:
        fields: dict[str, Any] = json.loads(instruction.backend_config)
    except ValueError:
        return {}
    return fields


def fusion_config(instruction: HloInstruction) -> dict[str, Any]:
    """Return the `fusion_backend_config` of an instruction, {} if it has none."""
    found: dict[str, Any] = read(instruction).get("fusion_backend_config", {})
    return found


def changed(instruction: HloInstruction | None = None, **fields: Any) -> str:
    """Return the instruction's config text with some fields set, or removed if None.

    Fields keep the message's order; unknown ones come last.
    """
    found = _ALWAYS | (read(instruction) if instruction is not None else {}) | fields
    kept = {name: value for name, value in found.items() if value is not None}
    return text_of({name: kept[name] for name in sorted(kept, key=lambda n: _PLACE.get(n, len(_ORDER)))})


def text_of(fields: dict[str, Any]) -> str:
    """Return the JSON text without blanks, as an instruction's config is printed."""
    return json.dumps(fields, separators=(",", ":"))
