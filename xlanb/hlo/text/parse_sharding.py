"""Shardings and replica groups in HLO text, read into XLA's canonical text.

Source: hlo_sharding.cc, replica_group.cc.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_metadata import metadata_text, parse_metadata
from xlanb.shape import Shape, TupleShape


def parse_replica_groups(cursor: Cursor) -> str:
    """`{{0,1},{2,3}}`, `[2,4]<=[4,2]T(1,0)` or `mesh['x'=2,'y'=4] {'y'}`, canonical text."""
    if cursor.peek_word() == "mesh":
        mesh, axes = _mesh(cursor)
        cursor.accept(",")
        return f"{mesh} {_axes(cursor, axes, comma=',')}"
    if cursor.at("{"):
        cursor.expect("{")
        groups: list[str] = []
        while not cursor.at("}") or groups:
            groups.append("{" + ",".join(map(str, cursor.ints())) + "}")
            if not cursor.accept(","):
                break
        cursor.expect("}", "at the end of a list")
        return "{" + ",".join(groups) + "}"
    at = cursor.pos
    tiles = cursor.ints("[", "]")
    if len(tiles) != 2:
        cursor.fail("replica groups by iota have two dimensions", at)
    return _tile(tiles) + iota_text(cursor, math.prod(tiles))


def _tile(values: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, values)) + "]"


def iota_text(cursor: Cursor, count: int) -> str:
    """`<=[4,2]T(1,0)`, without dimensions of size 1 and transposes without effect, as in XLA.

    Raises:
        HloParseError: it does not number `count` devices.
    """
    cursor.expect("<=")
    return "<=" + _iota_of(cursor, count)


def _iota_of(cursor: Cursor, count: int) -> str:
    at = cursor.pos
    dims, perm = _iota_parts(cursor)
    if math.prod(dims) != count:
        cursor.fail(f"iota size {math.prod(dims)} does not match the {count} devices that are expected", at)
    return canonical_iota(dims, perm)


def _iota_parts(cursor: Cursor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The reshape and the transpose of an iota."""
    at = cursor.pos
    dims = cursor.ints("[", "]")
    if not dims or min(dims) < 1:
        cursor.fail("expects non-empty, positive iota_reshape_dims", at)
    perm: tuple[int, ...] = (0,)
    if len(dims) > 1:
        cursor.expect("T")
        at = cursor.pos
        perm = cursor.ints("(", ")")
        if sorted(perm) != list(range(len(dims))):
            cursor.fail("the transpose is not a permutation", at)
    return dims, perm


def canonical_iota(dims: tuple[int, ...], perm: tuple[int, ...]) -> str:
    """Merge dimensions that stay adjacent and drop sizes of 1 (IotaTileAssignment::Create)."""
    kept = [i for i in range(len(dims)) if dims[i] != 1]
    order = [kept.index(p) for p in perm if dims[p] != 1]
    sizes = [dims[i] for i in kept]
    groups: list[list[int]] = []
    for p in order:
        if groups and groups[-1][-1] + 1 == p:
            groups[-1].append(p)
        else:
            groups.append([p])
    if len(groups) <= 1:
        total = 1
        for size in sizes:
            total *= size
        return f"[{total}]"
    starts = sorted(g[0] for g in groups)
    merged = {}
    for g in groups:
        size = 1
        for i in g:
            size *= sizes[i]
        merged[g[0]] = size
    new_dims = [merged[s] for s in starts]
    new_perm = [starts.index(g[0]) for g in groups]
    return f"[{','.join(map(str, new_dims))}]T({','.join(map(str, new_perm))})"


def parse_sharding(cursor: Cursor) -> str:
    """A sharding or a tuple of them, canonical text."""
    cursor.expect("{", "to start sharding attribute")
    if not cursor.at("{") and not cursor.at("}"):
        return _single(cursor)
    parts: list[str] = []
    while not cursor.at("}") or parts:
        cursor.expect("{", "to start sharding attribute")
        parts.append(_single(cursor))
        if not cursor.accept(","):
            break
    cursor.expect("}", "to end sharding attribute")
    return "{" + ", ".join(parts) + "}"


