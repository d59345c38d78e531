"""Measure the cost table of the emitters (xlanb/codegen/costs.py).

Run it after a change of an emitter, and on a new kind of machine. Times are measured by programs
that depend on one time only: a slope between two sizes, or the time of many elements. Thresholds,
from which one way of computing is faster than another, are tried: for each other value, the time of
programs that depend on it, divided by that with the table's value; below 1 the other value is
better. All is measured with one thread, except what is about threads. Values are set in separate
processes, alternately, and the least of several medians is used, to reduce noise.

    python -m benchmarks costs                              all, for this machine's family
    XLANB_COSTS_FAMILY=avx2 python -m benchmarks costs      as if it had no wider vectors
"""

from __future__ import annotations

import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from xlanb.codegen import costs
from xlanb.hlo import parse

ROUNDS = 3
CALLS = 15
SHORTEST_S = 0.004

Value = int | float
Texts = Sequence[str]

F, G = "a = f32[] parameter(0) b = f32[] parameter(1)", "f32[]"
ADD = f"add_f32 {{ {F} ROOT r = {G} add(a, b) }}"
BY_VALUE = "by_value { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }"
BY_BOTH = (
    "by_both { a = f64[] parameter(0) b = f64[] parameter(1) c = f64[] parameter(2) d = f64[] parameter(3) l = "
    "pred[] compare(a, b), direction=LT s = pred[] compare(a, b), direction=EQ t = pred[] compare(c, d), "
    "direction=LT u = pred[] and(s, t) ROOT r = pred[] or(l, u) }"
)
LATER = (
    "later { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3) "
    "g = pred[] compare(a, b), direction=GE v = f32[] select(g, a, b) w = s32[] select(g, i, j) "
    "ROOT r = (f32[], s32[]) tuple(v, w) }"
)


# -- programs --------------------------------------------------------------------------------------


def elementwise(n: int, *opcodes: str) -> str:
    """A chain of operations on n floats; those of two operands take the parameter again."""
    lines = [f"v0 = f32[{n}] parameter(0)", f"y = f32[{n}] parameter(1)"]
    for k, opcode in enumerate(opcodes):
        second = ", y" if opcode in ("add", "multiply", "power") else ""
        lines.append(f"v{k + 1} = f32[{n}] {opcode}(v{k}{second})")
    lines[-1] = f"ROOT {lines[-1]}"
    return module("", *lines)


def repeated(n: int, rounds: int, opcode: str) -> str:
    """A loop that applies an operation to n floats."""
    return _loop(n, rounds, "x", f"y = f32[{n}] {opcode}(x)", "y")


def exchanged(n: int, rounds: int) -> str:
    """A loop over two arrays of n floats, whose body gives the second first, and one computed from
    both, in reverse.
    """
    body = f"s = f32[{n}] reverse(y), dimensions={{0}} t = f32[{n}] tanh(s) z = f32[{n}] subtract(t, x)"
    return _loop(n, rounds, "x y", body, "y z")


def _loop(n: int, rounds: int, arrays: str, body: str, following: str) -> str:
    """A loop over arrays of n floats, whose body computes those that follow; it gives the last."""
    names, last = arrays.split(), len(arrays.split())
    state = f"(s32[], {', '.join(f'f32[{n}]' for _ in names)})"
    given = f"p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0"
    read = " ".join(f"{name} = f32[{n}] get-tuple-element(p), index={k}" for k, name in enumerate(names, 1))
    return module(
        f"body {{ {given} {read} c = s32[] constant(1) j = s32[] add(i, c) "
        f"{body} ROOT r = {state} tuple(j, {', '.join(following.split())}) }}\n"
        f"condition {{ {given} n = s32[] constant({rounds}) ROOT r = pred[] compare(i, n), direction=LT }}",
        *(f"{name} = f32[{n}] parameter({k})" for k, name in enumerate(names)),
        "i = s32[] constant(0)",
        f"t = {state} tuple(i, {', '.join(names)})",
        f"w = {state} while(t), condition=condition, body=body",
        f"ROOT r = f32[{n}] get-tuple-element(w), index={last}",
    )


def module(functions: str, *lines: str) -> str:
    """The text of a module."""
    return f"HloModule m\n{functions}\nENTRY e {{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"


