"""Edits of HLO text: tokens, literals, shapes, attributes, names and structure.

The module need not stay valid.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np

from tests.fuzz.hlo_changes import ATTRIBUTE, LINE, TYPES, Change, one_match, pick, replaced
from tests.fuzz.hlo_seeds import seeds
from tests.fuzz.mutate import NUMBERS, TEXTS, change_token

_TOKEN = re.compile(r'"[^"\n]*"|%?[A-Za-z_][\w.-]*=?|-?\d[\w.+-]*|->|<=|/\*|\*/|\S')
_SHAPE = re.compile(rf"\b({'|'.join(sorted(TYPES, key=len, reverse=True))})\[([^\]\n]*)\](\{{[^}}\n]*\}})?")
_ELEMENT = re.compile(r"(?<=[{,( ])-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf|nan|true|false)(?=[,}) ])")
_CONSTANT = re.compile(r"(?<= )constant\([^\n]*")
_HEADER = re.compile(r"(?m)^(ENTRY )?%?([\w.-]+)[^=\n]*\{$")
_COMPUTATION = re.compile(r"(?ms)^(?!ENTRY)%?([\w.-]+)[^=\n]*\{\n.*?^\}\n?")
_CALL = re.compile(r"(?:(?<=to_apply=)|(?<=calls=)|(?<=body=)|(?<=condition=))%?[\w.-]+")
_LITERALS = (
    "nan(0x1)", "-nan(0x7fffff)", "nan(0x0)", "-nan", "inf", "-inf", "-0", "-0.0", "0x1.8p3", "1e400", "-1e-400",
    "1" + "0" * 400, "0." + "0" * 200 + "1", "4.9e-324", "1.17549435e-38",
    "3.4028236e38", "65520", "448.1", "464", "57344", "9223372036854775808", "-9223372036854775809",
    "18446744073709551616", "(1, nan)", "(0,-0)", "(1, 2, 3)", "true", '"x"', "1_2", "+1",
    "1.", ".5", "{}", "...", "{1}", "0b1", "1f", "0.5", "256", "-129", "32768", "65536", "127.5",
)  # fmt: skip
_SIZES = (
    "0",
    "1",
    "-1",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "<=4",
    "<=0",
    "?",
    "*",
    "65537",
    "1024",
    "3",
    "13",
)
_LAYOUTS = (
    "{1,0}", "{0,1}", "{0}", "{}", "{1,0:T(8,128)}", "{1,0:T(8,128)(2,1)}", "{0:T(256)}", "{0:S(5)}", "{0:E(4)}",
    "{1,0:D(D,C)}", "{0:D(S)}", "{0:T(0)}", "{0:T(-1)}", "{1,1}", "{2,1,0}",
    "{1,0:T(*,128)}", "{0:#(u32)}", "{0:*(s32)}", "{0:L(4)}", "{0:M(16)}", "{0:P(f32[2])}", "{:S(1)}", "{0:S(-1)}",
    "{3,2,1,0}", "{0,1,2}", "{9223372036854775807}",
)  # fmt: skip
_NAMES = (
    "add",
    "ENTRY",
    "ROOT",
    "constant",
    "f32",
    "_",
    "a-b.c",
    "x" * 3000,
    "nan",
    "inf",
    "parameter",
    "e1",
    "tuple",
    "é",
    "0",
    "true",
)


@cache
def vocabulary() -> tuple[str, ...]:
    """The distinct tokens of all seeds."""
    return tuple(sorted({t for text in seeds() for t in _TOKEN.findall(text)}))


# -- tokens ----------------------------------------------------------------------------------------


def _token(text: str, rng: np.random.Generator) -> str:
    return change_token(text, _TOKEN, vocabulary(), rng)


def _piece(text: str, rng: np.random.Generator) -> str:
    """Truncate the text, insert a word of another script, or start a comment."""
    at = int(rng.integers(0, len(text) + 1))
    how = int(rng.integers(0, 3))
    if how == 0:
        return text[:at]
    return (
        text[:at]
        + (pick(rng, TEXTS) if how == 1 else pick(rng, ("/*", "//", "/*x*/", "\t", "\r\n", "\x0c")))
        + text[at:]
    )


def _several_lines(text: str, rng: np.random.Generator) -> str:
    """Delete, duplicate or reverse some lines."""
    lines = text.split("\n")
    at, size = int(rng.integers(0, len(lines))), int(rng.integers(2, 6))
    run = lines[at : at + size]
    lines[at : at + size] = ([], run + run, run[::-1])[int(rng.integers(0, 3))]
    return "\n".join(lines)


# -- literals --------------------------------------------------------------------------------------


def _element(text: str, rng: np.random.Generator) -> str:
    """Replace an element of a constant by an extreme one, one of another type, or a non-number."""
    rows = _constants(text)
    if not rows:
        return text
    row = pick(rng, rows)
    found = list(_ELEMENT.finditer(text, row.start(), row.end()))
    if not found:
        return text
    return replaced(text, pick(rng, found), pick(rng, _LITERALS))


def _constants(text: str) -> list[re.Match[str]]:
    return list(_CONSTANT.finditer(text))


def _literal_length(text: str, rng: np.random.Generator) -> str:
    """Delete or duplicate an element of a constant, or a bracket."""
    rows = _constants(text)
    if not rows:
        return text
    row = pick(rng, rows)
    pattern = _ELEMENT if rng.random() < 0.7 else re.compile(r"[{}]")
    found = list(pattern.finditer(text, row.start(), row.end()))
    if not found:
        return text
    one = pick(rng, found)
    return replaced(text, one, "" if rng.random() < 0.5 else f"{one[0]}, {one[0]}")


def _literal_everywhere(text: str, rng: np.random.Generator) -> str:
    """Replace all equal scalar constants: by an identity, a limit, or a non-number."""
    found = one_match(text, re.compile(r"(?<=constant\()[^(){}\n]+(?=\))"), rng)
    return text if found is None else text.replace(f"constant({found[0]})", f"constant({pick(rng, _LITERALS)})")


# -- shapes ----------------------------------------------------------------------------------------


def _shape(text: str, rng: np.random.Generator) -> str:
    """Change a shape, once or everywhere: a dimension, the rank, a bound, or the layout."""
    found = one_match(text, _SHAPE, rng)
    if found is None:
        return text
    new = _other_shape(found, rng)
    return replaced(text, found, new) if rng.random() < 0.4 else text.replace(found[0], new)


def _other_shape(found: re.Match[str], rng: np.random.Generator) -> str:
    kind, dims, layout = found[1], found[2].split(",") if found[2] else [], found[3] or ""
    at = int(rng.integers(0, len(dims) + 1))
    how = int(rng.integers(0, 8))
    if how <= 1 and dims:
        at = min(at, len(dims) - 1)
        near = dims[at].isdigit() and how == 0
        dims[at] = str(int(dims[at]) + int(rng.choice([-1, 1]))) if near else pick(rng, _SIZES)
    elif how == 2:
        dims.insert(at, pick(rng, ("1", "2", *_SIZES)))
    elif how == 3 and dims:
        del dims[min(at, len(dims) - 1)]
    elif how == 4 and dims:
        at = min(at, len(dims) - 1)
        dims[at] = f"<={dims[at]}"
    elif how == 5:
        layout = "" if layout and rng.random() < 0.3 else pick(rng, _LAYOUTS)
    elif how == 6:
        order = ",".join(str(v) for v in rng.permutation(len(dims)))
        layout = f"{{{order}}}"
    else:
        kind = pick(rng, (*TYPES, "token", "opaque", "f8", "b(f32", "(f32"))
    return f"{kind}[{','.join(dims)}]{layout}"


def _tupled(text: str, rng: np.random.Generator) -> str:
    """Replace a shape by a tuple or a buffer of it."""
    found = one_match(text, _SHAPE, rng)
    if found is None:
        return text
    s = found[0]
    return replaced(
        text, found, pick(rng, (f"({s})", f"({s}, {s})", f"({s}, ())", f"b({s})", "()", "token[]", "opaque[]"))
    )


# -- instructions ----------------------------------------------------------------------------------


def _rows(text: str) -> tuple[list[str], list[tuple[int, re.Match[str]]]]:
    lines = text.split("\n")
    return lines, [(k, m) for k, line in enumerate(lines) if (m := LINE.match(line))]


def _arguments(row: re.Match[str]) -> tuple[list[str], str]:
    """The operands of an instruction and the text after them."""
    depth = 0
    for k, c in enumerate(row[6]):
        depth += c in "({["
        depth -= c in ")}]"
        if depth < 0:
            inside = row[6][:k]
            return ([] if not inside else re.split(r", (?![^({\[]*[)}\]])", inside)), row[6][k:]
    return [], row[6]


def _operands(text: str, rng: np.random.Generator) -> str:
    """Exchange, delete or duplicate operands, or replace one by any value of the text."""
    lines, rows = _rows(text)
    rows = [r for r in rows if r[1][5] not in ("parameter", "constant")]
    if not rows:
        return text
    k, row = pick(rng, rows)
    given, rest = _arguments(row)
    if not given:
        return text
    at, how = int(rng.integers(0, len(given))), int(rng.integers(0, 4))
    if how == 0:
        given = [given[int(v)] for v in rng.permutation(len(given))]
    elif how == 1:
        del given[at]
    elif how == 2:
        given.insert(at, given[at])
    else:
        given[at] = pick(rng, _rows(text)[1])[1][3]
    lines[k] = lines[k][: row.start(6)] + ", ".join(given) + rest
    return "\n".join(lines)


def _any_opcode(text: str, rng: np.random.Generator) -> str:
    """Replace an opcode; keep the attributes, or use those of the new opcode elsewhere."""
    lines, rows = _rows(text)
    others = _rows(pick(rng, seeds()))[1]
    if not rows or not others:
        return text
    (k, row), (_, other) = pick(rng, rows), pick(rng, others)
    given, rest = _arguments(row)
    if rng.random() < 0.6:
        rest = _arguments(other)[1]
    lines[k] = f"{lines[k][: row.start(5)]}{other[5]}({', '.join(given)}{rest}"
    return "\n".join(lines)


def _exchanged_attributes(text: str, rng: np.random.Generator) -> str:
    """Exchange the values of two attributes, or all, or move one to an instruction without it."""
    found = list(ATTRIBUTE.finditer(text))
    if len(found) < 2:
        return text
    first = pick(rng, found)
    alike = [m for m in found if m[1] == first[1]] if rng.random() < 0.5 else found
    a, b = sorted((first, pick(rng, alike)), key=lambda m: m.start())
    if a.start() == b.start():
        return text
    if rng.random() < 0.3:
        return text[: b.end()] + a[0] + text[b.end() :]
    one, two = f", {a[1]}={b[2]}", f", {b[1]}={a[2]}"
    return text[: a.start()] + one + text[a.end() : b.start()] + two + text[b.end() :]


def _foreign_attribute(text: str, rng: np.random.Generator) -> str:
    """Add an attribute of another module to an instruction."""
    lines, rows = _rows(text)
    values = list(ATTRIBUTE.finditer(pick(rng, seeds())))
    if not rows or not values:
        return text
    k, _ = pick(rng, rows)
    lines[k] += pick(rng, values)[0]
    return "\n".join(lines)


def _list_in_attribute(text: str, rng: np.random.Generator) -> str:
    """In the list of an attribute, delete or duplicate an element or change the order."""
    found = one_match(text, re.compile(r"(?<==\{)-?\d+(?:,\s*-?\d+)*(?=\})"), rng)
    if found is None:
        return text
    items = found[0].split(",")
    at, how = int(rng.integers(0, len(items))), int(rng.integers(0, 4))
    if how == 0:
        del items[at]
    elif how == 1:
        items.insert(at, items[at])
    elif how == 2:
        items = [items[int(v)] for v in rng.permutation(len(items))]
    else:
        items[at] = str(pick(rng, NUMBERS))
    return replaced(text, found, ",".join(items))


def _renamed(text: str, rng: np.random.Generator) -> str:
    """Rename a value or computation, once or everywhere: oddly, or to another's name."""
    names = [m[3] for _, m in _rows(text)[1]] + [m[2] for m in _HEADER.finditer(text)]
    if not names:
        return text
    old = pick(rng, names)
    new = pick(rng, names) if rng.random() < 0.3 else pick(rng, _NAMES)
    pattern = re.compile(rf"(?<![\w.-]){re.escape(old)}(?![\w.=-])")
    found = one_match(text, pattern, rng)
    if found is None:
        return text
    return replaced(text, found, new) if rng.random() < 0.3 else pattern.sub(new, text)


