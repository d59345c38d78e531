"""Events, errors, signal handlers' exceptions and buffer memory, in LLVM IR.

native_text replaces `$name`.
"""

from __future__ import annotations

OBJECTS = """
@pjrt.ready = global [2 x i64] [i64 4611686018427387904, i64 1], align 16
@pjrt.statistics = global [4 x i64] zeroinitializer, align 16
@pjrt.layouts = global [$ranks x i64] zeroinitializer, align 16
@pjrt.sizes = internal constant [$types x i64] [$sizes]
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @usleep(i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare ptr @take(ptr, i64)
declare void @give(ptr, ptr, i64)
declare i32 @guard(ptr, ptr, ptr, ptr, ptr, ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_NormalizeException(ptr, ptr, ptr)
declare void @PyErr_SetObject(ptr, ptr)
declare i32 @PyException_SetTraceback(ptr, ptr)
declare i32 @Py_AddPendingCall(ptr, ptr)
declare void @Py_DecRef(ptr)

; -- exceptions that no PJRT_Error is: those of signals' handlers -------------------------------------------------

@pjrt.raised = global ptr null

; Take the exception that is set in this thread, with its traceback, and clear it; null if there
; is none. Called with the GIL.
define internal ptr @take.raised() {
entry:
  %type = alloca ptr
  %value = alloca ptr
  %traceback = alloca ptr
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %traceback)
  call void @PyErr_NormalizeException(ptr %type, ptr %value, ptr %traceback)
  %t = load ptr, ptr %type
  %v = load ptr, ptr %value
  %b = load ptr, ptr %traceback
  %no.value = icmp eq ptr %v, null
  %no.traceback = icmp eq ptr %b, null
  %alone = or i1 %no.value, %no.traceback
  br i1 %alone, label %end, label %join
join:
  %joined = call i32 @PyException_SetTraceback(ptr %v, ptr %b)
  br label %end
end:
  call void @Py_DecRef(ptr %t)
  call void @Py_DecRef(ptr %b)
  ret ptr %v
}

; Keep the exception that is set in this thread, for when the framework has returned. Called without the GIL.
define internal void @keep.raised() {
  %gil = call i32 @PyGILState_Ensure()
  %v = call ptr @take.raised()
  %before = atomicrmw xchg ptr @pjrt.raised, ptr %v acq_rel
  call void @Py_DecRef(ptr %before)
  call void @PyGILState_Release(i32 %gil)
  ret void
}

; Python calls it in the main thread, between two of its instructions.
define internal i32 @raise.again(ptr %unused) {
entry:
  %v = atomicrmw xchg ptr @pjrt.raised, ptr null acq_rel
  %some = icmp ne ptr %v, null
  br i1 %some, label %raise, label %end
raise:
  %type.at = getelementptr i8, ptr %v, i64 8
  %type = load ptr, ptr %type.at
  call void @PyErr_SetObject(ptr %type, ptr %v)
  call void @Py_DecRef(ptr %v)
  ret i32 -1
end:
  ret i32 0
}

; The result of a Python function: 1 on success, an error, or null if an exception prevented both.
define internal ptr @ended(ptr %given) {
entry:
  %v = load atomic ptr, ptr @pjrt.raised acquire, align 8
  %some = icmp ne ptr %v, null
  br i1 %some, label %again, label %judge
again:
  %asked = call i32 @Py_AddPendingCall(ptr @raise.again, ptr null)
  br label %judge
judge:
  %n = ptrtoint ptr %given to i64
  %well = icmp eq i64 %n, 1
  br i1 %well, label %good, label %bad
good:
  ret ptr null
bad:
  %nothing = icmp eq i64 %n, 0
  br i1 %nothing, label %make, label %give
make:
  %error = call ptr @malloc(i64 24)
  store i64 $cancelled, ptr %error
  %size = getelementptr i64, ptr %error, i64 1
  store i64 0, ptr %size
  ret ptr %error
give:
  ret ptr %given
}

define ptr @pjrt.nothing(ptr %unused) {
  ret ptr null
}

; -- destroyed executables ------------------------------------------------------------------------------------------

; C destroys executables in threads that may outlive the interpreter, where Python must not be called.
; They are kept in a list that the main thread empties.

@pjrt.destroyed = global ptr null
declare void @unusual.destroyed()

define ptr @LoadedExecutable_Destroy(ptr %args) {
entry:
  %at = getelementptr i8, ptr %args, i64 16
  %loaded = load ptr, ptr %at
  %next = getelementptr i64, ptr %loaded, i64 $next_destroyed
  %now = load atomic ptr, ptr @pjrt.destroyed acquire, align 8
  br label %try
try:
  %seen = phi ptr [ %now, %entry ], [ %other, %try ]
  store ptr %seen, ptr %next
  %pair = cmpxchg ptr @pjrt.destroyed, ptr %seen, ptr %loaded acq_rel acquire
  %other = extractvalue { ptr, i1 } %pair, 0
  %done = extractvalue { ptr, i1 } %pair, 1
  br i1 %done, label %added, label %try
added:
  %first = icmp eq ptr %seen, null
  br i1 %first, label %ask, label %end
ask:
  %asked = call i32 @Py_AddPendingCall(ptr @drop.destroyed, ptr null)
  br label %end
end:
  ret ptr null
}

; Python calls it in the main thread, between two of its instructions.
define internal i32 @drop.destroyed(ptr %unused) {
  call void @unusual.destroyed()
  ret i32 0
}

define ptr @pjrt.take.destroyed() {
  %first = atomicrmw xchg ptr @pjrt.destroyed, ptr null acq_rel
  ret ptr %first
}

; -- events -------------------------------------------------------------------------------------------------------

define void @pjrt.signal(ptr %event) {
entry:
  %head = getelementptr i64, ptr %event, i64 1
  %first = atomicrmw xchg ptr %head, i64 1 acq_rel
  br label %next
next:
  %n = phi i64 [ %first, %entry ], [ %then, %tell ]
  %none = icmp ule i64 %n, 1
  br i1 %none, label %end, label %tell
tell:
  %node = inttoptr i64 %n to ptr
  %then = load i64, ptr %node
  %function.at = getelementptr i64, ptr %node, i64 1
  %function = load ptr, ptr %function.at
  %argument.at = getelementptr i64, ptr %node, i64 2
  %argument = load ptr, ptr %argument.at
  call void @free(ptr %node)
  call void %function(ptr null, ptr %argument)
  br label %next
end:
  ret void
}

define void @pjrt.forget(ptr %event) {
entry:
  %before = atomicrmw sub ptr %event, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %free, label %end
free:
  call void @free(ptr %event)
  br label %end
end:
  ret void
}

define ptr @Event_OnReady(ptr %args) {
entry:
  $load_OnReady
  %head = getelementptr i64, ptr %event, i64 1
  %now = load atomic i64, ptr %head acquire, align 8
  %ready = icmp eq i64 %now, 1
  br i1 %ready, label %tell, label %wait
wait:
  %node = call ptr @malloc(i64 24)
  %function.at = getelementptr i64, ptr %node, i64 1
  store ptr %callback, ptr %function.at
  %argument.at = getelementptr i64, ptr %node, i64 2
  store ptr %user_arg, ptr %argument.at
  %n = ptrtoint ptr %node to i64
  br label %try
try:
  %seen = phi i64 [ %now, %wait ], [ %other, %again ]
  store i64 %seen, ptr %node
  %pair = cmpxchg ptr %head, i64 %seen, i64 %n acq_rel acquire
  %other = extractvalue { i64, i1 } %pair, 0
  %done = extractvalue { i64, i1 } %pair, 1
  br i1 %done, label %end, label %again
again:
  %late = icmp eq i64 %other, 1
  br i1 %late, label %drop, label %try
drop:
  call void @free(ptr %node)
  br label %tell
tell:
  call void %callback(ptr null, ptr %user_arg)
  br label %end
end:
  ret ptr null
}

define ptr @Event_Await(ptr %args) {
entry:
  $load_Await
  %head = getelementptr i64, ptr %event, i64 1
  br label %look
look:
  %now = load atomic i64, ptr %head acquire, align 8
  %ready = icmp eq i64 %now, 1
  br i1 %ready, label %end, label %wait
wait:
  %slept = call i32 @usleep(i32 100)
  br label %look
end:
  ret ptr null
}

define ptr @Event_IsReady(ptr %args) {
  $load_IsReady
  %head = getelementptr i64, ptr %event, i64 1
  %now = load atomic i64, ptr %head acquire, align 8
  %ready = icmp eq i64 %now, 1
  %byte = zext i1 %ready to i8
  %at = getelementptr i8, ptr %args, i64 $at_is_ready
  store i8 %byte, ptr %at
  ret ptr null
}

define ptr @Event_Error(ptr %args) {
  ret ptr null
}

define ptr @Event_Destroy(ptr %args) {
  $load_EventDestroy
  call void @pjrt.forget(ptr %event)
  ret ptr null
}

; -- errors -------------------------------------------------------------------------------------------------------

define void @Error_Destroy(ptr %args) {
  %at = getelementptr i8, ptr %args, i64 16
  %error = load ptr, ptr %at
  call void @free(ptr %error)
  ret void
}

define void @Error_Message(ptr %args) {
  %at = getelementptr i8, ptr %args, i64 16
  %error = load ptr, ptr %at
  %size.at = getelementptr i64, ptr %error, i64 1
  %size = load i64, ptr %size.at
  %text = getelementptr i64, ptr %error, i64 2
  %message = getelementptr i8, ptr %args, i64 24
  store ptr %text, ptr %message
  %message.size = getelementptr i8, ptr %args, i64 32
  store i64 %size, ptr %message.size
  ret void
}

define ptr @Error_GetCode(ptr %args) {
  %at = getelementptr i8, ptr %args, i64 16
  %error = load ptr, ptr %at
  %code = load i32, ptr %error
  %to = getelementptr i8, ptr %args, i64 24
  store i32 %code, ptr %to
  ret ptr null
}
"""

