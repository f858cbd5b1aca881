"""What holds for every model of vectors: probabilities add up, nobody sees ahead, samples follow the distribution."""

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Schema
from chainrule.models.autoregressive.conditionals import Conditionals
from chainrule.models.autoregressive.vectors import VectorModel

BINARY = Schema("image", (2, 5, 1), "class", levels=2, classes=("a", "b", "c"))
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "fvsbn": ("fvsbn", {}),
    "nade": ("nade", {"width": 7}),
    "nade, three orders": ("nade", {"width": 7, "ensemble": 3}),
    "made, random order": ("made", {"width": 20, "depth": 1, "order": "random"}),
    "pixel-cnn": ("pixel-cnn", {"width": 4, "blocks": 3, "first_kernel": 5}),
    "pixel-cnn, classes": ("pixel-cnn", {"width": 4, "blocks": 2, "first_kernel": 5, "condition": "class"}),
    "pixel-rnn": ("pixel-rnn", {"width": 4, "depth": 1, "first_kernel": 3}),
}


def moved(name: str, schema: Schema, size: float = 0.7, **config: Any) -> VectorModel:
    """A model some way off its start, where all conditionals differ."""
    noise = np.random.default_rng(0)
    model = cr.models.build(name, schema, **config)
    assert isinstance(model, VectorModel)
    return jax.tree.map(
        lambda leaf: (
            jnp.asarray(np.asarray(leaf) + size * noise.normal(size=leaf.shape))
            if eqx.is_inexact_array(leaf)
            else leaf
        ),
        model,
    )


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> VectorModel:
    name, config = MODELS[request.param]
    return moved(name, BINARY, **config)


@eqx.filter_jit
def log_prob(model: VectorModel, x: jax.Array) -> jax.Array:
    return model.log_prob(x)


@eqx.filter_jit
def complete(model: VectorModel, x: jax.Array, given: int, key: jax.Array) -> jax.Array:
    return model.complete(x, given, key)


def everything(schema: Schema) -> jax.Array:
    """Every binary vector."""
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=schema.dimensions)))
    return jnp.asarray(rows.reshape(-1, *schema.shape))


def test_probabilities_of_all_vectors_add_up_to_one(model: VectorModel) -> None:
    assert abs(float(jnp.exp(log_prob(model, everything(BINARY))).sum()) - 1) < 1e-10


@eqx.filter_jit
def _slopes(member: Conditionals, x: jax.Array) -> jax.Array:
    return jax.vmap(jax.jacfwd(lambda x: member(x[None])[0].sum(axis=-1)))(x)


def test_no_conditional_sees_an_entry_that_comes_later(model: VectorModel) -> None:
    x = everything(BINARY)[::64].reshape(-1, 10)
    for member in model.members:
        slopes = np.abs(np.asarray(_slopes(member, x))).sum(axis=0)
        assert (np.triu(slopes) == 0).all()
        assert (np.diag(slopes, -1) > 0).all()


def test_samples_come_with_their_probabilities(model: VectorModel) -> None:
    drawn = np.asarray(eqx.filter_jit(lambda m: m.sample(jax.random.key(0), 8192))(model)).reshape(-1, 10)
    counts = np.bincount((drawn @ 2 ** np.arange(9, -1, -1)).astype(int), minlength=1024)
    p = np.exp(np.asarray(log_prob(model, everything(BINARY))))
    # Mean and spread of the entropy estimate: samples of another distribution would be more or less surprising.
    surprisal = counts @ -np.log(p) / len(drawn)
    entropy, spread = -(p * np.log(p)).sum(), np.sqrt((p * np.log(p) ** 2).sum())
    assert abs(surprisal - entropy) < 5 * spread / np.sqrt(len(drawn))
    likely = p > 20 / len(drawn)
    assert np.abs((counts / len(drawn) - p)[likely] / np.sqrt(p[likely] / len(drawn))).max() < 5


