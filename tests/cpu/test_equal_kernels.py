"""Kernels that differ only in the memory they are called with are emitted once, and only those."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.codegen import jit
from xlanb.cpu import CompileOptions, compile_module
from xlanb.cpu.codegen import program as programs
from xlanb.cpu.codegen.equal_kernels import KernelSite, KernelSites
from xlanb.cpu.codegen.kernel_function import KernelFunction
from xlanb.cpu.codegen.program import Program, emit_program
from xlanb.cpu.executable import Executable
from xlanb.hlo import parse
from xlanb.hlo.instruction import HloInstruction
from xlanb.transforms.pipeline import HloPassPipeline


def layers(*constants: float) -> str:
    """A layer per constant: a product with one matrix, plus the constant, then tanh."""
    body = "".join(
        f"""
  %dot.{n} = f32[64,64] dot(%x.{n}, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  %c.{n} = f32[] constant({c})
  %b.{n} = f32[64,64] broadcast(%c.{n}), dimensions={{}}
  %s.{n} = f32[64,64] add(%dot.{n}, %b.{n})
  %x.{n + 1} = f32[64,64] tanh(%s.{n})"""
        for n, c in enumerate(constants)
    )
    return f"""HloModule layers
ENTRY %main (x.0: f32[64,64], w: f32[64,64]) -> f32[64,64] {{
  %x.0 = f32[64,64] parameter(0)
  %w = f32[64,64] parameter(1){body}
  ROOT %r = f32[64,64] negate(%x.{len(constants)})
}}
"""


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The instructions whose kernels were emitted."""
    names: list[str] = []
    emit = KernelFunction.emit

    def counted(self: KernelFunction) -> None:
        names.append(self.instruction.name)
        emit(self)

    monkeypatch.setattr(KernelFunction, "emit", counted)
    return names


def compiled(text: str) -> Executable:
    exe = xlanb.compile(text)
    random = np.random.default_rng(0)
    x, w = (random.standard_normal((64, 64), np.float32) / np.float32(8) for _ in range(2))
    np.testing.assert_allclose(exe(x, w), xlanb.evaluate(parse(text), x, w), rtol=1e-3, atol=1e-4)
    return exe


def test_the_kernels_of_a_repeated_layer_are_written_once(written: list[str]) -> None:
    exe = compiled(layers(*[0.5] * 6))
    assert len(exe.kernels) > 6
    assert len(written) <= 5  # the first and the last layer may differ from the others


def test_every_instruction_is_a_kernel_of_its_own_to_who_reads() -> None:
    exe = compiled(layers(*[0.5] * 6))
    profile = exe.profile(*[np.zeros(p.dimensions, np.float32) for p in exe.parameter_shapes], runs=1)
    assert set(profile.instruction) == {i.name for i in exe.kernels.values()}
    assert all(f"@{name}(" in str(exe.llvm_ir) for name in exe.kernels)


def test_kernels_of_other_constants_are_others(written: list[str]) -> None:
    compiled(layers(0.5, 0.25, 0.125, 0.75, 0.375, 0.625))
    assert len(written) >= 6


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("f32[8,96]{1,0} exponential(x)", "f32[8,96]{1,0} cosine(x)"),
        (
            "f32[8]{0} reduce(x, zero), dimensions={1}, to_apply=plus",
            "f32[8]{0} reduce(x, zero), dimensions={1}, to_apply=most",
        ),
        ("f32[8,90]{1,0} slice(x), slice={[0:8],[0:90]}", "f32[8,90]{1,0} slice(x), slice={[0:8],[6:96]}"),
        ("f32[8,96]{1,0} add(x, x)", "f32[8,96]{1,0} add(x, y)"),
        ("f32[96,8]{1,0} transpose(x), dimensions={1,0}", "f32[96,8]{1,0} transpose(y), dimensions={1,0}"),
    ],
)
def test_kernels_that_compute_something_else_are_others(first: str, second: str) -> None:
    text = f"""HloModule two
plus {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}}
most {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] maximum(a, b)
}}
ENTRY main {{
  x = f32[8,96]{{1,0}} parameter(0)
  y = f32[8,96]{{1,0}} parameter(1)
  zero = f32[] constant(0)
  p = {first}
  q = {second}
  ROOT r = tuple(p, q)
}}
"""
    exe = xlanb.compile(text)
    arrays = [np.random.default_rng(k).standard_normal((8, 96), np.float32) for k in range(2)]
    for a, b in zip(exe(*arrays), xlanb.evaluate(parse(text), *arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_a_kernel_that_writes_over_an_operand_is_another() -> None:
    # The first sum must keep x, which is read again; the second may overwrite the
    # first.
    text = """HloModule places
ENTRY main {
  x = f32[4096] parameter(0)
  a = f32[4096] sort(x), dimensions={0}, to_apply={
    l = f32[] parameter(0)
    r = f32[] parameter(1)
    ROOT c = pred[] compare(l, r), direction=LT
  }
  b = f32[4096] reverse(a), dimensions={0}
  c = f32[4096] reverse(b), dimensions={0}
  ROOT r = tuple(c, a)
}
"""
    x = np.random.default_rng(0).standard_normal(4096, np.float32)
    for a, b in zip(xlanb.compile(text)(x), xlanb.evaluate(parse(text), x), strict=True):
        np.testing.assert_array_equal(a, b)


class _AllApart(KernelSites):
    """Sites of kernels that are all emitted."""

    def of(self, i: HloInstruction, *, inline: bool) -> KernelSite | None:
        return None


def _texts(exe: Executable, monkeypatch: pytest.MonkeyPatch) -> tuple[Program, Program]:
    """The program as emitted, and with every kernel emitted and duplicates found by their text."""
    found = emit_program(exe.buffer_assignment, jit.host())
    with monkeypatch.context() as patched:
        patched.setattr(programs, "KernelSites", _AllApart)
        return found, emit_program(exe.buffer_assignment, jit.host())


@pytest.mark.parametrize("text", [layers(*[0.5] * 4), layers(0.5, 0.25, 0.5, 0.25)], ids=["equal", "in turns"])
def test_the_program_is_that_of_kernels_compared_by_their_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found, expected = _texts(xlanb.compile(text), monkeypatch)
    assert found.text == expected.text
    assert found.kernels == expected.kernels


_LINES = """add(A, B)
maximum(A, B)
select(m, A, B)
negate(A)
exponential(A)
reverse(A), dimensions={1}
slice(A), slice={[0:8],[0:8]}
slice(A), slice={[8:16],[0:8]}
transpose(A), dimensions={1,0}
copy(A)
reduce(A, zero), dimensions={1}, to_apply=plus
reduce(A, zero), dimensions={0}, to_apply=plus
reduce(A, zero), dimensions={1}, to_apply=most
reduce(A, one), dimensions={1}, to_apply=most
reduce-window(A, zero), window={size=2x2 stride=2x2}, to_apply=most
dot(A, B), lhs_contracting_dims={1}, rhs_contracting_dims={0}
dot(A, B), lhs_contracting_dims={0}, rhs_contracting_dims={0}
broadcast(zero), dimensions={}
broadcast(one), dimensions={}
concatenate(A, B), dimensions={0}
pad(A, zero), padding=0_1x1_0
pad(A, one), padding=0_1x1_0
convert(A)""".splitlines()
_HEADER = """HloModule lines
plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] maximum(a, b)
}
ENTRY main {
  x = f32[16,16] parameter(0)
  y = f32[16,16] parameter(1)
  z = f32[16,16]{0,1} parameter(2)
  m = pred[16,16] parameter(3)
  zero = f32[] constant(0)
  one = f32[] constant(1)
"""


@pytest.mark.parametrize("line", _LINES)
def test_a_kernel_for_each_use_is_what_comparing_texts_gives(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each line with several pairs of operands, twice: without passes each instruction is a kernel
    # of its own.
    pairs = [("x", "y"), ("y", "x"), ("x", "x"), ("z", "x"), ("x", "z")] * 2
    shapes = {"convert": "s32[16,16]", "concatenate": "f32[32,16]", "pad": "f32[17,17]", "slice": "f32[8,8]"}
    opcode = line.split("(", 1)[0]
    shape = shapes.get(opcode, "f32[16]" if opcode == "reduce" else "f32[8,8]" if "window" in line else "f32[16,16]")
    lines = [f"  r{k} = {shape} {line.replace('A', a).replace('B', b)}" for k, (a, b) in enumerate(pairs)]
    results = ", ".join(f"r{k}" for k in range(len(pairs)))
    text = "\n".join([_HEADER, *lines, f"  ROOT out = tuple({results})", "}"])
    exe = compile_module(parse(text), CompileOptions(pipeline=HloPassPipeline("none")))
    found, expected = _texts(exe, monkeypatch)
    assert found.text == expected.text
    assert found.kernels == expected.kernels
    arrays = [np.random.default_rng(k).standard_normal((16, 16), np.float32) for k in range(3)]
    given = [*arrays, arrays[0] > 0]
    for a, b in zip(exe(*given), xlanb.evaluate(parse(text), *given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
