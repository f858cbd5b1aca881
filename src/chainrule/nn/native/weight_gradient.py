"""The LLVM text of a weight gradient: see `chainrule.nn.convolution.native`.

`work` takes one share of the batch after the other, each with sums of its own, so the result does not depend on who
took which. `examples` goes through bands of rows, entries of the kernel and blocks of channels. `micro` holds a block
of sums in registers while pixels stream by: one fused multiply-add per sum and pixel.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

from chainrule.nn.native.availability import Registers
from chainrule.nn.native.builder import nested
from chainrule.nn.native.convolution import ConvolutionShape
from chainrule.nn.native.ffi import handler
from chainrule.nn.native.threads import FLOAT, take, work


@final
class GradientTile(NamedTuple):
    """The sums that are held in registers at a time: `inputs x vectors` vectors of outputs."""

    inputs: int
    vectors: int

    @classmethod
    def of(cls, inputs: int, outputs: int, registers: Registers) -> "GradientTile | None":
        """The block for so many channels; `None` where outputs do not fill registers.

        >>> registers = Registers(16, 32)
        >>> GradientTile.of(16, 16, registers), GradientTile.of(64, 128, registers), GradientTile.of(64, 10, registers)
        (GradientTile(inputs=16, vectors=1), GradientTile(inputs=8, vectors=2), None)
        """
        if outputs % registers.lanes:
            return None
        vectors = 2 if outputs % (2 * registers.lanes) == 0 else 1
        most = (registers.number - vectors - 1) // vectors
        return cls(max(n for n in range(1, most + 1) if inputs % n == 0), vectors)


def program(
    shape: ConvolutionShape, registers: Registers, tile: GradientTile, shares: int, helpers: int, cache: int
) -> str:
    """The text of the whole program: the batch in so many shares, summed by the caller and so many other threads."""
    sums = shape.kernel[0] * shape.kernel[1] * shape.inputs * shape.outputs
    parts = [
        handler(shares, helpers, arguments=2, results=2),
        _collect(registers, sums, shares),
        _work(shape, sums, shares, cache),
        *(_table(f"{axis}_{end}", bounds) for axis, end, bounds in _ranges(shape)),
        _examples(shape, registers, tile, cache),
        _micro(shape, registers, tile),
    ]
    return "\n".join(parts)


def _work(shape: ConvolutionShape, sums: int, shares: int, cache: int) -> str:
    image, answer = shape.bytes
    begin = f"""
  %number = sub i64 %item, 1
  %offset = mul i64 %number, {FLOAT * sums}
  %other = getelementptr i8, ptr %rest, i64 %offset
  %first = icmp eq i64 %item, 0
  %own = select i1 %first, ptr %out, ptr %other
  call void @llvm.memset.p0.i64(ptr %own, i8 0, i64 {FLOAT * sums}, i1 false)
  %scaled = mul i64 %item, {shape.batch}
  %from = udiv i64 %scaled, {shares}
  %after = add i64 %scaled, {shape.batch}
  %until = udiv i64 %after, {shares}
  br label %each

each:
  %n = phi i64 [ %from, %begin ], [ %n.next, %each ]
  %x.offset = mul i64 %n, {image}
  %x.n = getelementptr i8, ptr %x, i64 %x.offset
  %y.offset = mul i64 %n, {answer}
  %y.n = getelementptr i8, ptr %y, i64 %y.offset
  %left = sub i64 %until, %n
  %count = call i64 @llvm.smin.i64(i64 %left, i64 {_together(shape, cache)})
  call void @examples(ptr %x.n, ptr %y.n, ptr %own, i64 %count)
  %n.next = add i64 %n, %count
  %more = icmp ult i64 %n.next, %until
  br i1 %more, label %each, label %finish

finish:"""
    return work(shares, ("x", "y", "out", "rest"), 0, begin)


def _collect(registers: Registers, sums: int, shares: int) -> str:
    """The sums of the first share become those of all, in the same order whichever thread computed them."""
    vector = f"<{registers.lanes} x float>"
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
        f"  %k.next = add i64 %k, {registers.lanes}",
        f"  %more = icmp ult i64 %k.next, {sums}",
        "  br i1 %more, label %next, label %over",
        "over:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def _together(shape: ConvolutionShape, cache: int) -> int:
    """Examples that fit into the cache."""
    return max(1, cache // sum(shape.bytes))


def _ranges(shape: ConvolutionShape) -> Iterator[tuple[str, str, list[int]]]:
    """For each entry of the kernel along an axis, the outputs from and until which it meets the input."""
    for axis, name in enumerate(("row", "column")):
        size, n, stride = shape.sizes[axis], shape.space[axis], shape.stride[axis]
        offsets = [entry * shape.dilation[axis] - shape.before[axis] for entry in range(shape.kernel[axis])]
        first = [max(0, -(offset // stride)) for offset in offsets]
        yield name, "from", first
        last = [min(size, (n - 1 - offset) // stride + 1) for offset in offsets]
        yield name, "until", [max(low, high) for low, high in zip(first, last, strict=True)]


def _table(name: str, values: Sequence[int]) -> str:
    entries = ", ".join(f"i64 {value}" for value in values)
    return f"@{name} = internal constant [{len(values)} x i64] [{entries}]"


def _examples(shape: ConvolutionShape, registers: Registers, tile: GradientTile, cache: int) -> str:
    (rows, columns), (_, width) = shape.sizes, shape.space
    inputs, outputs = shape.inputs, shape.outputs
    per_row = FLOAT * (columns * outputs + shape.stride[0] * width * inputs)
    band = max(1, min(rows, cache // per_row))
    loops = [
        ("band", str(rows), band),
        ("m", str(shape.kernel[0]), 1),
        ("k", str(shape.kernel[1]), 1),
        ("o", str(outputs), tile.vectors * registers.lanes),
        ("i", str(inputs), tile.inputs),
    ]

    return f"""
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)

