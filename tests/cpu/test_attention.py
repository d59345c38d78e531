"""The attention kernel, compared with plain HLO.

Masks, layouts, types, NaN and infinities; and which tiles a mask excludes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from tests.cpu.guard_pages import Mode, run_guarded
from xlanb.cpu.compiler import CompileOptions, compile_module
from xlanb.cpu.emitters.attention.plan import attention_in, tiling
from xlanb.cpu.executable import Executable
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.hlo.instruction import HloInstruction
from xlanb.transforms.fusion import attention_fusion

DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
TOLERANCE = {"f32": 2e-6, "bf16": 2e-2, "f16": 3e-3}


@pytest.fixture(autouse=True)
def _at_any_size(monkeypatch):
    for name in ("_LEAST_KEYS", "_LEAST_QUERIES", "_LEAST_NARROW_QUERIES", "_LEAST_SCORES"):
        monkeypatch.setattr(attention_fusion, name, 1)


SCALE = """qt = f32[] constant(0.25)
  qb = f32[HEADS,Q,K]{2,1,0} broadcast(qt), dimensions={}
  x = f32[HEADS,Q,K]{2,1,0} multiply(c, qb)"""


@dataclass(frozen=True)
class Program:
    """softmax(f(q k^T)) v over `heads`.

    `mask` are the lines that compute `x` from the scores `c`, `more` are additional parameters.
    A result with `features_first` is transposed.
    """

    heads: int = 3
    queries: int = 40
    keys: int = 40
    depth: int = 8
    width: int = 8
    type: str = "f32"
    mask: str = SCALE
    more: str = ""
    features_first: bool = False

    @property
    def text(self) -> str:
        """The module."""
        t = self.type
        body = f"""HloModule m
