"""The order in which a changing computation is visited."""

from xlanb.hlo import HloOpcode, parse
from xlanb.transforms.depth_first import DepthFirstVisit

TEXT = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  n = f32[4] negate(x)
  a = f32[4] add(n, n)
  b = f32[4] multiply(n, a)
  dead = f32[4] tanh(n)
  ROOT t = (f32[4], f32[4]) tuple(a, b)
}"""


def test_operands_come_first_and_the_root_last() -> None:
    seen: list[str] = []
    DepthFirstVisit(lambda i: seen.append(i.name)).run(parse(TEXT).entry_computation)
    assert seen == ["x", "n", "dead", "a", "b", "t"]


def test_what_replaces_an_instruction_is_visited_before_a_later_user() -> None:
    module = parse(TEXT)
    seen: list[str] = []

    def visit(i):
        seen.append(i.name)
        if i.name == "n":
            i.parent.replace_with(i, HloOpcode.ABS, i.operands)

    DepthFirstVisit(visit).run(module.entry_computation)
    # `dead` was entered before `n` was replaced; `a` comes later.
    assert seen == ["x", "n", "dead", "abs", "a", "b", "t"]


def test_what_is_skipped_is_not_visited() -> None:
    module = parse(TEXT)
    seen: list[str] = []

    def visit(i):
        seen.append(i.name)
        if i.name == "n":
            walk.skip(i.parent.replace_with(i, HloOpcode.ABS, i.operands))

    walk = DepthFirstVisit(visit)
    walk.run(module.entry_computation)
    assert seen == ["x", "n", "dead", "a", "b", "t"]