_PLAIN = ("replicated", "maximal", "manual", "unknown", "unreduced")
_SUBGROUPS = ("maximal", "replicated", "manual", "unreduced")


def _single(cursor: Cursor) -> str:
    """Read the rest of one sharding after its brace."""
    if cursor.peek_word() in ("mesh", "maximal_mesh"):
        return _named(cursor)
    return _Tiled(cursor).read()


def _named(cursor: Cursor) -> str:
    """`mesh['x'=2,'y'=4], [{'x'}, {?}], unreduced={'y'}}`, canonical text."""
    mesh, axes = _mesh(cursor)
    cursor.accept(",")
    parts: list[str] = []
    found: dict[str, str] = {}
    reduction = ""
    word = cursor.peek_word()
    if word in ("replicated", "unreduced", "manual"):
        parts.append(cursor.word())
    elif cursor.text.startswith("unreduced=", cursor.pos):
        cursor.attribute_name()
        reduction = reduction_word(cursor)
        if cursor.at("{"):
            parts = ["[]"]
            found["unreduced"] = _axes(cursor, axes)
        else:
            parts = ["unreduced"]
    elif mesh.startswith("maximal_mesh"):
        pass
    else:
        dims: list[str] = []
        cursor.expect("[", "to start dimension shardings")
        while not cursor.at("]") or dims:
            dims.append(_axes(cursor, axes, open_too=True))
            if not cursor.accept(","):
                break
        cursor.expect("]", "to end dimension shardings")
        parts.append("[" + ", ".join(dims) + "]")
    while not cursor.accept("}"):
        cursor.accept(",")
        at = cursor.pos
        name = cursor.attribute_name()
        if name in found or name not in ("replicated", "unreduced", "manual", "metadata"):
            cursor.fail("unknown attribute in named sharding: expected replicated, unreduced, manual or metadata", at)
        if name == "metadata":
            found[name] = _listed(metadata_list(cursor))
        else:
            if name == "unreduced" and not cursor.at("{"):
                reduction = reduction_word(cursor)
            found[name] = _axes(cursor, axes)
    if parts == ["[]"]:
        parts = [_whole(found, axes)]
    parts += [
        f"{n}={reduction if n == 'unreduced' else ''}{found[n]}"
        for n in ("replicated", "unreduced", "manual", "metadata")
        if n in found and found[n] != "{}"
    ]
    if reduction and "unreduced" in parts:
        parts[parts.index("unreduced")] = f"unreduced={reduction}"
    return "{" + ", ".join([mesh, *parts]) + "}"


def reduction_word(cursor: Cursor) -> str:
    """How the parts of an unreduced value are combined; "" for a sum, the default."""
    at = cursor.pos
    word = cursor.peek_word()
    if word not in REDUCTIONS:
        cursor.fail("expected sum, max, or min for unreduced op", at)
    cursor.word()
    return "" if word == "sum" else word


REDUCTIONS = ("sum", "max", "min")
"""By their numbers in XLA's messages."""


def _whole(found: dict[str, str], axes: list[str]) -> str:
    """XLA's text of a sharding that names no dimension.

    It is one word if all axes are of one kind, which is then removed from `found`.
    """
    kinds = [n for n in ("replicated", "unreduced", "manual") if found.get(n, "{}") != "{}"]
    if not kinds:
        return "replicated"
    every = "{" + ", ".join(map(_quoted, axes)) + "}"
    if len(kinds) == 1 and kinds[0] != "replicated" and found[kinds[0]] == every:
        del found[kinds[0]]
        return kinds[0]
    return "[]"


def _listed(metadata: str) -> str:
    """Metadata of a named sharding: always a list."""
    return metadata if metadata.startswith("{{") else f"{{{metadata}}}"