MEMORY = """
; -- memory -------------------------------------------------------------------------------------------------------

define internal void @count(i64 %bytes) {
  %now.before = atomicrmw add ptr @pjrt.statistics, i64 %bytes monotonic
  %now = add i64 %now.before, %bytes
  %peak = getelementptr i64, ptr @pjrt.statistics, i64 1
  %peak.before = atomicrmw umax ptr %peak, i64 %now monotonic
  %number = getelementptr i64, ptr @pjrt.statistics, i64 2
  %number.before = atomicrmw add ptr %number, i64 1 monotonic
  %largest = getelementptr i64, ptr @pjrt.statistics, i64 3
  %largest.before = atomicrmw umax ptr %largest, i64 %bytes monotonic
  ret void
}

; malloc reuses freed blocks of these sizes; posix_memalign would split larger ones, at several
; times the cost.
; Make a buffer. If `inside` is not 0, its elements are the `size` bytes after it; otherwise they
; are set later. Null: no memory.
define internal ptr @block(i64 %size, i64 %inside, i64 %type, i64 %rank, ptr %dims, ptr %device, ptr %memory) {
entry:
  %dims.bytes = mul i64 %rank, 8
  %head.odd = add i64 %dims.bytes, 191
  %head = and i64 %head.odd, -64
  %both = add i64 %head, %inside
  %all = add i64 %both, $skipped
  %block = call ptr @malloc(i64 %all)
  %bad = icmp eq ptr %block, null
  br i1 %bad, label %none, label %good
none:
  ret ptr null
good:
  %block.n = ptrtoint ptr %block to i64
  %before = sub i64 0, %block.n
  %odd = and i64 %before, 63
  %b = getelementptr i8, ptr %block, i64 %odd
  %data = getelementptr i8, ptr %b, i64 %head
  %own.dims = getelementptr i8, ptr %b, i64 128
  call void @llvm.memcpy.p0.p0.i64(ptr %own.dims, ptr %dims, i64 %dims.bytes, i1 false)
  $set_block
  ret ptr %b
}

define internal void @free.block(ptr %b) {
  %block.at = getelementptr i64, ptr %b, i64 $block
  %block = load ptr, ptr %block.at
  call void @free(ptr %block)
  ret void
}

; A buffer with memory of its own. Null: there is none.
define ptr @pjrt.make(i64 %size, i64 %type, i64 %rank, ptr %dims, ptr %device, ptr %memory) {
entry:
  %small = icmp ule i64 %size, $small
  %inside = select i1 %small, i64 %size, i64 0
  %b = call ptr @block(i64 %size, i64 %inside, i64 %type, i64 %rank, ptr %dims, ptr %device, ptr %memory)
  %none = icmp eq ptr %b, null
  br i1 %none, label %end, label %some
some:
  br i1 %small, label %counted, label %large
large:
  %base = call ptr @take(ptr null, i64 %size)
  %no.memory = icmp eq ptr %base, null
  br i1 %no.memory, label %give.up, label %place
give.up:
  call void @free.block(ptr %b)
  ret ptr null
place:
  store ptr %base, ptr %b
  %base.at = getelementptr i64, ptr %b, i64 $base
  store ptr %base, ptr %base.at
  br label %counted
counted:
  call void @count(i64 %size)
  br label %end
end:
  ret ptr %b
}

; Make a buffer over another owner's memory; `event` and `callback` (each may be null) notify the
; owner when it is released.
define ptr @pjrt.view(ptr %data, i64 %size, i64 %type, i64 %rank, ptr %dims, ptr %device,
    ptr %memory, ptr %event, ptr %callback, ptr %argument) {
entry:
  %b = call ptr @block(i64 %size, i64 0, i64 %type, i64 %rank, ptr %dims, ptr %device, ptr %memory)
  %none = icmp eq ptr %b, null
  br i1 %none, label %end, label %some
some:
  $set_view
  call void @count(i64 %size)
  br label %end
end:
  ret ptr %b
}

define void @pjrt.release(ptr %b) {
entry:
  %references = getelementptr i64, ptr %b, i64 $references
  %before = atomicrmw sub ptr %references, i64 1 acq_rel
  %last = icmp eq i64 %before, 1
  br i1 %last, label %free, label %end
free:
  $get_release
  %less = atomicrmw sub ptr @pjrt.statistics, i64 %size monotonic
  call void @give(ptr null, ptr %base, i64 %size)
  %called = icmp ne ptr %callback, null
  br i1 %called, label %call, label %tell
call:
  call void %callback(ptr %data, ptr %argument)
  br label %tell
tell:
  %told = icmp ne ptr %event, null
  br i1 %told, label %signal, label %end
signal:
  call void @pjrt.signal(ptr %event)
  call void @pjrt.forget(ptr %event)
  br label %end
end:
  ret void
}

define internal void @delete(ptr %b) {
entry:
  %deleted = getelementptr i64, ptr %b, i64 $deleted
  %before = atomicrmw xchg ptr %deleted, i64 1 acq_rel
  %there = icmp eq i64 %before, 0
  br i1 %there, label %release, label %end
release:
  call void @pjrt.release(ptr %b)
  br label %end
end:
  ret void
}

define ptr @Buffer_Delete(ptr %args) {
  %at = getelementptr i8, ptr %args, i64 16
  %b = load ptr, ptr %at
  call void @delete(ptr %b)
  ret ptr null
}

define ptr @Buffer_Destroy(ptr %args) {
  %at = getelementptr i8, ptr %args, i64 16
  %b = load ptr, ptr %at
  call void @delete(ptr %b)
  call void @free.block(ptr %b)
  ret ptr null
}

define ptr @Buffer_IncreaseExternalReferenceCount(ptr %args) {
  %at = getelementptr i8, ptr %args, i64 16
  %b = load ptr, ptr %at
  %references = getelementptr i64, ptr %b, i64 $references
  %before = atomicrmw add ptr %references, i64 1 acq_rel
  ret ptr null
}

define ptr @Buffer_DecreaseExternalReferenceCount(ptr %args) {
  %at = getelementptr i8, ptr %args, i64 16
  %b = load ptr, ptr %at
  call void @pjrt.release(ptr %b)
  ret ptr null
}
"""

__all__ = ["MEMORY", "OBJECTS"]
