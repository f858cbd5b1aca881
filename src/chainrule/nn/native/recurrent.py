"""The LLVM text of a recurrent layer over all its steps: see `chainrule.nn.recurrent.native`.

`work` takes some sequences at a time. `through` takes them through all steps, from the first or from the last. A step
is `product`, which holds a tile of sums in registers, and `units`, the formulas of a cell. A forward step does one
after the other for some units at a time, so that the sums are still in the nearest cache; a backward step needs what
all units give before the product.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

from chainrule.nn.native.availability import Registers
from chainrule.nn.native.builder import Body, nested, sigmoid, tanh
from chainrule.nn.native.ffi import handler
from chainrule.nn.native.threads import FLOAT, NOTHING_TO_COLLECT, take, work
from chainrule.nn.recurrent.units import Functions, UnitByUnit

_ENOUGH = 16
"""So many sums at a time keep the arithmetic busy."""


@final
class RecurrentPlan(NamedTuple):
    """Sizes, and how many sequences and vectors of units are held in registers at a time."""

    time: int
    batch: int
    hidden: int
    gates: int
    rows: int
    vectors: int
    lanes: int

    @classmethod
    def of(
        cls, time: int, batch: int, hidden: int, gates: int, registers: Registers, threads: int
    ) -> "RecurrentPlan":
        """The plan for units that fill registers: as many items for each thread, as evenly as possible.

        >>> registers = Registers(16, 32)
        >>> [RecurrentPlan.of(64, batch, 128, 4, registers, 2)[-3:] for batch in (32, 1)]
        [(8, 2, 16), (1, 8, 16)]
        """
        most = (registers.number - 3) // 2
        turns = -(-batch // (most * threads))
        rows = -(-batch // (turns * threads))
        whole = hidden // registers.lanes
        fitting = [v for v in (1, 2, 4, 8) if whole % v == 0 and (rows + 1) * v < registers.number]
        enough = [v for v in fitting if rows * v >= _ENOUGH]
        return cls(time, batch, hidden, gates, rows, enough[0] if enough else fitting[-1], registers.lanes)

    @property
    def width(self) -> int:
        """Units whose sums are held in registers at a time."""
        return self.vectors * self.lanes

    @property
    def all_gates(self) -> int:
        """Entries of all gates."""
        return self.gates * self.hidden

    @property
    def items(self) -> int:
        """Items of work."""
        return -(-self.batch // self.rows)


def forward(cell: UnitByUnit, plan: RecurrentPlan, registers: Registers, keep: bool, helpers: int) -> str:
    """From weights, bias, the input's part of all gates and states to outputs, other last states and, kept, slopes."""
    others = range(1, len(cell.states))
    arguments = ["weight", "bias", "inward", *(f"state.{n}" for n in range(len(cell.states)))]
    results = ["outputs", *(f"last.{n}" for n in others)]
    results += [f"slope.{n}" for n in range(len(cell.slopes))] if keep else []
    found = take(*arguments, *results)
    begin = [line for n in others for line in _copy(plan, f"state.{n}", f"last.{n}")]
    panel = plan.hidden * plan.width
    calls = [
        line
        for gate in range(plan.gates)
        for line in (
            *_at(f"w.{gate}", "%weight", ("%u", plan.gates * plan.hidden), offset=gate * panel),
            *_at(f"b.{gate}", "%bias", ("%u", 1), offset=gate * plan.hidden),
            *_at(f"sums.{gate}", "%room", offset=gate * plan.width),
            f"  call void %product(ptr %h, ptr %w.{gate}, ptr %b.{gate}, ptr %sums.{gate})",
        )
    ]
    step = [
        "  %start = icmp eq i64 %t, 0",
        "  %before = sub i64 %t, 1",
        *_at("h.first", "%state.0", ("%first", plan.hidden)),
        *_at("h.later", "%outputs", ("%before", plan.batch * plan.hidden), ("%first", plan.hidden)),
        "  %h = select i1 %start, ptr %h.first, ptr %h.later",
        "  br label %u.head",
        nested(
            [("u", str(plan.hidden), plan.width)],
            "\n".join([*calls, f"  call void @units({_ARGUMENTS}, ptr %h, i64 %u)"]),
        ),
    ]
    return "\n".join(
        [
            handler(plan.items, helpers, len(arguments), len(results)),
            NOTHING_TO_COLLECT,
            _work(plan, plan.rows * plan.gates * plan.width),
            _through(plan, found, begin, backward=False),
            _function("step", _PARAMETERS, found, step),
            _forward_units(cell, plan, registers, keep, found),
            *_products(plan, registers, plan.hidden, plan.hidden, 0, plan.gates * plan.width),
        ]
    )


