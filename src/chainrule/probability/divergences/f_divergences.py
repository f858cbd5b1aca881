"""f-divergences: E_q f(p/q) for convex f with f(1) = 0, with what a critic needs to estimate them.

Every function T of the outcomes gives a lower bound, E_p T - E_q f*(T), where f* is the convex conjugate of f; it is
tight for the critic T = f'(p/q). Adversarial training maximises it over networks.

Reference: Nowozin, Cseke and Tomioka, f-GAN: Training generative neural samplers using variational divergence
minimization, NeurIPS 2016.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp

from chainrule.core.registry import Registry
from chainrule.core.types import Array, Scalar

Function: TypeAlias = Callable[[Array], Array]
_LOG_2 = math.log(2)


@final
@dataclass(frozen=True)
class FDivergence:
    """One f-divergence. All functions work entry by entry, and can be differentiated."""

    name: str
    formula: str
    """f(u), for people."""
    term: Callable[[Array, Array], Array]
    """q f(p/q) from (log p, log q): what a point adds. Minus infinity stands for probability zero."""
    conjugate: Function
    """f*(t) = sup over u >= 0 of t u - f(u)."""
    below: float
    """f* is finite for t up to here, which is f'(infinity): a network's output has to be brought below it."""
    slope: Function
    """f'(u): applied to p/q it is the optimal critic."""
    activation: Function
    """g(v): brings any output v of a network to where f* is finite."""
    conjugate_of_output: Function
    """f*(g(v)), written so that neither half of it rounds or overflows before the whole does."""
    threshold: float
    """f'(1), the optimal critic where p = q: above it a critic says "p", below it "q"."""
    at_one: float = 0.0
    """f(1), the value between equal distributions."""
    remark: str = ""
    """What has to be said wherever its values are shown; mostly nothing."""

    @property
    def domain(self) -> str:
        """Where f* is finite, in words.

        >>> f_divergences["GAN"].domain, f_divergences["KL"].domain
        ('t < 0', 'all t')
        """
        return "all t" if math.isinf(self.below) else f"t < {self.below:.6g}"

    def f(self, u: Any) -> Array:
        """The convex function, at ratios u >= 0.

        >>> float(f_divergences["Pearson chi-square"].f(3.0))
        4.0
        """
        ratio = jnp.asarray(u, jnp.result_type(float))
        zero = ratio == 0
        log_ratio = jnp.where(zero, -jnp.inf, jnp.log(jnp.where(zero, 1.0, ratio)))
        return self.term(log_ratio, jnp.zeros_like(ratio))

    def critic(self, log_p: Any, log_q: Any) -> Array:
        """The optimal critic f'(p/q) at points of these log-densities."""
        return self.slope(jnp.exp(jnp.asarray(log_p) - jnp.asarray(log_q)))

    def bound(self, under_p: Any, under_q: Any) -> Scalar:
        """The lower bound E_p T - E_q f*(T) from a critic's values at draws of p and at draws of q.

        >>> float(f_divergences["Pearson chi-square"].bound(jnp.array([2.0]), jnp.array([-1.0])))
        2.75
        """
        return jnp.mean(jnp.asarray(under_p)) - jnp.mean(self.conjugate(jnp.asarray(under_q)))

    def bound_of_outputs(self, under_p: Any, under_q: Any) -> Scalar:
        """The same bound from raw outputs v of a network, with the critic T = g(v).

        >>> float(f_divergences["GAN"].bound_of_outputs(jnp.zeros(3), jnp.zeros(3)))  # undecided: -2 log 2
        -1.3862943649291992
        """
        real, fake = jnp.asarray(under_p), jnp.asarray(under_q)
        return jnp.mean(self.activation(real)) - jnp.mean(self.conjugate_of_output(fake))


# ---------------------------------------------------------------------- what points add


def _kl(log_p: Array, log_q: Array) -> Array:
    possible = log_p > -jnp.inf
    safe = jnp.where(possible, log_p, 0.0)
    return jnp.where(possible, jnp.exp(safe) * (safe - jnp.where(possible, log_q, 0.0)), 0.0)


