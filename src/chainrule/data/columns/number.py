"""Columns of numbers: plain ones, and those written with a unit, groups of thousands or a decimal comma.

Plain is what computers write: 1234.5 or 1.2e3. People write 12 %, $1,234.50 or 1.234,50 €. Whether a comma or a point
divides thousands or decimals is decided by the whole column: 0,5 and 1.234,5 can only have decimal commas, 1,234,567
only thousands. Where nothing decides (1,234 in every cell), the table is refused rather than guessed at.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float

from chainrule.data.column import CellFault, ColumnReading, Hints, is_missing
from chainrule.data.loading.problems import Refused

_LONGEST = 60
"""Characters of a number with its unit; longer cells are not looked at, whatever they hold."""
_LARGEST = float(np.finfo(np.float32).max)
_CURRENCY = r"[$€£¥₹₽₩₺]|US\$|CHF|USD|EUR|GBP|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|CZK|BRL|Fr\.|kr|zł"
_DRESSED = re.compile(
    rf"(?P<sign>[-+−]?)\s*(?P<front>{_CURRENCY})?\s*(?P<minus>[-+−]?)"
    rf"(?P<body>[\d.,][\d.,'’\u00a0\u202f\s]*?(?:[eE][-+]?\d+)?)\s*(?P<back>%|{_CURRENCY})?"
)
_GAPS = r"'’\u00a0\u202f "
_POINT = re.compile(rf"(?:\d{{1,3}}(?:([,{_GAPS}])\d{{3}})(?:\1\d{{3}})*|\d*)(?:\.\d*)?(?:[eE][-+]?\d+)?")
_COMMA = re.compile(rf"(?:\d{{1,3}}(?:([.{_GAPS}])\d{{3}})(?:\1\d{{3}})*|\d*)(?:,\d*)?(?:[eE][-+]?\d+)?")
_EITHER = re.compile(r"\d{1,3}[.,]\d{3}")
"""Thousands in one country and decimals in the next."""


@final
@dataclass(frozen=True)
class NumberReading(ColumnReading):
    """A number in each cell."""

    read_as: ClassVar[str] = "number"
    decimal: str = ""
    """What stands before the decimals, "." or ","; empty for plain numbers."""
    unit: str = ""
    """What stands before or behind every number: % or a currency."""

    def features(self, name: str) -> tuple[str, ...]:
        """The number itself."""
        return (name,)

    @property
    def scaled(self) -> tuple[bool, ...]:
        """A quantity."""
        return (True,)

    def codes(self, cells: Sequence[str]) -> Float[np.ndarray, " rows"]:
        """The numbers; infinite if they are too large for single precision."""
        if not self.decimal:
            try:  # most columns are plain throughout, and there are many of them
                values = np.array(list(map(float, cells)), np.float64)
            except ValueError:
                values = None
            if values is not None and not any("_" in cell for cell in cells):
                return np.where(np.abs(values) > _LARGEST, np.inf, values)
        return np.array([self._number(cell) for cell in cells], np.float64)

    def _number(self, cell: str) -> float:
        if self.decimal:
            cell = _undressed(cell, self.decimal, self.unit)
        try:
            value = float(cell)
        except ValueError:
            return math.nan
        if "_" in cell:  # Python allows 1_000, tables do not
            return math.nan
        return value if abs(value) <= _LARGEST or math.isnan(value) else math.inf

    def restored(self, x: Float[np.ndarray, "rows features"]) -> Sequence[str | float]:
        """The number, in six digits."""
        return [float(f"{value:.6g}") for value in x[:, 0]]

    def expand(self, codes: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "rows features"]:
        """The number itself."""
        return np.where(np.isfinite(codes), codes, np.nan)[:, None]

    def fault(self, cell: str, name: str) -> CellFault:
        """A word, or a number that is not finite."""
        if is_number(cell) or math.isinf(self._number(cell)):
            return CellFault("NaN or infinite", f"{cell[:40]} in column {name!r}")
        return CellFault("non-numeric cell", f"{cell[:40]!r} in column {name!r}")

    def absent(self, cell: str) -> bool:
        """Also where the cell says that it is not a number."""
        return is_missing(cell) or cell.lower() == "nan"

    @property
    def way(self) -> str:
        """By the unit."""
        return {"": "number", "%": "percent"}.get(self.unit, f"amount in {self.unit}")

    def describe(self) -> str:
        """What the numbers are written in."""
        return f"{self.way}, decimal comma" if self.decimal == "," else self.way

    def shown(self, codes: Float[np.ndarray, " rows"]) -> str:
        """From the smallest to the largest."""
        return f"{codes.min():.6g} to {codes.max():.6g}" if len(codes) else ""

    def to_json(self) -> dict[str, Any]:
        """The notation."""
        return {"decimal": self.decimal, "unit": self.unit}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "NumberReading":
        """The reading written by `to_json`."""
        return cls(str(values["decimal"]), str(values["unit"]))


def recognise(name: str, held: Sequence[str], hints: Hints) -> NumberReading | None:
    """The notation that fits all cells, or the plain one if it fits any; `held` are cells that are not missing.

    >>> recognise("price", ["1.234,50 €", "7 €"], Hints("a.csv"))
    NumberReading(decimal=',', unit='€')
    """
    plain = [is_number(cell) for cell in held]
    pointed = hints.decimal == "comma" and any("." in cell for cell in held)
    if held and not hints.plain and (pointed or not all(plain)):
        found = _dressed(name, held, hints)
        if found is not None:
            return found
    values = NumberReading().codes([cell for cell, fits in zip(held, plain, strict=True) if fits])
    return NumberReading() if bool(np.isfinite(values).any()) else None


def is_number(cell: str) -> bool:
    """Whether a cell is a number as computers write it, finite or not.

    >>> is_number("1e3"), is_number("nan"), is_number("1,5")
    (True, True, False)
    """
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def is_written(cell: str) -> bool:
    """Whether a cell may be a number in some notation.

    >>> is_written("$1,234.50"), is_written("free")
    (True, False)
    """
    return any(map(str.isdigit, _body(cell)))


def decimal_of(cells: Sequence[str]) -> str:
    """What numbers with a comma or a point show of the writing: "comma", "point", or "auto" if nothing.

    >>> decimal_of(["0,5", "1,234"]), decimal_of(["1,234,567"]), decimal_of(["1,234"]), decimal_of(["a, b"])
    ('comma', 'point', 'auto', 'auto')
    """
    bodies = [_body(cell) for cell in cells]
    fits_point, fits_comma = _fits(bodies, _POINT), _fits(bodies, _COMMA)
    return "auto" if fits_point == fits_comma else "point" if fits_point else "comma"


def _dressed(name: str, held: Sequence[str], hints: Hints) -> NumberReading | None:
    """The notation that fits all of some cells, not all of which are plain."""
    bodies = [_body(cell) for cell in held]
    fits_point, fits_comma = _fits(bodies, _POINT), _fits(bodies, _COMMA)
    units = {_unit(cell) for cell in held} if fits_point or fits_comma else set()
    if len(units) != 1:
        return None
    unit = units.pop()
    if fits_point and fits_comma and any("," in body or "." in body for body in bodies):
        if hints.decimal == "auto":
            doubtful = next(body for body in bodies if _EITHER.fullmatch(body))
            raise Refused(
                "numbers with commas",
                hints.where,
                f"column {name!r} holds numbers like {doubtful}, whose {'comma' if ',' in doubtful else 'point'} "
                "may divide thousands or decimals",
                "say which: data.decimal=point (1,234.5) or data.decimal=comma (1.234,5)",
            )
        fits_point = hints.decimal == "point"
    return NumberReading("." if fits_point else ",", unit)


def _fits(bodies: Sequence[str], pattern: re.Pattern[str]) -> bool:
    return all(body and any(map(str.isdigit, body)) and pattern.fullmatch(body) for body in bodies)


def _body(cell: str) -> str:
    """The digits of a number with a unit and their marks; empty if it is none."""
    found = _DRESSED.fullmatch(cell) if len(cell) <= _LONGEST else None
    if found is None or (found["front"] and found["back"]) or (found["sign"] and found["minus"]):
        return ""
    return found["body"]


def _unit(cell: str) -> str:
    found = _DRESSED.fullmatch(cell)
    return "" if found is None else found["front"] or found["back"] or ""


def _undressed(cell: str, decimal: str, unit: str) -> str:
    """The plain form of a number written with this decimal mark, its unit there or not; empty if it is none."""
    body = _body(cell)
    found = _DRESSED.fullmatch(cell) if body else None
    pattern = _POINT if decimal == "." else _COMMA
    if found is None or _unit(cell) not in ("", unit) or not pattern.fullmatch(body):
        return ""
    sign = "-" if {found["sign"], found["minus"]} & {"-", "−"} else ""
    return sign + re.sub(rf"[{_GAPS}{',' if decimal == '.' else '.'}]", "", body).replace(",", ".")


reading = NumberReading

__all__ = ["NumberReading", "decimal_of", "is_number", "is_written", "reading", "recognise"]
