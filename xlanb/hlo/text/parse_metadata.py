"""Parse optional fields of all instructions: metadata, frontend attributes, statistics, origin."""

from __future__ import annotations

from typing import Any

from xlanb.hlo.attributes import NO_METADATA, OpMetadata, index_text
from xlanb.hlo.names import escape
from xlanb.hlo.text.lexer import Cursor, has_comment, is_attribute_name, skipped
from xlanb.patterns import pattern

_FAST = pattern(
    r'\{(?:op_type="(?P<op_type>[^"\\]*)"[ ]?)?(?:op_name="(?P<op_name>[^"\\]*)"[ '
    r']?)?(?:source_file="(?P<source_file>[^"\\]*)"[ ]?)?'
    r"(?:source_line=(?P<source_line>[0-9]{1,9})[ ]?)?(?:source_end_line=(?P<source_end_line>[0-9]{1,9})[ ]?)?"
    r"(?:source_column=(?P<source_column>[0-9]{1,9})[ ]?)?(?:source_end_column=(?P<source_end_column>[0-9]{1,9})[ ]?)?"
    r"(?:stack_frame_id=(?P<stack_frame_id>[0-9]{1,9})[ ]?)?\}[ \t\n\r]*"
)
_STRINGS = ("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name", "metadata_payload")
_INTS = ("source_line", "source_end_line", "source_column", "source_end_column", "stack_frame_id")
_REST = ("profile_type", "deduplicated_name", "scheduling_name", "metadata_payload")


def common_metadata(cursor: Cursor, at: int) -> tuple[OpMetadata, int] | None:
    """The metadata in braces at an offset and the offset after it.

    None unless it is spelled as XLA prints it.
    """
    found = _FAST.match(cursor.source, at)
    if found is None:
        return None
    a, b, c, *numbers = found.groups()
    line, end_line, column, end_column, frame = [int(n or 0) for n in numbers]
    end = found.end()
    if cursor.text is not cursor.source:  # a comment may follow in the source
        end = skipped(cursor.text, end)
    return OpMetadata(a or "", b or "", c or "", line, frame, (), end_line, column, end_column), end


def parse_metadata(cursor: Cursor) -> OpMetadata:
    """`{op_type="Add" op_name="a/b" source_file="x.py" source_line=3}`.

    Raises:
        HloParseError: a field is unknown, occurs twice or has an invalid value.
    """
    fast = common_metadata(cursor, cursor.pos)
    if fast is not None:
        metadata, cursor.pos = fast
        return metadata
    cursor.expect("{", "to start sub attributes")
    fields: dict[str, Any] = {}
    while not cursor.at("}"):
        cursor.accept(",")
        at = cursor.pos
        name = cursor.attribute_name()
        if name in fields:
            cursor.fail(f"attribute {name} already exists", at)
        if name in _STRINGS:
            fields[name] = cursor.string()
        elif name in _INTS:
            fields[name] = cursor.integer()
            if not -(2**31) <= fields[name] < 2**31:
                cursor.fail("value out of range for int32_t", at)
        elif name == "profile_type":
            fields[name] = cursor.ints()
            if any(v not in range(6) for v in fields[name]):
                cursor.fail("unknown profile type", at)
        else:
            cursor.fail(
                f'unexpected attribute "{name}". Allowed attributes: {", ".join((*_STRINGS, *_INTS, "profile_type"))}',
                at,
            )
    cursor.expect("}", "to end sub attributes")
    rest = tuple(
        (n, index_text(fields[n]) if n == "profile_type" else f'"{escape(fields[n])}"') for n in _REST if fields.get(n)
    )
    for n in _REST:
        fields.pop(n, None)
    return OpMetadata(**fields, rest=rest) if fields or rest else NO_METADATA


def is_shown(metadata: OpMetadata) -> bool:
    """Whether XLA prints it at all.

    It does for an op, a source file, a name for the scheduler or a payload.
    """
    return bool(
        metadata.op_name
        or metadata.op_type
        or metadata.source_file
        or any(n in ("scheduling_name", "metadata_payload") for n, _ in metadata.rest)
    )


def metadata_text(metadata: OpMetadata) -> str:
    """The fields between the braces, in XLA's order, without empty or zero ones."""
    out = []
    for name in ("op_type", "op_name", "source_file"):
        value = getattr(metadata, name)
        if value:
            out.append(f'{name}="{escape(value)}"')
    for name in ("source_line", "source_end_line", "source_column", "source_end_column"):
        value = getattr(metadata, name)
        if value:
            out.append(f"{name}={value}")
    out += [f"{name}={text}" for name, text in metadata.rest]
    if metadata.stack_frame_id:
        out.append(f"stack_frame_id={metadata.stack_frame_id}")
    return " ".join(out)


