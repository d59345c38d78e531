"""What fusion does with long chains of steps that a reduction also reads."""

import pytest

import xlanb
from xlanb.transforms.fusion.cpu_instruction_fusion import CpuInstructionFusion


def _chain(steps: int, size: int) -> xlanb.hlo.HloModule:
    """x = x - sum(x), `steps` times."""
    lines = [f"x0 = f32[{size}] parameter(0)", "z = f32[] constant(0)"]
    for n in range(steps):
        lines += [
            f"r{n} = f32[] reduce(x{n}, z), dimensions={{0}}, to_apply=add",
            f"b{n} = f32[{size}] broadcast(r{n}), dimensions={{}}",
            f"x{n + 1} = f32[{size}] subtract(x{n}, b{n})",
        ]
    add = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }"
    return xlanb.hlo.parse("\n".join(["HloModule m", add, "ENTRY e {", *lines[:-1], "ROOT " + lines[-1], "}"]))


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
