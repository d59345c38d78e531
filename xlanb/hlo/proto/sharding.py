"""Convert shardings and replica groups between XLA's canonical text and their messages.

Source: hlo_sharding.cc, named_sharding.cc, mesh_and_axis.cc, replica_group.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xlanb.errors import HloParseError
from xlanb.hlo.proto.metadata import metadata_from_proto, metadata_to_proto
from xlanb.hlo.proto.schema import SCHEMA
from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_metadata import metadata_text, parse_metadata
from xlanb.hlo.text.parse_sharding import REDUCTIONS, parse_sharding, reduction_word
from xlanb.protos import Message

_TYPES = ("replicated", "maximal", "tuple", "other", "manual", "unknown", "unreduced")
_TUPLE, _OTHER = 2, 3
_GROUP_TYPES = ("shard_as", "shard_like")


def _comma(values: Iterable[Any]) -> str:
    return ",".join(map(str, values))


# -- shardings -------------------------------------------------------------------------------------


def sharding_to_proto(text: str) -> Message:
    """The OpSharding of a sharding's canonical text.

    Raises:
        HloParseError: it is not well formed.
    """
    cursor = Cursor(text)
    proto = read_sharding(cursor)
    if not cursor.at_end:
        cursor.fail("unexpected text after a sharding")
    return proto


def read_sharding(cursor: Cursor) -> Message:
    """The OpSharding of the sharding, or tuple of shardings, at a cursor."""
    cursor.expect("{", "to start sharding attribute")
    if not cursor.at("{") and not cursor.at("}"):
        return _read_single(cursor)
    proto = SCHEMA.OpSharding(type=_TUPLE)
    while not cursor.at("}"):
        cursor.expect("{", "to start sharding attribute")
        proto.tuple_shardings.append(_read_single(cursor))
        if not cursor.accept(","):
            break
    cursor.expect("}", "to end sharding attribute")
    return proto


def _read_single(cursor: Cursor) -> Message:
    """Read one sharding after its opening brace."""
    if cursor.peek_word() in ("mesh", "maximal_mesh"):
        return SCHEMA.OpSharding(named_sharding=_read_named(cursor))
    proto = SCHEMA.OpSharding(type=_OTHER)
    while not cursor.accept("}"):
        word = cursor.peek_word()
        if word in _TYPES:
            proto.type = _TYPES.index(cursor.word())
        elif word == "last_tile_dim_replicate":
            cursor.word()
            proto.replicate_on_last_tile_dim = True
        elif word in _GROUP_TYPES:
            proto.is_shard_group = True
            proto.shard_group_type = _GROUP_TYPES.index(cursor.word())
            proto.shard_group_id = cursor.integer()
        else:
            _read_attribute(cursor, proto)
    return proto


def _read_attribute(cursor: Cursor, proto: Message) -> None:
    at = cursor.pos
    name = cursor.attribute_name()
    if name == "device":
        proto.tile_assignment_devices.append(cursor.integer())
    elif name == "devices":
        proto.tile_assignment_dimensions.extend(cursor.ints("[", "]"))
        if cursor.accept("<="):
            dims, perm = _read_iota(cursor)
            proto.iota_reshape_dims.extend(dims)
            proto.iota_transpose_perm.extend(perm)
        else:
            proto.tile_assignment_devices.append(cursor.integer())
            while cursor.accept(","):
                proto.tile_assignment_devices.append(cursor.integer())
    elif name == "last_tile_dims":
        proto.last_tile_dims.extend(_TYPES.index(w) for w in _read_words(cursor))
    elif name == "metadata":
        proto.metadata.extend(_read_metadata(cursor))
    else:
        cursor.fail(f"unknown attribute in sharding: {name}", at)


def _read_words(cursor: Cursor) -> list[str]:
    words: list[str] = []
    cursor.expect("{")
    while not cursor.at("}"):
        if cursor.peek_word() not in _TYPES:
            cursor.fail("expects a sharding type")
        words.append(cursor.word())
        if not cursor.accept(","):
            break
    cursor.expect("}")
    return words


def _read_iota(cursor: Cursor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Read `[4,2]T(1,0)`; the transpose is left out for one dimension."""
    dims = cursor.ints("[", "]")
    if len(dims) == 1:
        return dims, (0,)
    cursor.expect("T")
    return dims, cursor.ints("(", ")")


