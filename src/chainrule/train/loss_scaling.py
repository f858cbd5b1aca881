"""Loss scaling for float16, whose smallest numbers are too large for many gradients (Micikevicius et al., 2018).

The loss is multiplied by a scale before the way back and gradients are divided by it after, in single precision. When a
gradient does not fit, the step is passed over and the scale halved; after many steps that fit it is doubled. The scale
is part of the state, so a resumed run goes on with it.
"""

from collections.abc import Callable
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core import tree
from chainrule.core.types import Array, Float, Int, Scalar, Tree

_FIRST = 2.0**15
_LARGEST = 2.0**24
_PATIENCE = 2000
"""Steps without overflow before the scale is doubled."""


@final
class LossScaling(eqx.Module):
    """The scale, and for how many steps in a row gradients have fitted."""

    scale: Float[Array, ""]
    fitted: Int[Array, ""]

    @classmethod
    def initial(cls) -> Self:
        """The scale that training begins with."""
        return cls(jnp.asarray(_FIRST, jnp.float32), jnp.zeros((), jnp.int32))

    @property
    def can_fall(self) -> Bool[Array, ""]:
        """Whether a lower scale may still help; below one it is not the scale that is to blame."""
        return self.scale > 1

    def moved(self, fits: Bool[Array, ""]) -> Self:
        """The scale after a step whose gradients did or did not fit."""
        full = self.fitted + 1 >= _PATIENCE
        after = jnp.where(full, jnp.minimum(2 * self.scale, _LARGEST), self.scale)
        scale = jnp.where(fits, after, jnp.where(self.can_fall, self.scale / 2, self.scale))
        return type(self)(scale, jnp.where(fits & ~full, self.fitted + 1, 0))


def scaled_gradient(
    objective: Callable[[Tree], tuple[Scalar, Any]], owned: Tree, scale: Float[Array, ""]
) -> tuple[Scalar, Any, Tree]:
    """The loss, what comes beside it, and its gradient, computed through the scaled loss."""

    def scaled(owned: Tree) -> tuple[Scalar, tuple[Scalar, Any]]:
        loss, beside = objective(owned)
        return scale * loss, (loss, beside)

    grads, (loss, beside) = jax.grad(scaled, has_aux=True)(owned)
    return loss, beside, tree.scale(1 / scale, grads)


def rescaled(
    new: Any, old: Any, metrics: dict[str, Array], finite: Array
) -> tuple[Any, dict[str, Array], Array]:
    """State, metrics and success of a step in float16: one whose gradients did not fit is passed over."""
    passed_over = ~finite & jnp.isfinite(metrics["loss"]) & old.scaling.can_fall
    done = finite | passed_over
    after = (old.step + done, old.scaling.moved(finite))
    seen = {"loss_scale": old.scaling.scale}
    for name, value in metrics.items():  # what was not finite must not enter any mean
        seen[name] = jnp.where(passed_over & ~jnp.isfinite(value), jnp.nan, value)
    return eqx.tree_at(lambda state: (state.step, state.scaling), new, after), seen, done


__all__ = ["LossScaling", "rescaled", "scaled_gradient"]
