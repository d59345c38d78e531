"""Programs for which a compiler is easily quadratic.

Long chains, wide instructions, values with many users, large constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

_ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"


def programs(rng: Random) -> Iterator[tuple[str, str]]:
    """Names and texts, each of hundreds to thousands of instructions."""
    for name, make in _SHAPES.items():
        yield f"growth-{name}", make(int(2 ** rng.uniform(7, 11)), rng)


def _module(lines: Sequence[str], before: str = "") -> str:
    return f"HloModule m\n{before}ENTRY e {{\n" + "\n".join(lines) + "\n}\n"


def _tuple(values: Sequence[str], shape: str) -> str:
    return f"ROOT r = ({', '.join([shape] * len(values))}) tuple({', '.join(values)})"


def _elementwise(n: int, rng: Random) -> str:
    kind = rng.choice(("f32", "bf16", "f16", "f8e4m3fn", "f64", "c64", "s8", "u32"))
    shape = f"{kind}[{rng.choice(('', '64', '8,8'))}]"
    unary = ("negate", "tanh", "exponential") if kind[0] in "fbc" else ("negate", "not")
    op = rng.choice(unary)
    if rng.random() < 0.5:
        made = f"{shape} add({{x}}, v0)"
    else:
        made = f"{shape} {op}({{x}})"
    n = n if op in ("negate", "not") or kind in ("f32", "f64") else n // 4
    lines = [f"v0 = {shape} parameter(0)", *(f"v{k} = {made.format(x=f'v{k - 1}')}" for k in range(1, n))]
    return _module([*lines, f"ROOT r = {shape} copy(v{n - 1})"])


def _concatenations(n: int, _: Random) -> str:
    lines = ["p = f32[1] parameter(0)", "v0 = f32[1] parameter(1)"]
    lines += [f"v{k} = f32[{k + 1}] concatenate(v{k - 1}, p), dimensions={{0}}" for k in range(1, n)]
    return _module([*lines, f"ROOT r = f32[{n}] tanh(v{n - 1})"])


def _doubling_concatenations(n: int, rng: Random) -> str:
    depth, both = n.bit_length() + 10, rng.random() < 0.5
    sizes = [1, 1]
    for k in range(2, depth):
        sizes.append(sizes[k - 1] + sizes[k - 1 if both else k - 2])
    lines = ["v0 = f32[1] parameter(0)", "v1 = f32[1] parameter(1)"]
    lines += [
        f"v{k} = f32[{sizes[k]}] concatenate(v{k - 1}, v{k - 1 if both else k - 2}), dimensions={{0}}"
        for k in range(2, depth)
    ]
    return _module([*lines, f"ROOT r = f32[{sizes[-1]}] tanh(v{depth - 1})"])


def _slices(n: int, rng: Random) -> str:
    n //= 2
    places = rng.sample(range(n), n)
    lines = [f"p = f32[{n}] parameter(0)"]
    lines += [f"v{k} = f32[1] slice(p), slice={{[{at}:{at + 1}]}}" for k, at in enumerate(places)]
    values = ", ".join(f"v{k}" for k in range(n))
    return _module([*lines, f"ROOT r = f32[{n}] concatenate({values}), dimensions={{0}}"])


def _transposes(n: int, rng: Random) -> str:
    n, sides, lines = n // 8, ("4,6", "6,4"), ["v0 = f32[4,6] parameter(0)"]
    op = rng.choice(("tanh", "negate", "abs"))
    for k in range(1, n):
        shape = f"f32[{sides[k % 2]}]"
        lines += [f"t{k} = {shape} transpose(v{k - 1}), dimensions={{1,0}}", f"v{k} = {shape} {op}(t{k})"]
    return _module([*lines, f"ROOT r = f32[{sides[(n - 1) % 2]}] copy(v{n - 1})"])


def _tree(n: int, rng: Random) -> str:
    op, shape = rng.choice(("add", "multiply", "maximum")), f"f32[{rng.choice(('', '64', '8,8'))}]"
    names = [f"p{k}" for k in range(max(2, n // 2))]
    lines = [f"{p} = {shape} parameter({k})" for k, p in enumerate(names)]
    while len(names) > 1:
        pairs = list(zip(names[::2], names[1::2], strict=False))
        made = [f"v{len(lines) + k}" for k in range(len(pairs))]
        lines += [f"{v} = {shape} {op}({a}, {b})" for v, (a, b) in zip(made, pairs, strict=True)]
        names = [*made, *(names[-1:] if len(names) % 2 else [])]
    return _module([*lines, f"ROOT r = {shape} copy({names[0]})"])


def _sums(n: int, _: Random) -> str:
    n = max(2, n // 3)
    lines = ["z = f32[] constant(0)"]
    for k in range(n):
        lines += [f"p{k} = f32[64] parameter({k})"]
        lines += [f"sum{k} = f32[] reduce(p{k}, z), dimensions={{0}}, to_apply=add"]
    lines += [f"v{k} = f32[] add({f'v{k - 1}' if k > 1 else 'sum0'}, sum{k})" for k in range(1, n)]
    return _module([*lines, f"ROOT r = f32[] copy(v{n - 1})"], _ADD)


def _results(n: int, rng: Random) -> str:
    lines, same = ["p = f32[64] parameter(0)"], rng.random() < 0.5
    for k in range(n // 2):
        if same:
            lines += [f"v{k} = f32[64] tanh(p)"]
        else:
            lines += [f"number{k} = f32[] constant({k})", f"b{k} = f32[64] broadcast(number{k}), dimensions={{}}"]
            lines += [f"v{k} = f32[64] multiply(p, b{k})"]
    return _module([*lines, _tuple([f"v{k}" for k in range(n // 2)], "f32[64]")])


def _random_bits(n: int, rng: Random) -> str:
    kind = rng.choice(("rng_philox", "rng_three_fry", "rng_default"))
    lines = ["v0 = u64[2] parameter(0)"]
    for k in range(1, n // 16):
        lines += [f"t{k} = (u64[2], u32[8]) rng-bit-generator(v{k - 1}), algorithm={kind}"]
        lines += [f"v{k} = u64[2] get-tuple-element(t{k}), index=0"]
    return _module([*lines, f"ROOT r = u64[2] copy(v{n // 16 - 1})"])


def _updates(n: int, _: Random) -> str:
    lines = ["i = s32[] parameter(0)", "u = f32[2] parameter(1)", "v0 = f32[64] parameter(2)"]
    lines += [f"v{k} = f32[64] dynamic-update-slice(v{k - 1}, u, i)" for k in range(1, n)]
    return _module([*lines, f"ROOT r = f32[64] copy(v{n - 1})"])


def _shared(n: int, _: Random) -> str:
    n //= 2
    lines = ["v0 = f32[64] parameter(0)", "v1 = f32[64] tanh(v0)"]
    lines += [f"v{k} = f32[64] add(v{k - 1}, v{k // 2})" for k in range(2, n)]
    return _module([*lines, f"ROOT r = f32[64] copy(v{n - 1})"])


def _rows(n: int, _: Random) -> str:
    n, lines = max(2, n // 8), ["z = f32[] constant(0)", "v0 = f32[8,32] parameter(0)"]
    for k in range(1, n):
        lines += [f"x{k} = f32[8,32] exponential(v{k - 1})"]
        lines += [f"sum{k} = f32[8] reduce(x{k}, z), dimensions={{1}}, to_apply=add"]
        lines += [f"b{k} = f32[8,32] broadcast(sum{k}), dimensions={{0}}", f"v{k} = f32[8,32] divide(x{k}, b{k})"]
    return _module([*lines, f"ROOT r = f32[8,32] copy(v{n - 1})"], _ADD)


_SHAPES: dict[str, Callable[[int, Random], str]] = {
    "elementwise": _elementwise,
    "concatenations": _concatenations,
    "doubling-concatenations": _doubling_concatenations,
    "slices": _slices,
    "transposes": _transposes,
    "tree": _tree,
    "sums": _sums,
    "results": _results,
    "random-bits": _random_bits,
    "updates": _updates,
    "shared": _shared,
    "rows": _rows,
}
