"""The function that XLA calls: the LLVM text around every program.

`handler` gets the structures of XLA's foreign function interface (`chainrule.nn.native.interface`). It states the
version it was written for when asked, and otherwise checks what it was given before it reads it and has the work done
(`chainrule.nn.native.threads`). A program brings the functions `work(shared)`, which takes items until none are left,
and `collect(shared)`, which is called when all are done.
"""

from collections.abc import Iterator, Sequence

from chainrule.nn.native.interface import CONSTANTS, VERSION, field, size
from chainrule.nn.native.threads import NOTHING_TO_COLLECT, begin_sharing, functions, room_for, together, work


def handler(items: int, helpers: int, arguments: int, results: int) -> str:
    """The text of `handler` for so many items and so many other threads."""
    buffers = [("args", number) for number in range(arguments)]
    buffers += [("rets", number) for number in range(results)]
    return "\n".join(
        [
            functions(),
            _message("version", f"chainrule: XLA's interface is not version {VERSION[0]}"),
            _message("structure", "chainrule: XLA gives smaller structures than this program reads"),
            _message("memory", "chainrule: no memory for a native program"),
            _entry(),
            _describe(),
            _check(buffers, arguments, results),
            _execute(items, helpers, buffers),
            _fail(),
            _dismiss(),
        ]
    )


def _message(name: str, text: str) -> str:
    data = text.encode() + b"\0"
    return f'@message.{name} = internal constant [{len(data)} x i8] c"{text}\\00"'


def _at(name: str, base: str, struct: str, one: str) -> str:
    """A pointer to a field of a structure, or of a structure inside it."""
    return f"  %{name} = getelementptr i8, ptr {base}, i64 {field(struct, one).offset}"


def _read(name: str, kind: str, base: str, struct: str, one: str) -> str:
    return f"{_at(f'p.{name}', base, struct, one)}\n  %{name} = load {kind}, ptr %p.{name}"


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
  %extension.size = load i64, ptr %extension
  %extension.bare = icmp ult i64 %extension.size, {field("Metadata_Extension", "extension_base.type").end}
  br i1 %extension.bare, label %bad.structure, label %read

read:
{_read("kind", "i32", "%extension", "Metadata_Extension", "extension_base.type")}
  %asked = icmp eq i32 %kind, {CONSTANTS["XLA_FFI_Extension_Metadata"]}
  br i1 %asked, label %describe, label %check
"""


def _describe() -> str:
    """The version this was written for; what XLA makes of another one is up to XLA."""
    version = field("Metadata", "api_version")
    return f"""
describe:
  %extension.short = icmp ult i64 %extension.size, {field("Metadata_Extension", "metadata").end}
  br i1 %extension.short, label %bad.structure, label %metadata.check

metadata.check:
{_read("metadata", "ptr", "%extension", "Metadata_Extension", "metadata")}
  %metadata.size = load i64, ptr %metadata
  %metadata.short = icmp ult i64 %metadata.size, {field("Metadata", "traits").end}
  br i1 %metadata.short, label %bad.structure, label %state

state:
{_fill("mine.size", "%metadata", "i64", str(version.size), "Metadata", "api_version.struct_size")}
{_fill("mine.extension", "%metadata", "ptr", "null", "Metadata", "api_version.extension_start")}
{_fill("mine.major", "%metadata", "i32", str(VERSION[0]), "Metadata", "api_version.major_version")}
{_fill("mine.minor", "%metadata", "i32", str(VERSION[1]), "Metadata", "api_version.minor_version")}
{_fill("traits", "%metadata", "i32", "0", "Metadata", "traits")}
{_fill("state.type", "%metadata", "i64", "0", "Metadata", "state_type_id")}
  ret ptr null
"""


def _check(buffers: Sequence[tuple[str, int]], arguments: int, results: int) -> str:
    """Everything that is read later, before it is read."""
    lines = [
        "check:",
        _read("major", "i32", "%api", "Api", "api_version.major_version"),
        f"  %same = icmp eq i32 %major, {VERSION[0]}",
        f"  %whole = icmp uge i64 %api.size, {field('Api', 'XLA_FFI_ThreadPool_Schedule').end}",
        "  %usable = and i1 %same, %whole",
        "  br i1 %usable, label %check.frame, label %bad.version",
        "check.frame:",
        f"  %frame.whole = icmp uge i64 %frame.size, {field('CallFrame', 'rets.rets').end}",
        "  br i1 %frame.whole, label %check.lists, label %bad.structure",
        "check.lists:",
    ]
    ands = []
    for one, count in (("args", arguments), ("rets", results)):
        used = field("CallFrame", f"{one}.{one}").end - field("CallFrame", f"{one}.struct_size").offset
        lines += [
            _read(f"{one}.size", "i64", "%frame", "CallFrame", f"{one}.struct_size"),
            f"  %{one}.whole = icmp uge i64 %{one}.size, {used}",
            _read(f"{one}.count", "i64", "%frame", "CallFrame", f"{one}.size"),
            f"  %{one}.right = icmp eq i64 %{one}.count, {count}",
            _read(one, "ptr", "%frame", "CallFrame", f"{one}.{one}"),
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
    count = len(buffers)
    addresses = [_read(f"data.{slot}", "ptr", f"%buffer.{slot}", "Buffer", "data") for slot in range(count)]
    request = "ThreadPool_Schedule_Args"
    return f"""
execute:
{_made(request)}
  %shared = call ptr @malloc(i64 {room_for(count)})
  %empty = icmp eq ptr %shared, null
  br i1 %empty, label %bad.memory, label %share

share:
{chr(10).join(addresses)}
{begin_sharing(count)}
{_read("context", "ptr", "%frame", "CallFrame", "ctx")}
{_fill("r.context", "%request", "ptr", "%context", request, "ctx")}
{_fill("r.task", "%request", "ptr", "@task", request, "task")}
{_fill("r.data", "%request", "ptr", "%shared", request, "data")}
{_read("schedule", "ptr", "%api", "Api", "XLA_FFI_ThreadPool_Schedule")}
  br label %requesting

{together(items, helpers)}
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


def no_work() -> str:
    """A program that does nothing, to see whether XLA takes it."""
    return "\n".join([handler(1, 0, 0, 0), NOTHING_TO_COLLECT, work(1, (), 1, "")])


__all__ = ["handler", "no_work"]
