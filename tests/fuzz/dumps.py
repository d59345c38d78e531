"""Dump directories as XLA and TensorFlow write them, damaged and with unexpected files.

Each is one JSON object, {path: entry}. An entry is the file's text, or one of these objects:
`{"bytes": base64}`, `{"gzip": base64 of the content}`, `{"cut": base64, "to": share}` (gzipped,
then cut off),
`{"zeros": count}` (gzipped), `{"sparse": size}`, `{"link": target}`, `{"pipe": 1}`, `{"folder":
1}`.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

import xlanb
from tests.fuzz.graph_seeds import small_seeds
from tests.fuzz.kinds import Item
from tests.fuzz.mutate import TEXTS, change_bytes, change_text
from tests.fuzz.proto_bombs import bomb
from xlanb.errors import InternalError, XlanbError
from xlanb.graph.graphdef.attr_values import new_message

Entry = Any
_TEXT = """HloModule jit_step

sum {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY main {
  x = f32[7,3]{1,0} parameter(0), metadata={op_name="x" source_file="step.py" source_line=3}
  y = f32[3,5]{1,0} parameter(1)
  d = f32[7,5]{1,0} dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[7,5]{1,0} tanh(d)
  zero = f32[] constant(0)
  ROOT r = f32[7]{0} reduce(t, zero), dimensions={1}, to_apply=sum
}
"""
_FLAGS = "--xla_dump_hlo_pass_re=.* --xla_dump_hlo_as_text --xla_dump_hlo_as_proto --xla_dump_hlo_as_dot --xla_dump_hlo_as_html"
MARKUP = '"><img src=x onerror=alert(1)><script>alert(1)</script>'
_NAMES = (
    *TEXTS, MARKUP, "module_0000", "module_99999999999999999999", "module_0000.", ".gz", ".", "module_-001.x.txt",
    "module_0001.jit_a.0003.txt",
    "module_0000.jit_step.0007.simplification.after_dce.before_cse.txt",
    "module_0000.jit_step.before_optimizations.txt.gz", "hlo_graph_0.x.dot",
    "1234567890123.module_0000.jit_step.before_optimizations.txt",
    "before_mark_for_compilation_9999999999999999999999.pbtxt", "a" * 250, "\udcff.txt",
)  # fmt: skip
_TARGETS = (".", "..", "/", "loop", "nothing", "/dev/zero", "/dev/stdin", "/proc/self/mem", "/etc")
_FUNCTION = 'signature { name: "f" }\nnode_def { name: "x" op: "NoOp" }\n'
_EXTRA = {
    "module_0000.jit_step.sm_90.ptx": ".version 8.0\n.target sm_90\n.visible .entry k(.param .u64 p)\n{\n\tret;\n}\n",
    "module_0000.jit_step.thunk_sequence.txt": "000: kKernel {fusion}\n001: kCopy\n",
    "module_0000.jit_step.autotune_results.pbtxt": "version: 3\n",
    "module_0000.jit_step.gpu_after_optimizations-buffer-assignment.txt": (
        "BufferAssignment:\nallocation 0: size 16, parameter 0, shape |f32[4]| at ShapeIndex {}:\n"
        " value: <2 x @0> (size=16,offset=0): f32[4]{0}\n"
    ),
    "encapsulate_fdef.pbtxt": _FUNCTION,
    "hlo_graph_1.dot": "digraph G {\n a -> b;\n}\n",
    "notes.txt": "nothing\n",
}


@cache
def _files() -> dict[str, Entry]:
    """A dump of a small program and of graphs, in every form."""
    with tempfile.TemporaryDirectory() as folder:
        with xlanb.flags(f"--xla_dump_to={folder} {_FLAGS}"):
            xlanb.compile(_TEXT)
        found: dict[str, Entry] = {
            p.name: _entry(p.read_bytes()) for p in sorted(Path(folder).iterdir()) if p.is_file()
        }
    graph = new_message("GraphDef")
    graph.ParseFromString(sorted(small_seeds(), key=len)[len(small_seeds()) // 2])
    return {
        **found,
        **_EXTRA,
        "before_mark_for_compilation.pbtxt": str(graph),
        "partition_0.pb": _entry(graph.SerializeToString()),
    }


@cache
def _given() -> tuple[dict[str, Entry], ...]:
    """The dump folders in XLANB_FUZZ_SEEDS, each subfolder separately."""
    found: dict[str, dict[str, Entry]] = {}
    for root in filter(None, os.environ.get("XLANB_FUZZ_SEEDS", "").split(os.pathsep)):
        for path in sorted(Path(root).rglob("*")):
            if path.is_file() and path.stat().st_size < 200_000 and ("module_" in path.name or path.suffix == ".pbtxt"):
                found.setdefault(str(path.parent), {})[path.name] = _entry(path.read_bytes())
    return tuple(found.values())


def prepare() -> None:
    """Write the seeds once, before children are forked."""
    _files()
    _given()


def _entry(data: bytes) -> Entry:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(data).decode()}


def _content(entry: Entry) -> bytes:
    """The content of an entry before it is packed, as far as it is stored."""
    if isinstance(entry, str):
        return entry.encode("utf-8", "surrogatepass")
    return base64.b64decode(next((entry[k] for k in ("bytes", "gzip", "cut") if k in entry), ""))


def _pick(items: Any, rng: np.random.Generator) -> Any:
    return items[int(rng.integers(len(items)))]


# ------------------------------------------------------------------------------------ the mutations


def mutants(rng: np.random.Generator) -> Iterator[str]:
    """Mutations of the seeds' directories, of up to eight files."""
    while True:
        seed = _pick(_given(), rng) if _given() and rng.random() < 0.5 else _files()
        names = sorted(seed)
        files = {names[int(k)]: seed[names[int(k)]] for k in rng.permutation(len(names))[:8]}
        for _ in range(int(rng.integers(1, 5))):
            _change(files, rng)
        yield json.dumps(files)


def _change(files: dict[str, Entry], rng: np.random.Generator) -> None:
    name = _pick(sorted(files), rng)
    how = rng.random()
    if how < 0.3:
        files[name] = _damaged(files[name], rng)
    elif how < 0.45:
        files[_other_name(name, sorted(files), rng)] = files.pop(name)
    elif how < 0.55:
        files[name] = files[_pick(sorted(files), rng)]
    elif how < 0.65:
        files[_other_name(name, sorted(files), rng)] = files[name]
    elif how < 0.8:
        files[name] = _packed(files[name], rng)
        if not name.endswith(".gz") and rng.random() < 0.9:
            files[f"{name}.gz"] = files.pop(name)
    elif how < 0.995:
        files[name] = _pick(_SPECIAL, rng)(rng)
    else:
        prefix = change_text(name[:80], rng)[:80]
        files.update({f"{prefix}{k}": "" for k in range(int(rng.integers(100, 2000)))})


def _damaged(entry: Entry, rng: np.random.Generator) -> Entry:
    if isinstance(entry, str) and rng.random() < 0.7:
        return change_text(entry, rng) if rng.random() < 0.5 else _marked(entry, rng)
    return _entry(change_bytes(_content(entry), rng))


def _marked(text: str, rng: np.random.Generator) -> str:
    """The text with one word replaced by markup, or one number by another."""
    words = text.split(" ")
    words[int(rng.integers(len(words)))] = _pick(
        (MARKUP, *_NAMES[:12], "javascript:alert(1)", "9" * 30, "-1", "nan"), rng
    )
    return " ".join(words)


def _other_name(name: str, names: list[str], rng: np.random.Generator) -> str:
    how = int(rng.integers(0, 6))
    if how == 0:
        return change_text(name, rng)
    if how == 1:  # another form of the same step
        return f"{name.rpartition('.')[0]}.{_pick(('txt', 'hlo.pb', 'pb', 'hlo', 'dot', 'html', 'll', 'o', 's', 'ptx', 'pbtxt', 'mlir', 'gz'), rng)}"
    if how == 2:
        return f"{_pick(('module_0000.jit_step', 'below', 'a/b/c/d', 'module_0001.x', MARKUP.replace('/', '')), rng)}/{name}"
    if how == 3:
        return str(_pick(_NAMES, rng))
    if how == 4:
        return name + str(_pick(TEXTS, rng))
    first, second = name.split("."), str(_pick(names, rng)).split(".")
    first[int(rng.integers(len(first)))] = _pick(second, rng)
    return ".".join(first)


def _packed(entry: Entry, rng: np.random.Generator) -> Entry:
    data = base64.b64encode(_content(entry)).decode()
    if rng.random() < 0.5:
        return {"gzip": data}
    return {"cut": data, "to": round(float(rng.random()), 3)}


_SPECIAL = (
    lambda rng: {"bytes": base64.b64encode(bomb(rng)).decode()},
    lambda rng: {"bytes": base64.b64encode(bomb(rng)).decode()},
    lambda rng: {"link": str(_pick(_TARGETS, rng))},
    lambda _: {"pipe": 1},
    lambda _: {"folder": 1},
    lambda rng: {"sparse": int(2 ** rng.uniform(31, 45)) if rng.random() < 0.98 else 1 << 29},
    lambda rng: {"zeros": int(2 ** rng.uniform(10, 21)) if rng.random() < 0.98 else 1 << 27},
    lambda rng: {"gzip": base64.b64encode(bomb(rng)).decode()},
)


# ---------------------------------------------------------------------------------------- the check


def quick(item: Item, rng: np.random.Generator) -> str | None:
    """Open the directory and display all of it as text."""
    return _checked(item, rng, shown=rng.random() < _SHOWN)


def check(item: Item, rng: np.random.Generator) -> str | None:
    """Open the directory and display all that a notebook or a page would show of it."""
    return _checked(item, rng, shown=True)


_SHOWN = 0.01


def _checked(item: Item, rng: np.random.Generator, *, shown: bool) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "dump"
        root.mkdir()
        for name, entry in json.loads(item).items():
            _write(root, name, entry)
        try:
            dump = xlanb.read_dump(root)
            texts = [str(dump), repr(dump), *(f"{a}{b}" for a, b in dump.others)]
            if shown:
                texts += [str(dump.modules), str(dump.files), *map(str, dump._repr_mimebundle_().values())]
            traces = [
                *map(dump.trace, dump.ranked[: 1 + int(rng.random() < 0.2)]),
                *([dump.graphs] if dump.graphs is not None else []),
            ]
            for trace in traces:
                texts += [str(trace), *(str(stage.after) for stage in trace.stages)]
            if shown and traces:
                page = Path(folder) / "page.html"
                traces[int(rng.integers(len(traces)))].to_html(page)
                texts.append(page.read_text(encoding="utf-8"))
            return next((f for t in texts if (f := _lone(t)) is not None), None) or (
                find_markup(texts[-1]) if shown else None
            )
        except InternalError as error:
            cause = error.__cause__ or error
            return f"internal {type(cause).__name__} to {error.doing}: {str(cause)[:200]!r}"
        except XlanbError as error:
            return None if str(error).strip() else "silent: an error without a message"


def _lone(text: str) -> str | None:
    """Report text that cannot be encoded as UTF-8, which breaks pages and notebooks."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"surrogate: {text[max(error.start - 40, 0) : error.end + 40]!r} cannot be written"
    return None


class _Elements(HTMLParser):
    """Detects whether an element or attribute from a name or file became part of the page."""

    found = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "onerror" or (key in ("href", "src") and (value or "").strip().lower().startswith("javascript:")):
                self.found = self.found or f"<{tag} {key}={value!r}>"

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and data.strip() == "alert(1)":
            self.found = self.found or "<script>alert(1)"


def find_markup(page: str) -> str | None:
    """Report a page in which a text became an element, a handler or a script URL."""
    parser = _Elements()
    parser.feed(page)
    return f"markup: {parser.found} of a name became the page's" if parser.found else None


def _write(root: Path, name: str, entry: Entry) -> None:
    """Write one entry, if the file system accepts its name."""
    parts = [p.replace("\0", "") for p in name.split("/") if p not in ("", "..")]
    with contextlib.suppress(OSError, ValueError):
        path = root.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(entry, dict):
            path.write_bytes(_content(entry))
        elif "link" in entry:
            path.symlink_to(entry["link"])
        elif "pipe" in entry:
            os.mkfifo(path)
        elif "folder" in entry:
            path.mkdir()
        elif "sparse" in entry:
            with path.open("wb") as file:
                file.truncate(entry["sparse"])
        else:
            path.write_bytes(_zeros(entry["zeros"]) if "zeros" in entry else _squeezed(entry))


@cache
def _zeros(count: int) -> bytes:
    return gzip.compress(b"HloModule z\n" + bytes(count), 1)


def _squeezed(entry: Entry) -> bytes:
    data = _content(entry)
    if "bytes" in entry:
        return data
    packed = gzip.compress(data, 1)
    return packed[: int(len(packed) * entry["to"])] if "to" in entry else packed
