"""Keep the memory of freed large results for later results of the same size.

The C library returns large blocks to the system when they are freed. A training step frees as much
as it returns, so without this each call would wait for the system to map and clear its pages again.

Invariants
- Ownership: a block belongs to its caller from `take` to `give`. A kept block starts with a
  `_Block`; the rest of it has no defined contents.
- Threads: `lock` guards the lists and counts. A thread that does not get it at once calls malloc or
  free instead, so nothing waits, not even in a child that was forked while it was held.
- Memory: at most `limit` bytes are kept. The system may reclaim the pages of blocks beyond the
  first `RESIDENT` bytes when it needs memory, and all are freed when malloc finds none.
- Signals: none of this polls; every function runs to its end.
"""

from __future__ import annotations

import ctypes
import sys

from xlanb.codegen.function import Function
from xlanb.codegen.native import NativeFunction, NativeModule, NativeVariable, null
from xlanb.codegen.places import Fields, Place, word_at
from xlanb.codegen.types import I32, I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.runtime import system
from xlanb.cpu.runtime.system import is_null
from xlanb.lazy_dataclass import dataclass
from xlanb.memory import available_bytes

LIMIT = "xlanb.memory.limit"
"""The exported function that sets the most bytes to keep (0 at first) and frees those beyond."""
LEAST = 256 << 10
"""Bytes of the smallest block that is kept."""
RESIDENT = 64 << 20
"""Bytes that are kept without telling the system that it may reclaim them."""
_MOST = 4 << 30
_SHARE = 8
"""At most this fraction of the available memory is kept."""
_LISTS = 64
_HASH = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4)."""


class _Block(ctypes.Structure):
    """The start of a kept block: the next one in its list, and its size in bytes."""

    _fields_ = (("next", ctypes.c_void_p), ("size", ctypes.c_int64))


@dataclass(frozen=True)
class _Kept:
    """The variables: lists of blocks by a hash of their size, and where eviction continues."""

    lists: NativeVariable
    lock: NativeVariable
    total: NativeVariable
    limit: NativeVariable
    hand: NativeVariable

    @staticmethod
    def of(m: NativeModule) -> _Kept:
        """The variables of a module."""
        return _Kept(
            m.variable("kept.lists", PTR, _LISTS),
            m.variable("kept.lock", I32, 16),
            m.variable("kept.total", I64),
            m.variable("kept.limit", I64),
            m.variable("kept.hand", I64),
        )

    def is_locked(self, f: Function) -> Value:
        """Try to lock; i1: whether another thread holds the lock."""
        return self.lock(f).exchange(1, "acquire").differs(0)

    def unlock(self, f: Function) -> None:
        """Release the lock."""
        self.lock(f).store(0, "release")

    def head(self, f: Function, index: Value) -> Place:
        """The first block of a list."""
        return word_at(self.lists.address(f), index, PTR)

    def remove(self, f: Function, link: Place, block: Value) -> Value:
        """Take a block out of its list, given the link to it; return its size."""
        fields = Fields(block, _Block)
        link.store(fields["next"].load())
        size = fields["size"].load()
        self.total(f).store(self.total(f).load() - size)
        return size


def limit() -> int:
    """The number of bytes to keep on this machine."""
    if not sys.platform.startswith("linux"):
        return 0
    return min((available_bytes() or 0) // _SHARE, _MOST)


def write(m: NativeModule) -> tuple[NativeFunction, NativeFunction]:
    """Emit the functions; return `take(size)` and `give(block, size)`, as malloc and free."""
    kept = _Kept.of(m)
    evict = _write_evict(m, kept)

    @m.define(LIMIT, VOID, exported=True, count=I64)
    def set_limit(f: Function, count: Value) -> None:
        kept.limit(f).store(count)
        with f.when(~kept.is_locked(f)):
            evict(f, f.const(I64, 0))
            kept.unlock(f)

    return _write_take(m, kept, _write_release(m, kept)), _write_give(m, kept, evict)


def _write_evict(m: NativeModule, kept: _Kept) -> NativeFunction:
    @m.define("kept.evict", VOID, wanted=I64)
    def evict(f: Function, wanted: Value) -> None:
        """Free blocks, list after list, until `wanted` more bytes may be kept."""

        def is_full() -> Value:
            return (kept.total(f).load() + wanted).ugt(kept.limit(f).load())

        with f.rounds([], guard=is_full()) as loop:
            hand = kept.hand(f).load()
            head = kept.head(f, hand)
            block = head.load()
            with f.when(is_null(block)):
                kept.hand(f).store((hand + 1) & (_LISTS - 1))
            with f.when(~is_null(block)):
                kept.remove(f, head, block)
                f.call(VOID, "free", block)
            loop.again = is_full()

    return evict


def _write_release(m: NativeModule, kept: _Kept) -> NativeFunction:
    @m.define("kept.release", VOID)
    def release(f: Function) -> None:
        """Free all blocks."""
        with f.when(kept.is_locked(f)):
            f.give()
        with f.loop(f.const(I64, _LISTS)) as k:
            head = kept.head(f, f.value(k))
            first = head.load()
            with f.rounds([first], guard=~is_null(first)) as loop:
                block = loop.values[0]
                kept.remove(f, head, block)
                f.call(VOID, "free", block)
                following = head.load()
                loop.next, loop.again = [following], ~is_null(following)
        kept.unlock(f)

    return release


def _write_take(m: NativeModule, kept: _Kept, release: NativeFunction) -> NativeFunction:
    @m.define("kept.allocate", PTR, size=I64)
    def allocate(f: Function, size: Value) -> Value:
        """Call malloc; if it finds no memory, free what is kept and call it again."""
        block = f.call(PTR, "malloc", size)
        with f.when(~is_null(block)):
            f.give(block)
        release(f)
        return f.call(PTR, "malloc", size)

    @m.define("kept.take", PTR, size=I64)
    def take(f: Function, size: Value) -> Value:
        """A block of this size, or null if there is no memory."""
        with f.when(f.const(I64, LEAST).ugt(size)):
            f.give(f.call(PTR, "malloc", size))
        with f.when(kept.is_locked(f)):
            f.give(allocate(f, size))
        with f.rounds([kept.head(f, _list_of(size)).address]) as loop:
            link = Place(loop.values[0], PTR)
            block = link.load()
            with f.when(is_null(block)):
                kept.unlock(f)
                f.give(allocate(f, size))
            with f.when(Fields(block, _Block)["size"].load().equals(size)):
                kept.remove(f, link, block)
                kept.unlock(f)
                f.give(block)
            loop.next, loop.again = [Fields(block, _Block)["next"].address], system.yes(f)
        return null(f)

    return take


def _write_give(m: NativeModule, kept: _Kept, evict: NativeFunction) -> NativeFunction:
    @m.define("kept.give", VOID, block=PTR, size=I64)
    def give(f: Function, block: Value, size: Value) -> None:
        """Keep a block that nothing uses any more, or free it."""
        with f.when(f.const(I64, LEAST).ugt(size) | size.ugt(kept.limit(f).load())):
            f.call(VOID, "free", block)
            f.give()
        with f.when(kept.is_locked(f)):
            f.call(VOID, "free", block)
            f.give()
        evict(f, size)
        head = kept.head(f, _list_of(size))
        fields = Fields(block, _Block)
        fields["next"].store(head.load())
        fields["size"].store(size)
        head.store(block)
        total = kept.total(f).load() + size
        kept.total(f).store(total)
        with f.when(total.ugt(RESIDENT)):
            system.advise_free(f, block, size, ctypes.sizeof(_Block))
        kept.unlock(f)

    return give


def _list_of(size: Value) -> Value:
    """The list that blocks of a size are in."""
    return (size * _HASH).lshr(64 - (_LISTS - 1).bit_length())
