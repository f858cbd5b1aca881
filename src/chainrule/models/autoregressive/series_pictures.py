"""Pictures of a model of series: a forecast, what was unexpected, how far back it looks."""

import numpy as np
from jaxtyping import Float

from chainrule.core.pictures import Lines

_BAND = (0.05, 0.95)


def forecast(
    x: Float[np.ndarray, "time features"], futures: Float[np.ndarray, "futures steps features"]
) -> Lines:
    """The end of a series, and where continuations that were drawn from the model lie."""
    known = len(x) - futures.shape[1]
    low, middle, high = np.quantile(futures[..., 0], (_BAND[0], 0.5, _BAND[1]), axis=0)
    return Lines(
        "forecast",
        "Forecast of a held-out series",
        "step",
        "first number of the series, model units",
        {
            "series": (np.arange(len(x)), x[:, 0]),
            "forecast, 90 %": (np.arange(known, len(x)), middle, low, high),
        },
        marks=[(known - 0.5, "known before")],
        caption=f"{len(futures)} continuations drawn from the model: their median, and where 90 % of them lie.",
    )


def unexpected(nats: Float[np.ndarray, " time"]) -> Lines:
    """Minus the log-density of every step given those before it."""
    return Lines(
        "anomaly",
        "How unexpected each step of a held-out series is",
        "step",
        "minus log-density, nats",
        {"anomaly": (np.arange(len(nats)), nats)},
        marks=[(float(nats.argmax()), "most")],
    )


def memory(slopes: Float[np.ndarray, " lags"], field: int) -> Lines:
    """How much the next value depends on each of those before it, the latest first; `field` of them can count."""
    lags = np.arange(1, len(slopes) + 1)
    marks = [(float(field), "receptive field")] if field < len(slopes) else []
    return Lines(
        "memory",
        "How far back it looks",
        "steps back",
        "influence on the next value",
        {"mean slope": (lags, slopes)},
        marks=marks,
        caption=f"Derivative of the next value's distribution by each value before it. It can see {field:,} of them.",
    )


__all__ = ["forecast", "memory", "unexpected"]
