"""Stochastic gradient descent with its certificate: the average of the points converges like 1/sqrt(T).

For a convex function and gradients with noise of mean zero, `E f(average) - f* <= |x0 - x*|² / (2 lr T) + lr G² / 2`,
where G² bounds the mean square of the noisy gradients. The rate lr = |x0 - x*| / (G sqrt(T)) makes it `|x0 - x*| G /
sqrt(T)` (Nemirovski and Yudin, 1983). The theorem is about the average and says nothing about the last point.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Scalar


@final
@dataclass(frozen=True)
class NoisyPath:
    """Means over several runs."""

    average_gaps: np.ndarray
    """Of `f(average of the first t points) - f*`, for t = 1 ... steps."""
    last_gaps: np.ndarray
    """Of `f(point t) - f*`."""
    bounds: np.ndarray
    """What theory allows for the average, for each number of steps at this rate."""
    gradient_bound: float
    """G: root of the largest mean square of the noisy gradient seen along the way."""

    @property
    def is_violated(self) -> bool:
        """Whether the average is above its bound anywhere, or not finite: an assumption is broken."""
        kept = np.isfinite(self.average_gaps) & (self.average_gaps <= self.bounds * (1 + 1e-6))
        return not kept.all()


def stochastic_descent(
    f: Callable[[Array], Scalar],
    x0: Float[Array, " d"],
    lr: float,
    steps: int,
    *,
    noise: float,
    minimizer: Float[Array, " d"],
    key: Key,
    runs: int = 50,
) -> NoisyPath:
    """Descent on gradients to which normal noise is added, the mean of many runs.

    >>> found = stochastic_descent(
    ...     lambda x: (x**2).sum(), jnp.ones(2), 0.05, 50, noise=1.0, minimizer=jnp.zeros(2), key=jax.random.key(0)
    ... )
    >>> found.is_violated
    False
    """
    if not lr > 0 or steps < 1 or runs < 1 or noise < 0:
        raise ArgumentError(
            f"lr={lr}, steps={steps}, runs={runs}, noise={noise}: positive, noise at least zero"
        )
    slope = jax.grad(f)

    def once(key: Key) -> tuple[Array, Array, Array]:
        def step(
            carry: tuple[Array, Array], t: Array
        ) -> tuple[tuple[Array, Array], tuple[Array, Array, Array]]:
            x, total = carry
            g = slope(x) + noise * jax.random.normal(jax.random.fold_in(key, t), x.shape, x.dtype)
            total = total + x
            return (x - lr * g, total), (f(total / (t + 1)), f(x), jnp.square(g).sum())

        _, seen = jax.lax.scan(step, (x0, jnp.zeros_like(x0)), jnp.arange(steps))
        return seen

    average, last, squares = jax.jit(jax.vmap(once))(jax.random.split(key, runs))
    least = float(f(minimizer))
    largest = float(squares.mean(axis=0).max())
    distance = float(jnp.square(x0 - minimizer).sum())
    t = np.arange(1, steps + 1)
    return NoisyPath(
        np.asarray(average.mean(axis=0), dtype=np.float64) - least,
        np.asarray(last.mean(axis=0), dtype=np.float64) - least,
        distance / (2 * lr * t) + lr * largest / 2,
        largest**0.5,
    )


__all__ = ["NoisyPath", "stochastic_descent"]
