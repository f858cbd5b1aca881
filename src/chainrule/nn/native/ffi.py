"""What XLA calls, and how the work is shared out: the LLVM text around the programs of this package.

`handler` gets the structures of XLA's foreign function interface (xla/ffi/api/c_api.h): it describes itself when asked,
and otherwise asks XLA's threads for help and starts to work. Work is a number of items; whoever is free takes the next.
The calling thread works too and never waits for a thread that has not started, so nothing depends on how many there
are. A program brings the functions `work(shared)`, which takes items until none are left, and `collect(shared)`, which
is called when all are done.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

FLOAT = 4
"""Bytes."""


@final
class Machine(NamedTuple):
    """What the registers of a processor hold."""

    lanes: int
    """Single-precision numbers in one."""
    registers: int


@final
class Problem(NamedTuple):
    """One convolution or weight gradient: everything its program depends on."""

    batch: int
    space: tuple[int, int]
    sizes: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    before: tuple[int, int]
    """Padding at the beginning of each axis."""
    inputs: int
    outputs: int

    @property
    def name(self) -> str:
        """All its numbers in a word."""
        pairs = (self.space, self.sizes, self.kernel, self.stride, self.dilation, self.before)
        numbers = [self.batch, *(n for pair in pairs for n in pair), self.inputs, self.outputs]
        return "_".join(map(str, numbers))

    @property
    def bytes(self) -> tuple[int, int]:
        """Of one example of the input and of the output."""
        image, answer = self.space[0] * self.space[1], self.sizes[0] * self.sizes[1]
        return FLOAT * image * self.inputs, FLOAT * answer * self.outputs


def outside(items: int, helpers: int, arguments: int, results: int) -> str:
    """The text of `handler` for so many items and so many other threads."""
    places = [("args", number) for number in range(arguments)]
    places += [("rets", number) for number in range(results)]
    return _OUTSIDE.format(
        items=items,
        helpers=helpers,
        bytes=_POINTERS + 8 * len(places),
        pointers="\n".join(line for slot, place in enumerate(places) for line in _shared(slot, *place)),
    )


def take(*names: str) -> str:
    """How a function finds the arguments and results, in this order, in `shared`."""
    lines = ["entry:", "  %p.done = getelementptr i8, ptr %shared, i64 8"]
    for slot, name in enumerate(names):
        lines.append(f"  %s.{name} = getelementptr i8, ptr %shared, i64 {_POINTERS + 8 * slot}")
        lines.append(f"  %{name} = load ptr, ptr %s.{name}")
    return "\n".join([*lines, ""])


def work(items: int, names: Sequence[str], room: int, begin: str) -> str:
    """The function `work`: each thread takes `room` numbers of memory, then does `begin` for items until none is left.

    `begin` finds the number of its item in `%item`, the memory in `%room`, and the arguments and results by `names`.
    """
    return f"""
declare ptr @aligned_alloc(i64, i64)

