"""Closed forms of the Kullback-Leibler divergence between distributions of one family, in nats."""

import jax
import jax.numpy as jnp
from jax.scipy.special import rel_entr

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.probability.distributions.bernoulli import Bernoulli
from chainrule.probability.distributions.categorical import Categorical
from chainrule.probability.distributions.covariances import Eigen
from chainrule.probability.distributions.multivariate_normal import MultivariateNormal
from chainrule.probability.distributions.normal import Normal
from chainrule.probability.kullback_leibler.pairs import register


@register(Normal, Normal)
def normal(p: Normal, q: Normal) -> Array:
    """`log(s2/s1) + (s1² + (m1-m2)²) / (2 s2²) - 1/2`."""
    ratio = jnp.square(p.scale / q.scale)
    return 0.5 * (ratio + jnp.square((p.mean - q.mean) / q.scale) - 1 - jnp.log(ratio))


@register(MultivariateNormal, MultivariateNormal)
def multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Array:
    """`(tr(S2⁻¹ S1) + (m2-m1)ᵀ S2⁻¹ (m2-m1) - d + log det S2 - log det S1) / 2`.

    Where a covariance is singular it is finite only if both live on the same affine subspace.
    """
    mine, theirs, offset = p.structure, q.structure, p.mean - q.mean
    size = mine.noise_size()
    white = jnp.eye(size, dtype=p.mean.dtype).reshape(size, *(1,) * len(p.batch_shape), size)
    columns = mine.color(jnp.broadcast_to(white, (size, *p.batch_shape, size)))
    rank: Array | int = p.event_shape[0]
    same = jnp.full(p.batch_shape, mine.is_singular == theirs.is_singular)
    if isinstance(mine, Eigen) and isinstance(theirs, Eigen):
        rank = mine.rank()
        astray = jnp.maximum(theirs.off_range(columns).max(axis=0), theirs.off_range(offset))
        extent = jnp.sqrt(jnp.maximum(mine.variances.max(axis=-1), theirs.variances.max(axis=-1)))
        close = jnp.sqrt(jnp.finfo(offset.dtype).eps)
        same = (rank == theirs.rank()) & (astray <= close * (extent + jnp.abs(offset).max(axis=-1)))
    spread = theirs.square(columns).sum(axis=0) + theirs.square(offset)
    return jnp.where(same, 0.5 * (spread - rank + theirs.log_det() - mine.log_det()), jnp.inf)


@register(Bernoulli, Bernoulli)
def bernoulli(p: Bernoulli, q: Bernoulli) -> Array:
    """The sum over zero and one."""
    return rel_entr(p.probs, q.probs) + rel_entr(jax.nn.sigmoid(-p.logits), jax.nn.sigmoid(-q.logits))


@register(Categorical, Categorical)
def categorical(p: Categorical, q: Categorical) -> Array:
    """The sum over classes, in logarithms: finite for all finite logits."""
    mine, theirs = p.log_probs, q.log_probs
    if mine.shape[-1] != theirs.shape[-1]:
        raise ArgumentError(
            f"kl: p has {mine.shape[-1]} classes and q has {theirs.shape[-1]}: they must have the same"
        )
    possible = mine > -jnp.inf
    terms = jnp.exp(mine) * (jnp.where(possible, mine, 0.0) - jnp.where(possible, theirs, 0.0))
    return terms.sum(axis=-1)
