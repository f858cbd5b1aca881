"""The autoregressive process of order p: its distribution, its likelihood and its forecasts, all in closed form.

`x_t = mean + Σ_k a_k (x_{t-k} - mean) + e_t` with independent Gaussian `e_t`. Everything about its stationary
distribution follows from the partial autocorrelations: they are the last coefficients of the best predictors of orders
1 to p, and the distribution exists exactly if all of them lie within (-1, 1).
"""

from typing import Literal, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key, Scalar

Start: TypeAlias = Literal["stationary", "noise", "given"]
STARTS = ("stationary", "noise", "given")


class Forecast(NamedTuple):
    """What comes next, each an array (batch, steps)."""

    mean: np.ndarray
    std: np.ndarray
    low: np.ndarray
    high: np.ndarray
    truncated: bool
    """Whether the history was longer than what the model looks back on."""


class Predictors(NamedTuple):
    """The best predictors from 0 to p past values of a stationary process."""

    weights: tuple[Float[Array, " past"], ...]
    """`weights[k][j]` belongs to the value j + 1 steps back."""
    shares: Float[Array, " orders"]
    """The share of the variance each of them leaves unexplained."""


@jax.jit
def predictors(partial: Float[Array, " order"]) -> Predictors:
    """From partial autocorrelations to coefficients (Levinson, 1947, and Durbin, 1960).

    >>> predictors(jnp.array([0.5, -0.2])).weights[2].round(3).tolist()
    [0.6000000238418579, -0.20000000298023224]
    """
    weights = [partial[:0]]
    for number in range(len(partial)):
        last, r = weights[-1], partial[number]
        weights.append(jnp.append(last - r * last[::-1], r))
    shares = jnp.cumprod(jnp.append(jnp.ones(1, partial.dtype), 1 - jnp.square(partial)))
    return Predictors(tuple(weights), shares)


@jax.jit
def partial_autocorrelations(coefficients: Float[Array, " order"]) -> Float[Array, " order"]:
    """The way back: from coefficients to partial autocorrelations, all within (-1, 1) if and only if stationary.

    >>> partial_autocorrelations(jnp.array([0.6, -0.2])).round(3).tolist()
    [0.5, -0.20000000298023224]
    """
    found = []
    a = coefficients
    for _ in range(len(coefficients)):
        r = a[-1]
        found.append(r)
        a = (a[:-1] + r * a[-2::-1]) / (1 - jnp.square(r))
    return jnp.stack(found[::-1])


