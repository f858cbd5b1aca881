"""What gradient estimators work on: the mean of something under a guide whose parameters are to be moved.

Of a categorical guide z is one-hot, a vector of zeros and a single one, so that functions of it extend to the
probabilities between, which relaxed draws take.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.distributions.categorical import Categorical
from chainrule.probability.kullback_leibler.pairs import closed_form
from chainrule.probability.variational.evidence import LogJoint


class SplitMean(NamedTuple):
    """A mean of something that does not depend on the guide, and a term in closed form that does."""

    averaged: Callable[[Array], Scalar]
    closed: Scalar


class GuidedMean(eqx.Module):
    """The mean under a guide that `guide(phi)` gives for parameters phi, as a function of phi."""

    guide: eqx.AbstractVar[Callable[[Tree], Distribution]]

    @abc.abstractmethod
    def term(self, q: Distribution, z: Array) -> Scalar:
        """What is averaged over z, for one of its values."""

    @abc.abstractmethod
    def split(self, q: Distribution) -> SplitMean:
        """The same with all that has a closed form taken out of the mean."""

    def checked_guide(self, phi: Tree) -> Distribution:
        """The guide of these parameters, which must be a single distribution."""
        q = self.guide(phi)
        if not isinstance(q, Distribution) or q.batch_shape:
            shape = q.batch_shape if isinstance(q, Distribution) else type(q).__name__
            raise ArgumentError(
                f"guide(phi) must be one distribution, not {shape}",
                remedy="for several numbers use MultivariateNormal or Independent",
            )
        return q


@final
class ExpectationProblem(GuidedMean):
    """`E_q f(z)`."""

    guide: Callable[[Any], Distribution] = eqx.field(static=True)
    f: Callable[[Array], Scalar]

    def term(self, q: Distribution, z: Array) -> Scalar:
        """The function."""
        del q
        return self.f(z)

    def split(self, q: Distribution) -> SplitMean:
        """The function, and nothing beside it."""
        return SplitMean(self.f, jnp.zeros((), q.mean.dtype))


@final
class ElboProblem(GuidedMean):
    """`E_q[log p(x, z) - log q(z)]`."""

    guide: Callable[[Any], Distribution] = eqx.field(static=True)
    log_joint: LogJoint
    prior: Distribution | None = None
    """With it the closed part is -KL(q || p(z)), where that has a closed form; else the entropy of q."""

    def term(self, q: Distribution, z: Array) -> Scalar:
        """`log p(x, z) - log q(z)`."""
        return self.log_joint(z) - log_prob(q, z)

    def split(self, q: Distribution) -> SplitMean:
        """`log p(x|z)` and -KL(q || p(z)), or `log p(x, z)` and H(q)."""
        prior = self.prior
        form = None if prior is None else closed_form(q, prior)
        if prior is None or form is None:
            return SplitMean(self.log_joint, q.entropy())
        return SplitMean(lambda z: self.log_joint(z) - log_prob(prior, z), -form(q, prior))


def draws(q: Distribution, key: Key, samples: int) -> Array:
    """So many values of z."""
    drawn = q.sample(key, samples)
    return one_hot(q, drawn) if isinstance(q, Categorical) else drawn


def one_hot(q: Categorical, numbers: Array) -> Array:
    """Classes as vectors of zeros and a single one."""
    return jax.nn.one_hot(numbers.astype(jnp.int32), q.log_probs.shape[-1], dtype=q.log_probs.dtype)


def log_prob(p: Distribution, z: Array) -> Array:
    """The log-density of one value of z; linear between the vectors of a categorical distribution."""
    if not isinstance(p, Categorical):
        return p.log_prob(z)
    return jnp.where(z > 0, z * jnp.where(z > 0, p.log_probs, 0.0), 0.0).sum(axis=-1)


__all__ = ["ElboProblem", "ExpectationProblem", "GuidedMean", "SplitMean", "draws", "log_prob", "one_hot"]
