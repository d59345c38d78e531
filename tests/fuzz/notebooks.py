"""Input from notebooks: messages of the widget's frontend, and lines and cells of magics.

A find is what no user should see: a foreign exception, an InternalError, a name's markup in HTML,
an answer that is not JSON. A message kind's input is a JSON list of messages; a magic's is an
object with its name, line and cell.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import xlanb
from tests.fuzz.dumps import MARKUP, find_markup
from tests.fuzz.kinds import Item
from tests.fuzz.mutate import NUMBERS, TEXTS, change_json, change_text, other_value
from xlanb.errors import InternalError, XlanbError
from xlanb.notebook.explore import explore

_TEXT = """HloModule m
ENTRY e {
  a = f32[8] parameter(0)
  b = f32[8] parameter(1)
  c = f32[8] add(a, b), metadata={op_name="sum\\"><img src=x onerror=alert(1)>" source_file="javascript:alert(1)" source_line=7}
  ROOT r = f32[8] multiply(c, a)
}
"""
_ACTIONS = (
    "step",
    "run",
    "edit",
    "fork",
    "passes",
    "reorder",
    "toggle",
    "numerics",
    "load",
    "export",
    "sync",
    "hello",
    "nothing",
    "",
)
_MESSAGES: tuple[dict[str, Any], ...] = (
    {"trace": 0, "stage": 0, "text": _TEXT, "order": [[0], [1, [[0]]]], "name": "algsimp", "off": True},
    {"trace": 0, "stage": 1, "text": "HloModule m", "order": [[3]], "name": MARKUP, "off": None},
    {"trace": -1, "stage": 10**6, "text": MARKUP, "order": [], "name": "", "off": "x"},
)


def _pick(items: Any, rng: np.random.Generator) -> Any:
    return items[int(rng.integers(len(items)))]


# ------------------------------------------------------------------------------------- the messages


def messages(rng: np.random.Generator) -> Iterator[str]:
    """Lists of messages, mostly valid with a field of another kind."""
    while True:
        made = []
        for _ in range(int(rng.integers(1, 5))):
            content: Any = {"type": _pick(_ACTIONS, rng), **_pick(_MESSAGES, rng)}
            for _ in range(int(rng.integers(0, 3))):
                content = change_json(content, rng)
            if isinstance(content, dict) and isinstance(content.get("text"), str) and rng.random() < 0.3:
                content["text"] = change_text(_TEXT, rng)
            message: Any = {"content": {"data": {"method": "custom", "content": content}}, "buffers": []}
            made.append(change_json(message, rng) if rng.random() < 0.1 else message)
        yield json.dumps(made)


def check_messages(item: Item, _rng: np.random.Generator) -> str | None:
    """Send them to a widget and record its answers."""
    widget = explore(_TEXT)
    answers: list[Any] = []
    widget.send = lambda content, _buffers=None: answers.append(json.loads(json.dumps(content)))
    widget.send_state = lambda *_given, **_named: None
    for message in json.loads(item):
        widget.error = None
        widget._handle_msg(message)
        if isinstance(widget.error, Exception) and (
            not isinstance(widget.error, XlanbError) or isinstance(widget.error, InternalError)
        ):
            cause = widget.error.__cause__ or widget.error
            return f"message {type(cause).__name__}: {str(cause)[:200]!r}"
    pages = [a["html"] for a in answers if isinstance(a, dict) and a.get("type") == "page"]
    pages.append(widget._repr_mimebundle_()[0]["text/html"])
    return next((f for page in pages if (f := find_markup(page)) is not None), None)


# --------------------------------------------------------------------------------------- the magics

_WORDS = {
    "xla_jit": (
        "-a", "-s", "--live", "-d", "-t", "-r", "-o", "-n", "-f", "--args", "-F", "--only", "--until", "--disable",
        "--check", "--against", "--bisect",
        "--why", "--max-nodes", "--min-cluster-size", "--lang", "-q", "hlo", "tf", "jax", "evaluator", "0", "2", "-1",
        "cse", "cse:dce", "0:99", "a,b", "(1,2)", "[", "(?P<",
    ),
    "xla_pass": ("-n", "--after", "--try", "--no-join", "-o", "-q", "algsimp", "m", "x", "1", "nothing"),
    "xla_unpass": ("algsimp", "x", "f"),
    "xla_open": (".", "nothing", "-m", "-o", "x", "m", "pipe", "file.hlo", "~nobody_there/x", "/dev/null"),
    "xla_diff": ("m", "n", "file.hlo", ".", "-p", "cse", "-o", "x", "1", "1/0", "m.", "~nobody_there", "pipe", "[]",
        "lambda: 0"),
    "xla_tensorflow": ("on", "off", "maybe"),
    "xla_flags": (
        "reset", "--xla_cpu_max_isa=AVX2", "xla_disable_hlo_passes=dce", "--xla_nothing", "--tf_xla_auto_jit=2",
        "--tf_xla_auto_jit=x", "=", "--", "--xla_dump_to",
        "--tf_xla_min_cluster_size=-1", "--xla_backend_optimization_level=99", "--xla_hlo_profile=maybe",
    ),
}  # fmt: skip
_CELLS = (
    _TEXT,
    "x + y",
    "def f(module):\n    pass\n",
    "from xlanb import tf\ntf.nn.relu(tf.constant([1.0]))\n",
    "class P(HloPass):\n    name = 'p'\n",
    "HloModule m\nENTRY e { ROOT p = f32[] parameter(0) }\n",
    "def f(module): return 3 +\n",
    "",
)
_QUOTES = ('"', "'", "\\", '"a b"', "''", '"', "--", "-", "=", ":", ",", "$", "{x}", "!ls", "%", "?")


def magics(rng: np.random.Generator) -> Iterator[str]:
    """Magics with their own words in any order, and unexpected ones."""
    while True:
        name = _pick(sorted(_WORDS), rng)
        words = [_word(name, rng) for _ in range(int(rng.integers(0, 6)))]
        line = " ".join(words)
        cell = _pick(_CELLS, rng)
        cell = change_text(cell, rng) if cell.startswith("HloModule") and rng.random() < 0.3 else cell
        yield json.dumps({"magic": name, "line": change_text(line, rng) if rng.random() < 0.15 else line, "cell": cell})


def _word(name: str, rng: np.random.Generator) -> str:
    how = rng.random()
    if how < 0.75:
        return str(_pick(_WORDS[name], rng))
    if how < 0.85:
        return str(_pick(_QUOTES, rng))
    return str(_pick((*TEXTS, MARKUP, *NUMBERS, other_value(rng)), rng))


@cache
def _shell() -> InteractiveShell:
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "xlanb")
    return shell


def prepare() -> None:
    """Create the shell before children are forked."""
    _shell()


def check_magics(item: Item, _rng: np.random.Generator) -> str | None:
    """Run one in a folder of its own. An exception raised by its cell is the user's."""
    given, shell = json.loads(item), _shell()
    name, line, cell = given["magic"], given["line"], given["cell"]
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, capture_output() as captured:
        inner = Path(folder, "a", "b", "c")  # so that ../.. is a small folder
        inner.mkdir(parents=True)
        os.chdir(inner)
        Path("file.hlo").write_text(_TEXT)
        os.mkfifo("pipe")
        shell.user_ns.update(m=xlanb.hlo.parse(_TEXT), n=xlanb.hlo.parse(_TEXT), x=1, y=2)
        try:
            found = shell.find_cell_magic(name) if name in ("xla_jit", "xla_pass") else shell.find_line_magic(name)
            result = found(line, cell) if name in ("xla_jit", "xla_pass") else found(line)
            shell.display_formatter.format(result)
        except InternalError as error:
            return f"internal {type(error.__cause__).__name__} to {error.doing}: {str(error.__cause__)[:200]!r}"
        except (XlanbError, UsageError):
            pass
        except Exception as error:
            if not _is_of_cell(error):
                raise
        finally:
            os.chdir(before)
            with xlanb.flags(""):
                shell.find_line_magic("xla_flags")("reset")
            _leave_passes()
    pages = [o.data["text/html"] for o in captured.outputs if "text/html" in o.data]
    return next((f for page in pages if (f := find_markup(page)) is not None), None)


def _leave_passes() -> None:
    """Remove the passes that an input added to the pipeline."""
    from xlanb.explorer.user_pass import leave_pipeline

    for name in ("f", "p", "P", "x", "m", "algsimp"):
        try:
            leave_pipeline(name)
        except XlanbError:
            continue


def _is_of_cell(error: BaseException) -> bool:
    """Whether a line of the user's cell, or an expression in the line, raised it."""
    if isinstance(error, SyntaxError | NameError):
        return True
    traceback = error.__traceback__
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        if name.startswith(("<ipython", "<string", "<xlanb", "<cell")):
            return True
        traceback = traceback.tb_next
    return False
