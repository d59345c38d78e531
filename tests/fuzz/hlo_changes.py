"""Changes of HLO text that keep most modules valid.

They are made consistently everywhere (a size, an element type), or in one place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from tests.fuzz.hlo_seeds import seeds
from tests.fuzz.mutate import NUMBERS

_T = TypeVar("_T")
Change = Callable[[str, np.random.Generator], str]

TYPES = (
    "pred s2 s4 s8 s16 s32 s64 u2 u4 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128 f8e5m2 f8e4m3fn f8e4m3 f8e3m4 f8e4m3b11fnuz f8e4m3fnuz f8e5m2fnuz f8e8m0fnu f4e2m1fn"
).split()
TYPE = re.compile(rf"\b({'|'.join(sorted(TYPES, key=len, reverse=True))})(?=\[)")
_NARROW = ("s2", "s4", "s8", "u2", "u4", "u8")
_INTEGER = re.compile(r"\b[su](?:16|32|64|8)(?=\[)")
_SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 32, 33, 64, 100, 300)
_CLASSES = (
    "abs negate sign floor ceil exponential log sine cosine tan tanh sqrt rsqrt cbrt logistic erf exponential-minus-one log-plus-one asin acos atan sinh cosh asinh acosh "
    "atanh round-nearest-afz round-nearest-even not popcnt count-leading-zeros copy real imag bitcast-convert is-finite",
    "add subtract multiply divide remainder maximum minimum power atan2 and or xor shift-left shift-right-arithmetic shift-right-logical complex compare",
    "reshape bitcast broadcast transpose reverse copy dynamic-reshape",
    "reduce reduce-window map sort scatter select-and-scatter scan",
    "all-reduce all-gather all-to-all reduce-scatter collective-permute collective-broadcast",
)
OPCODES = [c.split() for c in _CLASSES]
LINE = re.compile(r"^(\s*)(ROOT )?%?([\w.-]+) = (.*?)((?<= )[a-z][\w-]*)\((.*)$")
"""An instruction: indentation, ROOT, name, shape, opcode, and the text after the bracket."""
_INFERRED = re.compile(
    r"(?m)^(\s*(?:ROOT )?%?[\w.-]+ = )\S.*? (?=(?:abs|negate|sign|floor|ceil|exponential|log|sine|cosine|tan|tanh|sqrt|rsqrt|cbrt|logistic|erf|not|popcnt|copy|add|subtract|"
    r"multiply|divide|remainder|maximum|minimum|power|atan2|and|or|xor|compare|select|clamp|transpose|reverse|concatenate|reduce|reduce-window|select-and-scatter|scatter|gather|"
    r"dynamic-slice|dynamic-update-slice|slice|pad|dot|convolution|tuple|get-tuple-element|map|sort|fft|cholesky|triangular-solve|call|complex|while|conditional)\()"
)
ATTRIBUTE = re.compile(r", ([\w.-]+)=((?:\{(?:[^{}]|\{[^{}]*\})*\}|[^,{}\s]+))")
_LAYOUT = re.compile(r"(?<=\])\{(\d+(?:,\d+)*)\}")
_GIVEN = re.compile(r"= \w+\[(\d+(?:,\d+)*)\]\S* parameter\(")
_SIZED = re.compile(r"(?<=[\[,])\d+(?=[\],])")


def pick(rng: np.random.Generator, items: Sequence[_T]) -> _T:
    """A random item."""
    return items[int(rng.integers(0, len(items)))]


def replaced(text: str, found: re.Match[str], new: str) -> str:
    """The text with a match replaced."""
    return text[: found.start()] + new + text[found.end() :]


def one_match(text: str, pattern: re.Pattern[str], rng: np.random.Generator) -> re.Match[str] | None:
    """A random match of a pattern; None if there is none."""
    found = list(pattern.finditer(text))
    return found[int(rng.integers(0, len(found)))] if found else None


def _size_everywhere(text: str, rng: np.random.Generator) -> str:
    """Replace one size everywhere, and randomly the numbers of attributes that refer to it."""
    found = one_match(text, _SIZED, rng)
    if found is None:
        return text
    new = str(_SIZES[int(rng.integers(0, len(_SIZES)))])
    old = re.escape(found[0])
    inside = rf"(?<=[\[,]){old}(?=[\],])" if rng.random() < 0.5 else rf"\b(?<![.\w-]){old}\b(?![.\w])"
    return re.sub(inside, new, text)


def _size_once(text: str, rng: np.random.Generator) -> str:
    found = one_match(text, _SIZED, rng)
    return text if found is None else replaced(text, found, str(_SIZES[int(rng.integers(0, len(_SIZES)))]))


def _type_everywhere(text: str, rng: np.random.Generator) -> str:
    found = one_match(text, TYPE, rng)
    return text if found is None else re.sub(rf"\b{found[0]}(?=\[)", pick(rng, TYPES), text)


def _type_once(text: str, rng: np.random.Generator) -> str:
    found = one_match(text, TYPE, rng)
    return text if found is None else replaced(text, found, pick(rng, TYPES))


def _wrapped(text: str, rng: np.random.Generator) -> str:
    """Replace an integer type by a narrow one everywhere, and a size by one near its limit.

    Positions then wrap around.
    """
    found = one_match(text, _INTEGER, rng)
    size = one_match(text, _SIZED, rng)
    if found is None or size is None:
        return text
    new = pick(rng, _NARROW)
    bits = int(new[1:]) - (new[0] == "s")
    sizes = tuple((1 << bits) + k for k in (-1, 0, 1, 2))
    text = re.sub(rf"\b{found[0]}(?=\[)", new, text)
    inside = (
        rf"(?<=[\[,]){re.escape(size[0])}(?=[\],])"
        if rng.random() < 0.5
        else rf"\b(?<![.\w-]){re.escape(size[0])}\b(?![.\w])"
    )
    return re.sub(inside, str(pick(rng, sizes)), text)


def _opcode(text: str, rng: np.random.Generator) -> str:
    """Replace an opcode by another of its kind."""
    names = [n for c in OPCODES for n in c]
    found = one_match(text, re.compile(rf"(?<= )(?:{'|'.join(names)})(?=\()"), rng)
    if found is None:
        return text
    others = next(c for c in OPCODES if found[0] in c)
    made = pick(rng, others)
    return replaced(text, found, made)


def _number(text: str, rng: np.random.Generator) -> str:
    """Replace any number by an extreme one, or increase it a little."""
    found = one_match(text, re.compile(r"(?<![\w.%])-?\d+"), rng)
    if found is None:
        return text
    near = int(found[0]) + int(rng.integers(-2, 3))
    return replaced(text, found, str(near if rng.random() < 0.6 else NUMBERS[int(rng.integers(0, len(NUMBERS)))]))


def _dynamic(text: str, rng: np.random.Generator) -> str:
    """Make a dimension of an entry parameter dynamic; drop shapes that follow from operands."""
    head, mark, entry = text.partition("ENTRY")
    found = one_match(entry, _GIVEN, rng)
    if found is None:
        return text
    dims = found[1].split(",")
    at = int(rng.integers(0, len(dims)))
    dims[at] = f"<={dims[at]}"
    entry = entry[: found.start(1)] + ",".join(dims) + entry[found.end(1) :]
    return loosened(head + mark + entry)


def _literal(text: str, rng: np.random.Generator) -> str:
    """Replace a scalar constant by an extreme one."""
    found = one_match(text, re.compile(r"(?<=constant\()[^(){}]+(?=\))"), rng)
    if found is None:
        return text
    values = (
        "0",
        "1",
        "-1",
        "-0",
        "inf",
        "-inf",
        "nan",
        "2",
        "0.5",
        "1e-40",
        "3e38",
        "127",
        "255",
        "-128",
        "2147483647",
        "18446744073709551615",
        "true",
    )
    return replaced(text, found, pick(rng, values))


def _operand(text: str, rng: np.random.Generator) -> str:
    """Replace an operand by an earlier value of the computation, of the same type if possible."""
    lines = text.split("\n")
    rows = [k for k, line in enumerate(lines) if LINE.match(line)]
    if not rows:
        return text
    at = rows[int(rng.integers(0, len(rows)))]
    start = max((k for k in range(at) if "{" in lines[k] and " = " not in lines[k]), default=-1)
    before = [m for k in range(start + 1, at) if (m := LINE.match(lines[k]))]
    here = LINE.match(lines[at])
    if not before or here is None:
        return text
    used = [m for m in before if re.search(rf"%?\b{re.escape(m[3])}\b", here[6])]
    if not used:
        return text
    old = used[int(rng.integers(0, len(used)))]
    alike = [m for m in before if m[4] == old[4] and m is not old] if rng.random() < 0.8 else before
    if not alike:
        return text
    new = alike[int(rng.integers(0, len(alike)))][3]
    lines[at] = lines[at][: here.start(6)] + re.sub(rf"(?<![\w.-]){re.escape(old[3])}(?![\w.-])", new, here[6], count=1)
    return "\n".join(lines)


def _layout(text: str, rng: np.random.Generator) -> str:
    found = one_match(text, _LAYOUT, rng)
    if found is None:
        return text
    order = rng.permutation(found[1].split(","))
    new = "{" + ",".join(order) + "}"
    return replaced(text, found, new) if rng.random() < 0.6 else text.replace("]" + found[0], "]" + new)


def _attribute(text: str, rng: np.random.Generator) -> str:
    """Delete or duplicate an attribute, or give it a value it has elsewhere."""
    found = one_match(text, ATTRIBUTE, rng)
    if found is None:
        return text
    how = rng.random()
    if how < 0.2:
        return replaced(text, found, "")
    if how < 0.3:
        return replaced(text, found, found[0] + found[0])
    other = pick(rng, seeds())
    values = [m[2] for source in (text, other) for m in ATTRIBUTE.finditer(source) if m[1] == found[1]]
    if how < 0.6:
        return replaced(text, found, f", {found[1]}={pick(rng, values)}")
    numbers = list(re.finditer(r"-?\d+", found[2]))
    if not numbers:
        return text
    n = numbers[int(rng.integers(0, len(numbers)))]
    new = str(int(rng.integers(0, 5)) if rng.random() < 0.8 else NUMBERS[int(rng.integers(0, len(NUMBERS)))])
    return replaced(text, found, f", {found[1]}={found[2][: n.start()]}{new}{found[2][n.end() :]}")


def _lines(text: str, rng: np.random.Generator) -> str:
    """Delete, duplicate or exchange lines."""
    lines = text.split("\n")
    a, b = (int(v) for v in rng.integers(0, len(lines), 2))
    how = rng.random()
    if how < 0.4:
        del lines[a]
    elif how < 0.6:
        lines.insert(b, lines[a])
    else:
        lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


def _root(text: str, rng: np.random.Generator) -> str:
    """Make another instruction of the entry the root."""
    head, entry, rest = text.partition("ENTRY")
    plain = rest.replace("ROOT ", "")
    lines = plain.split("\n")
    rows = [k for k, line in enumerate(lines) if LINE.match(line)]
    if not rows:
        return text
    k = rows[int(rng.integers(0, len(rows)))]
    lines[k] = re.sub(r"^(\s*)", r"\1ROOT ", lines[k])
    return head + entry + re.sub(r"^(.*?) *->.*\{$", r"\1 {", "\n".join(lines), count=1, flags=re.MULTILINE)


def _inserted(text: str, rng: np.random.Generator) -> str:
    """Replace a value by an operation on it."""
    lines = text.split("\n")
    rows = [
        k
        for k, line in enumerate(lines)
        if (m := LINE.match(line)) and not m[2] and re.fullmatch(r"\w+\[[^\]]*\](\{[^}]*\})? ", m[4])
    ]
    if not rows:
        return text
    k = rows[int(rng.integers(0, len(rows)))]
    m = LINE.match(lines[k])
    assert m is not None
    name, shape = m[3], m[4].strip()
    op = pick(
        rng,
        (
            "negate",
            "copy",
            "abs",
            "not",
            "optimization-barrier",
            "add",
            "multiply",
            "maximum",
            "transpose",
            "reverse",
            "bitcast",
            "reshape",
        ),
    )
    rank = shape.partition("[")[2].partition("]")[0].count(",") + 1 if "[]" not in shape else 0
    order = ",".join(str(v) for v in rng.permutation(rank))
    arguments = f"{name}, {name}" if op in ("add", "multiply", "maximum") else name
    attributes = f", dimensions={{{order}}}" if op == "transpose" else ", dimensions={0}" if op == "reverse" else ""
    new = f"{name}.mutated"
    lines[k + 1 :] = [re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", new, line) for line in lines[k + 1 :]]
    shown = "" if op == "transpose" else f"{shape} "
    lines.insert(k + 1, f"{m[1]}{new} = {shown}{op}({arguments}){attributes}")
    return "\n".join(lines)


def _spliced(text: str, rng: np.random.Generator) -> str:
    """Merge two modules; the result is a pair of theirs."""
    other = pick(rng, seeds())
    if text.count("ENTRY") != 1 or other.count("ENTRY") != 1:
        return text
    names = {m[3] for line in other.split("\n") if (m := LINE.match(line))}
    names |= set(re.findall(r"(?m)^(?:ENTRY )?%?([\w.-]+)[^=\n]*\{$", other)) - {"HloModule", "ENTRY"}
    if not names:
        return text
    pattern = rf"(?<![\w.-])({'|'.join(re.escape(n) for n in sorted(names, key=len, reverse=True))})(?![\w.=-])"
    _, _, other = re.sub(pattern, r"\1.spliced", other).partition("\n")
    mine, theirs = text.split("ENTRY"), other.split("ENTRY")
    if len(theirs) != 2:  # it was in the module's first line
        return text
    count = mine[1].count(" parameter(")
    body = re.sub(r" parameter\((\d+)\)", lambda m: f" parameter({int(m[1]) + count})", theirs[1].partition("{\n")[2])
    roots = [re.search(r"ROOT %?([\w.-]+)", part) for part in (mine[1], body)]
    if roots[0] is None or roots[1] is None:
        return text
    own = mine[1].replace("ROOT ", "").rpartition("}")[0]
    body = body.replace("ROOT ", "").rpartition("}")[0]
    head = re.sub(r", entry_computation_layout=\{.*\}|, is_scheduled=true", "", mine[0].split("\n")[0])
    own = re.sub(r"^(.*?) *->.*\{$", r"\1 {", own, count=1, flags=re.MULTILINE)
    before = "\n".join([head, *mine[0].split("\n")[1:]])
    return f"{before}\n{theirs[0]}\nENTRY{own}{body}  ROOT both.spliced = tuple({roots[0][1]}, {roots[1][1]})\n}}\n"


def loosened(text: str) -> str:
    """The text without the entry's layout and the shapes that follow from operands."""
    text = re.sub(r", entry_computation_layout=\{.*\}", "", text)
    text = re.sub(r"(?m)^((?:ENTRY )?%?[\w.-]+) \(.*\) -> .*\{$", r"\1 {", text)
    return _INFERRED.sub(r"\1", text)


CHANGES: tuple[Change, ...] = (
    _size_everywhere,
    _size_everywhere,
    _size_once,
    _type_everywhere,
    _type_everywhere,
    _type_once,
    _wrapped,
    _opcode,
    _opcode,
    _number,
    _literal,
    _dynamic,
    _operand,
    _operand,
    _layout,
    _attribute,
    _attribute,
    _lines,
    _root,
    _inserted,
    _inserted,
    _spliced,
)
