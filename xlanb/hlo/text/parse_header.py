"""The `HloModule` line and the stack frame tables of HLO text."""

from __future__ import annotations

from collections.abc import Callable

from xlanb.errors import HloParseError
from xlanb.hlo.attributes import index_text
from xlanb.hlo.debug_attributes import LOG_MODES, DebugAttributes, debug_attributes_text
from xlanb.hlo.module import HloModule, parse_text
from xlanb.hlo.stack_frames import FRAME, LOCATION, GivenFrames
from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_attributes import parse_bools_or_bool
from xlanb.hlo.text.parse_metadata import (
    frontend_attributes_text,
    parse_frontend_attributes,
    parse_original_array,
)
from xlanb.hlo.text.parse_shape import ShapeCache, parse_shape
from xlanb.hlo.text.spelling import recovery_module_text, unescaped_recovery_module
from xlanb.shape import Shape

EntryLayout = tuple[tuple[Shape, ...], Shape]


def parse_header(cursor: Cursor, module: HloModule, cache: ShapeCache) -> EntryLayout | None:
    """Read `, name=value` after the module's name into `module.header`.

    Returns the entry computation layout, or None.

    Raises:
        HloParseError: an attribute is unknown, occurs twice, or has an invalid value.
    """
    layout: EntryLayout | None = None
    seen: set[str] = set()
    while cursor.accept(","):
        at = cursor.pos
        name = cursor.attribute_name()
        if name in seen:
            cursor.fail(f"attribute {name} already exists", at)
        seen.add(name)
        if name == "entry_computation_layout":
            layout = _entry_layout(cursor, cache)
        elif name in _READERS:
            value = _READERS[name](cursor)
            if value:
                module.header[name] = value
        else:
            allowed = ", ".join(sorted([*_READERS, "entry_computation_layout"]))
            cursor.fail(f'unexpected attribute "{name}". Allowed attributes: {allowed}', at)
    return layout


def _entry_layout(cursor: Cursor, cache: ShapeCache) -> EntryLayout:
    cursor.expect("{")
    cursor.expect("(", "before parameter shape list")
    parameters: list[Shape] = []
    while not cursor.at(")"):
        parameters.append(parse_shape(cursor, cache))
        if not cursor.accept(","):
            break
    cursor.expect(")", "at end of parameter shape list")
    cursor.expect("->", "before result shape")
    result = parse_shape(cursor, cache)
    cursor.expect("}", "at the end of computation layouts")
    return tuple(parameters), result


def _count(cursor: Cursor) -> str:
    value = cursor.integer()
    return "" if value == 1 else str(value)


def _flag(cursor: Cursor) -> str:
    return "true" if cursor.boolean() else ""


def _alias(cursor: Cursor) -> str:
    """`{ {0}: (1, {}, may-alias) }`, sorted by output index as XLA's ShapeTree is."""
    cursor.expect("{", "at the start of aliasing description")
    found: dict[tuple[int, ...], str] = {}
    while not cursor.at("}"):
        index = cursor.ints()
        cursor.expect(":")
        cursor.expect("(")
        parameter = cursor.integer()
        cursor.expect(",")
        parameter_index = index_text(cursor.ints())
        kind = "may-alias"
        if cursor.accept(","):
            at = cursor.pos
            kind = cursor.name()
            if kind not in ("may-alias", "must-alias"):
                cursor.fail("expects may-alias or must-alias", at)
        cursor.expect(")")
        found.setdefault(index, f"{index_text(index)}: ({parameter}, {parameter_index}, {kind})")
        if not cursor.accept(","):
            break
    cursor.expect("}", "at the end of aliasing description")
    return "{ " + ", ".join(found[i] for i in sorted(found)) + " }" if found else ""


def _donor(cursor: Cursor) -> str:
    cursor.expect("{", "at the start of buffer donor description")
    found: set[tuple[int, tuple[int, ...]]] = set()
    while not cursor.at("}"):
        cursor.expect("(")
        parameter = cursor.integer()
        cursor.expect(",")
        found.add((parameter, cursor.ints()))
        cursor.expect(")")
        if not cursor.accept(","):
            break
    cursor.expect("}", "at the end of buffer donor description")
    return "{ " + ", ".join(f"({p}, {index_text(i)})" for p, i in sorted(found)) + " }" if found else ""


def _frontend(cursor: Cursor) -> str:
    return frontend_attributes_text(parse_frontend_attributes(cursor))


def _recovery_table(cursor: Cursor) -> str:
    """`{ {"a"} : {"b"}, "module text" ... }` in canonical form.

    Sorted by the first key, with the modules printed canonically.
    """
    cursor.expect("{")
    rows: dict[str, str] = {}
    while not cursor.at("}"):
        old = parse_original_array(cursor)
        cursor.expect(":")
        row = f"  {old} : {parse_original_array(cursor)}\n"
        if cursor.accept(","):
            row = row[:-1] + ",\n" + _recovery_module(cursor)
        rows.setdefault(old, row)
    cursor.expect("}")
    return "{\n" + "".join(rows[old] for old in sorted(rows)) + "}\n" if rows else ""


