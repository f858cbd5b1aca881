"""Selection of source examples: weights that are zero or one, with a reason for each row that stays.

By weight: those that count most under importance weights. By neighbours: those nearest to target examples. By herding:
one after another, each the one that brings the mean feature of the chosen closest to that of the target. By a gate: a
logistic function of random features, trained so that what passes has the mean feature of the target.

References: Bickel et al., 2007 (weights); Chen, Welling and Smola, Super-samples from kernel herding, 2010.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float, Int

from chainrule.core import random
from chainrule.core.errors import ArgumentError, DataError, check_choice
from chainrule.core.types import Array
from chainrule.data.dataset import Data
from chainrule.data.splits import Rows
from chainrule.kernels.mean_embedding import mean_features, median_kernel, row_means
from chainrule.kernels.precision import in_double
from chainrule.probability.samples.neighbours import nearest
from chainrule.transfer.importance import domain_rows, importance_weights

_NEIGHBOURS = 5
_FEATURES = 128
_STEPS = 300

Points = Float[np.ndarray, "_ features"]


@final
@dataclass(frozen=True)
class Selection:
    """Rows of the source that are kept, best first, and why."""

    rows: Int[np.ndarray, " kept"]
    reasons: tuple[str, ...]
    """One for each row that is kept."""
    scores: Float[np.ndarray, " kept"]
    """What the rows were chosen by; their reasons say what it is."""
    method: str
    of: int
    """Rows there were."""

    def applied(self, data: Data) -> Data:
        """The source with these training examples only."""
        train = data.train
        if not isinstance(train, Rows):
            raise DataError(f"{data.name}: examples that are not rows cannot be selected")
        if len(train) != self.of:
            raise ArgumentError(
                f"rows of {self.of} examples were selected; {data.name} has {len(train)} for training",
                remedy="select from data.train.x",
            )
        kept = np.sort(self.rows)
        return replace(
            data, train=replace(train, arrays={name: array[kept] for name, array in train.arrays.items()})
        )


def select(
    source: Any, target: Any, fraction: float = 0.5, method: str = "weight", *, seed: int = 0
) -> Selection:
    """The share of source examples that are most like the target.

    `method` is "weight", "nearest", "herding" or "gate".

    >>> found = select([[0.0], [1.0], [9.0]], [[8.0], [8.5]], 0.3, "nearest")
    >>> found.rows.tolist(), found.reasons
    ([2], ('mean distance 0.75 to its 2 nearest target examples',))
    """
    check_choice("select", "method", method, METHODS)
    if not 0 < fraction <= 1:
        raise ArgumentError(f"select(fraction={fraction}): a share above 0 and up to 1")
    first, second = domain_rows("select", source, target)
    count = max(1, round(fraction * len(first)))
    rows, scores, said = METHODS[method](first, second, count, seed)
    reasons = tuple(said.format(score) for score in scores)
    return Selection(np.asarray(rows, np.int64), reasons, np.asarray(scores, np.float64), method, len(first))


def _by_weight(source: Points, target: Points, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    weights = importance_weights(source, target, clip=100.0, seed=seed).values
    rows = np.argsort(-weights, kind="stable")[:count]
    return rows, weights[rows], "importance weight {:.3g}"


def _by_neighbours(
    source: Points, target: Points, count: int, seed: int
) -> tuple[np.ndarray, np.ndarray, str]:
    del seed
    many = min(_NEIGHBOURS, len(target))
    distances = nearest(source, target, many)[0].mean(axis=1)
    rows = np.argsort(distances, kind="stable")[:count]
    return rows, distances[rows], f"mean distance {{:.3g}} to its {many} nearest target examples"


def _by_herding(source: Points, target: Points, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    del seed
    rows = _herded(source, target, count)
    return (
        np.asarray(rows),
        np.arange(1.0, count + 1),
        "number {:.0f} to bring the mean feature to the target's",
    )


def _by_gate(source: Points, target: Points, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    passes = np.asarray(_gated(source, target, count / len(source), seed))
    rows = np.argsort(-passes, kind="stable")[:count]
    return rows, passes[rows], "the gate lets it through with probability {:.3g}"


METHODS: dict[str, Callable[[Points, Points, int, int], tuple[np.ndarray, np.ndarray, str]]] = {
    "weight": _by_weight,
    "nearest": _by_neighbours,
    "herding": _by_herding,
    "gate": _by_gate,
}


@in_double
def _herded(source: Any, target: Any, count: int) -> Any:
    kernel = median_kernel(source, target)
    return _greedy(
        kernel.gram(jnp.asarray(source)), row_means(kernel, jnp.asarray(source), jnp.asarray(target)), count
    )


@eqx.filter_jit
def _greedy(gram: Array, pull: Array, count: int) -> Int[Array, " count"]:
    """Each next row has the largest pull less the mean kernel with those that were chosen."""

    def choose(state: tuple[Array, Array], number: Array) -> tuple[tuple[Array, Array], Array]:
        total, free = state
        chosen = jnp.where(free, pull - total / (number + 1), -jnp.inf).argmax()
        return (total + gram[chosen], free.at[chosen].set(False)), chosen

    begin = (jnp.zeros_like(pull), jnp.ones(len(pull), bool))
    return jax.lax.scan(choose, begin, jnp.arange(count))[1]


@in_double
def _gated(source: Any, target: Any, share: float, seed: int) -> Any:
    x, y = jnp.asarray(source), jnp.asarray(target)
    first, second = mean_features(median_kernel(x, y), x, y, _FEATURES, random.key(seed, "gate"))
    return _trained_gate(first, second.mean(axis=0), share)


@eqx.filter_jit
def _trained_gate(features: Array, wanted: Array, share: float) -> Float[Array, " rows"]:
    """Probabilities of passing, the wanted share on average, that bring the mean feature to the wanted one."""
    optimizer = optax.adam(0.1)
    scale = math.sqrt(features.shape[1])

    def passes(weights: Array) -> Array:
        return jax.nn.sigmoid(scale * features @ weights[:-1] + weights[-1])

    def loss(weights: Array) -> Array:
        gate = passes(weights)
        mean = gate @ features / gate.sum()
        # Gates that are all half open select nothing.
        undecided = (gate * (1 - gate)).mean()
        return jnp.square(mean - wanted).sum() + jnp.square(gate.mean() - share) + 0.05 * undecided

    def step(carry: tuple[Array, Any], _: None) -> tuple[tuple[Array, Any], None]:
        weights, state = carry
        updates, state = optimizer.update(jax.grad(loss)(weights), state)
        return (weights + updates, state), None

    begin = jnp.zeros(features.shape[1] + 1)
    (weights, _), _ = jax.lax.scan(step, (begin, optimizer.init(begin)), None, length=_STEPS)
    return passes(weights)


__all__ = ["METHODS", "Selection", "select"]
