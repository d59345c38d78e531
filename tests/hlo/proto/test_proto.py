"""Modules in binary form: the whole text is recovered, and malformed messages are rejected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as npst
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xlanb
from xlanb.errors import HloParseError, LiteralError, ShapeError, UnimplementedError, XlanbError
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.proto.fields import COMPUTATION_KINDS
from xlanb.hlo.proto.header import WITHOUT_FIELD
from xlanb.hlo.proto.schema import SCHEMA
from xlanb.hlo.proto.shapes import (
    literal_from_proto,
    literal_to_proto,
    shape_from_proto,
    shape_to_proto,
)
from xlanb.hlo.proto.sharding import sharding_from_proto, sharding_to_proto
from xlanb.hlo.text.parser import parse
from xlanb.shape import ArrayShape, Layout, Literal, PrimitiveType, TupleShape

MODULES = [
    xlanb.hlo.parse(text) for text in (Path(__file__).parent / "proto_modules.hlo").read_text().split("// ----\n")
]
NAMES = [m.name for m in MODULES]

# Written by the real XLA (jaxlib 0.10.2) for the text below it.
FROM_XLA = bytes.fromhex(
    "0a016d1201651ae4010a0165124c0a01631208636f6e7374616e741a1010041a01022a060a01008001013201003a0042"
    "200a1010041a01022a060a0100800101320100220cffffffffffffffffff01ac02980201a20400920500122b0a017812"
    "09706172616d657465721a13100b1a0202032a070a020001800101320200003a00a2040092050012330a016e12066e65"
    "676174651a13100b1a0202032a070a020001800101320200003a00980202a2020100aa020101a20400920500222d0a13"
    "100b1a0202032a070a020001800101320200001213100b1a0202032a070a020001800101320200001a01783002222e0a"
    "13100b1a0202032a070a020001800101320200001213100b1a0202032a070a020001800101320200001a0270303a0b0a"
    "09080012050a0300010242009201009a0100"
)
ITS_TEXT = """HloModule m, is_scheduled=true, entry_computation_layout={(f32[2,3]{0,1})->f32[2,3]{0,1}}

ENTRY %e (x: f32[2,3]) -> f32[2,3] {
  %x = f32[2,3]{0,1} parameter(0)
  %c = s32[2]{0} constant({-1, 300})
  ROOT %n = f32[2,3]{0,1} negate(%x), control-predecessors={%c}
}

