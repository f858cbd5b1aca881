"""Layers with the weights of flowjax's give the densities of flowjax: masks, networks, scales, splines, orders.

Every raw weight is copied, masked entries too, so that masks have to agree; what
flowjax does not have is the bound on scales, left out here, and entries that networks see compressed, taught to its
networks; its splines are told to end with slope one.
"""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.networks.flows.autoregressive import masked_autoregressive
from chainrule.networks.flows.base import Bijection
from chainrule.networks.flows.base_distributions import StandardNormal
from chainrule.networks.flows.chain import BijectionChain, InvertedBijection
from chainrule.networks.flows.conditioners import compressed
from chainrule.networks.flows.couplings import Coupling, roles
from chainrule.networks.flows.linear import ReversedEntries
from chainrule.networks.flows.splines import MINIMUM
from chainrule.networks.flows.synthesisers import AffineSynthesiser, SplineSynthesiser, Synthesiser

SIZE, TOLD, WIDTH, BINS, BOUND = 4, 2, 12, 5, 3.0
DRAW = np.random.default_rng(0)
X, GIVEN = 1.5 * DRAW.normal(size=(40, SIZE)), DRAW.normal(size=(40, TOLD))
SYNTHESISERS: dict[str, tuple[Synthesiser, list[int]]] = {
    "affine": (AffineSynthesiser(math.inf), [1, 0]),
    "spline": (SplineSynthesiser(BINS, BOUND), list(range(3 * BINS - 1))),
}
"""Each with the position of flowjax's parameters among ours."""
Pair = tuple[Bijection, Any]


@pytest.fixture
def flowjax(oracle: Callable[[str], ModuleType]) -> ModuleType:
    oracle("flowjax.bijections")
    oracle("flowjax.distributions")
    return oracle("flowjax")


def transformer(flowjax: ModuleType, name: str) -> Any:
    """Flowjax's function of one number, parametrised as ours is."""
    import paramax

    if name == "affine":
        plain = flowjax.bijections.Affine()
        return eqx.tree_at(lambda one: one.scale, plain, paramax.Parameterize(jnp.exp, jnp.zeros(())))
    plain = flowjax.bijections.RationalQuadraticSpline(
        knots=BINS - 1, interval=BOUND, min_width=2 * BOUND * MINIMUM
    )

    def with_ends(raw: jax.Array) -> jax.Array:
        inner = jax.nn.softplus(raw) + MINIMUM
        return jnp.pad(inner, [(0, 0)] * (inner.ndim - 1) + [(1, 1)], constant_values=1.0)

    start = jnp.full(BINS - 1, math.log(math.expm1(1 - MINIMUM)))
    return eqx.tree_at(lambda one: one.derivatives, plain, paramax.Parameterize(with_ends, start))


