"""Work shared by several threads: items taken by free threads, and the wait for those that others have taken.

The calling thread asks XLA's threads for help and works too. It never waits for a thread that has not started, so
nothing depends on how many there are: when no items are left it waits only for those that others have taken. That is
short, so it spins for some microseconds before it sleeps (a futex), to be woken by the thread that finishes an item.

A thread without memory to work in takes no items. If that is the calling thread, no thread takes any more and XLA gets
an error, unless others had already taken all.
"""

import platform
from collections.abc import Sequence

FLOAT = 4
"""Bytes."""

_SPINS = 1024
"""How often the calling thread checks whether all is done before it sleeps: some tens of microseconds."""
_COUNTERS = {"next": 0, "done": 8, "holders": 16, "sleeping": 24}
"""What `shared` begins with: the next item, items done, threads that hold it, whether the calling thread sleeps."""
_POINTERS = 32
"""Where the addresses of arguments and results follow."""
_FUTEX = {"x86_64": 202, "aarch64": 98}
_PAUSE = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}
_FUTEX_WAIT, _FUTEX_WAKE = 128, 129
"""Within one process."""


def take(*names: str) -> str:
    """How a function finds the arguments and results, in this order, in `shared`."""
    lines = ["entry:"]
    for slot, name in enumerate(names):
        lines.append(f"  %s.{name} = getelementptr i8, ptr %shared, i64 {_POINTERS + 8 * slot}")
        lines.append(f"  %{name} = load ptr, ptr %s.{name}")
    return "\n".join([*lines, ""])


def work(items: int, names: Sequence[str], room: int, begin: str) -> str:
    """The function `work`: each thread takes `room` numbers of memory, then does `begin` for items until none is left.

    `begin` finds the number of its item in `%item`, the memory in `%room`, and the arguments and results by `names`. A
    thread that comes too late takes no memory; one that gets none answers false.
    """
    return f"""
define internal i1 @work(ptr %shared) {{
{take(*names)}
  %started = load atomic i64, ptr %shared monotonic, align 8
  %late = icmp uge i64 %started, {items}
  br i1 %late, label %none, label %prepare

prepare:
  %room = call ptr @aligned_alloc(i64 64, i64 {max(64, -(-FLOAT * room // 64) * 64)})
  %got = icmp ne ptr %room, null
  br i1 %got, label %fetch, label %poor

fetch:
  %item = atomicrmw add ptr %shared, i64 1 seq_cst
  %over = icmp uge i64 %item, {items}
  br i1 %over, label %leave, label %begin

begin:
{begin}
  call void @count(ptr %shared)
  br label %fetch

leave:
  call void @free(ptr %room)
  br label %none

none:
  ret i1 true

poor:
  ret i1 false
}}
"""


NOTHING_TO_COLLECT = "define internal void @collect(ptr %shared) {\n  ret void\n}"


def room_for(buffers: int) -> int:
    """Bytes of what threads share about that many arguments and results."""
    return _POINTERS + 8 * buffers


def begin_sharing(buffers: int) -> str:
    """Fill `%shared` from the addresses in `%data.0`, ..."""
    lines = [
        f"  call void @llvm.memset.p0.i64(ptr %shared, i8 0, i64 {_POINTERS}, i1 false)",
        f"  %p.holders = getelementptr i8, ptr %shared, i64 {_COUNTERS['holders']}",
        "  store i64 1, ptr %p.holders",
    ]
    for slot in range(buffers):
        lines.append(f"  %s.{slot} = getelementptr i8, ptr %shared, i64 {_POINTERS + 8 * slot}")
        lines.append(f"  store ptr %data.{slot}, ptr %s.{slot}")
    return "\n".join(lines)


