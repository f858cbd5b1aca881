"""Optimisers by name, at learning rate one.

Each is an Optax transformation whose update is the full step for a learning rate of one; the loop multiplies it by the
rate of the moment. The rate therefore never hides in the optimiser's state: it can be logged, changed when a run is
resumed, or halved after a divergence. Weight decay is decoupled from the gradient and acts on matrices only, unless
`parity="torch"` asks for what PyTorch does. The L2 penalty is a term of the loss, which momentum and moments see.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pydantic
from optax.contrib import muon as optax_muon

from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.core.registry import Registry
from chainrule.core.types import Array, Scalar, Tree
from chainrule.models import explain
from chainrule.train.config import Optimizer, TrainConfig
from chainrule.train.second_order import lbfgs, newton_cg
from chainrule.train.transformations import (
    clip_adaptive,
    scale_by_adagrad,
    scale_by_full_adagrad,
    schedule_free,
    with_momentum,
)

directions: Registry[Callable[[Optimizer], optax.GradientTransformation]] = Registry("optimizer")

directions.add("sgd", lambda s: optax.identity())
directions.add("momentum", lambda s: with_momentum(optax.trace, s.momentum))
directions.add("nesterov", lambda s: with_momentum(lambda m: optax.trace(m, nesterov=True), s.momentum))
directions.add("adagrad", lambda s: scale_by_adagrad(s.eps))
directions.add("adagrad-full", lambda s: scale_by_full_adagrad(s.eps))
directions.add("rmsprop", lambda s: optax.scale_by_rms(s.momentum, s.eps, eps_in_sqrt=False))
directions.add(
    "adam", lambda s: with_momentum(lambda m: optax.scale_by_adam(m, s.betas[1], s.eps), s.betas[0])
)
directions.add("adamw", directions["adam"])
directions.add("lion", lambda s: optax.scale_by_lion(*s.betas))
# Muon moves matrices by orthogonalised momentum and everything else by Adam with Nesterov momentum.
directions.add(
    "muon",
    lambda s: optax.chain(
        optax_muon(1.0, eps=s.eps, adam_b1=s.betas[0], adam_b2=s.betas[1]), optax.scale(-1.0)
    ),
)
# The first average is the one over time; what moves the fast weights has none.
directions.add("schedule-free", lambda s: optax.scale_by_adam(0.0, s.betas[1], s.eps))
directions.add("lbfgs", lambda s: lbfgs())
directions.add("newton-cg", lambda s: newton_cg())

SEARCHING = ("lbfgs", "newton-cg")
"""Methods that see all data in every step and find its length themselves."""
CYCLED = ("momentum", "nesterov", "adam", "adamw")
"""Methods whose momentum can move along a cycle."""
_TOGETHER = (*SEARCHING, "adagrad-full", "schedule-free")
"""Methods that move all parameters as one vector or keep an average of all."""


def optimizer(
    settings: Optimizer, groups: Mapping[str, Optimizer] | None = None
) -> optax.GradientTransformationExtraArgs:
    """The transformation from gradients to updates at learning rate one.

    `groups` gives parameters whose name matches a pattern settings of their own; their rates are brought to the common
    one. Clipping sees all gradients together and is that of the general settings.

    >>> import jax.numpy as jnp
    >>> step = optimizer(Optimizer(name="sgd"))
    >>> updates, _ = step.update({"w": jnp.array([2.0])}, step.init({"w": jnp.zeros(1)}), {"w": jnp.zeros(1)})
    >>> updates["w"].tolist()
    [-2.0]
    """
    if settings.name in SEARCHING:
        return optax.chain(directions[settings.name](settings))
    nothing = optax.identity()
    # Every slot is always there: the state keeps its shape, so clipping and decay can be changed on resume.
    norm = nothing if settings.clip is None else optax.clip_by_global_norm(settings.clip)
    if settings.clip_adaptive is not None:
        norm = optax.chain(norm, clip_adaptive(settings.clip_adaptive))
    clip = [nothing if settings.clip_value is None else optax.clip(settings.clip_value), norm]
    if settings.name == "schedule-free":
        return optax.chain(*clip, schedule_free(optax.chain(*_move(settings)), settings.betas[0]))
    if not groups:
        return optax.chain(*clip, *_move(settings))
    each = {
        pattern: optax.chain(*_move(one), optax.scale(one.lr / settings.lr))
        for pattern, one in groups.items()
    }
    return optax.chain(
        *clip, optax.multi_transform({"": optax.chain(*_move(settings)), **each}, _labels(groups))
    )


def clip_rate(settings: Optimizer, grads: Tree) -> dict[str, Array]:
    """Whether the norm of this gradient is cut, as a number whose mean over steps is how often; empty without `clip`.

    >>> import jax.numpy as jnp
    >>> clip_rate(Optimizer(clip=1.0), {"w": jnp.array([3.0, 4.0])})["clip_rate"].item()
    1.0
    """
    if settings.clip is None or settings.name in SEARCHING:
        return {}
    most = settings.clip_value
    if most is not None:  # values are cut before the norm is taken
        grads = jax.tree.map(lambda g: jnp.clip(g, -most, most), grads)
    return {"clip_rate": (tree.norm(grads) > settings.clip).astype(jnp.float32)}


def penalty(settings: Optimizer, groups: Mapping[str, Optimizer], params: Tree) -> Scalar | None:
    """Half the squared norm of the matrices, times the `l2` of their group; nothing where there is none.

    >>> import jax.numpy as jnp
    >>> penalty(Optimizer(l2=0.5), {}, {"w": jnp.array([[2.0, 4.0]]), "bias": jnp.ones(3)}).item()
    5.0
    """
    if not any(one.l2 for one in (settings, *groups.values())):
        return None
    labels = jax.tree.leaves(_labels(groups)(params))
    terms = [
        (settings if not label else groups[label]).l2 / 2 * jnp.sum(jnp.square(leaf))
        for label, leaf, decays in zip(
            labels, jax.tree.leaves(params), jax.tree.leaves(matrices(params)), strict=True
        )
        if decays
    ]
    return sum(terms, start=jnp.zeros(()))


def _move(settings: Optimizer) -> list[optax.GradientTransformation]:
    """Direction, decay, sign."""
    nothing, direction = optax.identity(), directions[settings.name](settings)
    if settings.parity == "torch" and settings.name != "adamw":
        # PyTorch adds the decay to the gradient, where moments and momentum see it.
        return [optax.chain(optax.add_decayed_weights(settings.decay), direction), nothing, optax.scale(-1.0)]
    mask = None if settings.parity == "torch" else matrices
    decay = optax.add_decayed_weights(settings.decay, mask=mask) if settings.decay else nothing
    return [direction, decay, optax.scale(-1.0)]


def _labels(groups: Mapping[str, Any]) -> Callable[[Tree], Tree]:
    """For each parameter the first pattern its name matches, or nothing."""

    def label(params: Tree) -> Tree:
        found = [next((p for p in groups if tree.matches(name, p)), "") for name in tree.names(params)]
        return jax.tree.unflatten(jax.tree.structure(params), found)

    return label


def for_part(settings: Optimizer, overrides: Mapping[str, Mapping[str, Any]], part: str) -> Optimizer:
    """The optimiser settings of one part: the general ones with that part's own on top."""
    return _with(settings, overrides.get(part, {}), f"parts.{part}.")


