"""Pictures of a model that separates: one held-out mixture taken apart, and all beside the ceilings of ideal masks."""

import equinox as eqx
import numpy as np

from chainrule.core.pictures import Picture
from chainrule.data.splits import Split, Subset
from chainrule.models.protocol import CanSeparate
from chainrule.networks.pictures import spectrograms
from chainrule.train import Run
from chainrule.train.separation import separated, taken_apart

_MOST = 100
"""Mixtures whose ratios are averaged."""


def separation_pictures(run: Run) -> list[Picture]:
    """Means over many held-out mixtures; spectrograms, masks and players of the first, and of the one found worst."""
    model, (part, _) = eqx.nn.inference_mode(run.model), run.data.held_out()
    assert isinstance(model, CanSeparate)
    some = Subset.drawn(part, min(_MOST, len(part)))
    ratios = separated(model, some)
    names, rate = model.source_names, run.schema.rate
    return [
        spectrograms.ceilings(names, ratios.mixture, ratios.found, ratios.ideal),
        *spectrograms.separation(
            spectrograms.ShownMixture(
                model.transform,
                names,
                np.asarray(part.batch(np.arange(1)).x)[0],
                *taken_apart(model, part, 0),
                rate,
            )
        ),
        *_worst(model, part, some, ratios.found, rate),
    ]


def _worst(model: CanSeparate, part: Split, some: Subset, found: np.ndarray, rate: int) -> list[Picture]:
    """The mixture of some with the lowest ratio, by its number in the whole split."""
    worst = spectrograms.worst_of(found)
    if worst is None:
        return []
    number, ratio = int(some.numbers[worst[0]]), worst[1]
    mixture = np.asarray(part.batch(np.array([number])).x)[0]
    parts = taken_apart(model, part, number)
    apart = spectrograms.ShownMixture(model.transform, model.source_names, mixture, *parts, rate)
    return spectrograms.found_worst(number, ratio, apart)


__all__ = ["separation_pictures"]