def _parameter(text: str, rng: np.random.Generator) -> str:
    """Change a parameter's number, or replace a parameter by a constant."""
    found = one_match(text, re.compile(r"(?<= )parameter\((\d+)\)"), rng)
    if found is None:
        return text
    new = (f"parameter({rng.integers(0, 4)})", "parameter(-1)", "constant(1)", "iota(), iota_dimension=0")
    return replaced(text, found, pick(rng, new))


# -- computations ----------------------------------------------------------------------------------


def _called(text: str, rng: np.random.Generator) -> str:
    """Make an instruction call another computation of the text."""
    names = [m[2] for m in _HEADER.finditer(text)]
    found = one_match(text, _CALL, rng)
    return text if found is None or not names else replaced(text, found, pick(rng, names))


def _foreign_computation(text: str, rng: np.random.Generator) -> str:
    """Make an instruction call a computation of another module, which is put first."""
    blocks = list(_COMPUTATION.finditer(pick(rng, seeds())))
    found = one_match(text, _CALL, rng)
    if found is None or not blocks:
        return text
    block = pick(rng, blocks)
    body = re.sub(rf"(?<![\w.-]){re.escape(block[1])}(?![\w.=-])", "foreign.0", block[0])
    text = replaced(text, found, "foreign.0")
    head, _, rest = text.partition("\n")
    return f"{head}\n\n{body}\n{rest}"


