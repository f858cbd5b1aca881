"""Pictures of generators, whatever taught them: the modes that samples fall into, walks through noise."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.pictures import Bars, Images
from chainrule.core.types import Array, Key
from chainrule.data.dataset import Data
from chainrule.data.generated.toys import modes_of
from chainrule.probability.interpolation import between
from chainrule.probability.samples import mode_coverage

_DRAWN = 2500
WALKS, WAY = 5, 10
"""Walks through noise, and images on each."""


def modes(sample: Callable[[Key, int], Array], data: Data, key: Key) -> Bars:
    """How many samples fall into each mode of data that know theirs."""
    known = modes_of(data.source)
    assert known is not None, "ask first"
    drawn = np.asarray(data.inverse(np.asarray(sample(key, _DRAWN))))
    found = mode_coverage(drawn, known.centres, max(known.deviation, 1e-6))
    names = data.schema.classes
    return Bars(
        "modes",
        f"{found.covered} of {found.modes} modes, {found.high_quality:.0%} of samples of high quality",
        "mode",
        "samples",
        list(names),
        {"samples": found.counts.astype(float), "even shares": np.full(len(names), _DRAWN / len(names))},
        caption=f"Of {_DRAWN:,} samples those within three standard deviations of the nearest centre, by centre. A "
        f"mode is covered by {found.threshold} or more. Samples spread {found.deviation:.2f} times as wide as the data "
        f"about a centre; their shares differ from even ones by {found.divergence:.3f} nats.",
    )


def walks(noise: Callable[[Key, int], Array], generate: Callable[[Array], Array], key: Key) -> Images:
    """Great circles between draws of noise; `generate` is given all steps of the first walk, then of the next."""
    ends = noise(random.named(key, "walks"), 2 * WALKS)
    ways = jnp.concatenate([between(ends[2 * i], ends[2 * i + 1], WAY) for i in range(WALKS)])
    images = np.clip(np.asarray(generate(ways)), 0, 1)
    return Images(
        "walks",
        "Between vectors of noise",
        images,
        (),
        WAY,
        "Each row goes along a great circle from one draw of noise to another. Images that change little by little "
        "mean that the generator has learned more than a list.",
        smooth=images.shape[1] <= 32,
        aligned=True,
    )


__all__ = ["WALKS", "WAY", "modes", "walks"]
