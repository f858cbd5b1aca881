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
    """f* is finite for t up to here: a network's output has to be brought below it."""
    slope: Function
    """f'(u): applied to p/q it is the optimal critic."""

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


# ---------------------------------------------------------------------- what points add


def _kl(log_p: Array, log_q: Array) -> Array:
    possible = log_p > -jnp.inf
    safe = jnp.where(possible, log_p, 0.0)
    return jnp.where(possible, jnp.exp(safe) * (safe - jnp.where(possible, log_q, 0.0)), 0.0)


def _jensen_shannon(log_p: Array, log_q: Array) -> Array:
    possible = jnp.maximum(log_p, log_q) > -jnp.inf
    first, second = jnp.where(possible, log_p, 0.0), jnp.where(possible, log_q, 0.0)
    middle = jnp.logaddexp(first, second) - math.log(2)
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


f_divergences: Registry[FDivergence] = Registry("f-divergence")

for _one in (
    FDivergence("KL", "u log u", _kl, lambda t: jnp.exp(t - 1), math.inf, lambda u: 1 + jnp.log(u)),
    FDivergence(
        "reverse KL",
        "-log u",
        lambda log_p, log_q: _kl(log_q, log_p),
        lambda t: -1 - jnp.log(-t),
        0.0,
        lambda u: -1 / u,
    ),
    FDivergence(
        "Jeffreys",
        "(u - 1) log u",
        lambda log_p, log_q: _kl(log_p, log_q) + _kl(log_q, log_p),
        _conjugate_of_jeffreys,
        math.inf,
        lambda u: jnp.log(u) + 1 - 1 / u,
    ),
    FDivergence(
        "Jensen-Shannon",
        "(u log(2u/(1+u)) + log(2/(1+u))) / 2",
        _jensen_shannon,
        lambda t: -jnp.log(2 - jnp.exp(2 * t)) / 2,
        math.log(2) / 2,
        lambda u: jnp.log(2 * u / (1 + u)) / 2,
    ),
    FDivergence(
        "total variation",
        "|u - 1| / 2",
        _total_variation,
        lambda t: jnp.maximum(t, -0.5),
        0.5,
        lambda u: jnp.sign(u - 1) / 2,
    ),
    FDivergence(
        "squared Hellinger",
        "(√u - 1)² / 2",
        _squared_hellinger,
        lambda t: t / (1 - 2 * t),
        0.5,
        lambda u: (1 - 1 / jnp.sqrt(u)) / 2,
    ),
    FDivergence(
        "Pearson chi-square",
        "(u - 1)²",
        _pearson,
        lambda t: jnp.where(t > -2, t + jnp.square(t) / 4, -1.0),
        math.inf,
        lambda u: 2 * (u - 1),
    ),
    FDivergence(
        "Neyman chi-square",
        "(u - 1)² / u",
        lambda log_p, log_q: _pearson(log_q, log_p),
        lambda t: 2 - 2 * jnp.sqrt(1 - t),
        1.0,
        lambda u: 1 - 1 / jnp.square(u),
    ),
):
    f_divergences.add(_one.name, _one)


__all__ = ["FDivergence", "f_divergences"]
