"""Keep the memory of freed large results for later results of the same size.

The C library returns large blocks to the system when they are freed. A training step frees as much
as it returns, so without this each call would wait for the system to map and clear its pages again.

Invariants
- Ownership: a block belongs to its caller from `take` to `give`. A kept block starts with a
  `_Block`; the rest of it has no defined contents.
- Order: kept blocks form a list from the oldest to the newest, the last that was given. `warm` is
  the oldest of those whose pages the system must leave alone; null if there is none.
- Threads: `lock` guards the lists and counts. A thread that does not get it at once calls malloc or
  free instead, so nothing waits, not even in a child that was forked while it was held.
- Memory: at most `limit` bytes are kept, the newest. When a block is given, the system may from
  then on reclaim the pages of those that were not taken for `IDLE_NS`. All are freed when malloc
  finds no memory. Source of the method: jemalloc, whose unused pages decay in the same time.
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
IDLE = "xlanb.memory.idle"
"""The exported function that sets the nanoseconds after which pages may be reclaimed."""
LEAST = 256 << 10
"""Bytes of the smallest block that is kept."""
IDLE_NS = 10_000_000_000
"""Nanoseconds after which the system may reclaim the pages of a kept block.

Pages that it may reclaim cost as much to write again as new ones (1 MB: 150 us).
"""
_MOST = 4 << 30
_SHARE = 8
"""At most this fraction of the available memory is kept."""
_LISTS = 64
_HASH = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, 6.4)."""