def for_groups(settings: Optimizer, overrides: Mapping[str, Mapping[str, Any]]) -> dict[str, Optimizer]:
    """The optimiser settings of each group of parameters."""
    return {pattern: _with(settings, own, f"groups.{pattern}.") for pattern, own in overrides.items()}


def _with(settings: Optimizer, own: Mapping[str, Any], prefix: str) -> Optimizer:
    try:
        return Optimizer(**{**settings.model_dump(), **own})
    except pydantic.ValidationError as error:
        raise explain(error, Optimizer, "optimiser settings: chainrule train --help", prefix=prefix) from None


def check_parts(overrides: Mapping[str, Any], parts: list[str]) -> None:
    """Raise when settings name a part the model does not have."""
    for name in overrides:
        if name not in parts:
            raise ArgumentError(
                f"parts.{name}: this model has no such part", remedy=f"its parts: {', '.join(parts)}"
            )


def check_groups(settings: Optimizer, groups: Mapping[str, Optimizer], names: list[str]) -> None:
    """Raise when a pattern means no parameter, or groups are asked of a method that knows none."""
    for pattern, one in groups.items():
        for method in (settings.name, one.name):
            if method in _TOGETHER:
                raise ArgumentError(
                    f"groups.{pattern}: {method} moves all parameters together", remedy="leave the groups out"
                )
        if not any(tree.matches(name, pattern) for name in names):
            shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise ArgumentError(
                f"groups.{pattern}: no parameter has such a name", remedy=f"they are: {shown}"
            )


def check_method(config: TrainConfig, settings: Sequence[Optimizer], examples: int) -> None:
    """Raise when a method is combined with settings it cannot be used with."""
    for one in settings:
        change = _needs(config, one, len(settings), examples)
        if change:
            raise ArgumentError(
                f"optimizer.name={one.name} cannot be used with these settings",
                remedy=f"set {' '.join(change)}",
            )


def _needs(config: TrainConfig, one: Optimizer, parts: int, examples: int) -> list[str]:
    """What has to be set otherwise for a method to make sense."""
    change = []
    if one.name in SEARCHING:
        wanted = {"batch": examples, "accumulate": 1}
        change += [f"{name}={value}" for name, value in wanted.items() if getattr(config, name) != value]
        change += [
            f"optimizer.{name}=none" for name in ("clip", "clip_value", "clip_adaptive") if getattr(one, name)
        ]
        change += ["optimizer.decay=0"] if one.decay else []
        change += ["precision=float32"] if config.precision == "float16" else []
    if one.name == "schedule-free":
        change += ["schedule.name=constant"] if config.schedule.name != "constant" else []
        change += ["ema=0"] if config.ema else []
        change += ["optimizer.betas=0.9,0.999"] if one.betas[0] == 0 else []
    if parts > 1 and one.name in (*SEARCHING, "schedule-free"):
        change += ["optimizer.name=adamw"]
    if config.schedule.cycle_momentum and one.name not in CYCLED:
        change += ["schedule.cycle_momentum=false"]
    return change


def matrices(params: Tree) -> Tree:
    """True for leaves with at least two axes, not for biases and scales: those weight decay and L2 penalty act on."""
    return jax.tree.map(lambda leaf: leaf.ndim >= 2, params)


__all__ = [
    "CYCLED",
    "SEARCHING",
    "check_groups",
    "check_method",
    "check_parts",
    "clip_rate",
    "directions",
    "for_groups",
    "for_part",
    "matrices",
    "optimizer",
    "penalty",
]
