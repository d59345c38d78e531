"""Convert the attributes of the `HloModule` line between text and message.

Source: hlo_module.cc, hlo_input_output_alias_config.cc.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from xlanb.errors import HloParseError
from xlanb.hlo.attributes import index_text
from xlanb.hlo.debug_attributes import LOG_MODES, DebugAttributes, debug_attributes_text
from xlanb.hlo.proto.metadata import (
    frontend_from_proto,
    frontend_to_proto,
    original_array_text,
    read_original_array,
)
from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_metadata import frontend_attributes_text, parse_frontend_attributes
from xlanb.hlo.text.spelling import RECOVERY_QUOTE, recovery_module_text
from xlanb.protos import Message

_ALIAS_KINDS = ("", "may-alias", "must-alias")

WITHOUT_FIELD = (
    "replica_count",
    "num_partitions",
    "alias_passthrough_params",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
)
"""Header attributes that XLA keeps in the module's configuration, not in its message.

A round trip through the message loses them, as in XLA.
"""


def alias_to_proto(text: str, module: Message) -> None:
    """Write `{ {0}: (1, {}, may-alias) }` to `input_output_alias`."""
    cursor = Cursor(text)
    cursor.expect("{")
    while not cursor.at("}"):
        row = module.input_output_alias.entries.add(output_shape_index=cursor.ints())
        cursor.expect(":")
        cursor.expect("(")
        row.parameter_number = cursor.integer()
        cursor.expect(",")
        row.parameter_shape_index.extend(cursor.ints())
        cursor.expect(",")
        row.kind = _ALIAS_KINDS.index(cursor.name())
        cursor.expect(")")
        if not cursor.accept(","):
            break


def alias_from_proto(module: Message) -> str:
    """The text of `input_output_alias`, sorted by output index; "" if there is none."""
    rows = sorted(module.input_output_alias.entries, key=lambda e: tuple(e.output_shape_index))
    texts = [
        f"{index_text(tuple(e.output_shape_index))}: ({e.parameter_number}, "
        f"{index_text(tuple(e.parameter_shape_index))}, "
        f"{'must-alias' if e.kind == _ALIAS_KINDS.index('must-alias') else 'may-alias'})"
        for e in rows
    ]
    return "{ " + ", ".join(texts) + " }" if texts else ""


def donor_to_proto(text: str, module: Message) -> None:
    """Write `{ (1, {}) }` to `buffer_donor`."""
    cursor = Cursor(text)
    cursor.expect("{")
    while not cursor.at("}"):
        cursor.expect("(")
        row = module.buffer_donor.entries.add(parameter_number=cursor.integer())
        cursor.expect(",")
        row.parameter_shape_index.extend(cursor.ints())
        cursor.expect(")")
        if not cursor.accept(","):
            break


def donor_from_proto(module: Message) -> str:
    """The text of `buffer_donor`; "" if there is none."""
    rows = sorted({(e.parameter_number, tuple(e.parameter_shape_index)) for e in module.buffer_donor.entries})
    return "{ " + ", ".join(f"({n}, {index_text(i)})" for n, i in rows) + " }" if rows else ""


def frontend_header_to_proto(text: str, module: Message) -> None:
    """Write `{a="1"}` to `frontend_attributes`."""
    frontend_to_proto(parse_frontend_attributes(Cursor(text)), module.frontend_attributes)


def frontend_header_from_proto(module: Message) -> str:
    """The text of `frontend_attributes`; "" if there are none."""
    pairs = frontend_from_proto(module.frontend_attributes)
    return frontend_attributes_text(pairs) if pairs else ""


def recovery_to_proto(text: str, module: Message, nested: Callable[[str], Message]) -> None:
    """Write the text of an origin_recovery_table to `original_value_recovery_table`.

    `nested` makes the message of a module's text. The text is read line by line: XLA prints the
    modules in it indented and between quotes, but escapes nothing in them (before 0.12).
    """
    lines = iter(text.splitlines()[1:-1])
    for line in lines:
        cursor = Cursor(line)
        row = module.original_value_recovery_table.entries.add()
        read_original_array(cursor, row.old_original_array)
        cursor.expect(":")
        read_original_array(cursor, row.new_original_array)
        if cursor.accept(","):
            next(lines, "")
            body = list(itertools.takewhile(lambda inner: inner != RECOVERY_QUOTE, lines))
            row.recovery_module.CopyFrom(nested("\n".join(body)))


def recovery_from_proto(module: Message, nested: Callable[[Message], str]) -> str:
    """The text of `original_value_recovery_table`; "" if it is empty."""
    rows: dict[str, str] = {}
    for row in module.original_value_recovery_table.entries:
        old = original_array_text(row.old_original_array)
        text = f"  {old} : {original_array_text(row.new_original_array)}"
        if row.HasField("recovery_module"):
            text += f",\n{recovery_module_text(nested(row.recovery_module))}"
        rows.setdefault(old, text)
    return "{\n" + "".join(rows[old] + "\n" for old in sorted(rows)) + "}\n" if rows else ""


def debug_attributes_to_proto(text: str, module: Message) -> None:
    """Write the text of `debug_attributes` to that field, one entry per line."""
    for line in text.splitlines()[1:-1]:
        cursor = Cursor(line)
        row = module.debug_attributes.add()
        read_original_array(cursor, row.original_array)
        for one in _DEBUG.findall(line, cursor.pos):
            fields = dict(pair.split("=") for pair in one.split(",") if pair)
            row.debug_attributes.add(
                log_mode=LOG_MODES.index(fields.get("log_mode", "none")),
                callback_id=int(fields.get("callback_id", 0)),
                op_id=int(fields.get("op_id", 0)),
                partitioned="partitioned" in fields,
            )


_DEBUG = re.compile(r"\{([^{}]*)\}")


def debug_attributes_from_proto(module: Message) -> str:
    """The text of `debug_attributes`; "" if there are none.

    Raises:
        HloParseError: a log mode is unknown.
    """
    rows: dict[str, list[DebugAttributes]] = {}
    for row in module.debug_attributes:
        found = rows.setdefault(original_array_text(row.original_array), [])
        for one in row.debug_attributes:
            if not 0 <= one.log_mode < len(LOG_MODES):
                raise HloParseError(f"log_mode {one.log_mode} of debug_attributes is unknown")
            values = {n: getattr(one, n) for n in ("callback_id", "op_id", "partitioned")}
            found.append({"log_mode": LOG_MODES[one.log_mode], **values})
    return debug_attributes_text(rows)
