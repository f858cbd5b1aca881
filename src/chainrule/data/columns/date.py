"""Columns of dates: the year with its fraction, and the season, the weekday and, with times, the hour as angles.

Read are 2024-03-31, 2024/3/31, 31.03.2024, 31 Mar 2024 and March 31, 2024, each with a time behind it or without.
In 31/03/2024 and 03/31/2024 a number above 12 anywhere in the column says which is the day. Months have English names.
A time with a zone is brought to UTC. An angle becomes its sine and cosine, so that December lies beside January.
"""

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float

from chainrule.data.column import CellFault, ColumnReading, Hints
from chainrule.data.loading.problems import Refused

_TIME = (
    r"(?:[T ]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?"
    r"\s*(?P<zone>Z|UTC|[-+]\d{2}:?\d{2})?)?"
)
_MONTH = r"(?P<month>[A-Za-z]{3,9})\.?"
_PATTERNS = {
    "year first": (re.compile(rf"(?P<year>\d{{4}})([-/.])(?P<month>\d{{1,2}})\2(?P<day>\d{{1,2}}){_TIME}"),),
    "day first": (re.compile(rf"(?P<day>\d{{1,2}})([-/.])(?P<month>\d{{1,2}})\2(?P<year>\d{{4}}){_TIME}"),),
    "month first": (re.compile(rf"(?P<month>\d{{1,2}})([-/])(?P<day>\d{{1,2}})\2(?P<year>\d{{4}}){_TIME}"),),
    "named months": (
        re.compile(rf"(?P<day>\d{{1,2}})\.?[ -]{_MONTH}[ -](?P<year>\d{{4}}){_TIME}"),
        re.compile(rf"{_MONTH} (?P<day>\d{{1,2}}),? (?P<year>\d{{4}}){_TIME}"),
    ),
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH_NAMES = re.compile(
    "jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sep(t|tember)?|oct(ober)?|(nov|dec)(ember)?"
)
_NOTATIONS = {
    "year first": "{year:04}-{month:02}-{day:02}",
    "day first": "{day:02}.{month:02}.{year:04}",
    "month first": "{month:02}/{day:02}/{year:04}",
    "named months": "{day} {name} {year:04}",
}
"""How a date is written so that it is read again."""
_EPOCH = datetime.datetime(1970, 1, 1)
_DAY = 86_400
_YEARS = (2, 9998)
"""The first and the last year that is written: a day beside them is one of the calendar, too."""


@final
@dataclass(frozen=True)
class DateReading(ColumnReading):
    """A date in each cell, with or without a time."""

    read_as: ClassVar[str] = "date"
    tells_time: ClassVar[bool] = True
    order: str
    """Which of the ways of writing a date."""
    time: bool = False
    """Whether there are times."""

    def features(self, name: str) -> tuple[str, ...]:
        """Year, and the sine and cosine of season, weekday and hour."""
        angles = ("season", "weekday", *(["hour"] if self.time else []))
        return (f"{name} year", *(f"{name} {angle} {part}" for angle in angles for part in ("sin", "cos")))

    @property
    def scaled(self) -> tuple[bool, ...]:
        """The year is a quantity."""
        return (True, *[False] * (6 if self.time else 4))

    def codes(self, cells: Sequence[str]) -> Float[np.ndarray, " rows"]:
        """Days since 1970."""
        return np.array([self._days(cell) for cell in cells], np.float64)

    def _days(self, cell: str) -> float:
        for pattern in _PATTERNS[self.order]:
            found = pattern.fullmatch(cell)
            if found is not None:
                return _days(found.groupdict())
        return math.nan

    def expand(self, codes: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "rows features"]:
        """The year with its fraction, and the angles.

        >>> dates = DateReading("year first")
        >>> dates.expand(dates.codes(["2024-01-01"])).round(3).tolist()  # a Monday
        [[2024.0, 0.0, 1.0, 0.0, 1.0]]
        """
        known = np.where(np.isfinite(codes), codes, 0.0)
        day = np.floor(known)
        year = day.astype(np.int64).astype("datetime64[D]").astype("datetime64[Y]")
        start = year.astype("datetime64[D]").astype(np.float64)
        length = (year + np.timedelta64(1, "Y")).astype("datetime64[D]").astype(np.float64) - start
        season = (known - start) / length
        turns = [
            season,
            ((day + 3) % 7) / 7,
            *([known - day] if self.time else []),
        ]  # 1970 began on a Thursday
        angles = [f(2 * np.pi * turn) for turn in turns for f in (np.sin, np.cos)]
        features = np.stack([1970 + year.astype(np.int64) + season, *angles], axis=1)
        features[~np.isfinite(codes)] = np.nan
        return features

    def restored(self, x: Float[np.ndarray, "rows features"]) -> Sequence[str | float]:
        """The day of the year that the season says; the weekday follows from it.

        >>> dates = DateReading("named months", time=True)
        >>> dates.restored(dates.expand(dates.codes(["March 1, 2024 18:30"])))
        ['1 Mar 2024 18:30']
        """
        return [self._written(row) if np.isfinite(row).all() else "" for row in np.asarray(x, np.float64)]

    def _written(self, features: Float[np.ndarray, " features"]) -> str:
        season, hour = _turn(*features[1:3]), _turn(*features[5:7]) or 0.0 if self.time else 0.0
        if season is None:  # filled in: only the year is known
            season = float(features[0] % 1)
        first = datetime.datetime(int(np.clip(np.rint(features[0] - season), *_YEARS)), 1, 1)
        length = (first.replace(year=first.year + 1) - first).days
        day = round(season * length - hour)
        moment = first + datetime.timedelta(days=day, seconds=round(hour * _DAY))
        name = _MONTHS[moment.month - 1].capitalize()
        date = _NOTATIONS[self.order].format(year=moment.year, month=moment.month, day=moment.day, name=name)
        return date + (f" {moment:%H:%M:%S}".removesuffix(":00") if self.time else "")

    def fault(self, cell: str, name: str) -> CellFault:
        """Not a date of this way of writing."""
        return CellFault(
            "not a date", f"{cell[:40]!r} in column {name!r}, whose dates are written {self.order}"
        )

    def describe(self) -> str:
        """The way of writing."""
        return f"date{' and time' if self.time else ''}, {self.order}"

    def shown(self, codes: Float[np.ndarray, " rows"]) -> str:
        """From the first day to the last."""
        if not len(codes):
            return ""
        ends = (_EPOCH + datetime.timedelta(days=float(day)) for day in (codes.min(), codes.max()))
        return " to ".join(f"{end:%Y-%m-%d}" for end in ends)

    def to_json(self) -> dict[str, Any]:
        """The way of writing."""
        return {"order": self.order, "time": self.time}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "DateReading":
        """The reading written by `to_json`."""
        if values["order"] not in _PATTERNS:
            raise ValueError(f"unknown way of writing dates: {values['order']!r}")
        return cls(values["order"], bool(values["time"]))


def recognise(name: str, held: Sequence[str], hints: Hints) -> DateReading | None:
    """The one way of writing that fits all cells, which are not missing; none if they are no dates.

    >>> recognise("born", ["01/02/2024", "01/31/2024"], Hints("a.csv"))
    DateReading(order='month first', time=False)
    """
    if hints.plain or not held:
        return None
    fitting = [
        order
        for order in _PATTERNS
        if math.isfinite(DateReading(order)._days(held[0]))
        and np.isfinite(DateReading(order).codes(held)).all()
    ]
    if len(fitting) > 1 and hints.dates != "auto":
        fitting = [hints.dates.replace("-", " ")]
    if len(fitting) > 1:
        raise Refused(
            "day or month",
            hints.where,
            f"column {name!r} holds dates like {held[0]}, which may begin with the day or the month",
            "say which: data.dates=day-first or data.dates=month-first",
        )
    if not fitting:
        return None
    return DateReading(fitting[0], time=bool((DateReading(fitting[0]).codes(held) % 1).any()))


def is_written(cell: str) -> bool:
    """Whether a cell is a date in some notation.

    >>> is_written("31.12.2024"), is_written("later")
    (True, False)
    """
    return any(math.isfinite(DateReading(order)._days(cell)) for order in _PATTERNS)


def _turn(sine: float, cosine: float) -> float | None:
    """The share of a turn that an angle is, from 0 to 1; nothing where both numbers are 0."""
    return float(np.arctan2(sine, cosine) / (2 * np.pi) % 1) if sine or cosine else None


def _days(parts: Mapping[str, str | None]) -> float:
    """Days since 1970 of the parts of a date; NaN if there is no such day."""
    month = parts["month"] or ""
    named = _MONTH_NAMES.fullmatch(month.lower())
    number = 1 + _MONTHS.index(month[:3].lower()) if named else int(month) if month.isdecimal() else 0
    try:
        day = datetime.date(int(parts["year"] or 0), number, int(parts["day"] or 0)).toordinal()
    except ValueError:
        return math.nan
    hour, minute = int(parts["hour"] or 0), int(parts["minute"] or 0)
    seconds = 3600 * hour + 60 * minute + float(parts["second"] or 0)
    if hour > 23 or minute > 59 or seconds >= _DAY:
        return math.nan
    zone = parts["zone"] or "Z"
    if zone[0] in "-+":
        away = 3600 * int(zone[1:3]) + 60 * int(zone[-2:])
        seconds -= away if zone[0] == "+" else -away
    return day - _EPOCH.toordinal() + seconds / _DAY


reading = DateReading

__all__ = ["DateReading", "is_written", "reading", "recognise"]
