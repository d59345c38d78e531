"""Cost models of the emitters: times, and thresholds between implementations, in one table for each
family of CPUs.

Names end in their unit: `_ns` nanoseconds of one thread, `_bytes`, `_elements`, `_cycles`, ... Times are those of data in the second-level cache. `python -m benchmarks costs`
measures the times anew, and tries other values of the sizes on programs that depend on them; the values here are those of a 2.x GHz server core with AVX-512 (2023), the other families
with that core's wider vectors switched off.

Scratch memory is assigned before the machine is known, so a size that decides about it is the same in all families (`COMMON`); those of `BY_FAMILY` may differ.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Costs:
    """The times and sizes of one family."""

    # -- threads
    wake_ns: float = 25_000.0
    """Work from which on it pays to wake a thread."""
    part_ns: float = 8_000.0
    """The smallest part that is worth claiming, beyond one for each thread."""
    parts_per_thread: int = 8
    """Parts that a loop is cut into, so that a thread that comes late does fewer."""

    # -- elements
    byte_ns: float = 0.05
    """Reading or writing a byte."""
    operation_ns: float = 0.02
    """An operation of arithmetic on an element, in vectors."""
    function_ns: float = 0.4
    """A transcendental function of an element, in vectors."""
    moved_element_ns: float = 0.1
    """Copying an element of a line: a matrix product's operand, a padded input."""
    turned_byte_ns: float = 0.03
    """Moving a byte of a copy: of a line, or of a matrix whose rows become columns, in registers."""
    block_elements: int = 4096
    """Elements of a line, or of several short ones, that a copy moves at once."""
    band_elements: int = 1024
    """Columns of a transpose that are done before the next rows."""
    updated_element_ns: float = 0.3
    """Combining an element of a scatter's update with what is there."""
    plain_loop_elements: int = 32
    """A loop over so few elements needs neither vectors nor LLVM's passes."""
    gathered_rows: int = 4
    """Rows of a gather that are read side by side."""
    tile_elements: int = 64
    """The side of a tile of a fusion that reads one operand by rows and another by columns."""
    tiles_across: int = 4
    """Tiles of a transpose that are done side by side before the next row of them: their pages are met again."""
    tiled_elements: int = 256
    """Elements from which on an array is worth tiles."""

    # -- reductions
    vector_sum_elements: int = 4
    """Maximum number of elements of a sum that is not vectorized."""
    shared_sum_elements: int = 1 << 16
    """Minimum number of elements for which a full reduction may use several threads."""
    row_vectors: int = 6
    """Vectors of a row from which on the loops of a routine cost no more than code for its length."""
    called_elements: int = 1024
    """Elements of each of several arrays that are worth a call of a routine."""
    called_rows: int = 8
    """Rows that a routine over columns is worth a call for."""
    stretch_bytes: int = 4096
    """What a thread reads of each row at the least: shorter stretches are not prefetched, so that two threads are slower than one."""
    banded_bytes: int = 1 << 19
    """Minimum size in bytes of an array that may be split into bands of rows."""
    joined_row_bytes: int = 256
    """Rows shorter than this are taken several at a time."""
    multiplied_elements: int = 32
    """Elements of each sum from which on it is multiplied when all of them are there."""
    vector_pair_elements: int = 32
    """Pairs (argmax, ...) of a row from which on it is worth vectors, whose lanes are joined at the end."""

    # -- scans and windows
    scan_step_ns: float = 1.5
    """A step of a scan over a vector of columns."""
    scan_vector_ns: float = 3.0
    """A vector of a scan along a row, and an element of what is left takes a third of it."""
    scan_row_ns: float = 10.0
    """What a row of a scan takes besides."""
    scan_element_ns: float = 4.0
    """An element of a scan by any function; half as much again of 8- and 16-bit floats."""
    written_out_vectors: int = 18
    """Vectors of a window up to which they are written one after the other: a loop costs the code generator as much as forty lines."""
    staged_row_bytes: int = 1 << 15
    """The longest row of windows that is put on the stack."""

    # -- sorts
    comparison_ns: float = 6.0
    """A comparison of a merge sort, by any function."""
    counted_elements: int = 64
    """Maximum length of lines that are sorted by counting the elements before each."""
    counted_element_ns: float = 10.0
    """An element of a line that is sorted by counting."""
    counted_pair_ns: float = 0.1
    """A pair of elements of such a line."""
    wide_digit_elements: int = 3000
    """Minimum length of lines that are radix-sorted by 11 bits instead of 8."""
    digit_element_ns: float = 2.0
    """An element in a round by one digit; as much again to read its key and to write what belongs to it."""
    digit_count_ns: float = 0.5
    """A count of a round: one for each value of a digit."""
    selected_element_ns: float = 1.0
    """An element of a line that top_k looks through, of keys of up to 32 bits."""
    selected_wide_ns: float = 12.0
    """The same of wider keys."""
    kept_element_ns: float = 20.0
    """An element of top_k's buffer, sorted at the end."""
    recorded_elements: int = 8192
    """Maximum length of a line that top_k scans repeatedly, with a record per element."""

    # -- matrix products and convolutions
    written_products: int = 512
    """Products from which on it pays to write a result to memory for others to read."""
    cycle_ns: float = 0.25
    """A cycle, about."""
    tile_cycles: float = 24.0
    """What each tile takes besides its products: the call, the position."""
    first_cache_sets: int = 64
    """Sets of the first-level data cache, of lines of 64 bytes."""
    first_cache_ways: int = 8
    """Ways of the first-level data cache."""
    crowded: float = 0.2
    """Time more, as a part of the whole, for each row of a tile more than a set has room for."""
    streams: int = 8
    """Rows of a tile that are fetched ahead as streams of their own."""
    stream_bytes: int = 512
    """Rows that are so far apart are such streams."""
    scattered: float = 1.07
    """How much longer a tile of more streams takes."""
    block_bytes: int = 512 << 10
    """Of a's rows that all columns pass over before the next ones come: they stay in the second-level cache."""
    panel_bytes: int = 640 << 10
    """The largest panel of b: that of a 3x3 window over 512 features, which the second-level cache holds. It lies on a thread's stack."""
    rowdot_rows: int = 8
    """Maximum number of rows for which transposing b costs more than sums along depth."""
    copied_rows: int = 448
    """Rows from which on a large b is copied even if it could be read as it lies: its lines are then aligned, and not a multiple of a page apart."""
    copied_panel_rows: int = 32
    """The same where no more than a panel of it is copied at a time."""
    copied_bytes: int = 3 << 19
    """What counts as a large b."""
    blocked_rows: int = 32
    """Rows, and columns, from which on a product may be packed in blocks."""
    blocked_results: int = 1 << 16
    """Elements of its result from which on it may."""
    blocked_byte_products: int = 1 << 20
    """Products of bytes from which on it is."""
    huge_products: int = 1 << 32
    """Products from which on it always is."""
    paged_rows: int = 128
    """Rows, and columns, from which on lines of b that lie pages apart are packed in blocks."""
    paged_products: int = 1 << 24
    """Products from which on they are."""
    stretch_lanes: int = 512
    """The depth of blocks, in lanes of 32 or 64 bits."""
    independent_sums: int = 8
    """Sums that must be under way at once so that a unit does not wait for its own results."""

    # -- linear algebra
    small_matrix_rows: int = 160
    """Rows or columns, the fewer of both, up to which QR and eigenvalues have kernels: beyond, LAPACK's blocks pay."""
    interleaved_elements: int = 640
    """Elements of a small matrix up to which several of them side by side stay in the caches."""
    serial_flops: float = 5e8
    """Operations of a factorization of one matrix up to which LAPACK has one thread: OpenBLAS's wait for one another too often to be of use."""
    serial_iteration_flops: float = 1e10
    """The same of an iteration for eigenvalues or singular values."""

    # -- Fourier transforms
    prime_pass_ns: float = 0.7
    """A pass of a prime without a butterfly, for each number of a line in lanes and unit of the prime."""
    beside_ns: float = 1.2
    """Copying a number of lines that interleave into lanes, or out of them."""
    interleaved_ns: float = 2.2
    """The same of lines one after the other."""
    lane_elements: int = 4160
    """Numbers of a line up to which lines are in lanes: scratch holds them twice."""
    wider_lanes: int = 16
    """How many times as many where lines interleave: by itself each would be collected from as many cache lines."""
    shared_lines: int = 4
    """Fewer lines than this may be shared by threads, each line by all of them."""
    shared_line_ns: float = 60_000.0
    """The time of a line from which on it is."""


COMMON = Costs()
"""The table of a machine of which no more is known; what is decided before there is a machine is decided by it."""

BY_FAMILY = frozenset(
    (
        "byte_ns", "operation_ns", "function_ns", "moved_element_ns", "turned_byte_ns", "part_ns", "cycle_ns", "tile_cycles",
        "block_bytes", "first_cache_sets", "first_cache_ways", "crowded", "scattered", "independent_sums",
    )
)  # fmt: skip
"""What may differ from family to family."""

FAMILIES: dict[str, Costs] = {"avx512": COMMON, "avx2": COMMON, "other": COMMON}


def family(vector_bits: int, enabled: frozenset[str]) -> str:
    """The family of a machine with this vector width in bits and these features."""
    if vector_bits == 512:
        return "avx512"
    return "avx2" if "avx2" in enabled else "other"


UNITS = ("ns", "bytes", "elements", "cycles", "rows", "vectors", "products", "lines", "sums")


def unit(name: str) -> str:
    """The unit of a field: the end of its name; empty for a plain number."""
    end = name.rsplit("_", 1)[-1]
    return end if end in UNITS else ""


NAMES = tuple(field.name for field in fields(Costs))