def _recovery_module(cursor: Cursor) -> str:
    """The module, in a string, that recomputes a value that was optimized away, indented."""
    at = cursor.pos
    bare = unescaped_recovery_module(cursor.source, at)
    if bare is None:
        text = cursor.string()
    else:
        text, cursor.pos = bare
        cursor.skip()
    if "origin_recovery_table" in text:
        cursor.fail("a recovery module within a recovery module", at)
    try:
        module = parse_text(text)
    except HloParseError as error:
        cursor.fail(f"in the recovery module: {error}", at)
    entry = module.entry_computation
    if module.entry_layout is not None and len(module.entry_layout[0]) != len(entry.parameters):
        given = len(module.entry_layout[0])
        cursor.fail(
            f"in the recovery module: entry_computation_layout has {given} parameters, "
            f"{entry.name} {len(entry.parameters)}",
            at,
        )
    return recovery_module_text(str(module)) + "\n"


def _debug_attributes(cursor: Cursor) -> str:
    """`{ {"a"}:({log_mode=default,callback_id=1}) }`: which values are logged.

    Canonical text, sorted by the value.
    """
    cursor.expect("{", "to start debug_attributes")
    rows: dict[str, list[DebugAttributes]] = {}
    while not cursor.at("}"):
        value = parse_original_array(cursor)
        cursor.expect(":", "in debug_attributes entry")
        rows[value] = []
        if cursor.accept("("):
            while not cursor.at(")"):
                rows[value].append(_one_debug_attributes(cursor))
                if not cursor.accept(","):
                    break
            cursor.expect(")", "after list of debug_attributes")
        else:
            rows[value].append(_one_debug_attributes(cursor))
        if not cursor.accept(","):
            break
    cursor.expect("}", "to end debug_attributes")
    return debug_attributes_text(rows)


def _one_debug_attributes(cursor: Cursor) -> DebugAttributes:
    cursor.expect("{", "to start debug attributes")
    found: dict[str, str | int | bool] = {}
    while True:
        at = cursor.pos
        name = cursor.attribute_name()
        if name == "log_mode":
            found[name] = cursor.name("log mode")
            if found[name] not in LOG_MODES[1:]:
                cursor.fail(f"expects one of {', '.join(LOG_MODES[1:])}, not {found[name]}", at)
        elif name == "partitioned":
            found[name] = cursor.boolean()
        elif name in ("callback_id", "op_id"):
            found[name] = cursor.integer()
        else:
            cursor.fail(f"unknown debug attribute: {name}", at)
        if not cursor.accept(","):
            break
    cursor.expect("}", "to end debug attributes")
    return found


_READERS: dict[str, Callable[[Cursor], str]] = {
    "is_scheduled": _flag,
    "replica_count": _count,
    "num_partitions": _count,
    "input_output_alias": _alias,
    "buffer_donor": _donor,
    "alias_passthrough_params": _flag,
    "frontend_attributes": _frontend,
    "allow_spmd_sharding_propagation_to_parameters": parse_bools_or_bool,
    "allow_spmd_sharding_propagation_to_output": parse_bools_or_bool,
    "origin_recovery_table": _recovery_table,
    "debug_attributes": _debug_attributes,
}


def parse_tables(cursor: Cursor) -> GivenFrames | None:
    """The FileNames / FunctionNames / FileLocations / StackFrames tables, or None.

    Raises:
        HloParseError: a table or a field is missing.
    """
    if not cursor.accept_word("FileNames"):
        return None
    files = _strings(cursor)
    _heading(cursor, "FunctionNames")
    functions = _strings(cursor)
    _heading(cursor, "FileLocations")
    locations = _rows(cursor, LOCATION)
    _heading(cursor, "StackFrames")
    return GivenFrames(files, functions, locations, _rows(cursor, FRAME))


def _heading(cursor: Cursor, word: str) -> None:
    if not cursor.accept_word(word):
        cursor.fail(f"expects '{word}'")


def _strings(cursor: Cursor) -> list[str]:
    rows: list[str] = []
    while cursor.is_int():
        cursor.integer()
        rows.append(cursor.string())
    return rows


def _rows(cursor: Cursor, names: tuple[str, ...]) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = []
    while cursor.is_int():
        at = cursor.pos
        cursor.integer()
        fields: dict[str, int] = {}
        cursor.expect("{", "to start sub attributes")
        while not cursor.at("}"):
            cursor.accept(",")
            name = cursor.attribute_name()
            if name not in names or name in fields:
                cursor.fail(f'unexpected attribute "{name}"', at)
            fields[name] = cursor.integer()
        cursor.expect("}", "to end sub attributes")
        if len(fields) != len(names):
            cursor.fail(f"expects {', '.join(names)}", at)
        rows.append(tuple(fields[n] for n in names))
    return rows
