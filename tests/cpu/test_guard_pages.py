"""Programs between guard pages: code that once read out of bounds, over types and shapes.

Runs in a process of its own, which dies on such an access.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest

from tests.cpu.guard_pages import Mode, arena_blocks

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs mprotect and fork")

TYPES = pytest.mark.parametrize(
    "types", [("f32", "bf16", "f16", "c64"), ("f8e4m3fn", "pred", "u4", "s4", "u8")], ids=" ".join
)


def check(tmp_path: Path, texts: Iterable[str]) -> None:
    """Check that every module, in all modes, accesses nothing outside its arrays."""
    lines = [json.dumps({"text": text}) for text in texts]
    path = tmp_path / "modules.jsonl"
    path.write_text("\n".join(lines))
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.guard",
        path,
        "--jobs",
        "1",
        "--timeout",
        "200",
        "--folder",
        tmp_path / "found",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.split()[:2] == [str(len(lines)), "ran"], done.stdout + done.stderr
    assert done.returncode == 0


def entry(body: str, regions: str = "") -> str:
    """A module of an entry and other computations."""
    return f"HloModule m\n{regions}ENTRY e {{\n{body}\n}}\n"


def fold(opcode: str, t: str) -> str:
    """A computation of two scalars."""
    return f"fold {{\n  a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n  ROOT r = {t}[] {opcode}(a, b)\n}}\n"


@pytest.mark.parametrize("t", ["c64", "c128"])
def test_short_complex_arrays_side_by_side(tmp_path, t):
    def text(sizes: tuple[int, ...]) -> str:
        lines = [f"p{k} = {t}[{n}]{{0}} parameter({k})" for k, n in enumerate(sizes)]
        given = ", ".join(f"p{k}" for k in range(len(sizes)))
        return entry("\n".join([*lines, f"ROOT r = {t}[{sum(sizes)}]{{0}} concatenate({given}), dimensions={{0}}"]))

    check(tmp_path, (text(sizes) for sizes in ((2, 5, 2),) * 7 + ((3, 1, 3),) * 7 + ((1, 2, 1, 7),) * 7))


def test_gathers_and_slices_at_any_place(tmp_path):
    text = """
      table = f32[37,5]{1,0} parameter(0)
      at = s32[11]{0} parameter(1)
      g = f32[11,5]{1,0} gather(table, at), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}
      x = s32[] parameter(2)
      zero = s32[] constant(0)
      s = f32[7,5]{1,0} dynamic-slice(table, x, zero), dynamic_slice_sizes={7,5}
      ROOT out = (f32[11,5]{1,0}, f32[7,5]{1,0}) tuple(g, s)"""
    check(tmp_path, [entry(text)])


def test_dots_and_sums_of_odd_sizes(tmp_path):
    dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    text = f"""
      a = bf16[13,33]{{1,0}} parameter(0)
      b = bf16[33,17]{{1,0}} parameter(1)
      d = bf16[13,17]{{1,0}} dot(a, b), {dot}
      w = f32[13,17]{{1,0}} convert(d)
      zero = f32[] constant(0)
      r = f32[17]{{0}} reduce(w, zero), dimensions={{0}}, to_apply=fold
      ROOT out = (bf16[13,17]{{1,0}}, f32[17]{{0}}) tuple(d, r)"""
    tail = f"""
      a = f8e4m3fn[33,33]{{1,0}} parameter(0)
      b = f8e4m3fn[33,33]{{1,0}} parameter(1)
      ROOT d = bf16[33,33]{{1,0}} dot(a, b), {dot}"""
    check(tmp_path, [entry(text, fold("add", "f32")), entry(tail)])


@TYPES
def test_small_transposes(tmp_path, types):
    """Strided elements, further apart than a vector is wide."""
    shapes = [(4, n) for n in (5, 6, 7, 8, 9, 17)] + [(8, 9), (16, 17)]
    texts = [
        entry(
            f"  p = {t}[{b},{a}]{{0,1}} parameter(0)\n  ROOT t = {t}[{a},{b}]{{0,1}} transpose(p), dimensions={{1,0}}"
        )
        for t, (a, b) in product(types, shapes)
    ]
    texts += [
        entry(f"  p = {t}[{a},{b},{c}]{{1,0,2}} parameter(0)\n  ROOT r = {t}[{a},{b},{c}]{{2,1,0}} copy(p)")
        for t, (a, b, c) in product(types, [(2, 3, 4), (3, 5, 4)])
    ]
    check(tmp_path, texts)


def test_dots_of_transposed_operands(tmp_path):
    texts = [
        entry(
            f"  a = {t}[{m},{k}]{{0,1}} parameter(0)\n  b = {t}[{n},{k}] parameter(1)\n"
            f"  ROOT d = {t}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"
        )
        for t, (m, n, k) in product(("f32", "bf16", "f8e5m2", "u32"), ((5, 3, 8), (8, 4, 8), (16, 4, 8), (16, 4, 5)))
    ]
    check(tmp_path, texts)


def test_updates_of_strided_slices(tmp_path):
    texts = [
        entry(
            f"  p = s32[4,{n}]{{0,1}} parameter(0)\n  v = s32[4,{n}]{{0,1}} parameter(1)\n  i = s32[] parameter(2)\n"
            f"  c = s32[] constant(0)\n  u = s32[1,{n}]{{0,1}} slice(v), slice={{[1:2], [0:{n}]}}\n"
            f"  ROOT d = s32[4,{n}]{{0,1}} dynamic-update-slice(p, u, i, c)"
        )
        for n in (5, 8, 17)
    ]
    check(tmp_path, texts)


def test_strided_slices(tmp_path):
    texts = []
    for step, t, n in product((2, 5, 6, 7, 8, 11), ("f32", "bf16", "s8"), (4, 8, 17)):
        size = step * (n - 1) + 1  # no padding after the last element
        body = f"  p = {t}[{size}] parameter(0)\n  ROOT s = {t}[{n}] slice(p), slice={{[0:{size}:{step}]}}"
        texts.append(entry(body))
    check(tmp_path, texts)


WINDOWS = [
    ((3, 8, 9), 1, 15, 7, 7), ((9, 8), 0, 17, 8, 8), ((2, 8), 1, 15, 7, 7), ((3, 8, 9), 1, 14, 7, 7),
    ((8, 9), 0, 19, 0, 12), ((8, 9), 0, 19, 12, 0), ((8, 9), 0, 15, 3, 20),
]  # fmt: skip
"""(dimensions, axis, size, padding before and after).

