"""Find the main program of a dump: rank modules by the work of one run, helper programs last."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from xlanb.analysis.cost import Cost, cost
from xlanb.analysis.record_cost import BALANCE
from xlanb.dump.reader import DumpFile, DumpStep, ModuleFiles
from xlanb.errors import XlanbError
from xlanb.explorer.dump_trace import dump_trace
from xlanb.explorer.trace import Trace
from xlanb.wording import counted, scaled

_COUNT_BYTES = 64 << 20
"""The largest file whose instructions are counted; for larger ones, the count is estimated."""
_BYTES_PER_INSTRUCTION = 160
_HELPER_INSTRUCTIONS = 12
_HELPER_SHARE = 0.05
"""Below this share of the largest program's work, a small program is a helper."""
_PARSED_INSTRUCTIONS = 30_000
"""Limit of the instructions parsed in one directory to measure work: about a second."""

# JAX's own helper programs: functions with a leading underscore, random keys.
_PRIVATE_HELPERS = re.compile(
    r"(?:jit_)?(?:_?threefry\w*|_?random_\w+|_(?:normal|uniform|truncated_normal|normal_real|gamma|"
    r"bernoulli|categorical|randint|shuffle|permutation|reduce_\w+|argmax|argmin|mean|var|std|where|"
    r"power|multi_slice|broadcast_arrays|take|roll|pad|squeeze|einsum|linspace|cumulative_reduction))"
    r"(?:\.\d+)?"
)
# Programs of single ops called outside jit; a user's function may have such a name too.
_OP_HELPERS = re.compile(
    r"(?:jit_)?_?(?:convert_element_type|broadcast_in_dim|iota|concatenate|copy|reshape|squeeze|"
    r"transpose|dynamic_slice|slice|add|sub|subtract|mul|multiply|div|true_divide|neg|fill|full|"
    r"zeros|ones|eye|less|greater|equal|where|gather|scatter|select_n|multi_slice|device_put|stage|"
    r"unstack|split|integer_pow|fn|IdsToData\w*|SyncTensorsGraph\.\d{1,2})(?:\.\d+)?"
)


@dataclass(frozen=True)
class DumpedModule:
    """One row of a dump's table of modules.

    `before` and `after` are its instruction counts before and after optimization (0: not dumped),
    `work` the cost of one run (None if no HLO could be read, or it took too long), and `why` says
    what the module is.
    """

    files: ModuleFiles
    before: int
    after: int
    is_helper: bool
    why: str = ""
    work: Cost | None = None
    open: Callable[[DumpedModule], Trace] = field(default=lambda m: dump_trace(m.files), repr=False, compare=False)

    @property
    def trace(self) -> Trace:
        """Its compilation, as far as it was dumped: the Trace that `dump[...]` returns."""
        return self.open(self)

    @property
    def name(self) -> str:
        """The module's name, or its number."""
        return self.files.name or f"module_{self.files.number:04d}"

    @property
    def instructions(self) -> int:
        """The instructions of its first or last dump, whichever is larger."""
        return max(self.before, self.after)

    def work_text(self) -> str:
        """Its work: "33.6 Mflop, 1.2 MB a run"; its instructions if unknown."""
        if self.work is None:
            return f"{counted(self.instructions, 'instruction')}, work unknown"
        flops = self.work.flops + self.work.transcendentals
        return f"{scaled(flops, 'flop')}, {scaled(self.work.bytes_accessed, 'B')} a run"


def rank_modules(modules: Iterable[ModuleFiles]) -> list[DumpedModule]:
    """Rank the modules, the main program first, helper programs last, each with the reason.

    Programs are ordered by the work of one run: floating-point operations and bytes, weighted for a
    processor that does sixteen operations in the time of a byte. A module that cannot be read is
    ranked by its instructions among the largest.
    """
    found = _with_work([_described(m) for m in modules])
    most = max((_weight(m) for m in found if not _is_private(m)), default=0.0)
    found = [replace(m, is_helper=_is_helper(m, most)) for m in found]
    found.sort(key=_order)
    return [replace(m, why=_reason(m, k, found), is_helper=m.is_helper and k > 0) for k, m in enumerate(found)]


def _is_private(m: DumpedModule) -> bool:
    return _PRIVATE_HELPERS.fullmatch(m.files.name) is not None


def _is_helper(m: DumpedModule, most: float) -> bool:
    """Whether a module is a helper program; `most` is the work of the largest program."""
    if _is_private(m):
        return True
    if m.instructions > _HELPER_INSTRUCTIONS:
        return False
    if _OP_HELPERS.fullmatch(m.files.name):
        return True
    return m.work is None or _weight(m) < _HELPER_SHARE * most


