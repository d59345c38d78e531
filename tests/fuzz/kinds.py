"""The kinds of hostile input of a campaign, each with its generator and its check.

A check returns None if xlanb held (a result, or an XlanbError that says what is wrong), else one
line: the class of the find, a colon, and details. It may crash or never return: the driver runs it
in a child process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

Item = str | bytes
Mutants = Callable[[np.random.Generator], Iterator[Item]]
Check = Callable[[Item, np.random.Generator], str | None]


def _nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Kind:
    """One kind of input: `mutants(rng)` generates inputs endlessly, `check(item, rng)` judges one.

    A campaign passes a random `share` of the inputs to `check` and the others to `quick`, which
    checks less in less time. `prepare` is called once before children are forked.
    """

    name: str
    suffix: str
    mutants: Mutants
    check: Check
    quick: Check | None = None
    share: float = 1.0
    prepare: Callable[[], object] = _nothing

    def check_for(self, rng: np.random.Generator) -> Check:
        """The check for the next input of a campaign."""
        return self.check if self.quick is None or rng.random() < self.share else self.quick

    @property
    def is_text(self) -> bool:
        """Whether its inputs are str; otherwise they are bytes."""
        return self.suffix in {".hlo", ".mlir", ".pbtxt", ".json"}

    def read(self, data: bytes) -> Item:
        """The input stored in a file."""
        return data.decode("utf-8", "surrogatepass") if self.is_text else data


@cache
def kinds() -> dict[str, Kind]:
    """All kinds by name."""
    from tests.fuzz import (
        archives,
        bomb_check,
        bombs,
        checkpoints,
        dumps,
        graphdefs,
        hlo_edits,
        hlo_proto,
        hlo_text,
        notebooks,
        stablehlo_text,
    )
    from tests.fuzz.hlo_check import EXECUTED

    found = [
        Kind("executable", ".xlanb", archives.mutants, archives.check),
        Kind("hlo", ".hlo", hlo_text.mutants, hlo_text.check, hlo_text.quick, EXECUTED, hlo_edits.vocabulary),
        Kind("proto", ".pb", hlo_proto.mutants, hlo_proto.check, hlo_proto.quick, EXECUTED, hlo_proto.seeds),
        Kind("random-module", ".hlo", hlo_text.modules, hlo_text.check),
        Kind("bomb", ".hlo", bombs.mutants, bomb_check.check),
        Kind("dump", ".json", dumps.mutants, dumps.check, dumps.quick, 0.02, dumps.prepare),
        Kind(
            "stablehlo",
            ".mlir",
            stablehlo_text.mutants,
            stablehlo_text.check,
            stablehlo_text.quick,
            EXECUTED,
            stablehlo_text.seeds,
        ),
        Kind("graphdef", ".pb", graphdefs.mutants, graphdefs.check, graphdefs.quick, 0.02, graphdefs.prepare),
        Kind(
            "graphdef_text", ".pbtxt", graphdefs.text_mutants, graphdefs.check, graphdefs.quick, 0.02, graphdefs.prepare
        ),
        Kind("message", ".json", notebooks.messages, notebooks.check_messages),
        Kind("magic", ".json", notebooks.magics, notebooks.check_magics, prepare=notebooks.prepare),
        Kind("checkpoint", ".ckpt", checkpoints.mutants, checkpoints.check),
    ]
    return {k.name: k for k in found}
