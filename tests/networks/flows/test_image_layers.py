"""Layers of images, residual and continuous layers: one table, every row judged alike in double precision.

A new layer is one row: with parameters drawn many times, what goes one way comes back, volumes of the two directions
cancel, and they are those of the Jacobian.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.continuous import Continuous, GatedVelocity
from chainrule.networks.flows.contraction import Contraction
from chainrule.networks.flows.dequantization import LogitOfLevels
from chainrule.networks.flows.image_couplings import (
    ChannelCoupling,
    MaskedCoupling,
    checkerboard,
    half_of_channels,
)
from chainrule.networks.flows.multiscale import ImageScale, MultiScale, SplitPrior, TopPrior
from chainrule.networks.flows.normalization import ActNorm
from chainrule.networks.flows.one_by_one import DenseOneByOne, OneByOne
from chainrule.networks.flows.residual import ContractiveResidual
from chainrule.networks.flows.stacked import StackedLayers
from tests.tiers import tiers

DRAWS = 100
PIXELS = (2, 2, 2)


def _multiscale(key: Any) -> MultiScale:
    one, two, three = jax.random.split(key, 3)
    fine = ImageScale(
        MaskedCoupling((4, 4, 1), checkerboard((4, 4, 1)), width=3, blocks=1, key=one),
        OneByOne((2, 2, 4), key=two),
        SplitPrior(2, 2, key=three),
    )
    return MultiScale((4, 4, 1), [fine, ImageScale(None, ActNorm((1, 1, 8)), None)], TopPrior((1, 1, 8)))


LAYERS: dict[str, Callable[[Any], Bijection]] = {
    "1x1": lambda key: OneByOne(PIXELS, key=key),
    "1x1 of vectors": lambda key: OneByOne((5,), key=key),
    "1x1 of one number": lambda key: OneByOne((1,), key=key),
    "dense 1x1": lambda key: DenseOneByOne(PIXELS, key=key),
    "channel coupling": lambda key: ChannelCoupling((2, 2, 3), width=3, key=key),
    "checkerboard": lambda key: MaskedCoupling(PIXELS, checkerboard(PIXELS), width=3, blocks=1, key=key),
    "channels": lambda key: MaskedCoupling(
        PIXELS, half_of_channels(PIXELS, odd=True), width=3, blocks=0, key=key
    ),
    "stack": lambda key: StackedLayers(lambda k: OneByOne(PIXELS, key=k), 3, key=key),
    "multiscale": _multiscale,
    "top prior": lambda key: TopPrior(PIXELS),
    "logit": lambda key: LogitOfLevels(PIXELS, 4, margin=0.05),
    "residual": lambda key: ContractiveResidual(
        (3,), Contraction((3,), width=4, depth=2, bound=0.7, key=key)
    ),
    "residual of images": lambda key: ContractiveResidual(
        PIXELS, Contraction(PIXELS, width=3, depth=2, bound=0.7, key=key)
    ),
}
LONG = ("1x1 of vectors", "channels", "multiscale", "residual of images")
"""Layers that take long to compile, and are made of others in the table."""


def _drawn(layer: Bijection, key: Any) -> Bijection:
    """Other parameters: the layer's own, and noise."""
    arrays, rest = eqx.partition(layer, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(arrays)
    keys = jax.random.split(key, len(leaves) + 1)
    moved = [leaf + 0.3 * jax.random.normal(k, leaf.shape) for leaf, k in zip(leaves, keys[:-1], strict=True)]
    return eqx.combine(jax.tree.unflatten(structure, moved), rest)


@pytest.mark.parametrize("name", tiers(list(LAYERS), slow=LONG))
def test_a_layer_has_an_inverse_and_the_volume_of_its_jacobian(name: str) -> None:
    with jax.enable_x64(True):
        layer = LAYERS[name](jax.random.key(0))
        layer = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, jnp.float64) if eqx.is_inexact_array(leaf) else leaf, layer
        )
        x = jax.random.uniform(jax.random.key(1), (DRAWS, 1, *layer.shape), minval=0.0, maxval=0.99)

        def errors(key: Any, x: jax.Array) -> tuple[jax.Array, ...]:
            one = _drawn(layer, key)
            z, volume = one.inverse(x)
            back, volume_back = one.forward(z)
            jacobian = jax.jacfwd(lambda row: one.inverse(row.reshape(x.shape)).value.reshape(-1))(
                x.reshape(-1)
            )
            expected = jnp.linalg.slogdet(jacobian).logabsdet
            return jnp.abs(back - x).max(), (volume + volume_back)[0], volume[0] - expected

        found = jax.jit(jax.vmap(errors))(jax.random.split(jax.random.key(2), DRAWS), x)
        for error in found:
            assert float(np.abs(error).max()) < 1e-9


@pytest.mark.parametrize(
    ("mask", "fault"),
    [
        (np.ones(PIXELS, bool), "keeps all there is"),
        (np.zeros(PIXELS, bool), "moves all there is"),
        (np.ones((1, 1, 1), bool), "for events of shape"),
    ],
)
def test_a_mask_that_does_not_part_an_image_is_refused(mask: np.ndarray, fault: str) -> None:
    with pytest.raises(ArgumentError, match=fault):
        MaskedCoupling(PIXELS, jnp.asarray(mask), width=3, blocks=1, key=jax.random.key(0))


def test_a_continuous_layer_has_the_volume_of_its_jacobian_up_to_its_tolerance() -> None:
    with jax.enable_x64(True):
        layer = Continuous((2,), GatedVelocity(2, 8, 1, key=jax.random.key(0)), tolerance=1e-9)
        x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 2)))

        @eqx.filter_jit
        def both(layer: Continuous, x: jax.Array) -> tuple[jax.Array, ...]:
            z, volume = layer.inverse(x)
            back, volume_back = layer.forward(z)
            jacobians = jax.vmap(jax.jacrev(lambda row: layer.inverse(row[None]).value[0]))(x)
            return back - x, volume + volume_back, volume - jnp.linalg.slogdet(jacobians).logabsdet

        for error in both(layer, x):
            assert float(np.abs(error).max()) < 1e-7