def _read_metadata(cursor: Cursor) -> list[Message]:
    """`{op_name="a"}` or `{{op_name="a"}, {op_name="b"}}`."""
    start = cursor.pos
    cursor.expect("{")
    if not cursor.at("{"):
        cursor.pos = start
        return [metadata_to_proto(parse_metadata(cursor))]
    parts: list[Message] = []
    while not cursor.at("}"):
        parts.append(metadata_to_proto(parse_metadata(cursor)))
        if not cursor.accept(","):
            break
    cursor.expect("}")
    return parts


def sharding_from_proto(proto: Message) -> str:
    """The canonical text of an OpSharding.

    Raises:
        HloParseError: its type is unknown, or its devices do not match its tiles.
    """
    if proto.type == _TUPLE:
        if any(p.type == _TUPLE for p in proto.tuple_shardings):
            raise HloParseError("nested tuples of shardings")
        return "{" + ", ".join(map(sharding_from_proto, proto.tuple_shardings)) + "}"
    if proto.HasField("named_sharding"):
        text = _named_text(proto.named_sharding)
        parse_sharding(Cursor(text))  # a message may have any axis names, sizes and devices
        return text
    tail = f" {_GROUP_TYPES[proto.shard_group_type & 1]} {proto.shard_group_id}" if proto.is_shard_group else ""
    if proto.metadata:
        texts = ["{" + metadata_text(metadata_from_proto(m)) + "}" for m in proto.metadata]
        tail += " metadata=" + (texts[0] if len(texts) == 1 else "{" + ", ".join(texts) + "}")
    if proto.type == _OTHER:
        text = f"{{{_tiles_text(proto)}{tail}}}"
        # Subgroups are merged and their devices sorted, as when text is parsed.
        is_grouped = proto.replicate_on_last_tile_dim or proto.last_tile_dims
        return parse_sharding(Cursor(text)) if is_grouped else text
    word = _word(proto.type)
    if word != "maximal":
        return f"{{{word}{tail}}}"
    if len(proto.tile_assignment_devices) != 1:
        raise HloParseError(f"a maximal sharding has one device, not {len(proto.tile_assignment_devices)}")
    return f"{{maximal device={proto.tile_assignment_devices[0]}{tail}}}"


def _word(number: int) -> str:
    if not 0 <= number < len(_TYPES):
        raise HloParseError(f"unknown sharding type {number}")
    return _TYPES[number]


def _tiles_text(proto: Message) -> str:
    """`devices=[2,1,2]<=[4] last_tile_dim_replicate`."""
    tiles = _product(proto.tile_assignment_dimensions)
    count = _product(proto.iota_reshape_dims) if proto.iota_reshape_dims else len(proto.tile_assignment_devices)
    if tiles != count or not proto.tile_assignment_dimensions:
        raise HloParseError(f"a sharding of {tiles} tiles does not match {count} devices")
    devices = _iota_text(proto) if proto.iota_reshape_dims else _comma(proto.tile_assignment_devices)
    last = " last_tile_dim_replicate" if proto.replicate_on_last_tile_dim else ""
    if proto.last_tile_dims:
        words = list(map(_word, proto.last_tile_dims))
        last = " last_tile_dim_replicate" if words == ["replicated"] else " last_tile_dims={" + ", ".join(words) + "}"
    return f"devices=[{_comma(proto.tile_assignment_dimensions)}]{devices}{last}"


def _product(sizes: Iterable[int]) -> int:
    """The product, or the first partial product beyond 64 bits."""
    product = 1
    for size in sizes:
        product *= size
        if abs(product) >= 2**63:
            break
    return product


def _iota_text(proto: Message) -> str:
    transpose = f"T({_comma(proto.iota_transpose_perm)})" if len(proto.iota_reshape_dims) > 1 else ""
    return f"<=[{_comma(proto.iota_reshape_dims)}]{transpose}"


# -- meshes and named shardings --------------------------------------------------------------------


