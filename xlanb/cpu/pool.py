"""The pool of threads, in LLVM IR: `xlanb.parallel(part, context, count, chunks, threads)` runs part(context, low, high, slot) over 0..count in `chunks` parts.

The parts are claimed one by one by whoever is free, the caller among them, so that a caller whose workers are late does all the work itself. A worker that finds nothing to
do spins for some microseconds and then sleeps on a futex. One job runs at a time: a second thread that comes with a job meanwhile does it alone.

`ticket` holds the generation of the job (upper half, which is also the futex) and how many parts are claimed from the front (16 bits) and from the end (16 bits). The caller
takes the first ones and workers the last ones, so that from job to job each finds in its cache what it wrote itself. A claim is a compare-and-exchange of the whole, so a
worker that comes late with an old generation or an old number fails; between jobs the lower half is closed (all ones), and only then is the job's description changed.

A thread that computes may be taken away from its part (see xlanb.cpu.guard): the caller then gives the job up, and a worker counts its part as done and looks for the next job.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache

from xlanb.codegen.function import PARALLEL
from xlanb.cpu import guard, jit
from xlanb.cpu.bridge import bridge
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_units
from xlanb.cpu.target import FUTEX, Target

_LOCK = threading.RLock()
FRONT, END = 1, 1 << 16
"""What the ticket grows by with a claim."""
MOST = (1 << 16) - 1
"""Parts of one job."""
SPINS = 2000
"""Rounds that a worker waits for the next job before it sleeps, each a `pause`: some tens of microseconds."""

_PAUSE = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.hint(i32 1)",
}
_DECLARE_PAUSE = {
    "x86_64": "declare void @llvm.x86.sse2.pause()",
    "aarch64": "declare void @llvm.aarch64.hint(i32)",
}


def _claims(who: str, slot: str, entry: str, ticket: str, done: str, run: str) -> str:
    """Blocks `WHO.claim` and on: claim parts and run them until there is none, then go to `done`; `run` runs one of them. The caller claims from the front, others from the end."""
    step = FRONT if who == "c" else END
    index = f"%{who}.front" if who == "c" else f"%{who}.back"
    return f"""
{who}.claim:
  %{who}.t = phi i64 [ {ticket}, %{entry} ], [ %{who}.old, %{who}.try ], [ %{who}.again, %{who}.ran ]
  %{who}.g = lshr i64 %{who}.t, 32
  %{who}.same = icmp eq i64 %{who}.g, %generation
  %{who}.front = and i64 %{who}.t, 65535
  %{who}.lower = lshr i64 %{who}.t, 16
  %{who}.end = and i64 %{who}.lower, 65535
  %{who}.claimed = add i64 %{who}.front, %{who}.end
  %{who}.left = icmp ult i64 %{who}.claimed, %chunks
  %{who}.free = and i1 %{who}.same, %{who}.left
  br i1 %{who}.free, label %{who}.try, label %{done}
{who}.try:
  %{who}.next = add i64 %{who}.t, {step}
  %{who}.pair = cmpxchg ptr @ticket, i64 %{who}.t, i64 %{who}.next acq_rel acquire
  %{who}.old = extractvalue {{ i64, i1 }} %{who}.pair, 0
  %{who}.won = extractvalue {{ i64, i1 }} %{who}.pair, 1
  br i1 %{who}.won, label %{who}.run, label %{who}.claim
{who}.run:
  %{who}.last = sub i64 %chunks, 1
  %{who}.back = sub i64 %{who}.last, %{who}.end
  {run.format(call=f"call void @chunk(ptr %part, ptr %context, i64 %count, i64 %chunks, i64 {index}, i64 {slot})")}
  br label %{who}.ran
{who}.ran:
  %{who}.before = atomicrmw add ptr @done, i64 1 acq_rel
  %{who}.again = load atomic i64, ptr @ticket acquire, align 8
  br label %{who}.claim"""


_CALLER_RUNS = """store volatile i64 2, ptr %pool.at
  store volatile i64 %mode, ptr %mode.at
  call void @xlanb.check(ptr %r)
  {call}
  store volatile i64 0, ptr %mode.at
  store volatile i64 1, ptr %pool.at"""
_WORKER_RUNS = """store volatile i64 1, ptr %mode.at
  %off = load atomic i64, ptr @given.up seq_cst, align 8
  %on = icmp eq i64 %off, 0
  br i1 %on, label %w.part, label %w.counted
w.part:
  {call}
  br label %w.counted
