"""Absent features are drawn by a generative model, given those that are present.

The conditional question, E[f(X) | X_S = x_S], answered by whatever can draw what is missing: a model that fills gaps of
images, or a function of your own.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import CapabilityError
from chainrule.core.types import Key
from chainrule.explain.methods.shapley.maskers.masker import Masker
from chainrule.models.protocol import CanFill
from chainrule.train import Run


@final
class DrawnConditional(Masker):
    """What is absent is drawn given what is present."""

    draw: Callable[[Key, Array, Bool[Array, "..."]], Array]
    """From a key, one input and which of its entries are present to the input with all others drawn."""
    keys: Array
    owners: Int[Array, "..."]
    names: tuple[str, ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    fingerprint: str = eqx.field(static=True)

    @property
    def samples(self) -> int:
        return len(self.keys)

    def mixed(
        self, x: Array, mask: Bool[Array, " players"], which: Int[Array, ""]
    ) -> tuple[Array, Float[Array, " samples"]]:
        del which
        present = jnp.append(mask, True)[self.owners]
        found = jax.vmap(lambda key: self.draw(key, x, present))(self.keys)
        return jnp.where(present[None], x[None], found), jnp.full(self.samples, 1 / self.samples)


def drawn_by(
    draw: Callable[[Key, Array, Bool[Array, "..."]], Array],
    owners: Int[np.ndarray, "..."],
    names: Sequence[str],
    *,
    samples: int = 16,
    seed: int = 0,
) -> DrawnConditional:
    """Conditional by a function that draws what is absent: from a key, an input and which entries are present."""
    keys = jax.random.split(random.key(seed, "absent"), whole("drawn_by", "samples", samples))
    return DrawnConditional(
        draw=draw,
        keys=keys,
        owners=jnp.asarray(owners),
        names=tuple(names),
        kind=f"conditional, {samples} draws of a model",
        fingerprint="",
    )


def filled(
    model: CanFill | Run, shape: tuple[int, ...], *, samples: int = 4, seed: int = 0
) -> DrawnConditional:
    """Absent patches of images of this shape are inpainted by a model that fills gaps; its patches are the players.

    A model takes images in its own units, a run in raw ones.
    """
    shift, factor = jnp.zeros(()), jnp.ones(())
    if isinstance(model, Run):
        if not isinstance(model.model, CanFill) or model.schema.shape != shape:
            raise CapabilityError(
                f"{model.id} fills no gaps of images of {'×'.join(map(str, shape))}",
                remedy="train one that does on the same images: chainrule train bert data=IMAGES",
            )
        wide = jnp.result_type(float)
        shift, factor = (
            jnp.asarray(np.broadcast_to(part, shape)[None], wide)
            for part in (model.scaling.shift, model.scaling.factor)
        )
        model = model.model
    patches = jax.eval_shape(lambda key: model.random_gaps(key, 1, 0.5), jax.random.key(0)).shape[1]
    pixels = np.asarray(model.gap_pixels(jnp.eye(patches, dtype=bool)))
    owners = np.broadcast_to(pixels.argmax(axis=0)[..., None], shape)
    filler = _Filler(model, jnp.asarray(pixels), shift, factor)
    names = [f"patch {i + 1}" for i in range(patches)]
    return drawn_by(filler, owners, names, samples=samples, seed=seed)


@final
class _Filler(eqx.Module):
    """Draws the gaps of an image."""

    model: Any
    pixels: Bool[Array, "patches height width"]
    shift: Array
    factor: Array
    """From the units of the images to those of the model."""

    def __call__(self, key: Key, x: Array, present: Bool[Array, "height width channels"]) -> Array:
        gaps = (self.pixels & ~present[None, :, :, 0]).any(axis=(1, 2))
        found: Array = self.model.fill((x[None] - self.shift) * self.factor, gaps[None], key)
        return (found / self.factor + self.shift)[0]


__all__ = ["DrawnConditional", "drawn_by", "filled"]
