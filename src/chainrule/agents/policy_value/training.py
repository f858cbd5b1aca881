"""Training of a policy-value network on positions: (z - v)² - πᵀ log p + c |θ|², a step at a time.

π are the probabilities to be matched, z the outcome for whoever was to move. A position whose game was cut off has no
outcome and counts for the policy alone. Weights are stepped by Adam; an exponential average of them follows, for
playing in earnest only.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from chainrule.agents.games.base import Symmetry
from chainrule.agents.policy_value.network import PolicyValueNetwork
from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.nn import BatchNorm

_ADAM = optax.scale_by_adam()


class Examples(NamedTuple):
    """Positions and what is to be said of them."""

    planes: Float[Array, "batch height width planes"]
    policy: Float[Array, "batch actions"]
    """Probabilities of the moves."""
    outcome: Float[Array, " batch"]
    """1 won, -1 lost, 0 drawn, for whoever is to move."""
    known: Float[Array, " batch"]
    """1 where there is an outcome, else 0."""


class TrainingHyper(NamedTuple):
    """Numbers of the training."""

    learning_rate: Array | float = 1e-3
    decay: Array | float = 1e-4
    """The factor of the squared weights in the loss."""
    average: Array | float = 0.99
    """Share of the old in the average of the weights."""


class FitState(NamedTuple):
    """Weights on their way, and what goes with them; arrays only."""

    weights: Tree
    average: Tree
    moments: Tree
    updates: Array


def arrays(network: PolicyValueNetwork) -> Tree:
    """The arrays of a network: what a training state holds of it."""
    return eqx.filter(network, eqx.is_array)


def restore(like: PolicyValueNetwork, weights: Tree) -> PolicyValueNetwork:
    """The network whose arrays these are; `like` is one of the same settings."""
    network: PolicyValueNetwork = eqx.combine(weights, eqx.filter(like, eqx.is_array, inverse=True))
    return network


def begin_fit(network: PolicyValueNetwork) -> FitState:
    """The state that training begins with."""
    moments = _ADAM.init(eqx.filter(network, _trained(network)))
    return FitState(arrays(network), arrays(network), moments, jnp.zeros((), jnp.int32))


def loss(
    network: PolicyValueNetwork, examples: Examples, decay: Array | float
) -> tuple[Scalar, tuple[dict[str, Array], PolicyValueNetwork]]:
    """The loss, with its parts by name and the network with its running statistics moved on."""
    (logits, values), moved = network.advance(examples.planes)
    log_p = jax.nn.log_softmax(logits)
    policy_loss = -(examples.policy * log_p).sum(1).mean()
    with_outcome = jnp.maximum(examples.known.sum(), 1)
    value_loss = (examples.known * (examples.outcome - values) ** 2).sum() / with_outcome
    # Where an outcome is not a draw: does the value take the right side?
    decided = examples.known * (examples.outcome != 0)
    right = (decided * (jnp.sign(values) == examples.outcome)).sum() / jnp.maximum(decided.sum(), 1)
    squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(eqx.filter(network, _trained(network))))
    total = policy_loss + value_loss + decay * squares
    metrics = {
        "loss": total,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "value_accuracy": right,
        "entropy": -(jnp.exp(log_p) * log_p).sum(1).mean(),
    }
    return total, (metrics, moved)


def update(
    like: PolicyValueNetwork, fitted: FitState, examples: Examples, hyper: TrainingHyper
) -> tuple[FitState, dict[str, Array]]:
    """One step down the gradient of the loss."""
    network = restore(like, fitted.weights)
    parameters, rest = eqx.partition(network, _trained(network))

    def of(parameters: Tree) -> tuple[Scalar, tuple[dict[str, Array], PolicyValueNetwork]]:
        return loss(eqx.combine(parameters, rest), examples, hyper.decay)

    grads, (metrics, moved) = jax.grad(of, has_aux=True)(parameters)
    direction, moments = _ADAM.update(grads, fitted.moments)
    parameters = jax.tree.map(lambda p, d: p - hyper.learning_rate * d, parameters, direction)
    statistics = eqx.filter(moved, _trained(moved), inverse=True)
    weights = arrays(eqx.combine(parameters, statistics))
    # The first updates count more than their share, so that the average soon forgets where it began.
    n = fitted.updates + 1
    old = jnp.minimum(hyper.average, n / (n + 9))
    average = jax.tree.map(lambda a, w: old * a + (1 - old) * w, fitted.average, weights)
    return FitState(weights, average, moments, n), metrics


def turned(key: Key, examples: Examples, symmetries: tuple[Symmetry, ...]) -> Examples:
    """Every position turned or mirrored at random, the probabilities of its moves with it."""
    batch, *shape = examples.planes.shape
    which = jax.random.randint(key, (batch,), 0, len(symmetries))
    cells = jnp.asarray(np.stack([each.cells for each in symmetries]))[which]
    actions = jnp.asarray(np.stack([each.actions for each in symmetries]))[which]
    planes = examples.planes.reshape(batch, -1, shape[-1])
    return examples._replace(
        planes=jnp.take_along_axis(planes, cells[:, :, None], 1).reshape(examples.planes.shape),
        policy=jnp.take_along_axis(examples.policy, actions, 1),
    )


def _trained(network: PolicyValueNetwork) -> Any:
    """Which leaves are trained: all arrays but the running statistics of batch normalisation."""

    def of(node: Any) -> Any:
        if not isinstance(node, BatchNorm):
            return eqx.is_inexact_array(node)
        everything = jax.tree.map(eqx.is_inexact_array, node)
        return eqx.tree_at(lambda norm: (norm.mean, norm.var), everything, (False, False))

    return jax.tree.map(of, network, is_leaf=lambda node: isinstance(node, BatchNorm))


__all__ = [
    "Examples",
    "FitState",
    "TrainingHyper",
    "arrays",
    "begin_fit",
    "loss",
    "restore",
    "turned",
    "update",
]
