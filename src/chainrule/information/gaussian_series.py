"""Information rates of stationary Gaussian processes, from autoregressions, autocovariances, spectra or paths.

With s² the variance, e² that of what the past does not predict, and r² that of what past and future do not, the
information rate is 1/2 log(s²/e²) and the predictive information rate 1/2 log(e²/r²). In terms of the spectrum S over
all frequencies, s² is the mean of S, e² its geometric mean (Szegő and Kolmogorov), r² its harmonic mean.

Reference: Abdallah and Plumbley, Predictive information in Gaussian processes with application to music analysis, 2013.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.linalg import solve_discrete_lyapunov, solve_toeplitz

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.information.units import scale, takes_base


@final
@dataclass(frozen=True, eq=False)
class GaussianRates:
    """What the present of a stationary Gaussian process shares with its past and its future."""

    unit: str
    information_rate: float
    """I(present; past) = 1/2 log(variance / innovation)."""
    predictive_information_rate: float
    """I(present; future given past) = 1/2 log(innovation / interpolation)."""
    variance: float
    innovation: float
    """Variance that is left when the past is known."""
    interpolation: float
    """Variance that is left when past and future are known."""
    coefficients: np.ndarray
    """Of the autoregression x_t = sum_i a_i x_(t-i) + noise; empty where a spectrum was given."""

    def __str__(self) -> str:
        return (
            f"information rate {self.information_rate:.6f}, predictive information rate "
            f"{self.predictive_information_rate:.6f} {self.unit} per sample"
        )


@takes_base
def gaussian_rates(
    coefficients: Any = None,
    *,
    autocovariance: Any = None,
    spectrum: Any = None,
    noise: float = 1.0,
    unit: str = "bits",
) -> GaussianRates:
    """Rates of a stationary Gaussian process, given in one of three ways.

    - `coefficients` a_1, a_2, ... of x_t = sum_i a_i x_(t-i) + noise of variance `noise`;
    - `autocovariance` at lags 0, 1, ..., p: the autoregression of order p that has it, by the Yule-Walker equations;
    - `spectrum`: S at equally spaced frequencies of the whole circle, 2 pi k / count.

    >>> print(gaussian_rates([0.8]))
    information rate 0.736966, predictive information rate 0.356848 bits per sample
    """
    factor = scale(unit, "gaussian_rates") / 2
    if sum(one is not None for one in (coefficients, autocovariance, spectrum)) != 1:
        raise ArgumentError(
            "gaussian_rates: give one of coefficients, autocovariance and spectrum, and one only"
        )
    if spectrum is not None:
        variance, innovation, interpolation = _of_spectrum(spectrum)
        weights = np.zeros(0)
    else:
        if coefficients is not None:
            weights, innovation = _numbers("coefficients", coefficients), _positive("noise", noise)
        else:
            weights, innovation = _yule_walker(_numbers("autocovariance", autocovariance))
        variance = _variance(weights) * innovation
        interpolation = innovation / (1 + float(weights @ weights))
    return GaussianRates(
        unit,
        max(math.log(variance / innovation), 0.0) * factor,
        max(math.log(innovation / interpolation), 0.0) * factor,
        variance,
        innovation,
        interpolation,
        weights,
    )


def autocovariances(path: Any, lags: int) -> np.ndarray:
    """Autocovariances of a path at lags 0 to `lags`, divided by its length, so that they belong to a process.

    >>> autocovariances([1.0, -1.0, 1.0, -1.0], 2).tolist()
    [1.0, -0.75, 0.5]
    """
    values = _numbers("path", path, where="autocovariances")
    lags = whole("autocovariances", "lags", lags, least=0)
    if lags >= len(values):
        raise ArgumentError(f"autocovariances(lags={lags}): a path of {len(values)} has fewer lags")
    centred = values - values.mean()
    return np.array([centred[: len(values) - lag] @ centred[lag:] for lag in range(lags + 1)]) / len(values)


def _variance(weights: np.ndarray) -> float:
    """The variance of a stationary autoregression with unit noise: that of its state, a Lyapunov equation."""
    order = len(weights)
    companion = np.eye(order, k=-1)
    companion[:1] = weights
    if order and (largest := float(np.abs(np.linalg.eigvals(companion)).max())) >= 1:
        raise ArgumentError(
            f"gaussian_rates(coefficients={weights.tolist()}): is not stationary, its slowest mode has modulus "
            f"{largest:.4g}",
            remedy="all roots of 1 - a_1 z - a_2 z² - ... have to lie outside of the unit circle",
        )
    noise = np.zeros((order, order))
    noise[:1, :1] = 1.0
    return float(solve_discrete_lyapunov(companion, noise)[0, 0]) if order else 1.0


def _yule_walker(covariances: np.ndarray) -> tuple[np.ndarray, float]:
    if not covariances[0] > 0:
        raise ArgumentError(f"gaussian_rates(autocovariance): the variance at lag 0 is {covariances[0]:g}")
    later = covariances[1:]
    weights = solve_toeplitz(covariances[:-1], later) if len(later) else np.zeros(0)
    innovation = float(covariances[0] - weights @ later)
    if not innovation > 1e-12 * covariances[0]:
        raise ArgumentError(
            f"gaussian_rates(autocovariance): leaves an innovation of variance {innovation:.3g}; such a process is "
            "certain, or there is none"
        )
    return np.asarray(weights), innovation


def _of_spectrum(spectrum: Any) -> tuple[float, float, float]:
    values = _numbers("spectrum", spectrum)
    if not (values > 0).all():
        raise ArgumentError(
            f"gaussian_rates(spectrum): is {values.min():g} somewhere; a process with a gap in its spectrum is "
            "predicted without error",
            remedy="add the spectrum of the noise it is measured with",
        )
    return float(values.mean()), float(np.exp(np.log(values).mean())), float(1 / (1 / values).mean())


def _numbers(name: str, given: Any, where: str = "gaussian_rates") -> np.ndarray:
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"{where}({name}): needs a list of real numbers") from None
    if values.ndim != 1 or not np.isfinite(values).all() or (name != "coefficients" and not values.size):
        raise ArgumentError(f"{where}({name}): needs a list of finite numbers, not shape {values.shape}")
    return values


def _positive(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ArgumentError(f"gaussian_rates({name}={value}): a variance is positive")
    return float(value)


__all__ = ["GaussianRates", "autocovariances", "gaussian_rates"]
