"""Shardings and replica groups in HLO text, read into XLA's canonical text (hlo_sharding.cc, replica_group.cc)."""

from __future__ import annotations

from xlanb.hlo.lexer import Cursor
from xlanb.shape import Shape, TupleShape


def parse_replica_groups(cursor: Cursor) -> str:
    """`{{0,1},{2,3}}`, `[2,4]<=[8]` or `[2,4]<=[4,2]T(1,0)`, canonical text."""
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
    return _tile(tiles) + iota_text(cursor)


def _tile(values: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, values)) + "]"


def iota_text(cursor: Cursor) -> str:
    """`<=[4,2]T(1,0)`, with dimensions of size 1 and transposes that change nothing left out as XLA does."""
    cursor.expect("<=")
    at = cursor.pos
    dims = cursor.ints("[", "]")
    if not dims:
        cursor.fail("expects non-empty iota_reshape_dims", at)
    perm: tuple[int, ...] = (0,)
    if len(dims) > 1:
        cursor.expect("T")
        at = cursor.pos
        perm = cursor.ints("(", ")")
        if sorted(perm) != list(range(len(dims))):
            cursor.fail("the transpose is no permutation", at)
    return "<=" + canonical_iota(dims, perm)


def canonical_iota(dims: tuple[int, ...], perm: tuple[int, ...]) -> str:
    """Merge neighbours that stay neighbours and drop sizes of 1 (IotaTileAssignment::Create)."""
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
    """The rest of one sharding behind its brace."""
    if cursor.peek_word() in ("mesh", "maximal_mesh"):
        return _named(cursor)
    return _Tiled(cursor).read()


def _named(cursor: Cursor) -> str:
    start = cursor.pos
    depth = 1
    while depth:
        if cursor.pos >= cursor.end:
            cursor.fail("expects '}' to end sharding attribute", start)
        char = cursor.text[cursor.pos]
        depth += (char == "{") - (char == "}")
        cursor.pos += 1
    text = cursor.text[start : cursor.pos - 1]
    cursor.skip()
    return "{" + text.strip() + "}"


class _Tiled:
    """One sharding of the second version: `devices=[2,1]<=[2]`, `maximal device=0`, `replicated`, ..."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.at = cursor.pos
        self.plain: list[str] = []
        self.tile: tuple[int, ...] = ()
        self.iota = ""
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
            if cursor.at("<="):
                self.iota = iota_text(cursor)
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
        text = self.cursor.json_dict()
        return " metadata=" + " ".join(text.split())

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
        last = ""
        if self.subgroups is not None and self.subgroups != []:
            last = " last_tile_dims={" + ", ".join(self.subgroups) + "}"
            if self.subgroups == ["replicated"]:
                last = " last_tile_dim_replicate"
        elif self.replicate_last:
            last = " last_tile_dim_replicate"
        devices = self.iota or ",".join(map(str, self.devices))
        return f"{{devices={_tile(self.tile)}{devices}{last}{tail}}}"


def tuple_sharding(text: str, shape: Shape) -> str:
    """The sharding of a value of `shape`: for a tuple, a single sharding stands for every leaf (NormalizeTupleSharding)."""
    if not isinstance(shape, TupleShape) or text.startswith("{{") or text == "{}":
        return text
    return "{" + ", ".join([text] * max(1, sum(1 for _ in shape.leaves()))) + "}"
