"""Training and drawing with a branch: the diffusion model it belongs to stays as it is, only the branch learns."""

from collections.abc import Callable, Sequence
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Key, Scalar
from chainrule.data.base import Batch
from chainrule.models.base import CanSample, HasState, Metrics
from chainrule.models.diffusion.control.adapter import Adapted
from chainrule.models.diffusion.control.base import Branch
from chainrule.models.diffusion.control.branch import Controlled
from chainrule.models.diffusion.control.edges import edges
from chainrule.models.diffusion.generative import Generative
from chainrule.models.diffusion.networks.unet import UNetDenoiser

BLANK = 0.5
"""Share of conditions withheld in training, so that the picture alone has to say what is wanted."""

Extractor = Callable[[Array], Array]
"""From pictures in [0, 1] to pictures of the condition, (batch, height, width, channels)."""


@final
class ControlModel(HasState, CanSample):
    """A diffusion model with a branch, trained like the model itself on pictures and what `extract` makes of them."""

    model: Generative
    extract: Extractor = eqx.field(static=True)

    @property
    def branch(self) -> Branch:
        """The branch."""
        found = self.model.denoiser
        assert isinstance(found, Branch)
        return found

    def state(self) -> Sequence[Array]:
        """The frozen network: nothing moves it."""
        return jax.tree.leaves(eqx.filter(self.branch.base, eqx.is_inexact_array))

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The loss of the diffusion model, its denoiser looking at the condition; half of its conditions withheld."""
        y, reader = batch.y, self.branch.reader
        if reader is not None:
            y = reader.dropped(y, BLANK, jax.random.fold_in(key, 1))
        loss, metrics = _seeing(self.model, self.extract(batch.x), 1.0).loss(Batch(batch.x, y), key)
        return loss, {**metrics, **self.branch.gates()}, self

    def sample(  # type: ignore[override]  # the options of the model inside, by name
        self, key: Key, n: int, *, control: Any, strength: float = 1.0, **options: Any
    ) -> Array:
        """`n` new pictures under a condition, one for all or one for each; options are those of the model inside."""
        if not (isinstance(strength, int | float) and strength >= 0):
            raise ArgumentError(f"strength={strength}: 0 leaves the picture out, 1 is how it was trained")
        given = jnp.asarray(control, jnp.float32)
        given = given[None] if given.ndim == 3 else given
        return _seeing(self.model, given, strength).sample(key, n, **options)


def _seeing(model: Generative, picture: Array, strength: float) -> Generative:
    branch = model.denoiser
    assert isinstance(branch, Branch)
    return eqx.tree_at(lambda m: m.denoiser, model, branch.shown(picture, strength))


def control_model(model: Generative, key: Key, extract: Extractor = edges, channels: int = 1) -> ControlModel:
    """A ControlNet beside the U-Net of a trained diffusion model, to be trained with `chainrule.fit`."""
    return _around(model, Controlled, key, extract, channels)


def adapter_model(model: Generative, key: Key, extract: Extractor = edges, channels: int = 1) -> ControlModel:
    """An adapter beside the U-Net of a trained diffusion model: smaller, and computed once for a sample."""
    return _around(model, Adapted, key, extract, channels)


def _around(
    model: Generative, make: Callable[..., Branch], key: Key, extract: Extractor, channels: int
) -> ControlModel:
    base = model.denoiser
    if not isinstance(base, UNetDenoiser):
        raise CapabilityError(
            f"control needs a U-Net; this model has a {type(base).__name__}",
            remedy="train the diffusion model with denoiser=unet",
        )
    return ControlModel(eqx.tree_at(lambda m: m.denoiser, model, make(base, channels, key)), extract)


__all__ = ["BLANK", "ControlModel", "adapter_model", "control_model"]