def backward(cell: UnitByUnit, plan: RecurrentPlan, registers: Registers, helpers: int) -> str:
    """From transposed weights, slopes and the cotangents of outputs and last states to those of inputs and first."""
    count = range(len(cell.states))
    arguments = ["weight", *(f"slope.{n}" for n in range(len(cell.slopes))), "outputs"]
    arguments += [f"last.{n}" for n in count]
    results = ["inward", *(f"state.{n}" for n in count)]
    found = take(*arguments, *results)
    begin = [line for n in count for line in _copy(plan, f"last.{n}", f"state.{n}")]
    product = [
        *_at("w", "%weight", ("%u", plan.all_gates)),
        *_at("sums", "%state.0", ("%first", plan.hidden), ("%u", 1)),
        "  call void %product(ptr %room, ptr %w, ptr %sums, ptr %sums)",
    ]
    step = [
        f"  call void @units({_ARGUMENTS}, ptr null, i64 0)",
        "  br label %u.head",
        nested([("u", str(plan.hidden), plan.width)], "\n".join(product)),
    ]
    return "\n".join(
        [
            handler(plan.items, helpers, len(arguments), len(results)),
            NOTHING_TO_COLLECT,
            _work(plan, plan.rows * plan.all_gates),
            _through(plan, found, begin, backward=True),
            _function("step", _PARAMETERS, found, step),
            _backward_units(cell, plan, registers, found),
            *_products(plan, registers, plan.all_gates, plan.all_gates, plan.hidden, plan.hidden),
        ]
    )


_PARAMETERS = "ptr %shared, ptr %room, ptr %product, i64 %first, i64 %rows, i64 %t"
_ARGUMENTS = _PARAMETERS
"""They keep their names from function to function."""


def _function(name: str, parameters: str, found: str, lines: Sequence[str]) -> str:
    return "\n".join([f"define internal void @{name}({parameters}) {{", found, *lines, "  ret void", "}"])


def _at(name: str, base: str, *terms: tuple[str, int], offset: int = 0) -> Iterator[str]:
    """A pointer so many numbers after another: counters times strides, and an offset."""
    total = str(offset)
    for number, (counter, stride) in enumerate(terms):
        yield f"  %{name}.scaled.{number} = mul i64 {counter}, {stride}"
        yield f"  %{name}.offset.{number} = add i64 {total}, %{name}.scaled.{number}"
        total = f"%{name}.offset.{number}"
    yield f"  %{name} = getelementptr float, ptr {base}, i64 {total}"


def _copy(plan: RecurrentPlan, source: str, target: str) -> Iterator[str]:
    """The item's rows of a (batch, hidden) array."""
    yield from _at(f"from.{source}", f"%{source}", ("%first", plan.hidden))
    yield from _at(f"to.{target}", f"%{target}", ("%first", plan.hidden))
    yield f"  %bytes.{source} = mul i64 %rows, {FLOAT * plan.hidden}"
    yield (
        f"  call void @llvm.memcpy.p0.p0.i64(ptr %to.{target}, ptr %from.{source}, i64 %bytes.{source}, i1 false)"
    )


