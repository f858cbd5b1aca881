"""Every layer of vectors, both ways, under random parameters: inverse and change of volume in double precision.

A new layer is one row of the table.
"""

from collections.abc import Callable, Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.types import Array, Key
from chainrule.networks.flows.autoregressive import Autoregressive, masked_autoregressive
from chainrule.networks.flows.base import Bijection, Mapped
from chainrule.networks.flows.chain import BijectionChain, Frozen, InvertedBijection, Reshaped
from chainrule.networks.flows.couplings import Coupling, roles
from chainrule.networks.flows.elementwise import LeakyReLU, ScaleShift, Sigmoid, Softplus
from chainrule.networks.flows.linear import Householder, LULinear, Permutation, ReversedEntries, Triangular
from chainrule.networks.flows.normalization import ActNorm, FlowBatchNorm, RunningMoments
from chainrule.networks.flows.planar import Planar, Radial
from chainrule.networks.flows.synthesisers import (
    AdditiveSynthesiser,
    AffineSynthesiser,
    CircularSplineSynthesiser,
    GatedSynthesiser,
    SplineSynthesiser,
    Synthesiser,
)

DRAWS, EXAMPLES, TOLD = 100, 3, 2
SMALL = {"width": 6, "blocks": 1, "condition": TOLD}
LINEAR = {"width": 0, "condition": TOLD}
Make = Callable[[int, Key], Bijection]


def coupled(size: int, key: Key, synthesiser: Synthesiser) -> Coupling:
    return Coupling(
        roles("alternate", size, 1, key)[0], synthesiser, width=6, depth=1, condition=TOLD, key=key
    )


ANY: dict[str, Make] = {
    "scale and shift": lambda d, k: ScaleShift((d,)),
    "sigmoid": lambda d, k: Sigmoid((d,)),
    "logit": lambda d, k: InvertedBijection(Sigmoid((d,))),
    "softplus": lambda d, k: Softplus((d,)),
    "leaky relu": lambda d, k: LeakyReLU((d,)),
    "permutation": lambda d, k: Permutation.random(d, k),
    "reversal": lambda d, k: ReversedEntries(d),
    "triangular": lambda d, k: Triangular(d),
    "lu": lambda d, k: LULinear.rotation(d, k),
    "householder": lambda d, k: Householder(d, 2, k),
    "planar": lambda d, k: Planar(d, k),
    "radial": lambda d, k: Radial(d, k),
    "actnorm": lambda d, k: ActNorm((d,)),
    "batch norm": lambda d, k: FlowBatchNorm((d,)),
    "affine autoregressive": lambda d, k: Autoregressive(d, AffineSynthesiser(2.0), key=k, **SMALL),
    "gated autoregressive": lambda d, k: Autoregressive(d, GatedSynthesiser(), key=k, **SMALL),
    "masked spline": lambda d, k: masked_autoregressive(d, SplineSynthesiser(4), key=k, **SMALL),
    "autoregressive in an order": lambda d, k: Autoregressive(
        d, AffineSynthesiser(2.0), order=np.arange(d)[::-1], key=k, **SMALL
    ),
    "linear autoregressive": lambda d, k: Autoregressive(d, AffineSynthesiser(2.0), key=k, **LINEAR),
    "chain": lambda d, k: Frozen(BijectionChain([ReversedEntries(d), Reshaped(Triangular(d), (d,))])),
}
SEVERAL: dict[str, Make] = {
    "affine coupling": lambda d, k: coupled(d, k, AffineSynthesiser(2.0)),
    "additive coupling": lambda d, k: coupled(d, k, AdditiveSynthesiser()),
    "spline coupling": lambda d, k: coupled(d, k, SplineSynthesiser(4)),
    "coupling of halves": lambda d, k: Coupling(
        roles("halves", d, 2, k)[1], AffineSynthesiser(2.0), width=6, depth=1, condition=TOLD, key=k
    ),
    "circular spline coupling": lambda d, k: coupled(d, k, CircularSplineSynthesiser(4)),
}
SIZES = (5, 1, 2, 8)
ALSO_QUICK = (("affine autoregressive", 1), ("planar", 1))


def cases() -> Iterator[object]:
    for name, make in {**ANY, **SEVERAL}.items():
        for size in SIZES:
            if size > 1 or name in ANY:
                quick = size == SIZES[0] or (name, size) in ALSO_QUICK
                marks = [] if quick else [pytest.mark.slow]
                yield pytest.param(make, size, id=f"{name}-{size}", marks=marks)


def shaken(layer: Bijection, key: Key) -> Bijection:
    """The layer with random parameters, variances positive."""
    arrays, rest = eqx.partition(layer, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(arrays)
    keys = jax.random.split(key, len(leaves))
    moved = [leaf + 0.5 * jax.random.normal(k, leaf.shape) for leaf, k in zip(leaves, keys, strict=True)]
    return jax.tree.map(
        lambda node: (
            RunningMoments(node.mean, jnp.abs(node.variance) + 0.1)
            if isinstance(node, RunningMoments)
            else node
        ),
        eqx.combine(jax.tree.unflatten(structure, moved), rest),
        is_leaf=lambda node: isinstance(node, RunningMoments),
    )


@pytest.mark.parametrize(("make", "size"), list(cases()))
def test_inverse_and_volume_are_right_both_ways_for_random_parameters(make: Make, size: int) -> None:
    with jax.enable_x64(True):

        def errors(key: Key) -> Array:
            for_layer, for_noise, for_codes, for_told = jax.random.split(key, 4)
            layer = shaken(make(size, for_layer), for_noise)
            z = jax.random.normal(for_codes, (EXAMPLES, size))
            if isinstance(layer, InvertedBijection) and isinstance(layer.layer, Sigmoid):
                z = jax.nn.sigmoid(z)
            if make is SEVERAL["circular spline coupling"]:
                z = jnp.pi * jnp.tanh(z / jnp.pi)  # angles: others come back as the ones within a turn
            condition = jax.random.normal(for_told, (EXAMPLES, TOLD))
            x, volume = layer.forward(z, condition)
            back, volume_back = layer.inverse(x, condition)

            def one(way: Callable[..., Mapped], row: Array, given: Array) -> Array:
                jacobian = jax.jacfwd(lambda r: way(r[None], given[None])[0][0])(row)
                return jnp.linalg.slogdet(jacobian)[1]

            forward = jax.vmap(lambda r, g: one(layer.forward, r, g))(z, condition)
            inverse = jax.vmap(lambda r, g: one(layer.inverse, r, g))(x, condition)
            return jnp.stack(
                [
                    jnp.abs(back - z).max(),
                    jnp.abs(volume - forward).max(),
                    jnp.abs(volume_back - inverse).max(),
                    jnp.abs(volume + volume_back).max(),
                ]
            )

        keys = jax.random.split(jax.random.key(0), DRAWS)
        worst = np.asarray(jax.jit(jax.vmap(errors))(keys)).max(axis=0)
    assert (worst < 1e-9).all(), worst
