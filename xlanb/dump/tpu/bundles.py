"""Read the VLIW programs of a TPU's TensorCore from LLO dumps: one bundle issues per cycle.

     0x5   :  { %v81 = vmul.f32 %v80, %v77  ;;  %5292 = vmatpush.bf16.msra.mxu0 %v5287 } /* Start
     ... */
    0xa0 LB: > { %s748_s1 = sld [smem:[#allocation33]]  ;;  %139 = sbr.rel (!%p137_p3) target = ...
    }

`>` marks the body of a loop, once for each enclosing loop; LB, PF, ... say what jumps there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from xlanb.errors import DumpError

UNITS: Final = ("MXU", "XLU", "VALU", "EUP", "VPOP", "VLOAD", "VSTORE", "SALU", "DMA", "BRANCH", "OTHER")
"""Columns for instructions."""

UNIT_WORDS: Final = {
    "MXU": "matrix unit: push weights, multiply",
    "XLU": "cross-lane unit: transpose, rotate, permute, reduce over lanes",
    "VALU": "vector arithmetic, 8 x 128 lanes",
    "EUP": "transcendentals: tanh, exp2, reciprocal",
    "VPOP": "pop a result of the MXU, XLU or EUP from its queue",
    "VLOAD": "load vector registers from VMEM",
    "VSTORE": "store vector registers to VMEM",
    "SALU": "scalar arithmetic, scalar memory, predicates",
    "DMA": "copies between memories, synchronization, tracing",
    "BRANCH": "branches and calls of other programs",
    "OTHER": "not a machine instruction: operands, scheduling barriers",
}

LABELS: Final = {
    "LH": "loop header",
    "LB": "loop body",
    "LE": "loop exit",
    "PB": "predicated region body",
    "PF": "predicated region fallthrough",
    "CT": "control target",
}

MAX_CHARACTERS: Final = 64 << 20
"""The most characters of a program's text; libtpu's longest programs have some megabytes."""

# The unit of an instruction, by its mnemonic; the first match counts.
_UNIT_OF = (
    ("VPOP", re.compile(r"vpop\b|vpop\.|2?pop\.|spop")),
    (
        "OTHER",
        re.compile(r"inlined_call_operand|compiler-|scalar_parameter|reloc|int_to_ptr|sphi|vphi|xla_tuple|vector_type"),
    ),
    ("MXU", re.compile(r"vmat(mul|push|prep|res)|vdwg|vllmr|vgmr")),
    ("XLU", re.compile(r"vxpose|vperm|vrot|vbcast|vset\.pattern|vpush|vcombine|v\w+\.xlane")),
    ("EUP", re.compile(r"v(tanh|exp2|pow2|rcp|rsqrt|log2|erf|sigshft|sinq|cosq)\b")),
    ("VLOAD", re.compile(r"(vld|cld)\b")),
    ("VSTORE", re.compile(r"(vst|cst)(?!v)\b")),
    ("DMA", re.compile(r"dma\b|vsync|vwait|[sc]fence|vdelay|vsettm|v?trace|vint|vsetrng|vsetiar")),
    ("BRANCH", re.compile(r"sbr\b|scall|inlined_call|call|ret\b|shalt")),
    ("SALU", re.compile(r"[sp][a-z]|reg_")),
    ("VALU", re.compile(r"v")),
)

_DIGITS = 10  # of the number of a region

_HEAD = re.compile(
    r"^[ \t]*(?P<address>0x[0-9a-f]{1,8}|0)[ \t]+(?:(?P<label>[A-Z]{2})[ \t]*)?:[ \t]*(?P<loops>>*)[ \t]*\{",
    re.MULTILINE,
)
_MNEMONIC = re.compile(r"(?:[^=\s][^=]{0,400}?=\s+)?(?P<name>[A-Za-z0-9_][\w.-]*)")
_PREDICATE = re.compile(r"\((!?%p\w+)\)")
_TARGET = re.compile(r"\btarget = \$region(\d+)")
_STARTS = re.compile(r"Start(?:/End empty)? region (\d+)")
_CALLED = re.compile(r"%(\S+) = |(<[\w-]+>)")


@dataclass(frozen=True, slots=True)
class BundleOperation:
    """One instruction of a bundle.

    It has its column in `UNITS`, text, predicate ("!%p1"), and comment.
    """

    unit: str
    text: str
    predicate: str = ""
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Bundle:
    """What issues in one cycle.

    `label` is one of `LABELS` or empty, `loops` the number of enclosing loops, `regions` the
    regions that begin with it, `target` the region that it branches to (-1: none), and `calls` the
    HLO instruction whose program it calls.
    """

    address: int
    operations: tuple[BundleOperation, ...]
    label: str = ""
    loops: int = 0
    regions: tuple[int, ...] = ()
    target: int = -1
    calls: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing issues: the cycle waits for results or a branch."""
        return all(o.unit == "OTHER" for o in self.operations)

    def __str__(self) -> str:
        inside = "  ;;  ".join(o.text for o in self.operations)
        return f"{self.address:#6x} {self.label or '  '}: {'>' * self.loops}{' ' if self.loops else ''}{{ {inside} }}"


@dataclass(frozen=True, slots=True)
class BundleLoop:
    """Bundles `start` to `end` (positions, inclusive) that a branch repeats.

    `depth` is 1 for an outermost loop.
    """

    start: int
    end: int
    depth: int

    @property
    def size(self) -> int:
        """Bundles of one iteration."""
        return self.end - self.start + 1


