"""How well a model separates: one mixture taken apart, and ratios of sources and of ideal masks, example by example."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float as AnyFloat
from jaxtyping import Inexact

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


class TakenApart(NamedTuple):
    """A mixture taken apart; where sources have no order of their own, what was found stands in that of the truth."""

    sources: AnyFloat[np.ndarray, "sources samples channels"]
    masks: Inexact[np.ndarray, "sources channels bins frames"]
    found: AnyFloat[np.ndarray, "sources samples channels"]


def taken_apart(model: CanSeparate, split: Split, example: int) -> TakenApart:
    """A mixture of a split: its sources, the masks, and what they leave."""
    x, y = split.batch(np.array([example]))[:2]
    return TakenApart(*(np.asarray(one)[0] for one in _taken_apart(model, jnp.asarray(x), jnp.asarray(y))))


@compiled
def _taken_apart(model: CanSeparate, x: Array, y: Array) -> tuple[Array, Array, Array]:
    wanted, masks, found = model.wanted(y), model.masks(x), model.separate(x)
    if not model.ordered:
        order = best_order(_pairs(_flat(found), _flat(wanted)))[1][0]
        masks, found = masks[:, order], found[:, order]
    return wanted, masks, found


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
    found = si_sdr_bounded(signals, wanted)
    if not model.ordered:
        pairs = _pairs(signals, wanted)
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


def _pairs(
    found: Float[Array, "batch sources numbers"], wanted: Float[Array, "batch sources numbers"]
) -> Float[Array, "batch sources sources"]:
    """The ratio of each signal that was found, taken for each source."""
    every = (*found.shape[:2], *wanted.shape[1:])
    return si_sdr_bounded(
        jnp.broadcast_to(found[:, :, None], every), jnp.broadcast_to(wanted[:, None], every)
    )


def _flat(signals: Float[Array, "batch sources samples channels"]) -> Float[Array, "batch sources numbers"]:
    """Channels of a source one after the other: they are judged together."""
    return signals.reshape(*signals.shape[:2], -1)


__all__ = ["IDEAL", "Separated", "TakenApart", "separated", "taken_apart"]
