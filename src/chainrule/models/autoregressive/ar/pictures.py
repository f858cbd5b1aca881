"""Pictures of an autoregressive process: autocorrelation, coefficients, roots, forecasts."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Lines, Picture, Scatter, Table
from chainrule.models.autoregressive.ar.fitting import METHODS, autocovariances, fit
from chainrule.models.autoregressive.ar.process import ARProcess

_LAGS = 30
_FUTURE = 24
_MOST = 2_000
"""Series that averages are taken over."""


def all_of(process: ARProcess, train: np.ndarray, held_out: np.ndarray) -> Sequence[Picture]:
    """Every picture, from training and held-out series (one a row)."""
    found: list[Picture] = [halves(train[:_MOST])]
    if process.is_stationary:
        found.insert(0, autocorrelation(process, held_out[:_MOST]))
    steps = held_out.shape[1]
    if steps > process.order + 1:
        found.append(forecast(process, held_out[0]))
    if steps > 2 * process.order:
        found.append(coefficients(process, train[:_MOST]))
    return [*found, roots(process)]


def autocorrelation(process: ARProcess, x: np.ndarray) -> Picture:
    """Correlation over the distance in time: held-out series, and what the process implies."""
    lags = min(_LAGS, x.shape[1] - 1)
    data, own = autocovariances(x, lags), np.asarray(process.autocovariances(lags))
    steps = np.arange(lags + 1)
    # Sums over shorter and shorter overlaps are divided by the whole length; the process is shown with the same factor.
    taper = 1 - steps / x.shape[1]
    return Lines(
        "autocorrelation",
        "Autocorrelation",
        "lag",
        "correlation",
        {
            "held-out series": (steps, data / data[0]),
            "the process": (steps, own / own[0]),
            "the process, shrunk alike": (steps, taper * own / own[0]),
        },
        caption="Estimates from short series shrink with the lag; the third curve shrinks the theory alike.",
    )


def halves(x: np.ndarray) -> Picture:
    """Mean and autocovariance on both halves of the series: alike if the series is stationary."""
    middle = x.shape[1] // 2
    first, second = x[:, :middle], x[:, middle : 2 * middle]
    lags = min(_LAGS, middle - 1)
    steps = np.arange(lags + 1)
    return Lines(
        "stationarity",
        "Both halves of the series",
        "lag",
        "autocovariance",
        {
            f"first half, mean {first.mean():.3g}": (steps, autocovariances(first, lags)),
            f"second half, mean {second.mean():.3g}": (steps, autocovariances(second, lags)),
        },
        caption="A stationary series has the same mean and the same autocovariances everywhere.",
    )


def forecast(process: ARProcess, x: np.ndarray) -> Picture:
    """A held-out series, forecast from its middle on."""
    known = max(process.order, len(x) // 2)
    found = process.forecast(jnp.asarray(x[None, :known]), min(_FUTURE, len(x) - known))
    ahead = np.arange(known, known + found.mean.shape[1])
    return Lines(
        "forecast",
        "Forecast of a held-out series",
        "step",
        "value",
        {
            "series": (np.arange(len(x)), x),
            "forecast, 95 %": (ahead, found.mean[0], found.low[0], found.high[0]),
        },
        marks=[(float(known), "known before")],
    )


def coefficients(process: ARProcess, x: np.ndarray) -> Picture:
    """The trained coefficients beside those of the closed forms on the same series."""
    rows: list[list[str | float | int]] = []
    for name, one in {"trained": process, **{m: fit(x, process.order, m) for m in METHODS}}.items():
        values = [*np.asarray(one.coefficients), float(one.mean), float(one.variance)]
        rows.append([name, *(float(f"{value:.5g}") for value in values)])
    names = [f"a{k}" for k in range(1, process.order + 1)]
    return Table(
        "coefficients", "Coefficients by every method", ["method", *names, "mean", "noise variance"], rows
    )


def roots(process: ARProcess) -> Picture:
    """Inverse roots of `1 - Σ a_k z^k`; inside the unit circle means stationary."""
    inverse = 1 / process.roots()
    angle = np.linspace(0, 2 * np.pi, 200)
    return Scatter(
        "roots",
        "Inverse roots",
        "real part",
        "imaginary part",
        {
            "inverse roots": np.stack([inverse.real, inverse.imag], axis=1),
            "unit circle": np.stack([np.cos(angle), np.sin(angle)], axis=1),
        },
        caption="All inside the circle: the process is stationary. The nearer to it, the longer the memory.",
    )


__all__ = ["all_of", "autocorrelation", "coefficients", "forecast", "halves", "roots"]
