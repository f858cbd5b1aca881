"""Critics: networks T(x) trained on two samples to raise the lower bound E_p T - E_q f*(T) of an f-divergence.

One compiled program trains a critic, looks at the bound on points kept apart every few steps, keeps the best weights
and stops when they stop getting better. A critic starts as the constant f'(1), whose bound is f(1): nothing is claimed
that was not learned. It stays between f'(1/n) and f'(n): n points cannot tell of larger ratios p/q, and where f' is
steep a network that goes on beyond them ruins the bound by a single point.
"""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.information.early_stopping import best_weights
from chainrule.nn import Linear
from chainrule.probability.divergences import FDivergence

_ROWS = 16_384
"""Points a critic is asked about at once."""
_FARTHEST = 2.0**16
"""Outputs are never larger."""


@final
class Critic(eqx.Module):
    """T(x) = g(V(x)): a dense network V of standardised points, brought to where the conjugate is finite."""

    layers: tuple[Linear, ...]
    mean: Float[Array, " features"]
    scale: Float[Array, " features"]
    ends: Float[Array, "3"]
    """The least output, that at which the critic is f'(1), and the largest."""
    divergence: FDivergence = eqx.field(static=True)

    def __init__(
        self,
        divergence: FDivergence,
        mean: Array,
        scale: Array,
        *,
        ratio: float = 1e4,
        width: int = 64,
        depth: int = 2,
        key: Key,
    ) -> None:
        sizes = [len(mean), *[width] * depth]
        *inner, last = jax.random.split(key, depth + 1)
        self.layers = (
            *(Linear(n, m, key=k) for n, m, k in zip(sizes[:-1], sizes[1:], inner, strict=True)),
            Linear(sizes[-1], 1, key=last, initializer="zero"),
        )
        self.mean, self.scale, self.divergence = mean, scale, divergence
        self.ends = _outputs_at(divergence, jnp.array([1 / ratio, 1.0, ratio]))

    def outputs(self, x: Float[Array, "batch features"]) -> Float[Array, " batch"]:
        """The raw output V(x), from one end to the other."""
        h = (x - self.mean[None]) / self.scale[None]
        for layer in self.layers[:-1]:
            h = jax.nn.silu(layer(h))
        change = self.layers[-1](h)[:, 0]
        down, up = self.ends[0] - self.ends[1], self.ends[2] - self.ends[1]
        return self.ends[1] + jnp.where(
            change < 0, down * jnp.tanh(change / down), up * jnp.tanh(change / up)
        )

    def __call__(self, x: Array | np.ndarray) -> Float[np.ndarray, " batch"]:
        """T(x) at points, one for each row; a list of numbers is one of points with one coordinate."""
        return _values(self, rows_of(x))[0]

    def terms(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """T at points of p and f*(T) at points of q, the terms of the bound."""
        return _values(self, x)[0], _values(self, y)[1]


def rows_of(x: Array | np.ndarray) -> Float[np.ndarray, "batch features"]:
    """Points as rows of numbers, whatever shape each has.

    >>> rows_of(np.zeros((5, 2, 3))).shape, rows_of(np.zeros(5)).shape
    ((5, 6), (5, 1))
    """
    points = np.asarray(x, dtype=np.float32)
    return points.reshape(len(points), -1)


class Fitted(NamedTuple):
    """A critic as it was best, and the way there."""

    critic: Critic
    best: Scalar
    """Its bound on the points kept apart."""
    at: Array
    """The step at which it was best."""
    steps: Array
    """Steps that were made."""
    curve: Float[Array, "looks 2"]
    """The bound on training batches (the mean since the last look) and on points kept apart; not a number: no look."""


@eqx.filter_jit
def fit(
    critic: Critic,
    x: Float[Array, "n features"],
    y: Float[Array, "m features"],
    kept: tuple[Array, Array],
    key: Key,
    *,
    steps: int,
    every: int,
    patience: int,
    batch: int,
    lr: float,
) -> Fitted:
    """Train for at most `steps`, until `patience` looks in a row are no better than the best one."""
    weights, rest = eqx.partition(critic, _trainable(critic))

    def bound(weights: Tree, one: Array, two: Array) -> Scalar:
        current = eqx.combine(weights, rest)
        return critic.divergence.bound_of_outputs(current.outputs(one), current.outputs(two))

    def raised(weights: Tree, key: Key, nothing: Tree) -> tuple[Scalar, Tree]:
        first, second = jax.random.split(key)
        one = x[jax.random.randint(first, (batch,), 0, len(x))]
        two = y[jax.random.randint(second, (batch,), 0, len(y))]
        return bound(weights, one, two), nothing

    found = best_weights(
        weights,
        raised,
        lambda weights: bound(weights, *kept),
        key,
        steps=steps,
        every=every,
        patience=patience,
        lr=lr,
    )
    return Fitted(eqx.combine(found.weights, rest), found.value, found.step, found.steps, found.curve)


def _trainable(critic: Critic) -> Tree:
    nothing = jax.tree.map(lambda _: False, critic)
    return eqx.tree_at(lambda c: c.layers, nothing, jax.tree.map(eqx.is_array, critic.layers))


@eqx.filter_jit
def _outputs_at(divergence: FDivergence, ratios: Array) -> Array:
    """The outputs v whose critics g(v) are f' at these ratios, by halving; an end where none is."""
    wanted = divergence.slope(ratios)

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        right = divergence.activation(middle) < wanted
        return jnp.where(right, middle, low), jnp.where(right, high, middle)

    start = jnp.full_like(ratios, -_FARTHEST), jnp.full_like(ratios, _FARTHEST)
    return jax.lax.fori_loop(0, 60, halve, start)[1]


@eqx.filter_jit
def _of_outputs(critic: Critic, x: Array) -> tuple[Array, Array]:
    outputs = critic.outputs(x)
    return critic.divergence.activation(outputs), critic.divergence.conjugate_of_output(outputs)


def _values(critic: Critic, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """T and f*(T) at points, some thousands at a time."""
    parts = [_of_outputs(critic, jnp.asarray(x[start : start + _ROWS])) for start in range(0, len(x), _ROWS)]
    first, second = (np.concatenate([np.asarray(part[side]) for part in parts]) for side in (0, 1))
    return first, second


__all__ = ["Critic", "Fitted", "fit", "rows_of"]
