"""The printed text of modules is exactly XLA's; the expected texts are from its printer."""

from __future__ import annotations

import pytest

from xlanb.errors import HloParseError, ShapeError
from xlanb.hlo import parse
from xlanb.hlo.text.literal_text import float_text
from xlanb.hlo.text.printer import PrintOptions, computation_text, instruction_text, module_text
from xlanb.shape import PrimitiveType

CANONICAL = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, entry_computation_layout={(f32[2]{0})->(f32[2]{0}, s32[])}, replica_count=2

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y), metadata={op_type="Add" op_name="net/add" source_file="net.py" source_line=7}
}

ENTRY %e (p: f32[2]) -> (f32[2], s32[]) {
  %p = f32[2]{0} parameter(0), sharding={devices=[2]<=[2]}
  %z = f32[] constant(0)
  %all = f32[2]{0} all-reduce(%p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%add, frontend_attributes={a="1",b={"c":2}}
  %c = s32[] constant(-3)
  ROOT %t = (f32[2]{0}, s32[]) tuple(%all, %c), control-predecessors={%z}
}

"""

INSTRUCTIONS = [
    "%r = f32[1,6]{1,0} all-gather(%q), channel_id=1, replica_groups=mesh['x'=2,'y'=4] {'x','y':(1)2}, dimensions={0}, use_global_device_ids=true",
    "%r = f32[1,6]{1,0} all-gather(%q), replica_groups=[2,4]<=[4,2]T(1,0), dimensions={0}",
    "%r = f32[4]{0} pad(%p, %z), padding=1_1_0x-2_0_1",
    "%r = f32[4]{0} slice(%p), slice={[0:2:1], [1:8:2]}",
    '%r = f32[1,6]{1,0} reverse(%q), dimensions={0,1}, backend_config={"a":{"b":[1, 2]}}',
    "%r = f32[1,6]{1,0} exponential(%q), result_accuracy={tolerance={atol=1,rtol=0,ulps=10}}",
    '%r = f32[1,6]{1,0} negate(%q), origin={({"v1"}, {"v2" {1}})}',
    "%r = f32[1,6]{1,0} negate(%q), statistics={visualizing_index=1,stat-1=33,stat-2=44}",
    "%r = f32[1,6]{1,0} copy(%q), sharding={mesh['x'=2,'y'=2], [{'x':(1)2, ?}, {}], unreduced={'y'}}",
    "%r = f32[1,6]{1,0} copy(%q), sharding={devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}",
    '%r = f32[1,6]{1,0} copy(%q), sharding={maximal device=3 metadata={op_name="a"}}',
    (
        '%r = f32[1,6]{1,0} custom-call(%q, %z), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_o01i->b01f, custom_call_target="f\\"g", '
        "operand_layout_constraints={f32[1,6]{0,1}, f32[]}, custom_call_has_side_effect=true, literal=s32[2]{0} {1, 2}, "
        "output_to_operand_aliasing={{}: (0, {})}, schedule=SCHEDULE_EARLIEST, api_version=API_VERSION_TYPED_FFI"
    ),
    '%r = f32[1,6]{1,0} domain(%q), domain={kind="sharding", entry={maximal device=0}, exit={replicated}}',
    "%r = (f32[1,6]{1,0}, f32[], f32[1,6]{1,0}, f32[], f32[], /*index=5*/f32[]) tuple(%q, %z, %q, %z, %z, /*index=5*/%z)",
    '%r = (f32[1,6]{1,0}) custom-call(), custom_call_target="f", sharding={{replicated}}, metadata={scheduling_name="s"}',
]


def test_canonical_module() -> None:
    assert str(parse(CANONICAL)) == CANONICAL


@pytest.mark.parametrize("line", INSTRUCTIONS)
def test_canonical_instruction(line: str) -> None:
    text = f"HloModule m\nENTRY e {{\n  p = f32[2,3] parameter(0)\n  z = f32[] constant(0)\n  q = f32[1,6] parameter(1)\n  ROOT {line}\n}}\n"
    root = parse(text).entry_computation.root
    assert str(root) == line
    assert instruction_text(root.record()) == str(root)


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        (
            "{devices=[1,1,2,4]<=[2,4]T(1,0) last_tile_dim_replicate}",
            "{devices=[1,1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}",
        ),
        ("{devices=[2,1,2]3,2,1,0 last_tile_dim_replicate}", "{devices=[2,1,2]2,3,0,1 last_tile_dim_replicate}"),
        ("{devices=[1,8]<=[8] last_tile_dim_replicate}", "{replicated}"),
        ("{devices=[2,1]<=[2] last_tile_dim_replicate}", "{devices=[2]<=[2]}"),
        ("{devices=[2,4]<=[2,2,2]T(0,1,2)}", "{devices=[2,4]<=[8]}"),
        ("{mesh['x'=2] [{'x'},{}]}", "{mesh['x'=2], [{'x'}, {}]}"),
    ],
)
def test_shardings_are_canonical(given: str, printed: str) -> None:
    text = f"HloModule m\nENTRY e {{\n  ROOT p = f32[8,8] parameter(0), sharding={given}\n}}\n"
    assert parse(text).entry_computation.root.sharding == printed


@pytest.mark.parametrize(
    ("shape", "given", "printed"),
    [
        ("f32[]", "0.1", "0.1"),
        ("f32[]", "2.1234567", "2.12345672"),
        ("bf16[]", "0.79785", "0.7969"),
        ("f16[]", "0.2", "0.19995"),
        ("f64[]", "42.3", "42.3"),
        ("pred[]", "1", "true"),
        ("pred[2]", "{true,false}", "{1, 0}"),
        ("f32[2]", "{nan(0x7f), -nan}", "{nan(0x7f), -nan}"),
        ("c64[1]", "{(1,nan)}", "{(1, nan)}"),
        ("f32[2,1]", "{{1},{2}}", "{ {1}, {2} }"),
        ("s8[1,1,1,2]", "{{{{1,2}}}}", "{ { /*i0=0*/ { /*i1=0*/ { 1, 2 } } } }"),
        ("s32[11]", "{1,2,3,4,5,6,7,8,9,10,11}", "{...}"),
    ],
)
def test_constants(shape: str, given: str, printed: str) -> None:
    root = parse(f"HloModule m\nENTRY e {{\n  ROOT c = {shape} constant({given})\n}}\n").entry_computation.root
    assert f"constant({printed})" in str(root)


def test_six_digits_where_they_are_enough() -> None:
    assert float_text(0.44721359, PrimitiveType.F64) == "0.44721359"
    assert float_text(1e-12, PrimitiveType.F64) == "1e-12"


def test_called_computations_come_first_and_bodies_before_conditions() -> None:
    text = (
        "HloModule m\ncond {\n  p = s32[] parameter(0)\n  ROOT c = pred[] compare(p, p), direction=LT\n}\nbody {\n  ROOT q = s32[] parameter(0)\n}\n"
        "ENTRY e {\n  x = s32[] parameter(0)\n  ROOT w = s32[] while(x), condition=cond, body=body\n}\n"
    )
    assert [c.name for c in parse(text).record().computations] == ["body", "cond", "e"]


def test_control_predecessors_come_before_operands() -> None:
    text = "HloModule m\nENTRY e {\n  c = s32[] constant(1)\n  a = s32[] parameter(0)\n  d = s32[] constant(2)\n  ROOT r = s32[] add(a, d), control-predecessors={c}\n}\n"
    record = parse(text).record()
    assert [i.name for i in record.entry_computation.instructions] == ["c", "a", "d", "r"]


def test_options() -> None:
    record = parse(CANONICAL).record()
    short = module_text(record, PrintOptions.short_parsable())
    assert "%" not in short
    assert "metadata" not in short
    assert str(parse(short)) == CANONICAL.replace(
        ', metadata={op_type="Add" op_name="net/add" source_file="net.py" source_line=7}', ""
    )
    human = module_text(record, PrintOptions.human())
    assert "p = f32[2] parameter(0)" in human
    assert "{0}" not in human.replace("{ {0}: (0, {}, may-alias) }", "")
    shapes = computation_text(record.entry_computation, is_entry=True, options=PrintOptions(operand_shapes=True))
    assert "all-reduce(f32[2]{0} %p)" in shapes


def test_async_sugar() -> None:
    text = (
        'HloModule m\nwrapped {\n  p = f32[2] parameter(0)\n  ROOT n = f32[2] negate(p), frontend_attributes={s="1"}\n}\nENTRY e {\n  a = f32[2] parameter(0)\n'
        "  s = ((f32[2]), f32[2], u32[]) async-start(a), calls=wrapped\n  ROOT d = f32[2] async-done(s)\n}\n"
    )
    printed = str(parse(text))
    assert 'negate-start(%a), frontend_attributes={s="1"}' in printed
    assert "negate-done(%s)" in printed
    assert "wrapped" not in printed
    plain = module_text(parse(text).record(), PrintOptions(async_sugar=False))
    assert "async-start(%a), calls=%wrapped" in plain


def test_the_module_gives_its_text_in_three_forms():
    module = parse(
        'HloModule m\nENTRY e {\n  a = f32[2] parameter(0), metadata={op_name="x"}\n  ROOT r = f32[2] negate(a)\n}'
    )
    assert module.to_string() == str(module)
    assert "%" not in module.to_string("short")
    assert str(parse(module.to_string("short"))).count("negate") == 1
    assert "{0}" not in module.to_string("human")
    assert "op_name" not in module.to_string("human")
    with pytest.raises(ShapeError, match="unknown form 'tall'"):
        module.to_string("tall")


REAL = {
    "a comment behind metadata": (
        'a = f32[] parameter(0), metadata={op_name="a"}\n  // a comment\n  ROOT r = f32[] negate(a)',
        'metadata={op_name="a"}\n  ROOT %r = f32[] negate(%a)',
    ),
    "a shape without a name": ("a = f32[] parameter(0)\n ROOT r = f32[] add(f32[], a, f32[2]{0} a)", None),
    "a shape that is passed over": ("a = f32[] parameter(0)\n ROOT r = f32[] add(a, f32[2,2], a)", "add(%a, %a)"),
    "payload": (
        'ROOT a = f32[] parameter(0), metadata={metadata_payload="p\\"q" scheduling_name="s"}',
        'metadata={scheduling_name="s" metadata_payload="p\\"q"}',
    ),
    "negative zero is printed as it is read": ("ROOT r = f32[2] constant({-0, -0.0})", "constant({-0, -0})"),
    "a large constant of which little is given": ("ROOT r = f32[4096,8192] constant(0.5)", "constant({...})"),
    "an empty dimension within": (
        "ROOT r = f32[2,0,4,3] constant({ { /*i0=0*/ }, { /*i0=1*/ } })",
        "constant({ { /*i0=0*/ }, { /*i0=1*/ } })",
    ),
    "default accuracy": ("a = f32[] parameter(0)\n ROOT r = f32[] tanh(a), result_accuracy={mode=DEFAULT}", "tanh(%a)\n"),
    "an empty configuration": (
        't = token[] after-all()\n ROOT r = (f32[], token[]) infeed(t), infeed_config=""',
        "infeed(%t)\n",
    ),
    "an empty window of a custom call": (
        'a = f32[] parameter(0)\n ROOT r = f32[] custom-call(a), window={}, custom_call_target="t"',
        'custom-call(%a), window={}, custom_call_target="t"',
    ),
    "no queues": (
        'a = f32[] parameter(0)\n ROOT r = f32[] negate(a), backend_config={"q":"0","wait_on_operation_queues":[],"s":1}',
        'backend_config={"q":"0","s":1}',
    ),
    "indices in a tuple's sharding": (
        "a = f32[] parameter(0)\n ROOT r = (f32[],f32[],f32[],f32[],f32[],f32[]) tuple(a,a,a,a,a,a), sharding={replicated}",
        "{replicated}, /*index=5*/{replicated}}",
    ),
    "subgroups put in order by a transpose": (
        "ROOT a = f32[4] parameter(0), sharding={devices=[1,2,4]<=[8] last_tile_dims={replicated,manual}}",
        "sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual, replicated}}",
    ),
    "subgroups that split a dimension of the iota": (
        "ROOT a = f32[4] parameter(0), sharding={devices=[2,2,3]<=[3,4]T(1,0) last_tile_dims={replicated,manual}}",
        "sharding={devices=[2,3,2]<=[3,2,2]T(1,0,2) last_tile_dims={manual, replicated}}",
    ),
    "subgroups for which devices are listed": (
        "ROOT a = f32[4] parameter(0), sharding={devices=[2,3,2]<=[3,4]T(1,0) last_tile_dims={replicated,manual}}",
        "sharding={devices=[2,2,3]0,5,8,1,4,9,2,7,10,3,6,11 last_tile_dims={manual, replicated}}",
    ),
    "a mesh without dimensions": ("ROOT a = f32[] parameter(0), sharding={mesh['x'=2], []}", "{mesh['x'=2], replicated}"),
    "all axes unreduced": (
        "ROOT a = f32[] parameter(0), sharding={mesh['x'=2,'y'=2], [], unreduced={'x','y'}, metadata={op_name=\"a\"}}",
        "{mesh['x'=2,'y'=2], unreduced, metadata={{op_name=\"a\"}}}",
    ),
    "an axis unreduced": (
        "ROOT a = f32[] parameter(0), sharding={mesh['x'=2,'y'=2], [], unreduced={'x'}}",
        "{mesh['x'=2,'y'=2], [], unreduced={'x'}}",
    ),
    "the origin of an element": (
        'a = f32[] parameter(0), origin={{"a"}}\n t = (f32[]) tuple(a)\n ROOT r = f32[] get-tuple-element(t), index=0',
        'get-tuple-element(%t), index=0, origin={{"a"}}',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), REAL.values(), ids=REAL)
def test_what_the_real_printer_makes_of_it(body: str, expected: str | None) -> None:
    text = f"HloModule m\n\nENTRY e {{\n  {body}\n}}\n"
    if expected is None:
        with pytest.raises(HloParseError):
            parse(text)
    else:
        assert expected in str(parse(text))


def test_the_true_branch_comes_first() -> None:
    """In XLA's order of computations, in whichever order the text names them."""
    text = """HloModule m
yes { p = f32[] parameter(0)
 ROOT n = f32[] negate(p) }
no { ROOT p = f32[] parameter(0) }
ENTRY e { c = pred[] parameter(0)
 x = f32[] parameter(1)
 ROOT r = f32[] conditional(c, x, x), %s }
"""
    one, other = "true_computation=yes", "false_computation=no"
    assert str(parse(text % f"{other}, {one}")) == str(parse(text % f"{one}, {other}"))


FRAMES = """HloModule m

FileNames
1 "a.py"
2 "b.py"

FunctionNames
1 "f"
2 "g"

FileLocations
1 {file_name_id=1 function_name_id=1 line=1 end_line=1 column=2 end_column=3}
2 {file_name_id=2 function_name_id=2 line=2 end_line=2 column=2 end_column=3}
3 {file_name_id=2 function_name_id=2 line=2 end_line=2 column=2 end_column=3}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=1}
3 {file_location_id=1 parent_frame_id=3}
4 {file_location_id=3 parent_frame_id=1}
5 {file_location_id=1 parent_frame_id=6}

ENTRY e {
  a = f32[] parameter(0), metadata={op_name="a" stack_frame_id=3}
  b = f32[] negate(a), metadata={op_name="b" stack_frame_id=4}
  c = f32[] negate(b), metadata={op_name="c" stack_frame_id=5}
  ROOT d = f32[] negate(c), metadata={op_name="d" stack_frame_id=9}
}
"""


def test_frames_are_numbered_by_their_first_use() -> None:
    """Unused frames are dropped, equal ones merged, cycles and unknown numbers give no frame."""
    module = parse(FRAMES)
    text = str(module)
    assert '1 "b.py"\n2 "a.py"\n' in text
    assert "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n2 {file_location_id=2 parent_frame_id=2}\n\n" in text
    frames = [i.metadata.stack_frame_id for i in module.entry_computation]
    assert frames == [2, 1, 0, 0]
    assert str(parse(text)) == text


def test_an_async_start_prints_its_aliases_first_and_statistics_twice() -> None:
    """As the real printer: the statistics of the wrapped instruction, then those of the start."""
    text = """HloModule m

ENTRY e {
  a = f32[] parameter(0)
  s = ((f32[]), f32[], s32[]) negate-start(a), statistics={visualizing_index=1,stat-1=33}
  ROOT d = f32[] negate-done(s)
}
"""
    once = "statistics={visualizing_index=1,stat-1=33}"
    assert f"negate-start(%a), {once}, {once}" in str(parse(text))


def test_rows_without_elements_are_written_while_they_are_few() -> None:
    text = "HloModule m\n\nENTRY %e () -> f32[{n},0] {{\n  ROOT %c = f32[{n},0]{{1,0}} constant({{...}})\n}}\n"
    few, many = (parse(text.format(n=n)) for n in (3, 10**12))
    assert "constant({ {}, {}, {} })" in str(few)
    assert "constant({...})" in str(many)
    assert str(parse(str(many))) == str(many)
    assert not many.entry_computation.root.literal.is_elided


@pytest.mark.parametrize("config", ['{"a"/*: 1}', '{"a": 1 // 2}', "{'a: 1}"])
def test_a_configuration_that_reads_as_a_comment_is_quoted(config: str) -> None:
    given = config.replace("\\", "\\\\").replace('"', '\\"')
    text = f'HloModule m\nENTRY e {{\n  ROOT c = f32[] custom-call(), custom_call_target="f", backend_config="{given}"\n}}\n'
    module = parse(text)
    assert module.entry_computation.root.backend_config == config
    assert parse(str(module)).entry_computation.root.backend_config == config