def test_a_completion_keeps_what_is_given_and_follows_the_conditional() -> None:
    model = moved("nade", BINARY, width=7)
    x = jnp.asarray(np.repeat(np.asarray(everything(BINARY))[5][None], 4096, axis=0))
    drawn = np.asarray(complete(model, x, 9, jax.random.key(1))).reshape(-1, 10)
    assert (drawn[:, :9] == np.asarray(x).reshape(-1, 10)[:, :9]).all()
    p = float(eqx.filter_jit(model.expected)(x[:1]).ravel()[9])
    assert abs(drawn[:, 9].mean() - p) < 5 * np.sqrt(p * (1 - p) / len(drawn))
    assert np.array_equal(complete(model, x[:3], 10, jax.random.key(1)), x[:3])
    with pytest.raises(ArgumentError, match="given=11: an example has 10 entries"):
        model.complete(x, 11, jax.random.key(1))


def test_terms_add_up_to_the_log_probability(model: VectorModel) -> None:
    x = everything(BINARY)[::97]
    single = VectorModel(model.members[:1], model.orders[:1], model.config, model.schema)
    assert np.allclose(
        eqx.filter_jit(lambda m: m.terms(x))(single).reshape(len(x), -1).sum(axis=1),
        log_prob(single, x),
        atol=1e-12,
    )


def test_an_ensemble_averages_probabilities_and_trains_each_member_by_itself() -> None:
    model = moved("nade", BINARY, width=7, ensemble=3)
    x = everything(BINARY)[::31]
    alone = [
        log_prob(VectorModel((member,), (order,), model.config, model.schema), x)
        for member, order in zip(model.members, model.orders, strict=True)
    ]
    assert np.allclose(np.exp(log_prob(model, x)), np.mean(np.exp(np.stack(alone)), axis=0), rtol=1e-10)
    loss, _ = eqx.filter_jit(model.loss)(cr.data.Batch(x), jax.random.key(0))
    assert np.isclose(float(loss), -np.mean(np.stack(alone)))
    first, second, _ = (order.tolist() for order in model.orders)
    assert first == list(range(10))
    assert sorted(second) == first != second


@pytest.mark.parametrize("name", ["fvsbn", "nade"])
def test_grey_images_are_refused_with_ways_out(name: str) -> None:
    with pytest.raises(
        CapabilityError, match="models zeros and ones; these image data have 17 levels"
    ) as found:
        cr.models.build(name, cr.data.load("digits"))
    for way in ("data.binarize=threshold", "data.binarize=stochastic", "chainrule train made"):
        assert way in str(found.value)


@pytest.mark.parametrize("order", ["data", "random"])
def test_pictures_of_images_show_completions_expectations_nats_and_the_order(order: str) -> None:
    data = cr.data.load("binary-digits")
    model = cr.models.build("nade", data, width=4, order=order, ensemble=2)
    assert isinstance(model, VectorModel)
    pictures = {picture.name: picture for picture in model.pictures(data, jax.random.key(0))}
    assert set(pictures) == {"completions", "expected-pixels", "nats-by-pixel", "receptive-field"} | (
        {"order"} if order == "random" else set()
    )
    x = np.asarray(data.val.x)[:10].reshape(10, -1)
    drawn = pictures["completions"].images.reshape(4, 10, -1)
    kept = np.asarray(model.orders[0])[:32]
    assert (drawn[:, :, kept] == x[None][:, :, kept]).all()
    assert np.isclose(pictures["nats-by-pixel"].values.sum(), 64 * np.log(2), rtol=0.05)


def test_pictures_of_points_show_nats_by_entry() -> None:
    data = cr.data.load("moons")
    model = cr.models.build("made", data, width=4, depth=1)
    assert isinstance(model, VectorModel)
    (bars,) = model.pictures(data, jax.random.key(0))
    x = jnp.asarray(data.val.x)[:512]
    assert np.isclose(bars.series["held-out examples"].sum(), -log_prob(model, x).mean(), rtol=1e-5)
