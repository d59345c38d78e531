"""The operands that a fusion may overwrite are found in one traversal, for any operand count."""

from __future__ import annotations

import pytest

from xlanb.cpu.codegen.kernel import KernelPolicy
from xlanb.cpu.emitters import rows
from xlanb.hlo import parse


def fusion(count: int):
    """A sum of parameters; the last one is read in reverse."""
    lines = [f"p{k} = f32[4,8] parameter({k})" for k in range(count)]
    lines += [f"v{k} = f32[4,8] add({f'v{k - 1}' if k > 1 else 'p0'}, p{k})" for k in range(1, count - 1)]
    lines += [f"x = f32[4,8] reverse(p{count - 1}), dimensions={{0}}", f"ROOT r = f32[4,8] add(v{count - 2}, x)"]
    names = [f"a{k}" for k in range(count)]
    outer = [f"{n} = f32[4,8] parameter({k})" for k, n in enumerate(names)]
    outer += [f"ROOT f = f32[4,8] fusion({', '.join(names)}), kind=kLoop, calls=fused"]
    text = "HloModule m\nfused {\n" + "\n".join(lines) + "\n}\nENTRY e {\n" + "\n".join(outer) + "\n}\n"
    return parse(text).entry_computation.root


def test_one_walk_answers_for_every_operand(monkeypatch):
    asked = []
    operand_is = rows._operand_is

    def counting(i, *rest):
        asked.append(i)
        return operand_is(i, *rest)

    monkeypatch.setattr(rows, "_operand_is", counting)
    count, policy = 100, KernelPolicy()
    f = fusion(count)
    assert [policy.can_share(f, k, (), ()) for k in range(count)] == [True] * (count - 1) + [False]
    assert len(asked) < 4 * count


@pytest.mark.parametrize("count", [10, 100])
def test_elements_of_a_chain_are_looked_at_once(monkeypatch, count):
    compared = []
    same_order = rows.same_order

    def counting(*shapes):
        compared.append(shapes)
        return same_order(*shapes)

    monkeypatch.setattr(rows, "same_order", counting)
    root = fusion(count).fused_computation.root
    found = rows.same_elements(root, root.array_shape, ())
    assert len(found) == 2 * count - 1  # all but the operand of the reverse
    assert len(compared) < 4 * count