def together(items: int, helpers: int) -> str:
    """Ask for help with `%schedule(%request)`, work, wait and leave: by `ret`, or to `bad.memory`."""
    return f"""
requesting:
  %requests = phi i64 [ 0, %share ], [ %requests.next, %hold ], [ %requests.next, %refused ]
  %enough = icmp uge i64 %requests, {helpers}
  br i1 %enough, label %join, label %hold

hold:
  %requests.next = add i64 %requests, 1
  %held = atomicrmw add ptr %p.holders, i64 1 seq_cst
  %error = call ptr %schedule(ptr %request)
  %accepted = icmp eq ptr %error, null
  br i1 %accepted, label %requesting, label %refused

refused:
  %released = atomicrmw sub ptr %p.holders, i64 1 seq_cst
  call void @dismiss(ptr %api, ptr %error)
  br label %requesting

join:
  %worked = call i1 @work(ptr %shared)
  br i1 %worked, label %rest, label %stop

stop:
  %given.out = atomicrmw xchg ptr %shared, i64 {items} seq_cst
  %taken = call i64 @llvm.umin.i64(i64 %given.out, i64 {items})
  br label %rest

rest:
  %expected = phi i64 [ {items}, %join ], [ %taken, %stop ]
  call void @wait(ptr %shared, i64 %expected)
  %complete = icmp eq i64 %expected, {items}
  br i1 %complete, label %finish, label %exhausted

finish:
  call void @collect(ptr %shared)
  call void @release(ptr %shared)
  ret ptr null

exhausted:
  call void @release(ptr %shared)
  br label %bad.memory
"""


def functions() -> str:
    """The functions that every program needs to share work."""
    computer = platform.machine()
    return "\n".join(
        [
            _DECLARED.format(pause=_PAUSE[computer].replace("i32 1", "i32")),
            _wait(_FUTEX[computer], _PAUSE[computer]),
            _COMMON.format(**_COUNTERS, futex=_FUTEX[computer], wake=_FUTEX_WAKE),
        ]
    )


def _wait(futex: int, pause: str) -> str:
    """Spin for a while, then sleep until a thread finishes an item. Only low halves of counters are compared."""
    return f"""
define internal void @wait(ptr %shared, i64 %expected) noinline {{
entry:
  %p.done = getelementptr i8, ptr %shared, i64 {_COUNTERS["done"]}
  %p.sleeping = getelementptr i8, ptr %shared, i64 {_COUNTERS["sleeping"]}
  br label %look

look:
  %spins = phi i64 [ 0, %entry ], [ %spins.next, %again ]
  %done = load atomic i64, ptr %p.done seq_cst, align 8
  %all = icmp uge i64 %done, %expected
  br i1 %all, label %leave, label %again

again:
  call void {pause}
  %spins.next = add i64 %spins, 1
  %patient = icmp ult i64 %spins.next, {_SPINS}
  br i1 %patient, label %look, label %tired

tired:
  store atomic i64 1, ptr %p.sleeping seq_cst, align 8
  br label %sleep

sleep:
  %now = load atomic i64, ptr %p.done seq_cst, align 8
  %enough = icmp uge i64 %now, %expected
  br i1 %enough, label %leave, label %wait

wait:
  %seen = trunc i64 %now to i32
  %woken = call i64 (i64, ...) @syscall(i64 {futex}, ptr %p.done, i32 {_FUTEX_WAIT}, i32 %seen, ptr null)
  br label %sleep

leave:
  ret void
}}
"""


_DECLARED = """
declare ptr @malloc(i64)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @abort()
declare i64 @syscall(i64, ...)
declare void {pause}
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

_COMMON = """
define internal void @count(ptr %shared) {{
  %p.done = getelementptr i8, ptr %shared, i64 {done}
  %p.sleeping = getelementptr i8, ptr %shared, i64 {sleeping}
  %before = atomicrmw add ptr %p.done, i64 1 seq_cst
  %sleeping = load atomic i64, ptr %p.sleeping seq_cst, align 8
  %awake = icmp eq i64 %sleeping, 0
  br i1 %awake, label %leave, label %wake
wake:
  %woken = call i64 (i64, ...) @syscall(i64 {futex}, ptr %p.done, i32 {wake}, i32 1)
  br label %leave
leave:
  ret void
}}

define internal void @release(ptr %shared) {{
  %p.holders = getelementptr i8, ptr %shared, i64 {holders}
  %before = atomicrmw sub ptr %p.holders, i64 1 seq_cst
  %last = icmp eq i64 %before, 1
  br i1 %last, label %give_back, label %leave
give_back:
  call void @free(ptr %shared)
  br label %leave
leave:
  ret void
}}

define internal void @task(ptr %shared) {{
  %worked = call i1 @work(ptr %shared)
  call void @release(ptr %shared)
  ret void
}}
"""

__all__ = [
    "FLOAT",
    "NOTHING_TO_COLLECT",
    "begin_sharing",
    "functions",
    "room_for",
    "take",
    "together",
    "work",
]