def _jensen_shannon(log_p: Array, log_q: Array) -> Array:
    possible = jnp.maximum(log_p, log_q) > -jnp.inf
    first, second = jnp.where(possible, log_p, 0.0), jnp.where(possible, log_q, 0.0)
    middle = jnp.logaddexp(first, second) - _LOG_2
    return jnp.where(possible, (_kl(first, middle) + _kl(second, middle)) / 2, 0.0)


def _total_variation(log_p: Array, log_q: Array) -> Array:
    return jnp.abs(jnp.exp(log_p) - jnp.exp(log_q)) / 2


def _squared_hellinger(log_p: Array, log_q: Array) -> Array:
    return jnp.square(jnp.exp(log_p / 2) - jnp.exp(log_q / 2)) / 2


def _pearson(log_p: Array, log_q: Array) -> Array:
    """(p - q)²/q by logarithms, as a ratio near one: a small q neither overflows nor loses what is left of p."""
    possible = log_q > -jnp.inf
    second = jnp.where(possible, log_q, 0.0)
    first = jnp.where(possible, log_p, 0.0)
    near = jnp.abs(first - second) < 1
    close = jnp.exp(second) * jnp.square(jnp.expm1(jnp.where(near, first - second, 0.0)))
    apart = jnp.exp(2 * first - second) - 2 * jnp.exp(first) + jnp.exp(second)
    return jnp.where(possible, jnp.where(near, close, apart), jnp.where(log_p > -jnp.inf, jnp.inf, 0.0))


# ---------------------------------------------------------------------- conjugates that are no one-liners


def _conjugate_of_jeffreys(t: Array) -> Array:
    """W + 1/W + t - 2 with W = v, where v + log v = 1 - t (Lambert's function)."""
    wanted = 1 - t
    v = jnp.where(wanted > 1, jnp.maximum(wanted, 1.0), jnp.exp(jnp.minimum(wanted, 1.0) - 1))

    def newton(v: Array) -> Array:
        # In log v, so that v stays positive.
        return v * jnp.exp(-(v + jnp.log(v) - wanted) / (1 + v))

    root = jax.lax.fori_loop(0, 8, lambda _, v: newton(v), jax.lax.stop_gradient(v))
    root = newton(jax.lax.stop_gradient(root))  # the last step carries the derivative, exactly
    return root + 1 / root + t - 2


# ---------------------------------------------------------------------- the table


def _until(most: float, rate: float = 1.0) -> Function:
    """An activation that approaches `most` like an exponential function: most - rate e^-v."""
    return lambda v: most - rate * jnp.exp(-v)


def _same(v: Array) -> Array:
    return v


def _pearson_conjugate(t: Array) -> Array:
    return jnp.where(t > -2, t + jnp.square(t) / 4, -1.0)


def _log_twice_sigmoid(v: Array) -> Array:
    return _LOG_2 - jax.nn.softplus(-v)


f_divergences: Registry[FDivergence] = Registry("f-divergence")
"""The table. Jensen-Shannon and squared Hellinger come with the half that makes them bounded by log 2 and 1, and
without it, as adversarial training has them."""

