"""Which value was the first that is not finite: the data, a parameter, the loss, or the gradient of one tensor."""

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import random, tree
from chainrule.train.step import State, Stepper


def first_bad_value(stepper: Stepper, state: State, step: int) -> str:
    """What became NaN or infinite in `step`, looked for in the order in which values arise."""
    model = eqx.combine(state.model, stepper.static)
    if bad := tree.first_nonfinite(model):
        return f"parameter {bad} is not finite"
    key = random.at(stepper.key, step)
    for number, part in enumerate(stepper.parts):
        batch = jax.tree.map(jnp.asarray, stepper.batch_at(step, number))
        if bad := tree.first_nonfinite(batch._asdict()):
            return f"the data hold a value that is not finite ({bad} of the batch)"
        part_key = random.at(random.named(key, part.name), 0)
        loss, metrics, _, grads = stepper.gradient(model, part, batch, part_key)
        of = "" if len(stepper.parts) == 1 else f" of {part.name}"
        kind = "NaN" if bool(jnp.isnan(loss)) else "infinite"
        bad_gradient = tree.first_nonfinite(grads)
        if not bool(jnp.isfinite(loss)):
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
    return "a value became infinite or NaN in a later move of the step"


__all__ = ["first_bad_value"]
