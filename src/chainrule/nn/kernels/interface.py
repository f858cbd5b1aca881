"""What XLA calls, and how the work is shared out: the LLVM text around the programs of this package.

`handler` gets the structures of XLA's foreign function interface (xla/ffi/api/c_api.h): it describes itself when asked,
and otherwise asks XLA's threads for help and starts to work. Work is a number of items; whoever is free takes the next.
The calling thread works too and never waits for a thread that has not started, so nothing depends on how many there
are. A program brings the functions `work(shared)`, which takes items until none are left, and `collect(out, rest)`,
which is called when all are done.
"""

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


def outside(items: int, helpers: int, results: int) -> str:
    """The text of `handler` for so many items, so many other threads and one or two results."""
    return _OUTSIDE.format(items=items, helpers=helpers, second=8 * (results - 1))


TAKE = """
entry:
  %p.done = getelementptr i8, ptr %shared, i64 8
  %s.x = getelementptr i8, ptr %shared, i64 24
  %x = load ptr, ptr %s.x
  %s.y = getelementptr i8, ptr %shared, i64 32
  %y = load ptr, ptr %s.y
  %s.out = getelementptr i8, ptr %shared, i64 40
  %out = load ptr, ptr %s.out
  %s.rest = getelementptr i8, ptr %shared, i64 48
  %rest = load ptr, ptr %s.rest
"""
"""How `work` finds its operands."""

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
  %first = load ptr, ptr %args
  %p.second = getelementptr i8, ptr %args, i64 8
  %second = load ptr, ptr %p.second
  %p.rets = getelementptr i8, ptr %frame, i64 112
  %rets = load ptr, ptr %p.rets
  %result = load ptr, ptr %rets
  %p.other = getelementptr i8, ptr %rets, i64 {second}
  %other = load ptr, ptr %p.other
  %p.x = getelementptr i8, ptr %first, i64 24
  %x = load ptr, ptr %p.x
  %p.y = getelementptr i8, ptr %second, i64 24
  %y = load ptr, ptr %p.y
  %p.out = getelementptr i8, ptr %result, i64 24
  %out = load ptr, ptr %p.out
  %p.rest = getelementptr i8, ptr %other, i64 24
  %rest = load ptr, ptr %p.rest
  %shared = call ptr @malloc(i64 56)
  store i64 0, ptr %shared
  %p.done = getelementptr i8, ptr %shared, i64 8
  store i64 0, ptr %p.done
  %p.holders = getelementptr i8, ptr %shared, i64 16
  store i64 1, ptr %p.holders
  %s.x = getelementptr i8, ptr %shared, i64 24
  store ptr %x, ptr %s.x
  %s.y = getelementptr i8, ptr %shared, i64 32
  store ptr %y, ptr %s.y
  %s.out = getelementptr i8, ptr %shared, i64 40
  store ptr %out, ptr %s.out
  %s.rest = getelementptr i8, ptr %shared, i64 48
  store ptr %rest, ptr %s.rest
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
  call void @collect(ptr %out, ptr %rest)
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

__all__ = ["FLOAT", "TAKE", "Machine", "Problem", "outside"]
