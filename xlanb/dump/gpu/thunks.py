"""Parse the thunks of XLA:GPU: what a run launches, in order.

    001: kCustomKernel [source | next=002 (1)] fusion_53 grid: [128, 1, 1] threads: [64, 1, 1]  ...
    005: kWhile        [prev=004 (1) | next=014 (1)]
    condition:
        006: kCustomKernel ...
      body:
        007: ...

Source of the forms: ThunkSequence::ToString of xla/backends/gpu/runtime; `prev` and `next` are the
thunks that one waits for and that wait for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from xlanb.errors import DumpError

MAX_THUNKS = 200_000

_THUNK = re.compile(r"^(?P<indent> *)(?P<id>\d{1,9}): (?P<kind>k\w{1,80}) *\[(?P<links>[^\]\n]*)\] *(?P<rest>.*)$")
_KERNEL = re.compile(
    r"^(?P<name>\S+) grid: \[(?P<grid>[\d, ]+)\] threads: \[(?P<block>[\d, ]+)\]\s+"
    r"shared_memory: (?P<shared>\d{1,18}) bytes"
)
_BRANCH = re.compile(r"^ *([a-z_]\w*):$")
_PREVIOUS = re.compile(r"prev=(\d{1,9})")
_NAME = re.compile(r'^ *profile_annotation: "((?:[^"\\\n]|\\.)*)"')
_ID = re.compile(r"^ *thunk_id: (\d{1,9})\s*$")

# A kind's words, and the library or engine that runs it.
_WORDS = {
    "kKernel": ("kernel", ""),
    "kCustomKernel": ("kernel", ""),
    "kGemm": ("matrix product", "cuBLAS"),
    "kCublasLtMatmul": ("matrix product", "cuBLASLt"),
    "kConvolution": ("convolution", "cuDNN"),
    "kConvolutionReorder": ("filter reordering", "cuDNN"),
    "kCuDnn": ("cuDNN graph", "cuDNN"),
    "kNorm": ("normalisation", "cuDNN"),
    "kFft": ("FFT", "cuFFT"),
    "kCholesky": ("Cholesky factorisation", "cuSOLVER"),
    "kTriangularSolve": ("triangular solve", "cuBLAS"),
    "kSelectK": ("top k", "RAFT"),
    "kCubSort": ("sort", "CUB"),
    "kCustomCall": ("custom call", ""),
    "kCopy": ("copy", "memory"),
    "kCopyDone": ("end of a copy", "memory"),
    "kMemset32BitValue": ("memset", "memory"),
    "kMemzero": ("memset", "memory"),
    "kInfeed": ("infeed", "memory"),
    "kOutfeed": ("outfeed", "memory"),
    "kWhile": ("loop", "control"),
    "kConditional": ("conditional", "control"),
    "kAsyncStart": ("asynchronous step", "control"),
    "kAsyncDone": ("wait for an asynchronous step", "control"),
    "kSequential": ("sequence", "control"),
    "kCommandBuffer": ("CUDA graph", "control"),
    "kDynamicSliceFusion": ("call on slices in place", "control"),
    "kDynamicSlice": ("call on slices in place", "control"),
    "kWaitForStreams": ("wait for streams", "control"),
    "kPartitionId": ("partition id", "memory"),
    "kReplicaId": ("replica id", "memory"),
}
_COLLECTIVE = re.compile(
    r"k(?:Nccl|Nvshmem)?(AllReduce|AllGather|AllToAll|ReduceScatter|CollectiveBroadcast|CollectivePermute|"
    r"RaggedAllToAll|Send|Recv|Group)"
)


@dataclass(frozen=True)
class Thunk:
    """One step of a run.

    Attributes:
        name: the kernel that it launches.
        instruction: the HLO instruction that it belongs to, "" if not in the dump.
        grid: the blocks of a launch; 0 if it launches no XLA kernel.
        block: the threads per block; 0 likewise.
        shared_bytes: the shared memory per block; 0 likewise.
        parent: the position of the enclosing thunk (a loop, a CUDA graph), -1 at the top.
        branch: the part of the parent ("condition", "body", "true_branch").
        waits_for: the number of the thunk that it waits for, -1 if none.
    """

    number: int
    kind: str
    name: str = ""
    instruction: str = ""
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    shared_bytes: int = 0
    detail: str = ""
    depth: int = 0
    parent: int = -1
    branch: str = ""
    waits_for: int = -1

    @property
    def words(self) -> str:
        """What it does, in words: "kernel", "loop", "all reduce"."""
        if (found := _COLLECTIVE.match(self.kind)) is not None:
            return re.sub(r"(?<!^)([A-Z])", r" \1", found[1]).lower()
        return _WORDS.get(self.kind, (self.kind.removeprefix("k"), ""))[0]

    @property
    def engine(self) -> str:
        """The library or engine that runs it.

        "cuBLASLt", "cuDNN", "NCCL", "memory" for copies, "control" for containers of other thunks;
        "" for an XLA kernel.
        """
        return "NCCL" if _COLLECTIVE.match(self.kind) is not None else _WORDS.get(self.kind, ("", ""))[1]

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def is_kernel(self) -> bool:
        """Whether it launches an XLA kernel."""
        return self.kind in ("kKernel", "kCustomKernel")


def parse_thunks(text: str, metadata: str = "") -> tuple[Thunk, ...]:
    """Parse a thunk_sequence dump; thunks in a loop or CUDA graph follow it.

    `metadata` is the thunk_metadata dump, which names their instructions.

    Raises:
        DumpError: the text has no thunk, or more than MAX_THUNKS.
    """
    names = parse_metadata(metadata)
    thunks: list[Thunk] = []
    around: list[tuple[int, int]] = []  # indentation and position of the enclosing thunks
    branch, labelled = "", -1
    for line in text.splitlines():
        found = _THUNK.match(line)
        if found is None:
            label = _BRANCH.match(line)
            if label is not None:
                branch, labelled = label[1], len(thunks)
            continue
        indent = len(found["indent"])
        while around and around[-1][0] >= indent:
            around.pop()
        parent = around[-1][1] if around else -1
        if labelled < len(thunks):
            branch = _branch_of(thunks, parent)
        thunks.append(_thunk(found, names, len(around), parent, branch if parent >= 0 else ""))
        around.append((indent, len(thunks) - 1))
        if len(thunks) > MAX_THUNKS:
            raise DumpError(f"the thunk sequence has more than {MAX_THUNKS:,} thunks")
    if not thunks:
        raise DumpError("not a thunk sequence: no line like '001: kKernel [source | sink] ...'")
    return tuple(thunks)


def _branch_of(thunks: list[Thunk], parent: int) -> str:
    """Return the part of a parent that a thunk continues: that of its previous sibling."""
    before = next((t for t in reversed(thunks) if t.parent == parent), None) if parent >= 0 else None
    return before.branch if before is not None else ""


def _thunk(found: re.Match[str], names: dict[int, str], depth: int, parent: int, branch: str) -> Thunk:
    number, kind, rest = int(found["id"]), found["kind"], found["rest"].strip()
    before = _PREVIOUS.search(found["links"])
    # A CUDA graph has no thunk number of its own.
    named = "" if kind == "kCommandBuffer" else names.get(number, "")
    thunk = Thunk(
        number,
        kind,
        named,
        named,
        depth=depth,
        parent=parent,
        branch=branch,
        waits_for=int(before[1]) if before else -1,
    )
    kernel = _KERNEL.match(rest)
    if kernel is None:
        return replace(thunk, detail="" if rest == kind else rest[:400])
    return replace(
        thunk,
        name=kernel["name"],
        grid=_three(kernel["grid"]),
        block=_three(kernel["block"]),
        shared_bytes=int(kernel["shared"]),
    )


def _three(text: str) -> tuple[int, int, int]:
    x, y, z, *_ = (*(int(n[:18]) for n in re.findall(r"\d+", text)), 1, 1, 1)
    return x, y, z


def parse_metadata(text: str) -> dict[int, str]:
    """Parse a thunk_metadata dump: each thunk's HLO instruction, by number."""
    found: dict[int, str] = {}
    name = ""
    for line in text.splitlines():
        if (named := _NAME.match(line)) is not None:
            name = named[1]
        elif (number := _ID.match(line)) is not None and name:
            found[int(number[1])] = name
            name = ""
        elif line.startswith("}"):
            name = ""
    return found
