"""Executions that can be stopped at any point, in LLVM IR: the part of the bridge (see xlanb.cpu.bridge) that runs a program, and what stops it.

Machine code asks nobody whether to go on. Whoever wants a thread to stop sends it a signal, SIGURG, which nobody minds who does not know it; the handler finds out
whether the thread is in a program's own code, and if so leaves it there, back to `xlanb.guard`, which then tells its caller. So kernels need no instructions for this, and
an execution that nobody stops pays nothing but one `_setjmp`.

A thread has a record, and the record a mode: 1 where the thread computes and may be taken away, 0 where it holds something of others' (it manages the pool, is in Python). What
was asked of a thread in mode 0 it finds when it goes back into mode 1: `xlanb.check`. Only the thread itself, its handler included, writes its record.

Who asks:
- Python's own signals. They wait until the main thread looks; a thread of the system (`watch`) sees every 50 ms whether the main thread has been in the same execution for so
  long, and makes it look: the handler takes the GIL and calls PyErr_CheckSignals. An exception ends the execution; if none is raised, it goes on where it was. The
  watcher ends when the main thread has run no program for some seconds.
- `xlanb.cancel(word)`. Each program has a word that counts how often it was cancelled; an execution keeps what the word was at its beginning, and stops where it has changed.

A record, in words: next, thread, who uses it (0 nobody, 1 a caller, 2 a worker of the pool), mode, the innermost frame, 1 where the thread owns the pool's job and 2
where it also runs a part of it, what gives the job up, why it was stopped.
A frame: the frame around it, the word, what that was, the pool's state of the frame around, MXCSR, unused up to 64 bytes, then the jmp_buf.
"""

from __future__ import annotations

from typing import Final

from xlanb.cpu.target import Target

OK, CANCELLED, RAISED, NO_MEMORY = range(4)
"""What `xlanb.guard` gives: the program has ended; it was cancelled; a Python exception is set (by a signal's handler or a host call); there was no memory."""

GUARD, HOST, CHECK, CANCEL, RECORD, BEGIN, FORKED = (
    f"xlanb.{name}" for name in ("guard", "host", "check", "cancel", "record", "begin", "forked")
)
"""The names of the functions."""

FRAME_BYTES: Final = 640
"""Room for a frame: 64 bytes, and more than any system's jmp_buf takes."""
_TICK = 50_000_000
"""Nanoseconds between two looks of the watcher."""
_IDLE = 60
"""Looks without work after which it ends."""

URGENT: Final = 23
"""SIGURG on Linux."""
_LINUX = {"urgent": URGENT, "flags": 0x4 | 0x10000000 | 0x40000000, "flags_at": 136, "sent": -6, "set_mask": 2}
_DARWIN = {"urgent": 16, "flags": 0x40 | 0x2 | 0x10, "flags_at": 12, "sent": 0x10001, "set_mask": 3}
"""SIGURG; SA_SIGINFO, SA_RESTART, SA_NODEFER; the place of a sigaction's flags; si_code of pthread_kill; SIG_SETMASK."""