define internal void @examples(ptr %x, ptr %y, ptr %out, i64 %examples) {{
entry:
  br label %{loops[0][0]}.head
{nested(loops, _entry(shape, band))}
  ret void
}}
"""


def _entry(shape: ConvolutionShape, band: int) -> str:
    """One entry (m, k) of the kernel and one block of channels (o, i) over a band of rows."""
    inputs, outputs = shape.inputs, shape.outputs
    width, columns = shape.space[1], shape.sizes[1]
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
  %row.scaled = mul i64 %first, {shape.stride[0]}
  %row.offset = mul i64 %m, {shape.dilation[0]}
  %row.sum = add i64 %row.scaled, %row.offset
  %row = sub i64 %row.sum, {shape.before[0]}
  %column.scaled = mul i64 %column.from, {shape.stride[1]}
  %column.offset = mul i64 %k, {shape.dilation[1]}
  %column.sum = add i64 %column.scaled, %column.offset
  %column = sub i64 %column.sum, {shape.before[1]}
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
  %w.line = mul i64 %m, {shape.kernel[1]}
  %w.offset = add i64 %w.line, %k
  %w.inputs = mul i64 %w.offset, {inputs}
  %w.input = add i64 %w.inputs, %i
  %w.outputs = mul i64 %w.input, {outputs}
  %w.entry = add i64 %w.outputs, %o
  %po = getelementptr float, ptr %out, i64 %w.entry
  call void @micro(ptr %px, ptr %pd, ptr %po, i64 %examples, i64 %count, i64 %columns)
  br label %next
next:"""


def _micro(shape: ConvolutionShape, registers: Registers, tile: GradientTile) -> str:
    """Sums over examples, rows and columns of one block of channels for one entry of the kernel."""
    vector = f"<{registers.lanes} x float>"
    held = [(t, v) for t in range(tile.inputs) for v in range(tile.vectors)]
    (height, width), (rows, columns) = shape.space, shape.sizes
    inputs, outputs = shape.inputs, shape.outputs
    levels = [  # from the outside in: how far the input and the cotangent move with each turn
        ("example", height * width * inputs, rows * columns * outputs),
        ("row", shape.stride[0] * width * inputs, columns * outputs),
        ("column", shape.stride[1] * inputs, outputs),
    ]
    lines = [
        f"declare {vector} @llvm.fma.v{registers.lanes}f32({vector}, {vector}, {vector})",
        "define internal void @micro(ptr %x.entry, ptr %y.entry, ptr %out, i64 %examples, i64 %rows, i64 %columns)"
        " noinline {",
        "entry:",
    ]
    for t, v in held:
        lines += [
            f"  %p.{t}.{v} = getelementptr float, ptr %out, i64 {t * outputs + v * registers.lanes}",
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
                for t, v in held
            ),
        ]
        outside = name
    lines += _pixel(vector, registers, tile)
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
    lines += [f"  store {vector} %sum.{t}.{v}, ptr %p.{t}.{v}, align 4" for t, v in held]
    return "\n".join([*lines, "  ret void", "}"])


def _pixel(vector: str, registers: Registers, tile: GradientTile) -> Iterator[str]:
    """One pixel: vectors of outputs times each input, added to the sums."""
    for v in range(tile.vectors):
        yield f"  %q.{v} = getelementptr float, ptr %y.column, i64 {v * registers.lanes}"
        yield f"  %y.{v} = load {vector}, ptr %q.{v}, align 4"
    for t in range(tile.inputs):
        yield f"  %r.{t} = getelementptr float, ptr %x.column, i64 {t}"
        yield f"  %s.{t} = load float, ptr %r.{t}, align 4"
        yield f"  %i.{t} = insertelement {vector} poison, float %s.{t}, i64 0"
        yield (
            f"  %x.{t} = shufflevector {vector} %i.{t}, {vector} poison, <{registers.lanes} x i32> zeroinitializer"
        )
        for v in range(tile.vectors):
            yield (
                f"  %sum.{t}.{v} = call {vector} @llvm.fma.v{registers.lanes}f32("
                f"{vector} %x.{t}, {vector} %y.{v}, {vector} %column.{t}.{v})"
            )


__all__ = ["GradientTile", "program"]
