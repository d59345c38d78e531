"""The `debug_attributes` of a module: which original values are logged at run time, and how.

Source: xla/hlo/ir/hlo_module.h.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

DebugAttributes = Mapping[str, str | int | bool]
"""log_mode, callback_id, partitioned, op_id: those that differ from their defaults."""

LOG_MODES = ("none", "default", "fusion_debugger")
"""By their numbers in XLA's messages; "none" is not printed."""

_DEFAULTS: DebugAttributes = {"log_mode": "none", "callback_id": 0, "partitioned": False, "op_id": 0}


def debug_attributes_text(rows: Mapping[str, Sequence[DebugAttributes]]) -> str:
    """XLA's text, by the texts of the original values; "" if nothing is logged."""
    shown = [f"  {value}:({','.join(map(_text, rows[value]))})" for value in sorted(rows) if rows[value]]
    return "{\n" + ",\n".join(shown) + "\n}" if shown else ""


def _text(one: DebugAttributes) -> str:
    fields = [(name, one.get(name, default)) for name, default in _DEFAULTS.items()]
    shown = (f"{name}={str(v).lower()}" for name, v in fields if v != _DEFAULTS[name])
    return "{" + ",".join(shown) + "}"