def shaken(layer: Any, seed: int) -> Any:
    arrays, rest = eqx.partition(layer, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(arrays)
    draw = np.random.default_rng(seed)
    moved = [leaf + 0.3 * draw.normal(size=leaf.shape) for leaf in leaves]
    return eqx.combine(jax.tree.unflatten(structure, moved), rest)


class Compressing(eqx.Module):
    """A network of flowjax's that sees the first so many of its inputs as those of ours do."""

    network: Any
    entries: int = eqx.field(static=True)

    def __call__(self, inputs: jax.Array) -> jax.Array:
        return jnp.asarray(self.network(inputs.at[: self.entries].set(compressed(inputs[: self.entries]))))


def outputs(positions: list[int], entries: int) -> np.ndarray:
    """Where flowjax's outputs, entry by entry, stand among ours, number by number."""
    return np.array([position * entries + entry for entry in range(entries) for position in positions])


def masked(flowjax: ModuleType, name: str, features: int, seed: int) -> Pair:
    synthesiser, positions = SYNTHESISERS[name]
    layer = masked_autoregressive(
        SIZE, synthesiser, width=WIDTH, blocks=0, condition=features, key=jax.random.key(seed)
    )
    ours = shaken(layer, seed)
    network = ours.layer.network
    theirs = flowjax.bijections.MaskedAutoregressive(
        jax.random.key(0),
        transformer=transformer(flowjax, name),
        dim=SIZE,
        cond_dim=features or None,
        nn_width=WIDTH,
        nn_depth=1,
        nn_activation=jax.nn.silu,
    )
    # Our degrees rise, theirs go round; both have as many units of each.
    ranks = np.arange(WIDTH) % SIZE if features else np.arange(WIDTH) % (SIZE - 1)
    position = np.argsort(np.argsort(ranks, kind="stable"), kind="stable")
    inward = [network.inward.weight, *([network.inward_given.weight] if features else [])]
    chosen = outputs(positions, SIZE)
    theirs = eqx.tree_at(
        lambda one: [
            part
            for layer in one.masked_autoregressive_mlp.layers
            for part in (layer.weight.args[1], layer.bias)
        ],
        theirs,
        [
            jnp.concatenate(inward)[:, position].T,
            network.inward.bias[position],
            network.outward.weight[position][:, chosen].T,
            network.outward.bias[chosen],
        ],
    )
    return ours, eqx.tree_at(
        lambda one: one.masked_autoregressive_mlp,
        theirs,
        replace_fn=lambda network: Compressing(network, SIZE),
    )


def coupled(flowjax: ModuleType, name: str, features: int, seed: int) -> Pair:
    synthesiser, positions = SYNTHESISERS[name]
    key = jax.random.key(seed)
    moved = roles("halves", SIZE, 1, key)[0]
    layer = Coupling(moved, synthesiser, width=WIDTH, depth=2, condition=features, key=key)
    ours = shaken(layer, seed)
    theirs = flowjax.bijections.Coupling(
        key,
        transformer=transformer(flowjax, name),
        untransformed_dim=SIZE // 2,
        dim=SIZE,
        cond_dim=features or None,
        nn_width=WIDTH,
        nn_depth=2,
        nn_activation=jax.nn.silu,
    )
    chosen = outputs(positions, SIZE // 2)
    factor = jnp.repeat(ours.scale, SIZE // 2)[chosen]
    *hidden, last = ours.network.layers
    theirs = eqx.tree_at(
        lambda one: [part for layer in one.conditioner.layers for part in (layer.weight, layer.bias)],
        theirs,
        [
            *(part for layer in hidden for part in (layer.weight.T, layer.bias)),
            (last.weight[:, chosen] * factor[None]).T,
            last.bias[chosen] * factor,
        ],
    )
    return InvertedBijection(ours), eqx.tree_at(
        lambda one: one.conditioner, theirs, replace_fn=lambda network: Compressing(network, SIZE // 2)
    )


@pytest.mark.parametrize("features", [0, TOLD])
@pytest.mark.parametrize("name", SYNTHESISERS)
@pytest.mark.parametrize("make", [masked, coupled])
def test_two_layers_and_a_reversal_have_the_density_of_flowjax(
    flowjax: ModuleType, make: Callable[..., Pair], name: str, features: int
) -> None:
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        pairs = [make(flowjax, name, features, seed) for seed in (1, 2)]
        (first, one), (second, two) = pairs
        ours = BijectionChain([first, ReversedEntries(SIZE), second])
        bijections, distributions = flowjax.bijections, flowjax.distributions
        chain = bijections.Chain([bijections.Invert(one), bijections.Flip((SIZE,)), bijections.Invert(two)])
        theirs = distributions.Transformed(distributions.StandardNormal((SIZE,)), chain)
        x, given = jnp.asarray(X), jnp.asarray(GIVEN) if features else None

        @eqx.filter_jit
        def densities(ours: Bijection, theirs: Any) -> tuple[jax.Array, jax.Array]:
            z, log_det = ours.inverse(x, given)
            return StandardNormal((SIZE,)).log_prob(z) + log_det, theirs.log_prob(x, given)

        own, expected = map(np.asarray, densities(ours, theirs))
    assert np.ptp(expected) > 3
    np.testing.assert_allclose(own, expected, atol=1e-10, rtol=1e-12)
