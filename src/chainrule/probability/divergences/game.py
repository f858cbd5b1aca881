"""The game of generator and discriminator, exactly: its value, the best discriminator, and the divergence behind both.

The discriminator ascends, the generator descends L(D, G) = E_p log D + E_q log(1 - D), where p is the law of the data
and q that of what is generated. The best answer to q is D* = p/(p + q), with the value 2 JSD(p, q) - 2 log 2. Laws are
arrays of probabilities, densities on a grid (`at`), or distributions. A balanced binary cross-entropy is -L/2.

References: Goodfellow et al., Generative adversarial nets, NeurIPS 2014; Arjovsky and Bottou, Towards principled
methods for training generative adversarial networks, ICLR 2017 (the bound on gradients).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlog1py, xlogy

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.distributions.parameters import floating, unit
from chainrule.probability.divergences.between import SAMPLES, js
from chainrule.probability.divergences.f_divergences import f_divergences
from chainrule.probability.divergences.points import integral
from chainrule.probability.divergences.probabilities import pair

_SLACK = 1e-3
"""How far a density's integral over a grid may be from one: grids end somewhere."""


def optimal_discriminator(
    p: Any, q: Any, at: Any = None, *, real_target: float = 1.0, normalize: bool = False
) -> Float[Array, "*batch outcomes"]:
    """D* = r p/(p + q), with r the target of real examples: 1, or less where labels are smoothed on one side.

    Distributions are compared at the points `at`; with arrays, `at` says that they are densities on this grid. Where
    both laws are zero any D is as good, and r/2 is returned.

    >>> optimal_discriminator([0.5, 0.3, 0.2], [0.2, 0.2, 0.6]).tolist()
    [0.7142857313156128, 0.6000000238418579, 0.25]
    """
    target = _target("optimal_discriminator", real_target)
    if _are_distributions("optimal_discriminator", p, q):
        if at is None:
            raise ArgumentError(
                "optimal_discriminator(at): the discriminator of two distributions is a function",
                remedy="say where: at=np.linspace(-5, 5, 200)",
            )
        points = floating(at)
        return target * jax.nn.sigmoid(p.log_prob(points) - q.log_prob(points))
    first, second, _ = _laws("optimal_discriminator", p, q, at, normalize)
    return _best(first, second, target)


def value(
    p: Any,
    q: Any,
    discriminator: Any = None,
    at: Any = None,
    *,
    real_target: float = 1.0,
    normalize: bool = False,
    key: Key | None = None,
    samples: int = SAMPLES,
) -> Float[Array, "*batch"]:
    """L(D, G) = E_p[r log D + (1 - r) log(1 - D)] + E_q log(1 - D), for a discriminator or, without one, for the best.

    `discriminator` holds probabilities in the shape of p, or is a function of the points `at`. No discriminator has
    more than the best, whose value is never below -2 log 2 (for r = 1), and that only for p = q.

    >>> p, q = [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]
    >>> round(float(value(p, q)), 5), round(float(value(p, q, [0.5, 0.5, 0.5])), 5)
    (-1.20516, -1.38629)
    """
    target = _target("value", real_target)
    if _are_distributions("value", p, q):
        if at is None:
            return _value_of_distributions(p, q, discriminator, target, key, samples)
        points = floating(at)
        p, q = jnp.exp(p.log_prob(points)), jnp.exp(q.log_prob(points))
    first, second, weights = _laws("value", p, q, at, normalize)
    given = _decisions(discriminator, at, _best(first, second, target))
    shape = jnp.broadcast_shapes(given.shape, first.shape)
    first, second, weights, given = (jnp.broadcast_to(one, shape) for one in (first, second, weights, given))
    return (weights * _payoff(first, second, given, target)).sum(axis=-1)


def jensen_shannon(p: Any, q: Any, at: Any = None, *, normalize: bool = False) -> Float[Array, "*batch"]:
    """JSD = (L(D*) + 2 log 2)/2: log 2 for laws with nothing in common, however far apart; 0 for equal ones.

    >>> x = np.linspace(-9, 12, 2001)
    >>> density = lambda mean, scale: np.exp(-(((x - mean) / scale) ** 2) / 2) / scale / np.sqrt(2 * np.pi)
    >>> round(float(jensen_shannon(density(0, 1), density(1, 2), at=x)), 5)
    0.12817
    """
    if at is None or _are_distributions("jensen_shannon", p, q):
        return js(p, q) if isinstance(p, Distribution) else js(p, q, normalize=normalize)
    first, second, weights = _laws("jensen_shannon", p, q, at, normalize)
    terms = f_divergences["Jensen-Shannon"].term(_log(first), _log(second))
    return (weights * terms).sum(axis=-1)


def generator_slopes(score: Any) -> tuple[Array, Array]:
    """Sizes of the generator's gradient in the score a of a fake: sigmoid(a) saturating, 1 - sigmoid(a) non-saturating.

    Where the discriminator is sure that it sees a fake, the first vanishes and the second does not: their ratio is e^a.

    >>> [round(float(one), 7) for one in generator_slopes(-8.0)]
    [0.0003354, 0.9996647]
    """
    scores = floating(score)
    return jax.nn.sigmoid(scores), jax.nn.sigmoid(-scores)


