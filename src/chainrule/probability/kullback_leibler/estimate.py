"""The Kullback-Leibler divergence estimated from draws, with its standard error.

Two unbiased estimators with the same draws X from p, where r = q(X) / p(X): the plain mean of -log r, and the mean of
r - 1 - log r, of which no term is negative and which is far less noisy where p and q are close. The second one needs
q to live inside the support of p, and has heavy tails where q is the wider of the two.

Reference: Schulman, Approximating KL divergence, 2020.
"""

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ChainruleWarning, check_choice
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.monte_carlo.importance import UNRELIABLE, weight_report

_SURE = 5.0
"""Standard errors by which a mean weight differs from one beyond doubt."""


class KLEstimate(NamedTuple):
    """An estimate with its standard error, in nats."""

    value: Float[Array, "*batch"]
    standard_error: Float[Array, "*batch"]

    @property
    def bits(self) -> Float[Array, "*batch"]:
        """The value in bits: how much longer messages from p are, on average, in the code made for q."""
        return self.value / math.log(2)


def estimate_kl(
    p: Distribution, q: Distribution, key: Key, samples: int = 10_000, form: str = "plain"
) -> KLEstimate:
    """KL(p || q) from `samples` draws of p; `form="nonneg"` is less noisy where both are close.

    A warning says where the draws show that the second form cannot be trusted.

    >>> import jax
    >>> from chainrule.probability import Normal
    >>> found = estimate_kl(Normal(0.0, 1.0), Normal(0.1, 1.0), jax.random.key(0), form="nonneg")
    >>> bool(abs(found.value - 0.005) < 4 * found.standard_error)
    True
    """
    check_choice("estimate_kl", "form", form, FORMS)
    samples = whole("estimate_kl", "samples", samples, least=2)
    drawn = p.sample(key, samples)
    log_ratio = q.log_prob(drawn) - p.log_prob(drawn)
    terms = FORMS[form](log_ratio)
    value, error = mean_and_error(terms)
    if form == "nonneg" and not isinstance(log_ratio, jax.core.Tracer):
        concern = _concern(log_ratio)
        if concern:
            warnings.warn(f'estimate_kl: {concern}; use form="plain"', ChainruleWarning, stacklevel=2)
    return KLEstimate(value, error)


def mean_and_error(
    terms: Float[Array, "draws *batch"],
) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"]]:
    """Mean and its standard error; an infinite term makes the mean infinite, for certain."""
    value = terms.mean(axis=0)
    known = jnp.isfinite(value)
    spread = jnp.where(known[None], terms - jnp.where(known, value, 0.0)[None], 0.0)
    return value, jnp.sqrt(jnp.square(spread).sum(axis=0) / (len(terms) * (len(terms) - 1)))


def _concern(log_ratio: Float[Array, "draws *batch"]) -> str:
    """Why the weights q/p are not to be trusted, if they are not."""
    report = weight_report(np.asarray(log_ratio, np.float64), warn=False)
    weights = np.exp(np.asarray(log_ratio, np.float64))
    lost = 1 - weights.mean(axis=0)
    if (lost > _SURE * weights.std(axis=0) / math.sqrt(len(weights))).any():
        return (
            f"q lives outside the support of p with probability {lost.max():.2g}, which this form never sees"
        )
    return report.concern() if (report.pareto_k > UNRELIABLE).any() else ""


def _plain(log_ratio: Array) -> Array:
    return -log_ratio


def _nonneg(log_ratio: Array) -> Array:
    return jnp.expm1(log_ratio) - log_ratio


FORMS: dict[str, Callable[[Array], Array]] = {"plain": _plain, "nonneg": _nonneg}

__all__ = ["FORMS", "KLEstimate", "estimate_kl", "mean_and_error"]
