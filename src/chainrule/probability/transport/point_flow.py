"""Points that follow the gradient of a distance to others: what a loss would teach a generator, without one.

Every point moves by its share of the gradient, `y ← y - step · n ∇_y L(y)`, as a particle of unit mass would. With the
Sinkhorn divergence points end on the target; with the biased entropic cost they end on a shrunken copy of it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, DivergedError, check_choice
from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.transport.costs import two_sets
from chainrule.probability.transport.divergence import costs_between, divergence_terms
from chainrule.probability.transport.entropic.costs import EntropicProblem
from chainrule.probability.transport.entropic.iteration import DEPTH
from chainrule.probability.transport.entropic.marginals import Balanced
from chainrule.probability.transport.entropic.solving import solved
from chainrule.probability.transport.sinkhorn import MOST, limits_of, strength

LOSSES = ("divergence", "entropic")


class PointFlow(NamedTuple):
    """Where the points were at some of the steps, and the loss before every step and at the end."""

    frames: Float[Array, "frames points dim"]
    steps: np.ndarray
    """The step of each frame; 0 is the beginning."""
    losses: Float[Array, " steps"]


def point_flow(
    y: Any,
    x: Any,
    loss: str | Callable[[Array], Scalar] = "divergence",
    eps: Any = None,
    *,
    step: float = 0.1,
    steps: int = 100,
    frames: int = 11,
    cost: Any = "sqeuclidean",
) -> PointFlow:
    """Points `y` on their way to points `x`, downhill on a loss.

    `loss` is "divergence" (Sinkhorn's, the default), "entropic" (with its bias), or any differentiable function of the
    moving points, such as a kernel distance. `eps` is a twentieth of the mean cost at the beginning by default.

    >>> x = jnp.linspace(0, 1, 4)[:, None]
    >>> found = point_flow(x - 3.0, x, step=0.25, steps=10, frames=3)
    >>> found.frames.shape, found.steps.tolist(), round(float(found.losses[0]), 3), float(found.losses[-1]) < 1e-3
    ((3, 4, 1), [0, 5, 10], 9.0, True)
    """
    moving, target = two_sets("point_flow", y, x)
    if not 0 < step < np.inf:
        raise ArgumentError(f"point_flow(step={step}): points move by a positive step", remedy="use 0.1")
    count = whole("point_flow", "steps", steps)
    shown = whole("point_flow", "frames", frames, least=2)
    if isinstance(loss, str):
        check_choice("point_flow", "loss", loss, LOSSES)
        absolute = strength("point_flow", eps, costs_between(moving, target, cost))
        function = _loss(loss, target, absolute, cost)
    else:
        function = loss
    kept = np.unique(np.linspace(0, count, min(shown, count + 1)).round().astype(int))
    walked, losses = _walked(function, moving, step, count, kept)
    lost = ~np.isfinite(np.asarray(losses))
    if lost.any():
        raise DivergedError(
            f"point_flow: the loss is {float(losses[lost.argmax()])} before move {int(lost.argmax()) + 1} "
            f"with step={step:g}",
            remedy=f"use smaller steps: step={min(step / 4, 0.1):.2g}",
        )
    return PointFlow(walked, kept, losses)


def _loss(name: str, target: Array, eps: Scalar, cost: Any) -> Callable[[Array], Scalar]:
    limits = limits_of("point_flow", None, MOST, target.dtype)
    to = jnp.full(len(target), 1 / len(target), target.dtype)

    def loss(y: Array) -> Scalar:
        own = jnp.full(len(y), 1 / len(y), y.dtype)
        if name == "divergence":
            return divergence_terms(y, target, own, to, eps, limits, cost).value
        problem = EntropicProblem(own, to, eps, Balanced())
        return solved(costs_between(y, target, cost), problem, limits, DEPTH).value

    return loss


def _walked(
    loss: Callable[[Array], Scalar], y: Array, step: float, count: int, kept: np.ndarray
) -> tuple[Array, Array]:
    slope = jax.value_and_grad(loss)

    def move(carry: tuple[Array, Array], number: Array) -> tuple[tuple[Array, Array], Scalar]:
        y, frames = carry
        value, gradient = slope(y)
        moved = y - step * len(y) * gradient
        here = (jnp.asarray(kept) == number + 1)[:, None, None]
        return (moved, jnp.where(here, moved[None], frames)), value

    @jax.jit
    def walk(y: Array) -> tuple[Array, Array]:
        frames = jnp.broadcast_to(y[None], (len(kept), *y.shape))
        (end, frames), values = jax.lax.scan(move, (y, frames), jnp.arange(count))
        return frames, jnp.append(values, loss(end))

    return walk(y)


__all__ = ["PointFlow", "point_flow"]
