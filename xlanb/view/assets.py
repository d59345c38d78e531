"""The front end's files: ES modules, concatenated without a bundler, and the style sheet."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from xlanb.view.packing import packed_text

_FOLDER = Path(__file__).parent / "step"
# In the order of their imports. Every top-level name is unique, as all share one scope.
_MODULES = tuple(
    "dom store highlight loops layers stay measure route edges trails stubs stublist place outline bundles part "
    "rim scene ghosts colours shapes save minimap fly opening focus pointer graph predict picture replay text "
    "textpane splitter code compare why pair overlay attempt numerics charts tpu gpu "
    "sharding source side passes branches cell walk order progress traits stale live find secondgraph start "
    "fullscreen graphpane filmlineage filmplan filmtime filmwords filmdraw filmsave filmbar filmpane pins keys "
    "panes around frame main".split()
)
_STARTERS = ("unpack", "saved")  # of the output that has program and style
_LOADERS = ("loader", "standin")  # of every output
_STYLES = ("step.css", "graph.css", "panes.css", "tpu.css", "gpu.css", "live.css", "film.css", "sharding.css")
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[\w.]+";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let)\b)", re.MULTILINE)

# Comments, indentation and empty lines, which a page does not need. No string here spans lines or
# contains the start of a comment. Trailing comments are removed only if they have no quote, as they
# may be the rest of a string.
_COMMENT = re.compile(
    r"/\*\*.*?\*/ ?|^[ \t]+(?://[^\n]*\n)?|^//[^\n]*\n|^\n|[ \t]+// [^\n\"'`]*$", re.MULTILINE | re.DOTALL
)


@cache
def program() -> str:
    """Return all modules as one JavaScript program that defines `render`."""
    return _put_together('"use strict";', _MODULES)


def _put_together(first: str, modules: Iterable[str]) -> str:
    parts = [first]
    for name in modules:
        source = (_FOLDER / f"{name}.js").read_text(encoding="utf-8")
        parts.append(_EXPORT.sub("", _IMPORT.sub("", source)))
    return _COMMENT.sub("", "\n".join(parts))


def esm() -> str:
    """The ES module that anywidget loads."""
    return f"{program()}\nexport default {{ render }};\n"


@cache
def version() -> str:
    """Return a short digest of program, style and unpacker.

    So pages with several views load the program once.
    """
    return hashlib.sha256((program() + css() + _put_together("", _STARTERS)).encode()).hexdigest()[:12]


def script() -> str:
    """Return the program for a page without modules; it stores `render` under a symbol with its
    version.
    """
    return f'(() => {{\n{program()}\nglobalThis[Symbol.for("xlanb.step.{version()}")] = {{ render }};\n}})();\n'


@cache
def css() -> str:
    """The style sheet, for a shadow root."""
    return "".join((_FOLDER / name).read_text(encoding="utf-8") for name in _STYLES)


@cache
def loader(*, stands_in: bool = False) -> str:
    """Start a view on a page without a kernel; `stands_in`: only if the live view next to it does
    not appear.
    """
    modules, start = (_LOADERS, "standIn(waitingView({}))") if stands_in else (_LOADERS[:1], "waitingView({}).start()")
    return f"(() => {{\n{_put_together('', modules).strip()}\n{start.format('document.currentScript')};\n}})();"


@cache
def shared_html() -> str:
    """Return program and style, packed, and the code that unpacks and starts them, once per
    page.
    """
    given = {"program": script(), "style": css()}
    parts = [
        f'<script type="application/octet-stream" data-code="{k}">{packed_text(v)}</script>' for k, v in given.items()
    ]
    start = f'shareCode(document.currentScript, "{version()}");'
    parts.append(f'<script data-code="start">(() => {{\n{_put_together("", _STARTERS)}{start}\n}})();</script>')
    return "\n".join(parts)