"""


def kept(module: HloModule) -> str:
    """The text without the parts that XLA keeps outside the message."""
    for name in WITHOUT_FIELD:
        module.header.pop(name, None)
    return str(module)


@pytest.mark.parametrize("module", MODULES, ids=NAMES)
def test_a_module_comes_back_as_it_was(module: HloModule) -> None:
    again = HloModule.from_proto(module.to_proto())
    assert str(again) == kept(module.clone())
    assert {i.name: i.attributes.keys() for i in again.instructions()} == {
        i.name: i.attributes.keys() for i in module.instructions()
    }


@pytest.mark.parametrize("module", MODULES, ids=NAMES)
def test_writing_is_stable(module: HloModule) -> None:
    data = module.to_proto()
    assert HloModule.from_proto(data).to_proto() == data


def test_the_modules_have_every_attribute_of_the_table() -> None:
    there = {name for m in MODULES for i in m.instructions() for name in i.attributes}
    table = {
        a.name
        for o in HloOpcode
        for a in o.attributes
        if a.kind not in ("group_mode", "shuffle_mode", "comparison_order")
    }
    assert table - there == {
        "block_scaling_config",
        "has_dynamic_root",
        "shifts",
    }  # newer than JAX 0.10: test_newer_attributes.py
    assert there <= table


def test_bytes_of_the_real_xla() -> None:
    module = HloModule.from_proto(FROM_XLA)
    assert str(module) == ITS_TEXT
    assert str(xlanb.hlo.parse(ITS_TEXT)) == ITS_TEXT
    theirs, ours = (
        SCHEMA.HloModuleProto.FromString(FROM_XLA),
        SCHEMA.HloModuleProto.FromString(module.to_proto()),
    )
    theirs.id = 0
    assert ours == theirs


def test_a_dump_may_hold_the_module_in_an_hlo_proto() -> None:
    outer = SCHEMA.HloProto()
    outer.hlo_module.ParseFromString(FROM_XLA)
    assert str(HloModule.from_proto(outer.SerializeToString())) == ITS_TEXT


def test_graphs_share_what_they_shared() -> None:
    module = HloModule.from_proto(next(m for m in MODULES if m.name == "control").to_proto())
    conditional = module.find("b")
    assert conditional is not None
    first, _, last = conditional.attributes["branch_computations"]
    assert first is last
    (x,) = module.entry_computation.parameters
    assert [u.name for u in x.users] == ["init", "a"]
    assert module.entry_computation.root.name == "o"
    # a fused computation has no schedule
    assert len(module.schedule) == len(module.computations) - 1


def test_callees_are_written_before_their_callers() -> None:
    message = SCHEMA.HloModuleProto.FromString(next(m for m in MODULES if m.name == "control").to_proto())
    known: set[int] = set()
    for computation in message.computations:
        assert all(set(i.called_computation_ids) <= known for i in computation.instructions)
        known.add(computation.id)


# -- shapes and literals ---------------------------------------------------------------------------

ELEMENTS = [k for k in PrimitiveType if k.is_array and k.scalar is not None]


@st.composite
def literals(draw: st.DrawFn) -> Literal:
    kind = draw(st.sampled_from(ELEMENTS))
    dimensions = draw(npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    layout = Layout(tuple(draw(st.permutations(range(len(dimensions))))))
    count = int(np.prod(dimensions, dtype=int))
    if kind is PrimitiveType.PRED:
        values = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), np.bool_)
    elif kind.bits < 8:
        low = draw(st.lists(st.integers(0, 2**kind.bits - 1), min_size=count, max_size=count))
        bits = np.array(low, np.uint8)
        signed = (bits << (8 - kind.bits)).view(np.int8) >> (8 - kind.bits)
        values = (signed if kind.is_signed else bits).astype(kind.dtype) if kind.is_integral else bits.view(kind.dtype)
    else:
        size = count * kind.byte_size
        values = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), kind.dtype)
    return Literal(ArrayShape(kind, dimensions, layout), values.reshape(dimensions))


@given(literals())
def test_a_literal_keeps_every_bit(literal: Literal) -> None:
    data = literal_to_proto(literal).SerializeToString()
    again = literal_from_proto(SCHEMA.LiteralProto.FromString(data))
    assert again.shape == literal.shape
    assert again == literal


@pytest.mark.parametrize(
    "text", ["f32[2] constant({nan(0x1), -nan(0x123)})", "c64[1] constant({(nan(0x1), nan(0x1))})"]
)
def test_a_signaling_nan_is_the_same_in_text_and_proto(text: str) -> None:
    module = parse(f"HloModule m\nENTRY e {{\n  ROOT c = {text}\n}}\n")
    again = HloModule.from_proto(module.to_proto())
    assert again.entry_computation.root.literal == module.entry_computation.root.literal
    assert str(again) == str(module)


def test_elements_stand_in_the_order_of_memory() -> None:
    literal = Literal(
        ArrayShape(PrimitiveType.S32, (2, 3), Layout((0, 1))),
        np.arange(6, dtype=np.int32).reshape(2, 3),
    )
    assert list(literal_to_proto(literal).s32s) == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize("kind", [k for k in ELEMENTS if k.bits < 8], ids=str)
def test_bits_above_a_small_element_say_nothing(kind: PrimitiveType) -> None:
    proto = SCHEMA.LiteralProto(shape=shape_to_proto(ArrayShape(kind, (2,))))
    setattr(proto, f"{kind}s", bytes([0xFF, 0x80]))
    clean = SCHEMA.LiteralProto(shape=proto.shape)
    setattr(clean, f"{kind}s", bytes([0xFF >> (8 - kind.bits), 0]))
    assert literal_from_proto(proto) == literal_from_proto(clean)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("f32[2,<=3]{1,0}", {"is_dynamic_dimension": [False, True], "dimensions": [2, 3]}),
        ("f32[?]{0}", {"is_dynamic_dimension": [True], "dimensions": [-(2**63)]}),
        ("s4[8]{0:T(*,4)L(2)E(4)S(3)}", {"dimensions": [8]}),
        ("u8[5]{0:SC(0:1,3)M(16)}", {"dimensions": [5]}),
        ("(f32[], token[], (opaque[], b(f32[2]{0})))", {"element_type": 13}),
    ],
)
def test_a_shape_comes_back(text: str, wanted: dict[str, Any]) -> None:
    shape = xlanb.hlo.parse(f"HloModule m\nENTRY e {{ ROOT p = {text} parameter(0) }}").entry_computation.root.shape
    proto = shape_to_proto(shape)
    for name, value in wanted.items():
        found = getattr(proto, name)
        assert (found if isinstance(found, int) else list(found)) == value
    assert shape_from_proto(proto) == shape


# -- shardings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "{replicated}",
        "{manual}",
        "{unknown shard_like 3}",
        "{unreduced}",
        "{maximal device=-1}",
        '{replicated metadata={op_name="a"}}',
        '{manual metadata={{op_name="a"}, {op_type="b"}}}',
        "{devices=[2,2]0,3,1,2}",
        "{devices=[4]<=[4]}",
        "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
        "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}",
        "{devices=[2,2]<=[4] shard_as 1}",
        "{{devices=[2]0,1}, {replicated}}",
        "{}",
        "{mesh['x'=2,'y'=2], [{'x'}, {'y'}]}",
        "{mesh['x'=8], [{'x':(1)2, 'x':(4)2, ?}, {?}, {}]}",
        "{mesh['x'=2,'y'=2], [{'x'}], replicated={'y'}}",
        "{mesh['x'=2,'y'=2,'z'=2], device_ids=(7,6,5,4,3,2,1,0), [{}], unreduced={'x'}, manual={'z', 'y'}}",
        "{mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x'}]}",
        "{mesh['x'=2], replicated}",
        "{mesh['x'=2,'y'=2], manual}",
        "{mesh['x'=2], unreduced, metadata={{op_name=\"a\"}}}",
        "{maximal_mesh[device_id=1]}",
        "{{mesh['x'=2], [{'x'}]}, {replicated}}",
    ],
)
def test_a_sharding_comes_back(text: str) -> None:
    assert sharding_from_proto(sharding_to_proto(text)) == text


def test_one_sharding_of_a_tuple_is_that_of_each_element() -> None:
    text = "HloModule m\nENTRY e {\n  x = f32[] parameter(0), sharding={replicated}\n  ROOT t = (f32[], f32[]) tuple(x, x)\n}\n"
    message = SCHEMA.HloModuleProto.FromString(parse(text).to_proto())
    x, t = message.computations[0].instructions
    t.sharding.CopyFrom(x.sharding)
    module = HloModule.from_proto(message.SerializeToString())
    assert module.entry_computation.root.sharding == "{{replicated}, {replicated}}"
    assert str(parse(str(module))) == str(module)


def test_what_no_text_can_say_is_not_read() -> None:
    text = (
        "HloModule m\nENTRY e {\n  x = f32[8,8] parameter(0), sharding={mesh['a'=2,'b'=2], [{'a'}, {'b'}]}\n"
        '  ROOT r = f32[] custom-call(x), window={size=2}, custom_call_target="f"\n}\n'
    )
    message = SCHEMA.HloModuleProto.FromString(parse(text).to_proto())
    x, call = message.computations[0].instructions
    call.window.dimensions[0].window_dilation = -(2**63)
    with pytest.raises(HloParseError, match="dilations must not be negative"):
        HloModule.from_proto(message.SerializeToString())
    call.window.dimensions[0].window_dilation = 1
    x.sharding.named_sharding.mesh.axes[1].name = "a"
    with pytest.raises(HloParseError, match="axis a is given twice"):
        HloModule.from_proto(message.SerializeToString())


def test_a_fusion_of_an_unknown_kind() -> None:
    text = (
        "HloModule m\nf {\n  p = f32[] parameter(0)\n  ROOT n = f32[] negate(p)\n}\n"
        "ENTRY e {\n  x = f32[] parameter(0)\n  ROOT r = f32[] fusion(x), kind=kLoop, calls=f\n}\n"
    )
    data = parse(text).to_proto().replace(b"kLoop", b"kLump")
    with pytest.raises(HloParseError, match="kind must be one of kCustom, kInput, kLoop, kOutput, not 'kLump'"):
        HloModule.from_proto(data)


@pytest.mark.parametrize(("name", "printed"), [("\U0001f600", "a___=33"), ("", "_=33"), ("a b", "a_b=33")])
def test_names_of_statistics_are_those_of_attributes(name: str, printed: str) -> None:
    text = "HloModule m\nENTRY e {\n  ROOT x = f32[] parameter(0), statistics={visualizing_index=1,stat=33}\n}\n"
    message = SCHEMA.HloModuleProto.FromString(parse(text).to_proto())
    message.computations[0].instructions[0].statistics_viz.statistics[0].stat_name = name
    module = HloModule.from_proto(message.SerializeToString())
    assert printed in str(module)
    assert str(parse(str(module))) == str(module)


def test_dimension_numbers_name_a_dimension_once() -> None:
    text = (
        "HloModule m\nENTRY e {\n  x = f32[1,4,4,2] parameter(0)\n  k = f32[2,2,2,3] parameter(1)\n"
        "  ROOT r = f32[1,3,3,3] convolution(x, k), window={size=2x2}, dim_labels=b01f_01io->b01f\n}\n"
    )
    message = SCHEMA.HloModuleProto.FromString(parse(text).to_proto())
    numbers = message.computations[0].instructions[2].convolution_dimension_numbers
    numbers.output_feature_dimension = numbers.output_batch_dimension
    with pytest.raises(HloParseError, match="dimension 0 of a convolution's output is named twice"):
        HloModule.from_proto(message.SerializeToString())


def test_devices_of_a_replicated_subgroup_are_sorted() -> None:
    proto = sharding_to_proto("{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}")
    proto.iota_reshape_dims[:], proto.iota_transpose_perm[:] = [2, 2, 2], [2, 1, 0]
    assert sharding_from_proto(proto) == "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}"


@pytest.mark.parametrize(
    "change",
    [
        lambda s: setattr(s, "type", 9),
        lambda s: s.tile_assignment_dimensions.append(2),
        lambda s: s.tile_assignment_dimensions.extend([2**62] * 100),
        lambda s: setattr(s, "type", 1),
        lambda s: s.last_tile_dims.append(-1),
        lambda s: (setattr(s, "type", 2), s.tuple_shardings.add(type=2)),
        lambda s: (
            s.named_sharding.manual_axes.add(mesh_axis_index=1) and s.named_sharding.mesh.axes.add(name="x", size=2)
        ),
    ],
)
def test_a_sharding_that_does_not_fit_is_refused(change: Callable[[Any], None]) -> None:
    proto = sharding_to_proto("{devices=[2]0,1}")
    change(proto)
    with pytest.raises(HloParseError):
        sharding_from_proto(proto)


# -- bad input -------------------------------------------------------------------------------------


def broken(change: Callable[[Any], object]) -> bytes:
    message = SCHEMA.HloModuleProto.FromString(FROM_XLA)
    change(message)
    data: bytes = message.SerializeToString()
    return data


def instruction(message: Any, name: str) -> Any:
    return next(i for i in message.computations[0].instructions if i.name == name)


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        (
            lambda m: m.ClearField("computations"),
            HloParseError,
            "no computation has the entry's id",
        ),
        (
            lambda m: m.computations.add().CopyFrom(m.computations[0]),
            HloParseError,
            "two computations have the id 0",
        ),
        (
            lambda m: setattr(m.computations[0], "root_id", 77),
            HloParseError,
            "no instruction has the root's id 77",
        ),
        (
            lambda m: setattr(instruction(m, "x"), "opcode", "warp"),
            HloParseError,
            "unknown opcode 'warp'",
        ),
        (
            lambda m: instruction(m, "x").operand_ids.append(1),
            HloParseError,
            "parameter has 0 operands",
        ),
        (
            lambda m: instruction(m, "n").operand_ids.__setitem__(0, 2),
            HloParseError,
            "n = negate.*operand 2 does not refer to an earlier instruction",
        ),
        (
            lambda m: instruction(m, "n").control_predecessor_ids.append(9),
            HloParseError,
            "control predecessor 9",
        ),
        (
            lambda m: setattr(instruction(m, "c"), "id", 0),
            HloParseError,
            "two instructions have the id 0",
        ),
        (
            lambda m: setattr(instruction(m, "c"), "name", "x"),
            HloParseError,
            "duplicate names",
        ),
        (
            lambda m: setattr(instruction(m, "x"), "parameter_number", 3),
            HloParseError,
            "parameter numbers are",
        ),
        (
            lambda m: instruction(m, "n").called_computation_ids.append(0),
            HloParseError,
            "called computation 0",
        ),
        (
            lambda m: setattr(instruction(m, "n").shape, "element_type", 99),
            ShapeError,
            "unknown element type 99",
        ),
        (
            lambda m: instruction(m, "n").shape.dimensions.extend([2**62, 2**62]),
            ShapeError,
            "dynamic flags",
        ),
        (
            lambda m: instruction(m, "n").shape.dimensions.__setitem__(0, -5),
            ShapeError,
            "dimension -5",
        ),
        (lambda m: instruction(m, "n").shape.layout.minor_to_major.append(0), ShapeError, "layout"),
        (
            lambda m: instruction(m, "c").literal.s32s.append(1),
            LiteralError,
            "3 numbers for a literal of shape",
        ),
        (
            lambda m: instruction(m, "c").literal.shape.dimensions.__setitem__(0, 2**40),
            LiteralError,
            "2 numbers",
        ),
        (
            lambda m: instruction(m, "c").ClearField("literal"),
            HloParseError,
            "attribute literal is missing",
        ),
        (
            lambda m: m.schedule.sequences[0].value.instruction_ids.append(1),
            HloParseError,
            "not a permutation of its 3",
        ),
        (
            lambda m: m.host_program_shape.parameters.add(element_type=11),
            HloParseError,
            "2 parameters in its program shape",
        ),
    ],
)
def test_a_malformed_message_says_what_is_wrong(
    change: Callable[[Any], object], kind: type[XlanbError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        HloModule.from_proto(broken(change))


def test_a_size_that_nothing_can_hold_is_refused() -> None:
    def change(message: Any) -> None:
        shape = instruction(message, "c").literal.shape
        shape.dimensions[:] = [2**62, 2**62]
        shape.is_dynamic_dimension[:] = []
        shape.ClearField("layout")

    with pytest.raises(ShapeError, match="too large"):
        HloModule.from_proto(broken(change))


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 50, b"HloModule m", FROM_XLA[:-1], b"\x12" + b"\x80" * 20])
def test_bytes_that_are_no_message(data: bytes) -> None:
    with pytest.raises(HloParseError):
        HloModule.from_proto(data)


def test_text_is_no_message() -> None:
    with pytest.raises(HloParseError, match="expected the bytes of an HloModuleProto, got str"):
        HloModule.from_proto(ITS_TEXT)  # type: ignore[arg-type]


def test_nesting_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = ArrayShape(PrimitiveType.F32)
    with monkeypatch.context() as unlimited:
        unlimited.setattr("xlanb.shape.shape.MAX_DEPTH", 1000)
        for _ in range(150):
            shape = TupleShape((shape,))  # type: ignore[assignment]
        module = HloModule("deep")
        entry = module.add_computation("e", entry=True)
        entry.set_root(entry.add(HloOpcode.PARAMETER, (), shape, parameter_number=0))
        with pytest.raises(XlanbError):
            HloModule.from_proto(module.to_proto())


@pytest.mark.parametrize("shape", ["f32[2]", "f64[2]", "c64[2]", "bf16[2]", "f32[0]"])
def test_signalling_nans_keep_their_bits(shape: str) -> None:
    value = {"f32[0]": "{}", "c64[2]": "{(nan(0x1), 2), (3, -nan(0x5))}"}.get(shape, "{nan(0x1), -2}")
    data = parse(f"HloModule m\nENTRY e {{\n  ROOT c = {shape} constant({value})\n}}\n").to_proto()
    unknown = SCHEMA.HloModuleProto()
    unknown.ParseFromString(data)
    literal = unknown.computations[0].instructions[0].literal
    literal.MergeFromString(b"\x82\x7d\x03abc")  # a field that the schema does not know
    for source in (data, unknown.SerializeToString()):
        assert HloModule.from_proto(source).to_proto() == data


def test_constants_beyond_what_a_message_holds() -> None:
    constants = "".join(f"  c{i} = f32[400000000] constant({{...}})\n" for i in range(2))
    module = xlanb.hlo.parse(f"HloModule m\nENTRY e {{\n{constants}  ROOT t = f32[400000000] add(c0, c1)\n}}")
    with pytest.raises(UnimplementedError, match="too large for a binary message"):
        module.to_proto()


def test_elided_constants_become_zeros() -> None:
    module = xlanb.hlo.parse("HloModule m\nENTRY e { ROOT c = f32[3]{0} constant({...}) }")
    assert HloModule.from_proto(module.to_proto()).entry_computation.root.literal.array.tolist() == [0, 0, 0]


SEEDS = [m.to_proto() for m in MODULES]


@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=3)), min_size=1, max_size=4),
)
def test_damaged_bytes_are_read_or_refused(data: bytes, edits: list[tuple[int, bytes]]) -> None:
    damaged = bytearray(data)
    for place, piece in edits:
        at = place % len(damaged)
        damaged[at : at + max(1, len(piece))] = piece
    try:
        module = HloModule.from_proto(bytes(damaged))
        module.to_proto()
        str(module)
    except XlanbError:
        pass


def test_every_attribute_of_the_table_has_a_codec() -> None:
    from xlanb.hlo.proto.fields import codecs

    for opcode in HloOpcode:
        rows = {
            a.name for a in opcode.attributes if a.kind not in (*COMPUTATION_KINDS, "group_mode", "comparison_order")
        }
        assert {row.name for row, _ in codecs(opcode)} == rows


def test_a_constant_has_no_dynamic_dimensions():
    proto = SCHEMA.HloModuleProto()
    proto.ParseFromString(
        xlanb.hlo.parse("HloModule m\n\nENTRY e {\n  ROOT c = s8[2] constant({1, 2})\n}\n").to_proto()
    )
    constant = proto.computations[0].instructions[0]
    constant.shape.is_dynamic_dimension[:] = [True]
    with pytest.raises(XlanbError, match=r"expected the literal's shape s8\[2\]\{0\}, not s8\[<=2\]"):
        HloModule.from_proto(proto.SerializeToString()).verify()
    constant.literal.shape.CopyFrom(constant.shape)
    with pytest.raises(LiteralError, match="cannot have dynamic dimensions"):
        HloModule.from_proto(proto.SerializeToString())


@pytest.mark.parametrize("field", ["index_primitive_type", "pointer_primitive_type"])
@pytest.mark.parametrize("number", [1, 2, 11, 13, 99, -1])
def test_indices_and_pointers_of_a_layout_are_unsigned(field, number):
    proto = shape_to_proto(ArrayShape(PrimitiveType.F32, (3,)).with_default_layout())
    setattr(proto.layout, field, number)
    with pytest.raises(ShapeError, match="which is not unsigned"):
        shape_from_proto(proto)
    setattr(proto.layout, field, PrimitiveType.U8.number)
    assert "u8" in str(shape_from_proto(proto))


@pytest.mark.parametrize("opcode", ["all-reduce", "reduce", "while", "call", "map", "sort", "fusion"])
def test_instructions_call_what_they_have_to(opcode):
    module = next(m for m in MODULES if any(str(i.opcode) == opcode for i in m.instructions()))
    proto = SCHEMA.HloModuleProto()
    proto.ParseFromString(module.to_proto())
    for instruction in (i for c in proto.computations for i in c.instructions if i.opcode == opcode):
        del instruction.called_computation_ids[:]
    with pytest.raises(HloParseError, match=r"attribute \w+ is missing"):
        HloModule.from_proto(proto.SerializeToString())


@pytest.mark.parametrize("key", ["\u2028", "a b", "", "1", '"', "a=b", "x}", "\n"])
def test_names_of_frontend_attributes_that_no_text_of_xla_could_hold(key):
    proto = SCHEMA.HloModuleProto()
    proto.ParseFromString(xlanb.hlo.parse("HloModule m\n\nENTRY e {\n  ROOT c = s8[] constant(1)\n}\n").to_proto())
    for attributes in (proto.frontend_attributes, proto.computations[0].instructions[0].frontend_attributes):
        attributes.map.add(key=key, value="value")
        attributes.map.add(key="plain", value="1")
    module = HloModule.from_proto(proto.SerializeToString())
    again = xlanb.hlo.parse(str(module))
    assert again.entry_computation.root.frontend_attributes == tuple(sorted({key: "value", "plain": "1"}.items()))
    assert again.to_proto() == module.to_proto()
    assert str(again) == str(module)
    assert 'plain="1"' in str(again)


def test_an_update_has_the_very_shape_of_its_start():
    module = next(m for m in MODULES if any(i.opcode is HloOpcode.ASYNC_UPDATE for i in m.instructions()))
    proto = SCHEMA.HloModuleProto()
    proto.ParseFromString(module.to_proto())
    start = next(i for c in proto.computations for i in c.instructions if i.opcode == "async-start")
    start.shape.tuple_shapes[1].is_dynamic_dimension[:] = [True]
    with pytest.raises(XlanbError, match="expected its operand's shape, layouts and dynamic dimensions included"):
        HloModule.from_proto(proto.SerializeToString()).verify()


NAMES = {
    "a b": "a_b", "%s%n": "_s_n", "é": "a_", "1x": "_x", "a\n": "a_", "a\0b": "a_b", 'q"x': "q_x",
    "f32": "f32_", "tuple": "tuple", "b": "b",
    "__x": "a_x", "__xla_x": "__xla_x", "../..": "_._..", "<b>": "_b_", "": "negate",
}  # fmt: skip
"""Names in a proto, and the real XLA's names for them (it rejects an empty one)."""


