"""Diagnosis of divergence: the first value that is not finite, in data, parameters, loss or gradients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random, tree
from chainrule.core.types import Array, Tree
from chainrule.train.state import State
from chainrule.train.step import Stepper


def not_finite(state: State) -> set[str]:
    """Names of the tensors of a state that hold a NaN or an infinity.

    Those of the initial state are there on purpose (a mask of minus infinities, say); any other means that the state
    must not be saved.
    """
    named = [(name, leaf) for name, leaf in tree.named_leaves(state) if eqx.is_inexact_array(leaf)]
    finite = np.asarray(_finite([leaf for _, leaf in named]))
    return {name for (name, _), good in zip(named, finite, strict=True) if not good}


@jax.jit
def _finite(leaves: list[Array]) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves])


def first_bad_value(stepper: Stepper, state: State, step: int, tolerated: set[str]) -> str:
    """What became NaN or infinite in `step`, looked for in the order in which values arise."""
    bad = not_finite(state) - tolerated
    for name in tree.names(state):
        if name in bad:
            return f"{name.replace('model.', 'parameter ', 1)} is not finite"
    model = eqx.combine(state.model, stepper.static)
    key = random.at(stepper.key, step)
    scale = None if state.scaling is None else state.scaling.scale
    for number, part in enumerate(stepper.parts_at(step)):
        if step % part.every:  # this one does not move now
            continue
        batch = jax.tree.map(jnp.asarray, stepper.batch_at(step, number))
        if where := tree.first_nonfinite(batch._asdict()):
            return f"the data hold a value that is not finite ({where} of the batch)"
        part_key = random.at(random.named(key, part.name), 0)
        loss, metrics, _, grads = stepper.gradient(model, part, batch, part_key, scale)
        of = "" if len(stepper.parts) == 1 else f" of {part.name}"
        bad_gradient = tree.first_nonfinite(grads)
        if not bool(jnp.isfinite(loss)):
            kind = "NaN" if bool(jnp.isnan(loss)) else "infinite"
            bad_metric = tree.first_nonfinite(dict(metrics))
            first = (
                f"metric {bad_metric}"
                if bad_metric
                else f"gradient of {bad_gradient}"
                if bad_gradient
                else "loss"
            )
            return f"loss{of} became {kind}; first bad value: {first}"
        if bad_gradient:
            return f"gradient{of} became infinite or NaN; first bad value: gradient of {bad_gradient}"
        if not bool(jnp.isfinite(tree.norm(grads))):
            return f"gradient{of} became too large to square; largest: gradient of {_largest(grads)}"
    return "a value became infinite or NaN in a later move of the step"


def _largest(grads: Tree) -> str:
    return max(tree.named_leaves(grads), key=lambda pair: float(jnp.abs(pair[1]).max(initial=0.0)))[0]


__all__ = ["first_bad_value", "not_finite"]
