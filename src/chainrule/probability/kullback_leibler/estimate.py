"""The Kullback-Leibler divergence estimated from draws, with its standard error.

Two unbiased estimators with the same draws X from p, where r = q(X) / p(X): the plain mean of -log r, and the mean of
r - 1 - log r, of which no term is negative and which is far less noisy where p and q are close. The second one needs
q to live inside the support of p, and has heavy tails where q is the wider of the two.

Reference: Schulman, Approximating KL divergence, 2020.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import check_choice
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Distribution

FORMS = ("plain", "nonneg")


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
    terms = _FORMS[form](log_ratio)
    value = terms.mean(axis=0)
    # Where q gives a draw no probability at all the divergence is infinite, and certain.
    spread = jnp.where(jnp.isfinite(terms), terms - jnp.where(jnp.isfinite(value), value, 0.0)[None], 0.0)
    error = jnp.sqrt(jnp.square(spread).sum(axis=0) / (samples * (samples - 1)))
    return KLEstimate(value, jnp.where(jnp.isfinite(value), error, 0.0))


def _plain(log_ratio: Array) -> Array:
    return -log_ratio


def _nonneg(log_ratio: Array) -> Array:
    return jnp.expm1(log_ratio) - log_ratio


_FORMS: dict[str, Any] = {"plain": _plain, "nonneg": _nonneg}

__all__ = ["FORMS", "KLEstimate", "estimate_kl"]
