"""The LLVM text of a convolution: see `chainrule.nn.convolution.native`.

An item of work is a band of rows of one example. Its part of the input is copied, with zeros around it, to where no
edge needs care; `micro` then holds some neighbouring outputs in registers while the kernel slides over all its entries
and inputs: one fused multiply-add per vector of outputs, pixel, entry and input. The weights come in the order in which
they are read, (outputs / tile, *kernel, inputs, tile).
"""

from collections.abc import Iterator
from typing import NamedTuple, final

from chainrule.nn.convolution.geometry import spread
from chainrule.nn.native.ffi import FLOAT, NOTHING_TO_COLLECT, Machine, Problem, outside, take
from chainrule.nn.native.weight_gradient import nested


@final
class Tile(NamedTuple):
    """The outputs that are held in registers at a time: neighbours in a row, each with some vectors of channels."""

    pixels: int
    vectors: int

    @classmethod
    def of(cls, columns: int, outputs: int, machine: Machine) -> "Tile | None":
        """The tile for so many columns and channels; `None` where outputs do not fill registers.

        The last tile of a row overlaps the one before. Sixteen sums keep the arithmetic busy; more save little.

        >>> Tile.of(28, 64, Machine(16, 32)), Tile.of(7, 512, Machine(16, 32)), Tile.of(9, 10, Machine(16, 32))
        (Tile(pixels=14, vectors=2), Tile(pixels=7, vectors=2), None)
        """
        found = []
        for vectors in (1, 2, 4):
            if outputs % (vectors * machine.lanes):
                continue
            most = (machine.registers - vectors - 1) // vectors
            pixels = -(-columns // -(-columns // most))
            useful = columns / (pixels * -(-columns // pixels))
            found.append((useful * min(pixels * vectors, 16), vectors == 2, cls(pixels, vectors)))
        return max(found)[-1] if found else None


def program(problem: Problem, machine: Machine, tile: Tile, helpers: int, cache: int) -> str:
    """The text of the whole program, worked off by the caller and so many other threads."""
    rows = _band(problem, helpers, cache)
    bands = -(-problem.sizes[0] // rows)
    return "\n".join(
        [
            outside(problem.batch * bands, helpers, arguments=2, results=1),
            NOTHING_TO_COLLECT,
            _work(problem, rows, bands),
            _fill(problem),
            _item(problem, machine, tile),
            _micro(problem, machine, tile),
        ]
    )


def _reach(problem: Problem, axis: int, outputs: int) -> int:
    """Inputs along an axis that so many outputs see, with those beyond the edges."""
    return spread(outputs, problem.stride[axis]) + spread(problem.kernel[axis], problem.dilation[axis]) - 1


def _band(problem: Problem, helpers: int, cache: int) -> int:
    """Rows of an item: as many as the cache holds, and few enough for everybody to have some items."""
    row = FLOAT * _reach(problem, 1, problem.sizes[1]) * problem.inputs
    fitting = [n for n in range(1, problem.sizes[0] + 1) if _reach(problem, 0, n) * row <= cache]
    share = -(-problem.batch * problem.sizes[0] // (4 * (helpers + 1)))
    return max(1, min(max(fitting, default=1), share))


def _work(problem: Problem, rows: int, bands: int) -> str:
    image, answer = problem.bytes
    room = FLOAT * _reach(problem, 0, rows) * _reach(problem, 1, problem.sizes[1]) * problem.inputs
    return f"""
define internal void @work(ptr %shared) {{
{take("x", "y", "out")}
  %copy = call ptr @malloc(i64 {room})
  br label %fetch

fetch:
  %item = atomicrmw add ptr %shared, i64 1 seq_cst
  %over = icmp uge i64 %item, {problem.batch * bands}
  br i1 %over, label %leave, label %begin

begin:
  %n = udiv i64 %item, {bands}
  %band = urem i64 %item, {bands}
  %first = mul i64 %band, {rows}
  %left = sub i64 {problem.sizes[0]}, %first
  %rows = call i64 @llvm.smin.i64(i64 %left, i64 {rows})
  %x.place = mul i64 %n, {image}
  %x.n = getelementptr i8, ptr %x, i64 %x.place
  %out.place = mul i64 %n, {answer}
  %out.n = getelementptr i8, ptr %out, i64 %out.place
  call void @fill(ptr %x.n, ptr %copy, i64 %first, i64 %rows)
  call void @item(ptr %copy, ptr %y, ptr %out.n, i64 %first, i64 %rows)
  %counted = atomicrmw add ptr %p.done, i64 1 seq_cst
  br label %fetch

leave:
  call void @free(ptr %copy)
  ret void
}}
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def _fill(problem: Problem) -> str:
    """Copy the inputs that a band of outputs sees, with zeros beyond the edges."""
    (height, width), (above, before) = problem.space, problem.before
    pixel = FLOAT * problem.inputs
    reach = _reach(problem, 1, problem.sizes[1])
    start, end = min(max(0, before), reach), max(min(reach, width + before), 0)
    inside = max(end - start, 0)
    extra = spread(problem.kernel[0], problem.dilation[0]) - problem.stride[0]
    return f"""
define internal void @fill(ptr %x, ptr %copy, i64 %first, i64 %rows) {{
entry:
  %scaled = mul i64 %rows, {problem.stride[0]}
  %lines = add i64 %scaled, {extra}
  %top.scaled = mul i64 %first, {problem.stride[0]}
  %top = sub i64 %top.scaled, {above}
  br label %line

line:
  %q = phi i64 [ 0, %entry ], [ %q.next, %next ]
  %place = mul i64 %q, {reach * pixel}
  %to = getelementptr i8, ptr %copy, i64 %place
  %row = add i64 %top, %q
  %known = icmp ult i64 %row, {height}
  br i1 %known, label %some, label %none

none:
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 {reach * pixel}, i1 false)
  br label %next

some:
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 {start * pixel}, i1 false)
  %from.place = mul i64 %row, {width * pixel}
  %line.start = getelementptr i8, ptr %x, i64 %from.place
  %from = getelementptr i8, ptr %line.start, i64 {(start - before) * pixel}
  %middle = getelementptr i8, ptr %to, i64 {start * pixel}
  call void @llvm.memcpy.p0.p0.i64(ptr %middle, ptr %from, i64 {inside * pixel}, i1 false)
  %rest = getelementptr i8, ptr %to, i64 {(start + inside) * pixel}
  call void @llvm.memset.p0.i64(ptr %rest, i8 0, i64 {(reach - start - inside) * pixel}, i1 false)
  br label %next

next:
  %q.next = add i64 %q, 1
  %more = icmp ult i64 %q.next, %lines
  br i1 %more, label %line, label %over

over:
  ret void
}}
"""


def _item(problem: Problem, machine: Machine, tile: Tile) -> str:
    columns, outputs, inputs = problem.sizes[1], problem.outputs, problem.inputs
    loops = [
        ("o", str(outputs), tile.vectors * machine.lanes),
        ("r", "%rows", 1),
        ("c", str(columns), tile.pixels),
    ]
    body = f"""
  %column = call i64 @llvm.smin.i64(i64 %c, i64 {columns - tile.pixels})
  %line = mul i64 %r, {problem.stride[0] * _reach(problem, 1, columns)}
  %across = mul i64 %column, {problem.stride[1]}
  %pixel = add i64 %line, %across
  %x.entry = mul i64 %pixel, {inputs}
  %px = getelementptr float, ptr %copy, i64 %x.entry
  %w.entry = mul i64 %o, {problem.kernel[0] * problem.kernel[1] * inputs}
  %pw = getelementptr float, ptr %w, i64 %w.entry
  %row = add i64 %first, %r
  %out.line = mul i64 %row, {columns}
  %out.pixel = add i64 %out.line, %column
  %out.channels = mul i64 %out.pixel, {outputs}
  %out.entry = add i64 %out.channels, %o
  %po = getelementptr float, ptr %out, i64 %out.entry
  call void @micro(ptr %px, ptr %pw, ptr %po)"""
    return f"""
define internal void @item(ptr %copy, ptr %w, ptr %out, i64 %first, i64 %rows) {{
entry:
  br label %o.head
{nested(loops, body)}
  ret void
}}
"""


def _micro(problem: Problem, machine: Machine, tile: Tile) -> str:
    """A tile of outputs: sums over the rows of the kernel and over its columns and inputs, which lie side by side."""
    vector = f"<{machine.lanes} x float>"
    held = [(p, v) for p in range(tile.pixels) for v in range(tile.vectors)]
    inputs, outputs = problem.inputs, problem.outputs
    reach = _reach(problem, 1, problem.sizes[1])
    dense = problem.dilation[1] == 1  # then columns and inputs are one loop
    levels = [("m", problem.kernel[0], problem.dilation[0] * reach * inputs)]
    if not dense:
        levels.append(("k", problem.kernel[1], problem.dilation[1] * inputs))
    levels.append(("i", inputs * (problem.kernel[1] if dense else 1), 1))
    lines = [
        f"declare {vector} @llvm.fma.v{machine.lanes}f32({vector}, {vector}, {vector})",
        "define internal void @micro(ptr %x.entry, ptr %w.entry, ptr %out) {",
        "entry:",
    ]
    before = "entry"
    for name, _, _ in levels:
        again = "i" if name == "i" else f"{name}.end"
        lines += [
            f"  br label %{name}",
            f"{name}:",
            f"  %{name}.count = phi i64 [ 0, %{before} ], [ %{name}.next, %{again} ]",
            f"  %x.{name} = phi ptr [ %x.{before}, %{before} ], [ %x.{name}.next, %{again} ]",
            f"  %w.{name} = phi ptr [ %w.{before}, %{before} ], [ %w.after, %{again} ]",
            *(
                f"  %{name}.{p}.{v} = phi {vector} [ "
                + ("zeroinitializer" if before == "entry" else f"%{before}.{p}.{v}")
                + f", %{before} ], [ %sum.{p}.{v}, %{again} ]"
                for p, v in held
            ),
        ]
        before = name
    lines += _input(problem, machine, tile)
    lines.append(f"  %w.after = getelementptr float, ptr %w.i, i64 {tile.vectors * machine.lanes}")
    for number, (name, count, step) in enumerate(reversed(levels)):
        lines += [
            f"  %{name}.next = add i64 %{name}.count, 1",
            f"  %x.{name}.next = getelementptr float, ptr %x.{name}, i64 {step}",
            f"  %{name}.more = icmp ult i64 %{name}.next, {count}",
            f"  br i1 %{name}.more, label %{name}, label %{name}.over",
            f"{name}.over:",
        ]
        if number + 1 < len(levels):
            outer = levels[-2 - number][0]
            lines += [f"  br label %{outer}.end", f"{outer}.end:"]
    for p, v in held:
        lines += [
            f"  %p.{p}.{v} = getelementptr float, ptr %out, i64 {p * outputs + v * machine.lanes}",
            f"  store {vector} %sum.{p}.{v}, ptr %p.{p}.{v}, align 4",
        ]
    return "\n".join([*lines, "  ret void", "}"])


def _input(problem: Problem, machine: Machine, tile: Tile) -> Iterator[str]:
    """One input of one entry of the kernel: its weights times that input of every pixel, added to the sums."""
    vector = f"<{machine.lanes} x float>"
    for v in range(tile.vectors):
        yield f"  %q.{v} = getelementptr float, ptr %w.i, i64 {v * machine.lanes}"
        yield f"  %w.{v} = load {vector}, ptr %q.{v}, align 4"
    for p in range(tile.pixels):
        yield f"  %r.{p} = getelementptr float, ptr %x.i, i64 {p * problem.stride[1] * problem.inputs}"
        yield f"  %s.{p} = load float, ptr %r.{p}, align 4"
        yield f"  %t.{p} = insertelement {vector} poison, float %s.{p}, i64 0"
        yield (
            f"  %x.{p} = shufflevector {vector} %t.{p}, {vector} poison, <{machine.lanes} x i32> zeroinitializer"
        )
        for v in range(tile.vectors):
            yield (
                f"  %sum.{p}.{v} = call {vector} @llvm.fma.v{machine.lanes}f32("
                f"{vector} %x.{p}, {vector} %w.{v}, {vector} %i.{p}.{v})"
            )


__all__ = ["Tile", "program"]
