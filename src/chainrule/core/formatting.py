"""Numbers, durations and sizes as text, the same in pictures, tables, reports and messages.

Needs nothing but the standard library, so that the command line can use it before JAX is loaded.
"""

import math
from typing import Any

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: Any, digits: int = 4) -> str:
    """A number with this many significant digits, thousands apart, and powers of ten where zeros would not be read.

    >>> [number(v) for v in (0.97222, 1797, 1234567.0, 0.000012345, -0.5, float("nan"))]
    ['0.9722', '1,797', '1,234,567', '1.234×10⁻⁵', '−0.5', 'nan']
    """
    value = float(value)  # any scalar
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


def short_number(value: float) -> str:
    """A number in at most six characters of ASCII, for lines on a terminal.

    >>> short_number(2.113), short_number(0.00031), short_number(1234567.0), short_number(float("nan"))
    ('2.11', '3.1e-4', '1.2e6', 'nan')
    """
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-2 <= abs(value) < 1e4:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return scientific(value)


def scientific(value: float) -> str:
    """A number as mantissa and exponent, always of the same length.

    >>> scientific(3e-4)
    '3.0e-4'
    """
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def count(amount: float) -> str:
    """A large count, such as parameters or operations, with a letter for its magnitude.

    >>> count(669_706), count(1_240_000_000), count(41_000), count(7)
    ('0.67 M', '1.24 G', '41 k', '7')
    """
    for unit, start, scale in (("G", 1e9, 1e9), ("M", 1e5, 1e6), ("k", 1e3, 1e3)):
        if amount >= start:
            return f"{amount / scale:.3g} {unit}"
    return f"{amount:.3g}"


def rate(per_second: float) -> str:
    """A rate where room is scarce.

    >>> rate(7.25), rate(41_000), rate(123_456), rate(2_400_000)
    ('7.25', '41k', '123k', '2.4M')
    """
    for unit, scale in (("M", 1e6), ("k", 1e3)):
        if per_second >= scale:
            return f"{per_second / scale:.3g}{unit}"
    return f"{per_second:.3g}"


def duration(seconds: float) -> str:
    """A length of time.

    >>> duration(0.42), duration(12.34), duration(187), duration(7384)
    ('0.4 s', '12.3 s', '3 min 7 s', '2 h 3 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def short_duration(seconds: float) -> str:
    """A length of time in at most six characters, for lines on a terminal.

    >>> short_duration(6.24), short_duration(72), short_duration(7500)
    ('6.2s', '1m12s', '2h05m')
    """
    if not math.isfinite(seconds):
        return "?"
    if seconds < 10:
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def file_size(amount: float) -> str:
    """Bytes of a file or a disk, in powers of 1000.

    >>> file_size(1_100_000), file_size(512)
    ('1.1 MB', '512 bytes')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if amount >= scale:
            return f"{amount / scale:.1f} {unit}"
    return f"{amount:.0f} bytes"


def memory_size(amount: float) -> str:
    """Bytes of memory, in powers of 1024.

    >>> memory_size(128_000_000), memory_size(512)
    ('122 MiB', '512 B')
    """
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.3g} {unit}" if amount < 1000 else f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.3g} GiB"


def _trim(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


__all__ = [
    "count",
    "duration",
    "file_size",
    "measured",
    "memory_size",
    "number",
    "power",
    "rate",
    "scientific",
    "short_duration",
    "short_number",
]
