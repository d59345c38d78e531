"""The cache of compiled clusters (TensorFlow's XlaCompilationCache): one executable per function and signature."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlanb.cpu.executable import Executable
from xlanb.tf2xla.compiler import Argument, CompilationResult

Signature = tuple[Any, ...]


@dataclass(slots=True)
class Entry:
    """One compiled function: what tf2xla made, the executable, the compilation's key, seconds it took, and how often it was found again."""

    result: CompilationResult
    executable: Executable
    compilation: int
    seconds: float
    hits: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def signature_of(function: str, arguments: Sequence[Argument]) -> Signature:
    """What decides whether a compiled function fits: its text, each argument's kind, shape and dtype, and constants by value."""
    return (function, *((a.kind, a.shape, None if a.value is None else _bits(a.value)) for a in arguments))


def describe(name: str, arguments: Sequence[Argument]) -> str:
    """A signature for people: "cluster_0(f32[], f32[100], const s32[2])"."""
    parts = [f"const {a.shape}" if a.kind == "constant" else str(a.shape) for a in arguments]
    return f"{name}({', '.join(parts)})"


def _bits(value: Any) -> bytes:
    return np.asarray(value).tobytes()


class CompilationCache:
    """Entries by signature, the least recently used dropped beyond `capacity`; safe with threads."""

    def __init__(self, capacity: int = 256) -> None:
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[Signature, Entry] = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, signature: Signature) -> Entry | None:
        """The entry, None if it was never made or was dropped; counts a hit or a miss."""
        with self._lock:
            entry = self._entries.get(signature)
            if entry is None:
                self.misses += 1
                return None
            self.hits += 1
            entry.hits += 1
            self._entries.move_to_end(signature)
            return entry

    def store(self, signature: Signature, entry: Entry) -> None:
        """Keep an entry."""
        with self._lock:
            self._entries[signature] = entry
            while len(self._entries) > self.capacity:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        """Forget every entry; the counts stay."""
        with self._lock:
            self._entries.clear()
