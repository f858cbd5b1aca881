"""LLVM text of group normalisation with everything that is done to each number after it, and of its gradients.

An item of work is one example, which stays in a core's cache while it is gone through: once for the means, once for the
variances, once for the results; backward, once for the sums that the gradients need and once for the gradients.
Channels lie side by side in the lanes. A group's sum is shared out among its channels, so that all arithmetic is
between vectors over channels.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, final

from chainrule.nn.native.availability import Registers
from chainrule.nn.native.builder import Body, Vector, nested, sigmoid
from chainrule.nn.native.ffi import handler
from chainrule.nn.native.threads import NOTHING_TO_COLLECT, work

_SUMS = 8
"""So many independent sums hide how long the processor takes for an addition."""


@final
class GroupNormShape(NamedTuple):
    """One normalisation: everything its programs depend on. Arrays are (batch, positions, channels)."""

    batch: int
    positions: int
    channels: int
    groups: int
    eps: float
    silu: bool

    @property
    def name(self) -> str:
        """All its numbers in a word."""
        return "_".join(map(str, [*self[:4], self.eps.hex(), int(self.silu)]))

    @property
    def size(self) -> int:
        """Channels in a group."""
        return self.channels // self.groups


def fits(given: GroupNormShape, registers: Registers) -> bool:
    """Whether channels fill registers.

    >>> given = GroupNormShape(batch=2, positions=64, channels=32, groups=8, eps=1e-5, silu=True)
    >>> fits(given, Registers(16, 32)), fits(given._replace(channels=24), Registers(16, 32))
    (True, False)
    """
    return min(given[:4]) > 0 and given.channels % registers.lanes == 0


def normalisation(given: GroupNormShape, registers: Registers, helpers: int) -> str:
    """x, scale and shift, (batch, channels), to the result and (batch, 2, channels) means and inverse deviations."""
    walks = _Walks(given, registers)

    def spread(body: Body, channel: _Named, at: _Named, sums: _Sums) -> tuple[_Sums, _Named]:
        del sums
        z = body.multiply_add(at["x"] - channel["mean"], channel["factor"], channel["shift"])
        return [], {"out": z * sigmoid(z) if given.silu else z}

    def total(body: Body, channel: _Named, at: _Named, sums: _Sums) -> tuple[_Sums, _Named]:
        del body, channel
        return [sums[0] + at["x"]], {}

    def squares(body: Body, channel: _Named, at: _Named, sums: _Sums) -> tuple[_Sums, _Named]:
        far = at["x"] - channel["mean"]
        return [body.multiply_add(far, far, sums[0])], {}

    item = f"""
define internal void @item(ptr %x, ptr %scale, ptr %shift, ptr %out, ptr %mean, ptr %room) {{
  %inverse = getelementptr float, ptr %mean, i64 {given.channels}
  call void @total(ptr %x, ptr %room)
  call void @share(ptr %room, ptr %mean)
  call void @squares(ptr %x, ptr %mean, ptr %room)
  call void @share(ptr %room, ptr %inverse)
  call void @invert(ptr %inverse)
  call void @spread(ptr %x, ptr %mean, ptr %inverse, ptr %scale, ptr %shift, ptr %out)
  ret void
}}"""
    return "\n".join(
        [
            handler(given.batch, helpers, arguments=3, results=2),
            *_common(given, registers),
            walks.walk("total", ("x",), (), (), ("sums",), total),
            walks.walk("squares", ("x",), ("mean",), (), ("sums",), squares),
            walks.walk("spread", ("x",), _STEADY, ("out",), (), spread, ready=_factor),
            _invert(given, registers),
            item,
            _work(given, {"x": "map", "scale": "one", "shift": "one", "out": "map", "level": "two"}, room=1),
        ]
    )


def gradients(given: GroupNormShape, registers: Registers, helpers: int) -> str:
    """x, scale, shift, those numbers and the result's cotangent to the three gradients."""
    walks = _Walks(given, registers)

    def first(body: Body, channel: _Named, at: _Named, sums: _Sums) -> tuple[_Sums, _Named]:
        far, slope = at["x"] - channel["mean"], at["dout"]
        if given.silu:
            z = body.multiply_add(far, channel["factor"], channel["shift"])
            on = sigmoid(z)
            slope = slope * (on * body.multiply_add(z, 1.0 - on, 1.0))
        return [sums[0] + slope, body.multiply_add(slope, far, sums[1])], {"dx": slope}

    def second(body: Body, channel: _Named, at: _Named, sums: _Sums) -> tuple[_Sums, _Named]:
        del sums
        own = body.multiply_add(at["dx"], channel["factor"], channel["less"])
        return [], {"dx": body.multiply_add(at["x"] - channel["mean"], channel["down"], own)}

    names = (
        "ptr %x, ptr %scale, ptr %shift, ptr %mean, ptr %dout, ptr %dx, ptr %dscale, ptr %dshift, ptr %room"
    )
    steady = "ptr %x, ptr %dout, ptr %mean, ptr %inverse, ptr %scale, ptr %shift"
    item = f"""
define internal void @item({names}) {{
  %inverse = getelementptr float, ptr %mean, i64 {given.channels}
  %along = getelementptr float, ptr %room, i64 {given.channels}
  call void @first({steady}, ptr %dx, ptr %dshift, ptr %dscale)
  call void @weigh(ptr %scale, ptr %dshift, ptr %room)
  call void @share(ptr %room, ptr %room)
  call void @finish(ptr %dscale, ptr %inverse)
  call void @weigh(ptr %scale, ptr %dscale, ptr %along)
  call void @share(ptr %along, ptr %along)
  call void @second(ptr %x, ptr %dx, ptr %mean, ptr %inverse, ptr %scale, ptr %room, ptr %along)
  ret void
}}"""
    lengths = {"x": "map", "scale": "one", "shift": "one", "level": "two", "dout": "map"}
    lengths |= {"dx": "map", "dscale": "one", "dshift": "one"}
    sums = ("average", "along")
    return "\n".join(
        [
            handler(given.batch, helpers, arguments=5, results=3),
            *_common(given, registers),
            walks.walk("first", ("x", "dout"), _STEADY, ("dx",), ("dshift", "dscale"), first, ready=_factor),
            walks.walk("second", ("x", "dx"), (*_STEADY[:3], *sums), ("dx",), (), second, ready=_slopes),
            _over_channels(given, registers, "weigh", ("a", "b"), "out", lambda a, b: a * b),
            _over_channels(given, registers, "finish", ("out", "b"), "out", lambda a, b: a * b),
            item,
            _work(given, lengths, room=2),
        ]
    )


