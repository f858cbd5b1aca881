"""Optimisers by name, at learning rate one.

Each is an Optax transformation whose update is the full step for a learning rate of one; the loop multiplies it by the
rate of the moment. The rate therefore never hides in the optimiser's state: it can be logged, changed when a run is
resumed, or halved after a divergence. Weight decay is decoupled from the gradient and acts on matrices only.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import pydantic
from optax.contrib import muon as optax_muon

from chainrule.core.errors import ArgumentError
from chainrule.core.registry import Registry
from chainrule.core.types import Tree
from chainrule.models import explain
from chainrule.train.config import Optimizer

directions: Registry[Callable[[Optimizer], optax.GradientTransformation]] = Registry("optimizer")

directions.add("sgd", lambda s: optax.identity())
directions.add("momentum", lambda s: optax.trace(s.momentum))
directions.add("nesterov", lambda s: optax.trace(s.momentum, nesterov=True))
directions.add("adagrad", lambda s: scale_by_adagrad(s.eps))
directions.add("rmsprop", lambda s: optax.scale_by_rms(s.momentum, s.eps, eps_in_sqrt=False))
directions.add("adam", lambda s: optax.scale_by_adam(*s.betas, s.eps))
directions.add("adamw", lambda s: optax.scale_by_adam(*s.betas, s.eps))
directions.add("lion", lambda s: optax.scale_by_lion(*s.betas))
# Muon moves matrices by orthogonalised momentum and everything else by Adam with Nesterov momentum.
directions.add(
    "muon",
    lambda s: optax.chain(
        optax_muon(1.0, eps=s.eps, adam_b1=s.betas[0], adam_b2=s.betas[1]), optax.scale(-1.0)
    ),
)


def optimizer(settings: Optimizer) -> optax.GradientTransformation:
    """The transformation from gradients to updates at learning rate one.

    >>> step = optimizer(Optimizer(name="sgd"))
    >>> updates, _ = step.update({"w": jnp.array([2.0])}, step.init({"w": jnp.zeros(1)}), {"w": jnp.zeros(1)})
    >>> updates["w"].tolist()
    [-2.0]
    """
    nothing = optax.identity()
    # Every slot is always there: the state keeps its shape, so clipping and decay can be changed on resume.
    return optax.chain(
        nothing if settings.clip_value is None else optax.clip(settings.clip_value),
        nothing if settings.clip is None else optax.clip_by_global_norm(settings.clip),
        directions[settings.name](settings),
        optax.add_decayed_weights(settings.decay, mask=matrices) if settings.decay else nothing,
        optax.scale(-1.0),
    )


def for_part(settings: Optimizer, overrides: Mapping[str, Mapping[str, Any]], part: str) -> Optimizer:
    """The optimiser settings of one part: the general ones with that part's own on top."""
    try:
        return Optimizer(**{**settings.model_dump(), **overrides.get(part, {})})
    except pydantic.ValidationError as error:
        remedy = "optimiser settings: chainrule train --help"
        raise explain(error, Optimizer, remedy, prefix=f"parts.{part}.") from None


def check_parts(overrides: Mapping[str, Any], parts: list[str]) -> None:
    """Raise when settings name a part the model does not have."""
    for name in overrides:
        if name not in parts:
            raise ArgumentError(
                f"parts.{name}: this model has no such part", remedy=f"its parts: {', '.join(parts)}"
            )


def matrices(params: Tree) -> Tree:
    """True for leaves with at least two axes: the ones weight decay acts on."""
    return jax.tree.map(lambda leaf: leaf.ndim >= 2, params)


class AdaGradState(NamedTuple):
    """Sum of all squared gradients so far."""

    sum_of_squares: Tree


def scale_by_adagrad(eps: float) -> optax.GradientTransformation:
    """`g / (sqrt(sum of g²) + eps)` (Duchi, Hazan and Singer, 2011).

    Written here because Optax starts the sum at 0.1 and puts `eps` under the root, which is a different method for
    small gradients.
    """

    def init(params: Tree) -> AdaGradState:
        return AdaGradState(jax.tree.map(jnp.zeros_like, params))

    def update(grads: Tree, state: AdaGradState, params: Tree | None = None) -> tuple[Tree, AdaGradState]:
        del params
        sums = jax.tree.map(lambda g, s: s + jnp.square(g), grads, state.sum_of_squares)
        return jax.tree.map(lambda g, s: g / (jnp.sqrt(s) + eps), grads, sums), AdaGradState(sums)

    return optax.GradientTransformation(init, update)


__all__ = ["check_parts", "directions", "for_part", "matrices", "optimizer", "scale_by_adagrad"]
