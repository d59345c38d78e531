"""DumpWriter: an observer that writes a compilation as --xla_dump_to does, under XLA's names.

`before_optimizations` and `cpu_after_optimizations` are always written. Dumps between passes are
written if --xla_dump_hlo_pass_re matches the pass before or after (exactly `.*` omits passes that
changed nothing; other expressions do not). Each has the forms that
--xla_dump_hlo_as_{text,proto,dot,html,url} request, by default text. Then follow the buffer
assignment, LLVM IR and assembly. Without a directory, text goes to standard output. Source of the
rules: xla/service/dump.cc.
"""

from __future__ import annotations

import fnmatch
import gzip
import re
import sys
import threading
import time
import warnings
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Final

from xlanb.buffers import report
from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.debug_options import DebugOptions
from xlanb.dump.names import DumpName, encode_name
from xlanb.errors import DumpError, FlagError
from xlanb.hlo.module import HloModule
from xlanb.hlo.records import ModuleRecord
from xlanb.hooks import Hook
from xlanb.stage import Stage
from xlanb.tracing import CompilationStarted, Event, StageFinished, observing

_NUMBERS = count()
_CODE = {"llvm_ir": "ir-no-opt.ll", "llvm_ir_optimized": "ir-with-opt.ll", "assembly": "s"}

dot_source: Final[Hook[[ModuleRecord], str]] = Hook("dump.dot_source")
"""Returns a module as text in Graphviz' language."""

html_page: Final[Hook[[ModuleRecord], str]] = Hook("dump.html_page")
"""Returns a module as a self-contained page."""


@dataclass
class _Module:
    """The state of one module being dumped."""

    number: int
    name: str
    started: int
    steps: int = 0
    path: tuple[str, ...] = ()
    pending: Stage | None = None
    changed: dict[str, bool] = field(default_factory=dict)
    last: ModuleRecord | None = None


class DumpWriter:
    """Writes the dumps of every compilation that it observes; `paths` are the files written so far.

    A file that cannot be written is an error, because a silently missing dump would cost more.
    """

    def __init__(self, options: DebugOptions) -> None:
        self.options = options
        self.paths: list[Path] = []
        self.directory = Path(options.xla_dump_to) if options.xla_dump_to not in ("", "-") else None
        self._modules: dict[int, _Module] = {}
        self._names: dict[int, str] = {}
        self._dumped = 0
        self._lock = threading.Lock()
        self._module_re = _compiled("xla_dump_hlo_module_re", options.xla_dump_hlo_module_re or ".*")
        self._pass_re = _compiled("xla_dump_hlo_pass_re", options.xla_dump_hlo_pass_re)
        self._pipeline_re = _compiled("xla_dump_hlo_pipeline_re", options.xla_dump_hlo_pipeline_re)

    def on_event(self, event: Event) -> None:
        """Handle one event of the compiler.

        Raises:
            DumpError: a file cannot be written.
        """
        with self._lock:
            if isinstance(event, CompilationStarted):
                self._names[event.key] = event.name
            elif isinstance(event, StageFinished):
                self._stage(event.compilation, event.stage)

    # -- stages to files ---------------------------------------------------------------------------

    def _stage(self, key: int, stage: Stage) -> None:
        if stage.kind in ("hlo", "tf2xla") and isinstance(stage.after, ModuleRecord):
            self._begin(key, stage.after)
            return
        module = self._modules.get(key)
        if module is None:
            return
        if stage.kind == "hlo_pass":
            self._pass(module, stage)
            return
        self._finish_passes(module)
        if stage.kind == "schedule" and isinstance(stage.after, ModuleRecord):
            self._hlo(module, stage.after, DumpName("fixed", label="cpu_after_optimizations"))
        elif isinstance(stage.after, BufferAssignmentRecord):
            self._buffers(module, stage.after)
        elif stage.kind in _CODE:
            self._write(module, DumpName("fixed", label=_CODE[stage.kind]), stage.after.text)

    def _begin(self, key: int, record: ModuleRecord) -> None:
        limit = self.options.xla_dump_max_hlo_modules
        if not self._module_re.search(record.name) or 0 <= limit <= self._dumped:
            return
        self._dumped += 1
        module = _Module(next(_NUMBERS), record.name, time.time_ns() // 1000, last=record)
        self._modules[key] = module
        self._hlo(module, record, DumpName("fixed", label="before_optimizations"))
        self._write(module, DumpName("fixed", label="debug_options"), _options_text(self.options))

    def _pass(self, module: _Module, stage: Stage) -> None:
        """Handle a pass: dump the pending one, whose next pass is now known."""
        path = tuple(p for p in stage.pipeline if not p.startswith("round "))
        path = path[1:] or path  # the outermost contains XLA's pipelines, which run in sequence
        if module.pending is not None:
            self._leave(module, path, stage.name)
        returns = module.path[: len(path)] == path
        again = module.path == path and module.pending is not None and stage.pipeline != module.pending.pipeline
        if path and isinstance(stage.before, ModuleRecord) and (again or not returns):
            self._between(module, stage.before, path[-1], "pipeline-start", stage.name, changed=True)
        module.path, module.pending = path, stage
        if stage.changed:
            module.changed.update(dict.fromkeys(path, True))
        if isinstance(stage.after, ModuleRecord):
            module.last = stage.after

    def _leave(self, module: _Module, path: tuple[str, ...], following: str) -> None:
        """Dump the pending pass, and each pipeline that ended with it."""
        pending = module.pending
        if pending is None:
            return
        shared = 0
        while shared < min(len(path), len(module.path)) and path[shared] == module.path[shared]:
            shared += 1
        ended = module.path[shared:]
        record = pending.after
        if isinstance(record, ModuleRecord) and module.path:
            before = following if not ended and len(path) == shared else path[shared] if not ended else "pipeline-end"
            did = pending.before is not pending.after
            self._between(module, record, module.path[-1], pending.name, before, changed=did)
            for depth in range(len(module.path) - 1, max(shared, 1) - 1, -1):
                inner, outer = module.path[depth], module.path[depth - 1]
                inside = depth - 1 >= shared
                then = "pipeline-end" if inside else path[shared] if len(path) > shared else following
                self._between(module, record, outer, inner, then, changed=module.changed.get(inner, False))
        for name in ended:
            module.changed.pop(name, None)

    def _finish_passes(self, module: _Module) -> None:
        if module.pending is not None:
            self._leave(module, (), "pipeline-end")
            module.pending, module.path = None, ()

    def _between(
        self, module: _Module, record: ModuleRecord, pipeline: str, after: str, before: str, *, changed: bool
    ) -> None:
        wanted = self.options.xla_dump_hlo_pass_re
        if not wanted or not (self._pass_re.search(after) or self._pass_re.search(before)):
            return
        if not self._pipeline_re.search(pipeline) or (wanted == ".*" and not changed):
            return
        name = DumpName("pass", sequence=module.steps, pipeline=pipeline, after=after, before=before)
        module.steps += 1
        self._hlo(module, record, name)

    # -- files -------------------------------------------------------------------------------------

    def _hlo(self, module: _Module, record: ModuleRecord, name: DumpName) -> None:
        """Write a module in every requested form."""
        o = self.options
        forms = (
            o.xla_dump_hlo_as_text,
            o.xla_dump_hlo_as_proto,
            o.xla_dump_hlo_as_dot,
            o.xla_dump_hlo_as_html,
            o.xla_dump_hlo_as_url,
        )
        text, proto, dot, html, url = forms if any(forms) else (True, False, False, False, False)
        if text:
            self._write(module, replace(name, extension="txt"), record.text)
        if proto:
            binary = HloModule.from_record(record).to_proto()
            self._write(module, replace(name, extension="hlo.pb", compressed=o.xla_dump_compress_protos), binary)
        if dot or url:
            source = dot_source(record)
            if dot:
                self._write(module, replace(name, extension="dot"), source)
            if url:
                self._write(module, replace(name, extension="url"), _data_url(source))
        if html:
            self._write(module, replace(name, extension="html"), html_page(record))

    def _buffers(self, module: _Module, record: BufferAssignmentRecord) -> None:
        texts = {
            "buffer-assignment": report.allocations_text,
            "buffer-assignment-values": report.values_text,
            "live-range": report.live_range_text,
        }
        for label, text in texts.items():
            name = DumpName("fixed", "txt", label=f"cpu_after_optimizations-{label}")
            self._write(module, name, text(record))

    def _write(self, module: _Module, name: DumpName, content: str | bytes) -> None:
        stamp = module.started if self.options.xla_dump_include_timestamp else None
        file = encode_name(replace(name, module_id=module.number, module=module.name, timestamp=stamp))
        if self.directory is None:
            if isinstance(content, str) and name.extension == "txt":
                sys.stdout.write(f"*** Begin {file} ***\n{content}\n*** End {file} ***\n")
            return
        data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
        path = self.directory / file
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(data) if name.compressed else data)
        except OSError as error:
            raise DumpError(f"--xla_dump_to: cannot write {path}: {error}") from error
        self.paths.append(path)


