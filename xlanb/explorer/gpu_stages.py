"""What XLA:GPU writes in addition to HLO, as stages.

They are the kernels' code in each form, the launch program, and the reasons for its fusions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from xlanb.cpu.records import CodeRecord
from xlanb.dump.gpu.fusion_process import parse_fusion_process
from xlanb.dump.gpu.ptx import parse_ptx
from xlanb.dump.gpu.sass import parse_sass
from xlanb.dump.names import printable
from xlanb.dump.reader import DumpFile, ModuleFiles
from xlanb.explorer.gpu_dump import MLIR_FUNCTION, GpuDump, is_gpu, text_of
from xlanb.explorer.gpu_fusion import PASS, FusionDecisions
from xlanb.explorer.stage import Deferred
from xlanb.wording import counted

__all__ = ["fusion_decisions", "gpu_stages", "is_gpu"]

_DEFINE = re.compile(r'^define\b[^@\n]*@("[^"\n]*"|[\w.$-]+)', re.MULTILINE)

_Made = tuple[str, str, Deferred, str]
"""A stage's kind, name, artifact and description."""


def gpu_stages(module: ModuleFiles) -> Iterator[_Made]:
    """Return the stages after HLO: kernels as Triton IR, LLVM IR, PTX and SASS, and the launches.

    Each is read on first use.
    """
    dump = GpuDump(module)
    makers = {
        "xtile": _mlir,
        "triton_ir": _mlir,
        "llvm_ir": _llvm,
        "llvm_ir_optimized": _llvm,
        "ptx": _ptx,
        "sass": _sass,
    }
    for kind, make in makers.items():
        files = dump.files(kind)
        if files:
            yield kind, kind, Deferred(_later(make, dump, files), _weight(files)), _counted(files)
    if dump.files("ptx") or dump.thunk_files:
        size = sum(f.size for kind in ("ptx", "sass", "llvm_ir", "llvm_ir_optimized") for f in dump.files(kind)) // 10
        yield "gpu_program", "kernels", Deferred(dump.program, size), ""


def fusion_decisions(module: ModuleFiles, after: str, before: Deferred | None) -> FusionDecisions | None:
    """Return the decisions of the pass `after` if it is priority fusion and was dumped.

    `before` is the module before it.
    """
    found = module.fixed("priority_fusion_dump") if after == PASS else []
    if not found:
        return None
    size = found[0].size + (before.size if before is not None and not before.is_read else 0)
    return FusionDecisions(
        lambda: parse_fusion_process(found[0].read_text()), lambda: before.get() if before is not None else None, size
    )


def _later(
    make: Callable[[GpuDump, Sequence[DumpFile]], CodeRecord], dump: GpuDump, files: Sequence[DumpFile]
) -> Callable[[], CodeRecord]:
    return lambda: make(dump, files)


def _weight(files: Sequence[DumpFile]) -> int:
    """Return the cost of reading, in bytes of HLO; unparsed text is about ten times as fast."""
    return sum(f.size for f in files) // 10


def _counted(files: Sequence[DumpFile]) -> str:
    return f"{counted(len(files), 'file')}, {counted(sum(f.size for f in files), 'byte')}"


def _mlir(dump: GpuDump, files: Sequence[DumpFile]) -> CodeRecord:
    return _record("mlir", "//", files, lambda text: (text, MLIR_FUNCTION.findall(text)), dump)


def _llvm(dump: GpuDump, files: Sequence[DumpFile]) -> CodeRecord:
    return _record("llvm", ";", files, lambda text: (text, [n.strip('"') for n in _DEFINE.findall(text)]), dump)


def _ptx(dump: GpuDump, files: Sequence[DumpFile]) -> CodeRecord:
    return _record("ptx", "//", files, lambda text: (text, [k.name for k in parse_ptx(text)]), dump)


def _sass(dump: GpuDump, files: Sequence[DumpFile]) -> CodeRecord:
    def read(text: str) -> tuple[str, list[str]]:
        kernels = parse_sass(text)
        shown = ["\n".join((f"{k.name}:", *(f"\t{x}" for x in k.lines))) for k in kernels]
        return "\n\n".join(shown), [k.name for k in kernels]

    return _record("sass", "//", files, read, dump)


def _record(
    language: str,
    comment: str,
    files: Sequence[DumpFile],
    read: Callable[[str], tuple[str, list[str]]],
    dump: GpuDump,
) -> CodeRecord:
    """Return the code of all kernels, concatenated, with each function's HLO instruction."""
    instructions: Mapping[str, tuple[str, ...]] = dump.kernel_instructions
    parts, functions = [], []
    for file in files:
        text, names = read(text_of(file))
        if text.strip():
            parts.append(f"{comment} {printable(file.path.name)}\n{text.rstrip()}\n")
            functions += names
    known = {name: instructions[name][0] for name in functions if name in instructions}
    return CodeRecord(language, "\n".join(parts), tuple(functions), known)
