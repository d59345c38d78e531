"""VLIW bundles, read from texts in the form that libtpu 0.0.52 writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlanb.dump.tpu.bundles import UNITS, BundleLoop, parse_bundles, unit_of
from xlanb.errors import DumpError

KEY = """= control target key start
LH: loop header
LB: loop body
PF: predicated region fallthrough
= control target key end

"""
PROGRAM = KEY + (
    "     0   :  { %s1_s0 = inlined_call_operand.vmem [shape: f32[8,128], index: 0] /* operand 0 */ } /* entry bundle: %f = fusion(%x) */\n"
    "   0x1   :  { %v5_v0 = vld [vmem:[%s1_s0 + $0xe0] sm:$0xff]  ;;  %v6_v1 = vadd.f32 1.0, %v5_v0 } /* Start region 3 */\n"
    "   0x2   :  { %7 = sbr.rel (%p9_p0) target = $region9  ;;  %s8_s2 = sld [smem:[#allocation5]] (!%p9_p0) /* core id */ }\n"
    "   0x3   :  {} /* Start region 4 */\n"
    "   0x4 LB: > { %11 = vmatmul.bf16.gmra.mxu0 %v5_v0 } /* Start region 8 :: Start region 7 */\n"
    "   0x5   : > { %v12_v2 = vpop.f32.mrf.mxu0 }\n"
    "   0x6 LB: >> { %v13_v3 = vtanh.f32 %v12_v2 } /* Start/End empty region 5 :: Start region 6 */\n"
    "   0x7   : >> { %14 = sbr.rel (!%p3_p1) target = $region6 }\n"
    "   0x8   : > { %15 = vst [vmem:[%s1_s0]] /*vst_source=*/%v13_v3 }\n"
    "   0x9   :  { %16 = sbr.rel (!%p4_p2) target = $region8 }\n"
    "   0xa PF:  { %17 = inlined_call %s1_s0 /* %fusion.32 = fusion(%a, %b) */ } /* Start/End empty region 9 */\n"
    "   0xb   :  { %18 = shalt.err (!%p5_p3) /* BoundsCheck 0 [deref of opnd#0] for dma\n"
    "hlo: all-gather ;; }\n"
    " */ }\n"
    "   0xc   :  { %19 = inlined_call /* <late-finalization> */ }\n"
)


def test_bundles_are_read_in_order_with_their_labels() -> None:
    """Addresses increase; a label and loop marks belong to their bundle."""
    program = parse_bundles(PROGRAM)
    assert [b.address for b in program.bundles] == list(range(13))
    assert [b.label for b in program.bundles] == ["", "", "", "", "LB", "", "LB", "", "", "", "PF", "", ""]
    assert [b.loops for b in program.bundles] == [0, 0, 0, 0, 1, 1, 2, 2, 1, 0, 0, 0, 0]


def test_instructions_are_sorted_into_units() -> None:
    """Each instruction has the column of its unit, its predicate and its comment."""
    bundles = parse_bundles(PROGRAM).bundles
    assert [(o.unit, o.text) for o in bundles[1].operations] == [
        ("VLOAD", "%v5_v0 = vld [vmem:[%s1_s0 + $0xe0] sm:$0xff]"),
        ("VALU", "%v6_v1 = vadd.f32 1.0, %v5_v0"),
    ]
    branch, load = bundles[2].operations
    assert (branch.unit, branch.predicate, load.unit, load.predicate, load.comment) == (
        "BRANCH",
        "%p9_p0",
        "SALU",
        "!%p9_p0",
        "core id",
    )
    assert parse_bundles(PROGRAM).counts == {
        "MXU": 1,
        "VALU": 1,
        "EUP": 1,
        "VPOP": 1,
        "VLOAD": 1,
        "VSTORE": 1,
        "SALU": 1,
        "BRANCH": 6,
        "OTHER": 1,
    }


def test_empty_bundles_are_counted() -> None:
    """Nothing issues if the braces are empty or name only an operand."""
    program = parse_bundles(PROGRAM)
    assert [k for k, b in enumerate(program.bundles) if b.is_empty] == [0, 3]
    assert program.empty == 2


def test_loops_reach_to_the_branch_back() -> None:
    """The outer loop ends with its unmarked branch, the inner one with its last marked bundle."""
    assert parse_bundles(PROGRAM).loops == (BundleLoop(4, 9, 1), BundleLoop(6, 7, 2))


def test_loop_without_marks_is_found_by_its_branch() -> None:
    """A branch to an earlier region makes a loop."""
    text = "   0x1   :  { %1 = vdelay 1 } /* Start region 2 */\n   0x2   :  { %3 = sbr.rel target = $region2 }\n"
    assert parse_bundles(text).loops == (BundleLoop(0, 1, 1),)


def test_calls_name_their_instruction() -> None:
    """The comment of a call says which HLO instruction's program it is."""
    bundles = parse_bundles(PROGRAM).bundles
    assert (bundles[10].calls, bundles[12].calls, bundles[1].calls) == ("fusion.32", "<late-finalization>", "")


