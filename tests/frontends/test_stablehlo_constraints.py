"""Attributes that HLO has no use for are checked as StableHLO's verifier checks them."""

from __future__ import annotations

import pytest

from xlanb.errors import HloVerifierError
from xlanb.frontends.stablehlo import from_stablehlo

X = "tensor<4x8xf32>"


def main(body: str, arguments: str = f"%x: {X}", others: str = "") -> str:
    return f"{others}\nfunc.func @main({arguments}) {{\n{body}\n  return\n}}"


def accuracy(fields: str) -> str:
    return f'%r = "stablehlo.cbrt"(%x) {{result_accuracy = #stablehlo.result_accuracy<{fields}>}} : ({X}) -> {X}'


def dot(attributes: str) -> str:
    return f'%r = "stablehlo.dot"(%x, %y) {{{attributes}}} : ({X}, tensor<8x4xf32>) -> tensor<4x4xf32>'


def reduced(element: str, result: str = "tensor<4x8xf32>", returned: str = "%s") -> str:
    return f"""%r = "stablehlo.all_reduce"(%x) ({{
      ^bb0(%a: tensor<{element}>, %b: tensor<{element}>):
        %s = stablehlo.add %a, %b : tensor<{element}>
        %i = stablehlo.convert %s : (tensor<{element}>) -> tensor<i32>
        stablehlo.return {returned} : tensor<{"i32" if returned == "%i" else element}>
      }}) {{replica_groups = dense<0> : tensor<1x1xi64>}} : ({X}) -> {result}"""


def exchanged(groups: str) -> str:
    return (
        f'%r = "stablehlo.all_to_all"(%x) {{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64,'
        f" replica_groups = {groups}}} : ({X}) -> tensor<8x4xf32>"
    )


def call(attributes: str) -> str:
    return f'%r = "stablehlo.custom_call"(%x) {{call_target_name = "f", {attributes}}} : ({X}) -> {X}'


def composite(name: str, result: str = X) -> str:
    return f'%r = stablehlo.composite "{name}" %x {{decomposition = @f}} : ({X}) -> {result}'


F = f"func.func private @f(%a: {X}) -> {X} {{ return %a : {X} }}"
BOTH = f"%x: {X}, %y: tensor<8x4xf32>"
TOKEN = "%t: !stablehlo.token"
GATHERED = """%r = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], operand_batching_dims = [0],
    start_indices_batching_dims = [0], start_index_map = [START], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}
    : (tensor<4x8xf32>, tensor<ROWSx1xi32>) -> tensor<ROWSx2xf32>"""


def gathered(start: int, rows: int) -> str:
    return GATHERED.replace("START", str(start)).replace("ROWS", str(rows))


BAD = {
    "boolean": (main(f'%r = "stablehlo.concatenate"(%x) {{dimension = true}} : ({X}) -> {X}'), "an integer as 'dimension'"),
    "tolerance": (main(accuracy("atol = 1.0, rtol = 0.0, ulps = 4, mode = #stablehlo.result_accuracy_mode<HIGHEST>")), "tolerances of 0"),
    "precisions": (main(dot("precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision HIGH>, #stablehlo<precision HIGH>]"), BOTH), "at most two"),
    "precision": (main(dot('precision_config = ["FOO"]'), BOTH), "at most two of DEFAULT, HIGH, HIGHEST"),
    "name": (main(composite("foo"), others=F), "such as dialect.op"),
    "decomposition": (main(composite("a.b", "tensor<4x8xf64>"), others=F), "result 0 is tensor<4x8xf64>, but tensor<4x8xf32>"),
    "region's result": (main(reduced("f32", returned="%i")), r"returns s32\[\] for argument"),
    "region's type": (main(reduced("i32")), "the result's element type"),
    "promotion": (main(reduced("i64", "tensor<4x8xi64>")), "can be promoted"),
    "negative participant": (main(exchanged("dense<[[-5, 0]]> : tensor<1x2xi64>")), "participants from 0 on"),
    "group size": (main(exchanged("dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>")), "replica_groups of 2 participants"),
    "layouts": (main(call("operand_layouts = [dense<[1, 0]> : tensor<2xindex>]")), "or neither"),
    "dictionary": (main(call('api_version = 4 : i32, backend_config = "a"')), "a dictionary as backend_config"),
    "string": (main(call("api_version = 3 : i32, backend_config = {a = 1 : i64}")), "a string as backend_config"),
    "infeed": (main('%r:2 = "stablehlo.infeed"(%t) {infeed_config = "", layout = [[0], [0]]} : (!stablehlo.token) -> (tensor<3xi32>, !stablehlo.token)', TOKEN), "a layout for each of 1 arrays"),
    "infeed's layout": (main('%r:2 = "stablehlo.infeed"(%t) {infeed_config = "", layout = [0]} : (!stablehlo.token) -> (tensor<3xi32>, !stablehlo.token)', TOKEN), "list dimensions"),
    "tokens": (main('%r:2 = "stablehlo.infeed"(%t) {infeed_config = ""} : (!stablehlo.token) -> (!stablehlo.token, !stablehlo.token)', TOKEN), "arrays and a token"),
    "channel": (main(f'%r = "stablehlo.send"(%x, %t) {{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>}} : ({X}, !stablehlo.token) -> !stablehlo.token', f"%x: {X}, {TOKEN}"), "channel of type 1"),
    "roots": (main(f'%r = "stablehlo.collective_broadcast"(%x, %i) {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, has_dynamic_root}} : ({X}, tensor<2xi32>) -> {X}', f"%x: {X}, %i: tensor<2xi32>"), "tensor<1xi32>"),
    "batches": (main(gathered(1, 5), f"%x: {X}, %i: tensor<5x1xi32>"), "batching dimensions of equal size"),
    "indexed batches": (main(gathered(0, 4), f"%x: {X}, %i: tensor<4x1xi32>"), "apart from start_index_map"),
    "map": (main(f'%r = "stablehlo.map"(%x) ({{\n^bb0(%a: tensor<f32>):\n  stablehlo.return %a : tensor<f32>\n}}) {{dimensions = array<i64: 1, 0>}} : ({X}) -> {X}'), "all 2 dimensions in order"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_stablehlo_forbids_is_refused(name: str) -> None:
    text, message = BAD[name]
    with pytest.raises(HloVerifierError, match=message) as caught:
        from_stablehlo(text)
    assert str(caught.value).split(":", maxsplit=1)[0].isdigit()


GOOD = {
    "tolerance": main(accuracy("atol = 1.0, rtol = 0.0, ulps = 4, mode = #stablehlo.result_accuracy_mode<TOLERANCE>")),
    "highest": main(accuracy("mode = #stablehlo.result_accuracy_mode<HIGHEST>")),
    "precision": main(dot("precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]"), BOTH),
    "composite": main(composite("dialect.some_op"), others=F),
    "reduction": main(reduced("f32")),
    "exchange": main(exchanged("dense<[[0, 1]]> : tensor<1x2xi64>")),
    "call": main(call('backend_config = "a", api_version = 1 : i32')),
    "batches": main(gathered(1, 4), f"%x: {X}, %i: tensor<4x1xi32>"),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_stablehlo_allows_is_taken(name: str) -> None:
    from_stablehlo(GOOD[name]).verify()