# ---------------------------------------------------------------------- through all positions of an example

_STEADY = ("mean", "inverse", "scale", "shift")
_Named: TypeAlias = Mapping[str, Vector]
_Sums: TypeAlias = Sequence[Vector]
_Step: TypeAlias = Callable[[Body, _Named, _Named, _Sums], tuple[_Sums, _Named]]


def _factor(channel: _Named) -> _Named:
    """What a distance from the mean is multiplied by."""
    return {**channel, "factor": channel["inverse"] * channel["scale"]}


def _slopes(channel: _Named) -> _Named:
    """What the gradient takes off for the mean, and for the deviation by the distance from the mean."""
    inverse = channel["inverse"]
    less, down = inverse * channel["average"], inverse * inverse * channel["along"]
    return {"mean": channel["mean"], "less": -1.0 * less, "down": -1.0 * down, **_factor(channel)}


@final
class _Walks(NamedTuple):
    """Functions that go through the channels of an example in blocks, and in each block through all positions."""

    given: GroupNormShape
    registers: Registers

    def walk(
        self,
        name: str,
        read: Sequence[str],
        channel: Sequence[str],
        written: Sequence[str],
        sums: Sequence[str],
        step: _Step,
        ready: Callable[[_Named], _Named] = lambda channel: channel,
    ) -> str:
        """A function of maps that are read, numbers of channels, maps that are written and sums over positions.

        `ready` makes of the numbers of channels what is needed at every position; `step` is what happens to a vector:
        what the sums are after it, and what is written.
        """
        lanes, channels, positions = self.registers.lanes, self.given.channels, self.given.positions
        vectors = next(n for n in (4, 3, 2, 1) if channels // lanes % n == 0)
        most = max(1, _SUMS // vectors) if sums else 1
        turns = next(n for n in range(most, 0, -1) if positions % n == 0)
        body = Body(self.registers)
        lines, zero = body.lines, body.number(0.0)
        lines += ["entry:", "  br label %block", "block:"]
        lines.append("  %first = phi i64 [ 0, %entry ], [ %first.next, %done ]")
        own = [{one: self._at(body, one, "%first", v) for one in channel} for v in range(vectors)]
        kept = [ready({one: body.load(pointer) for one, pointer in names.items()}) for names in own]
        lines += ["  br label %position", "position:", "  %t = phi i64 [ 0, %block ], [ %t.next, %position ]"]
        phis, start = [], len(lines)
        after: dict[tuple[str, int, int], Vector] = {}
        for turn in range(turns):
            lines.append(f"  %row.{turn} = add i64 %t, {turn}")
            lines.append(f"  %begin.{turn} = mul i64 %row.{turn}, {channels}")
            lines.append(f"  %base.{turn} = add i64 %begin.{turn}, %first")
            for v in range(vectors):
                at = {
                    one: self._at(body, one, f"%base.{turn}", v) for one in dict.fromkeys((*read, *written))
                }
                seen = {one: body.load(at[one]) for one in read}
                before = [Vector(body, f"%sum.{one}.{turn}.{v}") for one in sums]
                totals, stored = step(body, kept[v], seen, before)
                for one, value in stored.items():
                    body.store(value, at[one])
                for one, old, new in zip(sums, before, totals, strict=True):
                    after[one, turn, v] = new
                    phis.append(
                        f"  {old.name} = phi {body.type} [ {zero}, %block ], [ {new.name}, %position ]"
                    )
        lines[start:start] = phis
        lines += [f"  %t.next = add i64 %t, {turns}", f"  %t.more = icmp ult i64 %t.next, {positions}"]
        lines += ["  br i1 %t.more, label %position, label %done", "done:"]
        for one in sums:
            for v in range(vectors):
                whole = after[one, 0, v]
                for turn in range(1, turns):
                    whole = whole + after[one, turn, v]
                body.store(whole, self._at(body, one, "%first", v))
        lines += [f"  %first.next = add i64 %first, {vectors * lanes}"]
        lines += [f"  %first.more = icmp ult i64 %first.next, {channels}"]
        lines += ["  br i1 %first.more, label %block, label %over", "over:", "  ret void", "}"]
        pointers = ", ".join(f"ptr %{one}" for one in dict.fromkeys((*read, *channel, *written, *sums)))
        return "\n".join([f"define internal void @{name}({pointers}) noinline {{", *lines])

    def _at(self, body: Body, name: str, base: str, vector: int) -> str:
        offset = body.write(f"add i64 {base}, {vector * self.registers.lanes}")
        return body.write(f"getelementptr float, ptr %{name}, i64 {offset.name}").name


# ---------------------------------------------------------------------- numbers of channels


def _common(given: GroupNormShape, registers: Registers) -> Sequence[str]:
    vector = f"<{registers.lanes} x float>"
    return (
        NOTHING_TO_COLLECT,
        f"declare {vector} @llvm.fma.v{registers.lanes}f32({vector}, {vector}, {vector})",
        f"declare {vector} @llvm.sqrt.v{registers.lanes}f32({vector})",
        _share(given),
    )


def _share(given: GroupNormShape) -> str:
    """Give every channel the sum of its group over the numbers in one."""
    digits = Body(Registers(1, 1)).number(1 / (given.positions * given.size)).strip("<>")
    add = "\n".join(
        f"""  %p.{c} = getelementptr float, ptr %own, i64 {c}
  %x.{c} = load float, ptr %p.{c}
  %s.{c} = fadd float {f"%s.{c - 1}" if c else "0.0"}, %x.{c}"""
        for c in range(given.size)
    )
    put = "\n".join(
        f"  %q.{c} = getelementptr float, ptr %theirs, i64 {c}\n  store float %mean, ptr %q.{c}"
        for c in range(given.size)
    )
    body = f"""
  %own = getelementptr float, ptr %sums, i64 %c
  %theirs = getelementptr float, ptr %means, i64 %c
{add}
  %mean = fmul float %s.{given.size - 1}, {digits.removeprefix("float ")}
{put}"""
    return f"""
define internal void @share(ptr %sums, ptr %means) noinline {{
entry:
  br label %c.head
{nested([("c", str(given.channels), given.size)], body)}
  ret void
}}"""


def _over_channels(
    given: GroupNormShape,
    registers: Registers,
    name: str,
    read: Sequence[str],
    written: str,
    formula: Callable[..., Vector],
) -> str:
    """A function that fills one vector of numbers of channels from others."""
    body = Body(registers)
    pointers = dict.fromkeys((*read, written))
    for one in pointers:
        body.lines.append(f"  %{one}.at = getelementptr float, ptr %{one}, i64 %c")
    body.store(formula(*(body.load(f"%{one}.at") for one in read)), f"%{written}.at")
    return f"""
define internal void @{name}({", ".join(f"ptr %{one}" for one in pointers)}) noinline {{
entry:
  br label %c.head
{nested([("c", str(given.channels), registers.lanes)], chr(10).join(body.lines))}
  ret void
}}"""


def _invert(given: GroupNormShape, registers: Registers) -> str:
    """Variances to one over deviations."""

    def formula(variance: Vector) -> Vector:
        body = variance.body
        moved = variance + given.eps
        return 1.0 / body.write(f"call {body.type} @llvm.sqrt.v{body.lanes}f32({body.type} {moved.name})")

    return _over_channels(given, registers, "invert", ("out",), "out", formula)


def _work(given: GroupNormShape, lengths: Mapping[str, str], room: int) -> str:
    """Take examples until none are left; `lengths` says how long each argument is in one."""
    steps = {"map": given.positions * given.channels, "one": given.channels, "two": 2 * given.channels}
    lines = []
    for name, kind in lengths.items():
        lines.append(f"  %{name}.offset = mul i64 %item, {steps[kind]}")
        lines.append(f"  %{name}.n = getelementptr float, ptr %{name}, i64 %{name}.offset")
    handed = ", ".join(f"ptr %{name}.n" for name in lengths)
    lines.append(f"  call void @item({handed}, ptr %room)")
    return work(given.batch, list(lengths), room * given.channels, "\n".join(lines))


__all__ = ["GroupNormShape", "fits", "gradients", "normalisation"]
