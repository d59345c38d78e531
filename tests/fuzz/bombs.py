"""Small programs of large expansion.

Each stage must give a result or an XlanbError within limits of time and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import numpy as np

from tests.fuzz import growth

_ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
_ODD = "odd { a = f32[] parameter(0) b = f32[] parameter(1) t = f32[] tanh(b) m = f32[] multiply(a, t) ROOT s = f32[] add(m, b) }\n"
_LESS = "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT }\n"
_GREATER = "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=GE }\n"


def mutants(rng: np.random.Generator) -> Iterator[str]:
    """Programs of every kind, of varying sizes."""
    while True:
        drawn = Random(int(rng.integers(0, 1 << 62)))
        made = list(drawn.choice(_MAKERS)(drawn))
        yield drawn.choice(made)[1]


def bombs(rng: Random) -> Iterator[tuple[str, str]]:
    """Names and texts of programs of every kind, in sizes drawn from `rng`."""
    for make in _MAKERS:
        yield from make(rng)


def _module(*parts: str, header: str = "HloModule m") -> str:
    return header + "\n" + "".join(parts[:-1]) + "ENTRY e {\n" + parts[-1] + "\n}\n"


def _size(rng: Random, low: float, high: float) -> int:
    """A size between two powers of two, log-uniform."""
    return int(2 ** rng.uniform(low, high))


def _folds(rng: Random) -> Iterator[tuple[str, str]]:
    """Instructions over constants: large results, large operands, long computations."""
    n = _size(rng, 20, 40)
    for body, text in (("add", _ADD), ("odd", _ODD)):
        yield (
            f"fold-reduce-{body}",
            _module(
                text,
                f" c = f32[] constant(1)\n b = f32[{n}] broadcast(c), dimensions={{}}\n z = f32[] constant(0)\n"
                f" ROOT r = f32[] reduce(b, z), dimensions={{0}}, to_apply={body}",
            ),
        )
        k = _size(rng, 8, 16)
        yield (
            f"fold-reduce-window-{body}",
            _module(
                text,
                f" c = f32[] constant(1)\n b = f32[{2 * k}] broadcast(c), dimensions={{}}\n z = f32[] constant(0)\n"
                f" ROOT r = f32[{k + 1}] reduce-window(b, z), window={{size={k}}}, to_apply={body}",
            ),
        )
    m = _size(rng, 8, 14)
    ones = " c = f32[] constant(1)\n"
    yield (
        "fold-dot",
        _module(
            ones + f" b = f32[{m},{m}] broadcast(c), dimensions={{}}\n"
            f" ROOT r = f32[{m},{m}] dot(b, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        ),
    )
    yield (
        "fold-inner-dot",
        _module(
            ones + f" b = f32[16,{m * m}] broadcast(c), dimensions={{}}\n"
            " ROOT r = f32[16,16] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}"
        ),
    )
    yield (
        "fold-convolution",
        _module(
            ones
            + f" b = f32[1,{m},{m},3] broadcast(c), dimensions={{}}\n k = f32[64,64,3,8] broadcast(c), dimensions={{}}\n"
            f" ROOT r = f32[1,{m},{m},8] convolution(b, k), window={{size=64x64 pad=32_31x32_31}}, dim_labels=b01f_01io->b01f"
        ),
    )
    yield (
        "fold-sort",
        _module(
            _LESS,
            ones
            + f" b = f32[{n}] broadcast(c), dimensions={{}}\n ROOT r = f32[{n}] sort(b), dimensions={{0}}, to_apply=less",
        ),
    )
    yield (
        "fold-scatter",
        _module(
            _ODD,
            ones
            + f" z = s32[] constant(0)\n b = f32[8] broadcast(c), dimensions={{}}\n i = s32[{m * 64},1] broadcast(z), dimensions={{}}\n"
            f" u = f32[{m * 64}] broadcast(c), dimensions={{}}\n ROOT r = f32[8] scatter(b, i, u), update_window_dims={{}}, "
            "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=odd",
        ),
    )
    yield (
        "fold-cholesky",
        _module(
            ones + f" b = f32[{m},{m}] broadcast(c), dimensions={{}}\n ROOT r = f32[{m},{m}] cholesky(b), lower=true"
        ),
    )
    body = "v = f32[8] broadcast(a), dimensions={} t = f32[8] tanh(v) z = f32[] constant(0)"
    body += " ROOT r = f32[] reduce(t, z), dimensions={0}, to_apply=add"
    yield (
        "fold-map",
        _module(
            _ADD,
            f"f {{ a = f32[] parameter(0) {body} }}\n",
            ones
            + f" b = f32[{m}] broadcast(c), dimensions={{}}\n ROOT r = f32[{m}] map(b), dimensions={{0}}, to_apply=f",
        ),
    )
    for op in ("iota", "broadcast", "pad", "rng-bit-generator"):
        yield f"huge-{op}", _module(_huge(op, n))


def _huge(op: str, n: int) -> str:
    zero = " c = f32[] constant(0)\n"
    if op == "iota":
        return f" ROOT r = f32[{n}] iota(), iota_dimension=0"
    if op == "broadcast":
        return zero + f" ROOT r = f32[{n}] broadcast(c), dimensions={{}}"
    if op == "pad":
        return zero + f" b = f32[2] broadcast(c), dimensions={{}}\n ROOT r = f32[{n + 2}] pad(b, c), padding=0_0_{n}"
    return f" s = u64[3] constant({{1, 2, 3}})\n ROOT r = (u64[3], u32[{n}]) rng-bit-generator(s), algorithm=rng_philox"


def _graphs(rng: Random) -> Iterator[tuple[str, str]]:
    """Many instructions, many operands, many paths."""
    n = _size(rng, 8, 11.5)
    names = [f"p{k}" for k in range(n)]
    parameters = "".join(f" {p} = f32[2] parameter({k})\n" for k, p in enumerate(names))
    yield (
        "wide-concatenate",
        _module(parameters + f" ROOT r = f32[{2 * n}] concatenate({', '.join(names)}), dimensions={{0}}"),
    )
    yield "wide-tuple", _module(parameters + f" ROOT r = ({', '.join(['f32[2]'] * n)}) tuple({', '.join(names)})")
    chain = "".join(f" v{k} = f32[2] {'tanh' if k % 2 else 'negate'}({f'v{k - 1}' if k else 'p0'})\n" for k in range(n))
    yield "long-chain", _module(f" p0 = f32[2] parameter(0)\n{chain} ROOT r = f32[2] copy(v{n - 1})")
    depth = int(rng.uniform(20, 200))
    doubling = "".join(
        f" v{k} = f32[64] {rng.choice(('add', 'multiply', 'maximum', 'atan2'))}({x}, {x})\n"
        for k in range(depth)
        for x in ([f"v{k - 1}"] if k else ["p0"])
    )
    yield "doubling-paths", _module(f" p0 = f32[64] parameter(0)\n{doubling} ROOT r = f32[64] copy(v{depth - 1})")
    crossing = "".join(
        f" a{k} = f32[64] add(a{k - 1}, b{k - 1})\n b{k} = f32[64] multiply(a{k - 1}, b{k - 1})\n"
        for k in range(1, depth)
    )
    yield (
        "crossing-paths",
        _module(
            f" a0 = f32[64] parameter(0)\n b0 = f32[64] parameter(1)\n{crossing} ROOT r = f32[64] subtract(a{depth - 1}, b{depth - 1})"
        ),
    )
    stencil = "".join(
        f" l{k} = f32[64] slice({x}), slice={{[0:64]}}\n h{k} = f32[64] slice({x}), slice={{[1:65]}}\n"
        f" m{k} = f32[64] multiply(l{k}, h{k})\n v{k} = f32[65] pad(m{k}, z), padding=0_1\n"
        for k in range(depth)
        for x in ([f"v{k - 1}"] if k else ["p0"])
    )
    yield (
        "stencils",
        _module(f" p0 = f32[65] parameter(0)\n z = f32[] constant(0)\n{stencil} ROOT r = f32[65] copy(v{depth - 1})"),
    )
    tuples = "".join(f" t{k} = tuple({x}, {x})\n" for k in range(depth) for x in ([f"t{k - 1}"] if k else ["p"]))
    gets = "".join(
        f" g{k} = get-tuple-element({x}), index=1\n"
        for k in range(depth)
        for x in ([f"g{k - 1}"] if k else [f"t{depth - 1}"])
    )
    yield "doubling-tuples", _module(f" p = f32[] parameter(0)\n{tuples} ROOT r = f32[] negate(p)")
    yield (
        "doubling-tuples-taken",
        _module(f" p = f32[] parameter(0)\n{tuples}{gets} ROOT r = f32[] negate(g{depth - 1})"),
    )
    yield "wide-reduce", _wide_reduce(min(n, 600))
    yield (
        "reshapes",
        _module(
            " p0 = f32[2,3,5] parameter(0)\n"
            + "".join(
                f" v{k} = f32[{'30' if k % 2 else '5,3,2'}] reshape({f'v{k - 1}' if k else 'p0'})\n w{k} = f32[30] reshape(v{k})\n"
                for k in range(n // 2)
            )
            + f" ROOT r = f32[30] copy(w{n // 2 - 1})"
        ),
    )


def _wide_reduce(n: int) -> str:
    names = ", ".join(f"a{k}" for k in range(n))
    zeros = ", ".join(["z"] * n)
    scalars = ", ".join(["f32[]"] * n)
    body = "".join(f" a{k} = f32[] parameter({k})\n" for k in range(2 * n))
    body += "".join(f" sum{k} = f32[] add(a{k}, a{n + k})\n" for k in range(n))
    body = f"body {{\n{body} ROOT t = ({scalars}) tuple({', '.join(f'sum{k}' for k in range(n))})\n}}\n"
    parameters = "".join(f" a{k} = f32[4] parameter({k})\n" for k in range(n))
    return _module(
        body,
        f"{parameters} z = f32[] constant(0)\n ROOT r = ({scalars}) reduce({names}, {zeros}), dimensions={{0}}, to_apply=body",
    )


def _calls(rng: Random) -> Iterator[tuple[str, str]]:
    """Computations that call each other: 2^n instructions when each call has a copy of its own."""
    n = int(rng.uniform(10, 60))
    yield (
        "doubling-calls",
        _module(_levels(n, "f32[4] call({x}), to_apply=comp{k}"), _top(n, "call(p), to_apply=comp{k}")),
    )
    yield (
        "doubling-fusions",
        _module(
            _levels(n, "f32[4] fusion({x}), kind=kLoop, calls=comp{k}"), _top(n, "fusion(p), kind=kLoop, calls=comp{k}")
        ),
    )
    condition = "cond {\n p = f32[4] parameter(0)\n ROOT t = pred[] constant(false)\n}\n"
    yield (
        "doubling-whiles",
        _module(
            condition,
            _levels(n, "f32[4] while({x}), condition=cond, body=comp{k}"),
            _top(n, "while(p), condition=cond, body=comp{k}"),
        ),
    )
    yield (
        "doubling-conditionals",
        _module(
            _levels(
                n,
                "f32[4] conditional(q, {x}, {x}), true_computation=comp{k}, false_computation=comp{k}",
                " q = pred[] constant(true)\n",
            ),
            _top(n, "call(p), to_apply=comp{k}"),
        ),
    )
    yield (
        "doubling-async",
        _module(
            _levels(n, 'f32[4] call({x}), to_apply=comp{k}, frontend_attributes={{inlineable="false"}}'),
            _top(n, "call(p), to_apply=comp{k}"),
        ),
    )
    yield (
        "doubling-maps",
        _module(
            _levels(n, "f32[] map({x}), dimensions={{}}, to_apply=comp{k}").replace("f32[4]", "f32[]"),
            f" p = f32[4] parameter(0)\n ROOT r = f32[4] map(p), dimensions={{0}}, to_apply=comp{n - 1}",
        ),
    )
    many = _size(rng, 6, 10)
    yield (
        "many-computations",
        _module(
            "".join(
                f"comp{k} {{ p = f32[4] parameter(0) ROOT r = f32[4] {'tanh' if k % 3 else 'negate'}(p) }}\n"
                for k in range(many)
            ),
            " p = f32[4] parameter(0)\n"
            + "".join(f" r{k} = f32[4] call({f'r{k - 1}' if k else 'p'}), to_apply=comp{k}\n" for k in range(many))
            + f" ROOT r = f32[4] negate(r{many - 1})",
        ),
    )
    yield (
        "deep-calls",
        _module(
            _levels(many, "", single=True),
            f" p = f32[4] parameter(0)\n ROOT r = f32[4] call(p), to_apply=comp{many - 1}",
        ),
    )
    branches = ", ".join(f"comp{k}" for k in range(many))
    yield (
        "many-branches",
        _module(
            "".join(f"comp{k} {{ p = f32[4] parameter(0) ROOT r = f32[4] tanh(p) }}\n" for k in range(many)),
            " i = s32[] parameter(0)\n p = f32[4] parameter(1)\n"
            f" ROOT r = f32[4] conditional(i, {', '.join(['p'] * many)}), branch_computations={{{branches}}}",
        ),
    )


def _levels(n: int, call: str, extra: str = "", *, single: bool = False) -> str:
    out = ["comp0 {\n p = f32[4] parameter(0)\n ROOT r = f32[4] tanh(p)\n}\n"]
    for k in range(1, n):
        if single:
            body = f" a = f32[4] call(p), to_apply=comp{k - 1}\n ROOT r = f32[4] negate(a)"
        else:
            a, b = (call.format(x=x, k=k - 1) for x in "pa")
            body = f"{extra} a = {a}\n b = {b}\n ROOT r = f32[4] add(a, b)"
        out.append(f"comp{k} {{\n p = f32[4] parameter(0)\n{body}\n}}\n")
    return "".join(out)


def _top(n: int, call: str) -> str:
    return f" p = f32[4] parameter(0)\n ROOT r = f32[4] {call.format(k=n - 1)}"


def _shapes(rng: Random) -> Iterator[tuple[str, str]]:
    """Shapes of many dimensions, deep tuples, sizes beyond int64."""
    n = _size(rng, 8, 17)
    yield "many-dimensions", _module(f" ROOT p = f32[{','.join(['1'] * n)}] parameter(0)")
    yield (
        "many-dimensions-broadcast",
        _module(
            f" p = f32[] parameter(0)\n b = f32[{','.join(['2'] * min(n, 62))}] broadcast(p), dimensions={{}}\n ROOT r = f32[] negate(p)"
        ),
    )
    yield "dimension-overflow", _module(f" ROOT p = f32[{2**63 - 1},{_size(rng, 1, 62)}] parameter(0)")
    yield "dimension-beyond-int64", _module(f" ROOT p = f32[{10 ** rng.randint(19, 400)}] parameter(0)")
    yield "deep-tuple-shape", _module(f" ROOT p = {'(' * n}f32[]{')' * n} parameter(0)")
    yield "deep-literal", _module(f" ROOT p = f32[2] constant({'{' * n}1{'}' * n})")
    yield "deep-tuple-literal", _module(f" ROOT p = {'(' * 50}f32[]{')' * 50} constant({'(' * n}1{')' * n})")
    huge = _size(rng, 31, 62)
    yield "elided-constant", _module(f" ROOT c = f32[{huge}] constant({{...}})")
    yield "elided-constant-used", _module(f" c = f32[{huge}] constant({{...}})\n ROOT r = f32[{huge}] tanh(c)")
    yield "huge-argument", _module(f" p = f32[{huge}] parameter(0)\n ROOT r = f32[{huge}] tanh(p)")
    yield (
        "huge-middle",
        _module(
            _ADD,
            f" p = f32[] parameter(0)\n b = f32[{huge // 1024},1024] broadcast(p), dimensions={{}}\n i = f32[{huge // 1024},1024] iota(), iota_dimension=0\n"
            f" m = f32[{huge // 1024},1024] multiply(b, i)\n s = f32[{huge // 1024},1024] sort(m), dimensions={{0}}, to_apply=less\n"
            " ROOT r = f32[1,1] slice(s), slice={[0:1], [0:1]}",
        ).replace(_ADD, _LESS),
    )
    outer = _size(rng, 15, 31)
    yield (
        "outer-product",
        _module(
            f" a = f32[{outer}] parameter(0)\n ROOT r = f32[{outer},{outer}] dot(a, a), lhs_contracting_dims={{}}, rhs_contracting_dims={{}}"
        ),
    )
    yield "scalar-literal-of-many", _module(f" ROOT c = f32[{_size(rng, 20, 40)}] constant(1)")


def _annotations(rng: Random) -> Iterator[tuple[str, str]]:
    """Attributes that stand for long lists, nest deeply or are long."""
    n = _size(rng, 20, 44)
    plain = " p = f32[4,4] parameter(0)"
    yield "iota-sharding", _module(f"{plain}, sharding={{devices=[{n},1]<=[{n}]}}\n ROOT r = f32[4,4] tanh(p)")
    yield (
        "iota-sharding-transposed",
        _module(f"{plain}, sharding={{devices=[2,{n}]<=[{n},2]T(1,0)}}\n ROOT r = f32[4,4] tanh(p)"),
    )
    groups = f"replica_groups=[1,{n}]<=[{n}], to_apply=add"
    yield "iota-groups", _module(_ADD, f"{plain}\n ROOT r = f32[4,4] all-reduce(p), {groups}")
    yield (
        "iota-groups-transposed",
        _module(
            _ADD, f"{plain}\n ROOT r = f32[4,4] all-reduce(p), replica_groups=[{n},2]<=[2,{n}]T(1,0), to_apply=add"
        ),
    )
    yield (
        "partitions",
        _module(f"{plain}\n ROOT r = f32[4,4] tanh(p)", header=f"HloModule m, num_partitions={n}, replica_count={n}"),
    )
    depth = _size(rng, 8, 17)
    yield (
        "deep-backend-config",
        _module(f"{plain}\n ROOT r = f32[4,4] tanh(p), backend_config={'{' * depth}{'}' * depth}"),
    )
    nested = '{"a":' * depth + "1" + "}" * depth
    yield "deep-json", _module(f"{plain}\n ROOT r = f32[4,4] tanh(p), backend_config={nested}")
    yield (
        "deep-frontend-attributes",
        _module(f"{plain}\n ROOT r = f32[4,4] tanh(p), frontend_attributes={{a={nested}}}"),
    )
    yield "long-metadata", _module(f'{plain}\n ROOT r = f32[4,4] tanh(p), metadata={{op_name="{"x/" * depth}"}}')
    yield "tiles", _module(f" ROOT p = f32[4,4]{{1,0:T({','.join(['8'] * depth)})}} parameter(0)")
    yield "large-tile", _module(f" ROOT p = f32[4,4]{{1,0:T({n},{n})}} parameter(0)")
    yield (
        "alias",
        _module(
            " ROOT p = f32[4] parameter(0)",
            header=f"HloModule m, input_output_alias={{ {{}}: ({n}, {{}}, may-alias) }}",
        ),
    )
    yield "origin", _module(f"{plain}\n ROOT r = f32[4,4] tanh(p), origin={{{'(' * depth}{{}}{')' * depth}}}")
    yield "parameter-number", _module(f" ROOT p = f32[4] parameter({n})")
    yield "dimension-number", _module(f"{plain}\n ROOT r = f32[4,4] transpose(p), dimensions={{{n},{n}}}")
    yield "channel", _module(f"{plain}\n ROOT r = f32[4,4] all-gather(p), dimensions={{0}}, channel_id={n}")


def _windows(rng: Random) -> Iterator[tuple[str, str]]:
    """Windows, paddings and dilations of any size over small arrays; long window computations."""
    n = _size(rng, 20, 60)
    over = " p = f32[16] parameter(0)\n z = f32[] constant(0)\n"
    yield (
        "window-size",
        _module(_ADD, over + f" ROOT r = f32[16] reduce-window(p, z), window={{size={n} pad={n - 1}_0}}, to_apply=add"),
    )
    yield (
        "window-padding",
        _module(_ADD, over + f" ROOT r = f32[{n + 16}] reduce-window(p, z), window={{size=1 pad={n}_0}}, to_apply=add"),
    )
    yield (
        "window-dilation",
        _module(
            _ADD,
            over + f" ROOT r = f32[{15 * n + 1}] reduce-window(p, z), window={{size=1 lhs_dilate={n}}}, to_apply=add",
        ),
    )
    yield (
        "window-stride",
        _module(_ADD, over + f" ROOT r = f32[1] reduce-window(p, z), window={{size=2 stride={n}}}, to_apply=add"),
    )
    yield (
        "kernel-dilation",
        _module(
            f" p = f32[1,16,1] parameter(0)\n k = f32[2,1,1] parameter(1)\n"
            f" ROOT r = f32[1,16,1] convolution(p, k), window={{size=2 pad=0_{n} rhs_dilate={n}}}, dim_labels=b0f_0io->b0f"
        ),
    )
    m = _size(rng, 9, 13)
    yield (
        "long-convolution",
        _module(
            f" p = f32[1,{m},{m},1] parameter(0)\n k = f32[128,128,1,1] parameter(1)\n"
            f" ROOT r = f32[1,{m},{m},1] convolution(p, k), window={{size=128x128 pad=64_63x64_63}}, dim_labels=b01f_01io->b01f"
        ),
    )
    yield (
        "long-window",
        _module(
            _ADD,
            f" p = f32[{m * 512}] parameter(0)\n z = f32[] constant(0)\n"
            f" ROOT r = f32[{m * 512}] reduce-window(p, z), window={{size={m * 256} pad={m * 256 - 1}_0}}, to_apply=add",
        ),
    )
    yield (
        "long-window-odd",
        _module(
            _ODD,
            f" p = f32[{m * 512}] parameter(0)\n z = f32[] constant(0)\n"
            f" ROOT r = f32[{m * 512}] reduce-window(p, z), window={{size={m * 256} pad={m * 256 - 1}_0}}, to_apply=odd",
        ),
    )
    yield (
        "long-select-and-scatter",
        _module(
            _ADD,
            _GREATER,
            f" p = f32[{m},{m}] parameter(0)\n s = f32[{m - 63},{m - 63}] parameter(1)\n z = f32[] constant(0)\n"
            f" ROOT r = f32[{m},{m}] select-and-scatter(p, s, z), window={{size=64x64}}, select=ge, scatter=add",
        ),
    )
    yield (
        "long-scatter",
        _module(
            _ODD,
            f" b = f32[8] parameter(0)\n i = s32[{m * 256},1] parameter(1)\n u = f32[{m * 256}] parameter(2)\n"
            " ROOT r = f32[8] scatter(b, i, u), update_window_dims={}, inserted_window_dims={0}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=odd",
        ),
    )
    yield (
        "long-dot",
        _module(
            f" p = f32[{m},{m}] parameter(0)\n"
            f" ROOT r = f32[{m},{m}] dot(p, p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        ),
    )
    yield (
        "long-integer-dot",
        _module(
            f" p = s32[{m},{m}] parameter(0)\n c = s32[] constant(2000000000)\n b = s32[{m},{m}] broadcast(c), dimensions={{}}\n"
            f" ROOT r = s32[{m},{m}] dot(p, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        ),
    )
    yield (
        "long-sort",
        _module(
            _LESS.replace("compare(a, b)", "compare(x, y)").replace("ROOT", "x = f32[] tanh(a) y = f32[] tanh(b) ROOT"),
            f" p = f32[{m * 1024}] parameter(0)\n ROOT r = f32[{m * 1024}] sort(p), dimensions={{0}}, to_apply=less",
        ),
    )
    yield (
        "long-gather",
        _module(
            f" p = f32[{m},64] parameter(0)\n i = s32[{m * 16},1] parameter(1)\n"
            f" ROOT r = f32[{m * 16},64] gather(p, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
            "index_vector_dim=1, slice_sizes={1,64}"
        ),
    )
    yield "long-cholesky", _module(f" p = f32[{m},{m}] parameter(0)\n ROOT r = f32[{m},{m}] cholesky(p), lower=true")
    yield (
        "long-fft",
        _module(
            f" p = c64[{m * 256}] parameter(0)\n ROOT r = c64[{m * 256}] fft(p), fft_type=FFT, fft_length={{{m * 256}}}"
        ),
    )
    yield (
        "long-triangular-solve",
        _module(
            f" a = f32[{m},{m}] parameter(0)\n b = f32[{m},64] parameter(1)\n"
            f" ROOT r = f32[{m},64] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=true, transpose_a=NO_TRANSPOSE"
        ),
    )


def _loops(rng: Random) -> Iterator[tuple[str, str]]:
    """Loops of many iterations, nested ones, loops over constants."""
    n = _size(rng, 20, 62)
    for step in (1, -1, 3):
        yield f"counted-loop-{step}", _loop(n, step, "s64")
    yield "counted-loop-s32", _loop(2**31 - 1, 1, "s32")
    yield (
        "unused-loop",
        _loop(n, 1, "s64")
        .replace("ROOT r = (s64[], f32[4]) while", "w = (s64[], f32[4]) while")
        .replace("body=body", "body=body\n ROOT r = s64[] constant(0)"),
    )
    nested = "".join(
        f"body{k} {{\n t = (s64[], f32[4]) parameter(0)\n i = s64[] get-tuple-element(t), index=0\n x = f32[4] get-tuple-element(t), index=1\n"
        f" z = s64[] constant(0)\n u = (s64[], f32[4]) tuple(z, x)\n w = (s64[], f32[4]) while(u), condition=cond, body=body{k - 1}\n"
        " y = f32[4] get-tuple-element(w), index=1\n one = s64[] constant(1)\n j = s64[] add(i, one)\n ROOT o = (s64[], f32[4]) tuple(j, y)\n}\n"
        for k in range(1, 12)
    )
    start = _loop(1000, 1, "s64").replace("body {", "body0 {").replace("body=body", "body=body11")
    yield "nested-loops", start.replace("ENTRY", nested + "ENTRY")
    yield (
        "loop-of-large-constant",
        _module(
            f"cond {{\n t = (s32[], f32[{2**24}]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(100000)\n"
            " ROOT r = pred[] compare(i, n), direction=LT\n}\n"
            f"body {{\n t = (s32[], f32[{2**24}]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n x = f32[{2**24}] get-tuple-element(t), index=1\n"
            f" one = s32[] constant(1)\n j = s32[] add(i, one)\n y = f32[{2**24}] tanh(x)\n ROOT o = (s32[], f32[{2**24}]) tuple(j, y)\n}}\n",
            f" z = s32[] constant(0)\n f = f32[] constant(0.5)\n b = f32[{2**24}] broadcast(f), dimensions={{}}\n"
            f" u = (s32[], f32[{2**24}]) tuple(z, b)\n ROOT r = (s32[], f32[{2**24}]) while(u), condition=cond, body=body",
        ),
    )


def _loop(n: int, step: int, kind: str) -> str:
    state = f"({kind}[], f32[4])"
    return _module(
        f"cond {{\n t = {state} parameter(0)\n i = {kind}[] get-tuple-element(t), index=0\n n = {kind}[] constant({n})\n"
        f" ROOT r = pred[] compare(i, n), direction={'LT' if step > 0 else 'NE'}\n}}\n",
        f"body {{\n t = {state} parameter(0)\n i = {kind}[] get-tuple-element(t), index=0\n x = f32[4] get-tuple-element(t), index=1\n"
        f" one = {kind}[] constant({step})\n j = {kind}[] add(i, one)\n y = f32[4] tanh(x)\n ROOT o = {state} tuple(j, y)\n}}\n",
        f" z = {kind}[] constant(0)\n f = f32[] constant(0.5)\n b = f32[4] broadcast(f), dimensions={{}}\n"
        f" u = {state} tuple(z, b)\n ROOT r = {state} while(u), condition=cond, body=body",
    )


def _texts(rng: Random) -> Iterator[tuple[str, str]]:
    """Long texts: comments, blanks, names, literals, truncated."""
    n = _size(rng, 14, 21)
    end = _module(" ROOT p = f32[] parameter(0)")
    yield "blanks", "HloModule m\n" + " " * n + end.removeprefix("HloModule m\n")
    for name, piece in (
        ("comments", "/* */"),
        ("comment-lines", "//\n"),
        ("open-comments", "/*"),
        ("stars", "/*" + "*" * 8),
        ("slashes", "/ /"),
    ):
        yield name, "HloModule m\n" + piece * (n // len(piece)) + "\n" + end.removeprefix("HloModule m\n")
    for piece in (
        '"',
        "'",
        "{",
        "(",
        "[",
        "%",
        "\\",
        "\0",
        "é",
        "ROOT ",
        "f32[",
        "a=",
        "1_",
        "1x",
        "-",
        "0.",
        "ENTRY ",
    ):
        yield f"repeated {piece!r}", "HloModule m\n" + piece * (n // len(piece)) + "\n" + end
        yield f"repeated in entry {piece!r}", _module(" ROOT r = f32[] constant(" + piece * (n // len(piece)) + ")")
    yield "long-name", _module(f" ROOT {'a' * n} = f32[] parameter(0)")
    yield (
        "long-names",
        _module(
            "".join(f" {'a' * 4000}{k} = f32[] parameter({k})\n" for k in range(n // 8000))
            + " ROOT r = f32[] constant(0)"
        ),
    )
    yield "long-number", _module(f" ROOT r = f32[] constant({'9' * n})")
    yield "long-fraction", _module(f" ROOT r = f64[] constant(0.{'9' * n})")
    yield "long-index", _module(f" ROOT r = f32[] parameter({'9' * n})")
    values = ", ".join(["1.5"] * (n // 8))
    yield "long-literal", _module(f" ROOT r = f32[{n // 8}] constant({{{values}}})")
    yield "long-line", _module(" ROOT r = f32[] add(" + "f32[] constant(1), " * (n // 20) + "f32[] constant(1))")
    yield (
        "same-names",
        _module("".join(f" a = f32[] parameter({k})\n" for k in range(n // 64)) + " ROOT r = f32[] negate(a)"),
    )


_MAKERS: tuple[Callable[[Random], Iterator[tuple[str, str]]], ...] = (
    _folds,
    _graphs,
    _calls,
    _shapes,
    _annotations,
    _windows,
    _loops,
    _texts,
    growth.programs,
)
