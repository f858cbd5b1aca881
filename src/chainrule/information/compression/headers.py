"""What the header of a compressed file must say, checked before anything in it is believed.

A checksum tells that a header arrived as it was written, not that whoever wrote it meant well.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from chainrule.information.compression.coders import PRECISION

MOST_ROWS = 2**16
"""Examples, or pieces of a text, that go through the networks together."""
LARGEST_SEED = 2**64 - 1
NUMBER_TYPES = frozenset(
    np.dtype(f"{order}{kind}{size}").str
    for order in "<>"
    for kind, sizes in (("b", (1,)), ("i", (1, 2, 4, 8)), ("u", (1, 2, 4, 8)), ("f", (2, 4, 8)))
    for size in sizes
)
"""Types of arrays, as NumPy writes them, that mean the same on every machine."""
_MOST_COUNT = 2**48

Test: TypeAlias = Callable[[Any], bool]


def wrong_field(header: Any) -> str | None:
    """The first field that a header lacks or that cannot be; none of a header that decoding can start from.

    >>> wrong_field({"form": {"as": "text"}, "total": -1})
    'total'
    """
    return _wrong(header, _HEADER)


def _wrong(fields: Any, tests: Mapping[str, Test]) -> str | None:
    if not isinstance(fields, Mapping):
        return next(iter(tests))
    return next((name for name, test in tests.items() if name not in fields or not test(fields[name])), None)


def _number(least: int, most: int = _MOST_COUNT) -> Test:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _of(kind: type) -> Test:
    return lambda value: isinstance(value, kind)


def _numbers(value: Any) -> bool:
    return isinstance(value, str) and value in NUMBER_TYPES


def _shape(value: Any) -> bool:
    return isinstance(value, list) and all(map(_number(0), value))


def _form(value: Any) -> bool:
    kind = value.get("as") if isinstance(value, Mapping) else None
    return isinstance(kind, str) and kind in _FORMS and _wrong(value, _FORMS[kind]) is None


_FORMS: dict[str, dict[str, Test]] = {
    "array": {"dtype": _numbers, "shape": _shape, "top": _number(1), "product": _of(bool)},
    "text": {},
    "tokens": {"dtype": _numbers},
    "events": {"dtype": _numbers},
    "images": {"mode": _of(str), "top": _number(1, 255)},
    "image": {"mode": _of(str), "top": _number(1, 255)},
}
_HEADER: dict[str, Test] = {
    "form": _form,
    "total": _number(0),
    "rows": _number(1, MOST_ROWS),
    "settings": _of(dict),
    "precision": lambda value: value == PRECISION,
    "seed": _number(0, LARGEST_SEED),
    "weights": _of(str),
    "fingerprint": _of(str),
    "platform": _of(str),
    "versions": _of(dict),
}

__all__ = ["LARGEST_SEED", "MOST_ROWS", "NUMBER_TYPES", "wrong_field"]