define internal void @work(ptr %shared) {{
{take(*names)}
  %room = call ptr @aligned_alloc(i64 64, i64 {-(-FLOAT * room // 64) * 64})
  br label %fetch

fetch:
  %item = atomicrmw add ptr %shared, i64 1 seq_cst
  %over = icmp uge i64 %item, {items}
  br i1 %over, label %leave, label %begin

begin:
{begin}
  %counted = atomicrmw add ptr %p.done, i64 1 seq_cst
  br label %fetch

leave:
  call void @free(ptr %room)
  ret void
}}
"""


NOTHING_TO_COLLECT = "define internal void @collect(ptr %shared) {\n  ret void\n}"

_POINTERS = 24
"""Where they begin in `shared`, after three counters."""


def _shared(slot: int, of: str, number: int) -> Iterator[str]:
    """Put the address of one argument or result where everybody finds it."""
    yield f"  %p.{slot} = getelementptr i8, ptr %{of}, i64 {8 * number}"
    yield f"  %buffer.{slot} = load ptr, ptr %p.{slot}"
    yield f"  %p.data.{slot} = getelementptr i8, ptr %buffer.{slot}, i64 24"
    yield f"  %data.{slot} = load ptr, ptr %p.data.{slot}"
    yield f"  %s.{slot} = getelementptr i8, ptr %shared, i64 {_POINTERS + 8 * slot}"
    yield f"  store ptr %data.{slot}, ptr %s.{slot}"


_OUTSIDE = """
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define ptr @handler(ptr %frame) {{
  %p.extension = getelementptr i8, ptr %frame, i64 8
  %extension = load ptr, ptr %p.extension
  %p.api = getelementptr i8, ptr %frame, i64 16
  %api = load ptr, ptr %p.api
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %execute, label %describe

describe:
  %p.metadata = getelementptr i8, ptr %extension, i64 24
  %metadata = load ptr, ptr %p.metadata
  %p.version = getelementptr i8, ptr %api, i64 32
  %version = load i64, ptr %p.version
  %p.mine = getelementptr i8, ptr %metadata, i64 24
  store i64 %version, ptr %p.mine
  %p.traits = getelementptr i8, ptr %metadata, i64 32
  store i32 0, ptr %p.traits
  %p.type = getelementptr i8, ptr %metadata, i64 40
  store i64 0, ptr %p.type
  ret ptr null

execute:
  %p.args = getelementptr i8, ptr %frame, i64 72
  %args = load ptr, ptr %p.args
  %p.rets = getelementptr i8, ptr %frame, i64 112
  %rets = load ptr, ptr %p.rets
  %shared = call ptr @malloc(i64 {bytes})
  store i64 0, ptr %shared
  %p.done = getelementptr i8, ptr %shared, i64 8
  store i64 0, ptr %p.done
  %p.holders = getelementptr i8, ptr %shared, i64 16
  store i64 1, ptr %p.holders
{pointers}
  %p.context = getelementptr i8, ptr %frame, i64 24
  %context = load ptr, ptr %p.context
  %request = alloca [40 x i8], align 8
  store i64 40, ptr %request
  %r.extension = getelementptr i8, ptr %request, i64 8
  store ptr null, ptr %r.extension
  %r.context = getelementptr i8, ptr %request, i64 16
  store ptr %context, ptr %r.context
  %r.task = getelementptr i8, ptr %request, i64 24
  store ptr @task, ptr %r.task
  %r.data = getelementptr i8, ptr %request, i64 32
  store ptr %shared, ptr %r.data
  %p.schedule = getelementptr i8, ptr %api, i64 136
  %schedule = load ptr, ptr %p.schedule
  br label %asking

asking:
  %asked = phi i64 [ 0, %execute ], [ %asked.next, %ask ], [ %asked.next, %refused ]
  %enough = icmp uge i64 %asked, {helpers}
  br i1 %enough, label %join, label %hold

hold:
  %asked.next = add i64 %asked, 1
  %held = atomicrmw add ptr %p.holders, i64 1 seq_cst
  %error = call ptr %schedule(ptr %request)
  %accepted = icmp eq ptr %error, null
  br i1 %accepted, label %ask, label %refused

ask:
  br label %asking

refused:
  %released = atomicrmw sub ptr %p.holders, i64 1 seq_cst
  call void @dismiss(ptr %api, ptr %error)
  br label %asking

join:
  call void @work(ptr %shared)
  br label %wait

wait:
  %finished = load atomic i64, ptr %p.done seq_cst, align 8
  %all = icmp uge i64 %finished, {items}
  br i1 %all, label %leave, label %wait

leave:
  call void @collect(ptr %shared)
  call void @release(ptr %shared)
  ret ptr null
}}

define internal void @dismiss(ptr %api, ptr %error) {{
  %request = alloca [24 x i8], align 8
  store i64 24, ptr %request
  %r.extension = getelementptr i8, ptr %request, i64 8
  store ptr null, ptr %r.extension
  %r.error = getelementptr i8, ptr %request, i64 16
  store ptr %error, ptr %r.error
  %p.destroy = getelementptr i8, ptr %api, i64 64
  %destroy = load ptr, ptr %p.destroy
  call void %destroy(ptr %request)
  ret void
}}

define internal void @release(ptr %shared) {{
  %p.holders = getelementptr i8, ptr %shared, i64 16
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
  call void @work(ptr %shared)
  call void @release(ptr %shared)
  ret void
}}
"""

__all__ = ["FLOAT", "NOTHING_TO_COLLECT", "Machine", "Problem", "outside", "take", "work"]
