"""Dump directories with changed names and contents: each is one JSON object, {file name: text}."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

import xlanb
from tests.fuzz.kinds import Item
from tests.fuzz.mutate import TEXTS, change_text
from xlanb.errors import XlanbError

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


@cache
def _files() -> dict[str, str]:
    """A dump of a small program, written by xlanb in XLA's format."""
    with tempfile.TemporaryDirectory() as folder:
        with xlanb.flags(f"--xla_dump_to={folder} --xla_dump_hlo_pass_re=.* --xla_dump_hlo_as_dot"):
            xlanb.compile(_TEXT)
        return {p.name: p.read_text(errors="surrogateescape") for p in Path(folder).iterdir() if p.is_file()}


def mutants(rng: np.random.Generator) -> Iterator[str]:
    """Directories like that of the seed program, of up to a dozen files."""
    names = sorted(_files())
    while True:
        files = {n: _files()[n] for n in rng.choice(names, min(len(names), 12), replace=False)}
        for _ in range(int(rng.integers(1, 5))):
            name = str(rng.choice(sorted(files)))
            how = int(rng.integers(0, 4))
            if how == 0:
                files[name] = change_text(files[name], rng)
            elif how == 1:
                files[change_text(name, rng)] = files.pop(name)
            elif how == 2:
                files[name] = files[str(rng.choice(sorted(files)))]
            else:
                files[f"{name}{TEXTS[int(rng.integers(0, len(TEXTS)))]}"] = files[name]
            if not files:
                break
        yield json.dumps(files)


def check(item: Item, rng: np.random.Generator) -> str | None:
    """Open the directory and look at what a notebook would show of it."""
    files: dict[str, str] = json.loads(item)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            _write(folder, name, text, packed=rng.random() < 0.1)
        with contextlib.suppress(XlanbError):
            dump = xlanb.read_dump(folder)
            shown = [str(dump), repr(dump), dump._repr_mimebundle_()]
            for k in range(len(dump)):
                with contextlib.suppress(XlanbError):
                    trace = dump[k]
                    shown += [str(trace), *(str(stage.after) for stage in trace.stages)]
            if len(dump):
                with contextlib.suppress(XlanbError):
                    dump[0].to_html(Path(folder) / "page.html")
                    page = (Path(folder) / "page.html").read_text(encoding="utf-8", errors="replace")
                    if "<script>alert(1)" in page:
                        return "markup: a name became a script of the page"
    return None


def _write(folder: str, name: str, text: str, *, packed: bool) -> None:
    """Write one file, where the file system takes its name."""
    data = text.encode("utf-8", "surrogateescape" if "\udc80" in text else "replace")
    where = os.fsencode(folder) + b"/" + name.replace("/", "_").encode("utf-8", "surrogateescape")
    with contextlib.suppress(OSError, ValueError):
        path = os.fsdecode(where + (b".gz" if packed else b""))
        Path(path).write_bytes(gzip.compress(data) if packed else data)
