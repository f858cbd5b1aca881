"""The LLVM text of a weight gradient: see `chainrule.nn.convolution.native`.

`work` takes one share of the batch after the other, each with sums of its own, so the result does not depend on who
took which. `examples` goes through bands of rows, entries of the kernel and blocks of channels. `micro` holds a block
of sums in registers while pixels stream by: one fused multiply-add per sum and pixel.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

from chainrule.nn.native.ffi import FLOAT, Machine, Problem, outside, take


@final
class Block(NamedTuple):
    """The sums that are held in registers at a time: `inputs x vectors` vectors of outputs."""

    inputs: int
    vectors: int

    @classmethod
    def of(cls, inputs: int, outputs: int, machine: Machine) -> "Block | None":
        """The block for so many channels; `None` where outputs do not fill registers.

        >>> Block.of(16, 16, Machine(16, 32)), Block.of(64, 128, Machine(16, 32)), Block.of(64, 10, Machine(16, 32))
        (Block(inputs=16, vectors=1), Block(inputs=8, vectors=2), None)
        """
        if outputs % machine.lanes:
            return None
        vectors = 2 if outputs % (2 * machine.lanes) == 0 else 1
        most = (machine.registers - vectors - 1) // vectors
        return cls(max(n for n in range(1, most + 1) if inputs % n == 0), vectors)


def program(problem: Problem, machine: Machine, block: Block, shares: int, helpers: int, cache: int) -> str:
    """The text of the whole program: the batch in so many shares, summed by the caller and so many other threads."""
    sums = problem.kernel[0] * problem.kernel[1] * problem.inputs * problem.outputs
    parts = [
        outside(shares, helpers, arguments=2, results=2),
        _collect(machine, sums, shares),
        _work(problem, sums, shares, cache),
        *(_table(f"{axis}_{end}", bounds) for axis, end, bounds in _ranges(problem)),
        _examples(problem, machine, block, cache),
        _micro(problem, machine, block),
    ]
    return "\n".join(parts)


def _work(problem: Problem, sums: int, shares: int, cache: int) -> str:
    image, answer = problem.bytes
    return f"""
define internal void @work(ptr %shared) {{
{take("x", "y", "out", "rest")}  br label %fetch

fetch:
  %share = atomicrmw add ptr %shared, i64 1 seq_cst
  %over = icmp uge i64 %share, {shares}
  br i1 %over, label %leave, label %begin

begin:
  %number = sub i64 %share, 1
  %place = mul i64 %number, {FLOAT * sums}
  %other = getelementptr i8, ptr %rest, i64 %place
  %first = icmp eq i64 %share, 0
  %own = select i1 %first, ptr %out, ptr %other
  call void @llvm.memset.p0.i64(ptr %own, i8 0, i64 {FLOAT * sums}, i1 false)
  %scaled = mul i64 %share, {problem.batch}
  %from = udiv i64 %scaled, {shares}
  %after = add i64 %scaled, {problem.batch}
  %until = udiv i64 %after, {shares}
  br label %each

each:
  %n = phi i64 [ %from, %begin ], [ %n.next, %each ]
  %x.place = mul i64 %n, {image}
  %x.n = getelementptr i8, ptr %x, i64 %x.place
  %y.place = mul i64 %n, {answer}
  %y.n = getelementptr i8, ptr %y, i64 %y.place
  %left = sub i64 %until, %n
  %count = call i64 @llvm.smin.i64(i64 %left, i64 {_together(problem, cache)})
  call void @examples(ptr %x.n, ptr %y.n, ptr %own, i64 %count)
  %n.next = add i64 %n, %count
  %more = icmp ult i64 %n.next, %until
  br i1 %more, label %each, label %finish

finish:
  %counted = atomicrmw add ptr %p.done, i64 1 seq_cst
  br label %fetch

leave:
  ret void
}}
"""


def _collect(machine: Machine, sums: int, shares: int) -> str:
    """The sums of the first share become those of all, in the same order whoever computed them."""
    vector = f"<{machine.lanes} x float>"
    lines = [
        "define internal void @collect(ptr %shared) {",
        take("x", "y", "out", "rest"),
        "  br label %next",
        "next:",
        "  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]",
        "  %p = getelementptr float, ptr %out, i64 %k",
        f"  %sum.0 = load {vector}, ptr %p, align 4",
    ]
    for share in range(1, shares):
        lines += [
            f"  %k.{share} = add i64 %k, {(share - 1) * sums}",
            f"  %p.{share} = getelementptr float, ptr %rest, i64 %k.{share}",
            f"  %v.{share} = load {vector}, ptr %p.{share}, align 4",
            f"  %sum.{share} = fadd {vector} %sum.{share - 1}, %v.{share}",
        ]
    lines += [
        f"  store {vector} %sum.{shares - 1}, ptr %p, align 4",
        f"  %k.next = add i64 %k, {machine.lanes}",
        f"  %more = icmp ult i64 %k.next, {sums}",
        "  br i1 %more, label %next, label %over",
        "over:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def _together(problem: Problem, cache: int) -> int:
    """Examples that fit into the cache."""
    return max(1, cache // sum(problem.bytes))


def _ranges(problem: Problem) -> Iterator[tuple[str, str, list[int]]]:
    """For each entry of the kernel along an axis, the outputs from and until which it meets the input."""
    for axis, name in enumerate(("row", "column")):
        size, n, stride = problem.sizes[axis], problem.space[axis], problem.stride[axis]
        offsets = [
            entry * problem.dilation[axis] - problem.before[axis] for entry in range(problem.kernel[axis])
        ]
        first = [max(0, -(offset // stride)) for offset in offsets]
        yield name, "from", first
        last = [min(size, (n - 1 - offset) // stride + 1) for offset in offsets]
        yield name, "until", [max(low, high) for low, high in zip(first, last, strict=True)]


def _table(name: str, values: Sequence[int]) -> str:
    entries = ", ".join(f"i64 {value}" for value in values)
    return f"@{name} = internal constant [{len(values)} x i64] [{entries}]"


def _examples(problem: Problem, machine: Machine, block: Block, cache: int) -> str:
    (rows, columns), (_, width) = problem.sizes, problem.space
    inputs, outputs = problem.inputs, problem.outputs
    per_row = FLOAT * (columns * outputs + problem.stride[0] * width * inputs)
    band = max(1, min(rows, cache // per_row))
    loops = [
        ("band", str(rows), band),
        ("m", str(problem.kernel[0]), 1),
        ("k", str(problem.kernel[1]), 1),
        ("o", str(outputs), block.vectors * machine.lanes),
        ("i", str(inputs), block.inputs),
    ]

    return f"""
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)

