"""HloPass: one rewrite of a module; PassResult: the result of a run; the registry of all passes.

A pass is a frozen dataclass: its class attribute `name` is XLA's string, its fields are its
options, and `apply` rewrites a module in place through the mutators of HloComputation. Giving the
class a name registers it; pass_modules.py says which module to import for it.
"""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Final, final

from xlanb.boundary import internal_error, is_foreign, let_pass
from xlanb.display import Displayable
from xlanb.errors import OutOfMemoryError, PassError, UnknownPassError, XlanbError, nearest
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ModuleRecord
from xlanb.hlo.verifier import verify_layouts
from xlanb.hooks import Hook
from xlanb.lazy_dataclass import dataclass
from xlanb.tracing import because, is_observed
from xlanb.transforms.pass_modules import pass_modules
from xlanb.transforms.purpose import purpose_of
from xlanb.transforms.side_effects import Effects, certain_effects, lost
from xlanb.transforms.verdict import EXACT, Verdict

_SHOWN_LINES = 60
_NO_EFFECTS: Effects = Counter()


@dataclass(frozen=True)
class PassResult(Displayable):
    """The result of one run of a pass; a compilation has some hundred.

    Unlike an xlanb.stage.Stage it has records only if the pass is observed.

    Attributes:
        pipeline: the names of the surrounding pipelines, outermost first.
        iteration: the iteration, from 0, of the innermost surrounding fixed-point loop.
        changed: whether `before` and `after` differ; computed, not reported by the pass.
        before: the module before the pass; the same object as `after` if nothing changed. None if a
            pipeline ran without observers.
        after: the module after the pass, or None as above.
        seconds: wall time.
    """

    name: str
    changed: bool
    seconds: float
    before: ModuleRecord | None = None
    after: ModuleRecord | None = None
    pipeline: tuple[str, ...] = ()
    iteration: int = 0

    def __str__(self) -> str:
        path = "/".join((*self.pipeline, self.name))
        return f"{path}: {'changed' if self.changed else 'no change'} ({self.seconds * 1e3:.2f} ms)"

    def __repr__(self) -> str:
        return f"<PassResult {self}>"


