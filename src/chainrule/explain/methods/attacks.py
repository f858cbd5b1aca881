"""Adversarial attacks: one signed gradient step (FGSM), or many small ones with a projection after each (PGD).

Goodfellow, Shlens and Szegedy, *Explaining and harnessing adversarial examples*, ICLR 2015 (arXiv:1412.6572); Madry
et al., *Towards deep learning models resistant to adversarial attacks*, ICLR 2018 (arXiv:1706.06083).
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key
from chainrule.data.batches import Batch
from chainrule.models.protocol import Model

Loss: TypeAlias = Callable[[Array], Array]
"""From examples (leading batch axis) to one number: the sum of their losses."""
Bounds: TypeAlias = tuple[float, float]
"""The lowest and the highest value an entry can take."""


def loss_of(model: Model, y: Any) -> Loss:
    """The loss of a model on examples with these targets, in inference mode, as a function of the examples."""
    still = eqx.nn.inference_mode(model)
    return lambda x: len(x) * still.loss(Batch(x, y), jax.random.key(0))[0]


def fgsm(loss: Loss, x: Array, eps: float, *, bounds: Bounds | None = None, targeted: bool = False) -> Array:
    """`x + eps sign(∇ loss)`, kept inside the bounds; `targeted` steps down a loss for the wanted targets instead.

    >>> w = jnp.array([1.0, -2.0])
    >>> fgsm(lambda x: (x @ w).sum(), jnp.zeros((1, 2)), 0.1)
    Array([[ 0.1, -0.1]], dtype=float32)
    """
    _check("fgsm", eps, bounds)
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
    _check("pgd", eps, bounds)
    check_choice("pgd", "norm", norm, ("inf", "2"))
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


def _check(where: str, eps: float, bounds: Bounds | None) -> None:
    if not eps >= 0:
        raise ArgumentError(f"{where}(eps={eps}): eps is how far an entry may move and must not be negative")
    if bounds is not None and eps > bounds[1] - bounds[0]:
        raise ArgumentError(
            f"{where}(eps={eps}): entries lie between {bounds[0]:g} and {bounds[1]:g}, so no change can be larger than "
            f"{bounds[1] - bounds[0]:g}",
            remedy="give eps in the units of the examples",
        )


__all__ = ["Bounds", "Loss", "climb", "fgsm", "loss_of", "pgd"]
