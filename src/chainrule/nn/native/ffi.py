"""The function that XLA calls, and how work is shared between threads: the LLVM text around every program.

`handler` gets the structures of XLA's foreign function interface (`chainrule.nn.native.interface`). It states the
version it was written for when asked, and otherwise checks what it was given, asks XLA's threads for help and starts to
work. Work is a number of items; whoever is free takes the next. The calling thread works too and never waits for a
thread that has not started, so nothing depends on how many there are: it waits only for items that others have taken.
That is short, so it looks again and again for some microseconds before it sleeps (a futex), to be woken by whoever
finishes an item. A program brings the functions `work(shared)`, which takes items until none are left, and
`collect(shared)`, which is called when all are done.

A thread without memory to work in takes no items. If that is the calling thread, nobody takes any more and XLA gets an
error, unless others had already taken all.
"""

import platform
from collections.abc import Iterator, Sequence

from chainrule.nn.native.interface import CONSTANTS, VERSION, field, size

FLOAT = 4
"""Bytes."""

_LOOKS = 1024
"""How often the calling thread looks whether all is done before it sleeps: some tens of microseconds."""
_COUNTERS = {"next": 0, "done": 8, "holders": 16, "sleeping": 24}
"""What `shared` begins with: the next item, items done, threads that hold it, whether the calling thread sleeps."""
_POINTERS = 32
"""Where the addresses of arguments and results follow."""
_FUTEX = {"x86_64": 202, "aarch64": 98}
_PAUSE = {"x86_64": "@llvm.x86.sse2.pause()", "aarch64": "@llvm.aarch64.hint(i32 1)"}
_FUTEX_WAIT, _FUTEX_WAKE = 128, 129
"""Within one process."""


def handler(items: int, helpers: int, arguments: int, results: int) -> str:
    """The text of `handler` for so many items and so many other threads."""
    buffers = [("args", number) for number in range(arguments)]
    buffers += [("rets", number) for number in range(results)]
    return "\n".join(
        [
            _DECLARED.format(pause=_PAUSE[platform.machine()].replace("i32 1", "i32")),
            _message("version", f"chainrule: XLA's interface is not version {VERSION[0]}"),
            _message("structure", "chainrule: XLA gives smaller structures than this program reads"),
            _message("memory", "chainrule: no memory for a native program"),
            _entry(),
            _describe(),
            _check(buffers, arguments, results),
            _execute(items, helpers, buffers),
            _fail(),
            _dismiss(),
            _wait(),
            _COMMON.format(**_COUNTERS, futex=_FUTEX[platform.machine()], wake=_FUTEX_WAKE),
        ]
    )


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


# ---------------------------------------------------------------------- the handler


def _message(name: str, text: str) -> str:
    data = text.encode() + b"\0"
    return f'@message.{name} = internal constant [{len(data)} x i8] c"{text}\\00"'


def _at(name: str, base: str, struct: str, one: str, inside: tuple[str, str] | None = None) -> str:
    """A pointer to a field of a structure, or of a structure inside it."""
    place = field(struct, one).offset + (field(*inside).offset if inside else 0)
    return f"  %{name} = getelementptr i8, ptr {base}, i64 {place}"


def _read(
    name: str, kind: str, base: str, struct: str, one: str, inside: tuple[str, str] | None = None
) -> str:
    return f"{_at(f'p.{name}', base, struct, one, inside)}\n  %{name} = load {kind}, ptr %p.{name}"


def _fill(name: str, base: str, kind: str, value: str, struct: str, one: str) -> str:
    return f"{_at(name, base, struct, one)}\n  store {kind} {value}, ptr %{name}"


def _made(struct: str) -> str:
    """A structure of its own on the stack."""
    return "\n".join(
        [
            f"  %request = alloca [{-(-size(struct) // 8) * 8} x i8], align 8",
            f"  store i64 {size(struct)}, ptr %request",
            _fill("r.extension", "%request", "ptr", "null", struct, "extension_start"),
        ]
    )


def _entry() -> str:
    """Up to where errors can be told: without that much of an interface nothing can be, and results would be wrong."""
    return f"""
define ptr @handler(ptr %frame) {{
  %frame.size = load i64, ptr %frame
  %frame.short = icmp ult i64 %frame.size, {field("CallFrame", "ctx").end}
  br i1 %frame.short, label %broken, label %known

known:
{_read("api", "ptr", "%frame", "CallFrame", "api")}
  %api.size = load i64, ptr %api
  %api.short = icmp ult i64 %api.size, {field("Api", "XLA_FFI_Error_Create").end}
  br i1 %api.short, label %broken, label %able

broken:
  call void @abort()
  unreachable

able:
{_read("extension", "ptr", "%frame", "CallFrame", "extension_start")}
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %check, label %look

look:
{_read("kind", "i32", "%extension", "Extension_Base", "type")}
  %asked = icmp eq i32 %kind, {CONSTANTS["XLA_FFI_Extension_Metadata"]}
  br i1 %asked, label %describe, label %check
"""