def _mesh(cursor: Cursor) -> tuple[str, list[str]]:
    """A mesh's canonical text and its axes."""
    kind = cursor.word()
    cursor.expect("[", f"after {kind}")
    axes: dict[str, int] = {}
    if kind == "maximal_mesh":
        if cursor.attribute_name() != "device_id":
            cursor.fail("expected device_id= attribute in maximal_mesh")
        text = f"maximal_mesh[device_id={cursor.integer()}]"
        cursor.expect("]")
        return text, []
    while not cursor.at("]"):
        at = cursor.pos
        if cursor.at_string():
            name = cursor.string()
            cursor.expect("=")
        else:
            name = cursor.attribute_name()
        if name in axes:
            cursor.fail(f"axis {name} is given twice", at)
        axes[name] = cursor.integer()
        if not cursor.accept(","):
            break
    cursor.expect("]", "to end mesh axes")
    text = "mesh[" + ",".join(f"{_quoted(n)}={size}" for n, size in axes.items()) + "]"
    start = cursor.pos
    if cursor.accept(",") and cursor.text.startswith("device_ids", cursor.pos):
        cursor.attribute_name()
        text += f", device_ids=({_device_ids(cursor, math.prod(axes.values()))})"
    else:
        cursor.pos = start
    return text, list(axes)


def _device_ids(cursor: Cursor, count: int) -> str:
    at = cursor.pos
    cursor.expect("(")
    if cursor.at("["):
        text = _iota_of(cursor, count)
        cursor.expect(")")
        return text
    cursor.pos = at
    return ",".join(map(str, cursor.ints("(", ")")))


def _axes(cursor: Cursor, known: list[str], *, open_too: bool = False, comma: str = ", ") -> str:
    """`{'x', 'y':(1)2, ?}`."""
    cursor.expect("{", "to start axes")
    out: list[str] = []
    while not cursor.at("}") or out:
        if open_too and cursor.accept("?"):
            out.append("?")
            break
        at = cursor.pos
        colon = False
        if cursor.at_string():
            name = cursor.string()
            colon = cursor.accept(":")
        else:
            name = cursor.name("axis name")
            colon = cursor.text[cursor.pos - 1] == ":" or cursor.at("(")
        if name not in known:
            cursor.fail(f"axis '{name}' is not in the mesh", at)
        text = _quoted(name)
        if colon:
            cursor.expect("(")
            text += f":({cursor.integer()}"
            cursor.expect(")")
            text += f"){cursor.integer()}"
        out.append(text)
        if not cursor.accept(","):
            break
    cursor.expect("}", "to end axes")
    return "{" + comma.join(out) + "}"


def _quoted(name: str) -> str:
    return f"'{name}'"


def metadata_list(cursor: Cursor) -> str:
    """`{op_name="a"}` or `{{op_name="a"}, {op_name="b"}}`, canonical text."""
    start = cursor.pos
    cursor.expect("{")
    several = cursor.at("{")
    if not several:
        cursor.pos = start
        return "{" + metadata_text(parse_metadata(cursor)) + "}"
    out: list[str] = []
    while True:
        out.append("{" + metadata_text(parse_metadata(cursor)) + "}")
        if not cursor.accept(","):
            break
    cursor.expect("}", "to end metadata list")
    return "{" + ", ".join(out) + "}" if len(out) > 1 else out[0]


