"""Phrases to avoid: none is in the pages, the lessons, the messages and the docstrings."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = {"opcodes.md", "flags.md", "dumps.md", "tf_ops.md", "passes.md", "counterexamples.md"}
CHANGELOG_WIDTH = 100


class Phrase(NamedTuple):
    """A regular expression that no text may match, its replacement, and a sentence with the
    phrase.
    """

    pattern: str
    instead: str
    example: str


EVERYWHERE = (
    Phrase(r"\b(?:that|which|what) nothing (?:else )?reads\b", "unused", "Don't store results that nothing reads."),
    Phrase(r"\bnothing reads of\b", "unused", "What nothing reads of a sort has no place."),
    Phrase(r"\bboth turned and\b", "both transposed and untransposed", "It reads b both turned and as it lies."),
    Phrase(r"\bto and fro\b", "back and forth", "Quantize to and fro."),
    Phrase(r"\bno time at all\b", "zero times", "A loop may run no time at all."),
    Phrase(r"\blie back over\b", "overlap", "The last vectors lie back over those before."),
    Phrase(r"\bis to lie elsewhere\b|\bare to lie elsewhere\b", "must not alias", "Operands are to lie elsewhere."),
    Phrase(r"\bno kernel is worth\b", "falls back to NumPy", "NumPy does what no kernel is worth."),
    Phrase(r"\bvanish(?:es)? into\b", "be fused into", "It does not vanish into all its users."),
    Phrase(r"\bnobody minds\b", "off by default", "Nobody minds who does not know it."),
    Phrase(r"\b(?:for|among) nobody\b", "unused, with one participant", "Collectives among nobody else."),
    Phrase(r"\bof which there are as many\b", "the same number of", "Devices, of which there are as many."),
    Phrase(r"\bjudges? (?:itself|themselves)\b", "self-checking", "Exercises that judge themselves."),
    Phrase(r"\bnone such\b", "none", "XLA:CPU has none such."),
    Phrase(r"\bthe same door\b|\bfront door\b", "the same function", "Grappler goes by the same door."),
    Phrase(r"\bseldom\b", "rarely", "Collect garbage seldom."),
    Phrase(r"\bwhat of it\b", "the part that", "The pipeline, and what of it is run."),
)
"""Not in docstrings either."""

SHOWN = (
    Phrase(
        r"\b(?:to|of|by|after|than|most|beyond|such|with) so many\b(?! \w+ that)",
        "this many",
        "Rounded to so many values.",
    ),
    Phrase(r"\bmov(?:es?|ed|ing) the numbers\b", "change the result", "No pass moved the numbers."),
    Phrase(r"\bmakes of (?:it|them)\b", "compiles it to", "What the real XLA makes of it."),
    Phrase(r"\bgives? way to\b", "is replaced by", "Nodes give way to their input."),
    Phrase(r"\banew\b", "again", "Compile the program anew."),
    Phrase(r"\bstands? (?:in|at) the (?:trace|text|order|table)\b", "is in the", "It stands in the trace as text."),
    Phrase(r"\ban?other number of\b", "a different number of", "It takes another number of operands."),
    Phrase(r"\bis no (?:HLO|JSON|array|module|function|call)\b", "is not a", "The file is no HLO."),
    Phrase(r"\bbeside (?:it|them|the|your|each)\b", "next to", "Copies that run beside the bundles."),
    Phrase(r"\b(?:run|runs) aside\b", "overlaps", "A computation that runs aside."),
    Phrase(r"\bfight(?:s|ing)? (?:for|over)\b", "conflict over", "Values that would fight for a buffer."),
    Phrase(r"\bhalves, and\b|\bIt halves\b", "bisects", "It halves; exhaustive evaluates all."),
    Phrase(r"\bwhat was put off\b", "not loaded yet", "Load what was put off."),
)
"""Not in pages, lessons and messages: what users see."""


def _prose(text: str) -> str:
    """Markdown without its code, on one line."""
    text = re.sub(r"^( *)```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    return " ".join(re.sub(r"``?[^`]*``?", "`", text).split())


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Docstrings, and the strings behind assignments that document them."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str()) as constant):
                    yield constant


@cache
def pages() -> tuple[tuple[str, str], ...]:
    """The place and the prose of each page that is written by hand, and of each lesson."""
    files = [*ROOT.glob("*.md"), *(p for p in sorted((ROOT / "docs").rglob("*.md")) if p.name not in GENERATED)]
    found = [(str(p.relative_to(ROOT)), _prose(p.read_text(encoding="utf-8"))) for p in files]
    for path in sorted((ROOT / "notebooks").rglob("*.ipynb")):
        for k, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
            if cell["cell_type"] == "markdown":
                found.append((f"{path.relative_to(ROOT)}, cell {k}", _prose("".join(cell["source"]))))
    return tuple(found)


@cache
def strings() -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """The place and the text of the package's messages, and of its docstrings."""
    messages, documents = [], []
    for path in sorted((ROOT / "xlanb").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        described = {id(c) for c in _docstrings(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                kind = documents if id(node) in described else messages
                kind.append((f"{path.relative_to(ROOT)}:{node.lineno}", _prose(node.value)))
    for path in sorted((ROOT / "xlanb").rglob("*.js")):
        for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found_here = re.findall(r'"([^"]*)"|`([^`]*)`', line)
            messages += [(f"{path.relative_to(ROOT)}:{n}", a + b) for a, b in found_here if " " in a + b]
    return tuple(messages), tuple(documents)


def found(phrases: tuple[Phrase, ...], texts: Iterable[tuple[str, str]]) -> dict[Phrase, list[str]]:
    """Return the matches of each phrase with context, in one pass over some 30,000 texts."""
    any_of = re.compile("|".join(f"(?P<p{k}>{p.pattern})" for k, p in enumerate(phrases)), re.IGNORECASE)
    places: dict[Phrase, list[str]] = {}
    for place, text in texts:
        for m in any_of.finditer(text):
            around = text[max(0, m.start() - 40) : m.end() + 40]
            places.setdefault(phrases[int(str(m.lastgroup)[1:])], []).append(f"{place}: ...{around}...")
    return places


@cache
def everywhere() -> dict[Phrase, list[str]]:
    return found(EVERYWHERE, chain(pages(), *strings()))


@cache
def shown() -> dict[Phrase, list[str]]:
    return found(SHOWN, chain(pages(), strings()[0]))


@pytest.mark.parametrize("phrase", EVERYWHERE, ids=lambda p: p.instead)
def test_a_phrase_is_nowhere(phrase: Phrase) -> None:
    assert everywhere().get(phrase, []) == [], f"write: {phrase.instead}"


@pytest.mark.parametrize("phrase", SHOWN, ids=lambda p: p.instead)
def test_a_phrase_is_not_in_what_users_see(phrase: Phrase) -> None:
    assert shown().get(phrase, []) == [], f"write: {phrase.instead}"


@pytest.mark.parametrize("phrase", [*EVERYWHERE, *SHOWN], ids=lambda p: p.instead)
def test_a_sentence_with_the_phrase_is_found(phrase: Phrase) -> None:
    assert list(found((phrase,), [("here", phrase.example)])) == [phrase]


def test_messages_docstrings_and_lessons_are_read() -> None:
    messages, documents = strings()
    assert any("names the pass" in t or "expected" in t for _, t in messages)
    assert len(documents) > 1000
    assert sum(".ipynb" in place for place, _ in pages()) > 100
    assert "docs/glossary.md" in {place for place, _ in pages()}


def test_code_is_not_prose() -> None:
    assert _prose("Read `anew` here:\n\n```python\nx = 'anew'\n```\n\nEnd.") == "Read ` here: End."


def test_entries_of_the_changelog_are_one_short_line_each() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("## 0.1.0")[2].splitlines()
    assert [line for line in lines if len(line) > CHANGELOG_WIDTH] == []
    assert [line for line in lines if line and not line.startswith(("- ", "#", "[", " (unreleased)"))] == []