def _describe() -> str:
    """The version this was written for; what XLA makes of another one is up to XLA."""
    version = "Api_Version"
    return f"""
describe:
  %extension.size = load i64, ptr %extension
  %extension.short = icmp ult i64 %extension.size, {field("Metadata_Extension", "metadata").end}
  br i1 %extension.short, label %bad.structure, label %metadata.check

metadata.check:
{_read("metadata", "ptr", "%extension", "Metadata_Extension", "metadata")}
  %metadata.size = load i64, ptr %metadata
  %metadata.short = icmp ult i64 %metadata.size, {field("Metadata", "traits").end}
  br i1 %metadata.short, label %bad.structure, label %state

state:
{_at("mine", "%metadata", "Metadata", "api_version")}
{_fill("mine.size", "%mine", "i64", str(size(version)), version, "struct_size")}
{_fill("mine.extension", "%mine", "ptr", "null", version, "extension_start")}
{_fill("mine.major", "%mine", "i32", str(VERSION[0]), version, "major_version")}
{_fill("mine.minor", "%mine", "i32", str(VERSION[1]), version, "minor_version")}
{_fill("traits", "%metadata", "i32", "0", "Metadata", "traits")}
{_fill("state.type", "%metadata", "i64", "0", "Metadata", "state_type_id")}
  ret ptr null
"""


def _check(buffers: Sequence[tuple[str, int]], arguments: int, results: int) -> str:
    """Everything that is read later, before it is read."""
    lines = [
        "check:",
        _read("major", "i32", "%api", "Api", "api_version", ("Api_Version", "major_version")),
        f"  %same = icmp eq i32 %major, {VERSION[0]}",
        f"  %whole = icmp uge i64 %api.size, {field('Api', 'XLA_FFI_ThreadPool_Schedule').end}",
        "  %usable = and i1 %same, %whole",
        "  br i1 %usable, label %check.frame, label %bad.version",
        "check.frame:",
        f"  %frame.whole = icmp uge i64 %frame.size, {field('CallFrame', 'rets').end}",
        "  br i1 %frame.whole, label %check.lists, label %bad.structure",
        "check.lists:",
    ]
    ands = []
    for one, struct, count in (("args", "Args", arguments), ("rets", "Rets", results)):
        lines += [
            _read(f"{one}.size", "i64", "%frame", "CallFrame", one, (struct, "struct_size")),
            f"  %{one}.whole = icmp uge i64 %{one}.size, {field(struct, one).end}",
            _read(f"{one}.count", "i64", "%frame", "CallFrame", one, (struct, "size")),
            f"  %{one}.right = icmp eq i64 %{one}.count, {count}",
            _read(one, "ptr", "%frame", "CallFrame", one, (struct, one)),
        ]
        ands += [f"%{one}.whole", f"%{one}.right"]
    lines += [
        *_all("lists", ands),
        "  br i1 %lists, label %check.buffers, label %bad.structure",
        "check.buffers:",
    ]
    for slot, (one, number) in enumerate(buffers):
        lines += [
            f"  %p.buffer.{slot} = getelementptr i8, ptr %{one}, i64 {8 * number}",
            f"  %buffer.{slot} = load ptr, ptr %p.buffer.{slot}",
            f"  %buffer.size.{slot} = load i64, ptr %buffer.{slot}",
            f"  %buffer.whole.{slot} = icmp uge i64 %buffer.size.{slot}, {field('Buffer', 'data').end}",
        ]
    lines += _all("buffers", [f"%buffer.whole.{slot}" for slot in range(len(buffers))])
    return "\n".join([*lines, "  br i1 %buffers, label %execute, label %bad.structure", ""])


def _all(name: str, conditions: Sequence[str]) -> Iterator[str]:
    """All of these conditions as one."""
    so_far = "true"
    for number, condition in enumerate(conditions or ["true"]):
        now = f"%{name}" if number + 1 >= len(conditions) else f"%{name}.all.{number}"
        yield f"  {now} = and i1 {so_far}, {condition}"
        so_far = now


