"""Facts about TPU chips are consistent, and dumps name their chip; layouts in words."""

from __future__ import annotations

import pytest

from xlanb.dump.tpu.chips import CHIPS, chip_of_target
from xlanb.dump.tpu.layouts import explain_layout
from xlanb.errors import HloParseError


@pytest.mark.parametrize("name", list(CHIPS))
def test_peaks_follow_from_the_matrix_units(name: str) -> None:
    """The peak is the multiply-adds of all matrix units per cycle, times the clock.

    They do one row for v4 to v5p, two for v6e and tpu7x.
    """
    chip = CHIPS[name]
    rows = 2 if chip.mxu == 256 else 1
    peak = 2 * rows * chip.cores * chip.mxus * chip.mxu**2 * chip.clock
    assert peak == pytest.approx(chip.bf16_flops, rel=0.01)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("TPU_VERSION_PUFFERFISH", "v4"),
        ('TPU_VERSION_VIPERFISH\n  variant: "lite"', "v5e"),
        ("TPU_VERSION_VIPERFISH\n  platform_type: X", "v5p"),
        ("TPU_VERSION_GHOSTLITE", "v6e"),
        ("TPU_VERSION_6acc60406", "tpu7x"),
    ],
)
def test_dump_names_its_chip(version: str, name: str) -> None:
    """It is named by its codename in target_arguments."""
    assert chip_of_target(f"tpu_topology_args {{\n  version: {version}\n}}\n") is CHIPS[name]
    assert chip_of_target("version: TPU_VERSION_UNHEARD") is None


def test_roofline_is_of_one_device() -> None:
    """A device of v5p is a whole chip, one of tpu7x half of it."""
    seconds, bound = CHIPS["v5p"].roofline(459e12, 1)
    assert (seconds, bound) == (pytest.approx(1.0), "compute")
    seconds, bound = CHIPS["tpu7x"].roofline(1, 3.69e12)
    assert (seconds, bound) == (pytest.approx(1.0), "memory")
    assert CHIPS["v5e"].ridge == pytest.approx(240.5, rel=0.01)
    assert CHIPS["v5e"].seconds(1500) == pytest.approx(1e-6)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (
            "f32[128,256]{1,0:T(8,128)S(1)}",
            "f32[128,256] in VMEM (the core's vector memory, read by its units); dimension 1 varies fastest; "
            "tiles of 8 x 128: 8 sublanes by 128 lanes, one vector register each; 131,072 bytes",
        ),
        (
            "bf16[100,300]{1,0:T(8,128)(2,1)}",
            "bf16[100,300] in HBM (the chip's main memory); dimension 1 varies fastest; "
            "tiles of 8 x 128: 8 sublanes by 128 "
            "lanes; in a tile 2 rows share a 32-bit word; 60,000 bytes, 79,872 padded to whole tiles",
        ),
        ("u32[]{:S(2)}", "u32[] in SFLAG (synchronization flags); 4 bytes"),
        ("f32[8]{0:S(9)}", "f32[8] in memory space 9; 32 bytes"),
    ],
)
def test_layouts_in_words(shape: str, words: str) -> None:
    """Memory space, order, tiles, bytes and padding."""
    assert explain_layout(shape) == words


def test_layout_of_a_tuple_has_a_line_for_each_array() -> None:
    """Long tuples are truncated, which the text says."""
    assert explain_layout("(f32[8]{0}, u32[]{:S(2)})").count("\n") == 1
    many = "(" + ", ".join(["f32[8]{0}"] * 25) + ")"
    assert explain_layout(many).splitlines()[-1] == "... 5 more arrays"
    with pytest.raises(HloParseError):
        explain_layout("f32[8")
