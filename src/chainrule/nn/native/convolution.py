"""The LLVM text of a convolution: see `chainrule.nn.convolution.native`.

An item of work is a band of rows of one example. Its part of the input is copied, with zeros around it, to where no
edge needs care; `micro` then holds some neighbouring outputs in registers while the kernel slides over all its entries
and inputs: one fused multiply-add per vector of outputs, pixel, entry and input. The weights come in the order in which
they are read, (outputs / tile, *kernel, inputs, tile).
"""

from collections.abc import Iterator
from typing import NamedTuple, final

from chainrule.nn.native.availability import Registers
from chainrule.nn.native.builder import nested
from chainrule.nn.native.ffi import handler
from chainrule.nn.native.threads import FLOAT, NOTHING_TO_COLLECT, work
from chainrule.nn.windows import spread


@final
class ConvolutionShape(NamedTuple):
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


@final
class Tile(NamedTuple):
    """The outputs that are held in registers at a time: neighbours in a row, each with some vectors of channels."""

    pixels: int
    vectors: int

    @classmethod
    def of(cls, columns: int, outputs: int, registers: Registers) -> "Tile | None":
        """The tile for so many columns and channels; `None` where outputs do not fill registers.

        The last tile of a row overlaps the one before. Sixteen sums keep the arithmetic busy; more save little.

        >>> Tile.of(28, 64, Registers(16, 32)), Tile.of(7, 512, Registers(16, 32)), Tile.of(9, 10, Registers(16, 32))
        (Tile(pixels=14, vectors=2), Tile(pixels=7, vectors=2), None)
        """
        found = []
        for vectors in (1, 2, 4):
            if outputs % (vectors * registers.lanes):
                continue
            most = (registers.number - vectors - 1) // vectors
            pixels = -(-columns // -(-columns // most))
            useful = columns / (pixels * -(-columns // pixels))
            found.append((useful * min(pixels * vectors, 16), vectors == 2, cls(pixels, vectors)))
        return max(found)[-1] if found else None


def program(shape: ConvolutionShape, registers: Registers, tile: Tile, helpers: int, cache: int) -> str:
    """The text of the whole program, worked off by the caller and so many other threads."""
    rows = _band(shape, helpers, cache)
    bands = -(-shape.sizes[0] // rows)
    return "\n".join(
        [
            handler(shape.batch * bands, helpers, arguments=2, results=1),
            NOTHING_TO_COLLECT,
            _work(shape, rows, bands),
            _fill(shape),
            _item(shape, registers, tile),
            _micro(shape, registers, tile),
        ]
    )


def _reach(shape: ConvolutionShape, axis: int, outputs: int) -> int:
    """Inputs along an axis that so many outputs see, with those beyond the edges."""
    return spread(outputs, shape.stride[axis]) + spread(shape.kernel[axis], shape.dilation[axis]) - 1


def _band(shape: ConvolutionShape, helpers: int, cache: int) -> int:
    """Rows of an item: as many as the cache holds, and few enough for everybody to have some items."""
    row = FLOAT * _reach(shape, 1, shape.sizes[1]) * shape.inputs
    fitting = [n for n in range(1, shape.sizes[0] + 1) if _reach(shape, 0, n) * row <= cache]
    share = -(-shape.batch * shape.sizes[0] // (4 * (helpers + 1)))
    return max(1, min(max(fitting, default=1), share))


def _work(shape: ConvolutionShape, rows: int, bands: int) -> str:
    image, answer = shape.bytes
    room = _reach(shape, 0, rows) * _reach(shape, 1, shape.sizes[1]) * shape.inputs
    begin = f"""
  %n = udiv i64 %item, {bands}
  %band = urem i64 %item, {bands}
  %first = mul i64 %band, {rows}
  %left = sub i64 {shape.sizes[0]}, %first
  %rows = call i64 @llvm.smin.i64(i64 %left, i64 {rows})
  %x.offset = mul i64 %n, {image}
  %x.n = getelementptr i8, ptr %x, i64 %x.offset
  %out.offset = mul i64 %n, {answer}
  %out.n = getelementptr i8, ptr %out, i64 %out.offset
  call void @fill(ptr %x.n, ptr %room, i64 %first, i64 %rows)
  call void @item(ptr %room, ptr %y, ptr %out.n, i64 %first, i64 %rows)"""
    declared = "declare i64 @llvm.smin.i64(i64, i64)\ndeclare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
    return f"{declared}\n{work(shape.batch * bands, ('x', 'y', 'out'), room, begin)}"


def _fill(shape: ConvolutionShape) -> str:
    """Copy the inputs that a band of outputs sees, with zeros beyond the edges."""
    (height, width), (above, before) = shape.space, shape.before
    pixel = FLOAT * shape.inputs
    reach = _reach(shape, 1, shape.sizes[1])
    start, end = min(max(0, before), reach), max(min(reach, width + before), 0)
    inside = max(end - start, 0)
    extra = spread(shape.kernel[0], shape.dilation[0]) - shape.stride[0]
    return f"""
define internal void @fill(ptr %x, ptr %copy, i64 %first, i64 %rows) {{
entry:
  %scaled = mul i64 %rows, {shape.stride[0]}
  %lines = add i64 %scaled, {extra}
  %top.scaled = mul i64 %first, {shape.stride[0]}
  %top = sub i64 %top.scaled, {above}
  br label %line

line:
  %q = phi i64 [ 0, %entry ], [ %q.next, %next ]
  %offset = mul i64 %q, {reach * pixel}
  %to = getelementptr i8, ptr %copy, i64 %offset
  %row = add i64 %top, %q
  %known = icmp ult i64 %row, {height}
  br i1 %known, label %some, label %none

none:
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 {reach * pixel}, i1 false)
  br label %next

some:
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 {start * pixel}, i1 false)
  %from.offset = mul i64 %row, {width * pixel}
  %line.start = getelementptr i8, ptr %x, i64 %from.offset
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


def _item(shape: ConvolutionShape, registers: Registers, tile: Tile) -> str:
    columns, outputs, inputs = shape.sizes[1], shape.outputs, shape.inputs
    loops = [
        ("o", str(outputs), tile.vectors * registers.lanes),
        ("r", "%rows", 1),
        ("c", str(columns), tile.pixels),
    ]
    body = f"""
  %column = call i64 @llvm.smin.i64(i64 %c, i64 {columns - tile.pixels})
  %line = mul i64 %r, {shape.stride[0] * _reach(shape, 1, columns)}
  %across = mul i64 %column, {shape.stride[1]}
  %pixel = add i64 %line, %across
  %x.entry = mul i64 %pixel, {inputs}
  %px = getelementptr float, ptr %copy, i64 %x.entry
  %w.entry = mul i64 %o, {shape.kernel[0] * shape.kernel[1] * inputs}
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


def _micro(shape: ConvolutionShape, registers: Registers, tile: Tile) -> str:
    """A tile of outputs: sums over the rows of the kernel and over its columns and inputs, which lie side by side."""
    vector = f"<{registers.lanes} x float>"
    held = [(p, v) for p in range(tile.pixels) for v in range(tile.vectors)]
    inputs, outputs = shape.inputs, shape.outputs
    reach = _reach(shape, 1, shape.sizes[1])
    dense = shape.dilation[1] == 1  # then columns and inputs are one loop
    levels = [("m", shape.kernel[0], shape.dilation[0] * reach * inputs)]
    if not dense:
        levels.append(("k", shape.kernel[1], shape.dilation[1] * inputs))
    levels.append(("i", inputs * (shape.kernel[1] if dense else 1), 1))
    lines = [
        f"declare {vector} @llvm.fma.v{registers.lanes}f32({vector}, {vector}, {vector})",
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
    lines += _input(shape, registers, tile)
    lines.append(f"  %w.after = getelementptr float, ptr %w.i, i64 {tile.vectors * registers.lanes}")
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
            f"  %p.{p}.{v} = getelementptr float, ptr %out, i64 {p * outputs + v * registers.lanes}",
            f"  store {vector} %sum.{p}.{v}, ptr %p.{p}.{v}, align 4",
        ]
    return "\n".join([*lines, "  ret void", "}"])


def _input(shape: ConvolutionShape, registers: Registers, tile: Tile) -> Iterator[str]:
    """One input of one entry of the kernel: its weights times that input of every pixel, added to the sums."""
    vector = f"<{registers.lanes} x float>"
    for v in range(tile.vectors):
        yield f"  %q.{v} = getelementptr float, ptr %w.i, i64 {v * registers.lanes}"
        yield f"  %w.{v} = load {vector}, ptr %q.{v}, align 4"
    for p in range(tile.pixels):
        yield f"  %r.{p} = getelementptr float, ptr %x.i, i64 {p * shape.stride[1] * shape.inputs}"
        yield f"  %s.{p} = load float, ptr %r.{p}, align 4"
        yield f"  %t.{p} = insertelement {vector} poison, float %s.{p}, i64 0"
        yield (
            f"  %x.{p} = shufflevector {vector} %t.{p}, {vector} poison, <{registers.lanes} x i32> zeroinitializer"
        )
        for v in range(tile.vectors):
            yield (
                f"  %sum.{p}.{v} = call {vector} @llvm.fma.v{registers.lanes}f32("
                f"{vector} %x.{p}, {vector} %w.{v}, {vector} %i.{p}.{v})"
            )


__all__ = ["ConvolutionShape", "Tile", "program"]
