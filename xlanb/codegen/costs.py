"""Cost models of the emitters: times, and thresholds between implementations, by CPU family.

Names end in their unit: `_ns` nanoseconds of one thread, `_bytes`, `_elements`, `_cycles`, ...
Times are for data in the L2 cache. `python -m benchmarks costs` measures the times again, and tries
other values of the sizes on programs that depend on them. The values here are those of a 2.x GHz
AMD server core with AVX-512 (2023), for the families of narrower vectors with its wider ones
disabled; those of "avx512fp16" differ where an Intel server core (Emerald Rapids) was measured, and
those of "avxvnni" where an AMD server core of 2024 (Zen 5) was.

Scratch memory is assigned before the machine is known, so a size that affects it must be the same
in all families (`COMMON`); those in `BY_FAMILY` may differ.
"""

from __future__ import annotations

from typing import Any


class Costs:
    """The times and sizes of one family."""

    # -- threads
    wake_ns: float = 25_000.0
    """The least work that justifies waking a thread."""
    repeated_wake_ns: float = 8_000.0
    """The same in a loop of the program: threads still spin after its previous iteration."""
    part_ns: float = 8_000.0
    """The smallest part worth claiming, beyond one per thread."""
    repeated_part_ns: float = 2_000.0
    """The same for work below `wake_ns`."""
    spread_copy_bytes: int = 16 << 10
    """A copy of this many bytes is shared in a loop by the threads that wrote them."""
    parts_per_thread: int = 8
    """Parts per thread into which a loop is divided, so that late threads do fewer."""

    # -- elements
    byte_ns: float = 0.05
    """Reading or writing a byte."""
    near_byte_ns: float = 0.0125
    """The same in a loop of the program, whose arrays stay in the cache between iterations."""
    far_byte_ns: float = 0.03
    """Reading a byte of an array that exceeds `near_bytes`, if nothing is computed."""
    near_bytes: int = 1 << 19
    """The size in bytes of an array that stays in the L2 cache between calls."""
    operation_ns: float = 0.02
    """An arithmetic operation on an element, in vectors."""
    function_ns: float = 0.4
    """A transcendental function of an element, in vectors."""
    moved_element_ns: float = 0.1
    """Copying an element of a line: a matrix product's operand, a padded input."""
    turned_byte_ns: float = 0.03
    """Moving a byte in a copy: of a line, or of a matrix transposed in registers."""
    block_elements: int = 4096
    """Elements of a line, or of several short ones, that a copy moves at once."""
    band_elements: int = 1024
    """Columns of a transpose that are completed before the next rows."""
    shared_update_bytes: int = 4 << 20
    """A scatter's updates of this many bytes are shared by threads, each a piece of each row."""
    update_piece_bytes: int = 256
    """The least piece of a row for that."""
    updated_element_ns: float = 0.3
    """Combining an element of a scatter's update with the operand."""
    plain_loop_elements: int = 32
    """A loop over this few elements needs neither vectors nor LLVM's passes."""
    gathered_rows: int = 8
    """Rows of a gather that are read together."""
    tile_elements: int = 64
    """The side of a tile in a fusion that reads one operand by rows and another by columns."""
    tiles_across: int = 4
    """Tiles of a transpose in a row before the next row of tiles, to reuse their pages."""
    paged_tiles_across: int = 2
    """The same if the target's lines share few sets of the caches."""
    paged_transpose_bytes: int = 1 << 24
    """The most bytes of such a target: a larger one is in no cache."""
    tiled_elements: int = 256
    """The least number of elements for which tiles are used."""

    # -- reductions
    vector_sum_elements: int = 4
    """The most elements of a sum that is not vectorized."""
    shared_sum_elements: int = 1 << 16
    """The least number of elements for which a full reduction may use several threads."""
    shared_loss_elements: int = 1 << 6
    """The same for one whose operand is computed in the same kernel."""
    function_elements: int = 8
    """The least number of results for which a function of reduced rows has a loop of its own."""
    row_vectors: int = 12
    """Vectors of a row from which on a routine's loops cost no more than code for that length."""
    called_elements: int = 4096
    """The least number of elements of each of several arrays for a routine call."""
    called_rows: int = 8
    """The least number of rows for a call of a routine over columns."""
    stretch_bytes: int = 4096
    """The least bytes that a thread reads of each row.

    Shorter runs are not prefetched, so that two threads are slower than one.
    """
    banded_bytes: int = 1 << 19
    """The least size in bytes of an array that may be split into bands of rows."""
    joined_row_bytes: int = 256
    """Rows shorter than this, in bytes, are processed several at a time."""
    multiplied_elements: int = 32
    """Elements per sum from which on the sums are multiplied after all are complete."""
    vector_pair_elements: int = 32
    """The least number of pairs (argmax, ...) in a row for which it is vectorized."""

    # -- scans and windows
    scan_step_ns: float = 1.5
    """A step of a scan over a vector of columns."""
    scan_vector_ns: float = 3.0
    """A vector of a scan along a row; each remaining element takes a third of it."""
    scan_row_ns: float = 10.0
    """Overhead of a row of a scan."""
    scan_element_ns: float = 4.0
    """An element of a scan by any function; half as much again for 8- and 16-bit floats."""
    written_out_vectors: int = 18
    """Vectors of a window up to which they are unrolled.

    A loop costs the code generator as much as forty lines.
    """
    staged_row_bytes: int = 1 << 18
    """The longest row of windows, in bytes, that is copied to the stack."""

    # -- sorts
    comparison_ns: float = 6.0
    """A comparison of a merge sort, by any function."""
    counted_elements: int = 96
    """The longest lines that are sorted by counting smaller elements."""
    counted_element_ns: float = 10.0
    """An element of a line that is sorted by counting."""
    counted_pair_ns: float = 0.1
    """A pair of elements of such a line."""
    wide_digit_elements: int = 3000
    """The shortest lines that are radix-sorted by 11 bits instead of 8."""
    digit_element_ns: float = 2.0
    """An element in a round by one digit; as much again for its key and its payload."""
    digit_count_ns: float = 0.5
    """A count in a round; there is one for each value of a digit."""
    selected_element_ns: float = 1.0
    """An element scanned by top_k, with keys of up to 32 bits."""
    selected_wide_ns: float = 12.0
    """The same for wider keys."""
    kept_element_ns: float = 20.0
    """An element of top_k's buffer, sorted at the end."""
    recorded_elements: int = 8192
    """The longest line that top_k scans repeatedly, with a record per element."""

    # -- matrix products and convolutions
    written_products: int = 512
    """The least number of products for which a result is written to memory for its users."""
    cycle_ns: float = 0.25
    """A cycle, approximately."""
    tile_cycles: float = 24.0
    """Overhead of a tile: the call, the position."""
    row_cycles: float = 0.0
    """The time of loading an element of a row of a, beyond that of the multiply-adds."""
    first_cache_sets: int = 64
    """Sets of the L1 data cache, with lines of 64 bytes."""
    first_cache_ways: int = 8
    """Ways of the L1 data cache."""
    crowded: float = 0.2
    """Relative slowdown for each row of a tile that exceeds a set's ways."""
    streams: int = 8
    """Rows of a tile that the hardware prefetches as separate streams."""
    stream_bytes: int = 512
    """Rows at least this far apart are separate streams."""
    scattered: float = 1.07
    """Relative time of a tile with more streams."""
    block_bytes: int = 512 << 10
    """Bytes of a's rows that all columns use before the next rows; they fit the L2 cache."""
    panel_bytes: int = 640 << 10
    """The largest panel of b: a 3x3 window over 512 features, which fits the L2 cache.

    It is on a thread's stack.
    """
    rowdot_rows: int = 16
    """The most rows for which transposing b costs more than sums along depth."""
    copied_rows: int = 448
    """Rows from which on a large b is copied even if it could be read in place.

    Its lines are then aligned, and not a multiple of a page apart.
    """
    copied_panel_rows: int = 32
    """The same if only a panel of it is copied at a time."""
    copied_bytes: int = 3 << 19
    """The least size of a large b."""
    blocked_rows: int = 32
    """The least number of rows, and of columns, of a product that may be packed in blocks."""
    blocked_results: int = 1 << 16
    """The least number of elements of its result."""
    blocked_bytes: int = 1 << 23
    """The size of b from which on it is: panels over all of depth would not read it in order."""
    strip_rows: int = 64
    """The most rows of a product whose large b is read in strips of long lines."""
    paged_strip_rows: int = 48
    """The same if each line of b is on pages of its own."""
    strip_bytes: int = 1 << 22
    """The least size of such a b."""
    across_columns: int = 64
    """Columns from which on the product of a transposed matrix and another is packed in blocks."""
    across_products: int = 3 << 24
    """Products from which on it is."""
    blocked_byte_products: int = 1 << 17
    """The least number of byte products that are packed in blocks."""
    tiled_rows: int = 8
    """The least number of rows, and of columns, of a product of bf16 or bytes in AMX's tiles."""
    tiled_products: int = 1 << 16
    """The least number of its products."""
    huge_products: int = 1 << 32
    """Products from which on blocks are always used."""
    paged_rows: int = 128
    """Rows, and columns, from which on lines of b a multiple of a page apart are packed."""
    paged_products: int = 1 << 24
    """Products from which on they are."""
    stretch_lanes: int = 512
    """The depth of blocks, in lanes of 32 or 64 bits."""
    independent_sums: int = 8
    """Independent sums needed to hide the latency of multiply-adds."""

    # -- linear algebra
    small_matrix_rows: int = 256
    """The most rows or columns, the lesser of both, for which QR and eigenvalues have kernels.

    Beyond it, LAPACK's blocks are faster.
    """
    interleaved_elements: int = 2560
    """The most elements of a small matrix for which several of them fit the caches."""
    serial_flops: float = 3e7
    """The most operations of a factorization for which LAPACK uses one thread.

    OpenBLAS's threads wait for one another often: with a busy core, those of a larger one take half
    as long again, and on an idle machine 0.8 of the time.
    """
    serial_iteration_flops: float = 1e8
    """The same for an iteration for eigenvalues or singular values."""

    # -- Fourier transforms
    prime_pass_ns: float = 0.7
    """A pass of a prime without a butterfly, per number in lanes and unit of the prime."""
    beside_ns: float = 1.2
    """Copying a number of interleaved lines to lanes, or from them."""
    interleaved_ns: float = 2.2
    """The same for contiguous lines."""
    lane_elements: int = 4160
    """The longest line, in numbers, that is transformed in lanes; scratch holds it twice."""
    wider_lanes: int = 16
    """The factor by which it may be longer if lines interleave.

    A single such line would be collected from as many cache lines.
    """
    shared_lines: int = 4
    """If there are fewer lines than this, threads may share each line."""
    shared_line_ns: float = 60_000.0
    """The least time of a line for that."""

    def __init__(self, **changes: float) -> None:
        """`changes` are the fields that differ from the defaults.

        Raises:
            TypeError: there is no such field.
        """
        for name, value in changes.items():
            if name not in Costs.__annotations__:
                raise TypeError(f"Costs has no field {name!r}")
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"costs are not changed: use replace({name}=...)", name=name, obj=self)

    def replace(self, **changes: float) -> Costs:
        """A copy with some fields changed."""
        return Costs(**{**vars(self), **changes})


