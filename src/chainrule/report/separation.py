"""Pictures of a model that separates: one held-out mixture taken apart, and all beside the ceilings of ideal masks."""

import equinox as eqx
import numpy as np

from chainrule.core.pictures import Picture
from chainrule.data.splits import Subset
from chainrule.models.protocol import CanSeparate
from chainrule.networks.pictures import spectrograms
from chainrule.train import Run
from chainrule.train.separation import separated, taken_apart

_MOST = 100
"""Mixtures whose ratios are averaged."""


def separation_pictures(run: Run) -> list[Picture]:
    """Spectrograms, masks and players of the first held-out mixture, then means over many."""
    model, (part, _) = eqx.nn.inference_mode(run.model), run.data.held_out()
    assert isinstance(model, CanSeparate)
    ratios = separated(model, Subset.drawn(part, min(_MOST, len(part))))
    names = model.source_names
    return [
        spectrograms.ceilings(names, ratios.mixture, ratios.found, ratios.ideal),
        *spectrograms.separation(
            model.transform,
            names,
            np.asarray(part.batch(np.arange(1)).x)[0],
            *taken_apart(model, part, 0),
            run.schema.rate,
        ),
    ]


__all__ = ["separation_pictures"]
