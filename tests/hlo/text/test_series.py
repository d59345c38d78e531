"""A series of texts, read with shared parts, gives the same modules as each text alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import xlanb
from xlanb.errors import HloParseError
from xlanb.hlo import HloModule, parse
from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.hlo.text.series import ModuleSeries

_TABLES = """
FileNames
1 "net.py"

FunctionNames
1 "step"
2 "layer"

FileLocations
1 {file_name_id=1 function_name_id=1 line=10 end_line=10 column=1 end_column=2}
2 {file_name_id=1 function_name_id=2 line=20 end_line=20 column=3 end_column=4}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}

"""

_SUM = "%sum (a: f32[], b: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  %b = f32[] parameter(1)\n  ROOT %s = f32[] add(%a, %b)\n}\n\n"


def _module(entry: str, *, computations: str = _SUM, tables: str = _TABLES, header: str = "") -> str:
    return f"HloModule m{header}\n{tables}{computations}ENTRY %main (p: f32[8]) -> f32[] {{\n{entry}}}\n"


_REDUCED = """\
  %p = f32[8]{0} parameter(0)
  %zero = f32[] constant(0)
  %n = f32[8]{0} negate(%p), metadata={op_name="f/neg" stack_frame_id=1}
  %e = f32[8]{0} exponential(%n), metadata={op_name="f/exp" stack_frame_id=2}
  ROOT %r = f32[] reduce(%e, %zero), dimensions={0}, to_apply=%sum
"""


def _plain(text: str) -> ModuleRecord:
    """The module of a text read alone, without the numbers of stack frames."""
    return _without_frames(parse(text).record())


def _without_frames(module: ModuleRecord) -> ModuleRecord:
    def one(i: InstructionRecord) -> InstructionRecord:
        return replace(i, metadata=replace(i.metadata, stack_frame_id=0))

    parts = tuple(replace(c, instructions=tuple(map(one, c.instructions))) for c in module.computations)
    return replace(module, computations=parts, tables="")


def _check(series: ModuleSeries, text: str) -> ModuleRecord:
    read = series.read(text)
    assert _without_frames(read) == _plain(text)
    assert [i.metadata.stack for c in read.computations for i in c.instructions] == [
        i.metadata.stack for c in parse(text).record().computations for i in c.instructions
    ]
    return read


def test_series_of_a_pipeline() -> None:
    def net(x: np.ndarray, w: np.ndarray) -> object:
        y = xlanb.tf.nn.softmax(xlanb.tf.matmul(x, w))
        return xlanb.tf.reduce_sum(xlanb.tf.tanh(y) * y, axis=0)

    trace = xlanb.trace(net, np.ones((8, 16), np.float32), np.ones((16, 4), np.float32))
    texts = [s.after.text for s in trace if isinstance(s.after, ModuleRecord) and s.changed]
    assert len(texts) > 3
    series = ModuleSeries()
    for text in (*texts, *reversed(texts)):
        _check(series, text)


def test_equal_computations_are_one_object() -> None:
    series = ModuleSeries()
    first = _check(series, _module(_REDUCED))
    second = _check(series, _module(_REDUCED.replace("negate", "abs")))
    assert second.by_name["sum"] is first.by_name["sum"]
    kept = second.by_name["main"].by_name
    assert kept["zero"] is first.by_name["main"].by_name["zero"]
    assert kept["n"].opcode.text == "abs"
    third = _check(series, _module(_REDUCED.replace("negate", "abs")))
    assert third.by_name["main"] is second.by_name["main"]


def test_stack_frames_keep_their_numbers() -> None:
    only_second = _REDUCED.replace(" stack_frame_id=1", "")
    series = ModuleSeries()
    series.read(_module(_REDUCED))
    module = series.read(_module(only_second))
    e = module.by_name["main"].by_name["e"]
    assert e.metadata.stack_frame_id == 2
    assert [f.line for f in e.metadata.stack] == [20, 10]
    assert _TABLES.strip() in module.text
    assert "stack_frame_id=2" in module.text


def test_other_tables_are_read() -> None:
    series = ModuleSeries()
    for line in (20, 21):
        module = _check(series, _module(_REDUCED, tables=_TABLES.replace("=20", f"={line}")))
        assert module.by_name["main"].by_name["e"].metadata.python_line == ("net.py", line)
    longer = _TABLES.rstrip() + "\n3 {file_location_id=1 parent_frame_id=3}\n\n"
    longer = longer.replace("=20", "=21")
    module = _check(series, _module(_REDUCED.replace("stack_frame_id=2", "stack_frame_id=3"), tables=longer))
    assert [f.line for f in module.by_name["main"].by_name["e"].metadata.stack] == [10, 21, 10]


def test_changed_callee_reaches_its_callers() -> None:
    nested = _SUM.replace("%sum", "%inner").replace("%a", "%c").replace("%b", "%d").replace("%s ", "%t ")
    outer = "%outer (q: f32[]) -> f32[] {\n  %q = f32[] parameter(0)\n  ROOT %o = f32[] call(%q, %q), to_apply=%inner\n}\n\n"
    entry = "  %p = f32[8]{0} parameter(0)\n  %z = f32[] constant(1)\n  ROOT %k = f32[] call(%z), to_apply=%outer\n"
    series = ModuleSeries()
    first = _check(series, _module(entry, computations=nested + outer))
    changed = nested.replace("add", "multiply")
    second = _check(series, _module(entry, computations=changed + outer))
    assert second.by_name["inner"].by_name["t"].opcode.text == "multiply"
    assert second.by_name["outer"] == first.by_name["outer"]


def test_operand_of_another_shape_gives_another_shape() -> None:
    inferred = _REDUCED.replace("%e = f32[8]{0} exp", "%e = exp")
    other = inferred.replace("%n = f32[8]{0} negate(%p)", "%n = f32[4]{0} slice(%p), slice={[0:4]}")
    series = ModuleSeries()
    shapes = [_check(series, _module(t)).by_name["main"].by_name["e"].shape for t in (inferred, other, inferred)]
    assert [str(s) for s in shapes] == ["f32[8]{0}", "f32[4]{0}", "f32[8]{0}"]


def test_names_that_come_twice_are_made_unique() -> None:
    other = _SUM.replace("%sum", "%sum2")
    both = _REDUCED.replace("  ROOT %r", "  %r2 = f32[] reduce(%e, %zero), dimensions={0}, to_apply=%sum2\n  ROOT %r")
    series = ModuleSeries()
    _check(series, _module(_REDUCED))
    _check(series, _module(both, computations=_SUM + other))
    _check(series, _module(both, computations=other + _SUM))
    _check(series, _module(_REDUCED))


def test_schedule_comes_and_goes() -> None:
    swapped = _REDUCED.splitlines(keepends=True)
    swapped[1], swapped[2] = swapped[2], swapped[1]
    series = ModuleSeries()
    for entry in (_REDUCED, "".join(swapped)):
        for header in ("", ", is_scheduled=true", ""):
            _check(series, _module(entry, header=header))


def test_elements_of_tuples_keep_their_origin() -> None:
    entry = """\
  %p = f32[8]{{0}} parameter(0), origin={{{{"{0}"}}}}
  %t = (f32[8]{{0}}, f32[8]{{0}}) tuple(%p, %p)
  %g = f32[8]{{0}} get-tuple-element(%t), index=0
  %zero = f32[] constant(0)
  ROOT %r = f32[] reduce(%g, %zero), dimensions={{0}}, to_apply=%sum