_TEXT = """
@guard.key = internal global i64 0
@guard.main.thread = internal global i64 0
@guard.records = internal global ptr null
@guard.lock = internal global i32 0
@guard.watching = internal global i32 0
@guard.main.begun = internal global i64 0
@guard.main.record = internal global ptr null
@guard.former = internal global ptr null

declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific(i64)
declare i32 @pthread_setspecific(i64, ptr)
declare i64 @pthread_self()
declare i32 @pthread_kill(i64, i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sched_yield()
declare i32 @nanosleep(ptr, ptr)
declare i32 @sigaction(i32, ptr, ptr)
declare i32 @_setjmp(ptr) returns_twice
declare void @longjmp(ptr, i32) noreturn
declare ptr @calloc(i64, i64)
{declare_mode}

; -- records -----------------------------------------------------------------------------------------------------------

define internal void @guard.acquire() {{
entry:
  br label %try
try:
  %was = atomicrmw xchg ptr @guard.lock, i32 1 acquire
  %mine = icmp eq i32 %was, 0
  br i1 %mine, label %done, label %wait
wait:
  %y = call i32 @sched_yield()
  br label %try
done:
  ret void
}}

define internal void @guard.release() {{
  store atomic i32 0, ptr @guard.lock release, align 4
  ret void
}}

; The record of this thread; null where there is no memory for one.
define ptr @xlanb.record() {{
entry:
  %key = load i64, ptr @guard.key
  %known = call ptr @pthread_getspecific(i64 %key)
  %is = icmp ne ptr %known, null
  br i1 %is, label %give, label %make
give:
  ret ptr %known
make:
  call void @guard.acquire()
  %first = load ptr, ptr @guard.records
  br label %search
search:
  %r = phi ptr [ %first, %make ], [ %r.next, %used ]
  %end = icmp eq ptr %r, null
  br i1 %end, label %new, label %look
look:
  %user.at = getelementptr i64, ptr %r, i64 2
  %user = load i64, ptr %user.at
  %free = icmp eq i64 %user, 0
  br i1 %free, label %take, label %used
used:
  %r.next = load ptr, ptr %r
  br label %search
new:
  %fresh = call ptr @calloc(i64 16, i64 8)
  %none = icmp eq ptr %fresh, null
  br i1 %none, label %out, label %enlist
enlist:
  store ptr %first, ptr %fresh
  store ptr %fresh, ptr @guard.records
  br label %take
take:
  %mine = phi ptr [ %r, %look ], [ %fresh, %enlist ]
  %thread.at = getelementptr i64, ptr %mine, i64 1
  %self = call i64 @pthread_self()
  store i64 %self, ptr %thread.at
  %mine.user = getelementptr i64, ptr %mine, i64 2
  store i64 1, ptr %mine.user
  %s = call i32 @pthread_setspecific(i64 %key, ptr %mine)
  br label %out
out:
  %given = phi ptr [ %mine, %take ], [ null, %new ]
  call void @guard.release()
  ret ptr %given
}}

; A thread ends: nobody may send it anything any more.
define internal void @guard.thread.ends(ptr %r) {{
  call void @guard.acquire()
  %user.at = getelementptr i64, ptr %r, i64 2
  store i64 0, ptr %user.at
  call void @guard.release()
  ret void
}}

define void @xlanb.begin(i64 %main) {{
  store i64 %main, ptr @guard.main.thread
  %failed = call i32 @pthread_key_create(ptr @guard.key, ptr @guard.thread.ends)
  ret void
}}

; In the child of a fork there is one thread, now the main one.
define void @xlanb.forked(i64 %main) {{
entry:
  store i64 %main, ptr @guard.main.thread
  store atomic i32 0, ptr @guard.lock release, align 4
  store atomic i32 0, ptr @guard.watching release, align 4
  store ptr null, ptr @guard.main.record
  %first = load ptr, ptr @guard.records
  %key = load i64, ptr @guard.key
  %own = call ptr @pthread_getspecific(i64 %key)
  br label %each
each:
  %r = phi ptr [ %first, %entry ], [ %next, %one.done ]
  %end = icmp eq ptr %r, null
  br i1 %end, label %out, label %one
one:
  %next = load ptr, ptr %r
  %mine = icmp eq ptr %r, %own
  br i1 %mine, label %one.done, label %forget
forget:
  %user.at = getelementptr i64, ptr %r, i64 2
  call void @llvm.memset.p0.i64(ptr %user.at, i8 0, i64 64, i1 false)
  br label %one.done
one.done:
  br label %each
out:
  ret void
}}

; -- stopping ----------------------------------------------------------------------------------------------------------

; Whether an execution of this thread was cancelled: this one, or one that this one is called from.
define internal i1 @guard.cancelled(ptr %r) {{
entry:
  %frame.at = getelementptr i64, ptr %r, i64 4
  %top = load volatile ptr, ptr %frame.at
  br label %each
each:
  %frame = phi ptr [ %top, %entry ], [ %outer, %one ]
  %end = icmp eq ptr %frame, null
  br i1 %end, label %no, label %one
one:
  %word.at = getelementptr i64, ptr %frame, i64 1
  %word = load ptr, ptr %word.at
  %was.at = getelementptr i64, ptr %frame, i64 2
  %was = load i64, ptr %was.at
  %is = load atomic i64, ptr %word seq_cst, align 8
  %outer = load ptr, ptr %frame
  %same = icmp eq i64 %is, %was
  br i1 %same, label %each, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal void @guard.leave(ptr %r, i64 %why) noreturn {{
  %mode.at = getelementptr i64, ptr %r, i64 3
  store volatile i64 0, ptr %mode.at
  %why.at = getelementptr i64, ptr %r, i64 7
  store i64 %why, ptr %why.at
  %frame.at = getelementptr i64, ptr %r, i64 4
  %frame = load volatile ptr, ptr %frame.at
  %buffer = getelementptr i8, ptr %frame, i64 64
  call void @longjmp(ptr %buffer, i32 1)
  unreachable
}}

; Back in mode 1: see whether something was asked meanwhile.
define void @xlanb.check(ptr %r) {{
entry:
  %mode.at = getelementptr i64, ptr %r, i64 3
  %mode = load volatile i64, ptr %mode.at
  %free = icmp ne i64 %mode, 0
  br i1 %free, label %see, label %on
see:
  %told = call i1 @guard.cancelled(ptr %r)
  br i1 %told, label %stop, label %on
stop:
  call void @guard.leave(ptr %r, i64 {cancelled})
  unreachable
on:
  ret void
}}

define internal void @guard.handler(i32 %signal, ptr %info, ptr %context) {{
entry:
  %former = load ptr, ptr @guard.former
  %alone = icmp eq ptr %former, null
  %code.at = getelementptr i32, ptr %info, i64 2
  %code = load i32, ptr %code.at
  %sent = icmp eq i32 %code, {sent}
  %ours = or i1 %alone, %sent
  br i1 %ours, label %own, label %pass.on
pass.on:
  call void %former(i32 %signal, ptr %info, ptr %context)
  ret void
own:
  %key = load i64, ptr @guard.key
  %r = call ptr @pthread_getspecific(i64 %key)
  %unknown = icmp eq ptr %r, null
  br i1 %unknown, label %out, label %known
known:
  %mode.at = getelementptr i64, ptr %r, i64 3
  %mode = load volatile i64, ptr %mode.at
  %closed = icmp eq i64 %mode, 0
  br i1 %closed, label %out, label %open
open:
  store volatile i64 0, ptr %mode.at
  %told = call i1 @guard.cancelled(ptr %r)
  br i1 %told, label %stop, label %who
who:
  %self = call i64 @pthread_self()
  %main = load i64, ptr @guard.main.thread
  %is.main = icmp eq i64 %self, %main
  br i1 %is.main, label %ask, label %resume
ask:
  %gil = call i32 @PyGILState_Ensure()
  %failed = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %gil)
  %raised = icmp ne i32 %failed, 0
  br i1 %raised, label %stop, label %again
again:
  %told.now = call i1 @guard.cancelled(ptr %r)
  br i1 %told.now, label %stop, label %resume
stop:
  %why = phi i64 [ {cancelled}, %open ], [ {raised}, %ask ], [ {cancelled}, %again ]
  call void @guard.leave(ptr %r, i64 %why)
  unreachable
resume:
  store volatile i64 1, ptr %mode.at
  ret void
out:
  ret void
}}

; The handler is there from the first time on that somebody asks; who had one before, or puts one over it, still gets what is not ours.
define internal void @guard.install() {{
entry:
  %old = alloca [256 x i8], align 16
  %new = alloca [256 x i8], align 16
  %s = call i32 @sigaction(i32 {urgent}, ptr null, ptr %old)
  %there = load ptr, ptr %old
  %known = icmp eq ptr %there, @guard.handler
  br i1 %known, label %out, label %put
put:
  %number = ptrtoint ptr %there to i64
  %real = icmp ugt i64 %number, 1
  %before = select i1 %real, ptr %there, ptr null
  store ptr %before, ptr @guard.former
  call void @llvm.memset.p0.i64(ptr %new, i8 0, i64 256, i1 false)
  store ptr @guard.handler, ptr %new
  %flags.at = getelementptr i8, ptr %new, i64 {flags_at}
  store i32 {flags}, ptr %flags.at
  %t = call i32 @sigaction(i32 {urgent}, ptr %new, ptr null)
  br label %out
out:
  ret void
}}

; Stop all executions of the program with this word; gives how many there were.
define i64 @xlanb.cancel(ptr %word) {{
entry:
  call void @guard.install()
  %before = atomicrmw add ptr %word, i64 1 seq_cst
  %running.at = getelementptr i64, ptr %word, i64 1
  %running = load atomic i64, ptr %running.at seq_cst, align 8
  %none = icmp eq i64 %running, 0
  br i1 %none, label %out, label %tell
tell:
  call void @guard.acquire()
  %first = load ptr, ptr @guard.records
  br label %each
each:
  %r = phi ptr [ %first, %tell ], [ %next, %one.done ]
  %end = icmp eq ptr %r, null
  br i1 %end, label %told, label %one
one:
  %next = load ptr, ptr %r
  %user.at = getelementptr i64, ptr %r, i64 2
  %user = load i64, ptr %user.at
  %caller = icmp eq i64 %user, 1
  %frame.at = getelementptr i64, ptr %r, i64 4
  %frame = load atomic ptr, ptr %frame.at seq_cst, align 8
  %runs = icmp ne ptr %frame, null
  %wanted = and i1 %caller, %runs
  br i1 %wanted, label %send, label %one.done
send:
  %thread.at = getelementptr i64, ptr %r, i64 1
  %thread = load i64, ptr %thread.at
  %k = call i32 @pthread_kill(i64 %thread, i32 {urgent})
  br label %one.done
one.done:
  br label %each
told:
  call void @guard.release()
  br label %out
out:
  ret i64 %running
}}

; -- the watcher -------------------------------------------------------------------------------------------------------

define internal ptr @guard.watch(ptr %unused) {{
entry:
  %time = alloca [2 x i64], align 8
  store i64 0, ptr %time
  %ns.at = getelementptr i64, ptr %time, i64 1
  store i64 {tick}, ptr %ns.at
  br label %sleep
sleep:
  %seen = phi i64 [ 0, %entry ], [ %begun, %idle ], [ %begun, %busy ], [ %begun, %stay ]
  %count = phi i64 [ 0, %entry ], [ %count.next, %idle ], [ 0, %busy ], [ 0, %stay ]
  %z = call i32 @nanosleep(ptr %time, ptr null)
  %begun = load atomic i64, ptr @guard.main.begun seq_cst, align 8
  %news = icmp ne i64 %begun, %seen
  br i1 %news, label %busy, label %look
look:
  %r = load atomic ptr, ptr @guard.main.record acquire, align 8
  %frame.at = getelementptr i64, ptr %r, i64 4
  %frame = load volatile ptr, ptr %frame.at
  %runs = icmp ne ptr %frame, null
  br i1 %runs, label %long, label %idle
long:
  %mode.at = getelementptr i64, ptr %r, i64 3
  %mode = load volatile i64, ptr %mode.at
  %open = icmp ne i64 %mode, 0
  br i1 %open, label %send, label %busy
send:
  call void @guard.install()
  %main = load i64, ptr @guard.main.thread
  %k = call i32 @pthread_kill(i64 %main, i32 {urgent})
  br label %busy
busy:
  br label %sleep
idle:
  %count.next = add i64 %count, 1
  %bored = icmp ugt i64 %count.next, {idle}
  br i1 %bored, label %close, label %sleep
close:
  ; Either the main thread finds that nobody watches, or what it has begun is found here.
  store atomic i32 0, ptr @guard.watching seq_cst, align 4
  fence seq_cst
  %last = load atomic i64, ptr @guard.main.begun seq_cst, align 8
  %quiet = icmp eq i64 %last, %begun
  br i1 %quiet, label %end, label %reopen
reopen:
  %was = atomicrmw xchg ptr @guard.watching, i32 1 seq_cst
  %another = icmp ne i32 %was, 0
  br i1 %another, label %end, label %stay
stay:
  br label %sleep
end:
  ret ptr null
}}

define internal void @guard.begin.watch() {{
entry:
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  %id = alloca i64, align 8
  %was = atomicrmw xchg ptr @guard.watching, i32 1 seq_cst
  %there = icmp ne i32 %was, 0
  br i1 %there, label %out, label %create
create:
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  %m = call i32 @pthread_sigmask(i32 {set_mask}, ptr %all, ptr %old)
  %failed = call i32 @pthread_create(ptr %id, ptr null, ptr @guard.watch, ptr null)
  %u = call i32 @pthread_sigmask(i32 {set_mask}, ptr %old, ptr null)
  %ok = icmp eq i32 %failed, 0
  br i1 %ok, label %detach, label %none
detach:
  %thread = load i64, ptr %id
  %d = call i32 @pthread_detach(i64 %thread)
  br label %out
none:
  store atomic i32 0, ptr @guard.watching release, align 4
  br label %out
out:
  ret void
}}

; -- running -----------------------------------------------------------------------------------------------------------

; Run a program; it may be left at any point. Called without the GIL.
define i32 @xlanb.guard(ptr %run, ptr %args, ptr %results, ptr %temp, ptr %extra, ptr %word) noinline {{
entry:
  %frame = alloca [{frame} x i8], align 64
  %r = call ptr @xlanb.record()
  %none = icmp eq ptr %r, null
  br i1 %none, label %no.memory, label %enter
no.memory:
  ret i32 {no_memory}
enter:
  %frame.at = getelementptr i64, ptr %r, i64 4
  %mode.at = getelementptr i64, ptr %r, i64 3
  %pool.at = getelementptr i64, ptr %r, i64 5
  %running.at = getelementptr i64, ptr %word, i64 1
  %outer = load ptr, ptr %frame.at
  store ptr %outer, ptr %frame
  %f1 = getelementptr i64, ptr %frame, i64 1
  store ptr %word, ptr %f1
  %now = load atomic i64, ptr %word seq_cst, align 8
  %f2 = getelementptr i64, ptr %frame, i64 2
  store i64 %now, ptr %f2
  %pool.outer = load i64, ptr %pool.at
  %f3 = getelementptr i64, ptr %frame, i64 3
  store i64 %pool.outer, ptr %f3
  %f4 = getelementptr i64, ptr %frame, i64 4
  {save_mode}
  store i64 0, ptr %pool.at
  store atomic ptr %frame, ptr %frame.at release, align 8
  %more = atomicrmw add ptr %running.at, i64 1 seq_cst
  %self = call i64 @pthread_self()
  %main = load i64, ptr @guard.main.thread
  %is.main = icmp eq i64 %self, %main
  br i1 %is.main, label %watched, label %go
watched:
  store atomic ptr %r, ptr @guard.main.record release, align 8
  %b = atomicrmw add ptr @guard.main.begun, i64 1 seq_cst
  %someone = load atomic i32, ptr @guard.watching seq_cst, align 4
  %alone = icmp eq i32 %someone, 0
  br i1 %alone, label %call.one, label %go
call.one:
  call void @guard.begin.watch()
  br label %go
go:
  %buffer = getelementptr i8, ptr %frame, i64 64
  %k = call i32 @_setjmp(ptr %buffer) returns_twice
  %left = icmp ne i32 %k, 0
  br i1 %left, label %stopped, label %start
start:
  store volatile i64 1, ptr %mode.at
  call void @xlanb.check(ptr %r)
  call void %run(ptr %args, ptr %results, ptr %temp, ptr %extra)
  store volatile i64 0, ptr %mode.at
  br label %done
stopped:
  {restore_mode}
  %pool = load volatile i64, ptr %pool.at
  %owns = icmp ne i64 %pool, 0
  br i1 %owns, label %give.up, label %why
give.up:
  %abandon.at = getelementptr i64, ptr %r, i64 6
  %abandon = load ptr, ptr %abandon.at
  call void %abandon(ptr %r)
  br label %why
why:
  %why.at = getelementptr i64, ptr %r, i64 7
  %reason.n = load volatile i64, ptr %why.at
  %reason = trunc i64 %reason.n to i32
  br label %done
done:
  %status = phi i32 [ {ok}, %start ], [ %reason, %why ]
  %around = load ptr, ptr %frame
  %pool.before = load i64, ptr %f3
  store i64 %pool.before, ptr %pool.at
  store atomic ptr %around, ptr %frame.at release, align 8
  %less = atomicrmw sub ptr %running.at, i64 1 seq_cst
  ret i32 %status
}}

; From a program: call an object of Python's with the address of a table. What it raises stays set in this thread, and ends the program.
define void @xlanb.host(ptr %function, ptr %table) {{
entry:
  %arguments = alloca ptr, align 8
  %r = call ptr @xlanb.record()
  %mode.at = getelementptr i64, ptr %r, i64 3
  store volatile i64 0, ptr %mode.at
  %gil = call i32 @PyGILState_Ensure()
  %address = call ptr @PyLong_FromVoidPtr(ptr %table)
  %no.address = icmp eq ptr %address, null
  br i1 %no.address, label %called, label %go
go:
  store ptr %address, ptr %arguments
  %given = call ptr @PyObject_Vectorcall(ptr %function, ptr %arguments, i64 1, ptr null)
  call void @Py_DecRef(ptr %address)
  call void @Py_DecRef(ptr %given)
  br label %called
called:
  %value = phi ptr [ null, %entry ], [ %given, %go ]
  %wrong = icmp eq ptr %value, null
  call void @PyGILState_Release(i32 %gil)
  br i1 %wrong, label %stop, label %on
stop:
  call void @guard.leave(ptr %r, i64 {raised})
  unreachable
on:
  store volatile i64 1, ptr %mode.at
  call void @xlanb.check(ptr %r)
  ret void
}}
"""

_SAVE_MODE = ("", "call void @llvm.x86.sse.stmxcsr(ptr %f4)")
_RESTORE_MODE = ("", "call void @llvm.x86.sse.ldmxcsr(ptr %f4)")
_DECLARE_MODE = ("", "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)")
"""A signal's handler begins with the processor's own rounding and flushing on x86-64: who leaves it puts back those of the program."""


def text(target: Target) -> str:
    """The LLVM IR of the functions, to stand in one module with declarations of what they call of Python."""
    system = _DARWIN if "darwin" in target.triple or "macos" in target.triple else _LINUX
    x86 = target.triple.startswith("x86_64")
    return _TEXT.format(
        **system,
        tick=_TICK,
        idle=_IDLE,
        frame=FRAME_BYTES,
        ok=OK,
        cancelled=CANCELLED,
        raised=RAISED,
        no_memory=NO_MEMORY,
        declare_mode=_DECLARE_MODE[x86],
        save_mode=_SAVE_MODE[x86],
        restore_mode=_RESTORE_MODE[x86],
    )
