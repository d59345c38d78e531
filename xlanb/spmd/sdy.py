"""Shardings by mesh axes, in Shardy's text (shardy/dialect/sdy/ir/attrs.td).

    #sdy.sharding<@mesh, [{"data"}, {"model":(1)2, ?}p1], replicated={"x"}, unreduced={"y"}>
    #sdy.sharding_per_value<[<@mesh, [{}]>, <@mesh, [{"x"}]>]>

`"model"` is a whole axis, `"model":(1)2` a sub-axis: after a part of size 1, of size 2. A dimension
is closed, or open (`?`) to further axes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import NoReturn

from xlanb.errors import XlanbError
from xlanb.lazy_dataclass import dataclass
from xlanb.patterns import pattern
from xlanb.spmd.mesh import Mesh

SHARDING = "xla.sdy.sharding"
MESHES = "xla.sdy.meshes"


@dataclass(frozen=True, slots=True)
class AxisRef:
    """A mesh axis or a sub-axis.

    A sub-axis of size `sub_size` follows larger parts of size `pre_size`. A `sub_size` of 0 is the
    whole axis.
    """

    name: str
    pre_size: int = 1
    sub_size: int = 0

    def size(self, mesh: Mesh) -> int:
        """Number of devices along it."""
        return self.sub_size or mesh.size(self.name)

    @property
    def is_sub_axis(self) -> bool:
        """Whether it is only a part of an axis."""
        return bool(self.sub_size)

    def next_pre_size(self, mesh: Mesh) -> int:
        """Return the `pre_size` of the sub-axis that follows."""
        return self.pre_size * self.size(mesh)

    def __str__(self) -> str:
        return f'"{self.name}":({self.pre_size}){self.sub_size}' if self.sub_size else f'"{self.name}"'


@dataclass(frozen=True, slots=True)
class DimensionSharding:
    """The sharding of one dimension.

    Attributes:
        axes: the axes that split it, slowest first.
        is_closed: whether no more axes may be added.
        priority: the user's priority; None counts as 0, the first.
    """

    axes: tuple[AxisRef, ...] = ()
    is_closed: bool = True
    priority: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it names no axis."""
        return not self.axes

    def size(self, mesh: Mesh) -> int:
        """Return the number of parts."""
        size = 1
        for axis in self.axes:
            size *= axis.size(mesh)
        return size

    def __str__(self) -> str:
        parts = [*map(str, self.axes), *([] if self.is_closed else ["?"])]
        return "{" + ", ".join(parts) + "}" + ("" if self.priority is None else f"p{self.priority}")


