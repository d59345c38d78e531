"""Random HLO modules that XLA's rules allow.

    random_module(numpy.random.default_rng(0)) -> HLO text, parsed and verified

A module has one to six instructions of the families below, each of which takes existing values or
new parameters; with conversions, broadcasts and layouts there are many more. Dimensions are around
vector widths, primes, 0 and 1, and sometimes long ones that threads share. Types are all array
types except 1-bit integers. Layouts are any permutation, of instructions and of the entry. Results
are one array or a tuple of several.

    random_data      elementwise on real and complex numbers, comparisons, conversions, broadcast,
                     iota, transpose, copy, reshape, reverse, slice, pad (negative, interior),
                     concatenate, dynamic-slice, dynamic-update-slice, gather, scatter
    random_numeric   reduce (of one array, of pairs), values per row, select-and-scatter, dot,
                     reduce-window (cumulative, larger than the array, dilated), convolution, sort,
                     topk, fft, cholesky, triangular-solve, LAPACK's custom calls, batch
                     normalization
    random_control   fusion, while (with updates in place), conditional, call, map

Not covered: dynamic shapes, collectives, random numbers, infeed and outfeed, sparse and ragged
products, scan, asynchronous pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.fuzz import random_control, random_data, random_numeric
from tests.fuzz.random_writer import Value, Writer
from xlanb.errors import XlanbError
from xlanb.hlo import parse

Family = Callable[[Writer], Value]
FAMILIES: tuple[Family, ...] = (*random_data.FAMILIES, *random_numeric.FAMILIES, *random_control.FAMILIES)
"""The kinds of instructions, the frequent ones several times."""
_TRIES = 50


def random_module(rng: np.random.Generator, families: Sequence[Family] = FAMILIES) -> str:
    """The text of a module that parses and verifies; depends only on the state of `rng`.

    Raises:
        RuntimeError: None of 50 drafts was a valid module.
    """
    error: XlanbError | None = None
    for _ in range(_TRIES):
        text = draft(rng, families)
        try:
            parse(text).verify()
        except XlanbError as refused:
            error = refused
        else:
            return text
    raise RuntimeError(f"{_TRIES} random modules were refused, the last one with: {error}")


def draft(rng: np.random.Generator, families: Sequence[Family] = FAMILIES) -> str:
    """The text of a module that is probably valid."""
    w = Writer(rng)
    made = [w.pick(families)(w) for _ in range(w.pick((1, 1, 1, 2, 2, 3, 4, 6)))]
    roots = list(dict.fromkeys([made[-1], *(v for v in made if v not in w.used)]))[:4]
    layouts = [w.layout(v.rank) if w.chance(0.3) else v.layout for v in roots]
    results = [Value(v.name, v.type, v.dims, order) for v, order in zip(roots, layouts, strict=True)]
    given = [Value(p.name, p.type, p.dims, w.layout(p.rank) if w.chance(0.1) else p.layout) for p in w.parameters]
    if len(roots) == 1 and w.chance(0.8):
        result, entry = results[0].text, w.computation_of("ENTRY main", roots[0].name)
    else:
        result = f"({', '.join(v.text for v in results)})"
        w.line("out", f"({', '.join(v.text for v in roots)})", "tuple", roots)
        entry = w.computation_of("ENTRY main", "out")
    layout = f"{{({', '.join(p.text for p in given)})->{result}}}"
    return "\n".join([f"HloModule random, entry_computation_layout={layout}", "", *w.beside.values(), entry])