def _work(plan: RecurrentPlan, room: int) -> str:
    rest = plan.batch - plan.rows * (plan.items - 1)
    begin = f"""
  %first = mul i64 %item, {plan.rows}
  %last = icmp eq i64 %item, {plan.items - 1}
  %rows = select i1 %last, i64 {rest}, i64 {plan.rows}
  %product = select i1 %last, ptr @product_{rest}, ptr @product_{plan.rows}
  call void @through(ptr %shared, ptr %room, ptr %product, i64 %first, i64 %rows)"""
    copying = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
    return f"{copying}\n{work(plan.items, (), room, begin)}"


def _through(plan: RecurrentPlan, found: str, begin: Sequence[str], backward: bool) -> str:
    lines = [
        *begin,
        "  br label %turn.head",
        nested(
            [("turn", str(plan.time), 1)],
            f"  %t = {f'sub i64 {plan.time - 1}, %turn' if backward else 'add i64 0, %turn'}\n"
            f"  call void @step({_ARGUMENTS})",
        ),
    ]
    return _function("through", _PARAMETERS.removesuffix(", i64 %t"), found, lines)


def _forward_units(
    cell: UnitByUnit, plan: RecurrentPlan, registers: Registers, keep: bool, found: str
) -> str:
    """The formulas for `width` units from `u` of all rows."""
    body = Body(registers)

    def pointer(name: str, base: str, *terms: tuple[str, int], offset: int = 0) -> str:
        body.lines.extend(_at(name, base, *terms, offset=offset))
        return f"%{name}"

    line = (("%line", plan.hidden), ("%unit", 1))
    inward = tuple(
        body.load(
            pointer(f"in.{g}", "%inward", ("%line", plan.all_gates), ("%unit", 1), offset=g * plan.hidden)
        )
        for g in range(plan.gates)
    )
    feedback = tuple(
        body.load(
            pointer(f"of.{g}", "%room", ("%r", plan.gates * plan.width), ("%w", 1), offset=g * plan.width)
        )
        for g in range(plan.gates)
    )
    h = body.load(pointer("h.unit", "%h", ("%r", plan.hidden), ("%unit", 1)))
    pointers = [
        pointer(f"last.unit.{n}", f"%last.{n}", ("%row", plan.hidden), ("%unit", 1))
        for n in range(1, len(cell.states))
    ]
    states = (h, *map(body.load, pointers))
    after, slopes = cell.units(Functions(sigmoid, tanh), inward, feedback, states)
    body.store(after[0], pointer("out.unit", "%outputs", *line))
    for value, address in zip(after[1:], pointers, strict=True):
        body.store(value, address)
    for n, value in enumerate(slopes if keep else ()):
        body.store(value, pointer(f"slope.unit.{n}", f"%slope.{n}", *line))
    return _over_units(plan, registers, found, body, plan.width)


def _backward_units(cell: UnitByUnit, plan: RecurrentPlan, registers: Registers, found: str) -> str:
    """The formulas for all units of all rows."""
    body = Body(registers)

    def pointer(name: str, base: str, *terms: tuple[str, int], offset: int = 0) -> str:
        body.lines.extend(_at(name, base, *terms, offset=offset))
        return f"%{name}"

    line, row = ((("%line", plan.hidden), ("%unit", 1)), (("%row", plan.hidden), ("%unit", 1)))
    pointers = [pointer(f"state.unit.{n}", f"%state.{n}", *row) for n in range(len(cell.states))]
    h, *others = map(body.load, pointers)
    out = body.load(pointer("out.unit", "%outputs", *line))
    slopes = tuple(
        body.load(pointer(f"slope.unit.{n}", f"%slope.{n}", *line)) for n in range(len(cell.slopes))
    )
    inward, feedback, before = cell.adjoint(slopes, (h + out, *others))
    for g, value in enumerate(inward):
        address = pointer(
            f"in.{g}", "%inward", ("%line", plan.all_gates), ("%unit", 1), offset=g * plan.hidden
        )
        body.store(value, address)
    for g, value in enumerate(feedback):
        address = pointer(f"of.{g}", "%room", ("%r", plan.all_gates), ("%unit", 1), offset=g * plan.hidden)
        body.store(value, address)
    for value, address in zip(before, pointers, strict=True):
        body.store(value, address)
    return _over_units(plan, registers, found, body, plan.hidden)


