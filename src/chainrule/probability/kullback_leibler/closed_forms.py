"""Closed forms of the Kullback-Leibler divergence between distributions of one family, in nats."""

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln, rel_entr

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.probability.distributions.bernoulli import Bernoulli
from chainrule.probability.distributions.categorical import Categorical
from chainrule.probability.distributions.counts import Poisson
from chainrule.probability.distributions.covariances import Eigen
from chainrule.probability.distributions.dirichlet import Dirichlet
from chainrule.probability.distributions.interval import Beta, Uniform
from chainrule.probability.distributions.line import Laplace
from chainrule.probability.distributions.multivariate_normal import MultivariateNormal
from chainrule.probability.distributions.normal import Normal
from chainrule.probability.distributions.normal import kl as normal_kl
from chainrule.probability.distributions.positive import Exponential, Gamma
from chainrule.probability.distributions.special import log_beta
from chainrule.probability.kullback_leibler.pairs import register


@register(Normal, Normal)
def normal(p: Normal, q: Normal) -> Array:
    """`log(s2/s1) + (s1² + (m1-m2)²) / (2 s2²) - 1/2`."""
    return normal_kl(p.mean, p.scale, q.mean, q.scale)


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
        rank = mine.rank
        astray = jnp.maximum(theirs.off_range(columns).max(axis=0), theirs.off_range(offset))
        extent = jnp.sqrt(jnp.maximum(mine.variances.max(axis=-1), theirs.variances.max(axis=-1)))
        close = jnp.sqrt(jnp.finfo(offset.dtype).eps)
        same = (rank == theirs.rank) & (astray <= close * (extent + jnp.abs(offset).max(axis=-1)))
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


@register(Exponential, Exponential)
def exponential(p: Exponential, q: Exponential) -> Array:
    """`r - 1 - log r` of the ratio r of the rates."""
    ratio = q.rate / p.rate
    return ratio - 1 - jnp.log(ratio)


@register(Gamma, Gamma)
def gamma(p: Gamma, q: Gamma) -> Array:
    """By the means of x and log x under p."""
    a, b, c, d = p.concentration, p.rate, q.concentration, q.rate
    return (a - c) * digamma(a) - gammaln(a) + gammaln(c) + c * (jnp.log(b) - jnp.log(d)) + a * (d - b) / b


@register(Beta, Beta)
def beta(p: Beta, q: Beta) -> Array:
    """By the means of log x and log(1 - x) under p."""
    a, b, c, d = p.alpha, p.beta, q.alpha, q.beta
    both = (c - a + d - b) * digamma(a + b)
    return log_beta(c, d) - log_beta(a, b) + (a - c) * digamma(a) + (b - d) * digamma(b) + both


@register(Dirichlet, Dirichlet)
def dirichlet(p: Dirichlet, q: Dirichlet) -> Array:
    """By the means of log x under p."""
    a, c = p.concentration, q.concentration
    logs = digamma(a) - digamma(a.sum(axis=-1, keepdims=True))
    return q.log_normalization() - p.log_normalization() + ((a - c) * logs).sum(axis=-1)


@register(Laplace, Laplace)
def laplace(p: Laplace, q: Laplace) -> Array:
    """`log(s2/s1) + (s1 exp(-d/s1) + d) / s2 - 1` at the distance d of the means."""
    apart = jnp.abs(p.mean - q.mean)
    return jnp.log(q.scale / p.scale) + (p.scale * jnp.exp(-apart / p.scale) + apart) / q.scale - 1


@register(Poisson, Poisson)
def poisson(p: Poisson, q: Poisson) -> Array:
    """`r1 log(r1/r2) - r1 + r2`."""
    return p.rate * jnp.log(p.rate / q.rate) - p.rate + q.rate


@register(Uniform, Uniform)
def uniform(p: Uniform, q: Uniform) -> Array:
    """The logarithm of the ratio of the widths, where the one interval lies in the other."""
    inside = (p.low >= q.low) & (p.high <= q.high)
    return jnp.where(inside, jnp.log((q.high - q.low) / (p.high - p.low)), jnp.inf)


__all__ = [
    "bernoulli",
    "beta",
    "categorical",
    "dirichlet",
    "exponential",
    "gamma",
    "laplace",
    "multivariate_normal",
    "normal",
    "poisson",
    "uniform",
]
