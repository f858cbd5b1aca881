"""Attacks by gradients on any loss: one step (FGSM), or many with a projection after each (PGD), also with momentum.

Goodfellow, Shlens and Szegedy, *Explaining and harnessing adversarial examples*, ICLR 2015 (arXiv:1412.6572); Madry
et al., *Towards deep learning models resistant to adversarial attacks*, ICLR 2018 (arXiv:1706.06083); Dong et al.,
*Boosting adversarial attacks with momentum*, CVPR 2018 (arXiv:1710.06081).
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from chainrule.core.checks import share, whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.nn.attacks.ball import NORMS, Bounds, ChangeNorm, check_radius, inside, norm_named

Loss: TypeAlias = Callable[[Array], Array]
"""From examples (leading batch axis) to their losses, one each; where nothing tells examples apart, to the sum."""
Slope: TypeAlias = Callable[[Array], tuple[Array, Any]]
"""From examples to the gradient of their losses, and what else came out."""
Move: TypeAlias = Callable[[tuple[Array, Array]], tuple[Array, Array, Any]]
"""From the present examples and the average of gradients so far to both after a step, and what came out before it."""


def fgsm(
    loss: Loss,
    x: Array,
    eps: float,
    *,
    norm: str = "inf",
    bounds: Bounds | None = None,
    targeted: bool = False,
) -> Array:
    """`x + eps sign(∇ loss)`, kept inside the bounds; `targeted` steps down a loss for the wanted targets instead.

    With `norm="2"` the step goes along the gradient and has length `eps`.

    >>> w = jnp.array([1.0, -2.0])
    >>> fgsm(lambda x: (x @ w).sum(), jnp.zeros((1, 2)), 0.1)
    Array([[ 0.1, -0.1]], dtype=float32)
    """
    norm_named("fgsm", norm)
    check_radius("fgsm", eps, bounds, x.shape[1:], norm)
    return single_step(loss, x, -eps if targeted else eps, norm=norm, bounds=bounds)


def single_step(loss: Loss, x: Array, size: Any, *, norm: str = "inf", bounds: Bounds | None = None) -> Array:
    """`fgsm` without its checks; a negative size goes down."""
    return inside(x + size * NORMS[norm].steepest(_slope(loss)(x)[0]), bounds)


def pgd(
    loss: Loss,
    x: Array,
    eps: float,
    *,
    steps: int = 40,
    step: float | None = None,
    norm: str = "inf",
    momentum: float = 0.0,
    key: Key | None = None,
    restarts: int = 1,
    bounds: Bounds | None = None,
    targeted: bool = False,
) -> Array:
    """Steps up the loss, each followed by a projection onto the ball of radius `eps` around the example.

    A step is `2.5 eps / steps` unless given, along the sign of the gradient (`norm="inf"`) or the gradient at unit
    length (`norm="2"`); with `momentum` gradients of mean size one are added up, earlier ones by that factor a step.
    With a `key` it starts at a random point of the ball. Of several `restarts` every example keeps the one that took
    its loss furthest.
    """
    norm_named("pgd", norm)
    check_radius("pgd", eps, bounds, x.shape[1:], norm)
    whole("pgd", "steps", steps)
    whole("pgd", "restarts", restarts)
    share("pgd", "momentum", momentum, "the share of earlier gradients that is kept")
    if restarts > 1 and key is None:
        raise ArgumentError(
            f"pgd(restarts={restarts}): every start is the example itself",
            remedy="give a key: then each starts at a random point of the ball",
        )
    size = 2.5 * eps / steps if step is None else step
    sign = -1 if targeted else 1

    def once(key: Key | None) -> Array:
        return climb(loss, x, eps, sign * size, steps, norm=norm, momentum=momentum, key=key, bounds=bounds)

    if restarts == 1:
        return once(key)

    def judged(key: Key | None) -> Reached:
        found = once(key)
        return Reached(found, sign * loss(found))

    return best_of(judged, key, restarts)


class Reached(NamedTuple):
    """Attacked examples, and how far each got: the more, the better."""

    x: Array
    ahead: Float[Array, " batch"]

    def or_better(self, other: "Reached") -> "Reached":
        """For every example the one that got further."""
        better = other.ahead > self.ahead
        x = jnp.where(better.reshape(-1, *(1,) * (self.x.ndim - 1)), other.x, self.x)
        return Reached(x, jnp.where(better, other.ahead, self.ahead))


def best_of(once: Callable[[Any], Reached], key: Key | None, restarts: int) -> Array:
    """Of several starts with different keys, for every example the one that got furthest."""
    if restarts == 1:
        return once(key).x
    assert key is not None
    keys = jax.random.split(key, restarts)
    best, _ = jax.lax.scan(lambda best, key: (best.or_better(once(key)), None), once(keys[0]), keys[1:])
    return best.x


def climb(
    loss: Loss,
    x: Array,
    eps: Any,
    size: Any,
    steps: int,
    *,
    norm: str = "inf",
    momentum: float = 0.0,
    key: Key | None = None,
    bounds: Bounds | None = None,
) -> Array:
    """`pgd` without its checks, for radii and step sizes that are known only inside a compiled program.

    `eps` and `size` are numbers, or arrays with one for each example and axes of length one behind it.
    """
    move = mover(_slope(loss), x, eps, size, norm, momentum, bounds)
    start = started(x, eps, NORMS[norm], key, bounds)
    if not momentum:  # nothing is carried along that nobody reads
        return jax.lax.fori_loop(0, steps, lambda _, at: move((at, at))[0], start)
    return jax.lax.fori_loop(0, steps, lambda _, carry: move(carry)[:2], (start, jnp.zeros_like(x)))[0]


def furthest(
    joint: Callable[[Array], tuple[Array, Array]],
    x: Array,
    eps: Any,
    size: Any,
    steps: int,
    *,
    norm: str = "inf",
    momentum: float = 0.0,
    key: Key | None = None,
    bounds: Bounds | None = None,
) -> Reached:
    """`climb`, but of all points on the way the one that got furthest, for each example.

    `joint` gives losses and what examples are judged by from one evaluation, so that looking costs next to nothing: the
    last point of a climb may be a worse one than the points before.
    """
    slope = jax.grad(lambda x: _summed(joint(x)), has_aux=True)
    move = mover(slope, x, eps, size, norm, momentum, bounds)

    def onwards(_: Any, carry: tuple[Array, Array, Reached]) -> tuple[Array, Array, Reached]:
        at, average, best = carry
        after, average, ahead = move((at, average))
        return after, average, best.or_better(Reached(at, ahead))

    start = started(x, eps, NORMS[norm], key, bounds)
    worst = Reached(start, jnp.full(len(x), -jnp.inf, x.dtype))
    at, _, best = jax.lax.fori_loop(0, steps, onwards, (start, jnp.zeros_like(x), worst))
    return best.or_better(Reached(at, joint(at)[1]))


def path(
    loss: Loss,
    x: Array,
    eps: Any,
    size: Any,
    steps: int,
    *,
    norm: str = "inf",
    momentum: float = 0.0,
    bounds: Bounds | None = None,
) -> Array:
    """Where `climb` comes by from the example itself: (steps + 1, batch, ...), the example first."""
    move = mover(_slope(loss), x, eps, size, norm, momentum, bounds)

    def onwards(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        after, average, _ = move(carry)
        return (after, average), after

    _, stations = jax.lax.scan(onwards, (x, jnp.zeros_like(x)), length=steps)
    return jnp.concatenate([x[None], stations])


def mover(
    slope: Slope, x: Array, eps: Any, size: Any, norm: str, momentum: float, bounds: Bounds | None
) -> Move:
    """One step with its projection."""
    ball = NORMS[norm]

    def move(carry: tuple[Array, Array]) -> tuple[Array, Array, Any]:
        at, average = carry
        g, beside = slope(at)
        if momentum:
            inner = tuple(range(1, g.ndim))
            mean = jnp.maximum(jnp.abs(g).mean(axis=inner, keepdims=True), jnp.finfo(g.dtype).tiny)
            average = g = momentum * average + g / mean
        change = ball.within(at + size * ball.steepest(g) - x, eps)
        return inside(x + change, bounds), average, beside

    return move


def started(x: Array, eps: Any, ball: ChangeNorm, key: Key | None, bounds: Bounds | None) -> Array:
    """The examples, or random points of the balls around them."""
    return x if key is None else inside(x + eps * ball.drawn(key, x), bounds)


def _slope(loss: Loss) -> Slope:
    return jax.grad(lambda x: (jnp.sum(loss(x)), None), has_aux=True)


def _summed(judged: tuple[Array, Array]) -> tuple[Array, Array]:
    losses, ahead = judged
    return losses.sum(), ahead


__all__ = ["Loss", "Reached", "best_of", "climb", "fgsm", "furthest", "path", "pgd", "single_step", "started"]
