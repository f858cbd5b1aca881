"""Critics of pairs: networks f(x, y) that are high where x and y belong together, and how they are trained.

A batch of n pairs gives n scores of pairs that belong together and n (n - 1) of pairs that do not, all from one matrix.
One compiled program trains a critic, looks at pairs kept apart every few steps, keeps the best weights and stops when
they stop getting better.
"""

import abc
from collections.abc import Callable
from typing import NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.information.early_stopping import best_weights
from chainrule.nn import Linear

_EMBEDDING = 32
_AVERAGED = 0.01
"""Share of a batch in the running average of exp(f) over pairs that do not belong together."""

Objective: TypeAlias = Callable[[Float[Array, "n m"], Scalar], tuple[Scalar, Scalar]]
"""From the matrix of scores and the running logarithm of the mean of exp(f) to what is raised, and that logarithm."""


@final
class CriticNetwork(eqx.Module):
    """A dense network of standardised rows."""

    layers: tuple[Linear, ...]
    mean: Float[Array, " features"]
    scale: Float[Array, " features"]

    def __init__(self, rows: np.ndarray, outputs: int, *, width: int, depth: int, key: Key) -> None:
        sizes = [rows.shape[1], *[width] * depth, outputs]
        keys = jax.random.split(key, depth + 1)
        self.layers = tuple(Linear(n, m, key=k) for n, m, k in zip(sizes[:-1], sizes[1:], keys, strict=True))
        spread = rows.std(axis=0)
        self.mean = jnp.asarray(rows.mean(axis=0), jnp.float32)
        self.scale = jnp.asarray(np.where(spread > 0, spread, 1.0), jnp.float32)

    def __call__(self, rows: Float[Array, "batch features"]) -> Float[Array, "batch outputs"]:
        """Its outputs for each row."""
        h = (rows - self.mean[None]) / self.scale[None]
        for layer in self.layers[:-1]:
            h = jax.nn.silu(layer(h))
        return self.layers[-1](h)


class PairCritic(eqx.Module):
    """Scores of every x with every y."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "n first"], y: Float[Array, "m second"]) -> Float[Array, "n m"]:
        """f(x_i, y_j)."""


@final
class SeparableCritic(PairCritic):
    """f(x, y) = g(x)·h(y) + a(x) + b(y): each value passes its network once."""

    first: CriticNetwork
    second: CriticNetwork

    def __init__(self, x: np.ndarray, y: np.ndarray, *, width: int, depth: int, key: Key) -> None:
        keys = jax.random.split(key)
        self.first = CriticNetwork(x, _EMBEDDING + 1, width=width, depth=depth, key=keys[0])
        self.second = CriticNetwork(y, _EMBEDDING + 1, width=width, depth=depth, key=keys[1])

    def __call__(self, x: Float[Array, "n first"], y: Float[Array, "m second"]) -> Float[Array, "n m"]:
        """Products of the two embeddings."""
        one, two = self.first(x), self.second(y)
        product = one[:, 1:] @ two[:, 1:].T / np.sqrt(_EMBEDDING)
        return product + one[:, :1] + two[:, :1].T


@final
class JointCritic(PairCritic):
    """f(x, y) of one network that sees both: every pair passes it."""

    network: CriticNetwork

    def __init__(self, x: np.ndarray, y: np.ndarray, *, width: int, depth: int, key: Key) -> None:
        both = np.concatenate([x, y], axis=1)
        self.network = CriticNetwork(both, 1, width=width, depth=depth, key=key)

    def __call__(self, x: Float[Array, "n first"], y: Float[Array, "m second"]) -> Float[Array, "n m"]:
        """The network at every pair."""
        n, m = len(x), len(y)
        rows = jnp.concatenate([jnp.repeat(x, m, axis=0), jnp.tile(y, (n, 1))], axis=1)
        return self.network(rows).reshape(n, m)


@final
class LabelCritic(PairCritic):
    """log q(y|x) for labels y, of which y has a column each."""

    network: CriticNetwork

    def __init__(self, x: np.ndarray, y: np.ndarray, *, width: int, depth: int, key: Key) -> None:
        self.network = CriticNetwork(x, y.shape[1], width=width, depth=depth, key=key)

    def __call__(self, x: Float[Array, "n first"], y: Float[Array, "m second"]) -> Float[Array, "n m"]:
        """The logarithm of the probability of the label of y_j at x_i."""
        return jax.nn.log_softmax(self.network(x)) @ y.T


CRITICS: dict[str, type[SeparableCritic] | type[JointCritic]] = {
    "separable": SeparableCritic,
    "joint": JointCritic,
}


# ---------------------------------------------------------------------- what is raised


def info_nce(scores: Float[Array, "n n"], running: Scalar) -> tuple[Scalar, Scalar]:
    """log n minus the cross-entropy of finding the partner of each x among n (van den Oord, Li and Vinyals, 2018)."""
    n = len(scores)
    return (jnp.diagonal(scores) - jax.nn.logsumexp(scores, axis=1)).mean() + jnp.log(float(n)), running


def donsker_varadhan(scores: Float[Array, "n n"], running: Scalar) -> tuple[Scalar, Scalar]:
    """E f - log E exp(f), whose gradient divides by a running mean (Belghazi et al., 2018): a batch's is biased."""
    log_mean = _log_mean_apart(scores)
    now = jnp.where(jnp.isnan(running), log_mean, running)
    running = jax.lax.stop_gradient(jnp.logaddexp(jnp.log1p(-_AVERAGED) + now, jnp.log(_AVERAGED) + log_mean))
    value = jnp.diagonal(scores).mean() - log_mean
    raised = jnp.diagonal(scores).mean() - jnp.exp(log_mean - running)
    return raised + jax.lax.stop_gradient(value - raised), running


