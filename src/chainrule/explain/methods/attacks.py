"""Adversarial examples of a classifier: of a trained run in raw pixels, of a model or a function of your own.

The attack on a run differentiates through the scaling that is stored with it, so that `eps` is in the units of the
image files: 0 to 255 for 8-bit images, 0 to 1 for images given as shares. `nn.attacks` holds the attacks themselves.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.scaling import Scaling
from chainrule.models.protocol import Model
from chainrule.nn import attacks
from chainrule.nn.attacks import Bounds, Loss
from chainrule.nn.losses import cross_entropy
from chainrule.train import Run

Attacked: TypeAlias = Run | Model | Callable[[Array], Array]
"""A trained run (examples in raw units), a model (in model units), or a function from examples to logits."""


def fgsm(
    f: Attacked,
    x: ArrayLike,
    y: ArrayLike,
    eps: float,
    *,
    bounds: Bounds | None = None,
    targeted: bool = False,
) -> Array:
    """`x + eps sign(∇ loss)` of examples with these classes, kept inside the bounds.

    With `targeted`, `y` are the classes that shall be predicted, and the loss goes down. The bounds of a run are those
    of its data unless given.

    >>> w = jnp.array([[1.0, -1.0], [2.0, -2.0]])
    >>> fgsm(lambda x: x @ w, jnp.zeros((1, 2)), jnp.array([0]), 0.1)
    Array([[-0.1, -0.1]], dtype=float32)
    """
    aim = _aim(f, x, y)
    return attacks.fgsm(aim.loss, aim.x, eps, bounds=bounds or aim.bounds, targeted=targeted)


def pgd(
    f: Attacked,
    x: ArrayLike,
    y: ArrayLike,
    eps: float,
    steps: int = 20,
    *,
    step: float | None = None,
    norm: str = "inf",
    key: Key | None = None,
    bounds: Bounds | None = None,
    targeted: bool = False,
) -> Array:
    """`steps` of `2.5 eps / steps` up the loss, each projected onto the ball of radius `eps`; see `nn.attacks.pgd`."""
    aim = _aim(f, x, y)
    return attacks.pgd(
        *(aim.loss, aim.x, eps),
        steps=steps,
        step=step,
        norm=norm,
        key=key,
        bounds=bounds or aim.bounds,
        targeted=targeted,
    )


class _Aim(NamedTuple):
    """What is attacked."""

    loss: Loss
    x: Array
    bounds: Bounds | None


def _aim(f: Attacked, given: ArrayLike, classes: ArrayLike) -> _Aim:
    x, y = jnp.asarray(given, jnp.result_type(float)), jnp.asarray(classes)
    if isinstance(f, Run):
        return _Aim(loss_of_raw(f.model, f.scaling, y), x, kinds.of(f.schema).raw_range(f.schema))
    if isinstance(f, Model):
        return _Aim(loss_of(f, y), x, None)
    return _Aim(lambda x: cross_entropy(f(x), y).sum(), x, None)


def loss_of(model: Model, y: Any) -> Loss:
    """The summed loss of a model on examples with these targets, in inference mode, as a function of the examples."""
    still = eqx.nn.inference_mode(model)
    return lambda x: len(x) * still.loss(Batch(x, y), jax.random.key(0))[0]


def loss_of_raw(model: Model, scaling: Scaling, y: Any) -> Loss:
    """The same as a function of examples in raw units."""
    scaled = loss_of(model, y)
    return lambda raw: scaled(scaling.apply(raw))


__all__ = ["Attacked", "fgsm", "loss_of", "loss_of_raw", "pgd"]
