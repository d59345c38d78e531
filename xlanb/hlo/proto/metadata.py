"""Optional fields of all instructions: metadata, frontend attributes, statistics, original values;
and the stack frame tables of a module.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlanb.errors import HloParseError
from xlanb.hlo.attributes import NO_METADATA, OpMetadata
from xlanb.hlo.names import escape, sanitized
from xlanb.hlo.proto.schema import SCHEMA
from xlanb.hlo.stack_frames import GivenFrames
from xlanb.hlo.text.lexer import MAX_DEPTH, Cursor
from xlanb.protos import Message

_SAME = "op_type op_name source_file source_line source_end_line source_column source_end_column stack_frame_id".split()
_QUOTED = ("deduplicated_name", "scheduling_name")


def metadata_to_proto(metadata: OpMetadata) -> Message:
    """The OpMetadata message."""
    proto = SCHEMA.OpMetadata(**{name: getattr(metadata, name) for name in _SAME})
    for name, text in metadata.rest:
        if name in _QUOTED:
            setattr(proto, name, Cursor(text).string())
        elif name == "profile_type":
            proto.profile_type.extend(Cursor(text).ints())
        else:
            raise HloParseError(f"metadata field {name} has no proto field")
    return proto


def metadata_from_proto(proto: Message) -> OpMetadata:
    """The metadata of an OpMetadata message; NO_METADATA if it is empty."""
    rest: list[tuple[str, str]] = []
    if proto.profile_type:
        rest.append(("profile_type", "{" + ",".join(map(str, proto.profile_type)) + "}"))
    rest += [(name, f'"{escape(getattr(proto, name))}"') for name in _QUOTED if getattr(proto, name)]
    fields = {name: getattr(proto, name) for name in _SAME}
    return OpMetadata(**fields, rest=tuple(rest)) if rest or any(fields.values()) else NO_METADATA


def frontend_from_proto(proto: Message) -> tuple[tuple[str, str], ...]:
    """The pairs of a FrontendAttributes message, sorted by name."""
    return tuple(sorted({p.key: p.value for p in proto.map}.items()))


def frontend_to_proto(pairs: Iterable[tuple[str, str]], proto: Message) -> None:
    """Fill a FrontendAttributes message."""
    for key, value in pairs:
        proto.map.add(key=key, value=value)


# -- statistics ------------------------------------------------------------------------------------


def statistics_to_proto(text: str, proto: Message) -> None:
    """Write `{visualizing_index=0,stat-1=33}` to a StatisticsViz message."""
    for i, part in enumerate(text.strip("{}").split(",")):
        name, _, value = part.partition("=")
        if i:
            proto.statistics.add(stat_name=name, stat_val=float(value))
        else:
            proto.stat_index_to_visualize = int(value)


def statistics_from_proto(proto: Message) -> str:
    """The canonical text of a StatisticsViz message; "" if there are no statistics."""
    if not proto.statistics:
        return ""
    parts = [
        f"visualizing_index={proto.stat_index_to_visualize}",
        *(f"{sanitized(s.stat_name) or '_'}={s.stat_val:g}" for s in proto.statistics),
    ]
    return "{" + ",".join(parts) + "}"


# -- original values -------------------------------------------------------------------------------


def read_original_array(cursor: Cursor, proto: Message) -> bool:
    """Read `{"name" {0,1}}` into an OriginalArrayProto; return whether there was a name."""
    cursor.expect("{")
    named = cursor.at_string()
    if named:
        proto.instruction_name = cursor.string()
        if cursor.at("{"):
            proto.shape_index.extend(cursor.ints())
    cursor.expect("}")
    return named


def original_array_text(proto: Message) -> str:
    """`{"name" {0,1}}`."""
    if not proto.instruction_name:
        return "{}"
    index = " {" + ",".join(map(str, proto.shape_index)) + "}" if proto.shape_index else ""
    return f'{{"{escape(proto.instruction_name)}"{index}}}'


def origin_to_proto(text: str, proto: Message) -> None:
    """Write `{({"a"}, {"b" {1}})}` or `{[synthetic_call]}` to an OriginalValueProto.

    It gets one element per leaf.
    """
    proto.SetInParent()
    cursor = Cursor(text)
    cursor.expect("{")
    if cursor.accept("["):
        proto.is_synthetic_call = True
        return
    path: list[int] = []
    while not cursor.accept("}"):
        if cursor.accept("("):
            path.append(0)
        elif cursor.accept(")"):
            path.pop()
        elif cursor.accept(","):
            path[-1] += 1
        else:
            element = proto.elements.add(shape_index=path)
            if not read_original_array(cursor, element.original_array):
                element.ClearField("original_array")


def origin_from_proto(proto: Message) -> str:
    """The canonical text of an OriginalValueProto.

    Raises:
        HloParseError: its elements are not all leaves of one tree, in order.
    """
    if proto.is_synthetic_call:
        return "{[synthetic_call]}"
    out: list[str] = []
    last: tuple[int, ...] | None = None
    for element in proto.elements:
        index = tuple(element.shape_index)
        out += [_between(last, index), original_array_text(element.original_array)]
        last = index
    return "{" + "".join(out) + ")" * len(last or ()) + "}" if last is not None else "{()}"


def _between(last: tuple[int, ...] | None, index: tuple[int, ...]) -> str:
    """The brackets between the leaf at one ShapeIndex and the next: `(` per level in, `)` out."""
    if last is None:
        same = 0
        follows = not any(index)
    else:
        same = next((i for i, (a, b) in enumerate(zip(last, index, strict=False)) if a != b), -1)
        follows = same >= 0 and index[same] == last[same] + 1 and not any(index[same + 1 :])
    if not follows or len(index) > MAX_DEPTH:
        raise HloParseError(f"original value: leaf {list(index[:20])} cannot follow {list((last or ())[:20])}")
    if last is None:
        return "(" * len(index)
    return ")" * (len(last) - same - 1) + ", " + "(" * (len(index) - same - 1)


# -- stack frames ----------------------------------------------------------------------------------

_LOCATION = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")
_PARENT = "parent_frame_id"
"""One higher in the text than in the message, where 0 means no parent."""

_FRAME = ("file_location_id", _PARENT)


def tables_to_proto(text: str, proto: Message) -> None:
    """Write the text of the stack frame tables to a StackFrameIndexProto.

    The tables are FileNames, FunctionNames, FileLocations and StackFrames.
    """
    cursor = Cursor(text)
    for heading, strings in (
        ("FileNames", proto.file_names),
        ("FunctionNames", proto.function_names),
    ):
        cursor.accept_word(heading)
        while cursor.is_int():
            cursor.integer()
            strings.append(cursor.string())
    for heading, rows in (
        ("FileLocations", proto.file_locations),
        ("StackFrames", proto.stack_frames),
    ):
        cursor.accept_word(heading)
        while cursor.is_int():
            cursor.integer()
            cursor.expect("{")
            row = rows.add()
            while not cursor.accept("}"):
                name = cursor.attribute_name()
                setattr(row, name, cursor.integer() - (name == _PARENT))


def tables_from_proto(proto: Message) -> str:
    """The text of the tables; "" if all are empty."""
    if not proto.ByteSize():
        return ""
    out: list[str] = []
    for heading, strings in (
        ("FileNames", proto.file_names),
        ("FunctionNames", proto.function_names),
    ):
        out += [heading, *(f'{i} "{escape(s)}"' for i, s in enumerate(strings, 1)), ""]
    for heading, rows, names in (
        ("FileLocations", proto.file_locations, _LOCATION),
        ("StackFrames", proto.stack_frames, _FRAME),
    ):
        texts = [" ".join(f"{n}={getattr(r, n) + (n == _PARENT)}" for n in names) for r in rows]
        out += [heading, *(f"{i} {{{t}}}" for i, t in enumerate(texts, 1)), ""]
    return "\n".join(out)


def frames_from_proto(proto: Message) -> GivenFrames:
    """The same tables, for lookup."""
    return GivenFrames(
        list(proto.file_names),
        list(proto.function_names),
        [tuple(getattr(r, n) for n in _LOCATION) for r in proto.file_locations],
        [tuple(getattr(r, n) + (n == _PARENT) for n in _FRAME) for r in proto.stack_frames],
    )
