"""Which entries of an input an entry of an intermediate array depends on: intervals that move with the index.

An axis of the input is followed through a program by its *digits*. A digit is a part of an index: `(index of axis //
divisor) % size`, worth `step` entries of the input. An entry depends on the entries from `low` to `high` of the input,
counted from the sum of its digits times their steps. Reshaping splits and joins digits; strides multiply steps; windows
widen the interval; whatever sums over a digit widens it by the whole range of that digit. The width of the interval is
the receptive field. It is an upper bound: a rule that is not known counts as "everything".
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, final

Shape = tuple[int, ...]


@final
class Digit(NamedTuple):
    """A part of the index along one axis of an array, and how many entries of the input one step of it is worth."""

    axis: int
    divisor: int
    size: int
    step: int


@final
class MovingInterval(NamedTuple):
    """What an entry sees of one axis of the input."""

    digits: tuple[Digit, ...]
    low: int
    high: int
    whole: bool = False
    """Whether it may be everything."""

    @property
    def width(self) -> int:
        """Entries from the first to the last."""
        return self.high - self.low + 1

    def at(self, index: Mapping[int, int]) -> tuple[int, int]:
        """The first and the last entry of the input that the entry with this index, by axis, sees.

        They may lie beyond the ends of the input, where padding is seen.
        """
        start = sum(d.step * (index[d.axis] // d.divisor % d.size) for d in self.digits)
        return self.low + start, self.high + start


Intervals = tuple[MovingInterval, ...]
"""One for each axis of the input that is followed."""


def of_input(shape: Shape, axes: Iterable[int]) -> Intervals:
    """The input depends on itself.

    >>> of_input((8, 3), [0])[0].width
    1
    """
    return tuple(MovingInterval(_digits([Digit(axis, 1, shape[axis], 1)]), 0, 0) for axis in axes)


def merged(first: Intervals | None, second: Intervals | None) -> Intervals | None:
    """What depends on both; `None` depends on nothing."""
    if first is None or second is None:
        return second if first is None else first
    return tuple(_both(a, b) for a, b in zip(first, second, strict=True))


def everything(spans: Intervals | None) -> Intervals | None:
    """What may depend on all that these depend on, at any index."""
    return None if spans is None else tuple(MovingInterval((), s.low, s.high, True) for s in spans)


def moved(spans: Intervals | None, to: Callable[[int], int | None]) -> Intervals | None:
    """The same after axes got other numbers; an axis that goes nowhere is summed over."""
    if spans is None:
        return None
    swept = _each(spans, lambda digit: to(digit.axis) is None)
    return tuple(
        s._replace(digits=_digits(d._replace(axis=to(d.axis) or 0) for d in s.digits)) for s in swept
    )


def windowed(
    spans: Intervals | None,
    axis: int,
    sizes: tuple[int, int],
    kernel: int = 1,
    stride: int = 1,
    before: int = 0,
    dilation: int = 1,
) -> Intervals | None:
    """After a window of `kernel` entries has moved over an axis, `before` entries having been put in front of it.

    `sizes` are the numbers of entries before and after.
    """
    if spans is None:
        return None
    found = []
    for span in spans:
        mine = [d for d in span.digits if d.axis == axis]
        if len(mine) == 1 and mine[0].size == sizes[0]:
            (digit,) = mine
            ends = sorted((-before * digit.step, ((kernel - 1) * dilation - before) * digit.step))
            changed = digit._replace(size=sizes[1], step=digit.step * stride)
            digits = _digits(changed if d is digit else d for d in span.digits)
            found.append(span._replace(digits=digits, low=span.low + ends[0], high=span.high + ends[1]))
        elif mine:
            found.append(MovingInterval((), span.low, span.high, True))
        else:
            found.append(span)
    return tuple(found)


def reversed_along(spans: Intervals | None, axis: int, size: int) -> Intervals | None:
    """After an axis of this size has been turned round."""
    if spans is None:
        return None
    found = []
    for span in spans:
        mine = [d for d in span.digits if d.axis == axis]
        if len(mine) == 1 and mine[0].size == size:
            (digit,) = mine
            shift = digit.step * (size - 1)
            digits = _digits(d._replace(step=-d.step) if d is digit else d for d in span.digits)
            found.append(span._replace(digits=digits, low=span.low + shift, high=span.high + shift))
        else:
            found.append(MovingInterval((), span.low, span.high, True) if mine else span)
    return tuple(found)


def reshaped(spans: Intervals | None, before: Shape, after: Shape) -> Intervals | None:
    """After a reshape: every digit is cut where a new axis begins."""
    if spans is None or 0 in before:
        return spans
    strides, new = _strides(before), _strides(after)
    found = []
    for span in spans:
        digits, fits = [], True
        for d in span.digits:
            rest = Digit(0, strides[d.axis] * d.divisor, d.size, d.step)
            for axis in reversed(range(len(after))):
                start, end = new[axis], new[axis] * after[axis]
                if rest.size > 1 and start <= rest.divisor < end:
                    inside = min(rest.size, end // rest.divisor)
                    fits &= rest.divisor % start == 0 and rest.size % inside == 0 and end % rest.divisor == 0
                    digits.append(Digit(axis, rest.divisor // start, inside, rest.step))
                    rest = Digit(0, end, rest.size // max(inside, 1), rest.step * inside)
        found.append(
            span._replace(digits=_digits(digits)) if fits else MovingInterval((), span.low, span.high, True)
        )
    return tuple(found)


def _both(a: MovingInterval, b: MovingInterval) -> MovingInterval:
    if a.whole or b.whole:
        return MovingInterval((), min(a.low, b.low), max(a.high, b.high), True)
    if a.digits != b.digits:
        a, b = _swept(a, lambda d: d not in b.digits), _swept(b, lambda d: d not in a.digits)
    return MovingInterval(a.digits, min(a.low, b.low), max(a.high, b.high))


def _each(spans: Intervals, gone: Callable[[Digit], bool]) -> Intervals:
    return tuple(_swept(span, gone) for span in spans)


def _swept(span: MovingInterval, gone: Callable[[Digit], bool]) -> MovingInterval:
    """Every value of some digits at once."""
    low, high = span.low, span.high
    for digit in filter(gone, span.digits):
        reach = digit.step * (digit.size - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    return MovingInterval(tuple(d for d in span.digits if not gone(d)), low, high, span.whole)


def _digits(given: Iterable[Digit]) -> tuple[Digit, ...]:
    """In one order, neighbours joined, without those that never change."""
    found: list[Digit] = []
    for digit in sorted(given):
        last = found[-1] if found else None
        if digit.size == 1:
            continue
        if (
            last is not None
            and last.axis == digit.axis
            and digit.divisor == last.divisor * last.size
            and digit.step == last.step * last.size
        ):
            found[-1] = last._replace(size=last.size * digit.size)
        else:
            found.append(digit)
    return tuple(found)


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


__all__ = [
    "Digit",
    "Intervals",
    "MovingInterval",
    "everything",
    "merged",
    "moved",
    "of_input",
    "reshaped",
    "reversed_along",
    "windowed",
]
