"""Adversarial attacks on any loss: one signed gradient step (FGSM), or many with a projection after each (PGD).

Goodfellow, Shlens and Szegedy, *Explaining and harnessing adversarial examples*, ICLR 2015 (arXiv:1412.6572); Madry
et al., *Towards deep learning models resistant to adversarial attacks*, ICLR 2018 (arXiv:1706.06083).
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key

Loss: TypeAlias = Callable[[Array], Array]
"""From examples (leading batch axis) to one number: the sum of their losses."""
Bounds: TypeAlias = tuple[float, float]
"""The lowest and the highest value an entry can take."""


def fgsm(loss: Loss, x: Array, eps: float, *, bounds: Bounds | None = None, targeted: bool = False) -> Array:
    """`x + eps sign(∇ loss)`, kept inside the bounds; `targeted` steps down a loss for the wanted targets instead.

    >>> w = jnp.array([1.0, -2.0])
    >>> fgsm(lambda x: (x @ w).sum(), jnp.zeros((1, 2)), 0.1)
    Array([[ 0.1, -0.1]], dtype=float32)
    """
    check_radius("fgsm", eps, bounds)
    sign = -1 if targeted else 1
    return _inside(x + sign * eps * jnp.sign(jax.grad(loss)(x)), bounds)


def pgd(
    loss: Loss,
    x: Array,
    eps: float,
    *,
    steps: int = 20,
    step: float | None = None,
    norm: str = "inf",
    key: Key | None = None,
    bounds: Bounds | None = None,
    targeted: bool = False,
) -> Array:
    """Steps up the loss, each followed by a projection onto the ball of radius `eps` around the example.

    A step is `2.5 eps / steps` unless given, along the sign of the gradient (`norm="inf"`) or the gradient at unit
    length (`norm="2"`). With a `key` it starts at a random point of the ball.
    """
    check_choice("pgd", "norm", norm, ("inf", "2"))
    check_radius("pgd", eps, bounds, math.prod(x.shape[1:]) if norm == "2" else 1)
    if steps < 1:
        raise ArgumentError(f"pgd(steps={steps}): there must be at least one step")
    size = 2.5 * eps / steps if step is None else step
    return climb(loss, x, eps, -size if targeted else size, steps, norm=norm, key=key, bounds=bounds)


def climb(
    loss: Loss,
    x: Array,
    eps: Any,
    size: Any,
    steps: int,
    *,
    norm: str = "inf",
    key: Key | None = None,
    bounds: Bounds | None = None,
) -> Array:
    """`pgd` without its checks, for radii and step sizes that are known only inside a compiled program."""
    slope = jax.grad(loss)

    def move(_: Any, at: Array) -> Array:
        g = slope(at)
        way = jnp.sign(g) if norm == "inf" else g / jnp.maximum(_lengths(g), 1e-12)
        return _inside(x + _ball(at + size * way - x, eps, norm), bounds)

    start = x
    if key is not None:
        noise = jax.random.uniform(key, x.shape, x.dtype, -1, 1)
        start = _inside(x + _ball(eps * noise, eps, norm), bounds)
    return jax.lax.fori_loop(0, steps, move, start)


def _ball(change: Array, eps: Any, norm: str) -> Array:
    if norm == "inf":
        return jnp.clip(change, -eps, eps)
    return change * jnp.minimum(1.0, eps / jnp.maximum(_lengths(change), 1e-12))


def _lengths(x: Array) -> Array:
    return jnp.sqrt(jnp.square(x).sum(axis=tuple(range(1, x.ndim)), keepdims=True))


def _inside(x: Array, bounds: Bounds | None) -> Array:
    return x if bounds is None else jnp.clip(x, *bounds)


def check_radius(where: str, eps: float, bounds: Bounds | None, entries: int = 1) -> None:
    """Refuse a change that cannot be: a negative one, or one larger than the range of the data allows.

    `entries` is how many entries an example has where `eps` is the length of the whole change, 1 where it is the most
    that one entry may move.
    """
    if not eps >= 0:
        raise ArgumentError(
            f"{where}(eps={eps:g}): eps is how far an example may be changed and must not be negative",
            remedy="give 0 or more, in the units of the examples",
        )
    if bounds is None:
        return
    low, high = bounds
    most = (high - low) * math.sqrt(entries)
    if eps > most * (1 + 1e-6):
        what = f"the {entries:,} entries of an example" if entries > 1 else "entries"
        raise ArgumentError(
            f"{where}(eps={eps:g}): {what} lie between {low:g} and {high:g}, so no change can be larger than {most:g}",
            remedy="give eps in the units of the examples",
        )


__all__ = ["Bounds", "Loss", "check_radius", "climb", "fgsm", "pgd"]