def _order(m: DumpedModule) -> tuple[bool, bool, float, int, int, int]:
    """Return a sort key: helpers last; a program too large to measure counts as the largest."""
    unmeasured = m.work is None and m.instructions > _PARSED_INSTRUCTIONS
    return (m.is_helper, not unmeasured, -_weight(m), -m.instructions, -m.files.size, m.files.number)


def _weight(m: DumpedModule) -> float:
    if m.work is None:
        return 0.0
    return (m.work.flops + m.work.transcendentals) / BALANCE + m.work.bytes_accessed


def _described(module: ModuleFiles) -> DumpedModule:
    before, after = _ends(module)
    counts = [_count(f) if f is not None else 0 for f in (before, after)]
    return DumpedModule(module, counts[0], counts[1], is_helper=False)


def _ends(module: ModuleFiles) -> tuple[DumpFile | None, DumpFile | None]:
    """Return the first and the last readable dump of a module."""
    first = module.hlo("before_optimizations")
    steps = [s for s in module.steps if s.readable is not None] or module.steps
    before = _file(first) if first is not None else _file(steps[0]) if steps else None
    last = module.hlo("after_optimizations") or module.hlo("after_codegen")
    after = _file(last) if last is not None else _file(steps[-1]) if steps else None
    return before, after


def _file(step: DumpStep) -> DumpFile | None:
    """Return the HLO file of a dump, or its Graphviz graph if the HLO cannot be read."""
    return step.readable or next((f for f in step.files if f.name.extension == "dot"), None)


def _with_work(modules: list[DumpedModule]) -> list[DumpedModule]:
    """Return the modules with their work, largest first, as long as the parsing stays small.

    A single module needs no comparison, so its work is not computed.
    """
    if len(modules) < 2:
        return modules
    left = _PARSED_INSTRUCTIONS
    measured: dict[int, DumpedModule] = {}
    for m in sorted(modules, key=lambda m: (_is_private(m), -m.instructions)):
        wanted = m.before + m.after
        if 0 < wanted <= left:
            left -= wanted
            measured[id(m)] = replace(m, work=_work(m.files))
    return [measured.get(id(m), m) for m in modules]


def _work(module: ModuleFiles) -> Cost | None:
    """Return the cost of one run: the most operations of any dump, and the bytes of the last.

    The last dump knows how often loops run, the first what library calls contain.
    """
    counts = [c for f in dict.fromkeys(_ends(module)) if f is not None and (c := _cost(f)) is not None]
    if not counts:
        return None
    return Cost(
        max(c.flops for c in counts),
        counts[-1].bytes_accessed,
        max(c.transcendentals for c in counts),
    )


def _cost(f: DumpFile) -> Cost | None:
    if f.name.extension == "dot":
        return None
    try:
        return cost(f.read_hlo())
    except XlanbError:
        return None


def _count(f: DumpFile) -> int:
    """Count the instructions of an HLO text, or the nodes of a Graphviz graph.

    An instruction is a line with an equals sign. Does not parse, and estimates the count of a huge
    file.
    """
    if f.name.extension not in ("txt", "hlo", "dot") or f.size > _COUNT_BYTES:
        return max(f.size // _BYTES_PER_INSTRUCTION, 1)
    try:
        return f.read_bytes().count(b"[label=" if f.name.extension == "dot" else b" = ")
    except XlanbError:
        return 0


def _reason(m: DumpedModule, rank: int, ranked: Sequence[DumpedModule]) -> str:
    if rank > 0:
        return _helper_reason(m) if m.is_helper else "program"
    if len(ranked) == 1:
        size = f" ({m.instructions:,} instructions)" if m.instructions else "; no HLO can be read"
        return f"main program: the only one{size}"
    if not m.instructions:
        return "main program: the one with the largest files; no module has parsable HLO"
    if m.is_helper:
        return f"main program: does the most work ({m.work_text()}), although all look like helpers"
    rest = [o for o in ranked[1:] if not o.is_helper]
    next_one = f"the next, {_label(rest[0], ranked)}: {rest[0].work_text()}" if rest else "all others are helpers"
    most = "the most work" if m.work is not None else "the most instructions"
    return f"main program: {most} ({m.work_text()}); {next_one}"


def _label(m: DumpedModule, ranked: Sequence[DumpedModule]) -> str:
    """Return a module's name, with its number if others have the same name."""
    is_shared = sum(o.name == m.name for o in ranked) > 1
    return f"{m.name} (module_{m.files.number:04d})" if is_shared else m.name


def _helper_reason(m: DumpedModule) -> str:
    if _is_private(m):
        return "helper: named after a function inside the framework"
    if _OP_HELPERS.fullmatch(m.files.name):
        return "helper: named after a single op"
    work = f", {m.work_text()}" if m.work is not None else ""
    return f"helper: {counted(m.instructions, 'instruction')} only{work}"