@dataclass(frozen=True)
class HloPass(ABC):
    """A rewrite of a module. Subclasses are final: a name, options as fields, a method `apply`."""

    name: ClassVar[str] = ""
    takes_out: ClassVar[frozenset[str]] = frozenset()
    """Side-effecting custom-call targets that this pass may remove; it must keep all others."""
    triggers: ClassVar[frozenset[HloOpcode] | None] = None
    """The pass is skipped for modules without any of these opcodes. None: run on any module."""
    assigns_layouts: ClassVar[bool] = False
    """Whether modules are layout-sensitive after this pass.

    Operand layouts must then match those of their producers.
    """
    keeps: ClassVar[Verdict] = EXACT
    """What the pass preserves of the computed values: every bit by default."""
    ulps: ClassVar[float] = 0.0
    """The float error allowed after a pass that preserves only real-number equality.

    In units in the last place of the largest magnitude of an array. Tests check it.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            _REGISTRY[cls.name] = cls

    @classmethod
    def defining_function(cls) -> Callable[..., Any]:
        """The function that implements the pass.

        An edit without a rule is attributed to the line of this function's file that is running.
        """
        return cls.apply

    @abstractmethod
    def apply(self, module: HloModule) -> None:
        """Rewrite `module` in place. The caller determines whether anything changed."""

    @final
    def run(self, module: HloModule) -> PassResult:
        """Run over `module`, in place, with every edit caused by this pass.

        Raises:
            PassError: the pass refused the module, or left it broken; the message shows the module.
        """
        return execute(self, module, snapshots=True)

    @property
    def options(self) -> dict[str, Any]:
        """Options that are not at their defaults."""
        fields = dataclasses.fields(self)
        return {f.name: getattr(self, f.name) for f in fields if getattr(self, f.name) != f.default}

    def __str__(self) -> str:
        options = ", ".join(f"{k}={v}" for k, v in self.options.items())
        return f"{self.name}{{{options}}}" if options else self.name


_AFTER_LAYOUTS = frozenset((HloOpcode.FUSION, HloOpcode.BITCAST))


def has_layouts(module: HloModule) -> bool:
    """Whether a module has fusions or bitcasts, which appear only after layout assignment."""
    return not _AFTER_LAYOUTS.isdisjoint(module.opcodes)


def execute(
    hlo_pass: HloPass,
    module: HloModule,
    pipeline: tuple[str, ...] = (),
    iteration: int = 0,
    *,
    snapshots: bool,
    verify: bool = False,
    layouts_count: bool = False,
) -> PassResult:
    """Run one pass: time it, name it as the cause, compute whether it changed anything.

    Without `snapshots` (and without observers) no record is made, and `changed` says whether any
    mutator was called. With `layouts_count`, layouts are verified too.

    Raises:
        PassError: the pass refused the module, or (with `verify`) broke a rule of HLO or lost a
            side effect; then the message shows the module before it too.
    """
    snapshots = snapshots or is_observed()
    given = module.record() if snapshots or verify else None
    effects = certain_effects(module) if verify else _NO_EFFECTS
    before = given if snapshots else None
    version = module.version
    start = time.perf_counter()
    try:
        if hlo_pass.triggers is None or not hlo_pass.triggers.isdisjoint(module.opcodes):
            with because(pass_name=hlo_pass.name, purpose=partial(purpose_of, type(hlo_pass))):
                hlo_pass.apply(module)
        seconds = time.perf_counter() - start
        touched = module.version != version
        if touched:
            _drop_stale_schedule(module)
        if verify and touched and given is not None:
            _check(hlo_pass, module, pipeline, given, effects, layouts_count=layouts_count)
    except PassError:
        raise
    except MemoryError as error:
        why = f": {error}" if str(error) else ""
        where = "/".join((*pipeline, hlo_pass.name))
        raise OutOfMemoryError(f"{where} ran out of memory on {module.name}{why}") from error
    except XlanbError as error:
        path = (*pipeline, hlo_pass.name)
        raise PassError(f"{'/'.join(path)}: {error}\n{_shown(str(module))}", path) from error
    except Exception as error:
        path = (*pipeline, hlo_pass.name)
        note = f"in pass {'/'.join(path)} on\n{_shown(str(module))}"
        if not _is_ours(hlo_pass):
            let_pass(error)
        if not is_foreign(error):
            error.add_note(note)
            raise
        made = internal_error(error, f"run the pass {'/'.join(path)}", path)
        made.add_note(note)
        raise made from error
    after = module.record() if before is not None else None
    changed = touched if before is None else before is not after
    return PassResult(hlo_pass.name, changed, seconds, before, after, pipeline, iteration)


def _is_ours(hlo_pass: HloPass) -> bool:
    return type(hlo_pass).__module__.partition(".")[0] == __name__.partition(".")[0]


def _drop_stale_schedule(module: HloModule) -> None:
    """Make the module unscheduled if its schedule lacks instructions or names removed ones."""
    if any(set(order) != set(c.instructions) for c, order in module.schedule.items()):
        module.clear_schedule()
        module.header.pop("is_scheduled", None)


def _check(
    hlo_pass: HloPass,
    module: HloModule,
    pipeline: tuple[str, ...],
    before: ModuleRecord,
    had: Effects,
    *,
    layouts_count: bool,
) -> None:
    """Raise PassError if a pass broke a rule of HLO or lost a side effect."""
    fault = ""
    try:
        module.verify(executable=True)
        if layouts_count:
            verify_layouts(module)
    except XlanbError as error:
        fault = f"left an invalid module: {error}"
    if not fault and (gone := lost(had, certain_effects(module), hlo_pass.takes_out)):
        fault = f"lost side effects: {', '.join(gone)}"
    if fault:
        path = (*pipeline, hlo_pass.name)
        shown = f"before it:\n{_shown(before.text)}\nafter it:\n{_shown(str(module))}"
        raise PassError(f"{'/'.join(path)} {fault}\n{shown}", path)


def _shown(text: str) -> str:
    """A module's text, cut to a screenful."""
    lines = text.splitlines()
    rest = len(lines) - _SHOWN_LINES
    return "\n".join(lines[:_SHOWN_LINES] + ([f"... {rest} more lines"] if rest > 0 else []))


_REGISTRY: dict[str, type[HloPass]] = {}
higher_passes: Final[Hook[[str], None]] = Hook("transforms.higher_passes")
"""Imports the modules of higher layers that define the named pass; all of them if it is empty."""


class PassRegistry(Mapping[str, type[HloPass]]):
    """Every pass by XLA's name; each class with a name is an entry.

    The first lookup of a name imports the module that defines the pass (see pass_modules.py). A
    lookup of an unknown name, and iteration, import all modules of this package and of higher
    layers.
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._loaded = False

    def _load(self) -> dict[str, type[HloPass]]:
        if not self._loaded:
            from pkgutil import walk_packages

            package = import_module(self._package)
            for found in walk_packages(package.__path__, f"{self._package}."):
                import_module(found.name)
            higher_passes("")
            self._loaded = True
        return _REGISTRY

    def _find(self, name: str) -> type[HloPass] | None:
        if name in _REGISTRY or not name or self._loaded:
            return _REGISTRY.get(name)
        listed = pass_modules().get(name)
        if listed is not None:
            import_module(listed.module)
        else:
            higher_passes(name)
        if name not in _REGISTRY:
            self._load()
        return _REGISTRY.get(name)

    def __getitem__(self, name: str) -> type[HloPass]:
        """The pass of this name.

        Raises:
            UnknownPassError: no pass has this name; the message suggests the nearest names.
        """
        found = self._find(name)
        if found is None:
            raise UnknownPassError(f"no pass {name!r}{nearest(name, self._load())}")
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._load()))

    def __len__(self) -> int:
        return len(self._load())

    def __repr__(self) -> str:
        return f"<{len(self)} passes: {', '.join(self)}>"
