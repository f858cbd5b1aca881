"""Words and numbers as people read them: in pictures, tables and the report."""

import math
import unicodedata

from chainrule.core.types import ArrayLike

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plain(text: object, limit: int | None = None) -> str:
    """Text that any XML file may hold, on one line: control characters become visible, a long text is cut.

    >>> plain("a\\nb\\x00")
    'a↵b\\\\x00'
    >>> plain("a long story", limit=7)
    'a long…'
    """
    shown = "".join(_visible(character) for character in str(text))
    return shown if limit is None or len(shown) <= limit else shown[: limit - 1] + "…"


def printable(text: object) -> str:
    """The same for text of several lines: line breaks and tabs stay."""
    return "".join(c if c in "\n\t" else _visible(c) for c in str(text))


def number(value: ArrayLike | float | int, digits: int = 4) -> str:
    """A number with this many significant digits, thousands apart, and powers of ten where zeros would not be read.

    >>> [number(v) for v in (0.97222, 1797, 1234567.0, 0.000012345, -0.5, float("nan"))]
    ['0.9722', '1,797', '1,234,567', '1.234×10⁻⁵', '−0.5', 'nan']
    """
    value = float(value)  # type: ignore[arg-type]  # any scalar
    if not math.isfinite(value):
        return str(value).replace("-", "−").replace("inf", "∞")
    if value == 0:
        return "0"
    if abs(value) >= 1e15 or abs(value) < 1e-4:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{_trim(mantissa)}×{power(int(exponent))}".replace("-", "−")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return _trim(f"{value:,.{decimals}f}").replace("-", "−")


def power(exponent: int) -> str:
    """A power of ten.

    >>> power(-3)
    '10⁻³'
    """
    return "10" + str(exponent).translate(_SUPERSCRIPT)


def measured(value: float, stderr: float | None = None) -> str:
    """A value and its standard error, both to the second digit of the error.

    >>> measured(0.972222, 0.008671), measured(12.5, 3.0), measured(0.5)
    ('0.9722 ± 0.0087', '12.5 ± 3.0', '0.5')
    """
    if stderr is None or not math.isfinite(stderr) or stderr <= 0 or not math.isfinite(value):
        return number(value)
    decimals = max(0, 1 - math.floor(math.log10(stderr)))
    if decimals > 8:
        return f"{number(value)} ± {number(stderr, 2)}"
    return f"{value:,.{decimals}f} ± {stderr:,.{decimals}f}".replace("-", "−")


def duration(seconds: float) -> str:
    """A stretch of time.

    >>> duration(0.42), duration(12.34), duration(187), duration(7384)
    ('0.4 s', '12.3 s', '3 min 7 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return {"\n": "↵", "\t": "⇥"}.get(character, f"\\x{code:02x}")
    # Other controls, halves of surrogate pairs and the codes reserved for nothing may not stand in an XML file; marks
    # that turn the direction of the text around would let a name rewrite its neighbourhood.
    if unicodedata.category(character) in ("Cc", "Cs") or code & 0xFFFE == 0xFFFE or code in _TURNS:
        return "\N{REPLACEMENT CHARACTER}"
    return character


_TURNS = frozenset([0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])


def _trim(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


__all__ = ["duration", "measured", "number", "plain", "power", "printable"]
