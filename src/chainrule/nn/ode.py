"""Integration of ordinary differential equations dy/dt = f(t, y) on any tree of arrays.

Two explicit Runge-Kutta methods: the classical one with fixed steps, and Dormand and Prince's with adaptive ones. They
serve non-stiff flows without a further dependency. Use diffrax instead for stiff equations, events, dense output,
adjoint gradients through many steps or stochastic equations.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Tree

Slope = Callable[[Array, Tree], Tree]
"""From time and state to the derivative of the state."""


class ODESolution(NamedTuple):
    """The solution at the end, the number of evaluations of f, and whether the end was reached."""

    y: Tree
    evaluations: Array
    reached: Array


def runge_kutta_step(f: Slope, t: Array, y: Tree, h: float | Array) -> Tree:
    """One step of length `h` of the classical fourth-order method.

    >>> float(runge_kutta_step(lambda t, y: y, jnp.zeros(()), jnp.ones(()), 0.1))
    1.10517...
    """
    k1 = f(t, y)
    k2 = f(t + h / 2, _along(y, h / 2, [1.0], [k1]))
    k3 = f(t + h / 2, _along(y, h / 2, [1.0], [k2]))
    k4 = f(t + h, _along(y, h, [1.0], [k3]))
    return _along(y, h / 6, [1.0, 2.0, 2.0, 1.0], [k1, k2, k3, k4])


def runge_kutta(f: Slope, y: Tree, start: Array, end: Array, steps: int) -> ODESolution:
    """The classical fourth-order method with equal steps."""
    if steps < 1:
        raise ArgumentError(f"steps={steps}: take at least one step")
    h = (end - start) / steps

    def step(y: Tree, index: Array) -> tuple[Tree, None]:
        return runge_kutta_step(f, start + index * h, y, h), None

    y, _ = jax.lax.scan(step, y, jnp.arange(steps))
    return ODESolution(y, jnp.asarray(4 * steps), jnp.ones((), bool))


# Dormand and Prince, 1980: stages, weights of the fifth-order result, and its difference from the fourth-order one.
_NODES = (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0)
_STAGES: tuple[tuple[float, ...], ...] = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
)
_RESULT = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def dormand_prince(
    f: Slope,
    y: Tree,
    start: Array,
    end: Array,
    *,
    rtol: float = 1e-5,
    atol: float = 1e-5,
    most: int = 10_000,
    differentiable: bool = False,
) -> ODESolution:
    """The fifth-order method with steps chosen so that the worst entry of every array keeps to its tolerance.

    A loop without a known end has no reverse mode. `differentiable` takes `most` turns instead, those after the end for
    nothing, and the reverse pass computes each step again; derivatives take the lengths of steps as given.
    """
    direction = jnp.sign(end - start)
    first = (end - start) / 100

    def unfinished(carry: tuple[Array, Tree, Tree, Array, Array]) -> Array:
        t, _, _, _, count = carry
        return (direction * (end - t) > 0) & (count < most)

    def step(carry: tuple[Array, Tree, Tree, Array, Array]) -> tuple[Array, Tree, Tree, Array, Array]:
        t, y, slope, h, count = carry
        last = direction * (t + h - end) >= 0
        h = jnp.where(last, end - t, h)
        slopes = [slope]
        for node, row in zip(_NODES[1:], _STAGES[1:], strict=True):
            slopes.append(f(t + node * h, _along(y, h, row, slopes)))
        new = _along(y, h, _RESULT, slopes)
        slopes.append(f(t + h, new))
        error = _along(jax.tree.map(jnp.zeros_like, y), h, _ERROR, slopes)
        size = jax.lax.stop_gradient(_worst(error, y, new, rtol, atol))
        good = size <= 1
        factor = jnp.clip(0.9 * jnp.maximum(size, 1e-10) ** -0.2, 0.2, 5.0)
        t = jnp.where(good, jnp.where(last, end, t + h), t)
        y, slope = (
            jax.tree.map(lambda a, b: jnp.where(good, a, b), one, other)
            for one, other in ((new, y), (slopes[-1], slope))
        )
        return t, y, slope, h * jnp.where(jnp.isfinite(factor), factor, 0.2), count + 1

    begin = (start, y, f(start, y), first, jnp.zeros((), int))
    if differentiable:

        def turn(carry: tuple[Array, Tree, Tree, Array, Array], _: None) -> tuple[Any, None]:
            return jax.lax.cond(unfinished(carry), jax.checkpoint(step), lambda carry: carry, carry), None

        (t, y, _, _, count), _ = jax.lax.scan(turn, begin, None, length=most)
    else:
        t, y, _, _, count = jax.lax.while_loop(unfinished, step, begin)
    return ODESolution(y, 1 + 6 * count, t == end)


def _along(y: Tree, h: float | Array, weights: tuple[float, ...] | list[float], slopes: list[Tree]) -> Tree:
    def move(y: Array, *slopes: Array) -> Array:
        return y + h * sum(float(w) * k for w, k in zip(weights, slopes, strict=True))

    return jax.tree.map(move, y, *slopes)


def _worst(error: Tree, old: Tree, new: Tree, rtol: float, atol: float) -> Array:
    def relative(e: Array, a: Array, b: Array) -> Array:
        return (jnp.abs(e) / (atol + rtol * jnp.maximum(jnp.abs(a), jnp.abs(b)))).max()

    found = jax.tree.leaves(jax.tree.map(relative, error, old, new))
    return jnp.stack(found).max()


__all__ = ["ODESolution", "Slope", "dormand_prince", "runge_kutta", "runge_kutta_step"]
