"""The stack frame tables give an instruction's Python line, from text and from a proto."""

from __future__ import annotations

from xlanb.hlo import HloModule, parse

TEXT = """HloModule m

FileNames
1 "model.py"
2 "layers.py"

FunctionNames
1 "train"
2 "dense"

FileLocations
1 {file_name_id=1 function_name_id=1 line=40 end_line=40 column=4 end_column=9}
2 {file_name_id=2 function_name_id=2 line=7 end_line=7 column=11 end_column=20}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}


ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] tanh(x), metadata={op_name="dense/tanh" stack_frame_id=2}
  z = f32[4] negate(y), metadata={op_name="lost" stack_frame_id=9}
  ROOT w = f32[4] abs(z), metadata={op_name="old" source_file="old.py" source_line=3}
}
"""


def places(module: HloModule) -> dict[str, tuple[str, int]]:
    return {i.name: i.metadata.python_line for i in module.instructions()}


def test_the_innermost_frame_is_the_python_line() -> None:
    assert places(parse(TEXT)) == {"x": ("", 0), "y": ("layers.py", 7), "z": ("", 0), "w": ("old.py", 3)}


def test_the_stack_goes_outwards() -> None:
    stack = next(i for i in parse(TEXT).instructions() if i.name == "y").metadata.stack
    assert [(f.function, f.line, f.column) for f in stack] == [("dense", 7, 11), ("train", 40, 4)]


def test_a_proto_gives_the_same_places() -> None:
    module = parse(TEXT)
    assert places(HloModule.from_proto(module.to_proto())) == places(module)


def test_a_frame_whose_file_is_unknown_leaves_no_caller_behind() -> None:
    module = parse(TEXT.replace('2 "layers.py"\n', ""))
    assert "StackFrames" not in str(module)
    assert str(parse(str(module))) == str(module)
