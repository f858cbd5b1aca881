"""Loops, and arithmetic on vectors of single-precision numbers, as LLVM text.

A `Vector` is the name of a value in a function that is being written; `+`, `-` and `*` write one more line. Formulas in
Python that use nothing else, and the two functions here, can therefore be computed by JAX and become programs.

`sigmoid` and `tanh` need the exponential. With `x = n log 2 + r`, |r| < 0.35, it is made of `2^n` and `exp(r) - 1`,
whose Taylor polynomial of degree seven is off by less than two parts in 10⁸. Kept apart, the two give `exp(x) - 1`
without cancellation, and so a `tanh` that is right to a few units in the last place near zero as well.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from chainrule.nn.native.availability import Registers

_LOG_2 = struct.unpack("f", struct.pack("f", math.log(2)))[0]
_ROUNDING = 1.5 * 2.0**23
"""Added to a number this leaves it rounded, as an integer in the lowest bits."""


@final
class Body:
    """The lines of a function."""

    def __init__(self, registers: Registers) -> None:
        self.lanes = registers.lanes
        self.type = f"<{registers.lanes} x float>"
        self.lines: list[str] = []

    def write(self, text: str) -> "Vector":
        """A line that makes a value."""
        name = f"%value.{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return Vector(self, name)

    def number(self, value: float) -> str:
        """The same number in every lane, as an operand."""
        single = struct.unpack("f", struct.pack("f", value))[0]
        digits = struct.pack(">d", single).hex()
        return "<" + ", ".join([f"float 0x{digits}"] * self.lanes) + ">"

    def integer(self, value: int) -> str:
        """The same integer in every lane, as an operand."""
        return "<" + ", ".join([f"i32 {value}"] * self.lanes) + ">"

    def load(self, pointer: str) -> "Vector":
        """What lies there."""
        return self.write(f"load {self.type}, ptr {pointer}, align 4")

    def store(self, value: "Operand", pointer: str) -> None:
        """Put a value there."""
        self.lines.append(f"  store {self.type} {self.operand(value)}, ptr {pointer}, align 4")

    def operand(self, value: "Operand") -> str:
        """A value or a number, as it stands in a line."""
        return value.name if isinstance(value, Vector) else self.number(value)

    def binary(self, operation: str, a: "Operand", b: "Operand") -> "Vector":
        """`a` and `b` put together."""
        return self.write(f"{operation} {self.type} {self.operand(a)}, {self.operand(b)}")

    def multiply_add(self, a: "Operand", b: "Operand", c: "Operand") -> "Vector":
        """`a b + c`, rounded once."""
        given = ", ".join(f"{self.type} {self.operand(value)}" for value in (a, b, c))
        return self.write(f"call {self.type} @llvm.fma.v{self.lanes}f32({given})")

    def clip(self, x: "Vector", limit: float) -> "Vector":
        """`x` between the limits; what is not a number stays so."""
        for comparison, bound in (("olt", limit), ("ogt", -limit)):
            edge = self.number(bound)
            beyond = self.write(f"fcmp {comparison} {self.type} {edge}, {x.name}")
            x = self.write(
                f"select <{self.lanes} x i1> {beyond.name}, {self.type} {edge}, {self.type} {x.name}"
            )
        return x


@final
@dataclass(frozen=True)
class Vector:
    """A value in a function that is being written."""

    body: Body
    name: str

    def __add__(self, other: "Operand") -> "Vector":
        return self.body.binary("fadd", self, other)

    def __radd__(self, other: float) -> "Vector":
        return self.body.binary("fadd", other, self)

    def __sub__(self, other: "Operand") -> "Vector":
        return self.body.binary("fsub", self, other)

    def __rsub__(self, other: float) -> "Vector":
        return self.body.binary("fsub", other, self)

    def __mul__(self, other: "Operand") -> "Vector":
        return self.body.binary("fmul", self, other)

    def __rmul__(self, other: float) -> "Vector":
        return self.body.binary("fmul", other, self)

    def __truediv__(self, other: "Operand") -> "Vector":
        return self.body.binary("fdiv", self, other)

    def __rtruediv__(self, other: float) -> "Vector":
        return self.body.binary("fdiv", other, self)


Operand: TypeAlias = Vector | float


def exp(x: Vector) -> Vector:
    """`exp(x)`; as at ±87 for what lies beyond."""
    power, rest = _exponential(x.body.clip(x, 87.0))
    return x.body.multiply_add(power, rest, power)


def sigmoid(x: Vector) -> Vector:
    """`1 / (1 + exp(-x))`."""
    power, rest = _exponential(x.body.clip(-1.0 * x, 87.0))
    return 1.0 / x.body.multiply_add(power, rest, power + 1.0)


def tanh(x: Vector) -> Vector:
    """`(exp(2 x) - 1) / (exp(2 x) + 1)`."""
    power, rest = _exponential(x.body.clip(2.0 * x, 20.0))
    less_one = x.body.multiply_add(power, rest, power - 1.0)
    return less_one / (less_one + 2.0)


def _exponential(x: Vector) -> tuple[Vector, Vector]:
    """`p = 2^n` and `r` with `exp(x) = p (1 + r)`."""
    body = x.body
    shifted = body.multiply_add(x, 1 / math.log(2), _ROUNDING)
    whole = shifted - _ROUNDING
    rest = body.multiply_add(whole, -_LOG_2, x)
    rest = body.multiply_add(whole, _LOG_2 - math.log(2), rest)
    series: Operand = 1 / math.factorial(7)
    for degree in range(6, 0, -1):
        series = body.multiply_add(series, rest, 1 / math.factorial(degree))
    integers = f"<{body.lanes} x i32>"
    bits = body.write(f"bitcast {body.type} {shifted.name} to {integers}")
    exponent = body.write(f"shl {integers} {bits.name}, {body.integer(23)}")
    biased = body.write(f"add {integers} {exponent.name}, {body.integer(127 << 23)}")
    return body.write(f"bitcast {integers} {biased.name} to {body.type}"), rest * series


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


__all__ = ["Body", "Operand", "Vector", "exp", "nested", "sigmoid", "tanh"]
