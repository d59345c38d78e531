"""Random instructions that call other computations.

Loops with state that is updated in place, branches, fusions, calls, maps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.fuzz import random_data, random_numeric
from tests.fuzz.random_writer import FLOATS, INTS, Value, Writer, braced, shape

_INLINED: tuple[Callable[[Writer], Value], ...] = (
    *random_data.FAMILIES,
    random_numeric.reduce_,
    random_numeric.reduce_,
)
"""The instructions that a fusion's computation may contain."""


def fusion(w: Writer) -> Value:
    """Two to six instructions in one kernel."""
    inner = w.inner("f_")
    given = {
        inner.parameter(x.type, x.dims, x.layout): x for x in (w.any(high=4, most=5000) for _ in range(w.between(1, 3)))
    }
    for _ in range(w.between(2, 6)):
        root = inner.pick(_INLINED)(inner)
    operands = _passed(w, inner, root, given)
    name = f"fused{len(w.beside)}"
    w.beside[name] = inner.computation_of(name, root.name)
    return w.emit("fusion", root.type, root.dims, operands, f"kind=kLoop, calls={name}", root.layout)


def _passed(w: Writer, inner: Writer, root: Value, given: Mapping[Value, Value]) -> list[Value]:
    """The arguments for the parameters that a computation's root needs: given ones, or new ones."""
    kept = inner.prune(root)
    return [given.get(p) or w.parameter(p.type, p.dims, p.layout) for p in kept]


def _state(w: Writer) -> tuple[list[Value], str, list[str]]:
    """(a loop's initial values, the text of the tuple's shape, the shapes)."""
    counter = w.constant("s32", 0)
    arrays = [w.any((*FLOATS, *INTS, "pred"), low=1, high=3, most=3000) for _ in range(w.between(1, 3))]
    arrays = [a if 0 not in a.dims else w.parameter(a.type, [max(n, 1) for n in a.dims]) for a in arrays]
    shapes = ["s32[]", *(shape(a.type, a.dims) for a in arrays)]
    return [counter, *arrays], f"({', '.join(shapes)})", shapes


def while_(w: Writer) -> Value:
    """A few iterations that update arrays of the state.

    A box at the counter, the whole array, or a value folded in.
    """
    state, whole, shapes = _state(w)
    rounds, name = w.between(0, 5), f"loop{len(w.beside)}"
    condition = [
        f"{name}_condition {{", f"  s = {whole} parameter(0)", "  i = s32[] get-tuple-element(s), index=0",
        f"  n = s32[] constant({rounds})", "  ROOT r = pred[] compare(i, n), direction=LT", "}\n",
    ]  # fmt: skip
    w.beside[f"{name}_condition"] = "\n".join(condition)
    body = w.inner("w_")
    body.line("s", whole, "parameter", ["0"])
    made = [
        body.emit("get-tuple-element", v.type, v.dims, ["s"], f"index={k}", tuple(range(v.rank))[::-1])
        for k, v in enumerate(state)
    ]
    body.parameters.append(Value("s", "tuple", (), ()))
    counter = made[0]
    after = [body.emit("add", "s32", (), [counter, body.constant("s32", 1)])]
    after += [_updated(body, v, counter) for v in made[1:]]
    after = [v if v.layout == tuple(range(v.rank))[::-1] else _row_major(body, v) for v in after]
    body.line("t", whole, "tuple", after)
    if len(body.parameters) > 1:  # the state lacks the needed value
        return state[1]
    w.beside[f"{name}_body"] = body.computation_of(f"{name}_body", "t")
    begin = f"{w.prefix}begin.{len(w.lines)}"
    given = [v if v.layout == tuple(range(v.rank))[::-1] else _row_major(w, v) for v in state]
    w.line(begin, whole, "tuple", given)
    loop = f"{w.prefix}while.{len(w.lines)}"
    w.line(loop, whole, "while", [begin], f"condition={name}_condition, body={name}_body")
    at = w.between(1, len(shapes) - 1)
    return w.emit(
        "get-tuple-element", state[at].type, state[at].dims, [loop], f"index={at}", tuple(range(state[at].rank))[::-1]
    )


