"""A module of a dump as a Trace: the real compiler's passes as stages in its pipeline tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xlanb.boundary import boundary
from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.cpu.records import CodeRecord
from xlanb.dump.buffer_assignment import parse_buffer_assignment
from xlanb.dump.disassemble import disassemble
from xlanb.dump.dot import parse_dot
from xlanb.dump.names import printable
from xlanb.dump.reader import DumpFile, DumpStep, ModuleFiles
from xlanb.errors import XlanbError
from xlanb.explorer.gpu_stages import fusion_decisions, gpu_stages, is_gpu
from xlanb.explorer.stage import Artifact, Deferred, Stage, TextRecord
from xlanb.explorer.tpu_stages import hlo_of_llo, tpu_stages
from xlanb.explorer.trace import Trace
from xlanb.hlo.records import ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.hlo.text.series import ModuleSeries
from xlanb.wording import counted

_DEFINE = re.compile(r'^define\b[^@\n]*@("[^"\n]*"|[\w.$-]+)', re.MULTILINE)
_SHARDY_PASS = "shardy-xla"
_THUNKS = (("thunk_sequence", "thunks as emitted"), ("thunk_sequence_after_thunk_passes", "thunks after their passes"))
_FINALS = (
    "after_optimizations_before_buffer_assignment",
    "after_optimizations_after_buffer_assignment",
    "after_optimizations",
    "after_codegen",
)
"""Forms of the program after its passes, in dump order; TPUs have all of them."""
_KERNEL_SUFFIX = "_kernel_module"
_MODULE_PREFIX = "__compute_module_"

# Pipelines that XLA nests in others, if the dumps do not show it.
_PARENTS = {
    "simplification": "HLO_passes_through_layout_assignment",
    "post_scatter_expansion_simplification": "HLO_passes_through_layout_assignment",
    "after_layout_assignment": "HLO_passes_after_layout_assignment",
    "simplification_after_layout_assignment": "HLO_passes_after_layout_assignment",
}


@boundary("read a dumped module")
def dump_trace(module: ModuleFiles, cost: Mapping[str, float] | None = None) -> Trace:
    """Return the stages of a module, each read on first use.

    A dump that equals the one before (byte for byte) is a stage that changed nothing. The start of
    a pipeline is a stage only if it differs from the previous dump, which means that passes in
    between were not dumped. Unreadable files are stages with their text and the reason. `cost` is
    XLA's cost_analysis from the compilation of the module, if known.
    """
    return Trace(module.name or f"module_{module.number:04d}", _TraceBuilder(module, cost or {}).stages())


class _Sharing:
    """Reads modules so that equal instructions of successive dumps are one object.

    Diffs compare by identity first.
    """

    def __init__(self) -> None:
        self._instructions: dict[str, InstructionRecord] = {}
        self._series = ModuleSeries()

    def record(self, file: DumpFile) -> Artifact:
        """Return the module in a file, or its text if it has no readable module."""
        try:
            if file.name.extension == "dot":
                return parse_dot(file.read_text(), printable(file.path.name)).record()
            if file.name.extension not in ("txt", "hlo", "pb", "hlo.pb"):
                return TextRecord(printable(file.path.name), file.read_text(), file.name.extension or "text")
            return self._share(self._read(file))
        except XlanbError as error:
            return TextRecord(printable(file.path.name), _text_or_nothing(file), "text", str(error))

    def _read(self, file: DumpFile) -> ModuleRecord:
        if file.name.extension in ("txt", "hlo"):
            return self._series.read(file.read_text())
        return file.read_hlo().record()

    def _share(self, module: ModuleRecord) -> ModuleRecord:
        computations = []
        for c in module.computations:
            mine = tuple(self._one(i) for i in c.instructions)
            is_same = all(a is b for a, b in zip(mine, c.instructions, strict=True))
            computations.append(c if is_same else ComputationRecord(c.name, mine, c.root, c.execution_thread))
        return ModuleRecord(module.name, tuple(computations), module.entry, module.header, module.tables)

    def _one(self, i: InstructionRecord) -> InstructionRecord:
        known = self._instructions.get(i.name)
        if known is i or (known is not None and known == i):
            return known
        self._instructions[i.name] = i
        return i


@dataclass
class _TraceBuilder:
    module: ModuleFiles
    cost: Mapping[str, float] = field(default_factory=dict)
    made: list[Stage] = field(default_factory=list)
    known: dict[bytes, Deferred] = field(default_factory=dict)
    shared: _Sharing = field(default_factory=_Sharing)
    current: Deferred | None = None
    has_shardy: bool = False

    def stages(self) -> list[Stage]:
        module = self.module
        first = module.hlo("before_optimizations")
        if first is not None:
            self._take("hlo", "before_optimizations", first, (), "the program as passed to XLA")
        steps = [s for s in module.steps if s.readable is not None] or module.steps
        for step, path, note in zip(steps, pipelines_of(steps), _gaps(steps), strict=True):
            self._step(step, path, note)
        finals = {name: module.hlo(name) for name in _FINALS}
        if not any(finals.values()):
            finals = {"after_optimizations": self._llo_hlo()}
        for name, last in finals.items():
            if last is not None:
                self._take("hlo", name, last, ())
        self._buffers()
        self._kernels()
        for stage in tpu_stages(module, self.cost):
            self.made.append(replace(stage, index=len(self.made)))
        return self.made

    def _llo_hlo(self) -> DumpStep | None:
        file = hlo_of_llo(self.module)
        return DumpStep(file.name, (file,)) if file is not None else None

    def _step(self, step: DumpStep, path: tuple[str, ...], note: str) -> None:
        name = step.name
        if name.after == _SHARDY_PASS and not self.has_shardy:
            self._shardy(path)
        if name.kind == "step":
            self._take("hlo_pass", name.step.removeprefix("after "), step, path, note)
        elif name.after != "pipeline-start":
            self._take("hlo_pass", name.after, step, path, note)
        elif self.current is None or self._artifact(step) is not self.current:
            words = note or ("passes in between were not dumped" if self.current is not None else "")
            self._take("hlo_pass", "pipeline-start", step, path, words)

    def _shardy(self, path: tuple[str, ...]) -> None:
        """Add the MLIR before and after Shardy's propagation, before the pass that contains it."""
        self.has_shardy = True
        texts = [(f.path.stem.partition(".")[2].replace("_", " "), f) for f in self.module.shardy]
        self._texts("shardy", "mlir", texts, (*path, _SHARDY_PASS))

    def _texts(
        self, kind: str, language: str, texts: Sequence[tuple[str, DumpFile]], path: tuple[str, ...] = ()
    ) -> None:
        """Add stages of files that follow one another, and not the HLO."""
        before: Deferred | None = None
        for name, file in texts:
            after = self._text(file, language)
            self.made.append(Stage(kind, name, before, after, path, index=len(self.made)))
            before = after

    def _text(self, file: DumpFile, language: str) -> Deferred:
        name = printable(file.path.name)
        return self._load_shared(file, lambda: TextRecord(name, _text_or_nothing(file), language), file.size // 10)

    def _take(self, kind: str, name: str, step: DumpStep, path: tuple[str, ...], summary: str = "") -> None:
        before, self.current = self.current, self._artifact(step)
        stage = Stage(kind, name, before, self.current, path, summary=summary, index=len(self.made))
        decisions = fusion_decisions(self.module, name, before)
        self.made.append(stage if decisions is None else replace(stage, decisions=decisions))

    def _artifact(self, step: DumpStep) -> Deferred:
        file = step.readable or step.files[0]
        return self._load_shared(file, lambda: self.shared.record(file), file.size)

    def _load_shared(self, file: DumpFile, load: Callable[[], Artifact], size: int) -> Deferred:
        """Return a dump's content; files with equal content share one object."""
        try:
            key = file.digest
        except XlanbError:
            key = str(file.path).encode()
        if key not in self.known:
            self.known[key] = Deferred(load, size)
        return self.known[key]

    def _add(self, kind: str, artifact: Deferred, summary: str = "", name: str = "") -> None:
        self.made.append(Stage(kind, name or kind, self.current, artifact, (), summary=summary, index=len(self.made)))
        self.current = artifact

    def _buffers(self) -> None:
        reports = self.module.fixed("buffer-assignment")
        if not reports:
            return
        live = self.module.fixed("live-range")
        name = self.module.name
        self._add("buffer_assignment", Deferred(lambda: _buffer_record(reports[0], live, name)))
        usage = [("memory usage report", f) for f in self.module.fixed("memory-usage-report")[:1]]
        self._texts("memory_usage", "text", usage)

    def _kernels(self) -> None:
        if is_gpu(self.module):
            thunks = [(words, f) for label, words in _THUNKS for f in self.module.fixed(label)[:1]]
            self._texts("thunks", "text", thunks)
            for kind, name, artifact, summary in gpu_stages(self.module):
                self._add(kind, artifact, summary, name)
            return
        kernels = self.module.kernels
        for kind in ("llvm_ir", "llvm_ir_optimized"):
            files = {k: f[kind] for k, f in kernels.items() if kind in f}
            if files:
                self._add(kind, Deferred(lambda files=files: _llvm(files), _weight(files)), _counted(files))  # type: ignore[misc]
        files = {k: f.get("assembly") or f["object"] for k, f in kernels.items() if f.keys() & {"assembly", "object"}}
        if files:
            self._add("assembly", Deferred(lambda: _assembly(files), _weight(files)), _counted(files))
        found = {k: f["mlir"] for k, f in kernels.items() if "mlir" in f}
        if found:
            self._add("mlir", Deferred(lambda: _joined(found, "mlir"), _weight(found)), _counted(found))


def pipelines_of(steps: Sequence[DumpStep]) -> list[tuple[str, ...]]:
    """Return the pipelines around each step, outermost first.

    A fixed point's later rounds are marked "round 2", "round 3"... A dump names only its innermost
    pipeline. One pipeline is inside another if the outer one's next pass has its name, if the outer
    one has later dumps, or if XLA is known to nest them.
    """
    last = {s.name.pipeline: k for k, s in enumerate(steps) if s.name.kind == "pass"}
    stack: list[str] = []
    rounds: dict[str, int] = {}
    paths: list[tuple[str, ...]] = []
    announced = ""
    for k, step in enumerate(steps):
        name = step.name.pipeline
        if step.name.kind == "step":
            # A pass dumps its own steps before its pipeline dumps that it ran.
            around = next((s.name.pipeline for s in steps[k:] if s.name.kind == "pass" and s.name.after == name), "")
            if around in stack:
                del stack[stack.index(around) + 1 :]
            paths.append((*_with_rounds(stack, rounds), name))
            continue
        started = step.name.after == "pipeline-start"
        if name in stack:
            del stack[stack.index(name) + 1 :]
            if started:
                rounds[name] = rounds.get(name, 1) + 1
        else:
            while stack and not (announced == name or last[stack[-1]] > k or _PARENTS.get(name) == stack[-1]):
                stack.pop()
            stack.append(name)
            rounds.pop(name, None)
        announced = step.name.before
        paths.append(_with_rounds(stack, rounds))
    return paths


def _with_rounds(stack: list[str], rounds: dict[str, int]) -> tuple[str, ...]:
    path: list[str] = []
    for name in stack:
        path.append(name)
        if rounds.get(name, 1) > 1:
            path.append(f"round {rounds[name]}")
    return tuple(path)


def _gaps(steps: Sequence[DumpStep]) -> list[str]:
    """Return what is missing before each step: gaps in the names' counter."""
    notes = []
    before = -1
    for step in steps:
        number = step.name.sequence
        missing = number - before - 1 if number is not None else 0
        first = before + 1
        notes.append(
            ""
            if missing <= 0
            else f"dump {first:04d} is missing"
            if missing == 1
            else f"dumps {first:04d} to {number - 1 if number else 0:04d} are missing"
        )
        before = number if number is not None else before
    return notes


def _buffer_record(report: DumpFile, live: Sequence[DumpFile], module: str) -> BufferAssignmentRecord | TextRecord:
    text = _text_or_nothing(report)
    try:
        return parse_buffer_assignment(text, module, live[0].read_text() if live else "")
    except XlanbError as error:
        return TextRecord(printable(report.path.name), text, "text", str(error))


def _counted(files: dict[str, DumpFile]) -> str:
    return f"{counted(len(files), 'kernel')}, {counted(_bytes(files), 'byte')}"


def _weight(files: dict[str, DumpFile]) -> int:
    """Return the cost of reading, in bytes of HLO; unparsed text is about ten times as fast."""
    return _bytes(files) // 10


def _bytes(files: dict[str, DumpFile]) -> int:
    return sum(f.size for f in files.values())


def _llvm(files: dict[str, DumpFile]) -> CodeRecord:
    """Return the IR of all kernels, concatenated, with each function's HLO instruction."""
    text, functions, kernels = [], [], {}
    for kernel, file in files.items():
        body = _text_or_nothing(file)
        text.append(f"; {printable(file.path.name)}\n{body.rstrip()}\n")
        for name in (m.strip('"') for m in _DEFINE.findall(body)):
            functions.append(name)
            kernels[name] = instruction_of(name, kernel)
    return CodeRecord("llvm", "\n".join(text), tuple(functions), kernels)


def instruction_of(function: str, kernel: str) -> str:
    """Return the HLO instruction that an XLA:CPU function computes; kernels are named after it."""
    plain = kernel.removesuffix(_KERNEL_SUFFIX).removeprefix(_MODULE_PREFIX)
    if function == f"{plain}_impl":  # what the kernel calls
        return plain
    return function.removesuffix("_kernel").removesuffix("_wrapped") if function.startswith(plain) else plain


def _assembly(files: dict[str, DumpFile]) -> CodeRecord | TextRecord:
    """Return the machine code of all kernels, concatenated.

    An unreadable object gives a line that says so.
    """
    objects = {k: f for k, f in files.items() if f.name.kind != "assembly"}
    try:
        codes = dict(zip(objects, disassemble([_bytes_or_none(f) for f in objects.values()]), strict=True))
    except XlanbError as error:  # there is no objdump
        return TextRecord("assembly", str(error), "text", str(error))
    text, functions, kernels = [], [], {}
    for kernel, file in files.items():
        code = codes[kernel] if kernel in codes else _text_or_nothing(file)
        if isinstance(code, XlanbError):
            text.append(f"# {printable(file.path.name)}: {code}\n")
            continue
        text.append(f"# {printable(file.path.name)}\n{code.rstrip()}\n")
        for name in re.findall(r"^([A-Za-z_$][\w.$]*):", code, re.MULTILINE):
            functions.append(name)
            kernels[name] = instruction_of(name, kernel)
    return CodeRecord("asm", "\n".join(text), tuple(functions), kernels)


def _bytes_or_none(file: DumpFile) -> bytes:
    try:
        return file.read_bytes()
    except XlanbError:
        return b""  # which objdump rejects


def _joined(files: dict[str, DumpFile], language: str) -> TextRecord:
    parts = [f"// {printable(f.path.name)}\n{_text_or_nothing(f).rstrip()}\n" for f in files.values()]
    return TextRecord(language, "\n".join(parts), language)


def _text_or_nothing(file: DumpFile) -> str:
    try:
        text = file.read_text()
    except XlanbError as error:
        return str(error)
    return text if "\0" not in text[:4096] else f"{printable(file.path.name)}: {file.size:,} bytes that are not text"
