"""Polls of compiled loops: their positions, and that strips do not change results."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

from xlanb.codegen import polling
from xlanb.codegen.polling import BUDGET, LONG_ROUND, UNKNOWN_ROUNDS, Polls, plan
from xlanb.cpu import compile_module
from xlanb.cpu.codegen import program
from xlanb.errors import CancelledError
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
PROGRAMS = {
    "elementwise": "x = f32[33,129] parameter(0) s = f32[33,129] sine(x) ROOT y = f32[33,129] add(s, x)",
    "rows": "x = f32[33,129] parameter(0) z = f32[] constant(0) "
    "ROOT y = f32[33] reduce(x, z), dimensions={1}, to_apply=add",
    "columns": "x = f32[33,129] parameter(0) z = f32[] constant(0) "
    "ROOT y = f32[129] reduce(x, z), dimensions={0}, to_apply=add",
    "all": "x = f32[33,129] parameter(0) z = f32[] constant(0) "
    "ROOT y = f32[] reduce(x, z), dimensions={0,1}, to_apply=add",
    "transposed": "x = f32[33,129] parameter(0) ROOT y = f32[129,33] transpose(x), dimensions={1,0}",
    "contracted": "x = f32[33,129] parameter(0) "
    "ROOT y = f32[33,33] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "windows": "x = f32[33,129] parameter(0) z = f32[] constant(0) "
    "ROOT y = f32[31,127] reduce-window(x, z), window={size=3x3}, to_apply=add",
    "scanned": "x = f32[33,129] parameter(0) z = f32[] constant(0) "
    "ROOT y = f32[33,129] reduce-window(x, z), window={size=1x129 pad=0_0x128_0}, to_apply=add",
    "convolved": "x = f32[33,129] parameter(0) i = f32[1,33,129,1] reshape(x) k = f32[3,3,1,4] broadcast(z), "
    "dimensions={} z = f32[] constant(2) ROOT y = f32[1,31,127,4] convolution(i, k), window={size=3x3}, "
    "dim_labels=b01f_01io->b01f",
    "padded": "x = f32[33,129] parameter(0) z = f32[] constant(7) ROOT y = f32[37,260] pad(x, z), padding=1_3x2_1_1",
    "gathered": "x = f32[33,129] parameter(0) n = s32[40,1] iota(), iota_dimension=0 "
    "ROOT y = f32[40,129] gather(x, n), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,129}",
}
SORT = """HloModule m
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[33,129] parameter(0) ROOT y = f32[33,129] sort(x), dimensions={1}, to_apply=less }
"""


def _module(body: str) -> str:
    z = "z = f32[] constant(2) "
    body = z + body.replace(z, "") if z in body else body
    return f"HloModule m\n{ADD}ENTRY e {{\n  {body}\n}}\n"


def test_short_loops_do_not_poll() -> None:
    assert plan(1000, 10) == Polls(each=False, strip=0, left=10_000)
    assert plan(None, 10) == Polls(each=False, strip=0, left=10 * UNKNOWN_ROUNDS)


def test_long_rounds_poll_each() -> None:
    assert plan(BUDGET, LONG_ROUND) == Polls(each=True, strip=0, left=LONG_ROUND)
    assert plan(None, BUDGET // 2) == Polls(each=True, strip=0, left=BUDGET // 2)


def test_long_loops_of_short_rounds_poll_between_strips() -> None:
    made = plan(1 << 40, 10)
    assert not made.each
    assert 10 * made.strip == made.left <= BUDGET < 10 * (made.strip + 1)


@pytest.mark.parametrize("work", [1, 5, LONG_ROUND - 1, LONG_ROUND, 10 * LONG_ROUND])
@pytest.mark.parametrize("rounds", [1, 1000, BUDGET, BUDGET + 1, 1 << 40])
def test_no_more_than_the_budget_runs_between_two_polls(rounds: int, work: int) -> None:
    made = plan(rounds, work)
    assert made.left <= BUDGET
    assert (made.each or made.strip > 0) == (rounds * work > BUDGET)


@pytest.mark.parametrize("each", [False, True], ids=["strips", "each round"])
@pytest.mark.parametrize("name", [*PROGRAMS, "sorted"])
def test_loops_that_poll_give_what_others_give(name: str, each: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With almost no budget every loop polls, between short strips or in each iteration."""
    text = SORT if name == "sorted" else _module(PROGRAMS[name])
    x = np.random.default_rng(0).standard_normal((33, 129)).astype(np.float32)
    want = compile_module(parse(text))(x)
    monkeypatch.setattr(polling, "BUDGET", 20)
    monkeypatch.setattr(polling, "LONG_ROUND", 1 if each else 1 << 60)
    monkeypatch.setattr(polling, "UNKNOWN_ROUNDS", 1000)
    exe = compile_module(parse(text))
    np.testing.assert_array_equal(exe(x), want)
    np.testing.assert_allclose(exe(x), evaluate(parse(text), x), rtol=1e-4, atol=1e-4)
    assert "@xlanb.check()" in exe.program.text


