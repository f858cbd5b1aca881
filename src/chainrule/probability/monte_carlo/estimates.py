"""Means from draws with their standard errors, and ways to make these smaller.

Antithetic draws come in pairs u and 1 - u, whose errors cancel where the function is monotone; quasi-random ones
(scrambled Sobol points) fill the cube evenly; control variates take off what correlates with something whose mean is
known; weights turn draws of one distribution into those of another.

References: Owen, Monte Carlo theory, methods and examples, 2013; Owen, Scrambled net variance, 1997.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp
from scipy.stats import qmc

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, ChainruleWarning, check_choice
from chainrule.core.types import Array, Key
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.monte_carlo.importance import WeightReport, weight_report

METHODS = ("plain", "antithetic", "quasi")
_SCRAMBLES = 16
"""Scrambled copies of one net: from their differences comes the standard error."""


@final
class MeanEstimate(NamedTuple):
    """A mean over draws and its standard error, `[...]`."""

    value: np.ndarray
    standard_error: np.ndarray

    def interval(self, deviations: float = 1.96) -> tuple[np.ndarray, np.ndarray]:
        """Ends of an interval around the mean, so many standard errors to both sides."""
        return self.value - deviations * self.standard_error, self.value + deviations * self.standard_error


def log_evidence(
    log_likelihood: Callable[[Array], Array],
    prior: Distribution,
    key: Key,
    *,
    proposal: Distribution | None = None,
    draws: int = 10_000,
    warn: bool = True,
) -> WeightReport:
    """log p(x), the logarithm of the mean of p(x | z) over the prior; `log_likelihood` takes one z.

    With a `proposal` q the draws are its, with weights p(x | z) p(z) / q(z); it must have mass wherever the posterior
    has. The posterior itself is the best: its weights are all p(x). Taken by log-sum-exp; the report has the bias and
    standard error of the logarithm by the jackknife, the effective sample size and the Pareto k of the weights.

    >>> from chainrule.probability import Normal
    >>> def log_likelihood(z):  # x = 2 was drawn from N(z, 1)
    ...     return Normal(z, 1.0).log_prob(2.0)
    >>> posterior = Normal(1.0, math.sqrt(0.5))
    >>> report = log_evidence(log_likelihood, Normal(0.0, 1.0), jax.random.key(0), proposal=posterior, draws=100)
    >>> round(float(report.log_mean), 4), bool(report.standard_error < 1e-6)
    (-2.2655, True)
    """
    draws = whole("log_evidence", "draws", draws, least=2)
    source = prior if proposal is None else proposal
    if source.batch_shape or source.event_shape != prior.event_shape:
        raise ArgumentError(
            f"log_evidence: the proposal draws shape {source.batch_shape + source.event_shape}, the prior "
            f"{prior.event_shape}",
            remedy="give one distribution over the same z",
        )
    z = source.sample(key, draws)
    logs = eqx.filter_jit(jax.vmap(log_likelihood))(z)
    if proposal is not None:
        logs = logs + prior.log_prob(z) - proposal.log_prob(z)
    report = weight_report(logs, warn=False)
    if warn and (concern := report.concern()):
        warnings.warn(concern, ChainruleWarning, stacklevel=2)
    return report


def self_normalized(values: Any, log_weights: Any, *, warn: bool = True) -> MeanEstimate:
    """The mean of `values` `[draws, ...]` under a density known up to a factor, from its `log_weights` `[draws]`.

    Weights are divided by their sum, so neither density need be normalised; the estimate is biased by the order of one
    over the draws. A warning says where the tail of the weights is too heavy.

    >>> found = self_normalized([1.0, 5.0], [0.0, math.log(3.0)], warn=False)
    >>> round(float(found.value), 6)
    4.0
    """
    f, logs = np.asarray(values, np.float64), np.asarray(log_weights, np.float64)
    if logs.ndim != 1 or len(f) != len(logs):
        raise ArgumentError(
            f"self_normalized: values of shape {f.shape}, log_weights of shape {logs.shape}; both have the draws first"
        )
    report = weight_report(logs, warn=False)
    if report.log_mean == -np.inf:
        raise ArgumentError("self_normalized: all weights are zero", remedy="use a wider proposal")
    if warn and (concern := report.concern()):
        warnings.warn(concern, ChainruleWarning, stacklevel=2)
    shares = np.exp(logs - logsumexp(logs))
    value = np.tensordot(shares, f, axes=1)
    return MeanEstimate(value, np.sqrt(np.tensordot(np.square(shares), np.square(f - value), axes=1)))


def control_variate(values: Any, controls: Any, means: Any) -> MeanEstimate:
    """The mean of `values` `[draws]`, with `controls` `[draws]` or `[draws, k]` whose `means` are known.

    What a linear regression on the controls explains is taken off; its bias is of the order of one over the draws.

    >>> u = np.linspace(0, 1, 101)
    >>> found = control_variate(2 * u + 1, u**1, 0.5)  # all of it is explained
    >>> float(found.value), float(found.standard_error) < 1e-12
    (2.0, True)
    """
    f, given = np.asarray(values, np.float64), np.asarray(controls, np.float64)
    given = given[:, None] if given.ndim == 1 else given
    known = np.atleast_1d(np.asarray(means, np.float64))
    if f.ndim != 1 or len(given) != len(f) or known.shape != given.shape[1:] or len(f) < len(known) + 2:
        raise ArgumentError(
            f"control_variate: values of shape {f.shape}, controls of shape {np.shape(controls)}, means of shape "
            f"{np.shape(means)}",
            remedy="give values (draws,), controls (draws, k), means (k,), and more draws than controls",
        )
    centred = given - given.mean(axis=0)
    slope = np.linalg.lstsq(centred, f - f.mean(), rcond=None)[0]
    left = f - f.mean() - centred @ slope
    value = f.mean() - (given.mean(axis=0) - known) @ slope
    return MeanEstimate(
        np.asarray(value), np.sqrt(np.square(left).sum() / (len(f) - len(known) - 1) / len(f))
    )


def uniform_mean(
    f: Callable[[Array], Array], dimensions: int, key: Key, *, draws: int = 4096, method: str = "quasi"
) -> MeanEstimate:
    """The mean of `f` of one point `[dimensions]` over the unit cube.

    Any distribution is reached through its quantiles, normal ones by `jax.scipy.special.ndtri`. Draws are "plain",
    "antithetic" (pairs u, 1 - u) or "quasi": 16 scrambled Sobol nets, whose spread gives the standard error. For the
    last, `draws` should be 16 times a power of two.

    >>> found = uniform_mean(lambda u: jnp.exp(u[0]), 1, jax.random.key(0))
    >>> bool(abs(found.value - (math.e - 1)) < 1e-5)
    True
    """
    check_choice("uniform_mean", "method", method, METHODS)
    dimensions = whole("uniform_mean", "dimensions", dimensions)
    draws = whole("uniform_mean", "draws", draws, least=2 * _SCRAMBLES)
    points, groups = _points(method, dimensions, key, draws)
    values = np.asarray(eqx.filter_jit(jax.vmap(f))(jnp.asarray(points)), np.float64)
    means = values.reshape(groups, -1, *values.shape[1:]).mean(axis=1)
    return MeanEstimate(means.mean(axis=0), means.std(axis=0, ddof=1) / math.sqrt(groups))


def _points(method: str, dimensions: int, key: Key, draws: int) -> tuple[np.ndarray, int]:
    """Points of the cube, and how many groups of them, one after the other, are independent."""
    if method == "quasi":
        net = draws // _SCRAMBLES
        if net & (net - 1):
            raise ArgumentError(
                f'uniform_mean(draws={draws}, method="quasi"): nets have a power of two of points',
                remedy=f"draws={_SCRAMBLES * 2 ** round(math.log2(net))}",
            )
        seeds = np.asarray(jax.random.randint(key, (_SCRAMBLES,), 0, 2**31 - 1))
        nets = [qmc.Sobol(dimensions, seed=int(seed)).random(net) for seed in seeds]
        inside = np.concatenate(nets).astype(np.float32)
        return np.clip(inside, np.finfo(np.float32).tiny, 1 - 2**-24), _SCRAMBLES
    if method == "antithetic":
        half = np.asarray(jax.random.uniform(key, (draws // 2, dimensions), minval=2**-24, maxval=1.0))
        return np.stack([half, 1 - half], axis=1).reshape(-1, dimensions), draws // 2
    return np.asarray(jax.random.uniform(key, (draws, dimensions), minval=2**-24, maxval=1.0)), draws


__all__ = [
    "METHODS",
    "MeanEstimate",
    "control_variate",
    "log_evidence",
    "self_normalized",
    "uniform_mean",
]