def _over_units(plan: RecurrentPlan, registers: Registers, found: str, body: Body, units: int) -> str:
    start = [
        "  %row = add i64 %first, %r",
        "  %unit = add i64 %u, %w",
        f"  %steps = mul i64 %t, {plan.batch}",
        "  %line = add i64 %steps, %row",
    ]
    loops = [("r", "%rows", 1), ("w", str(units), registers.lanes)]
    lines = ["  br label %r.head", nested(loops, "\n".join([*start, *body.lines]))]
    return _function("units", f"{_PARAMETERS}, ptr %h, i64 %u", found, lines)


def _products(
    plan: RecurrentPlan, registers: Registers, count: int, x: int, start: int, out: int
) -> Iterator[str]:
    """The products for all rows of an item and for what is left for the last; `x`, `start` and `out` are strides."""
    vector = f"<{registers.lanes} x float>"
    yield f"declare {vector} @llvm.fma.v{registers.lanes}f32({vector}, {vector}, {vector})"
    for rows in sorted({plan.rows, plan.batch - plan.rows * (plan.items - 1)}):
        yield _product(rows, plan.vectors, registers, count, x, start, out)


def _product(rows: int, vectors: int, registers: Registers, count: int, x: int, start: int, out: int) -> str:
    """`out = start + x w` for some rows and `vectors` of units, a sum over `count` entries."""
    vector = f"<{registers.lanes} x float>"
    tile = [(r, v) for r in range(rows) for v in range(vectors)]
    lines = [
        f"define internal void @product_{rows}(ptr %rows, ptr %panel, ptr %start, ptr %out) {{",
        "entry:",
    ]
    for r, v in tile:
        lines.append(f"  %p.{r}.{v} = getelementptr float, ptr %start, i64 {r * start + v * registers.lanes}")
        lines.append(f"  %first.{r}.{v} = load {vector}, ptr %p.{r}.{v}, align 4")
    lines += [
        "  br label %k",
        "k:",
        "  %k.count = phi i64 [ 0, %entry ], [ %k.next, %k ]",
        "  %w = phi ptr [ %panel, %entry ], [ %w.next, %k ]",
    ]
    lines += [
        f"  %s.{r}.{v} = phi {vector} [ %first.{r}.{v}, %entry ], [ %sum.{r}.{v}, %k ]" for r, v in tile
    ]
    for v in range(vectors):
        lines.append(f"  %q.{v} = getelementptr float, ptr %w, i64 {v * registers.lanes}")
        lines.append(f"  %w.{v} = load {vector}, ptr %q.{v}, align 4")
    lines.append("  %x = getelementptr float, ptr %rows, i64 %k.count")
    for r in range(rows):
        lines += [
            f"  %a.{r} = getelementptr float, ptr %x, i64 {r * x}",
            f"  %b.{r} = load float, ptr %a.{r}, align 4",
            f"  %c.{r} = insertelement {vector} poison, float %b.{r}, i64 0",
            f"  %x.{r} = shufflevector {vector} %c.{r}, {vector} poison, <{registers.lanes} x i32> zeroinitializer",
        ]
        lines += [
            f"  %sum.{r}.{v} = call {vector} @llvm.fma.v{registers.lanes}f32("
            f"{vector} %x.{r}, {vector} %w.{v}, {vector} %s.{r}.{v})"
            for v in range(vectors)
        ]
    lines += [
        f"  %w.next = getelementptr float, ptr %w, i64 {vectors * registers.lanes}",
        "  %k.next = add i64 %k.count, 1",
        f"  %more = icmp ult i64 %k.next, {count}",
        "  br i1 %more, label %k, label %over",
        "over:",
    ]
    for r, v in tile:
        lines.append(f"  %o.{r}.{v} = getelementptr float, ptr %out, i64 {r * out + v * registers.lanes}")
        lines.append(f"  store {vector} %sum.{r}.{v}, ptr %o.{r}.{v}, align 4")
    return "\n".join([*lines, "  ret void", "}"])


__all__ = ["RecurrentPlan", "backward", "forward"]
