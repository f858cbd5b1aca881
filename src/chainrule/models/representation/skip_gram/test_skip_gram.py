"""Vectors by skip-gram: what the noise is, and where the loss is least."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule import models
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.representation.skip_gram import SkipGram

LETTERS = Schema("text", (401,), tokens=tuple("abcd"))
NEGATIVES = 5


def built() -> SkipGram:
    model = models.build("skip-gram", LETTERS, embedding=4, reach=1, negatives=NEGATIVES)
    assert isinstance(model, SkipGram)
    return model


def test_noise_is_drawn_by_frequency_to_the_power_of_three_quarters() -> None:
    counts = np.array([1.0, 16.0, 0.0, 81.0])
    model = eqx.tree_at(lambda model: model.counts, built(), jnp.asarray(counts))
    drawn = np.bincount(np.asarray(model.noise(jax.random.key(0), (20_000,))), minlength=4) / 20_000
    np.testing.assert_allclose(drawn, np.array([1, 8, 0, 27]) / 36, atol=0.015)


def test_the_loss_is_least_at_the_shifted_pointwise_mutual_information() -> None:
    rng = np.random.default_rng(0)
    steps = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.6, 0.1], [0.3, 0.3, 0.1, 0.3], [0.4, 0.1, 0.1, 0.4]])
    text = [0]
    for _ in range(6 * 401 - 1):
        text.append(int(rng.choice(4, p=steps[text[-1]])))
    x = np.array(text).reshape(6, 401)
    joint = np.zeros((4, 4))
    np.add.at(joint, (x[:, :-1], x[:, 1:]), 1.0)
    joint += joint.T
    noise = np.bincount(x.reshape(-1)) ** 0.75
    best = np.log(joint / joint.sum(axis=1, keepdims=True) / (noise / noise.sum())[None, :]) - np.log(
        NEGATIVES
    )
    model = eqx.tree_at(lambda model: model.around.weight, built(), jnp.eye(4))

    @eqx.filter_jit
    def judge(table: jax.Array) -> jax.Array:
        at = eqx.tree_at(lambda model: model.embedding.weight, model, table)
        losses = jax.vmap(lambda key: at.loss(Batch(jnp.asarray(x)), key)[0])
        return losses(jax.random.split(jax.random.key(1), 40)).mean()

    least = float(judge(jnp.asarray(best)))
    away = [float(judge(jnp.asarray(best + rng.choice([-0.4, 0.4], (4, 4))))) for _ in range(6)]
    assert least < min(away)


def test_every_word_that_is_read_is_counted() -> None:
    x = jnp.asarray(np.arange(802).reshape(2, 401) % 3)
    _, _, moved = eqx.filter_jit(built().loss_and_state)(Batch(x), jax.random.key(0))
    np.testing.assert_array_equal(moved.counts, np.bincount(np.asarray(x).reshape(-1), minlength=4))
