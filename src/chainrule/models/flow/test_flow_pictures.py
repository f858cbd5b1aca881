"""Pictures of flows: slopes that masks leave, scales of layers, ways of equations, bits beside published ones."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.pictures import Bars, Heatmap, Scatter
from chainrule.core.types import Array, Key
from chainrule.data import Schema
from chainrule.models.flow import jacobian_pictures, pictures, published, solver_pictures
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.settings import FlowConfig
from chainrule.networks.flows.autoregressive import Autoregressive
from chainrule.networks.flows.base_distributions import StandardNormal
from chainrule.networks.flows.chain import BijectionChain
from chainrule.networks.flows.continuous import Continuous, GatedVelocity
from chainrule.networks.flows.elementwise import ScaleShift
from chainrule.networks.flows.linear import ReversedEntries
from chainrule.networks.flows.synthesisers import AffineSynthesiser

KEY = jax.random.key(0)
ROWS = jnp.asarray(np.random.default_rng(0).normal(size=(32, 3)), jnp.float32)


def test_slopes_show_the_mask_of_a_network_and_the_scale_of_every_layer() -> None:
    masked = Autoregressive(3, AffineSynthesiser(), width=8, blocks=1, key=KEY)
    masked = jax.tree.map(lambda leaf: leaf + 0.1 if eqx.is_inexact_array(leaf) else leaf, masked)
    layers = [masked, ReversedEntries(3), ScaleShift((3,), 0.4)]
    schema = Schema("table", (3,), columns=("a", "b", "c"))
    model = FlowModel(BijectionChain(layers), StandardNormal((3,)), None, FlowConfig(), schema)
    scales, layer, whole = jacobian_pictures.pictures(model, ROWS)
    assert all(isinstance(one, Heatmap) for one in (scales, layer, whole))
    assert list(scales.rows) == ["3 ScaleShift", "2 ReversedEntries", "1 Autoregressive"]
    np.testing.assert_allclose(scales.values.sum(axis=1), 1)
    middles = np.linspace(-0.5, 0.5, 26)
    (at,) = np.flatnonzero(scales.values[0])
    assert middles[at] <= -0.4 <= middles[at + 1]
    np.testing.assert_array_equal(np.triu(layer.values, 1), 0)
    assert (np.diagonal(layer.values) > 0).all()
    # Behind the reversal the first entry of the code is the last of the data.
    np.testing.assert_array_equal(np.triu(whole.values[:, ::-1], 1), 0)
    assert list(whole.columns) == ["a", "b", "c"]
    assert "33%" in whole.caption
    alone = FlowModel(masked, StandardNormal((3,)), None, FlowConfig(), schema)
    assert [one.name for one in jacobian_pictures.pictures(alone, ROWS)] == ["dependences"]


def test_ways_of_an_equation_end_where_the_flow_takes_the_noise() -> None:
    layer = Continuous((2,), GatedVelocity(2, 8, 1, key=KEY))
    ways, taken = solver_pictures.pictures(BijectionChain([layer, ScaleShift((2,))]), None, KEY)
    assert isinstance(ways, Scatter)
    assert isinstance(taken, Bars)
    noise, arrived = (jnp.asarray(ways.groups[name]) for name in ("noise", "arrived"))
    np.testing.assert_allclose(arrived, layer.forward(noise).value, atol=1e-4)
    starts, steps = ways.arrows or (np.empty(0), np.empty(0))
    np.testing.assert_allclose((starts + steps)[-40:], arrived[:40], atol=1e-6)
    assert (taken.series["evaluations"] >= 6).all()
    assert solver_pictures.pictures(ScaleShift((2,)), None, KEY) == []


def test_bits_stand_beside_those_that_were_published_for_the_same_images_alone() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 28, 28, 1)).astype(np.uint8)
    data = cr.data.from_arrays(pixels, kind="image", levels=256)

    def uniform(x: Array, key: Key) -> Array:
        del key
        return jnp.zeros(len(x))

    assert published.pictures(data, KEY, uniform) == []
    (bars,) = published.pictures(data.renamed("mnist"), KEY, uniform)
    assert isinstance(bars, Bars)
    assert list(bars.positions) == ["this one", "RealNVP", "Glow", "FFJORD"]
    expected = float(data.bits_per_dim(0.0))
    assert bars.series["test images"][0] == pytest.approx(expected)
    assert bars.series["test images"][2] == 1.05


def test_images_with_one_held_out_example_have_no_ways_from_one_to_another() -> None:
    """The line between codes needs two ends."""
    shape = (2, 2, 1)
    model = FlowModel(ScaleShift(shape), StandardNormal(shape), None, FlowConfig(), Schema("image", shape))
    data = cr.data.from_arrays(np.random.default_rng(0).random((9, *shape)), kind="image")
    assert len(data.held_out()[0]) == 1
    shown = [one.name for one in pictures.all_of(model, data, KEY)]
    assert "interpolation" not in shown
    assert {"temperatures", "code-radius", "audit"} <= set(shown)
