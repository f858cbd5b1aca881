"""Glow: sizes that suit images, numbers worked out by hand, codes in levels, and what its settings refuse."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import load
from chainrule.data.schema import Schema
from chainrule.data.splits import Subset
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.glow.model import GlowConfig, suited
from chainrule.networks import units
from chainrule.networks.flows.audit import volumes_by_layer
from chainrule.networks.flows.dequantization import weighted_bound
from chainrule.networks.flows.level_noise import LevelNoise
from chainrule.train.scores.bound import score as score_of_bounds
from chainrule.train.scoring import Evaluation

KEY = jax.random.key(0)


def build(shape: tuple[int, ...], **settings: Any) -> FlowModel:
    schema = Schema("image", shape, "class", classes=("a", "b"), levels=256)
    return models.build("glow", schema, **settings)


def shaken(model: FlowModel) -> FlowModel:
    """With parameters as after some training: zeros, behind which most of the flow hides, are none any more."""
    draw = np.random.default_rng(0)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    moved = jax.tree.map(lambda leaf: leaf + 0.05 * draw.normal(size=leaf.shape).astype(np.float32), arrays)
    return eqx.combine(moved, rest)


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((28, 28, 1), (16, 2, 128)),
        ((32, 32, 3), (32, 3, 512)),
        ((8, 8, 1), (8, 2, 64)),
        ((6, 6, 1), (8, 1, 64)),
        ((36, 36, 3), (32, 2, 512)),
    ],
)
def test_sizes_suit_the_images(shape: tuple[int, ...], sizes: tuple[int, int, int]) -> None:
    found = suited(GlowConfig(), Schema("image", shape, levels=256), None)
    assert (found["depth"], found["levels"], found["width"]) == sizes


def test_the_first_bits_of_an_image_of_two_by_two_pixels_can_be_worked_out_by_hand() -> None:
    """One step: a rotation of the four pixels, and half of them by sigmoid(2) = 0.8807971."""
    model = build((2, 2, 1), depth=1, levels=1, width=4, logit_margin=0.0)
    x = np.array([0.1, 0.8, 0.3, 0.6])
    (_, mix, _) = model.bijection.levels[0].after.layer(0).layers
    z = x @ np.asarray(mix.weight, np.float64)
    z[2:] *= 0.8807971
    nats = 0.5 * (z**2).sum() + 2 * np.log(2 * np.pi) - 2 * np.log(0.8807971)
    found = eqx.filter_jit(model.log_prob)(jnp.asarray(x.reshape(1, 2, 2, 1), jnp.float32))
    assert float(found[0]) == pytest.approx(-nats, abs=1e-5)


def test_images_come_back_from_their_codes_as_the_same_levels() -> None:
    """All 8-bit values, with noise from a tenth to nine tenths of the gap between two."""
    model = shaken(build((8, 8, 1), depth=4, levels=2, width=16))
    draw = np.random.default_rng(1)
    levels = np.stack([draw.permutation(256)[:64] for _ in range(64)]).reshape(64, 8, 8, 1)
    x = (levels + draw.uniform(-0.4, 0.4, levels.shape)) / 255
    back = eqx.filter_jit(lambda model, x: model.decode(model.encode(x)))(model, jnp.asarray(x, jnp.float32))
    np.testing.assert_array_equal(np.rint(np.asarray(back) * 255), levels)
    codes = eqx.filter_jit(model.codes)(jnp.asarray(x[:2], jnp.float32))
    assert [code.shape for code in codes] == [(2, 4, 4, 2), (2, 2, 2, 8)]
    np.testing.assert_allclose(eqx.filter_jit(model.decode)(codes), x[:2], atol=1e-4)


def test_training_begins_with_what_the_data_say_and_classes_can_be_asked_for() -> None:
    data = load("digits")
    model = models.build("glow", data, depth=2, width=8, conditional=True, dequantization="uniform")
    norms = model.bijection.levels[0].after.layers.layers[2]
    assert float(np.abs(norms.shift[-1]).max()) > 0.1  # the last of a stack meets the data first
    asked = shaken(model)
    few = {number: np.asarray(asked.sample(KEY, 4, condition=number)) for number in (0, 1)}
    assert few[0].shape == (4, 8, 8, 1)
    assert not np.allclose(few[0], few[1])


def test_a_logit_stands_before_everything_else_and_takes_what_noise_leaves() -> None:
    model = shaken(build((4, 4, 1), depth=1, levels=1, width=4, logit_margin=1e-6))
    schema = model.schema
    x = units.dequantized(
        schema, jnp.asarray(np.random.default_rng(0).integers(0, 2, (8, 4, 4, 1)), float), KEY
    )
    assert np.isfinite(eqx.filter_jit(model.log_prob)(x)).all()


def test_images_that_cannot_be_halved_are_refused_with_sizes_that_can() -> None:
    with pytest.raises(CapabilityError, match=r"data.size=28 or data.size=32"):
        build((30, 30, 1), levels=2)


def test_learned_noise_stays_between_levels_and_its_density_is_one() -> None:
    """The mean over uniform noise of q / uniform is one, by drawing from q: E_q [1 / q] is the width of the gap."""
    noise = LevelNoise((2, 2, 1), 4, width=4, couplings=2, key=KEY)
    noise = eqx.tree_at(
        lambda noise: [network.last.weight for network in noise.networks],
        noise,
        replace_fn=lambda leaf: 0.1 * jax.random.normal(KEY, leaf.shape),
    )
    x = jnp.full((20_000, 2, 2, 1), 1 / 3)
    drawn = eqx.filter_jit(noise)(x, KEY)
    assert float(jnp.abs(drawn.value - x).max()) < 0.5 / 3
    weights = np.exp(-np.asarray(drawn.log_q, np.float64))
    assert abs(weights.mean() - 1) < 4 * weights.std() / np.sqrt(len(weights))


def test_a_flow_with_learned_noise_tells_a_bound_and_does_all_else_as_the_flow() -> None:
    data = load("digits")
    model = models.build(
        "glow", data, depth=1, levels=1, width=4, dequantization="variational", noise_width=4
    )
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(8)))
    loss, metrics = eqx.filter_jit(model.loss)(batch, KEY)
    parts = metrics["code_nats"] + metrics["volume_nats"] + metrics["noise_nats"]
    assert float(loss) == pytest.approx(float(parts), rel=1e-4)
    assert model.likelihood_note == "variational dequantisation"
    assert eqx.filter_jit(model.elbo)(batch.x, KEY).shape == (8,)
    assert (
        model.sample_caption() == "1 pass of networks one after another"
    )  # mixing channels and logits are none
    assert model.sample(KEY, 2, temperature=0.5).shape == (2, 8, 8, 1)
    back = model.decode(model.encode(batch.x))
    np.testing.assert_allclose(back, batch.x, atol=1e-4)
    with pytest.raises(ArgumentError, match="no levels to put noise between"):
        models.build("glow", Schema("image", (4, 4, 1)), dequantization="variational")


def test_more_draws_of_learned_noise_are_a_tighter_bound() -> None:
    """`k=` of scores: the logarithm of the mean of densities is no less than the mean of their logarithms."""
    data = load("digits")
    model = models.build(
        "glow", data, depth=1, levels=1, width=4, dequantization="variational", noise_width=4
    )
    few = Subset(data.test, np.arange(32))
    found = score_of_bounds.measure(Evaluation(model, data, few, 32, KEY, k=16))
    assert found["bits_per_dim_weighted_bound"].value < found["bits_per_dim_bound"].value
    assert found["nll_weighted_bound"].kind == "bound, variational dequantisation, k=16 draws of noise"
    x = jnp.asarray(few.batch(np.arange(32)).x)
    each = np.stack([eqx.filter_jit(model.elbo)(x, key) for key in jax.random.split(KEY, 16)])
    ours = eqx.filter_jit(lambda x: weighted_bound(lambda key: model.elbo(x, key), KEY, 16))(x)
    np.testing.assert_allclose(ours, np.logaddexp.reduce(each.astype(np.float64)) - np.log(16), rtol=1e-4)
    assert (np.asarray(ours) >= each.mean(axis=0)).all()


def test_volumes_are_shown_by_kind_of_layer_and_scale() -> None:
    model = shaken(build((4, 4, 1), depth=2, levels=2, width=4))
    x = jnp.asarray(np.random.default_rng(0).random((3, 4, 4, 1)), jnp.float32)
    names, volumes = volumes_by_layer(model.bijection, x)
    assert names[:4] == ["4×4 LogitOfLevels", "2×2 ActNorm", "2×2 OneByOne", "2×2 ChannelCoupling"]
    assert names[-1] == "priors of the codes"
    np.testing.assert_allclose(volumes.sum(axis=0), model.bijection.inverse(x).log_det, rtol=1e-4)