def sort(lines: int, n: int) -> str:
    """Lines of n floats, sorted."""
    return module(
        BY_VALUE,
        f"x = f32[{lines},{n}] parameter(0)",
        f"ROOT s = f32[{lines},{n}] sort(x), dimensions={{1}}, to_apply=by_value",
    )


def sort_pairs(lines: int, n: int) -> str:
    """Lines of n pairs of keys too long for digits, sorted by comparisons."""
    shape = f"f64[{lines},{n}]"
    return module(
        BY_BOTH,
        f"x = {shape} parameter(0)",
        f"y = {shape} parameter(1)",
        f"ROOT s = ({shape}, {shape}) sort(x, y), dimensions={{1}}, to_apply=by_both",
    )


def top_k(lines: int, n: int, k: int, dtype: str = "f32") -> str:
    """The k largest of each line."""
    return module(
        "",
        f"x = {dtype}[{lines},{n}] parameter(0)",
        f"ROOT t = ({dtype}[{lines},{k}], s32[{lines},{k}]) topk(x), k={k}, largest=true",
    )


def function_of_rows(n: int) -> str:
    """The logarithms of the sums of rows of sixteen numbers."""
    return module(
        ADD,
        f"x = f32[{n},16] parameter(0)",
        "z = f32[] constant(0)",
        f"s = f32[{n}] reduce(x, z), dimensions={{1}}, to_apply=add_f32",
        f"ROOT r = f32[{n}] log(s)",
    )


def loss(n: int) -> str:
    """The negated sum of logarithms."""
    return module(
        ADD,
        f"x = f32[{n}] parameter(0)",
        "z = f32[] constant(0)",
        f"l = f32[{n}] log(x)",
        "s = f32[] reduce(l, z), dimensions={0}, to_apply=add_f32",
        "ROOT r = f32[] negate(s)",
    )


def reduce(rows: int, columns: int, axis: int) -> str:
    """The sums of a matrix along an axis."""
    kept = (columns, rows)[axis]
    return module(
        ADD,
        f"x = f32[{rows},{columns}] parameter(0)",
        "z = f32[] constant(0)",
        f"ROOT r = f32[{kept}] reduce(x, z), dimensions={{{axis}}}, to_apply=add_f32",
    )


def last_largest(rows: int, columns: int, axis: int) -> str:
    """The largest of a matrix along an axis, with its place."""
    kept, shape = (columns, rows)[axis], f"[{rows},{columns}]"
    return module(
        LATER,
        f"x = f32{shape} parameter(0)",
        f"i = s32{shape} iota(), iota_dimension={axis}",
        "low = f32[] constant(-inf)",
        "z = s32[] constant(0)",
        f"ROOT r = (f32[{kept}], s32[{kept}]) reduce(x, i, low, z), dimensions={{{axis}}}, to_apply=later",
    )


def cumulative(rows: int, columns: int, axis: int) -> str:
    """The cumulative sums of a matrix along an axis."""
    size = (rows, columns)[axis]
    window = f"{size}x1 pad={size - 1}_0x0_0" if axis == 0 else f"1x{size} pad=0_0x{size - 1}_0"
    return module(
        ADD,
        f"x = f32[{rows},{columns}] parameter(0)",
        "z = f32[] constant(0)",
        f"ROOT r = f32[{rows},{columns}] reduce-window(x, z), window={{size={window}}}, to_apply=add_f32",
    )


def pool(rows: int, columns: int, size: int) -> str:
    """The sums of square windows."""
    made = f"f32[{rows - size + 1},{columns - size + 1}]"
    return module(
        ADD,
        f"x = f32[{rows},{columns}] parameter(0)",
        "z = f32[] constant(0)",
        f"ROOT r = {made} reduce-window(x, z), window={{size={size}x{size}}}, to_apply=add_f32",
    )


def dot(
    m: int, n: int, k: int, *, transposed: bool = False, across: bool = False, types: tuple[str, str] = ("f32", "f32")
) -> str:
    """Return a matrix product of these types; b is transposed if `transposed`, a if `across`."""
    kind, result = types
    a, lhs = (f"{kind}[{k},{m}]", 0) if across else (f"{kind}[{m},{k}]", 1)
    b, rhs = (f"{kind}[{n},{k}]", 1) if transposed else (f"{kind}[{k},{n}]", 0)
    return module(
        "",
        f"x = {a} parameter(0)",
        f"y = {b} parameter(1)",
        f"ROOT d = {result}[{m},{n}] dot(x, y), lhs_contracting_dims={{{lhs}}}, rhs_contracting_dims={{{rhs}}}",
    )