@dataclass(frozen=True)
class BundleProgram:
    """A whole program."""

    bundles: tuple[Bundle, ...]

    @cached_property
    def loops(self) -> tuple[BundleLoop, ...]:
        """Its loops by first bundle, an outer loop before its inner ones."""
        return tuple(_loops(self.bundles))

    @cached_property
    def empty(self) -> int:
        """The number of bundles that issue nothing."""
        return sum(b.is_empty for b in self.bundles)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Instructions by unit, in the order of `UNITS`, without unused units."""
        found = dict.fromkeys(UNITS, 0)
        for b in self.bundles:
            for o in b.operations:
                found[o.unit] += 1
        return {u: n for u, n in found.items() if n}

    def __len__(self) -> int:
        return len(self.bundles)

    def __str__(self) -> str:
        return "\n".join(map(str, self.bundles))

    def __repr__(self) -> str:
        return f"<BundleProgram: {len(self):,} bundles, {self.empty:,} empty, {len(self.loops)} loops>"


def parse_bundles(text: str) -> BundleProgram:
    """Parse a dump of bundles (final_bundles, packed-bundles-post-ra, ...).

    Raises:
        DumpError: it has no bundle, or is longer than MAX_CHARACTERS.
    """
    if len(text) > MAX_CHARACTERS:
        raise DumpError(f"the bundles have {len(text):,} characters, more than the limit of {MAX_CHARACTERS:,}")
    heads = list(_HEAD.finditer(text))
    if not heads:
        raise DumpError(f"no bundle found: expected a line like '0x5 : {{ ... }}', the text begins {text[:80]!r}")
    ends = [h.start() for h in heads[1:]] + [len(text)]
    return BundleProgram(tuple(_bundle(h, text[h.end() : end]) for h, end in zip(heads, ends, strict=True)))


def unit_of(mnemonic: str) -> str:
    """Return an instruction's column, one of `UNITS`."""
    return next((unit for unit, pattern in _UNIT_OF if pattern.match(mnemonic)), "OTHER")


def _bundle(head: re.Match[str], rest: str) -> Bundle:
    """Parse a bundle; `rest` follows the brace, up to the next bundle; comments may span lines."""
    plain = _without_comments(rest)
    close = plain.rfind("}")
    close = len(plain) if close < 0 else close
    operations, at = [], 0
    for part in plain[:close].split(";;"):
        if part.strip():
            operations.append(_operation(rest[at : at + len(part)], part))
        at += len(part) + 2
    return Bundle(
        int(head["address"], 16),
        tuple(operations),
        head["label"] or "",
        len(head["loops"]),
        tuple(int(n) for n in _STARTS.findall(rest[close:]) if len(n) < _DIGITS),
        _target(operations),
        _called(operations),
    )


def _target(operations: Sequence[BundleOperation]) -> int:
    """Return the region that a branch goes to, or -1."""
    found = next((m for o in operations if (m := _TARGET.search(o.text))), None)
    return int(found[1]) if found is not None and len(found[1]) < _DIGITS else -1


def _called(operations: Sequence[BundleOperation]) -> str:
    """Return the HLO instruction whose program is called, which begins the call's comment."""
    comments = [o.comment for o in operations if o.unit == "BRANCH" and "inlined_call" in o.text]
    found = next((m for c in comments if (m := _CALLED.search(c))), None)
    return (found[1] or found[2]) if found is not None else ""


def _operation(text: str, plain: str) -> BundleOperation:
    """Parse an operation; `plain` is the text with blanks instead of comments."""
    words = " ".join(plain.split())
    found = _MNEMONIC.match(words)
    predicate = _PREDICATE.search(words)
    comments = " ".join(" ".join(text[a + 2 : b - 2].split()) for a, b in _comments(text))
    unit = unit_of(found["name"]) if found is not None else "OTHER"
    return BundleOperation(unit, words, predicate[1] if predicate is not None else "", comments)


def _comments(text: str) -> Iterator[tuple[int, int]]:
    """Yield where comments begin and end; the last may be open."""
    at = text.find("/*")
    while at >= 0:
        end = text.find("*/", at + 2)
        if end < 0:
            return
        yield at, end + 2
        at = text.find("/*", end + 2)


def _without_comments(text: str) -> str:
    """Return the text with blanks instead of comments; positions stay."""
    parts, at = [], 0
    for start, end in _comments(text):
        parts += [text[at:start], " " * (end - start)]
        at = end
    return "".join([*parts, text[at:]])


def _loops(bundles: tuple[Bundle, ...]) -> Iterator[BundleLoop]:
    """Find the loops: each begins with a bundle marked as its body.

    It ends with the last bundle of the same mark depth, or with the branch back to its beginning.
    """
    first = {r: k for k, b in enumerate(bundles) for r in b.regions}
    back: dict[int, int] = {}
    for k, b in enumerate(bundles):
        start = first.get(b.target, len(bundles))
        if start <= k:
            back[start] = k
    starts = [k for k, b in enumerate(bundles) if b.label in ("LB", "LH") or k in back]
    ends = _marked_ends(bundles)
    for k in starts:
        depth = max(bundles[k].loops, 1)
        yield BundleLoop(k, max(back.get(k, k), ends[k] if bundles[k].loops else k), depth)


def _marked_ends(bundles: tuple[Bundle, ...]) -> list[int]:
    """Return the last marked bundle of each loop, by its first bundle."""
    ends = list(range(len(bundles)))
    open_at: list[int] = []  # one bundle for each depth, the innermost last
    for k, b in enumerate(bundles):
        if b.label in ("LB", "LH"):
            while open_at and bundles[open_at[-1]].loops >= b.loops:
                ends[open_at.pop()] = k - 1
            open_at.append(k)
        else:
            while open_at and bundles[open_at[-1]].loops > b.loops:
                ends[open_at.pop()] = k - 1
    for k in open_at:
        ends[k] = len(bundles) - 1
    return ends
