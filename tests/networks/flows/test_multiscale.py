"""Squeezing, mixing of channels, stacks and scales of images."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.networks.flows.audit import audit
from chainrule.networks.flows.audit_pictures import audit_table
from chainrule.networks.flows.base import Bijection, Conditions, Events, Mapped
from chainrule.networks.flows.base_distributions import StandardNormal
from chainrule.networks.flows.chain import BijectionChain
from chainrule.networks.flows.image_couplings import ChannelCoupling, half_of_channels
from chainrule.networks.flows.multiscale import ImageScale, MultiScale, SplitPrior, TopPrior
from chainrule.networks.flows.normalization import ActNorm
from chainrule.networks.flows.one_by_one import DenseOneByOne, OneByOne
from chainrule.networks.flows.squeeze import check_sides, squeeze, unsqueeze
from chainrule.networks.flows.stacked import StackedLayers

KEY = jax.random.key(0)


def two_levels() -> MultiScale:
    fine = ImageScale(None, ActNorm((4, 4, 4)), SplitPrior(2, 2, key=KEY))
    return MultiScale(
        (8, 8, 1), [fine, ImageScale(None, OneByOne((2, 2, 8), key=KEY), None)], TopPrior((2, 2, 8))
    )


def test_squeezing_only_moves_numbers_and_is_undone_exactly() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 6, 2)).astype(np.float32)
    z = np.asarray(squeeze(jnp.asarray(x)))
    assert z.shape == (3, 2, 3, 8)
    np.testing.assert_array_equal(np.sort(z.ravel()), np.sort(x.ravel()))
    np.testing.assert_array_equal(z[1, 1, 2, :4], x[1, 2:4, 4:6, 0].ravel())  # one square, its first channel
    np.testing.assert_array_equal(unsqueeze(jnp.asarray(z)), x)


@pytest.mark.parametrize(
    ("shape", "way"),
    [
        (
            (30, 28, 3),
            "times: levels=1; or bring them to 28 x 28 or 32 x 28 pixels: data.size=28 or data.size=32",
        ),
        ((3, 3, 1), "bring them to 4 x 4 pixels: data.size=4"),
    ],
)
def test_sides_that_cannot_be_halved_are_refused_with_the_nearest_sizes(
    shape: tuple[int, ...], way: str
) -> None:
    with pytest.raises(CapabilityError) as caught:
        check_sides("glow", shape, 2, "levels")
    assert str(caught.value.remedy).endswith(way)
    with pytest.raises(CapabilityError, match="takes images"):
        check_sides("glow", (7,), 1)


def test_factors_and_the_whole_matrix_mix_channels_alike() -> None:
    """The determinant on the diagonal is that of the matrix, and the inverse by triangles that of linear algebra."""
    factors = OneByOne((2, 2, 5), key=KEY)
    factors = eqx.tree_at(
        lambda layer: (layer.below, layer.above, layer.log_scale),
        factors,
        replace_fn=lambda leaf: leaf + 0.3 * jax.random.normal(KEY, leaf.shape),
    )
    dense = eqx.tree_at(lambda layer: layer.weight, DenseOneByOne((2, 2, 5), key=KEY), factors.weight)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2, 2, 5)), jnp.float32)
    for direction in ("forward", "inverse"):
        one, other = (getattr(layer, direction)(x) for layer in (factors, dense))
        np.testing.assert_allclose(one.value, other.value, atol=1e-4)
        np.testing.assert_allclose(one.log_det, other.log_det, atol=1e-4)
    expected = 4 * np.linalg.slogdet(np.asarray(factors.weight, np.float64))[1]
    np.testing.assert_allclose(factors.inverse(x).log_det, expected, atol=1e-4)
    np.testing.assert_allclose(OneByOne((1, 1, 5), key=KEY).inverse(x[:, :1, :1]).log_det, 0, atol=1e-5)


def test_a_stack_is_a_chain_of_its_layers() -> None:
    shape = (2, 2, 4)
    stack = StackedLayers(
        lambda key: BijectionChain([ChannelCoupling(shape, width=4, key=key), OneByOne(shape, key=key)]),
        3,
        key=KEY,
    )
    stack = eqx.tree_at(
        lambda stack: stack.layers.layers[0].network.last.weight,
        stack,
        replace_fn=lambda leaf: 0.1 * jax.random.normal(KEY, leaf.shape),
    )
    chain = BijectionChain([stack.layer(number) for number in range(3)])
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, *shape)), jnp.float32)
    for direction in ("forward", "inverse"):
        one, other = (eqx.filter_jit(getattr(layer, direction))(x) for layer in (stack, chain))
        np.testing.assert_allclose(one.value, other.value, atol=1e-4)
        np.testing.assert_allclose(one.log_det, other.log_det, atol=1e-4)
    assert stack.passes == chain.passes


def test_every_layer_of_a_stack_begins_with_what_the_data_are_when_they_reach_it() -> None:
    shape = (2, 2, 4)
    stack = StackedLayers(lambda key: BijectionChain([OneByOne(shape, key=key), ActNorm(shape)]), 2, key=KEY)
    x = jnp.asarray(np.random.default_rng(0).normal(3.0, 2.0, size=(64, *shape)), jnp.float32)
    begun = eqx.filter_jit(lambda stack, x: stack.started(x, None))(stack, x)
    for number in (1, 0):
        mix, norm = begun.layer(number).layers
        x = norm.inverse(x).value
        np.testing.assert_allclose(np.asarray(x).mean(axis=(0, 1, 2)), 0, atol=1e-5)
        np.testing.assert_allclose(np.asarray(x).std(axis=(0, 1, 2)), 1, atol=1e-5)
        x = mix.inverse(x).value


def test_codes_of_all_levels_are_as_many_numbers_as_the_image_and_are_taken_back() -> None:
    flow = two_levels()
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 8, 8, 1)), jnp.float32)
    z = flow.inverse(x).value
    codes = flow.codes(z)
    assert [code.shape for code in codes] == [(2, 4, 4, 2), (2, 2, 2, 8)]
    np.testing.assert_array_equal(flow.joined(codes), z)
    with pytest.raises(ArgumentError, match="one code for each level, finest first"):
        flow.joined(codes[::-1])


def test_levels_that_do_not_fit_together_are_refused() -> None:
    last = ImageScale(None, ActNorm((2, 2, 8)), None)
    with pytest.raises(ArgumentError, match=r"at level 0 events have shape \(4, 4, 4\), a layer there maps"):
        MultiScale((8, 8, 1), [last], TopPrior((2, 2, 8)))
    with pytest.raises(ArgumentError, match="after every level but the last"):
        MultiScale(
            (4, 4, 2), [ImageScale(None, ActNorm((2, 2, 8)), SplitPrior(4, 4, key=KEY))], TopPrior((2, 2, 4))
        )
    with pytest.raises(ArgumentError, match="needs layers"):
        ImageScale(None, None, None)
    with pytest.raises(ArgumentError, match="1 channel has no halves"):
        half_of_channels((2, 2, 1))


def test_a_condition_moves_the_prior_of_the_last_code() -> None:
    prior = TopPrior((1, 1, 2), features=3)
    prior = eqx.tree_at(lambda prior: prior.given.weight, prior, jnp.ones((3, 4)))
    z = jnp.zeros((2, 1, 1, 2))
    condition = jnp.asarray([[1.0, 0, 0], [0, 0, 0]])
    x, log_det = prior.forward(z, condition)
    assert np.asarray(x)[:, 0, 0, 0].tolist() == [1, 0]
    assert float(log_det[0]) > float(log_det[1]) == 0
    with pytest.raises(ArgumentError, match="none is given"):
        prior.forward(z)


@final
class Louder(Bijection):
    """Twice as much, whose volume is said to be none; `beyond` a distance from zero alone."""

    shape: tuple[int, ...] = eqx.field(static=True)
    beyond: float = eqx.field(default=-1.0, static=True)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        del condition
        return Mapped(z * self._size(z), jnp.zeros(len(z)))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        del condition
        return Mapped(x / self._size(x), jnp.zeros(len(x)))

    def _size(self, x: Events) -> Events:
        return jnp.where(jnp.square(x).sum(axis=(1, 2, 3), keepdims=True) > self.beyond, 2.0, 1.0)


def planted(at: str, wrong: Bijection) -> MultiScale:
    """Two scales, with a wrong layer behind the right one of a place."""
    flow = two_levels()
    number, side = {"fine": (0, "after"), "coarse": (1, "after"), "before": (0, "before")}[at]
    level = flow.levels[number]
    own = {name: getattr(level, name) for name in ("before", "after")}
    own[side] = wrong if own[side] is None else BijectionChain([own[side], wrong])
    levels = [ImageScale(**own, prior=level.prior) if one is level else one for one in flow.levels]
    return MultiScale(flow.shape, levels, flow.top)


@pytest.mark.parametrize(
    ("at", "shape", "name"),
    [
        pytest.param("before", (8, 8, 1), "scale 1 (8×8), layer 3, Louder", marks=pytest.mark.slow),
        ("fine", (4, 4, 4), "scale 1 (4×4), layer 3, Louder"),
        pytest.param("coarse", (2, 2, 8), "scale 2 (2×2), layer 3, Louder", marks=pytest.mark.slow),
    ],
)
def test_an_audit_of_several_scales_names_the_scale_and_the_layer_that_is_wrong(
    at: str, shape: tuple[int, ...], name: str
) -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 8, 8, 1)), jnp.float32)
    found = audit(planted(at, Louder(shape)), StandardNormal((8, 8, 1)), x, KEY)
    assert {one.split(": ")[0] for one in found.failures} == {name, "whole flow", "codes at distance 3"}
    assert len(found.layers) == 5
    assert sum(part.largest_log_scale == pytest.approx(np.log(2), abs=1e-4) for part in found.layers) == 1


def test_an_audit_walks_through_all_scales_and_finds_nothing_where_nothing_is_wrong() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 8, 8, 1)), jnp.float32)
    flow = two_levels()
    bias = flow.levels[0].prior.network.bias
    flow = eqx.tree_at(lambda flow: flow.levels[0].prior.network.bias, flow, bias + 0.3)
    found = audit(flow, StandardNormal((8, 8, 1)), x, KEY)
    assert found.failures == []
    assert [part.name for part in found.layers] == [
        "scale 2 (2×2), layer 1, TopPrior",
        "scale 2 (2×2), layer 2, OneByOne",
        "scale 1 (4×4), layer 1, SplitPrior",
        "scale 1 (4×4), layer 2, ActNorm",
    ]
    prior = found.layers[2]
    assert prior.largest_log_scale == pytest.approx(0.3, abs=0.01)


def test_an_audit_of_several_scales_names_the_layer_that_is_off_far_out_alone() -> None:
    x = jnp.asarray(0.01 * np.random.default_rng(0).normal(size=(4, 8, 8, 1)), jnp.float32)
    flow = planted("fine", Louder((4, 4, 4), beyond=4.0))
    found = audit(flow, StandardNormal((8, 8, 1)), x, KEY)
    assert not any(part.failures(found.tolerance) for part in (*found.layers, found.whole))
    assert [part.name for part in found.far_layers] == [
        "scale 1 (4×4), layer 3, Louder, of codes at distance 3"
    ]


def test_the_table_of_very_many_layers_has_rows_for_those_that_are_off() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 8, 8, 1)), jnp.float32)
    found = audit(planted("fine", Louder((4, 4, 4))), StandardNormal((8, 8, 1)), x, KEY)
    assert [row[0] for row in audit_table(found).rows] == [part.name for part in found.parts]
    many = found._replace(layers=found.layers + 100 * found.layers[:1])
    rows = [row[0] for row in audit_table(many).rows]
    assert rows == ["scale 1 (4×4), layer 3, Louder", "whole flow", "codes at distance 3"]
    assert "104 layers in which nothing is off have no row" in audit_table(many).caption
