"""Score matching: explicit, implicit, sliced and denoising losses.

A score is any function from a batch to a batch. `energy_score` makes one from a scalar energy, whose differences are
then differences of an unnormalised log-density.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.derive.matrix_free.estimators import batch_divergence
from chainrule.networks.noise_size import check_sigma

Score = Callable[[Array], Array]
_X = Float[Array, "batch ..."]


def explicit_loss(score: Score, exact: Score, x: _X) -> Scalar:
    """E||score - exact||², for densities whose score is known."""
    return _squares(score(x) - exact(x)).mean()


def implicit_loss(score: Score, x: _X) -> Scalar:
    """E[trace of the derivative + ½||score||²] (Hyvärinen, 2005): half of the explicit loss plus a constant.

    >>> x = jnp.array([[1.0], [-1.0]])  # mean square 1, as of the standard normal distribution
    >>> float(implicit_loss(lambda x: -x, x))
    -0.5
    """
    return (batch_divergence(score, x, None)[0] + 0.5 * _squares(score(x))).mean()


def sliced_loss(score: Score, x: _X, key: Key, probes: int = 1) -> Scalar:
    """The implicit loss with its trace by random signs (Song et al., 2019), for many dimensions."""
    signs = jax.random.rademacher(key, (probes, *x.shape), x.dtype)
    return (batch_divergence(score, x, signs).mean(axis=0) + 0.5 * _squares(score(x))).mean()


def denoising_loss(score: Score, x: _X, eps: _X, sigma: float) -> Scalar:
    """E||score(x + sigma eps) + eps/sigma||² (Vincent, 2011); its optimum is the score of the noised density."""
    return _squares(score(x + sigma * eps) + eps / sigma).mean()


def energy_score(energy: Callable[[Array], Array]) -> Score:
    """The score -grad f of a density exp(-f)/Z; `energy` gives one number for each example."""
    return lambda x: -jax.grad(lambda x: energy(x).sum())(x)


def _squares(values: Array) -> Array:
    return jnp.square(values).reshape(len(values), -1).sum(axis=1)


__all__ = [
    "Score",
    "check_sigma",
    "denoising_loss",
    "energy_score",
    "explicit_loss",
    "implicit_loss",
    "sliced_loss",
]