def _outlined(text: str, rng: np.random.Generator) -> str:
    """Make the entry a computation that a new entry calls, fuses, selects or repeats."""
    head, mark, body = text.partition("ENTRY ")
    found = re.match(r"%?[\w.-]+", body)
    parameters = re.findall(r"(?m)^\s*(?:ROOT )?%?[\w.-]+ = (\S+) parameter\((\d+)\)", body)
    root = re.search(r"(?m)^\s*ROOT %?[\w.-]+ = (\([^()\n]*\)|\S+) [a-z]", body)
    if not mark or found is None or root is None or "ENTRY" in body:
        return text
    inner = re.sub(r"^%?[\w.-]+[^\n]*?\{$", "inner.0 {", body, count=1, flags=re.MULTILINE)
    given = sorted({int(n): s for s, n in parameters}.items())
    rows = [f"  q{n} = {s} parameter({n})" for n, s in given]
    names = [f"q{n}" for n, _ in given]
    rows += _use(root[1], names, [s for _, s in given], rng)
    head = re.sub(r", entry_computation_layout=\{.*\}|, is_scheduled=true", "", head)
    return f"{head}{inner.rstrip()}\n\nENTRY outer.0 {{\n" + "\n".join(rows) + "\n}\n"


def _use(result: str, names: Sequence[str], shapes: Sequence[str], rng: np.random.Generator) -> list[str]:
    """The lines that apply `inner.0` to the parameters."""
    how = int(rng.integers(0, 5))
    given = ", ".join(names)
    if how == 0:
        return [f"  ROOT r = {result} call({given}), to_apply=inner.0"]
    if how == 1:
        kind = pick(rng, ("kLoop", "kInput", "kOutput", "kCustom"))
        return [f"  ROOT r = {result} fusion({given}), kind={kind}, calls=inner.0"]
    if how == 2 and len(names) == 1:
        choice = ["  c = s32[] constant(1)"]
        return [
            *choice,
            f"  ROOT r = {result} conditional(c, {given}, {given}), branch_computations={{inner.0, inner.0}}",
        ]
    if how == 3 and len(names) == 1 and shapes[0] == result:
        return [f"  a = {result} call({given}), to_apply=inner.0", f"  ROOT r = {result} call(a), to_apply=inner.0"]
    start = f"  s = (({', '.join(shapes)}), {result}) async-start({given}), calls=inner.0"
    return [start, f"  ROOT r = {result} async-done(s)"]


EDITS: tuple[Change, ...] = (
    _token, _token, _token, _piece, _several_lines, _element, _element, _literal_length, _literal_everywhere, _shape,
    _shape, _shape, _tupled, _operands, _operands, _any_opcode, _any_opcode,
    _exchanged_attributes, _exchanged_attributes, _foreign_attribute, _list_in_attribute, _list_in_attribute, _renamed,
    _parameter, _called, _foreign_computation, _outlined, _outlined,
)  # fmt: skip
