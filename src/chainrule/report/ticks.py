"""Axis ticks: few, round, and written the same way along one axis."""

import itertools
import math
from collections.abc import Iterable
from typing import final

from matplotlib import ticker
from matplotlib.axis import Axis

from chainrule.core.formatting import number, power


@final
class PlainTicks(ticker.Formatter):
    """All ticks of a linear axis with the same number of decimals, or as powers of ten when they are very small."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """One tick on its own."""
        del pos
        return number(x)

    def format_ticks(self, values: Iterable[float]) -> list[str]:
        """The ticks of one axis together."""
        return write(values)


@final
class PowerTicks(ticker.Formatter):
    """Ticks of a logarithmic axis: plain numbers near one, powers of ten elsewhere."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """One tick."""
        del pos
        exponent = math.log10(x) if x > 0 else 0.0
        if -4 < exponent < 5:
            return f"{x:,.10g}"
        if abs(exponent - round(exponent)) < 1e-9:
            return power(round(exponent))
        return (
            number(x, 2)
            if exponent < 0
            else f"{x / 10 ** math.floor(exponent):.0f}×{power(math.floor(exponent))}"
        )


def write(values: Iterable[float]) -> list[str]:
    """Tick values as words that belong together.

    >>> write([0.0, 0.25, 0.5]), write([0.0, 5000.0, 10000.0]), write([0.0, 2e-5, 4e-5])
    (['0', '0.25', '0.50'], ['0', '5,000', '10,000'], ['0', '2×10⁻⁵', '4×10⁻⁵'])
    >>> write([-0.0002, -0.0001, 0.0, 0.0001])
    ['−2×10⁻⁴', '−1×10⁻⁴', '0', '1×10⁻⁴']
    """
    values = [float(v) for v in values]
    largest = max((abs(v) for v in values), default=0.0)
    gaps = [abs(b - a) for a, b in itertools.pairwise(values) if b != a]
    step = min(gaps, default=largest)
    if step == 0:
        return ["0" for _ in values]
    if largest >= 1e6:
        return [number(v, 3) for v in values]
    if (
        largest < 1e-3
    ):  # all in the unit of the largest: plain numbers and powers of ten do not belong together
        exponent = math.floor(math.log10(largest) + 1e-9)
        parts = write(v / 10.0**exponent for v in values)
        return [part if part == "0" else f"{part}×{power(exponent)}" for part in parts]
    decimals = next((d for d in range(8) if abs(step * 10**d - round(step * 10**d)) < 1e-6 * step * 10**d), 8)
    return ["0" if abs(v) < step * 1e-6 else f"{v:,.{decimals}f}".replace("-", "−") for v in values]


def linear(axis: Axis, count: int = 6, whole: bool = False) -> None:
    """Round ticks on a linear axis; `whole` for steps and other counts."""
    axis.set_major_locator(ticker.MaxNLocator(nbins=count, steps=[1, 2, 2.5, 5, 10], integer=whole))
    axis.set_major_formatter(PlainTicks())


def logarithmic(axis: Axis, low: float, high: float) -> None:
    """Ticks at powers of ten, and between them where the axis spans few."""
    decades = math.log10(high / low) if 0 < low < high else 0.0
    parts: tuple[float, ...] = (1.0,)
    if decades < 2.5:
        parts = (1.0, 2.0, 5.0) if decades >= 0.8 else tuple(float(n) for n in range(1, 10))
    axis.set_major_locator(ticker.LogLocator(subs=parts, numticks=7))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(PowerTicks())


__all__ = ["PlainTicks", "PowerTicks", "linear", "logarithmic", "write"]
