"""Host transfers, layouts and calls, in LLVM IR; native_text replaces `$name`."""

from __future__ import annotations

TRANSFERS = """
; -- from and to the host -----------------------------------------------------------------------------------------

declare ptr @unusual.Client_BufferFromHostBuffer(ptr)
declare ptr @unusual.Buffer_ToHostBuffer(ptr)

define ptr @Client_BufferFromHostBuffer(ptr %args) {
entry:
  $load_FromHost
  %type = zext i32 %type.n to i64
  %known = icmp ult i64 %type, $types
  %no.layout = icmp eq ptr %device_layout, null
  %plain = and i1 %known, %no.layout
  br i1 %plain, label %begin, label %unusual
unusual:
  %tried = call ptr @unusual.Client_BufferFromHostBuffer(ptr %args)
  %other = call ptr @ended(ptr %tried)
  ret ptr %other
begin:
  %item.at = getelementptr i64, ptr @pjrt.sizes, i64 %type
  %item = load i64, ptr %item.at
  %has.size = icmp ne i64 %item, 0
  br i1 %has.size, label %dimension, label %unusual
dimension:
  %k = phi i64 [ %num_dims, %begin ], [ %d, %next ]
  %size = phi i64 [ %item, %begin ], [ %size.next, %next ]
  %more = icmp ne i64 %k, 0
  br i1 %more, label %one, label %whole
one:
  %d = sub i64 %k, 1
  %dim.at = getelementptr i64, ptr %dims, i64 %d
  %dim = load i64, ptr %dim.at
  %size.next = mul i64 %size, %dim
  %strided = icmp ne i64 %num_byte_strides, 0
  br i1 %strided, label %stride, label %next
stride:
  %stride.at = getelementptr i64, ptr %byte_strides, i64 %d
  %step = load i64, ptr %stride.at
  %same = icmp eq i64 %step, %size
  %free.step = icmp ule i64 %dim, 1
  %dense = or i1 %same, %free.step
  br i1 %dense, label %next, label %unusual
next:
  br label %dimension
whole:
  %by.memory = icmp ne ptr %memory.given, null
  br i1 %by.memory, label %of.memory, label %of.device
of.memory:
  %device.of = load ptr, ptr %memory.given
  br label %placed
of.device:
  %memory.of = load ptr, ptr %device.given
  br label %placed
placed:
  %device = phi ptr [ %device.of, %of.memory ], [ %device.given, %of.device ]
  %memory = phi ptr [ %memory.given, %of.memory ], [ %memory.of, %of.device ]
  %stays = icmp uge i32 %semantics, $zero_copy
  %large = icmp ugt i64 %size, $copied
  %address = ptrtoint ptr %data to i64
  %odd = and i64 %address, $aligned
  %even = icmp eq i64 %odd, 0
  %worth = and i1 %stays, %large
  %seen = and i1 %worth, %even
  br i1 %seen, label %view, label %copy
copy:
  %b = call ptr @pjrt.make(i64 %size, i64 %type, i64 %num_dims, ptr %dims, ptr %device, ptr %memory)
  %none = icmp eq ptr %b, null
  br i1 %none, label %unusual, label %fill
fill:
  %to = load ptr, ptr %b
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %data, i64 %size, i1 false)
  br label %end
view:
  %event = call ptr @malloc(i64 16)
  store i64 2, ptr %event
  %head = getelementptr i64, ptr %event, i64 1
  store i64 0, ptr %head
  %v = call ptr @pjrt.view(ptr %data, i64 %size, i64 %type, i64 %num_dims, ptr %dims, ptr %device,
      ptr %memory, ptr %event, ptr null, ptr null)
  %no.view = icmp eq ptr %v, null
  br i1 %no.view, label %drop, label %end
drop:
  call void @free(ptr %event)
  br label %unusual
end:
  %made = phi ptr [ %b, %fill ], [ %v, %view ]
  %done = phi ptr [ @pjrt.ready, %fill ], [ %event, %view ]
  %made.at = getelementptr i8, ptr %args, i64 $at_from_host_buffer
  store ptr %made, ptr %made.at
  %done.at = getelementptr i8, ptr %args, i64 $at_done_with_host_buffer
  store ptr %done, ptr %done.at
  ret ptr null
}

define ptr @Buffer_ToHostBuffer(ptr %args) {
entry:
  $load_ToHost
  %size.at = getelementptr i64, ptr %src, i64 $size
  %size = load i64, ptr %size.at
  %asks = icmp eq ptr %dst, null
  br i1 %asks, label %tell, label %check
tell:
  %tell.at = getelementptr i8, ptr %args, i64 $at_dst_size
  store i64 %size, ptr %tell.at
  ret ptr null
check:
  %deleted.at = getelementptr i64, ptr %src, i64 $deleted
  %deleted = load i64, ptr %deleted.at
  %there = icmp eq i64 %deleted, 0
  %room = icmp uge i64 %dst_size, %size
  %good = and i1 %there, %room
  br i1 %good, label %look, label %unusual
unusual:
  %tried = call ptr @unusual.Buffer_ToHostBuffer(ptr %args)
  %other = call ptr @ended(ptr %tried)
  ret ptr %other
look:
  %as.is = icmp eq ptr %host_layout, null
  br i1 %as.is, label %copy, label %layout
layout:
  %kind.at = getelementptr i8, ptr %host_layout, i64 72
  %kind = load i32, ptr %kind.at
  %tiles.at = getelementptr i8, ptr %host_layout, i64 64
  %tiles = load i64, ptr %tiles.at
  %order.at = getelementptr i8, ptr %host_layout, i64 32
  %order = load ptr, ptr %order.at
  %rank.at = getelementptr i8, ptr %host_layout, i64 40
  %rank = load i64, ptr %rank.at
  %tiled = icmp eq i32 %kind, 0
  %no.tiles = icmp eq i64 %tiles, 0
  %simple = and i1 %tiled, %no.tiles
  br i1 %simple, label %dimension, label %unusual
dimension:
  %k = phi i64 [ 0, %layout ], [ %k.next, %one ]
  %more = icmp ult i64 %k, %rank
  br i1 %more, label %one, label %copy
one:
  %d.at = getelementptr i64, ptr %order, i64 %k
  %d = load i64, ptr %d.at
  %k.next = add i64 %k, 1
  %row.major = sub i64 %rank, %k.next
  %same = icmp eq i64 %d, %row.major
  br i1 %same, label %dimension, label %unusual
copy:
  %from = load ptr, ptr %src
  call void @llvm.memcpy.p0.p0.i64(ptr %dst, ptr %from, i64 %size, i1 false)
  %event.at = getelementptr i8, ptr %args, i64 $at_to_host_event
  store ptr @pjrt.ready, ptr %event.at
  ret ptr null
}
"""