w.counted:
  store volatile i64 0, ptr %mode.at"""
"""In mode 1 (see xlanb.cpu.guard) is a part and nothing else: who is taken away from it counts it as done."""

_TEMPLATE = """target datalayout = "{layout}"
target triple = "{triple}"
@ticket = internal global [8 x i64] [i64 4294967295, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0], align 64
@done = internal global [8 x i64] zeroinitializer, align 64
@job = internal global [8 x i64] zeroinitializer, align 64
@busy = internal global [16 x i32] zeroinitializer, align 64
@sleepers = internal global [16 x i32] zeroinitializer, align 64
@created = internal global i32 0
@given.up = internal global i64 0
@threads = internal global [{threads} x i64] zeroinitializer
@nobody = internal global [16 x i64] zeroinitializer
@start = internal global i32 0

declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_kill(i64, i32)
declare i32 @sched_yield()
declare i32 @sigemptyset(ptr)
declare i32 @sigaddset(ptr, i32)
declare i32 @_setjmp(ptr) returns_twice
declare ptr @xlanb.record()
declare void @xlanb.check(ptr)
{declare_pause}

; The record of this thread; one that nobody looks at where there is no memory.
define internal ptr @record() {{
  %own = call ptr @xlanb.record()
  %none = icmp eq ptr %own, null
  %r = select i1 %none, ptr @nobody, ptr %own
  ret ptr %r
}}

define internal void @chunk(ptr %part, ptr %context, i64 %count, i64 %chunks, i64 %k, i64 %slot) {{
  %a = mul i64 %k, %count
  %low = udiv i64 %a, %chunks
  %b = add i64 %a, %count
  %high = udiv i64 %b, %chunks
  call void %part(ptr %context, i64 %low, i64 %high, i64 %slot)
  ret void
}}

define internal ptr @worker(ptr %argument) {{
entry:
  %frame = alloca [{frame} x i8], align 64
  %mine = alloca [128 x i8], align 8
  %slot = ptrtoint ptr %argument to i64
  %first = load atomic i32, ptr @start acquire, align 4
  %r = call ptr @record()
  %user.at = getelementptr i64, ptr %r, i64 2
  store i64 2, ptr %user.at
  %mode.at = getelementptr i64, ptr %r, i64 3
  store ptr null, ptr %frame
  %word.at = getelementptr i64, ptr %frame, i64 1
  store ptr @given.up, ptr %word.at
  %was.at = getelementptr i64, ptr %frame, i64 2
  store i64 0, ptr %was.at
  %frame.at = getelementptr i64, ptr %r, i64 4
  store ptr %frame, ptr %frame.at
  %e = call i32 @sigemptyset(ptr %mine)
  %s = call i32 @sigaddset(ptr %mine, i32 {urgent})
  %u = call i32 @pthread_sigmask(i32 1, ptr %mine, ptr null)
  %buffer = getelementptr i8, ptr %frame, i64 64
  %k = call i32 @_setjmp(ptr %buffer) returns_twice
  %left = icmp ne i32 %k, 0
  br i1 %left, label %taken, label %idle
taken:
  ; From a part, which counts as done. Until that is counted the job is the same.
  %t.taken = load atomic i64, ptr @ticket acquire, align 8
  %g.taken = lshr i64 %t.taken, 32
  %counted = atomicrmw add ptr @done, i64 1 acq_rel
  br label %job
idle:
  %seen = phi i32 [ %first, %entry ], [ %now, %out ], [ %seen, %sleep ]
  br label %spin
spin:
  %n = phi i32 [ 0, %idle ], [ %n.next, %wait ]
  %t.spin = load atomic i64, ptr @ticket acquire, align 8
  %g.spin = lshr i64 %t.spin, 32
  %found = trunc i64 %g.spin to i32
  %new = icmp ne i32 %found, %seen
  br i1 %new, label %job, label %wait
wait:
  {pause}
  %n.next = add i32 %n, 1
  %more = icmp ult i32 %n.next, {spins}
  br i1 %more, label %spin, label %sleep
sleep:
  %asleep = atomicrmw add ptr @sleepers, i32 1 seq_cst
  %called = call i64 (i64, ...) @syscall(i64 {futex}, ptr getelementptr (i8, ptr @ticket, i64 4), i32 128, i32 %seen, ptr null, ptr null, i32 0)
  %awake = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %idle
job:
  %t = phi i64 [ %t.spin, %spin ], [ %t.taken, %taken ]
  %generation = phi i64 [ %g.spin, %spin ], [ %g.taken, %taken ]
  %now = trunc i64 %generation to i32
  %part.n = load atomic i64, ptr @job monotonic, align 8
  %context.n = load atomic i64, ptr getelementptr (i8, ptr @job, i64 8) monotonic, align 8
  %count = load atomic i64, ptr getelementptr (i8, ptr @job, i64 16) monotonic, align 8
  %chunks = load atomic i64, ptr getelementptr (i8, ptr @job, i64 24) monotonic, align 8
  %threads = load atomic i64, ptr getelementptr (i8, ptr @job, i64 32) monotonic, align 8
  %part = inttoptr i64 %part.n to ptr
  %context = inttoptr i64 %context.n to ptr
  %member = icmp ult i64 %slot, %threads
  br i1 %member, label %w.claim, label %out{worker_claims}
out:
  br label %idle
}}

