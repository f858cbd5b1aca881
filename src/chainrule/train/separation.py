"""How well a model separates: ratios of its sources and of ideal masks over the same spectrum, example by example."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float as AnyFloat

from chainrule.core.compiling import compiled
from chainrule.core.types import Array, Float
from chainrule.data.splits import Split
from chainrule.models.protocol import CanSeparate
from chainrule.nn.spectral import (
    apply_mask,
    best_order,
    ideal_binary_mask,
    ideal_ratio_mask,
    si_sdr_bounded,
)
from chainrule.train.evaluation import batches

IDEAL = ("ideal_ratio", "ideal_binary", "ideal_amplitude")
"""Masks that know the sources: shares of power, all or nothing, shares of amplitude."""

Ratios = AnyFloat[np.ndarray, "examples sources"]


class Separated(NamedTuple):
    """Ratios in decibels for each example and source; NaN where a source is silent and has none."""

    found: Ratios
    mixture: Ratios
    """Of the mixture itself, taken for each source: what there is without any separation."""
    ideal: dict[str, Ratios]
    """Of ideal masks over the spectrum of the model."""

    @property
    def improvement(self) -> Ratios:
        """How much better than the mixture."""
        return self.found - self.mixture


def separated(model: CanSeparate, split: Split) -> Separated:
    """The ratios of all examples of a split, within 60 dB either way."""
    parts = [
        [np.asarray(one) for one in _ratios(model, jnp.asarray(batch.x), jnp.asarray(batch.y))]
        for batch, _ in batches(split)
    ]
    found, mixture, *ideal, heard = (np.concatenate(column) for column in zip(*parts, strict=True))
    found, mixture, *ideal = (np.where(heard, one, np.nan) for one in (found, mixture, *ideal))
    return Separated(found, mixture, dict(zip(IDEAL, ideal, strict=True)))


@compiled
def _ratios(model: CanSeparate, x: Array, y: Array) -> tuple[Array, ...]:
    wanted = _flat(model.wanted(y))
    signals = _flat(model.separate(x))
    whole = _flat(jnp.broadcast_to(x[:, None], (*wanted.shape[:2], *x.shape[1:])))
    count = wanted.shape[1]
    found = si_sdr_bounded(signals, wanted)
    if not model.ordered:
        pairs = si_sdr_bounded(
            jnp.broadcast_to(signals[:, :, None], (len(x), count, *wanted.shape[1:])),
            jnp.broadcast_to(wanted[:, None], (len(x), count, *wanted.shape[1:])),
        )
        order = best_order(pairs)[1]
        found = jnp.take_along_axis(pairs, order[:, None, :], axis=1)[:, 0]
    transform, samples = model.transform, x.shape[1]
    spectra = transform(jnp.moveaxis(model.wanted(y), 3, 1))
    mixture = transform(jnp.moveaxis(x, 2, 1))
    ideal = [
        si_sdr_bounded(
            _flat(jnp.moveaxis(transform.inverse(apply_mask(mask, mixture), samples), 1, 3)), wanted
        )
        for mask in (ideal_ratio_mask(spectra, 2), ideal_binary_mask(spectra), ideal_ratio_mask(spectra, 1))
    ]
    return found, si_sdr_bounded(whole, wanted), *ideal, jnp.square(wanted).sum(axis=-1) > 0


def _flat(signals: Float[Array, "batch sources samples channels"]) -> Float[Array, "batch sources numbers"]:
    """Channels of a source one after the other: they are judged together."""
    return signals.reshape(*signals.shape[:2], -1)


__all__ = ["IDEAL", "Separated", "separated"]
