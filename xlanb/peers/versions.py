"""Properties of the real XLA by its version, which is that of JAX: one table."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlanb.errors import XlanbError
from xlanb.frontends.jax import import_jax


@dataclass(frozen=True)
class RealXla:
    """The behaviour of XLA since a release of JAX."""

    since: tuple[int, ...]
    """The first release of JAX that has it."""

    text_form: str
    """The form of `HloModule.to_string` in which it prints modules."""

    pipeline: str
    """The name of its order of passes, as `xlanb.cpu.pipeline(xla=...)` takes it."""

    dump_flags: str
    """XLA_FLAGS to dump kernels' LLVM IR; before 0.12 it is always dumped, and the flag crashes
    XLA.
    """

    compares_by_order: bool
    """Whether its messages contain a comparison's order instead of its type."""

    sparse_dots: bool
    """Whether its messages contain the sparsity of dots, even if empty."""


VERSIONS: tuple[RealXla, ...] = (
    RealXla((0, 10), "canonical", "0.10.2", "", compares_by_order=False, sparse_dots=False),
    RealXla((0, 12), "0.12", "0.12", "--xla_dump_emitter_re=.*", compares_by_order=True, sparse_dots=True),
)
"""Oldest first."""


def of_release(release: str) -> RealXla:
    """The row of a release of JAX, `"0.12.0.1"`.

    Raises:
        XlanbError: it is no release, or older than the first row.
    """
    found = re.match(r"\d+(?:\.\d+)*", release)
    if found is None:
        raise XlanbError(f"expected a release of JAX such as 0.12.0, not {release!r}")
    numbers = tuple(int(n) for n in found[0].split("."))
    rows = [row for row in VERSIONS if row.since <= numbers]
    if not rows:
        oldest = ".".join(map(str, VERSIONS[0].since))
        raise XlanbError(f"JAX {release} is too old: install {oldest} or newer")
    return rows[-1]


def installed() -> RealXla:
    """The row of the JAX that is installed.

    Raises:
        MissingPeerError: JAX is not installed.
    """
    return of_release(str(import_jax("jaxlib").__version__))
