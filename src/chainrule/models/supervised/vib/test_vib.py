"""The deep bottleneck beyond the promises every model keeps: both terms by hand, and what a price does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models
from chainrule.data import Batch, Schema
from chainrule.explain.methods.training import train
from chainrule.models.supervised.vib import VIB

SCHEMA = Schema("table", (4,), target="class", classes=("a", "b", "c"))


def build(**settings: float) -> VIB:
    model = models.build("vib", SCHEMA, **{"width": 8, "depth": 1, "latent": 2, **settings})
    assert isinstance(model, VIB)
    return model


def batch(n: int = 6) -> Batch:
    x = np.random.default_rng(0).normal(size=(n, 4)).astype(np.float32)
    return Batch(jnp.asarray(x), jnp.asarray(np.arange(n) % 3, jnp.int32))


def code_by_hand(model: VIB, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    (layer,) = model.layers
    h = np.maximum(x @ np.asarray(layer.weight) + np.asarray(layer.bias), 0)
    mean, raw = np.split(h @ np.asarray(model.code.weight) + np.asarray(model.code.bias), 2, axis=1)
    return mean, np.log1p(np.exp(raw - 5)) + 1e-4


def test_the_loss_is_cross_entropy_and_the_price_of_the_code() -> None:
    model, examples = build(beta=0.5), batch()
    mean, deviation = code_by_hand(model, np.asarray(examples.x))
    rate = (0.5 * (mean**2 + deviation**2 - 1) - np.log(deviation)).sum(axis=1)
    z = mean + deviation * np.asarray(jax.random.normal(jax.random.key(1), mean.shape))
    logits = z @ np.asarray(model.head.weight) + np.asarray(model.head.bias)
    missing = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(6), np.asarray(examples.y)]
    loss, metrics = model.loss(examples, jax.random.key(1))
    assert float(loss) == pytest.approx(missing.mean() + 0.5 * rate.mean(), rel=1e-4)
    assert float(metrics["rate"]) == pytest.approx(rate.mean(), rel=1e-4)
    scores = model.scores(examples, jax.random.key(1))
    np.testing.assert_allclose(scores["rate"].values, rate / np.log(2), rtol=1e-4)
    np.testing.assert_allclose(scores["missing"].values, missing / np.log(2), rtol=1e-3, atol=1e-5)


def test_predictions_are_read_from_the_mean_code() -> None:
    model, examples = build(), batch()
    mean, _ = code_by_hand(model, np.asarray(examples.x))
    np.testing.assert_allclose(model.encode(examples.x), mean, rtol=1e-4, atol=1e-5)
    logits = mean @ np.asarray(model.head.weight) + np.asarray(model.head.bias)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict(examples.x), p, rtol=1e-4, atol=1e-5)


def test_a_higher_price_buys_fewer_nats() -> None:
    moons = data.load("moons", n=400)
    rates = {}
    for beta in (1e-3, 0.1, 10.0):
        model = models.build("vib", moons, width=16, depth=1, latent=2, beta=beta)
        found = train(model, moons, steps=150, every=150, batch=64, optimizer={"name": "adam", "lr": 1e-2})
        rates[beta] = float(found.val["rate"][-1])
    assert rates[1e-3] > rates[0.1] > rates[10.0]
    assert rates[10.0] < 1