Windows that all contain the whole array, or that begin or end outside it, some of them empty.
"""


@TYPES
def test_windows_larger_than_the_array(tmp_path, types):
    texts = []
    for t, (dims, axis, size, low, high) in product(types, WINDOWS):
        out = [n + low + high - size + 1 if d == axis else n for d, n in enumerate(dims)]
        window = "x".join(str(size) if d == axis else "1" for d in range(len(dims)))
        pad = "x".join(f"{low}_{high}" if d == axis else "0_0" for d in range(len(dims)))
        shape, made = (",".join(map(str, v)) for v in (dims, out))
        body = (
            f"  p = {t}[{shape}] parameter(0)\n  c = {t}[] parameter(1)\n"
            f"  ROOT w = {t}[{made}] reduce-window(p, c), window={{size={window} pad={pad}}}, to_apply=fold"
        )
        texts.append(entry(body, fold("or" if t == "pred" else "add", t)))
    check(tmp_path, texts)


# -- the guards themselves -------------------------------------------------------------------------


def _touch(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(("at_end", "offset"), [(True, 100), (False, -1)])
def test_the_guards_are_there(at_end, offset):
    done = _touch(
        "import ctypes; from tests.cpu.guard_pages import Guarded\n"
        f"m = Guarded(100, at_end={at_end}); m.fill(bytes(100)); print('in', flush=True); ctypes.memset(m.address + {offset}, 0, 1)"
    )
    assert done.stdout == "in\n"
    assert done.returncode < 0


CHAIN = """HloModule m
ENTRY e {
  p = f32[99] parameter(0)
  s = f32[99] sort(p), dimensions={0}, to_apply=less
  r = f32[99] reverse(s), dimensions={0}
  ROOT t = f32[99] sort(r), dimensions={0}, to_apply=less
}
"""
LESS = "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER\n}\n"


@pytest.mark.parametrize("at_end", [True, False])
def test_temporaries_lie_apart_and_are_guarded(at_end):
    exe = Mode(at_end=at_end).compile(CHAIN.replace("ENTRY", LESS + "ENTRY"))
    blocks = arena_blocks(exe)
    assert blocks
    for begin, size, _ in blocks:
        assert -(begin + size) % 4096 < 64 if at_end else begin % 4096 == 0
    ends = [begin + size for begin, size, _ in blocks]
    assert all(after[0] - end >= 4096 for end, after in zip(ends, blocks[1:], strict=False))
    begin, size, _ = blocks[-1]
    beyond = begin + -(-size // 64) * 64 if at_end else begin - 1
    done = _touch(
        "import ctypes; from tests.cpu.guard_pages import Arena, Mode\n"
        f"exe = Mode(at_end={at_end}).compile({CHAIN.replace('ENTRY', LESS + 'ENTRY')!r})\n"
        f"a = Arena(exe, at_end={at_end}); a.fill(1); print('in', flush=True); ctypes.memset(a.address + {beyond}, 0, 1)"
    )
    assert done.stdout == "in\n", done.stderr
    assert done.returncode < 0


@pytest.mark.parametrize("at_end", [True, False])
def test_arrays_on_the_stack_are_guarded(at_end):
    """A kernel made to write outside one of its stack arrays."""
    done = _touch(
        "from unittest import mock\n"
        "from tests.cpu.guard_pages import Mode, random_inputs, run_guarded\nfrom xlanb.cpu.emitters import windows\n"
        "text = ('HloModule m\\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\\n'\n"
        "        'ENTRY e { p = f32[5,33] parameter(0) c = f32[] constant(0) '\n"
        "        'ROOT w = f32[5,33] reduce-window(p, c), window={size=1x3 pad=0_0x1_1}, to_apply=add }')\n"
        f"mode = Mode(at_end={at_end}, stacks=True)\n"
        "inputs = random_inputs(mode.compile(text), wild=False)\n"
        f"run_guarded(mode.compile(text), inputs, at_end={at_end})\nprint('in', flush=True)\n"
        "plain, store = windows._WindowFolds._row_length, windows.store\n"
        f"windows._WindowFolds._row_length = lambda self, d: {16 if at_end else 'plain(self, d)'}\n"
        f"moved = lambda t, row, at, value: store(t, row, at if {at_end} else row.function.sub(at, 1), value)\n"
        "windows.store = moved\n"
        f"run_guarded(mode.compile(text), inputs, at_end={at_end})\n"
    )
    assert done.stdout == "in\n", done.stderr
    assert done.returncode < 0
