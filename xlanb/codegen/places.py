"""Single words in memory: plain, volatile and atomic access, and fields of C structures.

A structure is described once, as a `ctypes.Structure`, so that Python and emitted code use the same
layout. Orderings are LLVM's: monotonic, acquire, release, acq_rel, seq_cst.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from xlanb.codegen.types import I1, I8, I32, I64, PTR, Type
from xlanb.codegen.values import Value
from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from xlanb.codegen.function import Function

_TYPES: dict[object, Type] = {
    ctypes.c_void_p: PTR, ctypes.c_char_p: PTR, ctypes.c_int64: I64, ctypes.c_ssize_t: I64, ctypes.c_uint64: I64,
    ctypes.c_int32: I32, ctypes.c_uint32: I32, ctypes.c_uint8: I8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """One value of a scalar type at an address; accesses with an ordering are atomic."""

    address: Value
    type: Type

    @property
    def _f(self) -> Function:
        return self.address.function

    def load(self, ordering: str = "") -> Value:
        """Load the value."""
        atomic = f"load atomic {self.type.text}, {self.address!r} {ordering}" if ordering else ""
        text = atomic or f"load {self.type.text}, {self.address!r}"
        return self._f.let(self.type, f"{text}, align {self.type.bytes}")

    def load_volatile(self) -> Value:
        """Load the current value, which another thread may change."""
        return self._f.let(self.type, f"load volatile {self.type.text}, {self.address!r}, align {self.type.bytes}")

    def store(self, value: Value | int, ordering: str = "") -> None:
        """Store the value."""
        atomic = "atomic " if ordering else ""
        order = f" {ordering}" if ordering else ""
        given = self._operand(value)
        self._f.write(f"store {atomic}{given!r}, {self.address!r}{order}, align {self.type.bytes}")

    def exchange(self, value: Value | int, ordering: str = "seq_cst") -> Value:
        """Store the value; return the previous one."""
        return self._modify("xchg", value, ordering)

    def add(self, value: Value | int, ordering: str = "seq_cst") -> Value:
        """Add to an integer; return the previous value."""
        return self._modify("add", value, ordering)

    def sub(self, value: Value | int, ordering: str = "seq_cst") -> Value:
        """Subtract from an integer; return the previous value."""
        return self._modify("sub", value, ordering)

    def _modify(self, operation: str, value: Value | int, ordering: str) -> Value:
        given = self._operand(value)
        return self._f.let(self.type, f"atomicrmw {operation} {self.address!r}, {given!r} {ordering}")

    def compare_exchange(self, expected: Value | int, new: Value | int) -> tuple[Value, Value]:
        """Store the value if the current one is as expected.

        Returns the previous value and an i1, whether it was stored.
        """
        f, kind = self._f, f"{{ {self.type.text}, i1 }}"
        pair = f.fresh("pair")
        given = f"{self.address!r}, {self._operand(expected)!r}, {self._operand(new)!r}"
        f.write(f"{pair} = cmpxchg {given} acq_rel acquire")
        former, was_set = (f"extractvalue {kind} {pair}, {k}" for k in (0, 1))
        return f.let(self.type, former), f.let(I1, was_set)

    def _operand(self, value: Value | int) -> Value:
        return value if isinstance(value, Value) else self._f.const(self.type, value)


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a C structure at an address: `fields["name"]`."""

    base: Value
    layout: type[ctypes.Structure]

    def __getitem__(self, name: str) -> Place:
        type_ = next(_TYPES[t] for field, t, *_ in self.layout._fields_ if field == name)
        return Place(displaced(self.base, getattr(self.layout, name).offset), type_)


def displaced(address: Value, offset: Value | int) -> Value:
    """An address plus an offset in bytes, which may be negative."""
    f = address.function
    if isinstance(offset, int) and offset == 0:
        return address
    return f.let(PTR, f"getelementptr i8, {address!r}, {f.value(offset)!r}")


def word_at(table: Value, index: Value | int, type_: Type = I64) -> Place:
    """Element `index` of an array of words."""
    f = table.function
    return Place(f.let(PTR, f"getelementptr {type_.text}, {table!r}, {f.value(index)!r}"), type_)


def fence(f: Function) -> None:
    """A full fence: no access before it is reordered with one after it."""
    f.write("fence seq_cst")
