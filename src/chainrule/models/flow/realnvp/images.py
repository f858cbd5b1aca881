"""RealNVP for images: couplings of a checkerboard and of channels, on several scales.

On every scale three couplings of a checkerboard, a squeeze, and three couplings of halves of the channels; half of
these leave as code. The last scale has four couplings of a checkerboard, or of halves of the channels where images are
a single pixel by then: one square has none beside it.
"""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.flow.settings import condition_features
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.chain import BijectionChain
from chainrule.networks.flows.dequantization import logit_layer
from chainrule.networks.flows.image_couplings import MaskedCoupling, checkerboard, half_of_channels
from chainrule.networks.flows.multiscale import ImageScale, MultiScale, SplitPrior, TopPrior
from chainrule.networks.flows.normalization import ActNorm, FlowBatchNorm
from chainrule.networks.flows.squeeze import check_sides, squeezed
from chainrule.networks.flows.stacked import StackedLayers

if TYPE_CHECKING:
    from chainrule.models.flow.realnvp.model import RealNVPConfig

_TURNS, _LAST_TURNS = 3, 4
"""Couplings of one kind on a scale, and on the last one."""


def image_flow(config: "RealNVPConfig", schema: Schema, key: Key) -> MultiScale:
    """So many scales as the settings say, and the last one."""
    shape = check_sides("realnvp", schema.shape, config.scales, "scales")
    now, levels = shape, []
    *keys, key_last = jax.random.split(key, config.scales + 1)
    for number, k in enumerate(keys):
        one, two, three = jax.random.split(k, 3)
        finer = squeezed(now)
        kept = finer[2] // 2
        boards = [checkerboard(now, odd=turn % 2 == 1) for turn in range(_TURNS)]
        halves = [half_of_channels(finer, odd=turn % 2 == 1) for turn in range(_TURNS)]
        logit = None if number else logit_layer(schema, config.logit_margin)
        first = _couplings(config, boards, one)
        levels.append(
            ImageScale(
                first if logit is None else BijectionChain([first, logit]),
                _couplings(config, halves, two),
                SplitPrior(kept, finer[2] - kept, key=three),
            )
        )
        now = (*finer[:2], kept)
    parts = half_of_channels if now[:2] == (1, 1) else checkerboard
    masks = [parts(now, odd=turn % 2 == 1) for turn in range(_LAST_TURNS)]
    levels.append(ImageScale(_couplings(config, masks, key_last), None, None))
    return MultiScale(shape, levels, TopPrior(now, condition_features(config)))


def _couplings(config: "RealNVPConfig", masks: list[jax.Array], key: Key) -> StackedLayers:
    """A coupling for each mask, with the norm of the settings towards the data."""
    shape = masks[0].shape

    def make(key: Key) -> BijectionChain:
        coupling = MaskedCoupling(
            shape,
            masks[0],
            width=config.width,
            blocks=config.depth,
            bound=config.bound,
            additive=config.form == "additive",
            features=condition_features(config),
            key=key,
        )
        norms: list[Bijection] = [ActNorm(shape)] if config.norm == "actnorm" else []
        norms += [FlowBatchNorm(shape)] if config.norm == "batch" else []
        return BijectionChain([coupling, *norms])

    alike = StackedLayers(make, len(masks), key=key)
    return eqx.tree_at(lambda stacked: stacked.layers.layers[0].mask, alike, jnp.stack(masks))


__all__ = ["image_flow"]
