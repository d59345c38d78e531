"""Rewrite a kernel's LLVM IR for the CPU: NVVM intrinsics become code for one thread of a block.

A kernel without barriers or shuffles becomes a function of the thread's and block's numbers. Any
other becomes a coroutine (LLVM's `llvm.coro.*`): each thread of a block is an instance, which
suspends where the thread waits. Before that it records what it waits for in the block's record; see
scheduler.py.

    call i32 @llvm.nvvm.read.ptx.sreg.tid.x()      the parameter %emu.tid
    @shared0 = internal addrspace(3) global ...    bytes of the block's shared memory
    call void @llvm.nvvm.barrier...                suspend, waiting for the block
    call T @llvm.nvvm.shfl.sync.bfly...            write the lane's value, suspend, waiting for the
                                                   warp, then read the other lane's
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field

from xlanb.errors import CompilationError
from xlanb.gpu.launches import LaunchedCode
from xlanb.lazy_dataclass import dataclass

WAITS_FOR_NOTHING, WAITS_FOR_BLOCK, WAITS_FOR_WARP = 0, 1, 2
"""What a thread waits for: it has ended, a barrier, its warp."""

RECORD = ("frames", "shared", "states", "exchange", "threads", "handles", "watch")
"""The words of a block's record.

frames: the threads' frames (null: allocate them); shared: its shared memory; states: an i32 per
thread, what it waits for; exchange: twice eight i64 per thread, its values for the warp; threads:
their number;
handles: their coroutines; watch: the record of accesses (see races.py).
"""

_DEFINE = re.compile(r"^define ptx_kernel void @([\w.$-]+)\((.*)\)([^()]*)\{$")
_SHARED = re.compile(r"^@(shared\d+) = internal addrspace\(3\) global \[(\d+) x (.+)\] poison, align (\d+)$")
_SHARED_USE = re.compile(r"addrspacecast ptr addrspace\(3\) @(shared\d+) to ptr")
_SREG = re.compile(r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.(\w+)(?:\.x)?\(\)")
_BLOCK_BARRIER = re.compile(r"^  call void @llvm\.nvvm\.barrier")
_WARP_BARRIER = re.compile(r"^  call void @llvm\.nvvm\.bar\.warp\.sync")
_SHUFFLE = re.compile(
    r"^  (%[\w.]+) = call (\w+) @llvm\.nvvm\.shfl\.sync\.(bfly|down|up|idx)\.\w+\(i32 \S+, "
    r"(\w+) (\S+), i32 (\S+), i32 \S+\)"
)
_MMA = re.compile(r"^  (%[\w.]+) = call (\{[^}]*\}) @llvm\.nvvm\.mma\.m16n8k16\.row\.col\.(bf16|f32\.f32)\((.*)\)")
MMA = {"bf16": "xlanb.emu.mma.bf16", "f32.f32": "xlanb.emu.mma.f16"}
"""The functions that compute a lane's results of a matrix fragment product (see scheduler.py)."""
EXCHANGED = 8
"""Words that a thread can send to its warp at once."""
_LABEL = re.compile(r"^([\w.$-]+):")
_INCOMING = re.compile(r"%([\w.$-]+) \]")
_SIZES = {"i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8}


@dataclass
class _RewrittenKernel:
    """A kernel being rewritten."""

    waits: bool
    offsets: dict[str, int] = field(default_factory=dict)
    size: int = 0
    count: int = 0
    block: str = "entry"
    ends: dict[str, str] = field(default_factory=dict)

    def fresh(self, name: str) -> str:
        self.count += 1
        return f"emu.{name}{self.count}"


def parameters_text(code: LaunchedCode) -> str:
    """Return a kernel's parameters as in its definition."""
    for line in code.ir.split("\n"):
        found = _DEFINE.match(line)
        if found is not None:
            return found[2]
    raise CompilationError(f"the IR of {code.function} does not define a kernel")


def rewritten(code: LaunchedCode, prefix: str) -> tuple[list[str], list[str], str]:
    """Return a kernel for the CPU: (globals and other functions, declarations, its function).

    Module-level symbols get a prefix, because many kernels become one module. The function takes
    the kernel's parameters, and (i32 %emu.tid, i32 %emu.ctaid, ptr %emu.block). A coroutine returns
    its handle.

    Raises:
        CompilationError: an NVVM intrinsic is not supported here.
    """
    k = _RewrittenKernel(code.waits)
    lines = code.ir.split("\n")
    own = {m[1] for line in lines if (m := re.match(r"^@([\w.$-]+) = ", line)) and not line.startswith("@shared")}
    own |= {m[1] for line in lines if (m := re.match(r"^define internal \S+(?: x \S+)? @([\w.$-]+)\(", line))}
    outside, declarations, body = list[str](), list[str](), list[str]()
    inside = False
    for line in lines:
        if _DEFINE.match(line):
            inside = True
        if inside:
            body.append(line)
            inside = line != "}"
            continue
        shared = _SHARED.match(line)
        if shared is not None:
            _place(k, shared)
        elif line.startswith("declare "):
            if "@llvm.nvvm." not in line:
                declarations.append(line)
        elif line and not line.startswith((";", "target ", "!")):
            outside.append(line)
    made = list(_body(k, body, prefix))
    text = "\n".join(_with_ends(k, made))
    names = re.compile("@(" + "|".join(map(re.escape, sorted(own, key=len, reverse=True))) + r")\b") if own else None
    if names is not None:
        text, outside = (names.sub(rf"@{prefix}\1", text), [names.sub(rf"@{prefix}\1", line) for line in outside])
    left = re.search(r"@llvm\.nvvm\.[\w.]+", text)
    if left is not None:
        raise CompilationError(f"the emulator does not implement {left[0][1:]}, used in kernel {code.function}")
    return outside, declarations, text


def _place(k: _RewrittenKernel, found: re.Match[str]) -> None:
    """Assign an array of shared memory its place in the block's."""
    name, count, type_, align = found[1], int(found[2]), found[3], int(found[4])
    at = -(-k.size // align) * align
    k.offsets[name], k.size = at, at + count * _SIZES[type_]


def _body(k: _RewrittenKernel, lines: list[str], prefix: str) -> Iterator[str]:
    found = _DEFINE.match(lines[0])
    if found is None:
        raise CompilationError("not a kernel definition")
    name, parameters = found[1], found[2]
    given = f"{parameters}{', ' if parameters else ''}i32 %emu.tid, i32 %emu.ctaid, ptr %emu.block"
    kind, attributes = ("ptr", "presplitcoroutine nounwind") if k.waits else ("void", "alwaysinline nounwind")
    yield f"define internal {kind} @{prefix}{name}({given}) {attributes} {{"
    stack = [line for line in lines if " = alloca " in line]
    for line in lines[1:]:
        line = line.split(", !dbg ")[0]
        label = _LABEL.match(line)
        if label is not None:
            yield line
            k.block = label[1]
            if k.block == "entry":
                yield from stack
                yield from _begin(k)
            continue
        if " = alloca " in line:
            continue
        if line == "  ret void" and k.waits:
            yield "  br label %emu.ended"
        elif line == "}" and k.waits:
            yield from _end()
        else:
            yield from _instruction(k, line)


def _instruction(k: _RewrittenKernel, line: str) -> Iterator[str]:
    shuffle, mma = _SHUFFLE.match(line), _MMA.match(line)
    if mma is not None:
        yield from _multiply(k, *mma.groups())
    elif _BLOCK_BARRIER.match(line):
        yield from _suspend(k, WAITS_FOR_BLOCK)
    elif _WARP_BARRIER.match(line):
        yield from _suspend(k, WAITS_FOR_WARP)
    elif shuffle is not None:
        yield from _shuffle(k, *shuffle.groups())
    else:
        line = _SHARED_USE.sub(lambda m: f"getelementptr i8, ptr %emu.shared, i64 {k.offsets[m[1]]}", line)
        yield _SREG.sub(_register, line)


def _register(found: re.Match[str]) -> str:
    known = {"tid": "add i32 %emu.tid, 0", "ctaid": "add i32 %emu.ctaid, 0", "laneid": "and i32 %emu.tid, 31"}
    return known.get(found[1], found[0])


def _begin(k: _RewrittenKernel) -> Iterator[str]:
    """Yield the first instructions of the entry block."""
    if not k.waits:
        if k.offsets:
            yield from _word("shared", 1)
        return
    yield "  %emu.turn = alloca i64"
    yield "  %emu.four = alloca [4 x float]"
    yield "  %emu.id = call token @llvm.coro.id(i32 16, ptr null, ptr null, ptr null)"
    yield "  %emu.bytes = call i64 @llvm.coro.size.i64()"
    yield "  %emu.padded = add i64 %emu.bytes, 63"
    yield "  %emu.size = and i64 %emu.padded, -64"
    yield "  %emu.known = load ptr, ptr %emu.block"
    yield "  %emu.first = icmp eq ptr %emu.known, null"
    yield "  br i1 %emu.first, label %emu.allocate, label %emu.allocated"
    yield "emu.allocate:"
    yield from _word("count", 4, "i64")
    yield "  %emu.all = mul i64 %emu.size, %emu.count"
    yield "  %emu.new = call ptr @malloc(i64 %emu.all)"
    yield "  store ptr %emu.new, ptr %emu.block"
    yield "  br label %emu.allocated"
    yield "emu.allocated:"
    yield "  %emu.base = phi ptr [ %emu.known, %entry ], [ %emu.new, %emu.allocate ]"
    yield "  %emu.wide = zext i32 %emu.tid to i64"
    yield "  %emu.at = mul i64 %emu.size, %emu.wide"
    yield "  %emu.frame = getelementptr i8, ptr %emu.base, i64 %emu.at"
    yield "  %emu.handle = call ptr @llvm.coro.begin(token %emu.id, ptr %emu.frame)"
    yield from _word("shared", 1)
    yield from _word("states", 2)
    yield from _word("exchange", 3)
    yield "  %emu.state = getelementptr i32, ptr %emu.states, i64 %emu.wide"
    yield f"  %emu.mine = mul i64 %emu.wide, {EXCHANGED}"
    yield "  %emu.slot = getelementptr i64, ptr %emu.exchange, i64 %emu.mine"
    yield "  %emu.lane = and i64 %emu.wide, 31"
    yield "  %emu.leader = sub i64 %emu.wide, %emu.lane"
    yield f"  %emu.ours = mul i64 %emu.leader, {EXCHANGED}"
    yield "  %emu.warp = getelementptr i64, ptr %emu.exchange, i64 %emu.ours"
    yield from _word("threads", 4, "i64")
    yield f"  %emu.stride = mul i64 %emu.threads, {EXCHANGED}"
    yield "  store i64 0, ptr %emu.turn"
    k.ends["entry"] = "emu.allocated"


def _word(name: str, number: int, type_: str = "ptr") -> Iterator[str]:
    yield f"  %emu.{name}.at = getelementptr i64, ptr %emu.block, i64 {number}"
    yield f"  %emu.{name} = load {type_}, ptr %emu.{name}.at"


def _end() -> Iterator[str]:
    yield "emu.ended:"
    yield f"  store i32 {WAITS_FOR_NOTHING}, ptr %emu.state"
    yield "  br label %emu.left"
    yield "emu.left:"
    yield "  call void @llvm.coro.end(ptr %emu.handle, i1 false, token none)"
    yield "  ret ptr %emu.handle"
    yield "}"


def _suspend(k: _RewrittenKernel, state: int) -> Iterator[str]:
    """Suspend; the current basic block continues under another name."""
    found, following = k.fresh("woken"), k.fresh("after")
    yield f"  store i32 {state}, ptr %emu.state"
    yield f"  %{found} = call i8 @llvm.coro.suspend(token none, i1 false)"
    yield f"  switch i8 %{found}, label %emu.left [ i8 0, label %{following} i8 1, label %emu.left ]"
    yield f"{following}:"
    k.ends[k.block] = following


def _shuffle(k: _RewrittenKernel, result: str, type_: str, how: str, _: str, value: str, lane: str) -> Iterator[str]:
    """Write a shuffle through two slots per thread, used in turn.

    A thread reuses a slot only after all threads have read it.
    """
    names = ("turn", "base", "mine", "lane", "first", "other", "from", "wide", "theirs", "slot", "next", "place")
    turn, base, mine, own, first, other, source, wide, theirs, slot, following, place = (
        f"%{k.fresh(name)}" for name in names
    )
    yield f"  {turn} = load i64, ptr %emu.turn"
    yield f"  {base} = mul i64 {turn}, %emu.stride"
    yield f"  {mine} = getelementptr i64, ptr %emu.slot, i64 {base}"
    yield f"  store {type_} {value}, ptr {mine}"
    yield f"  {following} = xor i64 {turn}, 1"
    yield f"  store i64 {following}, ptr %emu.turn"
    yield from _suspend(k, WAITS_FOR_WARP)
    yield f"  {own} = and i32 %emu.tid, 31"
    yield f"  {first} = sub i32 %emu.tid, {own}"
    yield from _source_lane(k, how, own, lane, other)
    yield f"  {source} = add i32 {first}, {other}"
    yield f"  {wide} = zext i32 {source} to i64"
    yield f"  {place} = mul i64 {wide}, {EXCHANGED}"
    yield f"  {slot} = add i64 {base}, {place}"
    yield f"  {theirs} = getelementptr i64, ptr %emu.exchange, i64 {slot}"
    yield f"  {result} = load {type_}, ptr {theirs}"


def _multiply(k: _RewrittenKernel, result: str, type_: str, kind: str, arguments: str) -> Iterator[str]:
    """Write a product of fragments: a lane stores its words, then computes its results."""
    turn, base, following, first, own = (f"%{k.fresh(n)}" for n in ("turn", "base", "next", "first", "lane"))
    given = arguments.split(", ")
    yield f"  {turn} = load i64, ptr %emu.turn"
    yield f"  {base} = mul i64 {turn}, %emu.stride"
    for n, word in enumerate(given[:6]):
        place, at = f"%{k.fresh('place')}", f"%{k.fresh('at')}"
        yield f"  {place} = add i64 {base}, {n}"
        yield f"  {at} = getelementptr i64, ptr %emu.slot, i64 {place}"
        yield f"  store {word}, ptr {at}"
    yield f"  {following} = xor i64 {turn}, 1"
    yield f"  store i64 {following}, ptr %emu.turn"
    yield from _suspend(k, WAITS_FOR_WARP)
    yield f"  {own} = and i32 %emu.tid, 31"
    yield f"  {first} = getelementptr i64, ptr %emu.warp, i64 {base}"
    yield f"  call void @{MMA[kind]}(ptr {first}, i32 {own}, ptr %emu.four, {', '.join(given[6:])})"
    made = "poison"
    for n in range(4):
        at, value = f"%{k.fresh('at')}", f"%{k.fresh('value')}"
        name = result if n == 3 else f"%{k.fresh('sum')}"
        yield f"  {at} = getelementptr float, ptr %emu.four, i64 {n}"
        yield f"  {value} = load float, ptr {at}"
        yield f"  {name} = insertvalue {type_} {made}, float {value}, {n}"
        made = name


def _source_lane(k: _RewrittenKernel, how: str, own: str, lane: str, result: str) -> Iterator[str]:
    """Return the lane that a shuffle reads (PTX ISA, shfl.sync, segments of 32 lanes)."""
    if how == "bfly":
        yield f"  {result} = xor i32 {own}, {lane}"
    elif how == "idx":
        yield f"  {result} = and i32 {lane}, 31"
    else:
        moved, inside = f"%{k.fresh('moved')}", f"%{k.fresh('inside')}"
        yield f"  {moved} = {'add' if how == 'down' else 'sub'} i32 {own}, {lane}"
        yield f"  {inside} = icmp ule i32 {moved}, 31"
        yield f"  {result} = select i1 {inside}, i32 {moved}, i32 {own}"


def _with_ends(k: _RewrittenKernel, lines: list[str]) -> Iterator[str]:
    """Return the lines with phis renamed to the blocks in which predecessors end."""
    for line in lines:
        if " = phi " in line and not line.startswith("  %emu."):
            yield _INCOMING.sub(lambda m: f"%{_last(k, m[1])} ]", line)
        else:
            yield line


def _last(k: _RewrittenKernel, block: str) -> str:
    return k.ends.get(block, block)