define internal void @create() {{
entry:
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  %id = alloca ptr, align 8
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  %t = load atomic i64, ptr @ticket acquire, align 8
  %g = lshr i64 %t, 32
  %now = trunc i64 %g to i32
  store atomic i32 %now, ptr @start release, align 4
  %m = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %head
head:
  %k = phi i64 [ 1, %entry ], [ %next, %tail ]
  %more = icmp ult i64 %k, {threads}
  br i1 %more, label %one, label %end
one:
  %argument = inttoptr i64 %k to ptr
  %failed = call i32 @pthread_create(ptr %id, ptr null, ptr @worker, ptr %argument)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %detach, label %tail
detach:
  %thread = load ptr, ptr %id
  %thread.at = getelementptr i64, ptr @threads, i64 %k
  store ptr %thread, ptr %thread.at
  %d = call i32 @pthread_detach(ptr %thread)
  br label %tail
tail:
  %next = add i64 %k, 1
  br label %head
end:
  %u = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  store i32 1, ptr @created
  ret void
}}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; The thread was taken away from its job (see xlanb.cpu.guard): nobody begins another part, who is in one is taken away too.
define internal void @abandon(ptr %r) {{
entry:
  store atomic i64 1, ptr @given.up seq_cst, align 8
  %chunks = load atomic i64, ptr getelementptr (i8, ptr @job, i64 24) monotonic, align 8
  %pool.at = getelementptr i64, ptr %r, i64 5
  %state = load volatile i64, ptr %pool.at
  %was.in = icmp eq i64 %state, 2
  br i1 %was.in, label %count, label %drain
count:
  %c = atomicrmw add ptr @done, i64 1 acq_rel
  br label %drain
drain:
  %t = load atomic i64, ptr @ticket acquire, align 8
  %front = and i64 %t, 65535
  %lower = lshr i64 %t, 16
  %end = and i64 %lower, 65535
  %claimed = add i64 %front, %end
  %left = icmp ult i64 %claimed, %chunks
  br i1 %left, label %claim, label %tell
claim:
  %next = add i64 %t, {front}
  %pair = cmpxchg ptr @ticket, i64 %t, i64 %next acq_rel acquire
  %won = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %won, label %count, label %drain
tell:
  %w = phi i64 [ 1, %drain ], [ %w.next, %told ]
  %w.more = icmp ult i64 %w, {threads}
  br i1 %w.more, label %one, label %wait
one:
  %w.next = add i64 %w, 1
  %thread.at = getelementptr i64, ptr @threads, i64 %w
  %thread = load i64, ptr %thread.at
  %is = icmp ne i64 %thread, 0
  br i1 %is, label %send, label %told
send:
  %s = call i32 @pthread_kill(i64 %thread, i32 {urgent})
  br label %told
told:
  br label %tell
wait:
  %y = call i32 @sched_yield()
  %d = load atomic i64, ptr @done acquire, align 8
  %over = icmp uge i64 %d, %chunks
  br i1 %over, label %free, label %wait
free:
  store atomic i64 0, ptr @given.up seq_cst, align 8
  store i64 0, ptr %pool.at
  store atomic i32 0, ptr @busy release, align 4
  ret void
}}