define internal void @examples(ptr %x, ptr %y, ptr %out, i64 %examples) {{
entry:
  br label %{loops[0][0]}.head
{nested(loops, _entry(problem, band))}
  ret void
}}
"""


def _entry(problem: Problem, band: int) -> str:
    """One entry (m, k) of the kernel and one block of channels (o, i) over a band of rows."""
    inputs, outputs = problem.inputs, problem.outputs
    width, columns = problem.space[1], problem.sizes[1]
    return f"""
  %p.row.from = getelementptr i64, ptr @row_from, i64 %m
  %row.from = load i64, ptr %p.row.from
  %p.row.until = getelementptr i64, ptr @row_until, i64 %m
  %row.until = load i64, ptr %p.row.until
  %p.column.from = getelementptr i64, ptr @column_from, i64 %k
  %column.from = load i64, ptr %p.column.from
  %p.column.until = getelementptr i64, ptr @column_until, i64 %k
  %column.until = load i64, ptr %p.column.until
  %band.end = add i64 %band, {band}
  %first = call i64 @llvm.smax.i64(i64 %row.from, i64 %band)
  %last = call i64 @llvm.smin.i64(i64 %row.until, i64 %band.end)
  %count = sub i64 %last, %first
  %columns = sub i64 %column.until, %column.from
  %some = icmp sgt i64 %count, 0
  %any = icmp sgt i64 %columns, 0
  %both = and i1 %some, %any
  br i1 %both, label %sum, label %next
sum:
  %row.scaled = mul i64 %first, {problem.stride[0]}
  %row.offset = mul i64 %m, {problem.dilation[0]}
  %row.sum = add i64 %row.scaled, %row.offset
  %row = sub i64 %row.sum, {problem.before[0]}
  %column.scaled = mul i64 %column.from, {problem.stride[1]}
  %column.offset = mul i64 %k, {problem.dilation[1]}
  %column.sum = add i64 %column.scaled, %column.offset
  %column = sub i64 %column.sum, {problem.before[1]}
  %x.line = mul i64 %row, {width}
  %x.pixel = add i64 %x.line, %column
  %x.channels = mul i64 %x.pixel, {inputs}
  %x.entry = add i64 %x.channels, %i
  %px = getelementptr float, ptr %x, i64 %x.entry
  %y.line = mul i64 %first, {columns}
  %y.pixel = add i64 %y.line, %column.from
  %y.channels = mul i64 %y.pixel, {outputs}
  %y.entry = add i64 %y.channels, %o
  %pd = getelementptr float, ptr %y, i64 %y.entry
  %w.line = mul i64 %m, {problem.kernel[1]}
  %w.offset = add i64 %w.line, %k
  %w.inputs = mul i64 %w.offset, {inputs}
  %w.input = add i64 %w.inputs, %i
  %w.outputs = mul i64 %w.input, {outputs}
  %w.entry = add i64 %w.outputs, %o
  %po = getelementptr float, ptr %out, i64 %w.entry
  call void @micro(ptr %px, ptr %pd, ptr %po, i64 %examples, i64 %count, i64 %columns)
  br label %next
