"""The period at which a periodic kernel begins: that of the strongest wave in the training examples."""

import numpy as np
from jaxtyping import Float

from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.models.kernel import keeping
from chainrule.models.kernel.settings import median_distance, rows

SHOWN = 1000
"""Examples in which waves are looked for."""
_STEPS = 4
"""Frequencies that are tried for every further wave along the column."""


def usual_period(data: Data) -> float:
    """Of values over one column the period of their strongest wave; else the median distance of examples."""
    if data.schema.dimensions != 1 or not targets.of(data.schema).has_values:
        return median_distance(data)
    batch = data.train.batch(keeping.spread(len(data.train), SHOWN))
    return strongest(rows(batch.x)[:, 0], rows(batch.y)) or median_distance(data)


def strongest(x: Float[np.ndarray, " rows"], y: Float[np.ndarray, "rows outputs"]) -> float:
    """The period of the wave that holds most of what a straight line leaves; zero where there is none to be found.

    >>> x = np.linspace(0, 10, 101)
    >>> round(strongest(x, (np.sin(2 * np.pi * x / 2.5) + 0.3 * x)[:, None]), 2)
    2.5
    """
    span, most = float(np.ptp(x)), len(x) // 2
    if span <= 0 or most < 2:
        return 0.0
    line = np.stack([np.ones(len(x)), x], axis=1)
    left = y - line @ np.linalg.lstsq(line, y, rcond=None)[0]
    frequencies = np.arange(_STEPS, _STEPS * most + 1) / (_STEPS * span)
    power = np.square(np.abs(np.exp(-2j * np.pi * np.outer(frequencies, x)) @ left)).sum(axis=1)
    best = int(power.argmax())
    return 1 / float(frequencies[best]) if power[best] > 0 else 0.0


__all__ = ["SHOWN", "strongest", "usual_period"]