def test_a_vector_loop_has_no_poll_in_it() -> None:
    """The block of the innermost loop ends with its own branch; the poll is in the outer loop."""
    text = _module("x = f32[] parameter(0) n = f32[1099511627776] iota(), iota_dimension=0 z = f32[] constant(0) "
                   "w = f32[1099511627776] broadcast(x), dimensions={} y = f32[1099511627776] multiply(n, w) "
                   "ROOT s = f32[] reduce(y, z), dimensions={0}, to_apply=add")  # fmt: skip
    written = compile_module(parse(text)).program.text
    blocks = {b.split(":", 1)[0]: b for b in re.split(r"^(?=[\w.]+:$)", written, flags=re.MULTILINE)}
    loops = [b for name, b in blocks.items() if re.search(rf"label %{re.escape(name)}\b", b)]
    assert any("fadd reassoc" in b for b in loops)
    assert not any("load volatile" in b for b in loops)
    assert sum("load volatile" in b for b in blocks.values()) > 0


def test_kernels_of_numbers_do_not_poll_between_their_routines() -> None:
    """An interrupted routine leaves numbers, which cannot harm the next; routines poll."""
    for name, polls in (("convolved", False), ("summed", False), ("sorted by digits", True)):
        units = compile_module(parse(STOPPED[name])).program.units()
        assert any("@xlanb.check" in u.text for u in units if not u.shared and not u.everywhere) is polls, name


def test_exported_programs_do_not_poll(tmp_path: object) -> None:
    exe = compile_module(parse(_module(PROGRAMS["elementwise"].replace("33,129", "3300,1290"))))
    exe.export_c(str(tmp_path), "model")
    content = (tmp_path / "model.o").read_bytes()  # type: ignore[operator]
    assert b"xlanb.check" not in content
    assert b"xlanb.attention" not in content


LOOP = """HloModule m
condition {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(COUNT)
  ROOT r = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[8] add(x, x)
  h = f32[] constant(0.5)
  b = f32[8] broadcast(h), dimensions={}
  z = f32[8] multiply(y, b)
  w = f32[8] add(z, b)
  ROOT t = (s32[], f32[8]) tuple(j, w)
}
ENTRY main {
  zero = s32[] constant(0)
  x = f32[8] parameter(0)
  t = (s32[], f32[8]) tuple(zero, x)
  w = (s32[], f32[8]) while(t), condition=condition, body=body
  ROOT r = f32[8] get-tuple-element(w), index=1
}
"""


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 31, 32, 33, 100])
def test_while_loops_in_strips_run_as_often_as_they_should(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "BUDGET", 0)  # strips of sixteen rounds
    monkeypatch.setattr(program, "_QUICK", -1)
    exe = compile_module(parse(LOOP.replace("COUNT", str(count))))
    np.testing.assert_array_equal(exe(np.zeros(8, np.float32)), np.full(8, 0.5 * count, np.float32))