next:"""


def nested(loops: Sequence[tuple[str, str, int]], body: str) -> str:
    """Loops (counter, end, step) around each other and the body."""
    lines = []
    before = "entry"
    for depth, (name, _, _) in enumerate(loops):
        lines += [f"{name}.head:", f"  %{name} = phi i64 [ 0, %{before} ], [ %{name}.next, %{name}.tail ]"]
        before = f"{name}.head"
        if depth + 1 < len(loops):
            lines.append(f"  br label %{loops[depth + 1][0]}.head")
    lines.append(body)
    for name, end, step in reversed(loops):
        lines += [
            f"  br label %{name}.tail",
            f"{name}.tail:",
            f"  %{name}.next = add i64 %{name}, {step}",
            f"  %{name}.more = icmp ult i64 %{name}.next, {end}",
            f"  br i1 %{name}.more, label %{name}.head, label %{name}.exit",
            f"{name}.exit:",
        ]
    return "\n".join(lines)


def _micro(problem: Problem, machine: Machine, block: Block) -> str:
    """Sums over examples, rows and columns of one block of channels for one entry of the kernel."""
    vector = f"<{machine.lanes} x float>"
    tile = [(t, v) for t in range(block.inputs) for v in range(block.vectors)]
    (height, width), (rows, columns) = problem.space, problem.sizes
    inputs, outputs = problem.inputs, problem.outputs
    levels = [  # from the outside in: how far the input and the cotangent move with each turn
        ("example", height * width * inputs, rows * columns * outputs),
        ("row", problem.stride[0] * width * inputs, columns * outputs),
        ("column", problem.stride[1] * inputs, outputs),
    ]
    lines = [
        f"declare {vector} @llvm.fma.v{machine.lanes}f32({vector}, {vector}, {vector})",
        "define internal void @micro(ptr %x.entry, ptr %y.entry, ptr %out, i64 %examples, i64 %rows, i64 %columns)"
        " noinline {",
        "entry:",
    ]
    for t, v in tile:
        lines += [
            f"  %p.{t}.{v} = getelementptr float, ptr %out, i64 {t * outputs + v * machine.lanes}",
            f"  %entry.{t}.{v} = load {vector}, ptr %p.{t}.{v}, align 4",
        ]
    outside = "entry"
    for name, _, _ in levels:
        again = "column" if name == "column" else f"{name}.end"
        lines += [
            f"  br label %{name}",
            f"{name}:",
            f"  %{name}.count = phi i64 [ 0, %{outside} ], [ %{name}.next, %{again} ]",
            f"  %x.{name} = phi ptr [ %x.{outside}, %{outside} ], [ %x.{name}.next, %{again} ]",
            f"  %y.{name} = phi ptr [ %y.{outside}, %{outside} ], [ %y.{name}.next, %{again} ]",
            *(
                f"  %{name}.{t}.{v} = phi {vector} [ %{outside}.{t}.{v}, %{outside} ], [ %sum.{t}.{v}, %{again} ]"
                for t, v in tile
            ),
        ]
        outside = name
    lines += _pixel(vector, machine, block)
    for name, x_step, y_step in reversed(levels):
        lines += [
            f"  %{name}.next = add i64 %{name}.count, 1",
            f"  %x.{name}.next = getelementptr float, ptr %x.{name}, i64 {x_step}",
            f"  %y.{name}.next = getelementptr float, ptr %y.{name}, i64 {y_step}",
            f"  %{name}.more = icmp ult i64 %{name}.next, %{name}s",
            f"  br i1 %{name}.more, label %{name}, label %{name}.over",
            f"{name}.over:",
        ]
        if name != "example":
            outer = {"column": "row", "row": "example"}[name]
            lines += [f"  br label %{outer}.end", f"{outer}.end:"]
    lines += [f"  store {vector} %sum.{t}.{v}, ptr %p.{t}.{v}, align 4" for t, v in tile]
    return "\n".join([*lines, "  ret void", "}"])


def _pixel(vector: str, machine: Machine, block: Block) -> Iterator[str]:
    """One pixel: vectors of outputs times each input, added to the sums."""
    for v in range(block.vectors):
        yield f"  %q.{v} = getelementptr float, ptr %y.column, i64 {v * machine.lanes}"
        yield f"  %y.{v} = load {vector}, ptr %q.{v}, align 4"
    for t in range(block.inputs):
        yield f"  %r.{t} = getelementptr float, ptr %x.column, i64 {t}"
        yield f"  %s.{t} = load float, ptr %r.{t}, align 4"
        yield f"  %i.{t} = insertelement {vector} poison, float %s.{t}, i64 0"
        yield (
            f"  %x.{t} = shufflevector {vector} %i.{t}, {vector} poison, <{machine.lanes} x i32> zeroinitializer"
        )
        for v in range(block.vectors):
            yield (
                f"  %sum.{t}.{v} = call {vector} @llvm.fma.v{machine.lanes}f32("
                f"{vector} %x.{t}, {vector} %y.{v}, {vector} %column.{t}.{v})"
            )


__all__ = ["Block", "nested", "program"]
