"""Sharding rules: the factors of each operation, in Shardy's notation."""

from __future__ import annotations

import pytest

from tests.spmd.shardy.shardy_programs import op_of, program_of
from xlanb.errors import XlanbError
from xlanb.spmd.shardy.rule import parse_rule
from xlanb.spmd.shardy.rules import is_elementwise, sharding_rule

_CONV = "dim_labels=b01f_01io->b01f"
_F = "f32"
CASES = [
    ("r = f32[4,6] add(x, y)", {"x": "f32[4,6]", "y": "f32[4,6]"}, "([i, j], [i, j])->([i, j]) {i=4, j=6}"),
    (
        "r = f32[4,6] clamp(x, y, z)",
        {"x": "f32[]", "y": "f32[4,6]", "z": "f32[]"},
        "([], [i, j], [])->([i, j]) {i=4, j=6}",
    ),
    (
        "r = f32[5,4,7] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        {"x": "f32[5,4,6]", "y": "f32[6,5,7]"},
        "([i, j, l], [l, i, k])->([i, j, k]) {i=5, j=4, k=7, l=6} reduction={l}",
    ),
    (
        f"r = f32[8,16,16,64] convolution(x, y), window={{size=3x3 pad=1_1x1_1}}, {_CONV}",
        {"x": "f32[8,16,16,32]", "y": "f32[3,3,32,64]"},
        "([i, j, k, l], [n, o, l, m])->([i, j, k, m]) {i=8, j=16, k=16, l=32, m=64, n=1, o=1} reduction={l} permutation={j, k}",
    ),
    (
        f"r = f32[8,8,8,64] convolution(x, y), window={{size=2x2 stride=2x2}}, {_CONV}, feature_group_count=4",
        {"x": "f32[8,16,16,32]", "y": "f32[2,2,8,64]"},
        "([i, jk, lm, no], [k, m, o, np])->([i, j, l, np]) {i=8, j=8, k=2, l=8, m=2, n=4, o=8, p=16} "
        "reduction={k, m, o} permutation={j, l}",
    ),
    ("r = f32[2,4,3] reshape(x)", {"x": "f32[8,3]"}, "([ij, k])->([i, j, k]) {i=2, j=4, k=3}"),
    ("r = f32[6,4] reshape(x)", {"x": "f32[8,3]"}, "([ij, m])->([ik, l]) {i=2, j=4, k=3, l=4, m=3}"),
    ("r = f32[4,1,6] reshape(x)", {"x": "f32[24]"}, "([ik])->([i, j, k]) {i=4, j=1, k=6}"),
    (
        "r = f32[4,6,1] broadcast(x), dimensions={0,2}",
        {"x": "f32[4,1]"},
        "([i, k])->([i, j, k]) {i=4, j=6, k=1}",
    ),
    ("r = f32[6,4] transpose(x), dimensions={1,0}", {"x": "f32[4,6]"}, "([j, i])->([i, j]) {i=6, j=4}"),
    ("r = f32[4,6] reverse(x), dimensions={1}", {"x": "f32[4,6]"}, "([i, j])->([i, j]) {i=4, j=6} permutation={j}"),
    (
        "r = f32[4,8] pad(x, y), padding=0_0x1_1",
        {"x": "f32[4,6]", "y": "f32[]"},
        "([i, j], [])->([i, j]) {i=4, j=6} permutation={j}",
    ),
    (
        "r = f32[4,9] concatenate(x, y), dimensions={1}",
        {"x": "f32[4,6]", "y": "f32[4,3]"},
        "([i, j], [i, j])->([i, j]) {i=4, j=9} need_replication={j}",
    ),
    (
        "r = f32[4] reduce(x, y), dimensions={1}, to_apply=add",
        {"x": "f32[4,6]", "y": "f32[]"},
        "([i, j], [])->([i]) {i=4, j=6} reduction={j}",
    ),
    (
        "r = f32[4,3] reduce-window(x, y), window={size=1x2 stride=1x2}, to_apply=add",
        {"x": "f32[4,6]", "y": "f32[]"},
        "([i, j], [])->([i, j]) {i=4, j=3} permutation={j}",
    ),
    (
        "r = f32[4,6] select-and-scatter(x, y, z), window={size=1x2 stride=1x2}, select=greater, scatter=add",
        {"x": "f32[4,6]", "y": "f32[4,3]", "z": "f32[]"},
        "([i, k], [i, j], [])->([i, k]) {i=4, j=3, k=6} need_replication={j} permutation={k}",
    ),
    (
        "r = f32[4,6] sort(x), dimensions={1}, to_apply=less",
        {"x": "f32[4,6]"},
        "([i, j])->([i, j]) {i=4, j=6} need_replication={j}",
    ),
    (
        "r = f32[6] sort(x), dimensions={0}, to_apply=less",
        {"x": "f32[6]"},
        "([i])->([i]) {i=6} need_replication={i} blocked_propagation={i}",
    ),
    (
        "r = f32[2,4] gather(x, y), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
        "slice_sizes={1,4}",
        {"x": "f32[8,4]", "y": "s32[2]"},
        "([k, j], [i])->([i, j]) {i=2, j=4, k=8} reduction={k}",
    ),
    (
        "r = f32[8,4] scatter(x, y, z), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=add",
        {"x": "f32[8,4]", "y": "s32[2]", "z": "f32[2,4]"},
        "([k, j], [i], [i, j])->([k, j]) {i=2, j=4, k=8} reduction={i}",
    ),
    (
        "r = f32[8,4] scatter(x, y, z), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1, to_apply=first",
        {"x": "f32[8,4]", "y": "s32[2]", "z": "f32[2,4]"},
        "([k, j], [i], [i, j])->([k, j]) {i=2, j=4, k=8} need_replication={i}",
    ),
    (
        "r = f32[4,2] dynamic-slice(x, y, z), dynamic_slice_sizes={4,2}",
        {"x": "f32[4,6]", "y": "s32[]", "z": "s32[]"},
        "([i, j], [], [])->([i, j]) {i=4, j=6} need_replication={j} blocked_propagation={j}",
    ),
    (
        "r = f32[4,6] dynamic-update-slice(x, u, y, z)",
        {"x": "f32[4,6]", "u": "f32[4,2]", "y": "s32[]", "z": "s32[]"},
        "([i, j], [i, k], [], [])->([i, j]) {i=4, j=6, k=2} need_replication={k}",
    ),
    (
        "r = c64[4,5] fft(x), fft_type=RFFT, fft_length={8}",
        {"x": "f32[4,8]"},
        "([i, j])->([i, j]) {i=4, j=8} need_replication={j} blocked_propagation={j}",
    ),
    (
        "r = f32[3,4,4] cholesky(x), lower=true",
        {"x": "f32[3,4,4]"},
        "([i, j, k])->([i, j, k]) {i=3, j=4, k=4} need_replication={j, k}",
    ),
    (
        "r = f32[4,6] triangular-solve(x, y), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
        {"x": "f32[4,4]", "y": "f32[4,6]"},
        "([i, k], [i, j])->([k, j]) {i=4, j=6, k=4} need_replication={i, j, k}",
    ),
]