class _Tiled:
    """One sharding of the second version: `devices=[2,1]<=[2]`, `maximal device=0`, ..."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.at = cursor.pos
        self.plain: list[str] = []
        self.tile: tuple[int, ...] = ()
        self.iota: Iota | None = None
        self.devices: tuple[int, ...] = ()
        self.subgroups: list[str] | None = None
        self.replicate_last = False
        self.group = ""
        self.metadata = ""

    def read(self) -> str:
        cursor = self.cursor
        while not cursor.accept("}"):
            word = cursor.peek_word()
            if word in _PLAIN:
                self.plain.append(cursor.word())
            elif word == "last_tile_dim_replicate":
                self.replicate_last = True
                cursor.word()
            elif word in ("shard_as", "shard_like"):
                self.group = f"{cursor.word()} {cursor.integer()}"
            else:
                self._attribute()
        return self._text()

    def _attribute(self) -> None:
        cursor, at = self.cursor, self.cursor.pos
        name = cursor.attribute_name()
        if name == "device":
            self.devices = (cursor.integer(),)
        elif name == "devices":
            self.tile = cursor.ints("[", "]")
            if cursor.accept("<="):
                self.iota = _iota_parts(cursor)
            else:
                devices = [cursor.integer()]
                while cursor.accept(","):
                    devices.append(cursor.integer())
                self.devices = tuple(devices)
        elif name == "last_tile_dims":
            self.subgroups = self._types()
        elif name == "metadata":
            self.metadata = self._metadata()
        else:
            cursor.fail(f"unknown attribute in sharding: {name}", at)

    def _types(self) -> list[str]:
        cursor = self.cursor
        out: list[str] = []
        cursor.expect("{", "to start sharding type list")
        while not cursor.at("}") or out:
            if cursor.peek_word() not in _SUBGROUPS:
                cursor.fail("expects a sharding type")
            out.append(cursor.word())
            if not cursor.accept(","):
                break
        cursor.expect("}", "to end sharding type list")
        return out

    def _metadata(self) -> str:
        return " metadata=" + metadata_list(self.cursor)

    def _text(self) -> str:
        cursor = self.cursor
        group = f" {self.group}" if self.group else ""
        tail = f"{group}{self.metadata}"
        for word in _PLAIN:
            if word not in self.plain:
                continue
            if word == "maximal":
                if len(self.devices) != 1:
                    cursor.fail("maximal shardings should have exactly one device assigned", self.at)
                return f"{{maximal device={self.devices[0]}{tail}}}"
            if self.devices:
                cursor.fail(f"{word} shardings should not have any devices assigned", self.at)
            return f"{{{word}{tail}}}"
        if not self.tile:
            cursor.fail("non-maximal shardings must have a tile assignment list including dimensions", self.at)
        if not self.iota and len(self.devices) <= 1:
            cursor.fail("non-maximal shardings must have more than one device assigned", self.at)
        count = math.prod(self.iota[0]) if self.iota else len(self.devices)
        types = list(self.subgroups or ()) + (["replicated"] if self.replicate_last else [])
        if count != math.prod(self.tile) or min(self.tile) < 1:
            cursor.fail(f"{count} devices do not match the tiles {_tile(self.tile)}", self.at)
        if len(types) > len(self.tile):
            cursor.fail("more subgroup types than dimensions", self.at)
        return self._tiled(types) + tail + "}"

    def _tiled(self, types: list[str]) -> str:
        """The text of a tiling without its end (HloSharding::Subgroup).

        Subgroups of one type are merged, those of size 1 dropped.
        """
        data = self.tile[: len(self.tile) - len(types)]
        sizes: dict[str, int] = {}
        for kind, size in zip(types, self.tile[len(data) :], strict=True):
            if size != 1:
                sizes[kind] = sizes.get(kind, 1) * size
        if types and math.prod(data) == 1 and len(sizes) <= 1:
            kind = next(iter(sizes), types[0])
            return f"{{{kind}"
        wanted = sorted(sizes, key=_SUBGROUP_ORDER.index)
        devices, iota = self.devices, self.iota
        if [t for t, s in zip(types, self.tile[len(data) :], strict=True) if s != 1] != [
            t for t in wanted for _ in range(types.count(t))
        ][: len(types)]:
            devices, iota = self._regrouped(types, data, wanted)
        tile = (*data, *(sizes[t] for t in wanted))
        if wanted == ["replicated"] or (wanted and wanted[-1] == "replicated" and not iota):
            iota, devices = _sorted_groups(iota, devices, tile[-1])
        shown = f"<={canonical_iota(*iota)}" if iota else ",".join(map(str, devices))
        last = ""
        if wanted == ["replicated"]:
            last = " last_tile_dim_replicate"
        elif wanted:
            last = " last_tile_dims={" + ", ".join(wanted) + "}"
        return f"{{devices={_tile(tile)}{shown}{last}"

    def _regrouped(
        self, types: list[str], data: tuple[int, ...], wanted: list[str]
    ) -> tuple[tuple[int, ...], Iota | None]:
        """The devices with the subgroups in another order.

        If possible, as another transpose of the iota.
        """
        count = math.prod(self.tile)
        order = [i for t in wanted for i, k in enumerate(types) if k == t] + [
            i for i, k in enumerate(types) if k not in wanted
        ]
        perm = (*range(len(data)), *(len(data) + i for i in order))
        moved = _transposed(self.iota, self.tile, perm) if self.iota else None
        if moved is not None:
            return (), moved
        if count > MAX_DEVICES:
            self.cursor.fail("too many devices", self.at)
        array = _iota_array(*self.iota) if self.iota else np.array(self.devices)
        return tuple(int(d) for d in array.reshape(self.tile).transpose(perm).reshape(-1)), None


_SUBGROUP_ORDER = ("maximal", "manual", "unreduced", "replicated")
MAX_DEVICES = 1 << 20
"""The most devices of a sharding that are listed explicitly."""

Iota = tuple[tuple[int, ...], tuple[int, ...]]


def _iota_array(dims: tuple[int, ...], perm: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.arange(math.prod(dims)).reshape(dims).transpose(perm).reshape(-1)


def _transposed(iota: Iota, tile: tuple[int, ...], perm: tuple[int, ...]) -> Iota | None:
    """The iota whose tiles are transposed, or None.

    Each tile dimension must be a run of the iota's own dimensions or of parts of them.
    """
    pieces = [[size] for size in iota[0]]  # how each dimension of the reshape is split
    axes = [(axis, 0) for axis in iota[1] if iota[0][axis] != 1]
    runs: list[list[tuple[int, int]]] = []
    for size in tile:
        run: list[tuple[int, int]] = []
        left = size
        while left > 1:
            axis, part = axes[0]
            whole = pieces[axis][part]
            if left % whole == 0:
                run.append(axes.pop(0))
                left //= whole
            elif whole % left == 0:
                pieces[axis][part : part + 1] = [left, whole // left]
                run.append((axis, part))
                axes[0] = (axis, part + 1)
                left = 1
            else:
                return None
        runs.append(run)
    places = {
        (axis, part): n for n, (axis, part) in enumerate((a, p) for a, ps in enumerate(pieces) for p in range(len(ps)))
    }
    dims = tuple(size for parts in pieces for size in parts)
    moved = [places[at] for d in perm for at in runs[d]]
    return dims, (*moved, *(n for n in range(len(dims)) if n not in moved))


def _sorted_groups(iota: Iota | None, devices: tuple[int, ...], size: int) -> tuple[Iota | None, tuple[int, ...]]:
    """Sort the devices in each group of `size` with the same data (HloSharding::PartialTile)."""
    if iota is None:
        return None, tuple(d for i in range(0, len(devices), size) for d in sorted(devices[i : i + size]))
    dims, perm = list(iota[0]), list(iota[1])
    taken, left = 0, size
    while left > 1:
        taken += 1
        at = perm[-taken]
        if left % dims[at] == 0:
            left //= dims[at]
        elif dims[at] % left == 0:
            # Part of this dimension belongs to the group: split it.
            dims[at : at + 1] = [dims[at] // left, left]
            perm = [p + (p > at) for p in perm]
            perm.insert(len(perm) - taken + 1, at + 1)
            left = 1
        else:
            array = _iota_array(*iota) if math.prod(dims) <= MAX_DEVICES else np.zeros(0, int)
            return None, tuple(int(d) for d in np.sort(array.reshape(-1, size), axis=1).reshape(-1))
    return (tuple(dims), (*perm[: len(perm) - taken], *sorted(perm[len(perm) - taken :]))), ()


def tuple_sharding(text: str, shape: Shape) -> str:
    """The sharding of a value of `shape` (NormalizeTupleSharding).

    For a tuple, a single sharding is repeated for every leaf.
    """
    if not isinstance(shape, TupleShape) or text.startswith("{{") or text == "{}":
        return text
    return "{" + ", ".join([text] * max(1, sum(1 for _ in shape.leaves()))) + "}"


def sharding_elements(text: str) -> list[str]:
    """The parts of a tuple's sharding, `{{..}, {..}}`."""
    parts, depth, start = [], 0, 0
    for at, c in enumerate(text):
        if c == "{":
            depth += 1
            if depth == 2:
                start = at
        elif c == "}":
            if depth == 2:
                parts.append(text[start : at + 1])
            depth -= 1
    return parts
