"""Parse assembly or LLVM IR to a table of instructions and the loops that contain them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xlanb.lazy_dataclass import dataclass
from xlanb.patterns import pattern

COLUMNS = ("line", "function", "instruction", "operands", "hlo", "vector_bits", "loop")

Row = tuple[int, str, str, str, str, int, str]


@dataclass(frozen=True)
class _Language:
    """How a text denotes functions, labels, instructions, and jumps to labels."""

    function: re.Pattern[str]
    label: re.Pattern[str]
    instruction: re.Pattern[str]
    jump: re.Pattern[str]
    target: re.Pattern[str]


_ASSEMBLY = _Language(
    function=pattern(r'(?!\.?L[\w.$]*:)("[^"]+"|[A-Za-z_][\w.$]*):'),
    label=pattern(r"(\.?L[\w.$]+):"),
    instruction=pattern(r"\t([a-z][\w.]*)(?:\s+(.*?))?\s*(?:\s#+\s.*|\s//.*)?$"),
    jump=pattern(r"j\w+|b(?:\.\w+)?|cbn?z|tbn?z"),
    target=pattern(r"(\.?L[\w.$]+)$"),
)
_LLVM = _Language(
    function=pattern(r'define\b.*?@("[^"]+"|[\w.$-]+)\('),
    label=pattern(r'("[^"]*"|[\w.$-]+):'),
    instruction=pattern(r'  (?:%(?:"[^"]*"|[\w.$-]+) = )?(?:tail |musttail |notail )?([a-z]+)\b(.*)$'),
    jump=pattern(r"br|switch|indirectbr"),
    target=pattern(r'\blabel %("[^"]*"|[\w.$-]+)'),
)
_LANGUAGES = {"asm": _ASSEMBLY, "llvm": _LLVM}

_REGISTER_BITS = {"x": 128, "y": 256, "z": 512}
_X86_VECTOR = pattern(r"%([xyz])mm\d+")
_ARM_VECTOR = pattern(r"\bv\d+\.\d+[bhsd]\b|\bz\d+\.[bhsd]\b")
_LLVM_VECTOR = pattern(r"<(\d+) x (float|double|half|bfloat|i\d+)>")
_LLVM_BITS = {"float": 32, "double": 64, "half": 16, "bfloat": 16}
_X86_SCALAR = pattern(r"(?!v?p).*s[sd]$")


def instructions(text: str, language: str, hlo_lines: Mapping[int, str]) -> list[Row]:
    """A row for each instruction, with the columns `COLUMNS`.

    `vector_bits` is the width of the widest vector in it, 0 for none. `loop` is "hot" in the
    innermost loop with the most vector instructions, "inner" in other innermost loops, otherwise
    "".
    """
    grammar = _LANGUAGES.get(language)
    if grammar is None:
        return []
    found = list(_instructions(text.splitlines(), grammar))
    loops = _loops(found, _labels(text.splitlines(), grammar), grammar)
    wide = [_vector_bits(f"{name} {rest}", name, language) for _, _, name, rest in found]
    kinds = _kinds(found, loops, wide)
    return [
        (line, function, name, rest, hlo_lines.get(line, ""), bits, kind)
        for (line, function, name, rest), bits, kind in zip(found, wide, kinds, strict=True)
    ]


def _instructions(lines: Sequence[str], language: _Language) -> Iterator[tuple[int, str, str, str]]:
    function = ""
    for number, text in enumerate(lines, 1):
        if begin := language.function.match(text):
            function = begin[1].strip('"')
        elif function and (found := language.instruction.match(text)):
            rest = (found[2] or "").partition(", !dbg")[0]
            yield number, function, found[1], rest.strip()


def _labels(lines: Sequence[str], language: _Language) -> dict[tuple[str, str], int]:
    """The line of each label, by function and name."""
    found: dict[tuple[str, str], int] = {}
    function = ""
    for number, text in enumerate(lines, 1):
        if begin := language.function.match(text):
            function = begin[1].strip('"')
        elif label := language.label.match(text):
            found[function, label[1]] = number
    return found


def _loops(
    rows: Iterable[tuple[int, str, str, str]], labels: Mapping[tuple[str, str], int], language: _Language
) -> list[tuple[int, int]]:
    """First and last line of each innermost loop: from a label to its last backward jump."""
    spans: dict[int, int] = {}
    for line, function, name, rest in rows:
        if language.jump.fullmatch(name):
            for target in language.target.findall(rest):
                at = labels.get((function, target))
                if at is not None and at < line:
                    spans[at] = line
    whole = list(spans.items())
    return [s for s in whole if not any(s != t and s[0] <= t[0] and t[1] <= s[1] for t in whole)]


def _kinds(
    rows: Sequence[tuple[int, str, str, str]], loops: Sequence[tuple[int, int]], wide: Sequence[int]
) -> list[str]:
    """The kind of loop that contains each row."""
    at = [next((k for k, (a, b) in enumerate(loops) if a <= line <= b), -1) for line, *_ in rows]
    weight = [sum(bits > 0 for bits, loop in zip(wide, at, strict=True) if loop == k) for k in range(len(loops))]
    hot = weight.index(max(weight)) if any(weight) else -1
    return ["" if k < 0 else "hot" if k == hot else "inner" for k in at]


def _vector_bits(text: str, name: str, language: str) -> int:
    if language == "llvm":
        return max((int(n) * _bits_of(kind) for n, kind in _LLVM_VECTOR.findall(text)), default=0)
    if _ARM_VECTOR.search(text):
        return 128
    if _X86_SCALAR.fullmatch(name):
        return 0
    return max((_REGISTER_BITS[r] for r in _X86_VECTOR.findall(text)), default=0)


def _bits_of(element: str) -> int:
    return _LLVM_BITS.get(element) or int(element.removeprefix("i"))