@pytest.mark.parametrize("name", NAMES)
def test_names_that_no_text_could_hold(name, tmp_path):
    proto = SCHEMA.HloModuleProto()
    text = "HloModule m\n\nleaf {\n  p = f32[4] parameter(0)\n  ROOT n = f32[4] negate(p)\n}\n\n"
    text += "ENTRY e {\n  x = f32[4] parameter(0)\n  ROOT c = f32[4] call(x), to_apply=leaf\n}\n"
    proto.ParseFromString(xlanb.hlo.parse(text).to_proto())
    proto.computations[0].instructions[1].name = name
    proto.computations[0].name = name
    proto.name = name or "m"
    module = HloModule.from_proto(proto.SerializeToString())
    assert module.computations[0].root.name == NAMES[name]
    assert str(xlanb.hlo.parse(str(module))) == str(module)
    assert HloModule.from_proto(module.to_proto()).name == module.name
    x = np.ones(4, np.float32)
    with xlanb.flags(f"--xla_dump_to={tmp_path}"):
        trace = xlanb.trace(module)
    np.testing.assert_array_equal(trace.program(x), -x)
    assert str(trace.bisect(x)).startswith("no pass changed the numbers")
    trace.to_html(tmp_path / "page.html")
    assert len(xlanb.read_dump(tmp_path)) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda shapes: shapes.append(shapes[0]), "expected 1 operand layout constraints, not 2"),
        (lambda shapes: shapes[0].dimensions.__setitem__(0, 5), r"f32\[5,6\].* is not compatible .* f32\[4,6\]"),
    ],
)
def test_layout_constraints_belong_to_operands(change: Callable[[Any], object], said: str) -> None:
    module = parse(
        """HloModule m
        ENTRY e {
          x = f32[4,6]{1,0} parameter(0)
          ROOT r = f32[4,6]{0,1} custom-call(x), custom_call_target="LayoutConstraint",
            operand_layout_constraints={f32[4,6]{0,1}}
        }"""
    )
    message = SCHEMA.HloModuleProto()
    message.ParseFromString(module.to_proto())
    change(instruction(message, "r").operand_shapes_with_layout)
    with pytest.raises(HloParseError, match=said):
        HloModule.from_proto(message.SerializeToString())
