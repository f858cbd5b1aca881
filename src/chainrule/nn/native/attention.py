"""The LLVM text of attention and of its gradients: see `chainrule.nn.attention.native`.

An item of work is one head of one example. Queries come in blocks that fill registers, and everything about a block has
one query in each lane: a softmax over keys is then arithmetic between vectors, and no table is larger than a block by
all keys. `scores` and `mix` multiply by keys or values and `spread` adds to each key what the queries give back, all
three tile by tile (`chainrule.nn.native.matmul`). Under a causal mask a block meets only the keys that some of its
queries see.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

from chainrule.nn.native.availability import Registers
from chainrule.nn.native.builder import Body, Vector, exp, nested
from chainrule.nn.native.ffi import handler
from chainrule.nn.native.matmul import TILE, product, square
from chainrule.nn.native.threads import FLOAT, NOTHING_TO_COLLECT, work


@final
class AttentionShape(NamedTuple):
    """One attention: everything its programs depend on. Arrays are (batch, time, heads, size)."""

    batch: int
    heads: int
    queries: int
    keys: int
    size: int
    causal: bool
    scale: float
    shown: int
    """The first so many keys count; what comes after them are zeros that fill the last tile."""

    @property
    def name(self) -> str:
        """All its numbers in a word."""
        return "_".join(map(str, [*self[:5], int(self.causal), self.scale.hex(), self.shown]))

    @property
    def row(self) -> int:
        """Numbers from one position of a head to the next."""
        return self.heads * self.size


def fits(shape: AttentionShape, registers: Registers) -> bool:
    """Whether queries, keys and entries fill registers and tiles.

    >>> given = AttentionShape(batch=2, heads=4, queries=64, keys=64, size=32, causal=True, scale=1.0, shown=64)
    >>> fits(given, Registers(16, 32)), fits(given._replace(size=6), Registers(16, 32))
    (True, False)
    """
    return (
        min(shape[:5]) > 0
        and shape.queries % registers.lanes == shape.size % registers.lanes == shape.keys % TILE[32] == 0
        and (shape.queries == shape.keys or not shape.causal)
    )


@final
class _Plan(NamedTuple):
    shape: AttentionShape
    registers: Registers

    @property
    def vectors(self) -> int:
        """Of queries in a block."""
        return 2 if self.shape.queries % (2 * self.registers.lanes) == 0 else 1

    @property
    def width(self) -> int:
        """Queries in a block."""
        return self.vectors * self.registers.lanes

    @property
    def table(self) -> int:
        """Numbers in a table of a block by all keys."""
        return self.shape.keys * self.width

    @property
    def columns(self) -> int:
        """Numbers in a block of queries."""
        return self.shape.size * self.width


def attention(shape: AttentionShape, registers: Registers, helpers: int) -> str:
    """Queries, keys and values to what is gathered, and (2, queries) numbers that bring each softmax back."""
    plan = _Plan(shape, registers)
    body = f"""
{_block(plan, queries=("q", "out"))}
{_squares(plan, "to_columns", "%q.row", "%columns", "@scale")}
  call void @scores(ptr %k, ptr %columns, ptr %table, i64 %count, i64 {shape.size})
  %level.row = getelementptr float, ptr %level, i64 %first
  call void @weigh(ptr %table, i64 %seen, i64 %first, ptr %level.row)
  call void @mix(ptr %v, ptr %table, ptr %columns, i64 {shape.size}, i64 %count)
  %inverse = getelementptr float, ptr %level.row, i64 {shape.queries}
{_squares(plan, "to_rows", "%columns", "%out.row", "%inverse")}"""
    buffers = {"columns": plan.columns, "table": plan.table}
    return "\n".join(
        [
            handler(shape.batch * shape.heads, helpers, arguments=3, results=2),
            *_common(plan),
            _work(plan, ("q", "k", "v", "out", "level"), buffers),
            _item(plan, ("q", "k", "v", "out", "level"), buffers, "", body),
            _weigh(plan),
        ]
    )


def gradients(shape: AttentionShape, registers: Registers, helpers: int) -> str:
    """Queries, keys, values, those numbers and the cotangent of what was gathered to the three gradients."""
    plan = _Plan(shape, registers)
    wide = 2 if shape.size % (2 * registers.lanes) == 0 else 1
    begin = nested(
        [("zero", str(shape.keys), 1)],
        f"""
  %z = mul i64 %zero, {shape.row}
  %dk.z = getelementptr float, ptr %dk, i64 %z
  %dv.z = getelementptr float, ptr %dv, i64 %z
  call void @llvm.memset.p0.i64(ptr %dk.z, i8 0, i64 {FLOAT * shape.size}, i1 false)
  call void @llvm.memset.p0.i64(ptr %dv.z, i8 0, i64 {FLOAT * shape.size}, i1 false)""",
    )
    body = f"""
{_block(plan, queries=("q", "dout", "dq"))}
{_squares(plan, "to_columns", "%q.row", "%columns", "@scale")}
{_squares(plan, "to_columns", "%dout.row", "%others", "@one")}
  call void @scores(ptr %k, ptr %columns, ptr %table, i64 %count, i64 {shape.size})
  call void @scores(ptr %v, ptr %others, ptr %slopes, i64 %count, i64 {shape.size})
  %level.row = getelementptr float, ptr %level, i64 %first
  call void @weigh_back(ptr %table, ptr %slopes, i64 %seen, i64 %first, ptr %level.row)
{_spreads(plan, wide, "%table", "%dout.row", "%dv")}
{_spreads(plan, wide, "%slopes", "%q.row", "%dk")}
  call void @mix(ptr %k, ptr %slopes, ptr %columns, i64 {shape.size}, i64 %count)
{_squares(plan, "to_rows", "%columns", "%dq.row", "@one")}"""
    names = ("q", "k", "v", "level", "dout", "dq", "dk", "dv")
    buffers = {"columns": plan.columns, "others": plan.columns, "table": plan.table, "slopes": plan.table}
    return "\n".join(
        [
            handler(shape.batch * shape.heads, helpers, arguments=5, results=3),
            *_common(plan),
            product(
                "spread",
                registers,
                row=plan.width,
                term=1,
                across=shape.row,
                out=shape.row,
                vectors=wide,
                add=True,
            ),
            _work(plan, names, buffers),
            _item(plan, names, buffers, begin, body),
            _weigh_back(plan),
        ]
    )


# ---------------------------------------------------------------------- the frame


def _common(plan: _Plan) -> Iterator[str]:
    shape, registers = plan.shape, plan.registers
    number = Body(registers).number
    vector = f"<{registers.lanes} x float>"
    yield NOTHING_TO_COLLECT
    yield f"declare {vector} @llvm.fma.v{registers.lanes}f32({vector}, {vector}, {vector})"
    yield f"@one = internal constant {vector} {number(1.0)}"
    yield f"@scale = internal constant {vector} {number(shape.scale)}"
    yield square("to_columns", registers, shape.row, plan.width)
    yield square("to_rows", registers, plan.width, shape.row)
    block = {"across": plan.width, "out": plan.width, "vectors": plan.vectors, "add": False}
    yield product("scores", registers, row=shape.row, term=1, **block)  # type: ignore[arg-type]
    yield product("mix", registers, row=1, term=shape.row, **block)  # type: ignore[arg-type]


def _work(plan: _Plan, names: Sequence[str], buffers: dict[str, int]) -> str:
    shape = plan.shape
    lines = [
        f"  %n = udiv i64 %item, {shape.heads}",
        f"  %h = urem i64 %item, {shape.heads}",
        f"  %entry.h = mul i64 %h, {shape.size}",
    ]
    for name in names:
        if name == "level":
            lines.append(f"  %level.offset = mul i64 %item, {2 * shape.queries}")
        else:
            time = shape.keys if name in ("k", "v", "dk", "dv") else shape.queries
            lines.append(f"  %{name}.example = mul i64 %n, {time * shape.row}")
            lines.append(f"  %{name}.offset = add i64 %{name}.example, %entry.h")
        lines.append(f"  %{name}.h = getelementptr float, ptr %{name}, i64 %{name}.offset")
    given = ", ".join(f"ptr %{name}.h" for name in names)
    lines.append(f"  call void @item({given}, ptr %room)")
    return work(shape.batch * shape.heads, names, sum(buffers.values()), "\n".join(lines))


def _item(plan: _Plan, names: Sequence[str], buffers: dict[str, int], begin: str, body: str) -> str:
    """One head: `begin`, then the body for every block of queries."""
    pointers, start = [], 0
    for name, size in buffers.items():
        pointers.append(f"  %{name} = getelementptr float, ptr %room, i64 {start}")
        start += size
    given = ", ".join(f"ptr %{name}" for name in names)
    before = "zero" if begin else "first"
    between = "  br label %entry.blocks\nentry.blocks:\n  br label %first.head" if begin else ""
    blocks = nested([("first", str(plan.shape.queries), plan.width)], body)
    if begin:
        blocks = blocks.replace("[ 0, %entry ]", "[ 0, %entry.blocks ]", 1)
    return "\n".join(
        [
            f"define internal void @item({given}, ptr %room) {{",
            "entry:",
            *pointers,
            f"  br label %{before}.head",
            begin,
            between,
            blocks,
            "  ret void",
            "}",
        ]
    )


def _block(plan: _Plan, queries: Sequence[str]) -> str:
    """Where a block of queries lies, and how many keys it meets: those after the ones it sees add nothing, being 0."""
    lines = [f"  %row = mul i64 %first, {plan.shape.row}"]
    for name, keys in (("count", plan.shape.keys), ("seen", plan.shape.shown)):
        lines.append(
            f"  %{name} = add i64 " + (f"%first, {plan.width}" if plan.shape.causal else f"{keys}, 0")
        )
    lines += [f"  %{name}.row = getelementptr float, ptr %{name}, i64 %row" for name in queries]
    return "\n".join(lines)


def _squares(plan: _Plan, function: str, source: str, target: str, factor: str) -> str:
    """Transpose a block: rows of queries, entries side by side, to columns or back, times a vector of factors."""
    lanes, row, width = plan.registers.lanes, plan.shape.row, plan.width
    lines = []
    for part in range(plan.vectors):
        for first in range(0, plan.shape.size, lanes):
            rows, columns = part * lanes * row + first, first * width + part * lanes
            start, end = (rows, columns) if function == "to_columns" else (columns, rows)
            label = f"{function}.{source}.{part}.{first}".replace("%", "")
            shift = part * lanes if factor == "%inverse" else 0
            lines += [
                f"  %a.{label} = getelementptr float, ptr {source}, i64 {start}",
                f"  %b.{label} = getelementptr float, ptr {target}, i64 {end}",
                f"  %c.{label} = getelementptr float, ptr {factor}, i64 {shift}",
                f"  call void @{function}(ptr %a.{label}, ptr %b.{label}, ptr %c.{label})",
            ]
    return "\n".join(lines)


def _spreads(plan: _Plan, wide: int, weights: str, rows: str, sums: str) -> str:
    lines = []
    for first in range(0, plan.shape.size, wide * plan.registers.lanes):
        label = f"{sums}.{first}".replace("%", "")
        lines += [
            f"  %r.{label} = getelementptr float, ptr {rows}, i64 {first}",
            f"  %s.{label} = getelementptr float, ptr {sums}, i64 {first}",
            f"  call void @spread(ptr {weights}, ptr %r.{label}, ptr %s.{label}, i64 %count, i64 {plan.width})",
        ]
    return "\n".join(lines)


# ---------------------------------------------------------------------- the arithmetic


def _weigh(plan: _Plan) -> str:
    """Scores to powers, in place; the largest score and one over the sum of powers to `level`."""
    body = Body(plan.registers)
    lines, kind, lanes = body.lines, body.type, body.lanes
    parts = range(plan.vectors)
    least = body.number(float("-inf"))
    lines += ["entry:", "  br label %first"]
    _over_keys(plan, body, "first", "entry", {f"top.{v}": least for v in parts})
    for v, (score, seen) in enumerate(_entries(plan, body, "first", "%table")):
        if seen is not None:
            score = body.write(f"select <{lanes} x i1> {seen}, {kind} {score.name}, {kind} {least}")
        larger = body.write(f"fcmp ogt {kind} {score.name}, %top.{v}")
        lines.append(
            f"  %top.{v}.next = select <{lanes} x i1> {larger.name}, {kind} {score.name}, {kind} %top.{v}"
        )
    _again(body, "first", "second")
    _over_keys(plan, body, "second", "first", {f"sum.{v}": body.number(0.0) for v in parts})
    for v, (score, seen) in enumerate(_entries(plan, body, "second", "%table")):
        power = exp(score - Vector(body, f"%top.{v}.next"))
        if seen is not None:
            power = body.write(f"select <{lanes} x i1> {seen}, {kind} {power.name}, {kind} zeroinitializer")
        body.store(power, f"%second.p.{v}")
        lines.append(f"  %sum.{v}.next = fadd {kind} %sum.{v}, {power.name}")
    _again(body, "second", "over")
    for v in parts:
        for name, value, at in (
            ("top", Vector(body, f"%top.{v}.next"), v * lanes),
            ("inverse", 1.0 / Vector(body, f"%sum.{v}.next"), plan.shape.queries + v * lanes),
        ):
            lines.append(f"  %p.{name}.{v} = getelementptr float, ptr %level, i64 {at}")
            body.store(value, f"%p.{name}.{v}")
    head = "define internal void @weigh(ptr %table, i64 %count, i64 %start, ptr %level) noinline {"
    return "\n".join([head, *lines, "  ret void", "}"])


def _weigh_back(plan: _Plan) -> str:
    """Scores to weights p; slopes g, by weight, to slopes by score, `scale p (g - Σ p g)`; both in place."""
    body = Body(plan.registers)
    lines, kind, lanes = body.lines, body.type, body.lanes
    lines.append("entry:")
    levels = []
    for v in range(plan.vectors):
        for name, at in (("top", v * lanes), ("inverse", plan.shape.queries + v * lanes)):
            lines.append(f"  %p.{name}.{v} = getelementptr float, ptr %level, i64 {at}")
            levels.append(body.load(f"%p.{name}.{v}"))
    lines.append("  br label %first")
    _over_keys(plan, body, "first", "entry", {f"sum.{v}": body.number(0.0) for v in range(plan.vectors)})
    slopes = [slope for slope, _ in _entries(plan, body, "first", "%slopes", "slope")]
    for v, (score, seen) in enumerate(_entries(plan, body, "first", "%table")):
        weight = exp(score - levels[2 * v]) * levels[2 * v + 1]
        if seen is not None:
            weight = body.write(f"select <{lanes} x i1> {seen}, {kind} {weight.name}, {kind} zeroinitializer")
        body.store(weight, f"%first.p.{v}")
        product = weight * slopes[v]
        lines.append(f"  %sum.{v}.next = fadd {kind} %sum.{v}, {product.name}")
    _again(body, "first", "second")
    _over_keys(plan, body, "second", "first", {})
    slopes = [slope for slope, _ in _entries(plan, body, "second", "%slopes", "slope")]
    for v, (weight, _) in enumerate(_entries(plan, body, "second", "%table")):
        mean = Vector(body, f"%sum.{v}.next")
        body.store(weight * (slopes[v] - mean) * plan.shape.scale, f"%second.slope.{v}")
    _again(body, "second", "over")
    head = "define internal void @weigh_back(ptr %table, ptr %slopes, i64 %count, i64 %start, ptr %level) noinline {"
    return "\n".join([head, *lines, "  ret void", "}"])


def _over_keys(plan: _Plan, body: Body, name: str, before: str, carried: dict[str, str]) -> None:
    """The head of a loop over keys, with vectors that it carries along."""
    body.lines += [f"{name}:", f"  %{name}.key = phi i64 [ 0, %{before} ], [ %{name}.next, %{name} ]"]
    for what, start in carried.items():
        body.lines.append(f"  %{what} = phi {body.type} [ {start}, %{before} ], [ %{what}.next, %{name} ]")
    body.lines.append(f"  %{name}.offset = mul i64 %{name}.key, {plan.width}")


def _entries(
    plan: _Plan, body: Body, loop: str, table: str, label: str = "p"
) -> list[tuple[Vector, str | None]]:
    """For each vector of queries the entry of the table, and under a causal mask whether they see the key."""
    found: list[tuple[Vector, str | None]] = []
    lanes = body.lanes
    for v in range(plan.vectors):
        pointer = f"%{loop}.{label}.{v}"
        body.lines.append(f"  %{loop}.{label}.at.{v} = add i64 %{loop}.offset, {v * lanes}")
        body.lines.append(f"  {pointer} = getelementptr float, ptr {table}, i64 %{loop}.{label}.at.{v}")
        entry, seen = body.load(pointer), None
        if plan.shape.causal and label == "p":
            integers = f"<{lanes} x i32>"
            ahead = body.write(f"sub i64 %{loop}.key, %start")
            short = body.write(f"trunc i64 {ahead.name} to i32")
            one = body.write(f"insertelement {integers} poison, i32 {short.name}, i64 0")
            all_ = body.write(
                f"shufflevector {integers} {one.name}, {integers} poison, {integers} zeroinitializer"
            )
            own = "<" + ", ".join(f"i32 {v * lanes + lane}" for lane in range(lanes)) + ">"
            seen = body.write(f"icmp sle {integers} {all_.name}, {own}").name
        found.append((entry, seen))
    return found


def _again(body: Body, name: str, after: str) -> None:
    """The end of a loop over keys."""
    body.lines += [
        f"  %{name}.next = add i64 %{name}.key, 1",
        f"  %{name}.more = icmp ult i64 %{name}.next, %count",
        f"  br i1 %{name}.more, label %{name}, label %{after}",
    ]
    if after == "over":
        body.lines.append("over:")


__all__ = ["AttentionShape", "attention", "fits", "gradients"]
