"""The evidence lower bound of any pair of a joint density p(x, z) and a guide q(z), and what it is made of.

    log p(x) - KL(q || p(z|x)) = ELBO = E_q log p(x|z) - KL(q || p(z)) = E_q log p(x, z) + H(q)

It is to be maximised, its gap to the evidence is the divergence of the guide from the posterior, and the divergence
from the prior (guide first, prior second) is subtracted.
"""

import math
from typing import NamedTuple, Protocol, final, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.formatting import measured
from chainrule.core.types import Array, Key
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.kullback_leibler.pairs import closed_form
from chainrule.probability.variational.evidence import Evidence, LogJoint, exact_evidence


@runtime_checkable
class Guide(Protocol):
    """An approximate posterior: anything that draws and knows its density, such as a `Distribution`."""

    def sample(self, key: Key, shape: int | tuple[int, ...] = ()) -> Array:
        """So many draws."""

    def log_prob(self, x: Array) -> Array:
        """Their log-densities."""


@final
class NatsEstimate(NamedTuple):
    """A number in nats with its standard error, zero where it is exact."""

    value: float
    standard_error: float = 0.0

    def __str__(self) -> str:
        """As much of it as is known.

        >>> print(NatsEstimate(-1.23456, 0.012), NatsEstimate(0.5))
        −1.235 ± 0.012 0.5
        """
        return measured(self.value, self.standard_error if self.standard_error else None)


@final
class ElboReport(NamedTuple):
    """The bound, its two decompositions, and the evidence where it is known; all in nats."""

    elbo: NatsEstimate
    """E_q[log p(x, z) - log q(z)]."""
    joint: NatsEstimate
    """E_q log p(x, z)."""
    entropy: NatsEstimate
    """H(q)."""
    by_entropy: NatsEstimate
    """The bound as the sum of these two."""
    reconstruction: NatsEstimate | None
    """E_q log p(x|z), where the prior is known."""
    rate: NatsEstimate | None
    """KL(q || p(z)), where the prior is known."""
    by_rate: NatsEstimate | None
    """The bound as the difference of these two."""
    evidence: Evidence | None
    """log p(x), where it can be had exactly."""
    samples: int
    """Draws of the guide; 0 where the sum over all its values was taken."""

    @property
    def gap(self) -> NatsEstimate | None:
        """log p(x) - ELBO = KL(q || p(z|x)): zero if and only if the guide is the posterior."""
        if self.evidence is None:
            return None
        return NatsEstimate(self.evidence.value - self.elbo.value, self.elbo.standard_error)

    def free_energy(self, inverse_temperature: float = 1.0, log_normalization: float = 0.0) -> NatsEstimate:
        """`F = E_q energy - H(q) / b = -(ELBO + log Z) / b` for p(x, z) = exp(-b energy) / Z."""
        if not inverse_temperature > 0:
            raise ArgumentError(
                f"free_energy(inverse_temperature={inverse_temperature}): it must be above zero"
            )
        value = -(self.elbo.value + log_normalization) / inverse_temperature
        return NatsEstimate(value, self.elbo.standard_error / inverse_temperature)

    def __str__(self) -> str:
        """The bound, both decompositions, the evidence and the gap, a line each."""
        how = f"{self.samples:,} draws" if self.samples else "the sum over all values"
        lines = [f"ELBO      {self.elbo} nats, from {how}"]
        if self.by_rate is not None:
            lines.append(
                f"          {self.by_rate} = E log p(x|z) {self.reconstruction} - KL(q || p(z)) {self.rate}"
            )
        lines.append(f"          {self.by_entropy} = E log p(x, z) {self.joint} + H(q) {self.entropy}")
        if self.evidence is None:
            return "\n".join([*lines, "log p(x)  not known: more than three coordinates, and not Gaussian"])
        lines.append(f"log p(x)  {NatsEstimate(self.evidence.value)} nats, by {self.evidence.method}")
        return "\n".join([*lines, f"gap       {self.gap} nats = KL(q || p(z|x))"])