def parse_frontend_attributes(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """`{a="1",b={"c":2},"d e"="3"}`, sorted by name.

    Values are strings or, verbatim, JSON dictionaries.
    """
    cursor.expect("{", "to start frontend attributes")
    found: dict[str, str] = {}
    if not cursor.at("}"):
        while True:
            name = _quoted_name(cursor) if cursor.at('"') else cursor.attribute_name()
            found[name] = cursor.json_dict() if cursor.at("{") else cursor.string()
            if not cursor.accept(","):
                break
    cursor.expect("}", "at the end of frontend attributes")
    return tuple(sorted(found.items()))


def frontend_attributes_text(attributes: tuple[tuple[str, str], ...]) -> str:
    """XLA's text of frontend attributes.

    Names that XLA's parser cannot read, which only protos have, are quoted.
    """
    return "{" + ",".join(f"{_name_text(k)}={quoted_or_json(v)}" for k, v in attributes) + "}"


def _quoted_name(cursor: Cursor) -> str:
    name = cursor.string()
    cursor.expect("=", "after the name of a frontend attribute")
    return name


def _name_text(name: str) -> str:
    return name if is_attribute_name(name) else f'"{escape(name)}"'


def quoted_or_json(value: str) -> str:
    """A value verbatim if it lexes as a JSON dictionary, else quoted and escaped."""
    return value if lexes_as_json(value) else f'"{escape(value)}"'


_JSON_FLAT = pattern(r'[^{}"]*(?:"[^"\\]*(?:\\[\s\S][^"\\]*)*"[^{}"]*)*')


def lexes_as_json(value: str) -> bool:
    """Whether it is one pair of balanced braces without comments.

    Text in double quotes is ignored.
    """
    if not value.startswith("{") or not value.endswith("}"):
        return False
    if has_comment(value):
        return False
    depth, pos = 0, 0
    while pos < len(value):
        if value[pos] == "{":
            depth += 1
        elif value[pos] == "}":
            depth -= 1
            if depth == 0:
                return pos == len(value) - 1
        else:
            return False
        found = _JSON_FLAT.match(value, pos + 1)
        pos = found.end() if found else pos + 1
    return False


def parse_statistics(cursor: Cursor) -> str:
    """`{visualizing_index=0,stat-1=33,stat-2=44}`, canonical text; "" if empty."""
    cursor.expect("{", "to start statistics")
    if cursor.accept("}"):
        return ""
    cursor.attribute_name()
    out = [f"visualizing_index={cursor.integer()}"]
    while cursor.accept(","):
        name = cursor.attribute_name()
        kind, text = cursor.number_kind()
        if kind not in ("float", "int"):
            cursor.fail("expects a number")
        cursor.eat(text)
        out.append(f"{name}={float(text):g}")
    cursor.expect("}", "at the end of statistics")
    return "{" + ",".join(out) + "}" if len(out) > 1 else ""


def parse_original_array(cursor: Cursor) -> str:
    """`{"name" {0,1}}`, canonical text."""
    cursor.expect("{")
    name = ""
    index: tuple[int, ...] = ()
    if cursor.at_string():
        name = cursor.string()
        if cursor.at("{"):
            index = cursor.ints()
    cursor.expect("}", "at end of OriginalArray")
    if not name:
        return "{}"
    return f'{{"{escape(name)}"{" " + index_text(index) if index else ""}}}'


def parse_origin(cursor: Cursor) -> str:
    """`{{"a"}}`, `{({"a"}, {"b" {1}})}` or `{[synthetic_call]}`, canonical text."""
    cursor.expect("{", "to start original value")
    if cursor.accept("["):
        if not cursor.accept_word("synthetic_call"):
            cursor.fail("Expects 'synthetic_call' after '[' for a synthetic_call value.")
        cursor.expect("]")
        cursor.expect("}", "to end original value")
        return "{[synthetic_call]}"
    out: list[str] = []
    depth = 0
    while not cursor.accept("}"):
        if cursor.accept("("):
            depth += 1
            if depth > 100:
                cursor.fail("nested too deep")
            out.append("(")
        elif cursor.accept(")"):
            depth -= 1
            if depth < 0:
                cursor.fail("unexpected ')'")
            out.append(")")
        elif cursor.at(",") and depth:
            cursor.accept(",")
            out.append(", ")
        elif cursor.at("{"):
            out.append(parse_original_array(cursor))
        else:
            cursor.fail("Expects '[synthetic]' or a tuple tree of original arrays in original_value field.")
    if depth:
        cursor.fail("expects ')' in original value")
    return "{" + "".join(out) + "}"