@final
class ARProcess(eqx.Module):
    """An AR(p) process with known parameters.

    >>> process = ARProcess(mean=0.0, coefficients=[0.8], variance=1.0)
    >>> round(float(process.autocovariances(2)[0]), 4), process.is_stationary
    (2.7778, True)
    """

    mean: Scalar
    coefficients: Float[Array, " order"]
    variance: Scalar
    """Of the noise."""

    def __init__(self, mean: object, coefficients: object, variance: object) -> None:
        self.mean = jnp.asarray(mean, jnp.result_type(float))
        self.coefficients = jnp.asarray(coefficients, jnp.result_type(float))
        self.variance = jnp.asarray(variance, jnp.result_type(float))

    @property
    def order(self) -> int:
        """How many past values matter."""
        return len(self.coefficients)

    def roots(self) -> np.ndarray:
        """Roots of `1 - Σ a_k z^k`; the process is stationary if all lie outside the unit circle."""
        return np.roots([*(-np.asarray(self.coefficients, np.float64))[::-1], 1.0])

    @property
    def is_stationary(self) -> bool:
        """Whether a stationary distribution exists."""
        return bool((np.abs(self.roots()) > 1).all())

    def partial_autocorrelations(self) -> Float[Array, " order"]:
        """Correlations of values k steps apart once those between are accounted for."""
        return partial_autocorrelations(self.coefficients)

    def autocovariances(self, lags: int) -> Float[Array, " lags"]:
        """Covariance of values 0 to `lags` steps apart, in the stationary distribution."""
        self._require_stationary()
        return self._autocovariances(lags)

    @eqx.filter_jit
    def _autocovariances(self, lags: int) -> Float[Array, " lags"]:
        known = predictors(self.partial_autocorrelations())
        rho = [jnp.ones((), self.coefficients.dtype)]
        for k in range(1, lags + 1):
            weights = known.weights[min(k, self.order)]
            rho.append(weights @ jnp.stack(rho[::-1][: len(weights)]))
        return self.variance / known.shares[-1] * jnp.stack(rho)

    @eqx.filter_jit
    def responses(self, steps: int) -> Float[Array, " steps"]:
        """What a unit of noise adds to the value 0, 1, ... steps later."""
        found = [jnp.ones((), self.coefficients.dtype)]
        for k in range(1, steps):
            reach = min(k, self.order)
            found.append(self.coefficients[:reach] @ jnp.stack(found[::-1][:reach]))
        return jnp.stack(found)

    def variances(self, steps: int, start: Start = "stationary") -> Float[Array, " steps"]:
        """Variance of the first values: constant in the stationary distribution, growing from a start in noise."""
        check_choice("variances", "start", start, STARTS[:2])
        if start == "stationary":
            return jnp.broadcast_to(self.autocovariances(0), (steps,))
        return self.variance * jnp.cumsum(jnp.square(self.responses(steps)))

    def log_prob(self, x: Float[Array, "batch time"], start: Start = "stationary") -> Float[Array, " batch"]:
        """Exact log-likelihood of each series.

        `stationary`: the first values follow the stationary distribution. `noise`: the series begins at its mean, with
        the first noise. `given`: the first p values are not scored.
        """
        return self.log_densities(x, start).sum(axis=1)

    def log_densities(
        self, x: Float[Array, "batch time"], start: Start = "stationary"
    ) -> Float[Array, "batch scored"]:
        """The log-density of each value given those before it, of all that are scored; they sum to `log_prob`."""
        check_choice("log_prob", "start", start, STARTS)
        if start == "stationary":
            self._require_stationary()
        return self._log_densities(x, start)

    @eqx.filter_jit
    def _log_densities(self, x: Float[Array, "batch time"], start: Start) -> Float[Array, "batch scored"]:
        deviation = x - self.mean
        reach = min(self.order, x.shape[1])
        residual = self._residuals(deviation)
        spread = jnp.broadcast_to(self.variance, residual.shape[1:])
        if start == "given":
            return jax.scipy.stats.norm.logpdf(residual[:, reach:], scale=jnp.sqrt(spread[None, reach:]))
        if start == "stationary":
            known = predictors(self.partial_autocorrelations())
            expected = [deviation[:, :t][:, ::-1] @ known.weights[t] for t in range(reach)]
            first = deviation[:, :reach] - jnp.stack(expected, axis=1)
            residual = jnp.concatenate([first, residual[:, reach:]], axis=1)
            begun = self.variance * known.shares[:reach] / known.shares[-1]
            spread = jnp.concatenate([begun, spread[reach:]])
        return jax.scipy.stats.norm.logpdf(residual, scale=jnp.sqrt(spread)[None])

    def sample(
        self,
        key: Key,
        n: int,
        steps: int,
        start: Start = "stationary",
        history: Float[Array, "n past"] | None = None,
    ) -> Float[Array, "n steps"]:
        """New series; with `start="given"` they go on from `history`."""
        check_choice("sample", "start", start, STARTS)
        noise = jnp.sqrt(self.variance) * jax.random.normal(key, (n, steps), self.coefficients.dtype)
        recent = jnp.zeros((n, self.order), noise.dtype)  # latest first, zero before a start in noise
        head: list[Array] = []
        if start == "given":
            recent = self._recent(history)
        elif start == "stationary":
            self._require_stationary()
            known = predictors(self.partial_autocorrelations())
            for t in range(min(self.order, steps)):
                past = jnp.stack(head[::-1], axis=1) if head else noise[:, :0]
                spread = jnp.sqrt(known.shares[t] / known.shares[-1])
                head.append(past @ known.weights[t] + spread * noise[:, t])
            recent = jnp.concatenate([jnp.stack(head[::-1], axis=1), recent], axis=1)[:, : self.order]

        def step(recent: Array, e: Array) -> tuple[Array, Array]:
            value = recent @ self.coefficients + e
            return jnp.concatenate([value[:, None], recent[:, :-1]], axis=1), value

        _, rest = jax.lax.scan(step, recent, noise[:, len(head) :].T)
        return self.mean + jnp.concatenate([*(value[:, None] for value in head), rest.T], axis=1)

    def forecast(self, history: Float[Array, "batch past"], steps: int, level: float = 0.95) -> Forecast:
        """The next values with intervals that hold each with probability `level`, the parameters taken as true."""
        if not 0 < level < 1:
            raise ArgumentError(f"forecast(level={level}): level must lie between 0 and 1")
        if steps < 1:
            raise ArgumentError(f"forecast(steps={steps}): steps must be at least 1")
        recent = self._recent(history)
        means = []
        for _ in range(steps):
            value = recent @ self.coefficients
            means.append(value)
            recent = jnp.concatenate([value[:, None], recent[:, :-1]], axis=1)
        mean = np.asarray(self.mean + jnp.stack(means, axis=1))
        std = np.broadcast_to(np.sqrt(np.asarray(self.variances(steps, "noise")))[None, :], mean.shape)
        half = scipy.stats.norm.ppf((1 + level) / 2) * std
        return Forecast(mean, std, mean - half, mean + half, history.shape[1] > self.order)

    def _recent(self, history: Float[Array, "batch past"] | None) -> Float[Array, "batch order"]:
        """The last p deviations from the mean, latest first."""
        length = 0 if history is None else history.shape[1]
        if history is None or length < self.order:
            raise ArgumentError(
                f"a history of {length} values: order {self.order} looks back on {self.order}",
                remedy=f"give at least {self.order} values as history, shape (batch, time)",
            )
        return (history - self.mean)[:, ::-1][:, : self.order]

    def _residuals(self, deviation: Float[Array, "batch time"]) -> Float[Array, "batch time"]:
        """What is left of each value after the prediction from the p before it, zeros before the beginning."""
        time = deviation.shape[1]
        padded = jnp.pad(deviation, ((0, 0), (self.order, 0)))
        explained = jnp.zeros_like(deviation)
        for k in range(1, self.order + 1):
            explained += self.coefficients[k - 1] * padded[:, self.order - k : self.order - k + time]
        return deviation - explained

    def _require_stationary(self) -> None:
        # Inside a compiled function there are no values to look at; there the model keeps them stationary.
        if isinstance(self.coefficients, jax.core.Tracer) or self.is_stationary:
            return
        worst = float(np.abs(self.roots()).min())
        raise ArgumentError(
            f"no stationary distribution: a root of 1 - Σ a_k z^k has modulus {worst:.4g}, not above 1",
            remedy="use start='noise'",
        )


__all__ = ["STARTS", "ARProcess", "Forecast", "Predictors", "Start", "partial_autocorrelations", "predictors"]