def elbo_report(
    log_joint: LogJoint,
    guide: Guide,
    key: Key | None = None,
    *,
    prior: Distribution | None = None,
    samples: int = 10_000,
) -> ElboReport:
    """The ELBO of a joint density and a guide, decomposed both ways, beside the exact evidence where there is one.

    `log_joint(z)` is log p(x, z) for one z, x being fixed. Guides with finitely many values are summed over; for others
    `samples` draws are taken, for which a `key` is needed. With a `prior` the reconstruction and the rate are told
    apart; divergences and entropies with a closed form are exact.

    >>> from chainrule.probability import Normal
    >>> def log_joint(z):  # z ~ N(0, 1), x | z ~ N(z, 1), x = 2
    ...     return Normal().log_prob(z) + Normal(z, 1.0).log_prob(2.0)
    >>> report = elbo_report(log_joint, Normal(1.0, 0.5**0.5), jax.random.key(0), prior=Normal())
    >>> abs(report.gap.value) < 1e-4  # this guide is the posterior
    True
    """
    samples = whole("elbo_report", "samples", samples, least=2)
    points, weights = _points(guide, key, samples)
    terms = _terms(log_joint, guide, prior, points)
    joint, minus_log_q, likelihood, log_ratio = (
        _mean(np.asarray(each, np.float64), weights) for each in (terms.joint, -terms.guide, *terms.split())
    )
    elbo = _mean(np.asarray(terms.joint - terms.guide, np.float64), weights)
    entropy = _entropy(guide, minus_log_q)
    latents = [one for one in (prior, guide) if isinstance(one, Distribution)]
    rate = None if prior is None else _rate(guide, prior, log_ratio)
    return ElboReport(
        elbo,
        joint,
        entropy,
        by_entropy=_sum(joint, 1.0, entropy, elbo),
        reconstruction=None if rate is None else likelihood,
        rate=rate,
        by_rate=None if rate is None else _sum(likelihood, -1.0, rate, elbo),
        evidence=exact_evidence(log_joint, *latents) if latents else None,
        samples=samples if weights is None else 0,
    )


class _Terms(NamedTuple):
    """Log-densities of every point."""

    joint: Array
    guide: Array
    prior: Array

    def split(self) -> tuple[Array, Array]:
        """log p(x|z), and log q(z) - log p(z)."""
        return self.joint - self.prior, self.guide - self.prior


def _points(guide: Guide, key: Key | None, samples: int) -> tuple[Array, np.ndarray | None]:
    """Values of z, and their probabilities unless they are draws."""
    if isinstance(guide, Distribution):
        if guide.batch_shape:
            raise ArgumentError(
                f"elbo_report: the guide is a batch of shape {guide.batch_shape}",
                remedy="report one example at a time, with the guide of that example",
            )
        atoms = guide.atoms()
        if atoms is not None:
            return atoms.points, np.asarray(atoms.weights, np.float64)
    if key is None:
        raise ArgumentError(
            "elbo_report: this guide is to be drawn from, and there is no key",
            remedy="pass one: key=jax.random.key(0)",
        )
    return guide.sample(key, samples), None


@eqx.filter_jit
def _terms(log_joint: LogJoint, guide: Guide, prior: Distribution | None, points: Array) -> _Terms:
    joint = jax.vmap(log_joint)(points)
    if joint.ndim != 1:
        raise ArgumentError(
            f"elbo_report: log_joint returned shape {joint.shape[1:]} for one z; it must return one number",
            remedy="sum over the entries of x and z",
        )
    return _Terms(joint, guide.log_prob(points), jnp.zeros(()) if prior is None else prior.log_prob(points))


def _mean(values: np.ndarray, weights: np.ndarray | None) -> NatsEstimate:
    if weights is None:
        return NatsEstimate(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)))
    return NatsEstimate(float(np.where(weights > 0, weights * np.where(weights > 0, values, 0.0), 0.0).sum()))


def _sum(first: NatsEstimate, sign: float, second: NatsEstimate, same_draws: NatsEstimate) -> NatsEstimate:
    """A bound from its two parts: where both are means over the same draws, the mean of their sum."""
    if second.standard_error:
        return same_draws
    return NatsEstimate(first.value + sign * second.value, first.standard_error)


def _entropy(guide: Guide, estimated: NatsEstimate) -> NatsEstimate:
    if not isinstance(guide, Distribution) or not estimated.standard_error:
        return estimated
    try:
        return NatsEstimate(float(guide.entropy()))
    except CapabilityError:  # it has no closed form: that is what the estimate is for
        return estimated


def _rate(guide: Guide, prior: Distribution, estimated: NatsEstimate) -> NatsEstimate:
    form = closed_form(guide, prior) if isinstance(guide, Distribution) else None
    return (
        estimated if form is None or not estimated.standard_error else NatsEstimate(float(form(guide, prior)))
    )


__all__ = ["ElboReport", "Guide", "NatsEstimate", "elbo_report"]
