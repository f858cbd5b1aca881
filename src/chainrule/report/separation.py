"""Pictures of a model that separates: one held-out mixture taken apart, and all beside the ceilings of ideal masks."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Picture
from chainrule.core.types import Array
from chainrule.data.splits import Subset
from chainrule.models.protocol import CanSeparate
from chainrule.networks.pictures import spectrograms
from chainrule.train import Run
from chainrule.train.separation import separated

_MOST = 100
"""Mixtures whose ratios are averaged."""


def separation_pictures(run: Run) -> list[Picture]:
    """Spectrograms, masks and players of the first held-out mixture, then means over many."""
    model, (part, _) = eqx.nn.inference_mode(run.model), run.data.held_out()
    assert isinstance(model, CanSeparate)
    x, y = part.batch(np.arange(1))[:2]
    masks, found = _separated(model, jnp.asarray(x))
    ratios = separated(model, Subset.drawn(part, min(_MOST, len(part))))
    numbered = [f"source {number + 1}" for number in range(len(model.source_names))]
    return [
        spectrograms.ceilings(
            model.source_names if model.ordered else numbered, ratios.mixture, ratios.found, ratios.ideal
        ),
        *spectrograms.separation(
            model.transform,
            model.source_names,
            np.asarray(x)[0],
            np.asarray(model.wanted(jnp.asarray(y)))[0],
            np.asarray(masks)[0],
            np.asarray(found)[0],
            run.schema.rate,
        ),
    ]


@eqx.filter_jit
def _separated(model: CanSeparate, x: Array) -> tuple[Array, Array]:
    return model.masks(x), model.separate(x)


__all__ = ["separation_pictures"]