max {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}}
sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
ENTRY e {{
  q = {t}[HEADS,Q,{self.depth}]{{2,1,0}} parameter(0)
  k = {t}[HEADS,K,{self.depth}]{{2,1,0}} parameter(1)
  v = {t}[HEADS,K,{self.width}]{{2,1,0}} parameter(2)
  {self.more}
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  c = f32[HEADS,Q,K]{{2,1,0}} dot(q, k), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
  {self.mask}
  m = f32[HEADS,Q]{{1,0}} reduce(x, low), dimensions={{2}}, to_apply=max
  mb = f32[HEADS,Q,K]{{2,1,0}} broadcast(m), dimensions={{0,1}}
  d = f32[HEADS,Q,K]{{2,1,0}} subtract(x, mb)
  e = f32[HEADS,Q,K]{{2,1,0}} exponential(d)
  s = f32[HEADS,Q]{{1,0}} reduce(e, zero), dimensions={{2}}, to_apply=sum
  sb = f32[HEADS,Q,K]{{2,1,0}} broadcast(s), dimensions={{0,1}}
  w = f32[HEADS,Q,K]{{2,1,0}} divide(e, sb)
  p = {t}[HEADS,Q,K]{{2,1,0}} convert(w)
  ROOT r = {self._result}, lhs_batch_dims={{0}}, rhs_batch_dims={{0}}
}}
"""
        sizes = {"HEADS": self.heads, "Q": self.queries, "K": self.keys}
        return re.sub(r"\b(HEADS|Q|K)\b", lambda m: str(sizes[m[0]]), body)

    @property
    def _result(self) -> str:
        if self.features_first:
            shape, operands, (lhs, rhs) = f"HEADS,{self.width},Q", "v, p", (1, 2)
        else:
            shape, operands, (lhs, rhs) = f"HEADS,Q,{self.width}", "p, v", (2, 1)
        return f"{self.type}[{shape}]{{2,1,0}} dot({operands}), lhs_contracting_dims={{{lhs}}}, rhs_contracting_dims={{{rhs}}}"

    def arrays(self, seed: int = 0) -> list[np.ndarray]:
        """q, k and v."""
        rng = np.random.default_rng(seed)
        shapes = (self.queries, self.depth), (self.keys, self.depth), (self.keys, self.width)
        return [rng.standard_normal((self.heads, *s)).astype(DTYPES[self.type]) for s in shapes]


def causal(value: str) -> str:
    """A causal mask by iotas, as in JAX."""
    return f"""ri = s32[Q,K]{{1,0}} iota(), iota_dimension=0
  ci = s32[Q,K]{{1,0}} iota(), iota_dimension=1
  ge = pred[Q,K]{{1,0}} compare(ri, ci), direction=GE
  gb = pred[HEADS,Q,K]{{2,1,0}} broadcast(ge), dimensions={{1,2}}
  hv = f32[] constant({value})
  hb = f32[HEADS,Q,K]{{2,1,0}} broadcast(hv), dimensions={{}}
  x = f32[HEADS,Q,K]{{2,1,0}} select(gb, c, hb)"""


WINDOW = """ri = s32[Q,K]{1,0} iota(), iota_dimension=0
  ci = s32[Q,K]{1,0} iota(), iota_dimension=1
  ge = pred[Q,K]{1,0} compare(ri, ci), direction=GE
  n = s32[] constant(30)
  nb = s32[Q,K]{1,0} broadcast(n), dimensions={}
  df = s32[Q,K]{1,0} subtract(ri, ci)
  lt = pred[Q,K]{1,0} compare(df, nb), direction=LT
  in = pred[Q,K]{1,0} and(ge, lt)
  gb = pred[HEADS,Q,K]{2,1,0} broadcast(in), dimensions={1,2}
  hv = f32[] constant(-1e30)
  hb = f32[HEADS,Q,K]{2,1,0} broadcast(hv), dimensions={}
  x = f32[HEADS,Q,K]{2,1,0} select(gb, c, hb)"""
BIAS = "x = f32[HEADS,Q,K]{2,1,0} add(c, bias)"
BIAS_PARAMETER = "bias = f32[HEADS,Q,K]{2,1,0} parameter(3)"
KEY_MASK = """mb2 = pred[HEADS,Q,K]{2,1,0} broadcast(keep), dimensions={2}
  hv = f32[] constant(VALUE)
  hb = f32[HEADS,Q,K]{2,1,0} broadcast(hv), dimensions={}
  x = f32[HEADS,Q,K]{2,1,0} select(mb2, c, hb)"""
KEY_MASK_PARAMETER = "keep = pred[K]{0} parameter(3)"


def fusion_of(exe: Executable) -> HloInstruction:
    """The attention fusion of a compiled program."""
    (found,) = (i for i in exe.hlo_module.entry_computation if attention_fusion.KIND in i.backend_config)
    return found


def built(text: str, threads: int = 2) -> Executable:
    """A program compiled with the fusion, which must be one kernel."""
    exe = compile_module(parse(text), CompileOptions(multi_thread=threads > 1))
    assert fusion_of(exe).get("calls") is not None, "the fusion was opened"
    return exe


def check(program: Program, *more: np.ndarray, arrays: list[np.ndarray] | None = None, scale: float = 1.0) -> None:
    """Compare the kernel with the evaluator; NaN must be in the same positions."""
    given = [*(arrays or program.arrays()), *more]
    with np.errstate(all="ignore"):
        want = np.asarray(evaluate(parse(program.text), *given), np.float32)
    for threads in (1, 2):
        got = np.asarray(built(program.text, threads)(*given), np.float32)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_allclose(
            got, want, rtol=scale * TOLERANCE[program.type], atol=scale * TOLERANCE[program.type]
        )


@pytest.mark.parametrize("type_", DTYPES)
@pytest.mark.parametrize(
    ("queries", "keys", "depth", "width"),
    [(2, 2, 8, 8), (5, 3, 3, 5), (17, 33, 20, 24), (40, 40, 16, 64), (100, 300, 64, 40), (130, 77, 32, 33)],
)
def test_sizes_and_types(queries, keys, depth, width, type_):
    check(Program(2, queries, keys, depth, width, type_), scale=2)
    check(Program(2, queries, keys, depth, width, type_, features_first=True), scale=2)


@pytest.mark.parametrize("value", ["-1e4", "-1e30", "-inf"])
@pytest.mark.parametrize("size", [40, 300])
def test_causal(size, value):
    check(Program(2, size, size, 16, 16, mask=causal(value)))


@pytest.mark.parametrize("type_", ["bf16", "f16"])
def test_causal_of_narrow_floats(type_):
    check(Program(3, 261, 261, 16, 32, type_, mask=causal("-1e30")))


def test_a_sliding_window():
    check(Program(2, 400, 400, 16, 16, mask=WINDOW))


def test_an_additive_bias():
    program = Program(2, 70, 300, 16, 16, mask=BIAS, more=BIAS_PARAMETER)
    check(program, np.random.default_rng(1).standard_normal((2, 70, 300)).astype(np.float32))


@pytest.mark.parametrize("value", ["-1e30", "-inf"])
def test_a_row_without_any_key(value):
    mask = KEY_MASK.replace("VALUE", value)
    program = Program(2, 60, 300, 16, 16, mask=mask, more=KEY_MASK_PARAMETER)
    keep = np.zeros(300, bool)
    check(program, keep, scale=4)
    keep[270:] = True  # the first tiles have only keys that are masked out
    check(program, keep)
    keep[:] = False
    keep[3] = True
    check(program, keep)


@pytest.mark.parametrize("value", ["-1e30", "-inf"])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("operand", [0, 1, 2])
def test_numbers_that_are_none(operand, number, value):
    program = Program(2, 300, 300, 8, 8, mask=causal(value))
    arrays = program.arrays()
    arrays[operand][0, 290, 3] = number
    arrays[operand][1, 0, 0] = number
    check(program, arrays=arrays)


def test_rows_whose_only_logits_are_as_low_as_the_mask():
    program = Program(1, 300, 300, 8, 8, mask=causal("-1e4"))
    q, k, v = program.arrays()
    q[0, :5] = 0
    q[0, :, 0] = 0
    q[0, :5, 0] = 1
    k[0, :, 0] = -1.0e4  # the first rows then use the masked keys, in tiles excluded elsewhere
    check(program, arrays=[q, k, v], scale=40)


def test_large_logits():
    program = Program(2, 90, 300, 16, 16)
    q, k, v = program.arrays()
    check(program, arrays=[20 * q, 20 * k, v], scale=20)


# -- layouts ---------------------------------------------------------------------------------------

SEQUENCE_FIRST = """HloModule m
max {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT m = f32[] maximum(a, b)
}
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  qkv = f32[2,50,GROUPS]{2,1,0} parameter(0)
  qs = f32[2,50,96]{2,1,0} slice(qkv), slice={[0:2], [0:50], [0:96]}
  ks = f32[2,50,32]{2,1,0} slice(qkv), slice={[0:2], [0:50], [96:128]}
  vs = f32[2,50,32]{2,1,0} slice(qkv), slice={[0:2], [0:50], [128:160]}
  qr = f32[2,50,4,3,8]{4,3,2,1,0} reshape(qs)
  kr = f32[2,50,4,8]{3,2,1,0} reshape(ks)
  vr = f32[2,50,4,8]{3,2,1,0} reshape(vs)
  qt = f32[2,4,50,3,8]{4,3,2,1,0} transpose(qr), dimensions={0,2,1,3,4}
  q = f32[2,4,150,8]{3,2,1,0} reshape(qt)
  k = f32[2,4,8,50]{3,2,1,0} transpose(kr), dimensions={0,2,3,1}
  v = f32[2,4,8,50]{3,2,1,0} transpose(vr), dimensions={0,2,3,1}
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  c = f32[2,4,150,50]{3,2,1,0} dot(q, k), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}
  cr = f32[2,4,50,3,50]{4,3,2,1,0} reshape(c)
  x = f32[3,2,4,50,50]{4,3,2,1,0} transpose(cr), dimensions={3,0,1,2,4}
  m = f32[3,2,4,50]{3,2,1,0} reduce(x, low), dimensions={4}, to_apply=max
  mb = f32[3,2,4,50,50]{4,3,2,1,0} broadcast(m), dimensions={0,1,2,3}
  d = f32[3,2,4,50,50]{4,3,2,1,0} subtract(x, mb)
  e = f32[3,2,4,50,50]{4,3,2,1,0} exponential(d)
  s = f32[3,2,4,50]{3,2,1,0} reduce(e, zero), dimensions={4}, to_apply=sum
  ob = f32[3,2,4,50]{3,2,1,0} broadcast(one), dimensions={}
  sr = f32[3,2,4,50]{3,2,1,0} divide(ob, s)
  sb = f32[3,2,4,50,50]{4,3,2,1,0} broadcast(sr), dimensions={0,1,2,3}
  p = f32[3,2,4,50,50]{4,3,2,1,0} multiply(e, sb)
  pt = f32[2,4,50,50,3]{4,3,2,1,0} transpose(p), dimensions={1,2,4,3,0}
  pr = f32[2,4,50,150]{3,2,1,0} reshape(pt)
  r = f32[2,4,8,150]{3,2,1,0} dot(v, pr), lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}
  END
}
""".replace("GROUPS", "160")
ENDS = {
    "features before queries": "ROOT t = f32[2,4,8,150]{3,2,1,0} negate(r)",
    "queries before heads": """rr = f32[2,4,8,50,3]{4,3,2,1,0} reshape(r)
  ROOT t = f32[2,50,4,3,8]{4,3,2,1,0} transpose(rr), dimensions={0,3,1,4,2}""",
}


@pytest.mark.parametrize("end", ENDS)
def test_grouped_heads_of_one_array(end):
    text = SEQUENCE_FIRST.replace("END", ENDS[end])
    (qkv,) = [np.random.default_rng(2).standard_normal((2, 50, 160)).astype(np.float32)]
    exe = built(text)
    found = attention_in(fusion_of(exe))
    assert found is not None
    assert (found.head_count, found.rows.size, found.keys.size) == (24, 50, 50)
    assert len(fusion_of(exe).operands) == 1, "slices and transposes are read where they are part of"
    np.testing.assert_allclose(exe(qkv), evaluate(parse(text), qkv), atol=2e-6)


# -- tiles -----------------------------------------------------------------------------------------


def tiles_of(program: Program) -> tuple[int, list[tuple[int, int]]]:
    """(key tiles, first and last computed key tile for each tile of queries)."""
    found = attention_in(fusion_of(built(program.text)))
    assert found is not None
    t = tiling(found)
    return t.key_tiles, list(zip(t.reach.first, t.reach.last, strict=True)) if t.reach is not None else []


def test_a_causal_mask_leaves_out_what_is_above_the_diagonal():
    count, reach = tiles_of(Program(1, 1024, 1024, 8, 8, mask=causal("-inf")))
    assert count == 8
    assert reach[0] == (0, 0)
    assert reach[-1] == (0, 7)
    assert sum(b + 1 for _, b in reach) < 0.65 * count * len(reach)


def test_a_window_leaves_out_both_sides():
    count, reach = tiles_of(Program(1, 1024, 1024, 8, 8, mask=WINDOW))
    assert count == 8
    assert all(b - a <= 2 for a, b in reach)
    assert reach[-1] == (7, 7)


@pytest.mark.parametrize(
    ("mask", "more"), [(BIAS, BIAS_PARAMETER), (KEY_MASK.replace("VALUE", "-inf"), KEY_MASK_PARAMETER)]
)
def test_a_mask_that_only_the_run_knows_leaves_out_nothing(mask, more):
    assert tiles_of(Program(1, 512, 512, 8, 8, mask=mask, more=more))[1] == []


def test_a_mask_that_hides_little_leaves_out_nothing():
    assert tiles_of(Program(1, 512, 512, 8, 8, mask=causal("-5")))[1] == []


# -- bounds ----------------------------------------------------------------------------------------

GUARDED = {
    "plain": Program(2, 33, 45, 7, 9),
    "bf16, odd": Program(2, 61, 301, 20, 24, "bf16"),
    "f16, causal": Program(2, 150, 150, 5, 33, "f16", mask=causal("-inf")),
    "bf16, transposed": Program(2, 70, 64, 16, 24, "bf16", features_first=True),
    "f16, transposed and short": Program(2, 9, 7, 8, 3, "f16", features_first=True),
    "bias": Program(1, 37, 270, 16, 18, mask=BIAS, more=BIAS_PARAMETER),
}


MODES = (Mode(1), Mode(2, at_end=False, stacks=True), Mode(1, bits=128), Mode(1, at_end=False, bits=256))


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("name", GUARDED)
def test_nothing_is_accessed_beyond_an_array(name, mode):
    program = GUARDED[name]
    rng = np.random.default_rng(3)
    more = [rng.standard_normal((1, 37, 270)).astype(np.float32)] if program.more else []
    exe = mode.compile(program.text)
    assert fusion_of(exe).get("calls") is not None
    given = [*program.arrays(), *more]
    first, second = (run_guarded(exe, given, at_end=mode.at_end, fill=fill) for fill in (0, 255))
    assert first == second, "scratch that nobody wrote is seen in the result"
    got = np.frombuffer(first[0], DTYPES[program.type]).astype(np.float32)
    want = np.asarray(evaluate(parse(program.text), *given), np.float32).reshape(-1)
    np.testing.assert_allclose(got, want, rtol=TOLERANCE[program.type], atol=TOLERANCE[program.type])