define void @{symbol}(ptr %part, ptr %context, i64 %count, i64 %wanted, i64 %threads) {{
entry:
  %few = icmp ult i64 %wanted, {most}
  %chunks = select i1 %few, i64 %wanted, i64 {most}
  %timeout = alloca [2 x i64], align 8
  %r = call ptr @record()
  %mode.at = getelementptr i64, ptr %r, i64 3
  %mode = load volatile i64, ptr %mode.at
  store volatile i64 0, ptr %mode.at
  %pair = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %mine = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %mine, label %own, label %others
others:
  store volatile i64 %mode, ptr %mode.at
  call void @xlanb.check(ptr %r)
  br label %alone
alone:
  %k = phi i64 [ 0, %others ], [ %k.next, %alone ]
  call void @chunk(ptr %part, ptr %context, i64 %count, i64 %chunks, i64 %k, i64 0)
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %chunks
  br i1 %k.more, label %alone, label %end
own:
  %pool.at = getelementptr i64, ptr %r, i64 5
  store volatile i64 1, ptr %pool.at
  %abandon.at = getelementptr i64, ptr %r, i64 6
  store ptr @abandon, ptr %abandon.at
  %made = load i32, ptr @created
  %ready = icmp ne i32 %made, 0
  br i1 %ready, label %publish, label %make
make:
  call void @create()
  br label %publish
publish:
  %t = load atomic i64, ptr @ticket monotonic, align 8
  %closed = or i64 %t, 4294967295
  store atomic i64 %closed, ptr @ticket seq_cst, align 8
  fence seq_cst
  %part.n = ptrtoint ptr %part to i64
  %context.n = ptrtoint ptr %context to i64
  store atomic i64 %part.n, ptr @job monotonic, align 8
  store atomic i64 %context.n, ptr getelementptr (i8, ptr @job, i64 8) monotonic, align 8
  store atomic i64 %count, ptr getelementptr (i8, ptr @job, i64 16) monotonic, align 8
  store atomic i64 %chunks, ptr getelementptr (i8, ptr @job, i64 24) monotonic, align 8
  store atomic i64 %threads, ptr getelementptr (i8, ptr @job, i64 32) monotonic, align 8
  store atomic i64 0, ptr @done monotonic, align 8
  %open = add i64 %closed, 1
  store atomic i64 %open, ptr @ticket seq_cst, align 8
  %generation = lshr i64 %open, 32
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %c.claim
wake:
  %called = call i64 (i64, ...) @syscall(i64 {futex}, ptr getelementptr (i8, ptr @ticket, i64 4), i32 129, i32 {threads}, ptr null, ptr null, i32 0)
  br label %c.claim{caller_claims}
over:
  store volatile i64 %mode, ptr %mode.at
  call void @xlanb.check(ptr %r)
  br label %finish
finish:
  %n = phi i64 [ 0, %over ], [ %n.next, %again ]
  %d = load atomic i64, ptr @done acquire, align 8
  %all = icmp uge i64 %d, %chunks
  br i1 %all, label %release, label %pending
pending:
  {pause}
  %n.next = add i64 %n, 1
  %patient = icmp ult i64 %n.next, {patience}
  br i1 %patient, label %again, label %doze
doze:
  store i64 0, ptr %timeout
  %ns = getelementptr i8, ptr %timeout, i64 8
  store i64 50000, ptr %ns
  %d32 = trunc i64 %d to i32
  %z = call i64 (i64, ...) @syscall(i64 {futex}, ptr @done, i32 128, i32 %d32, ptr %timeout, ptr null, i32 0)
  br label %again
again:
  br label %finish
release:
  store volatile i64 0, ptr %mode.at
  store volatile i64 0, ptr %pool.at
  store atomic i32 0, ptr @busy release, align 4
  store volatile i64 %mode, ptr %mode.at
  call void @xlanb.check(ptr %r)
  br label %end
end:
  ret void
}}

; In the child of a fork there are no workers any more, and no job of another thread.
define void @xlanb.pool.reset() {{
  store atomic i32 0, ptr @busy release, align 4
  store i32 0, ptr @created
  store atomic i32 0, ptr @sleepers release, align 4
  store atomic i64 0, ptr @given.up release, align 8
  %t = load atomic i64, ptr @ticket monotonic, align 8
  %closed = or i64 %t, 4294967295
  store atomic i64 %closed, ptr @ticket release, align 8
  ret void
}}
"""


def text(target: Target) -> str:
    """The LLVM IR of the pool with `target.threads` threads, the caller counted."""
    arch = target.triple.split("-")[0]
    caller = _claims("c", "0", "publish", "%open", "over", _CALLER_RUNS).replace(
        "[ %open, %publish ]", "[ %open, %publish ], [ %open, %wake ]"
    )
    return _TEMPLATE.format(
        layout=target.data_layout,
        triple=target.triple,
        symbol=PARALLEL,
        futex=FUTEX[arch],
        pause=_PAUSE.get(arch, ""),
        declare_pause=_DECLARE_PAUSE.get(arch, ""),
        spins=SPINS,
        patience=4 * SPINS,
        threads=target.threads,
        front=FRONT,
        most=MOST,
        frame=guard.FRAME_BYTES,
        urgent=guard.URGENT,
        worker_claims=_claims("w", "%slot", "job", "%t", "out", _WORKER_RUNS),
        caller_claims=caller,
    )


@cache
def address() -> int:
    """The address of `xlanb.parallel` in this process; the pool is loaded once, its threads start with the first job."""
    with _LOCK:
        return _address()


@cache
def _address() -> int:
    target, reset_name = jit.host(), "xlanb.pool.reset"
    unit = Unit(text(target), ready=False, weight=0, everywhere=True)
    symbols = bridge().symbols(guard.RECORD, guard.CHECK)
    code = jit.LoadedCode(compile_units([unit], target), [PARALLEL, reset_name], symbols)
    # Sleeping workers stand in this code until the process ends, so it must outlive the interpreter's own clearing up.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    os.register_at_fork(after_in_child=code.function(reset_name, 0))
    return code.address(PARALLEL)
