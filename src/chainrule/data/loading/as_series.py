"""Tables as series: options that make the rows of a table one long series, chosen where nobody has.

A model of series can do nothing with rows that have no order. Columns that only say when a row was taken (dates, and
numbers that count up) are left out: the order of the rows says it already.
"""

from typing import Any

import numpy as np

from chainrule.data import kinds
from chainrule.data.dataset import Data

_EXAMPLES = 32
"""Examples that a series is to give at least, unless they would become shorter than `_SHORTEST` steps."""
_SHORTEST, _LONGEST = 16, 256


def series_options(data: Data) -> dict[str, Any]:
    """Options that make one series of the rows of these data; nothing where examples are no rows.

    >>> from chainrule.data import load
    >>> series_options(load("cycles"))
    {}
    """
    if not kinds.of(data.schema).has_rows:
        return {}
    x = np.concatenate([np.asarray(part.x) for part in (data.train, data.val, data.test) if len(part)])
    found: dict[str, Any] = {"series": _window(len(x))}
    clocks = _clocks(data, x)
    return {**found, "drop": [*data.source.get("drop", ()), *clocks]} if clocks else found


def _window(rows: int) -> int:
    """Steps of an example.

    >>> [_window(rows) for rows in (30, 400, 2000, 100_000)]
    [10, 16, 62, 256]
    """
    return min(max(2, rows // 3), max(_SHORTEST, min(_LONGEST, rows // _EXAMPLES)))


def _clocks(data: Data, x: np.ndarray) -> list[str]:
    """Names of columns that say when a row was taken, unless no other would be left."""
    found, others, first = [], 0, 0
    for plan in data.reading.columns if data.reading is not None else ():
        values = x[:, first : first + len(plan.features)]
        first += len(plan.features)
        if plan.reading is None or not plan.features:
            continue
        if plan.reading.tells_time or (values.shape[1] == 1 and _counts(values[:, 0])):
            found.append(plan.name)
        else:
            others += 1
    return found if others else []


def _counts(values: np.ndarray) -> bool:
    """Whether numbers, in any order, go up by the same step each time.

    >>> _counts(np.array([3.0, 1, 2, 4])), _counts(np.array([1.0, 2, 4, 8])), _counts(np.array([1.0, 1]))
    (True, False, False)
    """
    steps = np.diff(np.sort(values.astype(np.float64)))
    return bool(len(steps) > 1 and steps.min() > 0 and np.ptp(steps) <= 1e-3 * steps.mean())


__all__ = ["series_options"]