def transpose(rows: int, columns: int, *, fused: bool = False) -> str:
    """Return a matrix transpose, or its sum with another matrix."""
    lines = [f"x = f32[{rows},{columns}] parameter(0)", f"y = f32[{columns},{rows}] parameter(1)"]
    made = f"f32[{columns},{rows}] transpose(x), dimensions={{1,0}}"
    lines += [f"t = {made}", f"ROOT r = f32[{columns},{rows}] add(t, y)"] if fused else [f"ROOT t = {made}"]
    return module("", *lines)


def shifted(rows: int, columns: int) -> str:
    """A matrix with a border of zeros."""
    return module(
        "",
        f"x = f32[{rows},{columns}] parameter(0)",
        "z = f32[] constant(0)",
        f"ROOT p = f32[{rows + 2},{columns + 2}] pad(x, z), padding=1_1x1_1",
    )


def returned(n: int) -> str:
    """A parameter of n floats as the result: a copy of bytes."""
    return module("", f"x = f32[{n}] parameter(0)", f"ROOT r = f32[1,{n}] bitcast(x)")


def stack(arrays: int, rows: int, columns: int) -> str:
    """The sums of many matrices along their rows."""
    return module(
        ADD,
        f"x = f32[{arrays},{rows},{columns}] parameter(0)",
        "z = f32[] constant(0)",
        f"ROOT r = f32[{arrays},{columns}] reduce(x, z), dimensions={{1}}, to_apply=add_f32",
    )


def scatter(rows: int, columns: int, updates: int) -> str:
    """Rows added to rows of a matrix."""
    return module(
        ADD,
        f"x = f32[{rows},{columns}] parameter(0)",
        f"u = f32[{updates},{columns}] parameter(1)",
        f"n = s32[{updates},1] iota(), iota_dimension=0",
        f"ROOT s = f32[{rows},{columns}] scatter(x, n, u), update_window_dims={{1}}, inserted_window_dims={{0}}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_f32",
    )


def gather(rows: int, columns: int, taken: int) -> str:
    """Rows of a matrix, by their numbers."""
    return module(
        "",
        f"x = f32[{rows},{columns}] parameter(0)",
        f"n = s32[{taken},1] iota(), iota_dimension=0",
        f"ROOT g = f32[{taken},{columns}] gather(x, n), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
        f"start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{columns}}}",
    )


def fourier(lines: int, n: int, *, beside: bool = False) -> str:
    """Return the transforms of n complex numbers along rows, or, if `beside`, along columns."""
    if not beside:
        shape = f"c64[{lines},{n}]"
        return module("", f"x = {shape} parameter(0)", f"ROOT y = {shape} fft(x), fft_type=FFT, fft_length={{{n}}}")
    shape = f"c64[{n},{lines}]"
    return module("", f"x = {shape} parameter(0)", f"ROOT y = {shape} fft(x), fft_type=FFT, fft_length={{{n},{lines}}}")


def lapack(name: str, n: int, *results: str, options: str = "") -> str:
    """Return a LAPACK call on a matrix of order n; `results` are the shapes of further results."""
    matrix = f"f32[{n},{n}]{{0,1}}"
    return module(
        "",
        f"x = {matrix} parameter(0)",
        f'ROOT r = ({", ".join((matrix, *results))}) custom-call(x), custom_call_target="lapack_s{name}_ffi", '
        f"operand_layout_constraints={{{matrix}}}, api_version=API_VERSION_TYPED_FFI, backend_config={{{options}}}",
    )


def qr(n: int) -> str:
    """The QR factors of a matrix."""
    return lapack("geqrf", n, f"f32[{n}]{{0}}")


def eigenvectors(n: int) -> str:
    """The eigenvalues and eigenvectors of a symmetric matrix."""
    return lapack("syevd", n, f"f32[{n}]{{0}}", "s32[]", options="mode = 86 : ui8, uplo = 76 : ui8")