def _read_mesh(cursor: Cursor) -> Message:
    """`mesh['x'=2,'y'=2], device_ids=(3,2,1,0)` or `maximal_mesh[device_id=1]`."""
    proto = SCHEMA.MeshProto()
    word = cursor.word()
    cursor.expect("[")
    if word == "maximal_mesh":
        cursor.attribute_name()
        proto.device_ids.append(cursor.integer())
    while word == "mesh" and not cursor.at("]"):
        axis = proto.axes.add(name=cursor.string())
        cursor.expect("=")
        axis.size = cursor.integer()
        if not cursor.accept(","):
            break
    cursor.expect("]")
    start = cursor.pos
    if cursor.accept(",") and cursor.text.startswith("device_ids=", cursor.pos):
        cursor.attribute_name()
        cursor.expect("(")
        if cursor.at("["):
            dims, perm = _read_iota(cursor)
            proto.iota_transform.reshape_dims.extend(dims)
            proto.iota_transform.transpose_perm.extend(perm)
            cursor.expect(")")
        else:
            proto.device_ids.append(cursor.integer())
            while cursor.accept(","):
                proto.device_ids.append(cursor.integer())
            cursor.expect(")")
    else:
        cursor.pos = start
    return proto


def _read_axes(cursor: Cursor, mesh: Message, axes: Any) -> bool:
    """Read `{'x', 'y':(1)2, ?}` into a repeated AxisRefProto; return whether it had no `?`."""
    closed = True
    cursor.expect("{")
    names = [a.name for a in mesh.axes]
    while not cursor.at("}"):
        if cursor.accept("?"):
            closed = False
        else:
            at = cursor.pos
            name = cursor.string()
            if name not in names:
                cursor.fail(f"the mesh has no axis '{name}'", at)
            axis = axes.add(mesh_axis_index=names.index(name))
            if cursor.accept(":"):
                cursor.expect("(")
                axis.sub_axis_info.pre_size = cursor.integer()
                cursor.expect(")")
                axis.sub_axis_info.size = cursor.integer()
        if not cursor.accept(","):
            break
    cursor.expect("}")
    return closed


def _read_named(cursor: Cursor) -> Message:
    proto = SCHEMA.NamedShardingProto(mesh=_read_mesh(cursor))
    while not cursor.accept("}"):
        cursor.accept(",")
        if cursor.accept("["):
            while not cursor.at("]"):
                dimension = proto.dim_shardings.add()
                dimension.is_closed = _read_axes(cursor, proto.mesh, dimension.axes)
                if not cursor.accept(","):
                    break
            cursor.expect("]")
            continue
        if cursor.peek_word() in _AXIS_LISTS:
            _read_whole(proto, cursor.word())
            continue
        at = cursor.pos
        name = cursor.attribute_name()
        if name == "metadata":
            proto.metadata.extend(_read_metadata(cursor))
        elif name in _AXIS_LISTS:
            if name == "unreduced" and not cursor.at("{"):
                proto.reduction_op = REDUCTIONS.index(reduction_word(cursor) or "sum")
                if not cursor.at("{"):
                    _read_whole(proto, name)
                    continue
            _read_axes(cursor, proto.mesh, getattr(proto, f"{name}_axes"))
        else:
            cursor.fail(f"unknown attribute in sharding: {name}", at)
    return proto


_AXIS_LISTS = ("replicated", "unreduced", "manual")


def _read_whole(proto: Message, word: str) -> None:
    """Add all axes of the mesh for `manual` and `unreduced`, none for `replicated`."""
    if word != "replicated":
        for i in range(len(proto.mesh.axes)):
            getattr(proto, f"{word}_axes").add(mesh_axis_index=i)


def _mesh_text(mesh: Message) -> str:
    if not mesh.axes:
        return f"maximal_mesh[device_id={mesh.device_ids[0] if mesh.device_ids else 0}]"
    axes = ",".join(f"'{a.name}'={a.size}" for a in mesh.axes)
    if mesh.HasField("iota_transform"):
        transform = mesh.iota_transform
        transpose = f"T({_comma(transform.transpose_perm)})" if len(transform.reshape_dims) > 1 else ""
        return f"mesh[{axes}], device_ids=([{_comma(transform.reshape_dims)}]{transpose})"
    return f"mesh[{axes}]" + (f", device_ids=({_comma(mesh.device_ids)})" if mesh.device_ids else "")