"""
    series = ModuleSeries()
    for name in ("x", "y"):
        _check(series, _module(entry.format(name)))


def test_asynchronous_instructions() -> None:
    wrapped = "%work (w: f32[8]) -> f32[8] {\n  %w = f32[8]{0} parameter(0)\n  ROOT %v = f32[8]{0} %OP(%w)\n}\n\n"
    entry = """\
  %p = f32[8]{0} parameter(0)
  %start = ((f32[8]{0}), f32[8]{0}, s32[]) async-start(%p), calls=%work, async_execution_thread="other"
  %done = f32[8]{0} async-done(%start)
  %zero = f32[] constant(0)
  ROOT %r = f32[] reduce(%done, %zero), dimensions={0}, to_apply=%sum
"""
    series = ModuleSeries()
    for op in ("negate", "negate", "abs", "negate"):
        text = wrapped.replace("%OP", op).replace("}\n\n", '}, execution_thread="other"\n\n')
        module = _check(series, _module(entry, computations=_SUM + text))
        assert module.by_name["work"].by_name["v"].opcode.text == op


@pytest.mark.parametrize("cut", [30, 400, 700, -2])
def test_broken_text_is_refused_as_by_itself(cut: int) -> None:
    text = _module(_REDUCED)
    series = ModuleSeries()
    _check(series, text)
    with pytest.raises(HloParseError) as alone:
        parse(text[:cut])
    with pytest.raises(HloParseError) as shared:
        series.read(text[:cut])
    assert str(shared.value) == str(alone.value)
    _check(series, text)


def test_second_entry_is_refused() -> None:
    text = _module(_REDUCED)
    entry = text[text.index("ENTRY") :]
    series = ModuleSeries()
    _check(series, text)
    with pytest.raises(HloParseError, match="only one ENTRY"):
        series.read(text + entry.replace("%main", "%again"))
    _check(series, text)
    with pytest.raises(HloParseError, match="only one ENTRY"):
        series.read(text[: text.index("ENTRY")] + entry.replace("%main", "%again") + entry)


def test_module_of_a_series_is_parsed_again() -> None:
    module = ModuleSeries().read(_module(_REDUCED))
    assert _without_frames(HloModule.from_record(module).record()) == _without_frames(module)