def solve(batch: int, n: int) -> str:
    """Triangular systems of a batch."""
    shape = f"f32[{batch},{n},{n}]"
    return module(
        "",
        f"a = {shape} parameter(0)",
        f"b = {shape} parameter(1)",
        f"ROOT x = {shape} triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    )


# -- times -----------------------------------------------------------------------------------------


def _each(count: float, *texts: str) -> tuple[Texts, Callable[[list[float]], float]]:
    """The mean time of programs, by so many units of work."""
    return texts, lambda t: statistics.fmean(t) / count


def _slope(count: float, small: str, large: str) -> tuple[Texts, Callable[[list[float]], float]]:
    """Return the time per additional unit of work between two programs."""
    return (small, large), lambda t: (t[1] - t[0]) / count


def _solved(
    rows: Sequence[tuple[float, float]], which: int, *texts: str
) -> tuple[Texts, Callable[[list[float]], float]]:
    """Return one of two unknowns, from programs whose times are sums of given numbers of each."""
    return texts, lambda t: float(np.linalg.lstsq(np.asarray(rows), np.asarray(t), rcond=None)[0][which])


def times(lanes: int) -> dict[str, tuple[Texts, Callable[[list[float]], float]]]:
    """Return the programs of each time, and a function of their nanoseconds.

    `lanes` is the number of floats in a vector.
    """
    short = [sort(1024, n) for n in (16, 64)]
    counted = [(1024.0 * n, 1024.0 * n * n) for n in (16, 64)]
    long = [sort(16, n) for n in (512, 2048)]
    digits = [(16.0 * 5 * n, 16.0 * 4 * 256) for n in (512, 2048)]
    return {
        "byte_ns": _slope(12 << 15, elementwise(1 << 15, "add"), elementwise(1 << 16, "add")),
        "near_byte_ns": _slope(800 << 14, repeated(1 << 14, 100, "negate"), repeated(1 << 15, 100, "negate")),
        "far_byte_ns": _slope(16 << 20, dot(1024, 1, 1024), dot(5120, 1, 1024)),
        "operation_ns": _slope(
            60 << 13, elementwise(1 << 13, *["multiply", "add"] * 2), elementwise(1 << 13, *["multiply", "add"] * 32)
        ),
        "function_ns": _each(
            1 << 13, *(elementwise(1 << 13, f) for f in ("exponential", "log", "tanh", "sine", "logistic"))
        ),
        "moved_element_ns": _slope(1 << 16, shifted(256, 256), shifted(512, 256)),
        "turned_byte_ns": _each(4 << 16, transpose(256, 256)),
        "updated_element_ns": _slope(768 * 64, scatter(4096, 64, 256), scatter(4096, 64, 1024)),
        "scan_step_ns": _each((1 << 18) / lanes, cumulative(1024, 256, 0)),
        "scan_row_ns": _slope(7168, cumulative(1024, 16, 1), cumulative(8192, 16, 1)),
        "scan_vector_ns": _each((1 << 18) / lanes, cumulative(64, 4096, 1)),
        "comparison_ns": _each(16 * 4096 * 13, sort_pairs(16, 4096)),
        "counted_element_ns": _solved(counted, 0, *short),
        "counted_pair_ns": _solved(counted, 1, *short),
        "digit_element_ns": _solved(digits, 0, *long),
        "digit_count_ns": _solved(digits, 1, *long),
        "selected_element_ns": _slope(16 * 80_000, top_k(16, 20_000, 256), top_k(16, 100_000, 256)),
        "kept_element_ns": _slope(16 * 7_680, top_k(16, 60_000, 256), top_k(16, 60_000, 4096)),
        "selected_wide_ns": _each(16 * 60_000, top_k(16, 60_000, 256, "f64")),
    }


# -- sizes -----------------------------------------------------------------------------------------

_DOTS = (dot(256, 256, 256), dot(1024, 512, 512), dot(64, 1024, 1024), dot(512, 512, 512, transposed=True))
TRIALS: dict[str, tuple[Texts, Sequence[Value]]] = {
    "plain_loop_elements": ([elementwise(n, "add", "tanh") for n in (16, 32, 64, 256)], (0, 128)),
    "gathered_rows": ([gather(4096, n, 1024) for n in (4, 16, 64)], (2, 8)),
    "tile_elements": ([transpose(n, n, fused=True) for n in (96, 256, 512)], (32, 128)),
    "band_elements": ([transpose(n, n) for n in (256, 1024, 2048)], (256, 4096)),
    "tiles_across": ([transpose(n, n) for n in (96, 300, 1000)], (1, 2, 8)),
    "paged_tiles_across": ([transpose(n, n) for n in (512, 1024, 2048)], (1, 4)),
    "paged_transpose_bytes": ([transpose(n, n) for n in (1024, 2048, 3072)], (1 << 22, 1 << 26)),
    "tiled_elements": ([transpose(n, n) for n in (8, 12, 16, 32)], (64, 1024)),
    "vector_sum_elements": ([reduce(4096, n, 1) for n in (3, 5, 8)], (2, 8)),
    "vector_pair_elements": ([last_largest(1024, n, 1) for n in (16, 24, 32, 64)], (16, 64)),
    "row_vectors": ([reduce(512, n, 1) for n in (80, 128, 176, 256)], (6, 24)),
    "called_rows": ([reduce(n, 512, 0) for n in (4, 6, 12, 16)], (4, 16)),
    "called_elements": ([stack(64, 16, n) for n in (64, 128, 256, 512)], (1024, 8192)),
    "joined_row_bytes": ([reduce(2048, n, 0) for n in (4, 16, 32, 64)], (64, 1024)),
    "multiplied_elements": ([reduce(256, n, 1) for n in (16, 64, 256)], (8, 128)),
    "written_out_vectors": ([pool(64, 256, n) for n in (2, 3, 4, 5)], (9, 36)),
    "staged_row_bytes": ([pool(64, n, 3) for n in (4096, 16384, 65536, 1 << 17)], (1 << 15, 1 << 20)),
    "counted_elements": ([sort(512, n) for n in (48, 64, 96, 128)], (64, 128)),
    "wide_digit_elements": ([sort(8, n) for n in (1500, 3000, 6000, 20000)], (1000, 10000)),
    "recorded_elements": ([top_k(64, n, 8) for n in (1000, 4000, 16000)], (2048, 32768)),
    "paged_rows": ((dot(1024, 1024, 256), dot(256, 1024, 1024)), (64, 512)),
    "paged_products": ((dot(1024, 1024, 256), dot(256, 1024, 256)), (1 << 20, 1 << 30)),
    "written_products": ([dot(n, n, n) for n in (4, 6, 8, 10)], (128, 2048)),
    "tile_cycles": ((dot(48, 48, 8), dot(96, 64, 16), *_DOTS), (12.0, 48.0)),
    "row_cycles": ((dot(128, 128, 1024), dot(512, 512, 1024), dot(784, 128, 512)), (0.0, 0.4, 1.6)),
    "crowded": ((dot(128, 128, 1024), dot(512, 512, 1024)), (0.1, 0.4)),
    "scattered": ((dot(128, 128, 1024), dot(512, 512, 1024)), (1.0, 1.2)),
    "streams": ((dot(128, 128, 1024), dot(512, 512, 1024)), (4, 16)),
    "stream_bytes": ((dot(128, 128, 256), dot(512, 512, 512)), (256, 2048)),
    "block_bytes": (_DOTS, (256 << 10, 1 << 20)),
    "panel_bytes": ((*_DOTS, dot(512, 1024, 1024)), (1 << 17, 1 << 19)),
    "rowdot_rows": ([dot(n, 512, 512, transposed=True) for n in (4, 8, 12, 16, 24)], (8, 24)),
    "copied_rows": ([dot(n, 640, 768) for n in (224, 448, 896)], (224, 896)),
    "copied_panel_rows": ([dot(n, 1024, 1024) for n in (32, 64, 128)], (32, 128)),
    "copied_bytes": ([dot(512, n, n) for n in (448, 640, 896)], (3 << 18, 3 << 20)),
    "blocked_rows": ([dot(n, 4096, 8192) for n in (24, 48, 96)], (16, 64)),
    "blocked_results": ([dot(n, n, 8192) for n in (128, 256, 512)], (1 << 14, 1 << 18)),
    "across_columns": ([dot(128, n, 4096, across=True) for n in (48, 64, 128)], (32, 128)),
    "across_products": ([dot(128, n, 1024, across=True) for n in (128, 256, 512)], (1 << 23, 1 << 27)),
    "blocked_bytes": ([dot(256, n, n) for n in (1024, 1440, 2048, 2560)], (1 << 22, 1 << 24)),
    "strip_rows": ([dot(n, 4608, 512) for n in (16, 32, 64, 128)], (16, 128)),
    "paged_strip_rows": ([dot(n, 4096, 4096) for n in (16, 32, 48, 64, 128)], (16, 128)),
    "strip_bytes": ([dot(n, k, k) for n in (1, 8) for k in (1024, 1536, 2048, 3072)], (1 << 21, 1 << 25)),
    "tiled_rows": ([dot(n, 1024, 1024, types=("bf16", "f32")) for n in (4, 8, 16)], (4, 16)),
    "tiled_products": ([dot(n, n, n, types=("bf16", "f32")) for n in (32, 48, 64, 96)], (1 << 15, 1 << 19)),
    "blocked_byte_products": ([dot(n, n, n, types=("s8", "s32")) for n in (32, 48, 64, 96)], (1 << 15, 1 << 20)),
    "huge_products": ([dot(n, n, n) for n in (1024, 1536, 2048)], (1 << 29, 1 << 34)),
    "stretch_lanes": ([dot(1024, 1024, 8192), dot(128, 1024, 8192)], (256, 1024)),
    "small_matrix_rows": ([*(qr(n) for n in (144, 240, 320)), *(eigenvectors(n) for n in (144, 240, 320))], (160, 384)),
    "interleaved_elements": ([solve(64, n) for n in (16, 24, 32, 40)], (640, 5120)),
    "prime_pass_ns": ([fourier(64, n) for n in (17 * 17, 31 * 16, 37 * 37, 59 * 4)], (0.35, 1.4)),
    "beside_ns": ([fourier(lines, n) for lines, n in ((4, 512), (8, 1024), (16, 2048))], (0.6, 2.4)),
    "interleaved_ns": ([fourier(lines, n) for lines, n in ((4, 512), (8, 1024), (16, 2048))], (1.1, 4.4)),
    "lane_elements": ([fourier(16, n) for n in (2048, 4096, 8192)], (2080, 8320)),
    "wider_lanes": ([fourier(16, n, beside=True) for n in (8192, 16384)], (1, 4)),
    "independent_sums": ([dot(n, 16, 512) for n in (1, 2, 4)], (4, 12)),
}
FACTS = ("cycle_ns", "first_cache_sets", "first_cache_ways", "scan_element_ns")
"""Values from the machine's description, or (a scan by any function) dependent on the function."""
SHARED: dict[str, tuple[Texts, Sequence[Value]]] = {
    "wake_ns": ([elementwise(n, "tanh") for n in (1 << 14, 3 << 14, 1 << 16, 3 << 16)], (12_000.0, 50_000.0)),
    "near_bytes": ([dot(n, 1, 1024) for n in (64, 256, 512, 1024)], (1 << 18, 1 << 22)),
    "repeated_wake_ns": (
        [repeated(n, 100, "tanh") for n in (1 << 12, 3 << 12, 1 << 14, 3 << 14)],
        (2_500.0, 25_000.0),
    ),
    "repeated_part_ns": ([repeated(n, 100, "tanh") for n in (1 << 14, 3 << 14)], (1_000.0, 4_000.0)),
    "part_ns": ([elementwise(n, "tanh") for n in (1 << 17, 1 << 19)], (4_000.0, 16_000.0)),
    "shared_update_bytes": ([scatter(4096, n, 4096) for n in (128, 256, 768)], (1 << 20, 1 << 30)),
    "update_piece_bytes": ([scatter(65536, n, 65536) for n in (32, 64, 128)], (64, 1024)),
    "spread_copy_bytes": ([exchanged(n, 100) for n in (1 << 14, 1 << 15, 1 << 16)], (1 << 12, 1 << 30)),
    "parts_per_thread": ([elementwise(n, "tanh") for n in (1 << 17, 1 << 19)], (4, 16)),
    "function_elements": ([function_of_rows(n) for n in (2, 4, 8, 16, 32)], (2, 32)),
    "shared_loss_elements": ([loss(n) for n in (1 << 6, 1 << 10, 1 << 12, 1 << 14)], (1 << 6, 1 << 14)),
    "shared_sum_elements": ([reduce(1, n, 1) for n in (1 << 15, 1 << 16, 1 << 17, 1 << 20)], (1 << 15, 1 << 18)),
    "block_elements": ([returned(n) for n in (1 << 20, 1 << 21, 1 << 22)], (1024, 16384)),
    "stretch_bytes": ([reduce(512, n, 0) for n in (1024, 2048, 8192)], (2048, 8192)),
    "serial_flops": ([qr(n) for n in (260, 320, 512)], (1e7, 5e8)),
    "serial_iteration_flops": ([eigenvectors(n) for n in (260, 320, 512)], (1e7, 1e10)),
    "shared_lines": ([fourier(n, 1 << 15) for n in (2, 4, 6)], (2, 8)),
    "shared_line_ns": ([fourier(1, n) for n in (1 << 13, 1 << 14, 1 << 15, 1 << 16)], (15_000.0, 240_000.0)),
    "banded_bytes": ([reduce(n, 512, 0) for n in (128, 256, 1024)], (1 << 18, 1 << 20)),
}
"""Values about threads, measured with two."""


# -- measuring -------------------------------------------------------------------------------------


def _hidden() -> str:
    """Return the features to hide, so that the machine is of the requested family."""
    return "avx512" if os.environ.get("XLANB_COSTS_FAMILY") == "avx2" else ""


def _narrowed() -> None:
    """Have this process compile for the machine without the features that it must seem to lack."""
    from xlanb.codegen import jit

    if (hidden := _hidden()) and (found := jit.host()).vector_bits == 512:
        kept = [f"-{x[1:]}" if x[1:].startswith(hidden) else x for x in found.features.split(",")]
        narrow = replace(found, features=",".join(kept))
        jit.host = lambda: narrow  # type: ignore[assignment]


def _medians(texts: Texts, changed: dict[str, Value], threads: int) -> list[float]:
    """Return nanoseconds of a call of each program with changed costs; it runs in its own
    process.
    """
    os.environ["XLANB_NUM_THREADS"] = str(threads)
    _narrowed()
    costs.COMMON = costs.COMMON.replace(**changed)
    costs.FAMILIES.update({name: table.replace(**changed) for name, table in costs.FAMILIES.items()})
    return [_median(text) for text in texts]


def _median(text: str) -> float:
    import xlanb

    parsed = parse(text)
    exe: Any = xlanb.compile(parsed)
    rng = np.random.default_rng(0)
    given = [
        np.asarray(rng.standard_normal(p.array_shape.dimensions) + 2, p.array_shape.element_type.dtype)
        for p in parsed.entry_computation.parameters
    ]
    exe(*given)
    begin = time.perf_counter()
    exe(*given)
    calls = max(1, int(SHORTEST_S / max(time.perf_counter() - begin, 1e-7)))
    seconds = []
    for _ in range(CALLS):
        begin = time.perf_counter()
        for _ in range(calls):
            exe(*given)
        seconds.append((time.perf_counter() - begin) / calls)
    return statistics.median(seconds) * 1e9


def _apart(texts: Texts, changed: dict[str, Value], threads: int) -> list[float]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(_medians, texts, changed, threads).result()


def _least(texts: Texts, settings: Sequence[dict[str, Value]], threads: int) -> list[list[float]]:
    """Return each setting's least nanoseconds per program, over rounds that alternate settings."""
    found = [[math.inf] * len(texts) for _ in settings]
    for _ in range(ROUNDS):
        for k, changed in enumerate(settings):
            found[k] = list(map(min, found[k], _apart(texts, changed, threads)))
    return found


def table() -> pd.DataFrame:
    """Return a row per cost: its unit and the table's value, the measured one, and other values'
    ratios.
    """
    from xlanb.codegen import jit

    _narrowed()
    target = jit.host()
    name = costs.family(target.vector_bits, target.enabled)
    values = costs.FAMILIES[name]
    rows: list[dict[str, object]] = []

    def row(cost: str, **found: object) -> None:
        rows.append({"cost": cost, "unit": costs.unit(cost), name: getattr(values, cost), **found})

    for cost, (texts, solve) in times(target.vector_bits // 32).items():
        row(cost, measured=round(solve(_least(texts, [{}], 1)[0]), 4))
    for trials, threads in ((TRIALS, 1), (SHARED, 2)):
        for cost, (texts, others) in trials.items():
            usual, *changed = _least(texts, [{}, *({cost: v} for v in others)], threads)
            ratios = [statistics.geometric_mean(t / u for t, u in zip(c, usual, strict=True)) for c in changed]
            row(cost, others=", ".join(f"{v:g}: {r:.2f}" for v, r in zip(others, ratios, strict=True)))
    for cost in FACTS:
        row(cost)
    return pd.DataFrame(rows)