for _one in (
    FDivergence(
        "KL",
        "u log u",
        _kl,
        conjugate=lambda t: jnp.exp(t - 1),
        below=math.inf,
        slope=lambda u: 1 + jnp.log(u),
        activation=_same,
        conjugate_of_output=lambda v: jnp.exp(v - 1),
        threshold=1.0,
    ),
    FDivergence(
        "reverse KL",
        "-log u",
        lambda log_p, log_q: _kl(log_q, log_p),
        conjugate=lambda t: -1 - jnp.log(-t),
        below=0.0,
        slope=lambda u: -1 / u,
        activation=_until(0.0),
        conjugate_of_output=lambda v: v - 1,
        threshold=-1.0,
    ),
    FDivergence(
        "Jeffreys",
        "(u - 1) log u",
        lambda log_p, log_q: _kl(log_p, log_q) + _kl(log_q, log_p),
        conjugate=_conjugate_of_jeffreys,
        below=math.inf,
        slope=lambda u: jnp.log(u) + 1 - 1 / u,
        activation=_same,
        conjugate_of_output=_conjugate_of_jeffreys,
        threshold=0.0,
    ),
    FDivergence(
        "Jensen-Shannon",
        "(u log(2u/(1+u)) + log(2/(1+u))) / 2",
        _jensen_shannon,
        conjugate=lambda t: -jnp.log(2 - jnp.exp(2 * t)) / 2,
        below=_LOG_2 / 2,
        slope=lambda u: jnp.log(2 * u / (1 + u)) / 2,
        activation=lambda v: _log_twice_sigmoid(v) / 2,
        conjugate_of_output=lambda v: (jax.nn.softplus(v) - _LOG_2) / 2,
        threshold=0.0,
    ),
    FDivergence(
        "2 JSD",
        "u log u - (u + 1) log((u + 1)/2)",
        lambda log_p, log_q: 2 * _jensen_shannon(log_p, log_q),
        conjugate=lambda t: -jnp.log(2 - jnp.exp(t)),
        below=_LOG_2,
        slope=lambda u: jnp.log(2 * u / (1 + u)),
        activation=_log_twice_sigmoid,
        conjugate_of_output=lambda v: jax.nn.softplus(v) - _LOG_2,
        threshold=0.0,
        remark="Twice the Jensen-Shannon divergence.",
    ),
    FDivergence(
        "GAN",
        "u log u - (u + 1) log(u + 1)",
        lambda log_p, log_q: 2 * _jensen_shannon(log_p, log_q) - _LOG_2 * (jnp.exp(log_p) + jnp.exp(log_q)),
        conjugate=lambda t: -jnp.log1p(-jnp.exp(t)),
        below=0.0,
        slope=lambda u: jnp.log(u / (1 + u)),
        activation=jax.nn.log_sigmoid,
        conjugate_of_output=jax.nn.softplus,
        threshold=-_LOG_2,
        at_one=-2 * _LOG_2,
        remark="f(1) = -2 log 2: the value is 2 JSD - 2 log 2, and equal distributions have -1.386 instead of 0.",
    ),
    FDivergence(
        "total variation",
        "|u - 1| / 2",
        _total_variation,
        conjugate=lambda t: jnp.maximum(t, -0.5),
        below=0.5,
        slope=lambda u: jnp.sign(u - 1) / 2,
        activation=lambda v: jnp.tanh(v) / 2,
        conjugate_of_output=lambda v: jnp.tanh(v) / 2,
        threshold=0.0,
    ),
    FDivergence(
        "squared Hellinger",
        "(√u - 1)² / 2",
        _squared_hellinger,
        conjugate=lambda t: t / (1 - 2 * t),
        below=0.5,
        slope=lambda u: (1 - 1 / jnp.sqrt(u)) / 2,
        activation=_until(0.5, 0.5),
        conjugate_of_output=lambda v: jnp.expm1(v) / 2,
        threshold=0.0,
    ),
    FDivergence(
        "full squared Hellinger",
        "(√u - 1)²",
        lambda log_p, log_q: 2 * _squared_hellinger(log_p, log_q),
        conjugate=lambda t: t / (1 - t),
        below=1.0,
        slope=lambda u: 1 - 1 / jnp.sqrt(u),
        activation=_until(1.0),
        conjugate_of_output=jnp.expm1,
        threshold=0.0,
        remark="Without the half: between 0 and 2.",
    ),
    FDivergence(
        "Pearson chi-square",
        "(u - 1)²",
        _pearson,
        conjugate=_pearson_conjugate,
        below=math.inf,
        slope=lambda u: 2 * (u - 1),
        activation=_same,
        conjugate_of_output=_pearson_conjugate,
        threshold=0.0,
    ),
    FDivergence(
        "Neyman chi-square",
        "(u - 1)² / u",
        lambda log_p, log_q: _pearson(log_q, log_p),
        conjugate=lambda t: 2 - 2 * jnp.sqrt(1 - t),
        below=1.0,
        slope=lambda u: 1 - 1 / jnp.square(u),
        activation=_until(1.0),
        conjugate_of_output=lambda v: 2 - 2 * jnp.exp(-v / 2),
        threshold=0.0,
    ),
):
    f_divergences.add(_one.name, _one)


__all__ = ["FDivergence", "f_divergences"]
