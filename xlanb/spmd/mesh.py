"""Mesh: the devices as a grid with named axes, in Shardy's text (shardy/dialect/sdy/ir/attrs.td).

#sdy.mesh<["data"=4, "model"=2]>                      eight devices in order
#sdy.mesh<["a"=2, "b"=2], device_ids=[0, 2, 1, 3]>    four devices in another order
#sdy.mesh<[], device_ids=[3]>                         a single device
"""

from __future__ import annotations

import math
import re
from functools import cached_property

import numpy as np
import numpy.typing as npt

from xlanb.display import Displayable
from xlanb.errors import XlanbError
from xlanb.lazy_dataclass import dataclass
from xlanb.patterns import pattern

_MESH = pattern(r"(?:#sdy\.mesh|mesh)?<\[(?P<axes>[^\]]*)\](?:,\s*device_ids\s*=\s*\[(?P<ids>[^\]]*)\])?>")
_AXIS = pattern(r'"((?:[^"\\]|\\.)*)"\s*=\s*(\d+)')


@dataclass(frozen=True)
class Mesh(Displayable):
    """A named grid of devices.

    Attributes:
        axes: (name, size), slowest first.
        device_ids: the devices in that order; empty for 0, 1, 2, ...
    """

    name: str
    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...] = ()

    @staticmethod
    def parse(name: str, text: str) -> Mesh:
        """Parse a mesh from Shardy's text.

        Raises:
            XlanbError: the text is not a mesh.
        """
        found = _MESH.fullmatch(text.strip())
        if not found:
            raise XlanbError(f"the mesh {name} is not of the form #sdy.mesh<[...]>: {text}")
        axes = tuple((n, int(size)) for n, size in _AXIS.findall(found["axes"]))
        ids = tuple(int(d) for d in found["ids"].split(",")) if found["ids"] else ()
        if ids == tuple(range(math.prod(size for _, size in axes))) and axes:
            ids = ()
        return Mesh(name, axes, ids)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of each axis by its name."""
        return dict(self.axes)

    def size(self, axis: str) -> int:
        """Return the size of an axis.

        Raises:
            XlanbError: there is no such axis.
        """
        if axis not in self.sizes:
            raise XlanbError(f'the mesh {self.name} has no axis "{axis}", only {", ".join(self.sizes) or "none"}')
        return self.sizes[axis]

    def index(self, axis: str) -> int:
        """Return the position of an axis in the mesh."""
        self.size(axis)
        return list(self.sizes).index(axis)

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return math.prod(size for _, size in self.axes)

    @property
    def is_maximal(self) -> bool:
        """Whether it is a single device without axes."""
        return not self.axes and len(self.device_ids) == 1

    @cached_property
    def devices(self) -> npt.NDArray[np.int64]:
        """The device at each position of the grid."""
        shape = tuple(size for _, size in self.axes)
        ids = self.device_ids or range(self.num_devices)
        return np.array(ids, np.int64).reshape(shape)

    def __str__(self) -> str:
        axes = ", ".join(f'"{n}"={size}' for n, size in self.axes)
        ids = f", device_ids=[{', '.join(map(str, self.device_ids))}]" if self.device_ids else ""
        return f"#sdy.mesh<[{axes}]{ids}>"


def parse_meshes(text: str) -> dict[str, Mesh]:
    """Parse the meshes of a module's frontend attribute `xla.sdy.meshes`.

    The text is `{mesh = #sdy.mesh<["x"=4]>, ...}`, plain or as JAX quotes it.

    Raises:
        XlanbError: the text does not have that form.
    """
    plain = text.replace('\\"', '"').replace("\\22", '"').strip()
    if not (plain.startswith("{") and plain.endswith("}")):
        raise XlanbError(f"meshes have the form {{name = #sdy.mesh<...>, ...}}, not {text}")
    out: dict[str, Mesh] = {}
    for found in re.finditer(
        r'(?:"([^"]+)"|([\w.$-]+))\s*=\s*(#sdy\.mesh<\[[^\]]*\](?:,\s*device_ids\s*=\s*\[[^\]]*\])?>)', plain
    ):
        name = found[1] or found[2]
        out[name] = Mesh.parse(name, found[3])
    return out