LAYOUTS = """
; -- layouts ------------------------------------------------------------------------------------------------------

declare ptr @unusual.Layouts_PJRT_Buffer_MemoryLayout(ptr)

define ptr @Layouts_PJRT_Buffer_MemoryLayout(ptr %args) {
entry:
  %b.at = getelementptr i8, ptr %args, i64 16
  %b = load ptr, ptr %b.at
  %rank.at = getelementptr i64, ptr %b, i64 $rank
  %rank = load i64, ptr %rank.at
  %known = icmp ult i64 %rank, $ranks
  br i1 %known, label %give, label %unusual
unusual:
  %tried = call ptr @unusual.Layouts_PJRT_Buffer_MemoryLayout(ptr %args)
  %other = call ptr @ended(ptr %tried)
  ret ptr %other
give:
  %layout.at = getelementptr i64, ptr @pjrt.layouts, i64 %rank
  %layout = load i64, ptr %layout.at
  %to = getelementptr i8, ptr %args, i64 $at_layout
  store i64 %layout, ptr %to
  ret ptr null
}
"""

EXECUTE = """
; -- calls --------------------------------------------------------------------------------------------------------

declare ptr @unusual.LoadedExecutable_Execute(ptr)
declare ptr @unusual.stopped(ptr, i64, ptr)
declare i32 @clock_gettime(i32, ptr)

define internal i64 @nanoseconds() {
  %time = alloca [2 x i64]
  %failed = call i32 @clock_gettime(i32 $clock, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %all = add i64 %whole, %rest
  ret i64 %all
}

define ptr @LoadedExecutable_Execute(ptr %args) {
entry:
  $load_Execute
  $get_loaded
  %some.flags = and i64 %flags, $unusual
  %plain = icmp eq i64 %some.flags, 0
  %alone = icmp eq i64 %num_devices, 1
  %right = icmp eq i64 %num_args, %argument_count
  %kept.at = getelementptr i8, ptr %options, i64 $at_kept
  %kept.count = load i64, ptr %kept.at
  %none.kept = icmp eq i64 %kept.count, 0
  %ok1 = and i1 %plain, %alone
  %ok2 = and i1 %ok1, %none.kept
  %ok = and i1 %ok2, %right
  br i1 %ok, label %prepare, label %unusual
unusual:
  %tried = call ptr @unusual.LoadedExecutable_Execute(ptr %args)
  %other = call ptr @ended(ptr %tried)
  ret ptr %other
prepare:
  %list = load ptr, ptr %argument_lists
  %outputs = load ptr, ptr %output_lists
  %n1 = add i64 %argument_count, 1
  %r1 = add i64 %result_count, 1
  %pointers = alloca ptr, i64 %n1
  %places = alloca ptr, i64 %r1
  br label %mark
mark:
  %d = phi i64 [ 0, %prepare ], [ %d.next, %mark.one ]
  %d.more = icmp ult i64 %d, %donated_count
  br i1 %d.more, label %mark.one, label %argument
mark.one:
  %d.number.at = getelementptr i64, ptr %donated, i64 %d
  %d.number = load i64, ptr %d.number.at
  %d.at = getelementptr ptr, ptr %list, i64 %d.number
  %d.buffer = load ptr, ptr %d.at
  %d.mark.at = getelementptr i64, ptr %d.buffer, i64 $mark
  %d.before = atomicrmw add ptr %d.mark.at, i64 1 monotonic
  %d.next = add i64 %d, 1
  br label %mark
argument:
  %k = phi i64 [ 0, %mark ], [ %k.next, %take ]
  %marks = phi i64 [ 0, %mark ], [ %marks.next, %take ]
  %k.more = icmp ult i64 %k, %argument_count
  %once = icmp eq i64 %marks, %donated_count
  br i1 %k.more, label %check, label %unmark
check:
  %b.at = getelementptr ptr, ptr %list, i64 %k
  %b = load ptr, ptr %b.at
  %deleted.at = getelementptr i64, ptr %b, i64 $deleted
  %deleted = load i64, ptr %deleted.at
  %size.at = getelementptr i64, ptr %b, i64 $size
  %size = load i64, ptr %size.at
  %want.at = getelementptr i64, ptr %arguments, i64 %k
  %want = load i64, ptr %want.at
  %there = icmp eq i64 %deleted, 0
  %fits = icmp eq i64 %size, %want
  %good = and i1 %there, %fits
  br i1 %good, label %take, label %unmark
take:
  %mark.at = getelementptr i64, ptr %b, i64 $mark
  %mark.n = load i64, ptr %mark.at
  %marks.next = add i64 %marks, %mark.n
  %data = load ptr, ptr %b
  %pointer.at = getelementptr ptr, ptr %pointers, i64 %k
  store ptr %data, ptr %pointer.at
  %k.next = add i64 %k, 1
  br label %argument
unmark:
  %fine = phi i1 [ %once, %argument ], [ false, %check ]
  br label %unmarking
unmarking:
  %u = phi i64 [ 0, %unmark ], [ %u.next, %unmark.one ]
  %u.more = icmp ult i64 %u, %donated_count
  br i1 %u.more, label %unmark.one, label %unmarked
unmark.one:
  %u.number.at = getelementptr i64, ptr %donated, i64 %u
  %u.number = load i64, ptr %u.number.at
  %u.at = getelementptr ptr, ptr %list, i64 %u.number
  %u.buffer = load ptr, ptr %u.at
  %u.mark.at = getelementptr i64, ptr %u.buffer, i64 $mark
  %u.before = atomicrmw sub ptr %u.mark.at, i64 1 monotonic
  %u.next = add i64 %u, 1
  br label %unmarking
unmarked:
  br i1 %fine, label %device, label %unusual

device:
  %chosen = icmp ne ptr %execute_device, null
  %at.device = select i1 %chosen, ptr %execute_device, ptr %device.own
  %memory = load ptr, ptr %at.device
  br label %result
result:
  %j = phi i64 [ 0, %device ], [ %j.next, %made ]
  %j.more = icmp ult i64 %j, %result_count
  br i1 %j.more, label %make, label %temporaries
make:
  %spec.n = mul i64 %j, 4
  %spec = getelementptr i64, ptr %results, i64 %spec.n
  %spec1 = getelementptr i64, ptr %spec, i64 1
  %spec2 = getelementptr i64, ptr %spec, i64 2
  %spec3 = getelementptr i64, ptr %spec, i64 3
  %bytes = load i64, ptr %spec
  %type = load i64, ptr %spec1
  %rank = load i64, ptr %spec2
  %dims = load ptr, ptr %spec3
  %new = call ptr @pjrt.make(i64 %bytes, i64 %type, i64 %rank, ptr %dims, ptr %at.device, ptr %memory)
  %got = icmp ne ptr %new, null
  br i1 %got, label %made, label %drop
made:
  %out.at = getelementptr ptr, ptr %outputs, i64 %j
  store ptr %new, ptr %out.at
  %out.data = load ptr, ptr %new
  %place.at = getelementptr ptr, ptr %places, i64 %j
  store ptr %out.data, ptr %place.at
  %j.next = add i64 %j, 1
  br label %result

temporaries:
  %needed = icmp ne i64 %temp, 0
  br i1 %needed, label %found, label %ready
found:
  %arena.n = atomicrmw xchg ptr %arena.at, i64 0 acq_rel
  %arena.old = inttoptr i64 %arena.n to ptr
  %kept = icmp ne i64 %arena.n, 0
  br i1 %kept, label %ready, label %fresh
fresh:
  %arena.new = call ptr @take(ptr null, i64 %temp)
  %room = icmp ne ptr %arena.new, null
  br i1 %room, label %ready, label %drop
ready:
  %scratch = phi ptr [ null, %temporaries ], [ %arena.old, %found ], [ %arena.new, %fresh ]
  %counted = icmp ne ptr %counter, null
  br i1 %counted, label %start, label %call
start:
  %start.time = call i64 @nanoseconds()
  br label %call
call:
  %began = phi i64 [ 0, %ready ], [ %start.time, %start ]
  %guarded.n = and i64 %flags, $guarded
  %guarded = icmp ne i64 %guarded.n, 0
  br i1 %guarded, label %guard, label %go
go:
  call void %run(ptr %pointers, ptr %places, ptr %scratch, ptr %steps)
  br label %ran
guard:
  %left = call i32 @guard(ptr %run, ptr %pointers, ptr %places, ptr %scratch, ptr %steps, ptr %cancelled.at)
  br label %ran
ran:
  %status = phi i32 [ 0, %go ], [ %left, %guard ]
  br i1 %counted, label %add.run, label %added
add.run:
  %end.time = call i64 @nanoseconds()
  %took = sub i64 %end.time, %began
  %runs.before = atomicrmw add ptr %counter, i64 1 monotonic
  %time.at = getelementptr i64, ptr %counter, i64 1
  %time.before = atomicrmw add ptr %time.at, i64 %took monotonic
  br label %added
added:
  br i1 %needed, label %keep, label %judge
keep:
  %scratch.n = ptrtoint ptr %scratch to i64
  %before.n = atomicrmw xchg ptr %arena.at, i64 %scratch.n acq_rel
  %before = inttoptr i64 %before.n to ptr
  call void @give(ptr null, ptr %before, i64 %temp)
  br label %judge
judge:
  %well = icmp eq i32 %status, 0
  br i1 %well, label %donate, label %drop
donate:
  %m = phi i64 [ 0, %judge ], [ %m.next, %donated.one ]
  %m.more = icmp ult i64 %m, %donated_count
  br i1 %m.more, label %donated.one, label %tell
donated.one:
  %number.at = getelementptr i64, ptr %donated, i64 %m
  %number = load i64, ptr %number.at
  %given.at = getelementptr ptr, ptr %list, i64 %number
  %given = load ptr, ptr %given.at
  call void @delete(ptr %given)
  %m.next = add i64 %m, 1
  br label %donate
tell:
  %wants = icmp ne ptr %events, null
  br i1 %wants, label %event, label %end
event:
  store ptr @pjrt.ready, ptr %events
  br label %end
end:
  ret ptr null

drop:
  %count = phi i64 [ %j, %make ], [ %j, %fresh ], [ %j, %judge ]
  %why = phi i32 [ 0, %make ], [ 0, %fresh ], [ %status, %judge ]
  br label %dropping
dropping:
  %q = phi i64 [ 0, %drop ], [ %q.next, %dropped ]
  %q.more = icmp ult i64 %q, %count
  br i1 %q.more, label %dropped, label %explain
dropped:
  %q.at = getelementptr ptr, ptr %outputs, i64 %q
  %q.buffer = load ptr, ptr %q.at
  call void @delete(ptr %q.buffer)
  call void @free.block(ptr %q.buffer)
  %q.next = add i64 %q, 1
  br label %dropping
explain:
  %stopped = icmp ne i32 %why, 0
  br i1 %stopped, label %stop, label %unusual
stop:
  %raised = icmp eq i32 %why, $raised
  %host.n = and i64 %flags, $calls_host
  %calls.host = icmp ne i64 %host.n, 0
  %by.function = and i1 %raised, %calls.host
  br i1 %by.function, label %told, label %judge.raised
told:
  %reported = call ptr @report.raised(ptr %loaded)
  %failed = call ptr @ended(ptr %reported)
  ret ptr %failed
judge.raised:
  br i1 %raised, label %keep.it, label %say
keep.it:
  call void @keep.raised()
  br label %say
say:
  %why.n = zext i32 %why to i64
  %said = call ptr @unusual.stopped(ptr %loaded, i64 %why.n, ptr null)
  %error = call ptr @ended(ptr %said)
  ret ptr %error
}

; The error of what a function has raised that a program calls. Called without the GIL.
define internal ptr @report.raised(ptr %loaded) {
entry:
  %gil = call i32 @PyGILState_Ensure()
  %value = call ptr @take.raised()
  %error = call ptr @unusual.stopped(ptr %loaded, i64 $raised, ptr %value)
  call void @Py_DecRef(ptr %value)
  call void @PyGILState_Release(i32 %gil)
  ret ptr %error
}
"""

__all__ = ["EXECUTE", "LAYOUTS", "TRANSFERS"]
