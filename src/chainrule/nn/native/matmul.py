"""Matrix products and transposes as functions of an LLVM program, for operands that lie in a core's cache."""

from collections.abc import Iterator

from chainrule.nn.native.availability import Registers
from chainrule.nn.native.builder import Body, Vector

TILE = {32: 8, 16: 4}
"""Rows of a tile of sums, at most two vectors wide, by the number of registers."""


def square(name: str, registers: Registers, source: int, target: int) -> str:
    """Transpose as many rows as there are lanes: in each stage two rows exchange halves of their groups."""
    lanes = registers.lanes
    body = Body(registers)
    factors = body.load("%c")
    rows: list[Vector] = []
    for number in range(lanes):
        body.lines.append(f"  %a.{number} = getelementptr float, ptr %a, i64 {number * source}")
        rows.append(body.load(f"%a.{number}") * factors)
    half = lanes // 2
    while half:
        for number in range(lanes):
            if number & half:
                continue
            first, second = rows[number].name, rows[number + half].name
            chosen = [
                (
                    lane if not lane & half else lane - half + lanes,
                    lane + half if not lane & half else lane + lanes,
                )
                for lane in range(lanes)
            ]
            for index, which in ((number, 0), (number + half, 1)):
                mask = ", ".join(f"i32 {pair[which]}" for pair in chosen)
                rows[index] = body.write(
                    f"shufflevector {body.type} {first}, {body.type} {second}, <{lanes} x i32> <{mask}>"
                )
        half //= 2
    for number, row in enumerate(rows):
        body.lines.append(f"  %b.{number} = getelementptr float, ptr %b, i64 {number * target}")
        body.store(row, f"%b.{number}")
    head = f"define internal void @{name}(ptr %a, ptr %b, ptr %c) noinline {{\nentry:"
    return "\n".join([head, *body.lines, "  ret void", "}"])


def product(
    name: str, registers: Registers, *, row: int, term: int, across: int, out: int, vectors: int, add: bool
) -> str:
    """`out[i, :] = Σ_j a[i row + j term] b[j, :]`, or added to what is there, for `rows` of i and `terms` of j."""
    vector, lanes, tall = f"<{registers.lanes} x float>", registers.lanes, TILE[registers.number]
    tile = [(t, v) for t in range(tall) for v in range(vectors)]
    lines = [
        f"define internal void @{name}(ptr %a, ptr %b, ptr %out, i64 %rows, i64 %terms) noinline {{",
        "entry:",
        "  br label %row",
        "row:",
        "  %i = phi i64 [ 0, %entry ], [ %i.next, %full ]",
        f"  %a.offset = mul i64 %i, {row}",
        "  %a.row = getelementptr float, ptr %a, i64 %a.offset",
        f"  %out.offset = mul i64 %i, {out}",
        "  %out.row = getelementptr float, ptr %out, i64 %out.offset",
    ]
    for t, v in tile:
        lines.append(f"  %p.{t}.{v} = getelementptr float, ptr %out.row, i64 {t * out + v * lanes}")
        if add:
            lines.append(f"  %start.{t}.{v} = load {vector}, ptr %p.{t}.{v}, align 4")
    lines += [
        "  br label %term",
        "term:",
        "  %j = phi i64 [ 0, %row ], [ %j.next, %term ]",
        "  %a.term = phi ptr [ %a.row, %row ], [ %a.next, %term ]",
        "  %b.term = phi ptr [ %b, %row ], [ %b.next, %term ]",
    ]
    for t, v in tile:
        start = f"%start.{t}.{v}" if add else "zeroinitializer"
        lines.append(f"  %old.{t}.{v} = phi {vector} [ {start}, %row ], [ %sum.{t}.{v}, %term ]")
    lines += _term(vector, lanes, tall, vectors, row)
    lines += [
        f"  %a.next = getelementptr float, ptr %a.term, i64 {term}",
        f"  %b.next = getelementptr float, ptr %b.term, i64 {across}",
        "  %j.next = add i64 %j, 1",
        "  %more = icmp ult i64 %j.next, %terms",
        "  br i1 %more, label %term, label %full",
        "full:",
        *(f"  store {vector} %sum.{t}.{v}, ptr %p.{t}.{v}, align 4" for t, v in tile),
        f"  %i.next = add i64 %i, {tall}",
        "  %left = icmp ult i64 %i.next, %rows",
        "  br i1 %left, label %row, label %over",
        "over:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def _term(vector: str, lanes: int, tall: int, vectors: int, row: int) -> Iterator[str]:
    """One term of every sum of a tile."""
    for v in range(vectors):
        yield f"  %q.{v} = getelementptr float, ptr %b.term, i64 {v * lanes}"
        yield f"  %b.{v} = load {vector}, ptr %q.{v}, align 4"
    for t in range(tall):
        yield f"  %r.{t} = getelementptr float, ptr %a.term, i64 {t * row}"
        yield f"  %s.{t} = load float, ptr %r.{t}, align 4"
        yield f"  %e.{t} = insertelement {vector} poison, float %s.{t}, i64 0"
        yield f"  %a.{t} = shufflevector {vector} %e.{t}, {vector} poison, <{lanes} x i32> zeroinitializer"
        for v in range(vectors):
            given = f"{vector} %a.{t}, {vector} %b.{v}, {vector} %old.{t}.{v}"
            yield f"  %sum.{t}.{v} = call {vector} @llvm.fma.v{lanes}f32({given})"


__all__ = ["TILE", "product", "square"]
