r"""Decode and encode names of dumped files, by `decode_name` and `encode_name`.

[TIMESTAMP.]module_NNNN[.MODULE].SSSS.PIPELINE.after_PASS.before_PASS.EXT
    between two passes
[TIMESTAMP.]module_NNNN[.MODULE].SSSS.PASS.after_STEP.EXT
    inside a pass
[TIMESTAMP.]module_NNNN[.MODULE].LABEL.EXT
    before_optimizations, cpu_after_optimizations...
[TIMESTAMP.]module_NNNN[.MODULE].KERNEL.ir-no-opt.ll, .obj-file.KERNEL.o, ...
    what the backend made of a kernel
hlo_N[_MODULE][.-]LABEL.EXT, hlo_graph_N[.RANDOM].EXT
    XLA of 2017 and 2018
PASS_NAME[_N].pbtxt, ...
    graphs of TensorFlow (see xlanb.dump.graph_names)
TIMESTAMP-PROGRAM-NN-LABEL.EXT
    LLO of a TPU (see xlanb.dump.tpu.names)

NNNN is the module's number in its process; SSSS counts the module's dumps. MODULE is missing in the
dumps of some backends, and if the whole name would be too long. `/`, `\\`, `[`, `]` and blanks are
written `_`. Source of the rules: xla/service/dump.cc, and the dumps that it wrote.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace

from xlanb.dump.graph_names import decode_graph_name, graph_words
from xlanb.dump.tpu.names import LloName, decode_llo_name, encode_llo_name, label_words

MAX_NAME = 255
"""The longest file name; XLA omits MODULE in longer ones."""

COMPRESSED = ".gz"

ENDS = {"pipeline-start": "the start of the pipeline", "pipeline-end": "the end of the pipeline"}

# Labels that follow the module's name, with their words.
LABELS = {
    "before_optimizations": "the program as passed to XLA",
    "after_optimizations": "the optimised program",
    "after_codegen": "the program from which code was generated",
    "tpu_comp_env": "the environment of the TPU's compiler",
    "after_optimizations_before_buffers": "the optimised program, before buffers were assigned",
    "after_optimizations_before_buffer_assignment": "the optimised program, before buffers were assigned",
    "after_optimizations_after_buffer_assignment": "the optimised program, after buffers were assigned",
    "after_spmd_partitioner": "the program of one device, after partitioning",
    "before_config_assignment": "the program before kernels got their configurations",
    "buffer-assignment": "buffer assignment",
    "buffer-assignment-values": "the values of buffer assignment, with their uses",
    "live-range": "the live ranges of buffers",
    "memory-usage-report": "memory used, largest first",
    "debug_options": "the flags of the compilation",
    "autotune_results": "autotuning results",
    "gpu_target_config": "the target GPU",
    "thunk_sequence": "the thunks in order",
    "thunk_sequence_after_thunk_passes": "the thunks in order, after the passes over them",
    "priority_fusion_dump": "fusion decisions, with costs",
    "thunk_metadata": "the thunks and the instructions they run",
    "flow_pushed_tensors": "tensors forwarded",
    "compile_options": "the options of the compilation",
    "topology": "the target devices",
    "config": "the configuration of the module",
    "execution_options": "the options of execution",
    "target_arguments": "the target TPU",
    "hlo_module_config": "the configuration of the module",
    "transfer_stats": "transfers between host and device",
    "basic_compiler_metadata": "metadata of the compiler",
    "unoptimized-snapshot": "the program with its inputs",
    "snapshot": "the program with its inputs",
}

# Files of a kernel: suffix (or prefix) of the kernel's name, kind, words.
KERNEL_ENDS = {
    ".before_validation.ttir.txt": ("xtile", "MLIR by tiles, before Triton"),
    ".ttir.txt": ("triton_ir", "Triton's IR"),
    ".ir-no-opt.ll": ("llvm_ir", "LLVM IR as emitted"),
    ".ir-with-opt.ll": ("llvm_ir_optimized", "LLVM IR after LLVM's passes"),
    ".ir-no-opt-noconst.ll": ("llvm_ir_noconst", "LLVM IR as emitted, without its constants"),
    "-pre-optimization.mlir": ("mlir", "MLIR before its passes"),
    "-post-optimization.mlir": ("mlir_optimized", "MLIR after its optimisations"),
    "-post-lowering.mlir": ("mlir_lowered", "MLIR lowered to the LLVM dialect"),
    ".mlir-passes.log": ("mlir_passes", "MLIR after each of its passes"),
    ".ptx": ("ptx", "PTX"),
    ".ptxas.txt": ("ptxas", "output of ptxas: registers, spills"),
    ".sass": ("sass", "SASS, NVIDIA's machine code"),
    ".hsaco": ("hsaco", "AMD machine code"),
    ".s": ("assembly", "assembly"),
    ".o": ("object", "machine code"),
}
_OBJECT = "obj-file."

_PREFIX = re.compile(r"(?:(?P<time>\d{6,})\.)?module_(?P<id>\d{4,})(?:\.(?P<rest>.+))?", re.DOTALL)
_BETWEEN = re.compile(
    r"(?:(?P<module>.*)\.)?(?P<n>\d{4,})\.(?P<pipeline>.+?)\.after_(?P<after>.+?)\.before_(?P<before>.+)", re.DOTALL
)
_INSIDE = re.compile(
    r"(?:(?P<module>.*)\.)?(?P<n>\d{4,})\.(?P<pipeline>.+?)\.(?:after_(?P<after>.+)|before_(?P<before>.+))", re.DOTALL
)
_TARGET = re.compile(r"(?:sm|compute)_\d+")
_REVISION = re.compile(r"\d+[a-z]?_gpu_")
_OLD_GRAPH = re.compile(r"hlo_graph_(?P<n>\d+)(?:\.[A-Za-z0-9]{6})?")
_OLD = re.compile(r"hlo_(?P<n>\d+)(?:_(?P<module>[^.]*?))?[.-](?P<label>.+)", re.DOTALL)
_OLD_PASS = re.compile(r"(?:(?P<pipeline>[^:]+?):?[\s_.])?after[\s_](?P<after>.+?),?[\s_.]+before[\s_](?P<before>.+)")
_OLD_AFTER = re.compile(r"(?:(?P<version>v\d+)\.)?(?P<pipeline>[^:]+?)[\s_]after[\s_](?P<after>.+)", re.DOTALL)
_EXTENSIONS = tuple("hlo.pb txt dot gv html hlo pb pbtxt mlir ll o ptx sass s svg url csv log".split())


@dataclass(frozen=True)
class DumpName:
    """What a file's name says.

    `kind` is "pass" (between two passes), "step" (inside a pass), "fixed" (one of LABELS), a kind
    of kernel file ("llvm_ir", "object"...), "graph" (TensorFlow's; `module` is the function or
    program if the name has it), "llo" (a TPU's; `kernel` is the program), or "other". `module_id`
    is the number in the name, `sequence` the counter of dumps, and `timestamp` in the writer's
    units.
    """

    kind: str
    extension: str = ""
    module_id: int | None = None
    module: str = ""
    sequence: int | None = None
    pipeline: str = ""
    after: str = ""
    before: str = ""
    label: str = ""
    kernel: str = ""
    timestamp: int | None = None
    compressed: bool = False

    @property
    def step(self) -> str:
        """The point in its pass where a "step" was dumped: "after adding copies"."""
        return (f"after {self.after}" if self.after else f"before {self.before}").replace("_", " ")

    def describe(self) -> str:
        """Describe the name: "HLO after algsimp, before dce, in pipeline simplification"."""
        if self.kind == "pass":
            if self.after == "pipeline-start":
                place = f"before {self.before}, at the start of pipeline {self.pipeline}"
            elif self.before == "pipeline-end":
                place = f"after {self.after}, at the end of pipeline {self.pipeline}"
            else:
                before = f", before {self.before}" if self.before else ""
                place = f"after {self.after}{before}, in pipeline {self.pipeline}"
            return f"{_form(self.extension)} {place}".strip()
        if self.kind == "step":
            return f"{_form(self.extension)} inside {self.pipeline}, {self.step}".strip()
        if self.kind == "graph":
            return f"TensorFlow graph: {graph_words(self.label)}"
        if self.kind == "llo":
            return f"TPU program {self.kernel}: {label_words(self.label)}"
        words = next((w for k, w in KERNEL_ENDS.values() if k == self.kind), "")
        if words:
            return f"{words} of {self.kernel}" if self.kernel else words
        return _label_words(self.label) or self.label


def printable(path: str | os.PathLike[str]) -> str:
    """Return a file name as text that any encoding accepts.

    Bytes that are not UTF-8, and lone surrogates, are escaped.
    """
    try:
        return os.fsencode(path).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return os.fspath(path).encode("utf-8", "backslashreplace").decode()


def decode_name(name: str, module: str = "") -> DumpName:
    """Decode a file name (without its folder); never fails.

    `module` is the module's name, if known from other files of the same number. A name that follows
    no rule has kind "other".
    """
    compressed = name.endswith(COMPRESSED)
    plain = name.removesuffix(COMPRESSED)
    found = _PREFIX.fullmatch(plain)
    if found is None:
        llo = decode_llo_name(plain)
        return _decode_old(plain, compressed=compressed) if llo is None else _of_llo(llo, compressed=compressed)
    return replace(
        _decode_rest(found["rest"] or "", module),
        module_id=int(found["id"]),
        timestamp=int(found["time"]) if found["time"] else None,
        compressed=compressed,
    )


def encode_name(name: DumpName) -> str:
    """Return the file name that XLA would use; a too long one omits the module's name."""
    if name.kind == "llo":
        llo = LloName(name.timestamp or 0, name.kernel, name.sequence, name.label, name.extension)
        return encode_llo_name(llo) + (COMPRESSED if name.compressed else "")
    tail = {
        "pass": f"{name.pipeline}.after_{name.after}.before_{name.before}",
        "step": f"{name.pipeline}.{f'after_{name.after}' if name.after else f'before_{name.before}'}",
    }.get(name.kind, name.label)
    end = next((e for e, (kind, _) in KERNEL_ENDS.items() if kind == name.kind), "")
    if end:
        tail = f"{name.kernel}{end}" if name.kernel else end.lstrip(".-")
        tail = (_OBJECT if name.label == _OBJECT.rstrip(".") else "") + tail.removesuffix(f".{name.extension}")
    number = f"{name.module_id or 0:04d}"
    head = f"{name.timestamp}." if name.timestamp is not None else ""
    count = f"{name.sequence:04d}." if name.sequence is not None else ""
    last = f".{name.extension}" if name.extension else ""
    whole = f"{head}module_{number}.{name.module}.{count}{tail}{last}"
    if len(whole.encode()) > MAX_NAME or not name.module:
        whole = f"{head}module_{number}.{count}{tail}{last}"
    return sanitized(whole) + (COMPRESSED if name.compressed else "")


def _of_llo(name: LloName, *, compressed: bool) -> DumpName:
    return DumpName(
        "llo",
        name.extension,
        sequence=name.number,
        label=name.label,
        kernel=name.program,
        timestamp=name.timestamp,
        compressed=compressed,
    )


def sanitized(name: str) -> str:
    """Return a name valid for files: slashes, brackets and blanks become `_`."""
    return re.sub(r"[/\\\[\] ]", "_", name)


def _split_extension(name: str) -> tuple[str, str]:
    for extension in _EXTENSIONS:
        if name.endswith("." + extension):
            return name[: -len(extension) - 1], extension
    return name, ""


def _decode_rest(rest: str, module: str) -> DumpName:
    stem, extension = _split_extension(rest)
    found = _BETWEEN.fullmatch(stem)
    if found is not None:
        own, count, pipeline, after, before = found.groups()
        return DumpName("pass", extension, None, own or "", int(count), pipeline, after, before)
    found = _INSIDE.fullmatch(stem)
    if found is not None:
        own, count, pipeline, after, before = found.groups()
        return DumpName("step", extension, None, own or "", int(count), pipeline, after or "", before or "")
    own, tail = _split_module(rest, module)
    kernel = _decode_kernel(tail)
    if kernel is not None:
        return replace(kernel, module=own, extension=extension)
    label, extension = _split_extension(tail)
    return DumpName("fixed" if _label_words(label) else "other", extension, module=own, label=label)


def _split_module(rest: str, module: str) -> tuple[str, str]:
    """Split off the module's name.

    Names contain dots, so a name known from other files decides, then the label.
    """
    if module and (rest == module or rest.startswith(module + ".")):
        return module, rest[len(module) + 1 :]
    stem, extension = _split_extension(rest)
    if ("." not in stem and _label_words(stem)) or any(rest == end.lstrip(".-") for end in KERNEL_ENDS):
        return "", rest  # back ends outside XLA, such as the IPU's, omit the name
    parts = stem.split(".")
    for k in range(len(parts) - 1, 0, -1):
        if _label_words(".".join(parts[k:])):
            if k > 1 and _REVISION.match(parts[k]) and _TARGET.fullmatch(parts[k - 1]):
                k -= 1  # the dot in sm_9.0_gpu_after_optimizations
            return ".".join(parts[:k]), ".".join([*parts[k:], *([extension] if extension else [])])
    own, _, tail = rest.partition(".")
    return (own, tail) if tail else ("", rest)


def _decode_kernel(tail: str) -> DumpName | None:
    if tail.startswith(_OBJECT) and tail.endswith(".o"):
        return DumpName("object", kernel=tail[len(_OBJECT) : -2], label=_OBJECT.rstrip("."))
    for end, (kind, _) in KERNEL_ENDS.items():
        whole = tail == end.lstrip(".-")  # of the module as a whole
        if whole or tail.endswith(end):
            return DumpName(kind, kernel="" if whole else tail[: -len(end)], label=end.strip(".-").rpartition(".")[0])
    return None


def _label_words(label: str) -> str:
    """Describe a fixed label.

    Backends put their name before it: cpu_after_optimizations,
    sm_8.0_gpu_after_optimizations-buffer-assignment.
    """
    if label in LABELS:
        return LABELS[label]
    found = re.fullmatch(
        r"(?:.*_)?(after_optimizations(?:_before_buffers|_(?:before|after)_buffer_assignment)?|after_codegen)"
        r"(?:-(.+)|\.(top_level))?",
        label,
    )
    if found is None:
        return ""
    return LABELS.get(found[2] or found[1], "")


def _decode_old(name: str, *, compressed: bool) -> DumpName:
    stem, extension = _split_extension(name)
    other = DumpName("other", extension, label=stem, compressed=compressed)
    found = _OLD_GRAPH.fullmatch(stem)
    if found is not None:
        return replace(other, sequence=int(found["n"]), label="hlo_graph")
    found = _OLD.fullmatch(stem)
    if found is not None:
        named = replace(other, module=found["module"] or "", sequence=int(found["n"]), label=found["label"])
        between = _OLD_PASS.fullmatch(found["label"])
        if between is not None:
            pipeline, after, before = between.groups()
            return replace(named, kind="pass", pipeline=pipeline or "", after=after, before=before, label="")
        behind = _OLD_AFTER.fullmatch(found["label"])
        if behind is not None and not _label_words(found["label"]):
            return replace(named, kind="pass", pipeline=behind["pipeline"], after=behind["after"], label="")
        return replace(named, kind="fixed") if _label_words(found["label"]) else named
    graph = decode_graph_name(stem, extension)
    if graph is None:
        return other
    return replace(
        other,
        kind="graph",
        label=graph.label,
        sequence=graph.sequence,
        module=graph.owner,
        pipeline=graph.group,
    )


def _form(extension: str) -> str:
    return {
        "dot": "Graphviz graph of the HLO",
        "html": "picture of the HLO",
        "url": "link to a picture of the HLO",
    }.get(extension, "HLO")
