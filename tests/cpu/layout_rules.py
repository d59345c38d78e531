"""The rules by which layout_programs builds a random module; each adds instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cpu.layout_programs import Program

MOVED = ("f32", "f64", "s32", "s8", "u8", "s16", "u64", "pred", "bf16", "f16", "c64", "s4", "u4", "f8e4m3fn")
SUMMED = ("f32", "f64", "s32", "s8", "u8", "s16", "u64")
"""Types in which sums of small integers are exact, or wrap around."""


@dataclass
class Made:
    """A value of the program: its name, element type and dimensions, and its layout."""

    name: str
    kind: str
    dims: tuple[int, ...]
    layout: tuple[int, ...]

    @property
    def shape(self) -> str:
        """HLO text of its shape."""
        return shape_text(self.kind, self.dims, self.layout)


def shape_text(kind: str, dims: tuple[int, ...], layout: tuple[int, ...]) -> str:
    """An array shape with its layout."""
    return f"{kind}[{','.join(map(str, dims))}]{{{','.join(map(str, layout))}}}"


# -- rules: instructions that move elements or compute with them -----------------------------------


def _copy(p: Program) -> None:
    v = p.pick()
    p.emit(v.kind, v.dims, f"copy({v.name})")


def _transpose(p: Program) -> None:
    v = p.pick()
    order = list(range(len(v.dims)))
    p.r.shuffle(order)
    p.emit(v.kind, tuple(v.dims[d] for d in order), f"transpose({v.name}), dimensions={{{','.join(map(str, order))}}}")


def _factors(p: Program, size: int) -> tuple[int, ...]:
    out: list[int] = []
    rest = size
    for f in (2, 3, 5, 7, 11):
        while rest % f == 0 and rest > 1:
            rest //= f
            if out and p.r.random() < 0.5:
                out[p.r.randrange(len(out))] *= f
            else:
                out.append(f)
    out += [rest] if rest > 1 else []
    p.r.shuffle(out)
    while len(out) > 4:
        out[0] *= out.pop()
    if p.r.random() < 0.2:
        out.insert(p.r.randrange(len(out) + 1), 1)
    return tuple(out) or (1,)


def _reshape(p: Program) -> None:
    v = p.pick()
    p.emit(v.kind, _factors(p, prod(v.dims)), f"reshape({v.name})")


def _unary(p: Program) -> None:
    v = p.pick()
    if v.kind == "pred":
        p.emit(v.kind, v.dims, f"not({v.name})")
    elif v.kind not in ("s4", "u4", "u8", "u64"):
        p.emit(v.kind, v.dims, f"negate({v.name})")


def _binary(p: Program) -> None:
    v = p.pick()
    w = p.like(v)
    opcode = "xor" if v.kind == "pred" else "add" if v.kind in (*SUMMED, "c64") and p.r.random() < 0.5 else "maximum"
    p.emit(v.kind, v.dims, f"{'add' if v.kind == 'c64' else opcode}({v.name}, {w.name})")


def _select(p: Program) -> None:
    v = p.pick()
    if v.kind == "c64":
        return
    w = p.like(v)
    c = p.emit("pred", v.dims, f"compare({v.name}, {w.name}), direction={p.r.choice(('LT', 'EQ', 'GE'))}")
    p.emit(v.kind, v.dims, f"select({c.name}, {w.name}, {v.name})")


def _broadcast(p: Program) -> None:
    v = p.pick()
    if prod(v.dims) * 6 > p.largest * 3 or len(v.dims) > 4:
        return
    at = p.r.randrange(len(v.dims) + 1)
    dims = (*v.dims[:at], p.r.choice((1, 2, 3)), *v.dims[at:])
    kept = [d for d in range(len(dims)) if d != at]
    p.emit(v.kind, dims, f"broadcast({v.name}), dimensions={{{','.join(map(str, kept))}}}")


def _slice(p: Program) -> None:
    v = p.pick()
    boxes, dims = [], []
    for n in v.dims:
        start = p.r.randrange(n)
        stop = p.r.randrange(start + 1, n + 1)
        step = p.r.choice((1, 1, 1, 2))
        boxes.append(f"[{start}:{stop}:{step}]")
        dims.append(-(-(stop - start) // step))
    p.emit(v.kind, tuple(dims), f"slice({v.name}), slice={{{','.join(boxes)}}}")


def _pad(p: Program) -> None:
    v = p.pick("f32", "s32", "u8", "s16", "bf16")
    if v is None or prod(v.dims) > p.largest:
        return
    c = p.name("c")
    p.lines.append(f"  {c} = {v.kind}[] constant(1)")
    sides = [(p.r.choice((0, 1, 2)), p.r.choice((0, 0, 1)), p.r.choice((0, 0, 1))) for _ in v.dims]
    dims = tuple(n + a + b + (n - 1) * k for n, (a, b, k) in zip(v.dims, sides, strict=True))
    if prod(dims) <= 4 * p.largest:
        p.emit(v.kind, dims, f"pad({v.name}, {c}), padding={'x'.join(f'{a}_{b}_{k}' for a, b, k in sides)}")


def _concatenate(p: Program) -> None:
    v = p.pick()
    w = p.like(v)
    d = p.r.randrange(len(v.dims))
    dims = tuple(2 * n if k == d else n for k, n in enumerate(v.dims))
    if prod(dims) <= 4 * p.largest:
        p.emit(v.kind, dims, f"concatenate({v.name}, {w.name}), dimensions={{{d}}}")


def _reverse(p: Program) -> None:
    v = p.pick()
    p.emit(v.kind, v.dims, f"reverse({v.name}), dimensions={{{p.r.randrange(len(v.dims))}}}")


def _folding(p: Program, kind: str) -> tuple[str, str]:
    """A computation of two scalars, and its initial constant."""
    opcode = p.r.choice(("add", "maximum")) if kind != "pred" else "or"
    name, zero = p.name("fold"), p.name("c")
    p.computations.append(
        f"{name} {{\n  a = {kind}[] parameter(0)\n  b = {kind}[] parameter(1)\n  ROOT r = {kind}[] {opcode}(a, b)\n}}\n"
    )
    p.lines.append(f"  {zero} = {kind}[] constant({'false' if kind == 'pred' else 0})")
    return name, zero


def _reduce(p: Program) -> None:
    v = p.pick(*SUMMED, "pred")
    if v is None:
        return
    over = sorted(p.r.sample(range(len(v.dims)), p.r.randrange(1, len(v.dims) + 1)))
    dims = tuple(n for d, n in enumerate(v.dims) if d not in over)
    if not dims:
        return
    fold, zero = _folding(p, v.kind)
    p.emit(v.kind, dims, f"reduce({v.name}, {zero}), dimensions={{{','.join(map(str, over))}}}, to_apply={fold}")


def _reduce_window(p: Program) -> None:
    v = p.pick("f32", "s32", "s16")
    if v is None:
        return
    d = p.r.randrange(len(v.dims))
    size = min(2, v.dims[d])
    fold, zero = _folding(p, v.kind)
    window = "x".join(str(size if k == d else 1) for k in range(len(v.dims)))
    dims = tuple(n - size + 1 if k == d else n for k, n in enumerate(v.dims))
    p.emit(v.kind, dims, f"reduce-window({v.name}, {zero}), window={{size={window}}}, to_apply={fold}")


def _dot(p: Program) -> None:
    v = p.pick("f32", "f64", "s32", "c64", "s16", rank=2)
    if v is None:
        return
    d = p.r.randrange(len(v.dims))
    n = p.r.choice((1, 3, 8, 17))
    w = p.parameter(v.kind, (n, v.dims[d]) if p.r.random() < 0.5 else (v.dims[d], n))
    side = w.dims.index(v.dims[d]) if w.dims[0] != w.dims[1] else 0
    dims = (*(m for k, m in enumerate(v.dims) if k != d), w.dims[1 - side])
    if prod(dims) <= 4 * p.largest:
        p.emit(v.kind, dims, f"dot({v.name}, {w.name}), lhs_contracting_dims={{{d}}}, rhs_contracting_dims={{{side}}}")


def _batch_dot(p: Program) -> None:
    v = p.pick("f32", "f64", "s32", rank=3)
    if v is None:
        return
    order = list(range(len(v.dims)))
    p.r.shuffle(order)
    batch, along = order[0], order[1]
    w = p.parameter(v.kind, (v.dims[batch], v.dims[along], 3))
    free = tuple(n for k, n in enumerate(v.dims) if k not in (batch, along))
    numbers = f"lhs_batch_dims={{{batch}}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{{along}}}, rhs_contracting_dims={{1}}"
    p.emit(v.kind, (v.dims[batch], *free, 3), f"dot({v.name}, {w.name}), {numbers}")


def _dynamic(p: Program) -> None:
    v = p.pick()
    sizes = tuple(p.r.randrange(1, n + 1) for n in v.dims)
    starts = []
    for n, size in zip(v.dims, sizes, strict=True):
        starts.append(p.name("c"))
        p.lines.append(f"  {starts[-1]} = s32[] constant({p.r.randrange(n - size + 1)})")
    box = p.emit(
        v.kind,
        sizes,
        f"dynamic-slice({v.name}, {', '.join(starts)}), dynamic_slice_sizes={{{','.join(map(str, sizes))}}}",
    )
    if p.r.random() < 0.6:
        w = p.like(v)
        p.emit(v.kind, v.dims, f"dynamic-update-slice({w.name}, {box.name}, {', '.join(starts)})")


def _convert(p: Program) -> None:
    v = p.pick("f32", "s32", "s8", "s16", "u8", "pred", "bf16")
    if v is not None:
        p.emit(p.r.choice(("f32", "s32", "s16", "f64")), v.dims, f"convert({v.name})")


def _iota(p: Program) -> None:
    dims = p.dims()
    p.emit(p.r.choice(("f32", "s32")), dims, f"iota(), iota_dimension={p.r.randrange(len(dims))}")


def _sort(p: Program) -> None:
    v = p.pick("f32", "s32", "s16")
    if v is None:
        return
    name = p.name("less")
    p.computations.append(
        f"{name} {{\n  a = {v.kind}[] parameter(0)\n  b = {v.kind}[] parameter(1)\n"
        "  ROOT r = pred[] compare(a, b), direction=LT\n}\n"
    )
    p.emit(v.kind, v.dims, f"sort({v.name}), dimensions={{{p.r.randrange(len(v.dims))}}}, to_apply={name}")


def _constant(p: Program) -> None:
    a, b = p.r.choice(((2, 3), (4, 2), (3, 3)))
    rows = ", ".join("{" + ", ".join(str(k * b + n) for n in range(b)) + "}" for k in range(a))
    p.emit(p.r.choice(("f32", "s32")), (a, b), f"constant({{{rows}}})")


def _variadic_sort(p: Program) -> None:
    v = p.pick("f32", "s32", "s16")
    if v is None:
        return
    w = p.pick("s8", "u8", "f32", "bf16")
    if w is None or w.dims != v.dims:
        w = p.parameter("s8", v.dims)
    name, made = p.name("less"), p.name("t")
    p.computations.append(
        f"{name} {{\n  a = {v.kind}[] parameter(0)\n  b = {v.kind}[] parameter(1)\n  c = {w.kind}[] parameter(2)\n"
        f"  d = {w.kind}[] parameter(3)\n  ROOT r = pred[] compare(a, b), direction=LT\n}}\n"
    )
    shapes = f"({_again(p, v)}, {_again(p, w)})"
    along = p.r.randrange(len(v.dims))
    p.lines.append(
        f"  {made} = {shapes} sort({v.name}, {w.name}), dimensions={{{along}}}, is_stable=true, to_apply={name}"
    )
    for n, x in enumerate((v, w)):
        p.emit(x.kind, x.dims, f"get-tuple-element({made}), index={n}")


def _argmax(p: Program) -> None:
    v = p.pick("f32", "s32", rank=2)
    if v is None:
        return
    k = v.kind
    w = p.emit("s32", v.dims, f"iota(), iota_dimension={p.r.randrange(len(v.dims))}")
    name, made, a, b = p.name("best"), p.name("t"), p.name("c"), p.name("c")
    p.computations.append(
        f"{name} {{\n  a = {k}[] parameter(0)\n  i = s32[] parameter(1)\n  b = {k}[] parameter(2)\n  j = s32[] parameter(3)\n"
        f"  q = pred[] compare(a, b), direction=GE\n  e = pred[] compare(a, b), direction=EQ\n  l = pred[] compare(i, j), direction=LT\n"
        f"  m = s32[] minimum(i, j)\n  n = s32[] select(q, i, j)\n  o = s32[] select(e, m, n)\n"
        f"  x = {k}[] maximum(a, b)\n  ROOT r = ({k}[], s32[]) tuple(x, o)\n}}\n"
    )
    p.lines += [f"  {a} = {k}[] constant(-100)", f"  {b} = s32[] constant(1000000)"]
    over = sorted(p.r.sample(range(len(v.dims)), p.r.randrange(1, len(v.dims))))
    dims = tuple(n for d, n in enumerate(v.dims) if d not in over)
    shapes = ", ".join(shape_text(x, dims, p.layout(len(dims))) for x in (k, "s32"))
    p.lines.append(
        f"  {made} = ({shapes}) reduce({v.name}, {w.name}, {a}, {b}), dimensions={{{','.join(map(str, over))}}}, to_apply={name}"
    )
    for n, x in enumerate((k, "s32")):
        p.emit(x, dims, f"get-tuple-element({made}), index={n}")


def _gather(p: Program) -> None:
    v = p.pick(rank=2)
    if v is None:
        return
    d = p.r.randrange(len(v.dims))
    rows = p.emit("s32", (2, 3), f"constant({{{{0, {v.dims[d] - 1}, 0}}, {{{v.dims[d] // 2}, 0, {v.dims[d] - 1}}}}})")
    kept = tuple(n for k, n in enumerate(v.dims) if k != d)
    sizes = ",".join(str(1 if k == d else n) for k, n in enumerate(v.dims))
    offsets = ",".join(str(2 + k) for k in range(len(kept)))
    p.emit(
        v.kind,
        (2, 3, *kept),
        f"gather({v.name}, {rows.name}), offset_dims={{{offsets}}}, collapsed_slice_dims={{{d}}}, start_index_map={{{d}}}, "
        f"index_vector_dim=2, slice_sizes={{{sizes}}}",
    )


def _scatter(p: Program) -> None:
    v = p.pick(*SUMMED, rank=2)
    if v is None:
        return
    d = p.r.randrange(len(v.dims))
    rows = p.emit("s32", (3,), f"constant({{0, {v.dims[d] - 1}, {v.dims[d] // 2}}})")
    kept = tuple(n for k, n in enumerate(v.dims) if k != d)
    updates = p.parameter(v.kind, (3, *kept))
    fold, _ = _folding(p, v.kind)
    window = ",".join(str(1 + k) for k in range(len(kept)))
    p.emit(
        v.kind,
        v.dims,
        f"scatter({v.name}, {rows.name}, {updates.name}), update_window_dims={{{window}}}, inserted_window_dims={{{d}}}, "
        f"scatter_dims_to_operand_dims={{{d}}}, index_vector_dim=1, to_apply={fold}",
    )


def _running_sum(p: Program) -> None:
    v = p.pick("f32", "s32", "s16")
    if v is None:
        return
    d = p.r.randrange(len(v.dims))
    name, zero = _folding(p, v.kind)
    n = v.dims[d]
    size = "x".join(str(n if k == d else 1) for k in range(len(v.dims)))
    pad = "x".join(f"{n - 1}_0" if k == d else "0_0" for k in range(len(v.dims)))
    p.emit(v.kind, v.dims, f"reduce-window({v.name}, {zero}), window={{size={size} pad={pad}}}, to_apply={name}")


def _convolution(p: Program) -> None:
    kind = p.r.choice(("f32", "f32", "s32", "f64"))
    n, h, w, c, o = p.r.choice(((1, 5, 6, 3, 4), (2, 8, 8, 4, 8), (2, 4, 4, 1, 3)))
    labels = p.r.choice(
        (("b01f", "01io", "b01f"), ("bf01", "oi01", "bf01"), ("b01f", "01io", "01bf"), ("01bf", "io01", "fb01"))
    )
    size = {"b": n, "0": h, "1": w, "f": c}
    x = p.parameter(kind, tuple(size[k] for k in labels[0]))
    k = p.parameter(kind, tuple({"0": 3, "1": 2, "i": c, "o": o}[s] for s in labels[1]))
    out = {"b": n, "0": h - 2, "1": w - 1, "f": o}
    p.emit(
        kind,
        tuple(out[s] for s in labels[2]),
        f"convolution({x.name}, {k.name}), window={{size=3x2}}, dim_labels={labels[0]}_{labels[1]}->{labels[2]}",
    )


def _solve(p: Program) -> None:
    """A triangular system; rows of the identity keep it exact."""
    b = p.parameter("f32", (2, 3, 4))
    unit = p.emit("f32", (3, 3), "constant({{1, 0, 0}, {2, 1, 0}, {1, 3, 1}})")
    a = p.emit("f32", (2, 3, 3), f"broadcast({unit.name}), dimensions={{1,2}}")
    p.emit(
        "f32",
        (2, 3, 4),
        f"triangular-solve({a.name}, {b.name}), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE",
    )


def _factor(p: Program) -> None:
    unit = p.emit("f32", (3, 3), "constant({{4, 2, 0}, {2, 5, 2}, {0, 2, 5}})")
    a = p.emit("f32", (2, 3, 3), f"broadcast({unit.name}), dimensions={{1,2}}")
    made = p.emit("f32", (2, 3, 3), f"cholesky({a.name}), lower=true")
    p.values.remove(made)  # above the diagonal elements are arbitrary
    c = p.name("c")
    rows, columns = (p.emit("s32", (2, 3, 3), f"iota(), iota_dimension={d}") for d in (1, 2))
    mask = p.emit("pred", (2, 3, 3), f"compare({rows.name}, {columns.name}), direction=GE")
    p.lines.append(f"  {c} = f32[] constant(0)")
    zeros = p.emit("f32", (2, 3, 3), f"broadcast({c}), dimensions={{}}")
    p.emit("f32", (2, 3, 3), f"select({mask.name}, {made.name}, {zeros.name})")


def _parts_of_complex(p: Program) -> None:
    v = p.pick("c64")
    if v is not None:
        a, b = (p.emit("f32", v.dims, f"{part}({v.name})") for part in ("real", "imag"))
        p.emit("c64", v.dims, f"complex({b.name}, {a.name})")


def _fft(p: Program) -> None:
    v = p.pick("c64")
    if v is not None:
        n = v.dims[-1]
        p.ends.append(p.emit("c64", v.dims, f"fft({v.name}), fft_type=FFT, fft_length={{{n}}}"))
        p.values.remove(p.ends[-1])


def _widths(p: Program) -> None:
    """The bytes of each element as a last dimension, and back."""
    v = p.pick("f32", "s32")
    if v is None or len(v.dims) > 4:
        return
    u = p.emit("u8", (*v.dims, 4), f"bitcast-convert({v.name})")
    p.emit(v.kind, v.dims, f"bitcast-convert({u.name})")


def _map_and_clamp(p: Program) -> None:
    v = p.pick("f32", "s32")
    if v is None:
        return
    w = p.like(v)
    fold, zero = _folding(p, v.kind)
    p.emit(
        v.kind,
        v.dims,
        f"map({v.name}, {w.name}), dimensions={{{','.join(map(str, range(len(v.dims))))}}}, to_apply={fold}",
    )
    p.emit(v.kind, v.dims, f"clamp({zero}, {v.name}, {w.name})")


def _pooling_gradient(p: Program) -> None:
    v = p.pick("f32", rank=2)
    if v is None or v.dims[0] < 2:
        return
    fold, zero = _folding(p, "f32")
    ge = p.name("ge")
    p.computations.append(
        f"{ge} {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=GE\n}}\n"
    )
    dims = (v.dims[0] // 2, *v.dims[1:])
    source = p.parameter("f32", dims)
    window = "x".join(["2"] + ["1"] * (len(dims) - 1))
    cut = ", ".join(["0_" + str(v.dims[0] % 2)] + ["0_0"] * (len(dims) - 1)).replace(", ", "x")
    if v.dims[0] % 2:
        return
    p.emit(
        "f32",
        v.dims,
        f"select-and-scatter({v.name}, {source.name}, {zero}), window={{size={window} stride={window} pad={cut}}}, "
        f"select={ge}, scatter={fold}",
    )


def _all_reduce(p: Program) -> None:
    v = p.pick("f32", "s32")
    if v is not None:
        fold, _ = _folding(p, v.kind)
        p.emit(v.kind, v.dims, f"all-reduce({v.name}), replica_groups={{}}, to_apply={fold}")


def _top(p: Program) -> None:
    v = p.pick("f32")
    if v is None:
        return
    made, k = p.name("t"), min(2, v.dims[-1])
    dims = (*v.dims[:-1], k)
    shapes = ", ".join(shape_text(x, dims, p.layout(len(dims))) for x in ("f32", "s32"))
    p.lines.append(f"  {made} = ({shapes}) topk({v.name}), k={k}, largest=true")
    p.emit("f32", dims, f"get-tuple-element({made}), index=0")


# -- rules: instructions that pass values on -------------------------------------------------------


def _again(p: Program, v: Made) -> str:
    """The shape of a value with another layout."""
    return shape_text(v.kind, v.dims, p.layout(len(v.dims)))


def _tuple(p: Program) -> None:
    v, w = p.pick(), p.pick()
    name = p.name("t")
    p.lines.append(f"  {name} = ({_again(p, v)}, {_again(p, w)}) tuple({v.name}, {w.name})")
    if p.r.random() < 0.3:
        held = p.name("t")
        p.lines.append(f"  {held} = ({_again(p, v)}, {_again(p, w)}) opt-barrier({name})")
        name = held
    for n, x in enumerate((v, w)):
        p.emit(x.kind, x.dims, f"get-tuple-element({name}), index={n}")


def _while(p: Program) -> None:
    v = p.pick()
    w = p.like(v)
    state = [f"(s32[], {_again(p, v)}, {_again(p, w)})" for _ in range(4)]
    inner = [_again(p, v) for _ in range(4)]
    turn = "not" if v.kind == "pred" else "copy" if v.kind in ("s4", "u4", "u8", "u64") else "negate"
    name = p.name("loop")
    p.computations.append(
        f"{name}.body {{\n  s = {state[0]} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  one = s32[] constant(1)\n"
        f"  n = s32[] add(i, one)\n  a = {inner[0]} get-tuple-element(s), index=1\n  b = {inner[1]} get-tuple-element(s), index=2\n"
        f"  c = {inner[2]} {turn}(a)\n  d = {inner[3]} copy(b)\n  ROOT r = {state[1]} tuple(n, d, c)\n}}\n\n"
        f"{name}.test {{\n  s = {state[2]} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(3)\n"
        "  ROOT r = pred[] compare(i, n), direction=LT\n}\n"
    )
    start = p.name("c")
    p.lines.append(f"  {start} = s32[] constant(0)")
    before, after = p.name("t"), p.name("t")
    p.lines.append(f"  {before} = {state[3]} tuple({start}, {v.name}, {w.name})")
    given = f"(s32[], {_again(p, v)}, {_again(p, w)})"
    p.lines.append(f"  {after} = {given} while({before}), condition={name}.test, body={name}.body")
    for n in (1, 2):
        p.emit(v.kind, v.dims, f"get-tuple-element({after}), index={n}")


def _conditional(p: Program) -> None:
    v = p.pick()
    name = p.name("branch")
    for side in ("yes", "no"):
        turn = p.r.choice(("copy", "reverse"))
        extra = ", dimensions={0}" if turn == "reverse" else ""
        p.computations.append(
            f"{name}.{side} {{\n  x = {_again(p, v)} parameter(0)\n  ROOT r = {_again(p, v)} {turn}(x){extra}\n}}\n"
        )
    which = p.parameter("pred", (1,))
    flag = p.name("c")
    p.lines.append(f"  {flag} = pred[] reshape({which.name})")
    p.emit(
        v.kind,
        v.dims,
        f"conditional({flag}, {v.name}, {v.name}), true_computation={name}.yes, false_computation={name}.no",
    )


def _call(p: Program) -> None:
    v = p.pick()
    name = p.name("called")
    body = p.r.choice(
        (f"  ROOT r = {_again(p, v)} copy(x)", f"  c = {_again(p, v)} copy(x)\n  ROOT r = {_again(p, v)} copy(c)")
    )
    first = p.r.choice(("ROOT ", ""))
    p.computations.append(
        f"{name} {{\n  {first}x = {_again(p, v)} parameter(0)\n" + ("" if first else body + "\n") + "}\n"
    )
    p.emit(v.kind, v.dims, f"call({v.name}), to_apply={name}")
    if p.r.random() < 0.4:
        p.emit(v.kind, v.dims, f"call({v.name}), to_apply={name}")


def _copy_start(p: Program) -> None:
    v = p.pick()
    name = p.name("t")
    p.lines.append(f"  {name} = ({_again(p, v)}, {_again(p, v)}, u32[]) copy-start({v.name})")
    p.emit(v.kind, v.dims, f"copy-done({name})")


# -- rules: instructions that read bytes -----------------------------------------------------------


def _bitcast(p: Program) -> None:
    v = p.pick()
    p.emit(v.kind, _factors(p, prod(v.dims)) if p.r.random() < 0.6 else v.dims, f"bitcast({v.name})")


def _bitcast_of_copies(p: Program) -> None:
    """Copies of one value in two layouts, and the same bitcast of either."""
    v = p.pick()
    dims = _factors(p, prod(v.dims))
    layout = p.layout(len(dims))
    for _ in range(2):
        c = p.emit(v.kind, v.dims, f"copy({v.name})")
        p.emit(v.kind, dims, f"bitcast({c.name})", layout)


def _fusion(p: Program) -> None:
    v = p.pick()
    w = p.like(v)
    name = p.name("fused")
    turn = "and" if v.kind == "pred" else "add" if v.kind == "c64" else "maximum"
    order = list(range(len(v.dims)))
    p.r.shuffle(order)
    dims = tuple(v.dims[d] for d in order)
    turned = shape_text(v.kind, dims, p.layout(len(dims)))
    p.computations.append(
        f"{name} {{\n  x = {_again(p, v)} parameter(0)\n  y = {_again(p, v)} parameter(1)\n"
        f"  m = {_again(p, v)} {turn}(x, y)\n  ROOT r = {turned} transpose(m), dimensions={{{','.join(map(str, order))}}}\n}}\n"
    )
    p.emit(v.kind, dims, f"fusion({v.name}, {w.name}), kind=kLoop, calls={name}")


def _fusion_of_two(p: Program) -> None:
    """A fusion of two results."""
    v = p.pick()
    name, made = p.name("fused"), p.name("t")
    p.computations.append(
        f"{name} {{\n  x = {_again(p, v)} parameter(0)\n  a = {_again(p, v)} copy(x)\n"
        f"  b = {_again(p, v)} reverse(x), dimensions={{0}}\n  ROOT r = ({_again(p, v)}, {_again(p, v)}) tuple(a, b)\n}}\n"
    )
    p.lines.append(f"  {made} = ({_again(p, v)}, {_again(p, v)}) fusion({v.name}), kind=kLoop, calls={name}")
    for n in range(2):
        p.emit(v.kind, v.dims, f"get-tuple-element({made}), index={n}")


RULES: tuple[Callable[[Program], None], ...] = (
    _copy, _copy, _transpose, _transpose, _reshape, _reshape, _unary, _binary, _binary, _select, _broadcast, _slice,
    _pad, _concatenate, _reverse, _reduce, _reduce,
    _reduce_window, _dot, _batch_dot, _dynamic, _convert, _iota, _sort, _constant, _tuple, _while, _conditional, _call,
    _copy_start,
    _variadic_sort, _argmax, _gather, _scatter, _running_sum, _convolution, _solve, _factor, _parts_of_complex, _fft,
    _widths, _map_and_clamp,
    _pooling_gradient, _all_reduce, _top,
)  # fmt: skip
BYTES_RULES: list[Callable[[Program], None]] = [_bitcast, _bitcast_of_copies, _fusion, _fusion_of_two]