@dataclass(frozen=True, slots=True)
class TensorSharding:
    """How an array is sharded over a mesh.

    Attributes:
        mesh: the name of the mesh.
        dims: one DimensionSharding per dimension.
        replicated: axes that must stay replicated.
        unreduced: axes along which a sum is still pending.
    """

    mesh: str
    dims: tuple[DimensionSharding, ...]
    replicated: tuple[AxisRef, ...] = ()
    unreduced: tuple[AxisRef, ...] = ()

    @staticmethod
    def fully_closed(mesh: str, rank: int) -> TensorSharding:
        """Return a sharding without axes that accepts none."""
        return TensorSharding(mesh, (DimensionSharding(),) * rank)

    @staticmethod
    def fully_open(mesh: str, rank: int) -> TensorSharding:
        """Return a sharding without axes that accepts any."""
        return TensorSharding(mesh, (DimensionSharding(is_closed=False),) * rank)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @property
    def is_fully_closed(self) -> bool:
        """Whether no dimension is open."""
        return all(d.is_closed for d in self.dims)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether no dimension is split."""
        return not any(d.axes for d in self.dims)

    @property
    def empty_axes(self) -> bool:
        """Whether it names no axis."""
        return self.is_fully_replicated and not self.replicated and not self.unreduced

    def closed(self) -> TensorSharding:
        """Return it with each dimension closed, without priorities."""
        return replace(self, dims=tuple(DimensionSharding(d.axes) for d in self.dims))

    def opened(self) -> TensorSharding:
        """Return it with each dimension open."""
        return replace(self, dims=tuple(replace(d, is_closed=False) for d in self.dims))

    def with_dim(self, number: int, dim: DimensionSharding) -> TensorSharding:
        """Return it with one dimension's sharding replaced."""
        return replace(self, dims=(*self.dims[:number], dim, *self.dims[number + 1 :]))

    def without_axes(self, names: Iterable[str]) -> TensorSharding:
        """Return it without these axes."""
        gone = frozenset(names)
        dims = tuple(replace(d, axes=tuple(a for a in d.axes if a.name not in gone)) for d in self.dims)
        return TensorSharding(
            self.mesh,
            dims,
            tuple(a for a in self.replicated if a.name not in gone),
            tuple(a for a in self.unreduced if a.name not in gone),
        )

    def local_dimensions(self, dimensions: Sequence[int], mesh: Mesh) -> tuple[int, ...]:
        """Return the sizes of a device's part, the largest if they differ."""
        return tuple(-(-size // d.size(mesh)) for size, d in zip(dimensions, self.dims, strict=True))

    def __str__(self) -> str:
        return f"#sdy.sharding{self.text}"

    @property
    def text(self) -> str:
        """`<@mesh, [...]>`, as in a list of shardings."""
        tail = "".join(
            f", {word}={{{', '.join(map(str, axes))}}}"
            for word, axes in (("replicated", self.replicated), ("unreduced", self.unreduced))
            if axes
        )
        return f"<@{self.mesh}, [{', '.join(map(str, self.dims))}]{tail}>"


_TOKEN = pattern(
    r'\s*(?P<text>#sdy\.\w+|#sdy|"(?:[^"\\]|\\.)*"|@"[^"]*"|@[\w.$-]+|-?\d+|mesh|[A-Za-z_]\w*|[<>\[\]{}(),:=?])'
)


class _TokenReader:
    """Reads the tokens of a sharding."""

    def __init__(self, text: str, meshes: MutableMapping[str, Mesh] | None) -> None:
        self.source = text
        plain = text.replace('\\"', '"').replace("\\22", '"')
        self.tokens = [m["text"] for m in _TOKEN.finditer(plain)]
        if "".join(self.tokens) != re.sub(r"\s+(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", "", plain):
            self.fail("an unknown token")
        self.at = 0
        self.meshes = meshes

    def fail(self, why: str) -> NoReturn:
        raise XlanbError(f"not a Shardy sharding ({why}): {self.source}")

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"expected {token!r}, got {self.peek()!r}")

    def end(self) -> None:
        if self.peek():
            self.fail(f"unexpected {self.peek()!r} after the end")

    def integer(self) -> int:
        token = self.next()
        if not token.isdigit():
            self.fail(f"expected a number, got {token!r}")
        return int(token)

    def sharding(self) -> TensorSharding:
        self.expect("<")
        mesh = self._mesh()
        self.expect(",")
        self.expect("[")
        dims: list[DimensionSharding] = []
        while not self.accept("]"):
            dims.append(self._dimension())
            self.accept(",")
        found: dict[str, tuple[AxisRef, ...]] = {}
        while self.accept(","):
            word = self.next()
            if word not in ("replicated", "unreduced"):
                self.fail(f"expected replicated or unreduced, got {word!r}")
            self.expect("=")
            found[word] = self.axes()[0]
        self.expect(">")
        return TensorSharding(mesh, tuple(dims), found.get("replicated", ()), found.get("unreduced", ()))

    def _mesh(self) -> str:
        token = self.next()
        if token.startswith("@"):
            return token[1:].strip('"')
        if token not in ("mesh", "#sdy.mesh"):
            self.fail(f"expected a mesh, got {token!r}")
        start = self.at
        while self.peek() and not self.accept(">"):
            self.at += 1
        text = "".join(self.tokens[start : self.at])
        if self.meshes is None:
            self.fail("an inline mesh is not allowed here, only a mesh name")
        made = Mesh.parse("", f"#sdy.mesh{text}")
        for name, known in self.meshes.items():
            if (known.axes, known.device_ids) == (made.axes, made.device_ids):
                return name
        name = _free_name(self.meshes)
        self.meshes[name] = Mesh(name, made.axes, made.device_ids)
        return name

    def _dimension(self) -> DimensionSharding:
        axes, closed = self.axes()
        token = self.peek()
        if re.fullmatch(r"p\d+", token):
            self.at += 1
            return DimensionSharding(axes, closed, int(token[1:]))
        return DimensionSharding(axes, closed)

    def axes(self) -> tuple[tuple[AxisRef, ...], bool]:
        """Read axes in braces; return them and whether the list is closed."""
        self.expect("{")
        out: list[AxisRef] = []
        closed = True
        while not self.accept("}"):
            if self.accept("?"):
                closed = False
            else:
                out.append(self._axis())
            self.accept(",")
        return tuple(out), closed

    def _axis(self) -> AxisRef:
        token = self.next()
        if not token.startswith('"'):
            self.fail(f"expected an axis, got {token!r}")
        name = token[1:-1]
        if not self.accept(":"):
            return AxisRef(name)
        self.expect("(")
        pre = self.integer()
        self.expect(")")
        return AxisRef(name, pre, self.integer())


def _free_name(meshes: Mapping[str, Mesh]) -> str:
    name, number = "mesh", 0
    while name in meshes:
        name, number = f"mesh_{number}", number + 1
    return name


def parse_sharding(text: str, meshes: MutableMapping[str, Mesh] | None = None) -> TensorSharding:
    """Parse `#sdy.sharding<...>`; a mesh written inline is added to `meshes`.

    Raises:
        XlanbError: the text is not a sharding.
    """
    reader = _TokenReader(text, meshes)
    reader.accept("#sdy.sharding")
    made = reader.sharding()
    reader.end()
    return made


def parse_shardings(text: str, meshes: MutableMapping[str, Mesh] | None = None) -> tuple[TensorSharding, ...]:
    """Parse `#sdy.sharding_per_value<[...]>`, or a single `#sdy.sharding<...>`.

    Raises:
        XlanbError: the text is neither.
    """
    reader = _TokenReader(text, meshes)
    if not reader.accept("#sdy.sharding_per_value"):
        return (parse_sharding(text, meshes),)
    reader.expect("<")
    reader.expect("[")
    out: list[TensorSharding] = []
    while not reader.accept("]"):
        out.append(reader.sharding())
        reader.accept(",")
    reader.expect(">")
    reader.end()
    return tuple(out)


def parse_manual_axes(text: str) -> tuple[str, ...]:
    """Parse `#sdy<manual_axes{"x", "y"}>`.

    Raises:
        XlanbError: the text does not have that form.
    """
    found = re.fullmatch(r"#sdy<manual_axes\{(.*)\}>", text.replace('\\"', '"').replace("\\22", '"').strip())
    if not found:
        raise XlanbError(f"not a list of manual axes, #sdy<manual_axes{{...}}>: {text}")
    return tuple(re.findall(r'"([^"]*)"', found[1]))


def shardings_text(shardings: Sequence[TensorSharding]) -> str:
    """Return `#sdy.sharding_per_value<[...]>` of several values."""
    return f"#sdy.sharding_per_value<[{', '.join(s.text for s in shardings)}]>"