def _axis_text(mesh: Message, axis: Message) -> str:
    index = axis.mesh_axis_index
    if not 0 <= index < len(mesh.axes):
        raise HloParseError(f"axis {index} is out of range for a mesh with {len(mesh.axes)} axes")
    return f"'{mesh.axes[index].name}'" + (
        f":({axis.sub_axis_info.pre_size}){axis.sub_axis_info.size}" if axis.HasField("sub_axis_info") else ""
    )


def _axes_text(mesh: Message, axes: Sequence[Message], *, closed: bool = True) -> str:
    return "{" + ", ".join([_axis_text(mesh, a) for a in axes] + ([] if closed else ["?"])) + "}"


def _named_text(proto: Message) -> str:
    mesh = proto.mesh
    metadata = ""
    if proto.metadata:
        metadata = (
            ", metadata={" + ", ".join("{" + metadata_text(metadata_from_proto(m)) + "}" for m in proto.metadata) + "}"
        )
    start = "{" + _mesh_text(mesh)
    if not 0 <= proto.reduction_op < len(REDUCTIONS):
        raise HloParseError(f"unknown reduction_op {proto.reduction_op} in a sharding")
    reduction = REDUCTIONS[proto.reduction_op] if proto.reduction_op and proto.unreduced_axes else ""
    if not mesh.axes:
        return start + metadata + "}"
    everything = [(i, False) for i in range(len(mesh.axes))]
    lists = {
        name: [(a.mesh_axis_index, a.HasField("sub_axis_info")) for a in getattr(proto, f"{name}_axes")]
        for name in _AXIS_LISTS
    }
    if not proto.dim_shardings:
        whole = [n for n in _AXIS_LISTS[1:] if lists[n] == everything] or ["replicated"] * (not any(lists.values()))
        if whole:
            return f"{start}, {whole[0]}{'=' if reduction and whole[0] == 'unreduced' else ''}{reduction}{metadata}}}"
    parts = [", [" + ", ".join(_axes_text(mesh, d.axes, closed=d.is_closed) for d in proto.dim_shardings) + "]"]
    parts += [
        f", {name}={reduction if name == 'unreduced' else ''}{_axes_text(mesh, getattr(proto, f'{name}_axes'))}"
        for name in _AXIS_LISTS
        if lists[name]
    ]
    return start + "".join(parts) + metadata + "}"


# -- replica groups --------------------------------------------------------------------------------


def groups_to_proto(text: str, instruction: Message) -> None:
    """Write replica groups from the canonical text to an HloInstructionProto.

    One of its three fields for them is filled.
    """
    cursor = Cursor(text)
    if cursor.at("["):
        groups, size = cursor.ints("[", "]")
        cursor.expect("<=")
        dims, perm = _read_iota(cursor)
        iota = instruction.iota_collective_device_list
        iota.num_replica_groups, iota.num_devices_per_group = groups, size
        iota.iota_reshape_dims.extend(dims)
        iota.iota_transpose_perm.extend(perm)
    elif cursor.at("{"):
        instruction.collective_device_list.SetInParent()
        cursor.expect("{")
        while not cursor.at("}"):
            instruction.collective_device_list.replica_groups.add(replica_ids=cursor.ints())
            if not cursor.accept(","):
                break
    else:
        listed = instruction.mesh_axes_replica_group_list
        listed.mesh.CopyFrom(_read_mesh(cursor))
        _read_axes(cursor, listed.mesh, listed.axes)


def groups_from_proto(instruction: Message) -> str | None:
    """The canonical text of an HloInstructionProto's replica groups; None if it has none."""
    if instruction.HasField("mesh_axes_replica_group_list"):
        listed = instruction.mesh_axes_replica_group_list
        return f"{_mesh_text(listed.mesh)} {_axes_text(listed.mesh, listed.axes)}"
    if instruction.HasField("iota_collective_device_list"):
        iota = instruction.iota_collective_device_list
        if not iota.iota_reshape_dims:
            raise HloParseError("replica groups by iota have no dimensions")
        return f"[{iota.num_replica_groups},{iota.num_devices_per_group}]{_iota_text(iota)}"
    lists = instruction.collective_device_list.replica_groups or instruction.replica_groups
    if lists or instruction.HasField("collective_device_list"):
        return "{" + ",".join("{" + _comma(g.replica_ids) + "}" for g in lists) + "}"
    return None