@pytest.mark.parametrize(("y", "in_strips"), [("add(x, x)", True), ("power(x, x)", False)])
def test_while_loops_that_call_poll_in_each_round_alone(y: str, *, in_strips: bool) -> None:
    """Strips keep values in registers across iterations, which a call prevents anyway."""
    text = LOOP.replace("COUNT", "1000000000").replace("add(x, x)", y).replace("f32[8]", "f32[1003]")
    run = compile_module(parse(text)).program.run
    written = "\n".join(run.text())
    assert written.count("load volatile") == 1
    assert ("strip" in written) is in_strips


STOPPED = {
    "sorted by digits": SORT.replace("33,129", "9,20000"),
    "sorted with places": """HloModule m
less {
  a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = f32[9,20000] parameter(0)
  n = s32[9,20000] iota(), iota_dimension=1
  s = (f32[9,20000], s32[9,20000]) sort(x, n), dimensions={1}, to_apply=less
  ROOT y = s32[9,20000] get-tuple-element(s), index=1
}
""",
    "largest": "HloModule m\nENTRY e {\n  x = f32[9,20000] parameter(0)\n"
    "  t = (f32[9,100], s32[9,100]) topk(x), k=100, largest=true\n"
    "  ROOT y = s32[9,100] get-tuple-element(t), index=1\n}\n",
    "contracted": "HloModule m\nENTRY e {\n  x = f32[9,20000] parameter(0)\n  a = f32[300,600] reshape(x)\n"
    "  ROOT y = f32[600,600] dot(a, a), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n}\n",
    "convolved": "HloModule m\nENTRY e {\n  x = f32[9,20000] parameter(0)\n  a = f32[1,50,60,60] reshape(x)\n"
    "  h = f32[] constant(0.5)\n  k = f32[3,3,60,32] broadcast(h), dimensions={}\n"
    "  ROOT y = f32[1,50,60,32] convolution(a, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n}\n",
    "summed": f"HloModule m\n{ADD}ENTRY e {{\n  x = f32[9,20000] parameter(0)\n  a = f32[1800,100] reshape(x)\n"
    "  z = f32[] constant(0)\n  ROOT y = f32[100] reduce(a, z), dimensions={0}, to_apply=add\n}\n",
    "transformed": "HloModule m\nENTRY e {\n  x = f32[9,20000] parameter(0)\n"
    "  ROOT y = c64[9,10001] fft(x), fft_type=RFFT, fft_length={20000}\n}\n",
}


@pytest.mark.parametrize("name", STOPPED)
def test_kernels_that_are_stopped_anywhere_do_no_harm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an interrupted routine leaves, such as positions, is not used by its caller."""
    x = np.random.default_rng(0).standard_normal((9, 20000)).astype(np.float32)
    monkeypatch.setattr(polling, "BUDGET", 2000)
    monkeypatch.setattr(polling, "UNKNOWN_ROUNDS", 1 << 20)
    exe = compile_module(parse(STOPPED[name]))
    want, wrong, rng = exe(x), [], np.random.default_rng(1)

    def run() -> None:
        for _ in range(40):
            with suppress(CancelledError):
                if not np.array_equal(exe(x), want):
                    wrong.append(name)

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():
        time.sleep(rng.random() * 1e-3)
        exe.cancel()
    thread.join()
    assert not wrong
    np.testing.assert_array_equal(exe(x), want)


def test_a_loop_behind_a_part_that_threads_share_begins_in_the_block_of_its_poll() -> None:
    """The columns between the padding are shared; those of the padding are loops of their own."""
    body = (
        "x = f16[256,1024] parameter(0) h = f16[] constant(0) z = f32[] constant(0) "
        "p = f16[256,1026] pad(x, h), padding=0_0x1_1 s = f16[256,1026] multiply(p, p) "
        "c = f32[256,1026] convert(s) r = f32[1026] reduce(c, z), dimensions={0}, to_apply=add "
        "ROOT y = f16[1026] convert(r)"
    )
    x = np.random.default_rng(0).integers(-3, 4, (256, 1024)).astype(np.float16)
    want = np.pad(np.square(x.astype(np.float32)).sum(0), 1)
    np.testing.assert_array_equal(compile_module(parse(f"HloModule m\n{ADD}ENTRY e {{\n  {body}\n}}\n"))(x), want)