COMMON = Costs()
"""The table of an unknown machine; used for decisions that must not depend on the machine."""

BY_FAMILY = frozenset(
    (
        "byte_ns", "near_byte_ns", "far_byte_ns", "near_bytes", "operation_ns", "function_ns", "moved_element_ns",
        "turned_byte_ns", "part_ns", "wake_ns", "vector_pair_elements", "cycle_ns", "tile_cycles", "row_cycles",
        "block_bytes", "first_cache_sets", "first_cache_ways", "crowded", "scattered", "independent_sums",
    )
)  # fmt: skip
"""Fields that may differ between families."""

_WIDE = COMMON.replace(vector_pair_elements=64)
"""The table of machines with vectors of 512 bits."""

FAMILIES: dict[str, Costs] = {
    "avx512fp16": _WIDE.replace(row_cycles=0.8, first_cache_ways=12),  # Intel's cores since 2023
    "avxvnni": _WIDE.replace(row_cycles=0.45, first_cache_ways=12, wake_ns=12_000.0),  # AMD's since 2024
    "avx512": _WIDE,
    "avx2": COMMON,
    "other": COMMON,
}


def family(vector_bits: int, enabled: frozenset[str]) -> str:
    """The family of a machine with this vector width in bits and these features."""
    if vector_bits == 512:
        return next((name for name in ("avx512fp16", "avxvnni") if name in enabled), "avx512")
    return "avx2" if "avx2" in enabled else "other"


UNITS = ("ns", "bytes", "elements", "cycles", "rows", "vectors", "products", "lines", "sums")


def unit(name: str) -> str:
    """The unit of a field, from the end of its name; empty for a plain number."""
    end = name.rsplit("_", 1)[-1]
    return end if end in UNITS else ""


NAMES = tuple(Costs.__annotations__)