class _Block(ctypes.Structure):
    """The start of a kept block.

    It has the next block in its list, its size in bytes, its neighbours in the order of age, and
    when it was given in nanoseconds.
    """

    _fields_ = (
        ("next", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("older", ctypes.c_void_p),
        ("newer", ctypes.c_void_p),
        ("given", ctypes.c_int64),
    )


@dataclass(frozen=True)
class _Kept:
    """The variables: lists of blocks by a hash of their size, and the order of age."""

    lists: NativeVariable
    lock: NativeVariable
    total: NativeVariable
    limit: NativeVariable
    idle: NativeVariable
    oldest: NativeVariable
    newest: NativeVariable
    warm: NativeVariable

    @staticmethod
    def of(m: NativeModule) -> _Kept:
        """The variables of a module."""
        return _Kept(
            m.variable("kept.lists", PTR, _LISTS),
            m.variable("kept.lock", I32, 16),
            m.variable("kept.total", I64),
            m.variable("kept.limit", I64),
            m.variable("kept.idle", I64, first=IDLE_NS),
            m.variable("kept.oldest", PTR),
            m.variable("kept.newest", PTR),
            m.variable("kept.warm", PTR),
        )

    def is_locked(self, f: Function) -> Value:
        """Try to lock; i1: whether another thread holds the lock."""
        return self.lock(f).exchange(1, "acquire").differs(0)

    def unlock(self, f: Function) -> None:
        """Release the lock."""
        self.lock(f).store(0, "release")

    def head(self, f: Function, size: Value) -> Place:
        """The first block of the list for a size."""
        index = (size * _HASH).lshr(64 - (_LISTS - 1).bit_length())
        return word_at(self.lists.address(f), index, PTR)

    def remove(self, f: Function, link: Place, block: Value) -> None:
        """Take a block out of its list, given the link to it, and out of the order of age."""
        fields = Fields(block, _Block)
        link.store(fields["next"].load())
        self.total(f).store(self.total(f).load() - fields["size"].load())
        older, newer = fields["older"].load(), fields["newer"].load()
        with f.when(self.warm(f).load().equals(block)):
            self.warm(f).store(newer)
        for neighbour, field, end, other in (
            (older, "newer", self.oldest, newer),
            (newer, "older", self.newest, older),
        ):
            with f.when(is_null(neighbour)):
                end(f).store(other)
            with f.when(~is_null(neighbour)):
                Fields(neighbour, _Block)[field].store(other)

    def append(self, f: Function, block: Value, size: Value, now: Value) -> None:
        """Put a block into its list and to the end of the order of age."""
        fields, head, newest = Fields(block, _Block), self.head(f, size), self.newest(f).load()
        fields["next"].store(head.load())
        head.store(block)
        fields["size"].store(size)
        fields["given"].store(now)
        fields["older"].store(newest)
        fields["newer"].store(null(f))
        with f.when(is_null(newest)):
            self.oldest(f).store(block)
        with f.when(~is_null(newest)):
            Fields(newest, _Block)["newer"].store(block)
        self.newest(f).store(block)
        with f.when(is_null(self.warm(f).load())):
            self.warm(f).store(block)
        self.total(f).store(self.total(f).load() + size)


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
            evict(f, count)
            kept.unlock(f)

    @m.define(IDLE, VOID, exported=True, time=I64)
    def set_idle(f: Function, time: Value) -> None:
        kept.idle(f).store(time)

    return _write_take(m, kept, evict), _write_give(m, kept, evict, _write_cool(m, kept))


def _write_evict(m: NativeModule, kept: _Kept) -> NativeFunction:
    @m.define("kept.evict", VOID, most=I64)
    def evict(f: Function, most: Value) -> None:
        """Free the oldest blocks until at most `most` bytes are kept."""

        def is_full() -> Value:
            return kept.total(f).load().ugt(most)

        with f.rounds([], guard=is_full()) as loop:
            block = kept.oldest(f).load()
            head = kept.head(f, Fields(block, _Block)["size"].load())
            with f.rounds([head.address], guard=head.load().differs(block)) as search:
                following = Fields(Place(search.values[0], PTR).load(), _Block)["next"]
                search.next, search.again = [following.address], following.load().differs(block)
            kept.remove(f, Place(search.values[0], PTR), block)
            f.call(VOID, "free", block)
            loop.again = is_full()

    return evict


def _write_cool(m: NativeModule, kept: _Kept) -> NativeFunction:
    @m.define("kept.cool", VOID, now=I64)
    def cool(f: Function, now: Value) -> None:
        """Let the system reclaim the pages of blocks that nobody took for long."""
        since = now - kept.idle(f).load()

        def is_idle(block: Value) -> Value:
            return Fields(block, _Block)["given"].load() < since

        with f.rounds([], guard=~is_null(kept.warm(f).load())) as loop:
            block = kept.warm(f).load()
            with f.when(~is_idle(block)):
                f.give()
            fields = Fields(block, _Block)
            system.advise_free(f, block, fields["size"].load(), ctypes.sizeof(_Block))
            following = fields["newer"].load()
            kept.warm(f).store(following)
            loop.again = ~is_null(following)

    return cool


def _write_take(m: NativeModule, kept: _Kept, evict: NativeFunction) -> NativeFunction:
    @m.define("kept.allocate", PTR, size=I64)
    def allocate(f: Function, size: Value) -> Value:
        """Call malloc; if it finds no memory, free what is kept and call it again."""
        block = f.call(PTR, "malloc", size)
        with f.when(~is_null(block)):
            f.give(block)
        with f.when(~kept.is_locked(f)):
            evict(f, f.const(I64, 0))
            kept.unlock(f)
        return f.call(PTR, "malloc", size)

    @m.define("kept.take", PTR, size=I64)
    def take(f: Function, size: Value) -> Value:
        """A block of this size, or null if there is no memory."""
        with f.when(f.const(I64, LEAST).ugt(size)):
            f.give(f.call(PTR, "malloc", size))
        with f.when(kept.is_locked(f)):
            f.give(allocate(f, size))
        with f.rounds([kept.head(f, size).address]) as loop:
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


def _write_give(m: NativeModule, kept: _Kept, evict: NativeFunction, cool: NativeFunction) -> NativeFunction:
    @m.define("kept.give", VOID, block=PTR, size=I64)
    def give(f: Function, block: Value, size: Value) -> None:
        """Keep a block that nothing uses any more, or free it."""
        with f.when(f.const(I64, LEAST).ugt(size) | size.ugt(kept.limit(f).load())):
            f.call(VOID, "free", block)
            f.give()
        with f.when(kept.is_locked(f)):
            f.call(VOID, "free", block)
            f.give()
        evict(f, kept.limit(f).load() - size)
        now = system.now(f, system.MONOTONIC_COARSE)
        kept.append(f, block, size, now)
        cool(f, now)
        kept.unlock(f)

    return give