def _row_major(w: Writer, v: Value) -> Value:
    return w.emit("copy", v.type, v.dims, [v], "", tuple(range(v.rank))[::-1])


def _updated(w: Writer, v: Value, counter: Value) -> Value:
    """The next value of an array of a loop's state."""
    roll = w.rng.random()
    if roll < 0.5:
        sizes = [1, *v.dims[1:]] if w.chance(0.6) else [w.between(1, n) for n in v.dims]
        bounds = ",".join(f"[{n - s}:{n}]" for n, s in zip(v.dims, sizes, strict=True))
        update = w.emit("slice", v.type, sizes, [v], f"slice={{{bounds}}}")
        zero = w.constant("s32", 0)
        starts = [counter, *[zero] * (v.rank - 1)]
        return w.emit("dynamic-update-slice", v.type, v.dims, [v, update, *starts])
    if roll < 0.6:
        which = w.between(0, v.rank - 1)
        return w.emit("reverse", v.type, v.dims, [v], f"dimensions={{{which}}}")
    if v.type == "pred":
        return w.emit("not", "pred", v.dims, [v])
    if roll < 0.8:
        zero = w.constant(v.type, 0)
        dims = v.dims[:-1]
        total = w.emit(
            "reduce", v.type, dims, [v, zero], f"dimensions={{{v.rank - 1}}}, to_apply={w.binary('maximum', v.type)}"
        )
        other = w.emit("broadcast", v.type, v.dims, [total], f"dimensions={braced(range(v.rank - 1))}")
        return w.emit("subtract", v.type, v.dims, [v, other])
    return w.emit(w.pick(("add", "multiply", "maximum")), v.type, v.dims, [v, v])


def conditional(w: Writer) -> Value:
    """One of two or three branches."""
    x = w.any((*FLOATS, *INTS), most=5000)
    by_index = w.chance(0.4)
    names = []
    for _ in range(w.between(2, 3) if by_index else 2):
        inner = w.inner("b_")
        p = inner.parameter(x.type, x.dims, tuple(range(x.rank))[::-1])
        root = inner.emit(
            w.pick(("negate", "sign", "copy") if x.type[0] != "u" else ("not", "copy")), x.type, x.dims, [p]
        )
        root = _row_major(inner, root)
        names.append(f"branch{len(w.beside)}")
        w.beside[names[-1]] = inner.computation_of(names[-1], root.name)
    given = x if x.layout == tuple(range(x.rank))[::-1] else _row_major(w, x)
    chosen = w.value("s32" if by_index else "pred", ())
    which = f"branch_computations={{{', '.join(names)}}}"
    if not by_index:
        which = f"true_computation={names[0]}, false_computation={names[1]}"
    row_major = tuple(range(x.rank))[::-1]
    return w.emit("conditional", x.type, x.dims, [chosen, *[given] * len(names)], which, row_major)


def call(w: Writer) -> Value:
    """A call of a computation of several instructions."""
    inner = w.inner("k_")
    x = w.any(most=5000)
    given = {inner.parameter(x.type, x.dims, x.layout): x}
    for _ in range(w.between(1, 4)):
        root = inner.pick(_INLINED)(inner)
    operands = _passed(w, inner, root, given)
    name = f"called{len(w.beside)}"
    w.beside[name] = inner.computation_of(name, root.name)
    return w.emit("call", root.type, root.dims, operands, f"to_apply={name}", root.layout)


def map_(w: Writer) -> Value:
    """A scalar computation applied to each element."""
    x = w.any((*FLOATS, *INTS))
    region = w.binary(w.pick(("add", "subtract", "maximum", "multiply")), x.type)
    return w.emit(
        "map", x.type, x.dims, [x, w.value(x.type, x.dims)], f"dimensions={braced(range(x.rank))}, to_apply={region}"
    )


FAMILIES: tuple[Callable[[Writer], Value], ...] = (fusion, fusion, fusion, while_, while_, conditional, call, map_)