@pytest.mark.parametrize(("line", "parameters", "rule"), CASES, ids=[c[0].split("(")[0].split()[-1] for c in CASES])
def test_rule_in_shardys_notation(line: str, parameters: dict[str, str], rule: str) -> None:
    made = sharding_rule(op_of(line, **parameters))
    assert str(made) == f"<{rule}>"
    assert parse_rule(f"#sdy.op_sharding_rule<{rule}>") == made


def test_no_rule_where_shardings_do_not_pass() -> None:
    assert sharding_rule(op_of("r = s32[4,6] iota(), iota_dimension=0")) is None
    assert sharding_rule(op_of('r = f32[4] custom-call(x), custom_call_target="unheard_of"', x="f32[4]")) is None
    assert sharding_rule(op_of("r = f32[0,6] reshape(x)", x="f32[6,0]")) is None


def test_slices_put_together_again_need_a_permutation_only() -> None:
    program, _ = program_of(
        """HloModule m
        ENTRY main {
          x = f32[8] parameter(0)
          a = f32[4] slice(x), slice={[0:4]}
          b = f32[4] slice(x), slice={[4:8]}
          ROOT r = f32[8] concatenate(b, a), dimensions={0}
        }"""
    )
    assert str(sharding_rule(program.body.ops[-1])) == "<([i], [i])->([i]) {i=8} permutation={i}>"


def test_error_function_is_not_known_to_shardy() -> None:
    erf = op_of("r = f32[4] erf(x)", x="f32[4]")
    assert sharding_rule(erf) is None
    assert not is_elementwise(erf)
    assert is_elementwise(op_of("r = f32[4] tanh(x)", x="f32[4]"))


def test_rule_of_its_own_that_a_custom_call_carries() -> None:
    given = "#sdy.op_sharding_rule<([i, j])->([i]) {i=4, j=6} reduction={j}, custom>"
    call = (
        f'r = f32[4] custom-call(x), custom_call_target="mine", frontend_attributes={{xla.sdy.sharding_rule="{given}"}}'
    )
    op = op_of(call, x="f32[4,6]")
    rule = sharding_rule(op)
    assert rule is not None
    assert rule.is_custom
    assert rule.reduction == {1}


def test_text_that_is_no_rule() -> None:
    with pytest.raises(XlanbError, match="not a sharding rule"):
        parse_rule("i, j -> i")
