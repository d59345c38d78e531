"""What fusion does with long chains of steps that a reduction also reads."""

import pytest

import xlanb
from xlanb.transforms.fusion.cpu_instruction_fusion import CpuInstructionFusion


def _module(lines: list[str]) -> xlanb.hlo.HloModule:
    """A module whose entry has these instructions; the last one is the root."""
    add = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }"
    return xlanb.hlo.parse("\n".join(["HloModule m", add, "ENTRY e {", *lines[:-1], "ROOT " + lines[-1], "}"]))


def _chain(steps: int, size: int) -> xlanb.hlo.HloModule:
    """x = x - sum(x), `steps` times."""
    lines = [f"x0 = f32[{size}] parameter(0)", "z = f32[] constant(0)"]
    for n in range(steps):
        lines += [
            f"r{n} = f32[] reduce(x{n}, z), dimensions={{0}}, to_apply=add",
            f"b{n} = f32[{size}] broadcast(r{n}), dimensions={{}}",
            f"x{n + 1} = f32[{size}] subtract(x{n}, b{n})",
        ]
    return _module(lines)


@pytest.mark.parametrize("size", [16, 64])
def test_a_chain_grows_with_its_length_not_with_its_square(size: int) -> None:
    counts = []
    for steps in (20, 40, 80):
        module = _chain(steps, size)
        CpuInstructionFusion(max_copies=4).run(module)
        counts.append(module.instruction_count)
    assert counts[2] - counts[1] == pytest.approx(2 * (counts[1] - counts[0]), rel=0.1)


def test_the_faithful_fusion_copies_as_xla_does() -> None:
    module, limited = _chain(40, 16), _chain(40, 16)
    CpuInstructionFusion().run(module)
    CpuInstructionFusion(max_copies=4).run(limited)
    assert module.instruction_count > 1.5 * limited.instruction_count


def test_large_arrays_are_computed_again_rather_than_read() -> None:
    small, large = _chain(40, 64), _chain(40, 1 << 20)
    for module in (small, large):
        CpuInstructionFusion(max_copies=4).run(module)
    assert large.instruction_count > small.instruction_count


def _normalized_residuals(layers: int, n: int) -> xlanb.hlo.HloModule:
    """x = (y - 0.1 sum(y)) / sqrt(sum(y^2)) + b of y = x + x w, for each layer.

    The sum with b has one array operand, so XLA duplicates it.
    """
    lines = [
        f"x0 = f32[1,{n},{n}] parameter(0)",
        "z = f32[] constant(0)",
        f"b = f32[{n}] parameter({layers + 1})",
        "fraction = f32[] constant(0.1)",
        f"part = f32[1,{n}] broadcast(fraction), dimensions={{}}",
        f"bias = f32[1,{n},{n}] broadcast(b), dimensions={{2}}",
    ]
    for k in range(layers):
        lines += [
            f"w{k} = f32[{n},{n}] parameter({k + 1})",
            f"a{k} = f32[{n},{n}] bitcast(x{k})",
            f"d{k} = f32[{n},{n}] dot(a{k}, w{k}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"e{k} = f32[1,{n},{n}] bitcast(d{k})",
            f"y{k} = f32[1,{n},{n}] add(x{k}, e{k})",
            f"q{k} = f32[1,{n},{n}] multiply(y{k}, y{k})",
            f"v{k} = f32[1,{n}] reduce(q{k}, z), dimensions={{2}}, to_apply=add",
            f"h{k} = f32[1,{n}] rsqrt(v{k})",
            f"g{k} = f32[1,{n},{n}] broadcast(h{k}), dimensions={{0,1}}",
            f"t{k} = f32[1,{n}] reduce(y{k}, z), dimensions={{2}}, to_apply=add",
            f"o{k} = f32[1,{n}] multiply(t{k}, part)",
            f"m{k} = f32[1,{n},{n}] broadcast(o{k}), dimensions={{0,1}}",
            f"c{k} = f32[1,{n},{n}] subtract(y{k}, m{k})",
            f"p{k} = f32[1,{n},{n}] multiply(c{k}, g{k})",
            f"x{k + 1} = f32[1,{n},{n}] add(p{k}, bias)",
        ]
    return _module(lines)


def test_duplicates_do_not_add_arrays_to_read() -> None:
    module, copied = _normalized_residuals(12, 512), _normalized_residuals(12, 512)
    CpuInstructionFusion(max_copies=4).run(module)
    CpuInstructionFusion().run(copied)

    def arrays(made: xlanb.hlo.HloModule) -> int:
        fusions = [i for i in made.entry_computation.instructions if i.opcode.text == "fusion"]
        return max(sum(o.shape.byte_size >= 4 * 512 * 512 for o in f.operands) for f in fusions)

    assert arrays(module) <= 4
    assert arrays(copied) > 10
