"""The pair encoder beyond the promises every model keeps: its loss by hand, and what it does to equal captions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.data import Batch, Schema
from chainrule.models.representation.pair_encoder import PairEncoder

SCHEMA = Schema("image", (4, 6, 1), "text", (3,), target_tokens=("<unk>", " a", " b"), levels=17)
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def model() -> PairEncoder:
    found = models.build("pair-encoder", SCHEMA, width=8, channels=2, features=4)
    assert isinstance(found, PairEncoder)
    return found


@pytest.fixture(scope="module")
def batch() -> Batch:
    y = jnp.array([[1, 3, 3], [2, 3, 3], [1, 3, 3], [2, 1, 3]])
    return Batch(jax.random.uniform(KEY, (4, 4, 6, 1)), y)


@pytest.fixture(scope="module")
def found(model: PairEncoder, batch: Batch) -> Any:
    @eqx.filter_jit
    def all_of(model: PairEncoder, batch: Batch) -> Any:
        codes = model.encode(batch.x), model.encode_target(batch.y)
        return *codes, model.loss(batch, KEY), model.scores(batch, KEY)

    return all_of(model, batch)


def test_images_and_captions_are_vectors_of_length_one(found: Any) -> None:
    for codes in found[:2]:
        assert codes.shape == (4, 4)
        np.testing.assert_allclose(np.linalg.norm(codes, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(found[1][0], found[1][2], atol=1e-6)


def test_the_loss_is_the_mean_of_both_searches_with_equal_captions_all_right(found: Any) -> None:
    images, captions, (loss, metrics), scores = found
    logits = np.asarray(images, np.float64) @ np.asarray(captions, np.float64).T / 0.07
    right = [[0, 2], [1], [0, 2], [3]]

    def surprisal(table: np.ndarray) -> float:
        logs = table - np.log(np.exp(table).sum(axis=1, keepdims=True))
        return float(-np.mean([logs[row, columns].mean() for row, columns in enumerate(right)]))

    assert float(loss) == pytest.approx((surprisal(logits) + surprisal(logits.T)) / 2, rel=1e-4)
    assert float(metrics["temperature"]) == pytest.approx(0.07, rel=1e-5)
    for name, table in (("caption_found", logits), ("image_found", logits.T)):
        by_hand = [float(best in right[row]) for row, best in enumerate(table.argmax(axis=1))]
        np.testing.assert_array_equal(scores[name].values, by_hand)