@lru_cache(maxsize=32)
def _writer(options: DebugOptions) -> DumpWriter:
    return DumpWriter(options)


@contextmanager
def dumping(options: DebugOptions) -> Iterator[DumpWriter | None]:
    """Dump compilations within the block as the flags say; without flags, do nothing.

    Equal flags share one writer, so that its modules are numbered consecutively.
    """
    if not options.writes_dumps:
        yield None
        return
    writer = _writer(options)
    with observing(writer):
        yield writer


_GLOB = re.compile(r"[\w*?.:\[\]!-]*\*[\w*?.:\[\]!-]*")


def _compiled(flag: str, pattern: str) -> re.Pattern[str]:
    """Compile a flag's regular expression; a glob such as `*While*` is accepted with a warning."""
    try:
        return re.compile(pattern)
    except re.error as error:
        if not _GLOB.fullmatch(pattern):
            raise FlagError(
                f"--{flag} is not a regular expression: {error}: {pattern!r}; "
                "a name anywhere is found by the name alone, as in --"
                f"{flag}=while"
            ) from None
    warnings.warn(
        f"--{flag}={pattern} is not a regular expression: it is interpreted as a "
        "case-insensitive glob. XLA itself rejects it and needs "
        f"{pattern.strip('*').lower() or '.*'}",
        UserWarning,
        stacklevel=2,
    )
    return re.compile(fnmatch.translate(pattern), re.IGNORECASE)


def _options_text(options: DebugOptions) -> str:
    """Return the flags that differ from their defaults, as a text protocol buffer."""
    default = DebugOptions()
    lines = []
    for name in DebugOptions.__dataclass_fields__:
        value = getattr(options, name)
        if value == getattr(default, name):
            continue
        for item in value if isinstance(value, tuple) else (value,):
            text = (
                str(item).lower() if isinstance(item, bool) else _quoted(item) if isinstance(item, str) else str(item)
            )
            lines.append(f"{name}: {text}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _data_url(source: str) -> str:
    """Return a link that holds the graph itself; XLA sends it to a service instead."""
    return "data:text/vnd.graphviz;base64," + b64encode(source.encode()).decode() + "\n"


def forget_writers() -> None:
    """Forget the writers: the next dump numbers its modules from the start."""
    with suppress(AttributeError):
        _writer.cache_clear()