def test_comment_may_span_lines_and_hold_braces() -> None:
    """A comment contains neither instructions nor the end of the bundle."""
    (operation,) = parse_bundles(PROGRAM).bundles[11].operations
    assert operation.text == "%18 = shalt.err (!%p5_p3)"
    assert operation.comment == "BoundsCheck 0 [deref of opnd#0] for dma hlo: all-gather ;; }"


@pytest.mark.parametrize(
    ("mnemonic", "unit"),
    [
        ("vmatpush1.bf16.msra.mxu0", "MXU"),
        ("vmatprep.subr.bf16.mxu0", "MXU"),
        ("vdwg.mxu1", "MXU"),
        ("vpop.trf.xlu1", "VPOP"),
        ("vxpose.xlu0.b32.start", "XLU"),
        ("vadd.xlane.f32.xlu0", "XLU"),
        ("vset.pattern.permute.xlu2", "XLU"),
        ("vrcp.f32", "EUP"),
        ("cld", "VLOAD"),
        ("vst.msk", "VSTORE"),
        ("vstv", "VALU"),
        ("vsel", "VALU"),
        ("pnand", "SALU"),
        ("scalar_lea.hbm", "SALU"),
        ("dma.hbm_to_vmem", "DMA"),
        ("vsyncadd.remote", "DMA"),
        ("sfence", "DMA"),
        ("sbr.rel", "BRANCH"),
        ("inlined_call_operand.hbm", "OTHER"),
        ("compiler-scheduling-barrier", "OTHER"),
        ("!?", "OTHER"),
    ],
)
def test_unit_of_a_mnemonic(mnemonic: str, unit: str) -> None:
    """Mnemonics of v4 to tpu7x."""
    assert unit_of(mnemonic) == unit


def test_text_without_bundles_is_refused() -> None:
    """The message says what was expected and how the text begins."""
    with pytest.raises(DumpError, match=r"expected a line like '0x5 : \{ \.\.\. \}', the text begins 'HloModule'"):
        parse_bundles("HloModule")


@given(st.text(alphabet="0x1af LBPF:>{}/*;=%v()\n$region", max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    """The reader raises only DumpError, and every instruction has a known unit."""
    try:
        program = parse_bundles(f"  0x1   :  {{ {text}")
    except DumpError:
        return
    assert all(o.unit in UNITS for b in program.bundles for o in b.operations)
    assert all(0 <= loop.start <= loop.end < len(program) for loop in program.loops)


def test_open_comments_take_linear_time() -> None:
    """Many unterminated comments are one bundle's text, without a scan for each."""
    program = parse_bundles("  0x1   :  { " + "/*" * 200_000)
    assert len(program) == 1