def nguyen_wainwright_jordan(scores: Float[Array, "n n"], running: Scalar) -> tuple[Scalar, Scalar]:
    """E f - E exp(f - 1) (Nguyen, Wainwright and Jordan, 2010), of scores that are one higher than the critic's."""
    return jnp.diagonal(scores).mean() + 1 - jnp.exp(_log_mean_apart(scores)), running


def jensen_shannon(scores: Float[Array, "n n"], running: Scalar) -> tuple[Scalar, Scalar]:
    """How well pairs are told from others: steady to train, with the log ratio as its optimum."""
    apart = jnp.where(jnp.eye(len(scores), dtype=bool), 0.0, jax.nn.softplus(scores)).sum()
    together = jax.nn.softplus(-jnp.diagonal(scores)).mean()
    return -together - apart / (len(scores) * (len(scores) - 1)), running


def likelihood(scores: Float[Array, "n n"], running: Scalar) -> tuple[Scalar, Scalar]:
    """The mean of the scores of pairs that belong together, where they are log-probabilities."""
    return jnp.diagonal(scores).mean(), running


def _log_mean_apart(scores: Float[Array, "n n"]) -> Scalar:
    n = len(scores)
    hidden = jnp.where(jnp.eye(n, dtype=bool), -jnp.inf, scores)
    return jax.nn.logsumexp(hidden) - jnp.log(float(n * (n - 1)))


# ---------------------------------------------------------------------- training


class FittedCritic(NamedTuple):
    """A critic as it was best."""

    critic: PairCritic
    best_step: Array
    steps: Array
    """Steps that were made."""


@eqx.filter_jit
def fit_critic(
    critic: PairCritic,
    pairs: tuple[Array, Array],
    kept: tuple[Array, Array],
    key: Key,
    *,
    objective: Objective,
    steps: int,
    every: int,
    patience: int,
    batch: int,
    lr: float,
) -> FittedCritic:
    """Train for at most `steps`, until `patience` looks in a row at pairs kept apart are no better than the best."""
    weights, rest = eqx.partition(critic, _trainable(critic))
    n = len(pairs[0])
    size = min(batch, n)
    unknown = jnp.asarray(jnp.nan, jnp.float32)

    def raised(weights: Tree, key: Key, running: Scalar) -> tuple[Scalar, Scalar]:
        # Different pairs: one that is there twice would be its own counterexample.
        chosen = jax.random.choice(key, n, (size,), replace=False)
        return objective(eqx.combine(weights, rest)(pairs[0][chosen], pairs[1][chosen]), running)

    found = best_weights(
        weights,
        raised,
        lambda weights: objective(eqx.combine(weights, rest)(*kept), unknown)[0],
        key,
        carried=unknown,
        steps=steps,
        every=every,
        patience=patience,
        lr=lr,
    )
    return FittedCritic(eqx.combine(found.weights, rest), found.step, found.steps)


def _trainable(critic: PairCritic) -> Tree:
    """All arrays but the means and scales inputs are standardised by."""

    def of(node: CriticNetwork) -> CriticNetwork:
        nothing = jax.tree.map(lambda _: False, node)
        return eqx.tree_at(lambda one: one.layers, nothing, jax.tree.map(eqx.is_array, node.layers))

    return jax.tree.map(of, critic, is_leaf=lambda node: isinstance(node, CriticNetwork))


__all__ = [
    "CRITICS",
    "CriticNetwork",
    "FittedCritic",
    "JointCritic",
    "LabelCritic",
    "Objective",
    "PairCritic",
    "SeparableCritic",
    "donsker_varadhan",
    "fit_critic",
    "info_nce",
    "jensen_shannon",
    "likelihood",
    "nguyen_wainwright_jordan",
]