def gradient_bound(eps: Any, jacobian: Any = 1.0) -> Array:
    """The most that the squared norm of the saturating gradient can be: (eps/(1 - eps))² E||J_G||².

    It holds where D and its gradient are within eps of a perfect discriminator's, 1 on data, 0 and flat on fakes;
    `jacobian` is E||J_G||², 1 for a generator that only shifts. From eps = 1 on it says nothing: infinity.

    >>> round(float(gradient_bound(0.01)), 9)
    0.00010203
    """
    distance = floating(eps)
    inside = distance < 1
    ratio = jnp.where(inside, distance / jnp.where(inside, 1 - distance, 1.0), jnp.inf)
    return jnp.square(ratio) * jnp.asarray(jacobian, distance.dtype)


# ---------------------------------------------------------------------- pieces


def _best(p: Array, q: Array, target: float) -> Array:
    total = p + q
    return target * jnp.where(total > 0, p / jnp.where(total > 0, total, 1.0), 0.5)


def _payoff(p: Array, q: Array, decisions: Array, target: float) -> Array:
    """What each outcome adds to L; outcomes of probability zero add nothing, however sure the discriminator is."""
    return xlogy(target * p, decisions) + xlog1py((1 - target) * p + q, -decisions)


def _value_of_distributions(
    p: Distribution, q: Distribution, discriminator: Any, target: float, key: Key | None, samples: int
) -> Array:
    if discriminator is not None:
        raise ArgumentError(
            "value(at): a discriminator of two distributions is compared on a grid",
            remedy="say which: at=np.linspace(-5, 5, 2001)",
        )

    def term(log_p: Array, log_q: Array) -> Array:
        return _payoff(jnp.exp(log_p), jnp.exp(log_q), target * _posterior(log_p, log_q), target)

    chosen = f_divergences["GAN"].term if target == 1 else term
    return integral("value", chosen, p, q, key, samples)


def _posterior(log_p: Array, log_q: Array) -> Array:
    known = jnp.maximum(log_p, log_q) > -jnp.inf
    return jax.nn.sigmoid(jnp.where(known, log_p, 0.0) - jnp.where(known, log_q, 0.0))


def _decisions(discriminator: Any, at: Any, best: Array) -> Array:
    if discriminator is None:
        return best
    if callable(discriminator):
        if at is None:
            raise ArgumentError("value(discriminator): a function needs points", remedy="give them: at=x")
        discriminator = discriminator(floating(at))
    given = unit("value", "discriminator", floating(discriminator))
    if given.shape[-1:] != best.shape[-1:]:
        raise ArgumentError(
            f"value(discriminator): of shape {given.shape}, for laws of shape {best.shape}",
            remedy="one probability for each outcome",
        )
    return given


def _laws(where: str, p: Any, q: Any, at: Any, normalize: bool) -> tuple[Array, Array, Array]:
    """Both laws, and the weight of each point of the sum: one, or that of the trapezium rule on the grid."""
    if at is None:
        first, second = pair(p, q, normalize)
        return first, second, jnp.ones_like(first)
    grid = np.asarray(at, dtype=float)
    if grid.ndim != 1 or len(grid) < 2 or not (np.diff(grid) > 0).all() or not np.isfinite(grid).all():
        raise ArgumentError(
            f"{where}(at): a grid is a list of increasing positions, not an array of shape {grid.shape}"
        )
    gaps = np.diff(grid)
    weights = (np.append(gaps, 0.0) + np.append(0.0, gaps)) / 2
    first, second = (_density(where, *one, weights, normalize) for one in (("p", p), ("q", q)))
    return first, second, jnp.broadcast_to(jnp.asarray(weights, first.dtype), first.shape)


def _density(where: str, name: str, values: Any, weights: np.ndarray, normalize: bool) -> Array:
    array = floating(values)
    if array.shape[-1:] != weights.shape:
        raise ArgumentError(
            f"{where}({name}): shape {array.shape}, for a grid of {len(weights)} positions",
            remedy="the last axis runs over the grid",
        )
    along = jnp.asarray(weights, array.dtype).reshape((1,) * (array.ndim - 1) + weights.shape)
    total = (along * array).sum(axis=-1, keepdims=True)
    if normalize:
        return array / total
    wrong = ~(jnp.abs(total - 1) <= _SLACK) | ~(array >= 0).all(axis=-1, keepdims=True)
    if isinstance(array, jax.core.Tracer):
        return eqx.error_if(array, wrong, f"{where}: {name} is no density on the grid")
    if not (np.asarray(array) >= 0).all():
        raise ArgumentError(f"{where}: {name} holds {float(array.min()):.6g}: a density is not negative")
    if bool(wrong.any()):
        worst = float(np.asarray(total)[np.asarray(wrong)].flat[0])
        raise ArgumentError(
            f"{where}: {name} integrates to {worst:.8g} over the grid instead of 1",
            remedy="a wider or finer grid, or normalize=True to rescale",
        )
    return array


def _log(p: Array) -> Array:
    possible = p > 0
    return jnp.where(possible, jnp.log(jnp.where(possible, p, 1.0)), -jnp.inf)


def _target(where: str, target: float) -> float:
    if not 0 < target <= 1:
        raise ArgumentError(
            f"{where}(real_target={target}): the target of real examples lies above 0 and at most at 1",
            remedy="0.9 is usual, 1 smooths nothing",
        )
    return float(target)


def _are_distributions(where: str, p: Any, q: Any) -> bool:
    kinds = {isinstance(one, Distribution) for one in (p, q)}
    if len(kinds) == 2:
        raise ArgumentError(
            f"{where}: a distribution cannot be compared with an array",
            remedy="give two distributions, or two arrays",
        )
    return kinds == {True}


__all__ = ["generator_slopes", "gradient_bound", "jensen_shannon", "optimal_discriminator", "value"]