def _execute(items: int, helpers: int, buffers: Sequence[tuple[str, int]]) -> str:
    pointers = []
    for slot in range(len(buffers)):
        pointers += [
            _read(f"data.{slot}", "ptr", f"%buffer.{slot}", "Buffer", "data"),
            f"  %s.{slot} = getelementptr i8, ptr %shared, i64 {_POINTERS + 8 * slot}",
            f"  store ptr %data.{slot}, ptr %s.{slot}",
        ]
    request = "ThreadPool_Schedule_Args"
    return f"""
execute:
{_made(request)}
  %shared = call ptr @malloc(i64 {_POINTERS + 8 * len(buffers)})
  %empty = icmp eq ptr %shared, null
  br i1 %empty, label %bad.memory, label %share

share:
  call void @llvm.memset.p0.i64(ptr %shared, i8 0, i64 {_POINTERS}, i1 false)
  %p.holders = getelementptr i8, ptr %shared, i64 {_COUNTERS["holders"]}
  store i64 1, ptr %p.holders
{chr(10).join(pointers)}
{_read("context", "ptr", "%frame", "CallFrame", "ctx")}
{_fill("r.context", "%request", "ptr", "%context", request, "ctx")}
{_fill("r.task", "%request", "ptr", "@task", request, "task")}
{_fill("r.data", "%request", "ptr", "%shared", request, "data")}
{_read("schedule", "ptr", "%api", "Api", "XLA_FFI_ThreadPool_Schedule")}
  br label %asking

asking:
  %requests = phi i64 [ 0, %share ], [ %requests.next, %hold ], [ %requests.next, %refused ]
  %enough = icmp uge i64 %requests, {helpers}
  br i1 %enough, label %join, label %hold

hold:
  %requests.next = add i64 %requests, 1
  %held = atomicrmw add ptr %p.holders, i64 1 seq_cst
  %error = call ptr %schedule(ptr %request)
  %accepted = icmp eq ptr %error, null
  br i1 %accepted, label %asking, label %refused

refused:
  %released = atomicrmw sub ptr %p.holders, i64 1 seq_cst
  call void @dismiss(ptr %api, ptr %error)
  br label %asking

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


def _fail() -> str:
    """The end of the handler: errors, and how they are made."""
    codes = {
        "version": "FAILED_PRECONDITION",
        "structure": "INVALID_ARGUMENT",
        "memory": "RESOURCE_EXHAUSTED",
    }
    blocks = [
        f"""
bad.{name}:
  %failure.{name} = call ptr @fail(ptr %api, ptr @message.{name}, i32 {CONSTANTS[f"XLA_FFI_Error_Code_{code}"]})
  ret ptr %failure.{name}"""
        for name, code in codes.items()
    ]
    request = "Error_Create_Args"
    return f"""{chr(10).join(blocks)}
}}

define internal ptr @fail(ptr %api, ptr %message, i32 %code) noinline {{
{_made(request)}
{_fill("r.message", "%request", "ptr", "%message", request, "message")}
{_fill("r.code", "%request", "i32", "%code", request, "errc")}
{_read("create", "ptr", "%api", "Api", "XLA_FFI_Error_Create")}
  %error = call ptr %create(ptr %request)
  ret ptr %error
}}
"""


def _dismiss() -> str:
    request = "Error_Destroy_Args"
    return f"""
define internal void @dismiss(ptr %api, ptr %error) noinline {{
{_made(request)}
{_fill("r.error", "%request", "ptr", "%error", request, "error")}
{_read("destroy", "ptr", "%api", "Api", "XLA_FFI_Error_Destroy")}
  call void %destroy(ptr %request)
  ret void
}}
"""


def _wait() -> str:
    """Look for a while, then sleep until somebody finishes an item. Only low halves of counters are compared."""
    futex, pause = _FUTEX[platform.machine()], _PAUSE[platform.machine()]
    return f"""
define internal void @wait(ptr %shared, i64 %expected) noinline {{
entry:
  %p.done = getelementptr i8, ptr %shared, i64 {_COUNTERS["done"]}
  %p.sleeping = getelementptr i8, ptr %shared, i64 {_COUNTERS["sleeping"]}
  br label %look

look:
  %looks = phi i64 [ 0, %entry ], [ %looks.next, %again ]
  %done = load atomic i64, ptr %p.done seq_cst, align 8
  %all = icmp uge i64 %done, %expected
  br i1 %all, label %leave, label %again

again:
  call void {pause}
  %looks.next = add i64 %looks, 1
  %patient = icmp ult i64 %looks.next, {_LOOKS}
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


def no_work() -> str:
    """A program that does nothing, to see whether XLA takes it."""
    return "\n".join([handler(1, 0, 0, 0), NOTHING_TO_COLLECT, work(1, (), 1, "")])


__all__ = ["FLOAT", "NOTHING_TO_COLLECT", "handler", "no_work", "take", "work"]
