"""Mixed images: their loss is that of both targets, each for its share, whatever the loss and the weights."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import CapabilityError
from chainrule.data import Batch, Data
from chainrule.data.batches import Mixed
from chainrule.nn import losses
from chainrule.train import augmentation
from chainrule.train.config import Augment
from tests.train.toys import Picture, rows, train

CLASSES = ("a", "b", "c")


@pytest.fixture(scope="module")
def data() -> Data:
    x = np.random.default_rng(0).uniform(size=(24, 4, 5, 1)).astype(np.float32)
    y = np.array([0, 1, 1, 2, 2, 2] * 4, np.int32)
    return rows(x, y, kind="image", target="class", classes=CLASSES)


@pytest.fixture(scope="module")
def model(data: Data) -> Any:
    return models.build("mlp", data, width=4, depth=2, dropout=0.0, normalization="none")


def test_the_loss_of_mixed_images_is_that_of_soft_targets(model: Any, data: Data) -> None:
    """With one-hot targets mixed alike cross-entropy gives the same, also with weights of classes and examples."""
    examples, share = data.train.batch(np.arange(6)), 0.3
    order, weights = np.array([5, 3, 0, 1, 2, 4]), np.linspace(0.5, 1.5, 6).astype(np.float32)
    of_class = np.array([1.0, 2.0, 0.25], np.float32)
    y = np.asarray(examples.y)
    mixed = Mixed(*map(jnp.asarray, (y, y[order], weights[order], share)))
    batch = Batch(jnp.asarray(examples.x), mixed, jnp.asarray(weights))
    out = np.asarray(model.logits(batch.x))
    log_p = out - np.log(np.exp(out).sum(axis=1, keepdims=True))

    def expected(of_class: np.ndarray, weights: np.ndarray) -> float:
        one_hot = np.eye(3)
        first = one_hot[y] * weights[:, None] * share
        second = one_hot[y[order]] * weights[order][:, None] * (1 - share)
        return float(-((first + second) * of_class[None] * log_p).sum(axis=1).mean())

    loss, metrics, _ = model.loss_and_state(batch, jax.random.key(0))
    np.testing.assert_allclose(loss, expected(np.ones(3), weights), rtol=1e-5)
    right = out.argmax(axis=1)
    accuracy = share * (right == y).mean() + (1 - share) * (right == y[order]).mean()
    np.testing.assert_allclose(metrics["accuracy"], accuracy, rtol=1e-5)
    weighted, _, _ = model.loss_and_state(
        batch,
        jax.random.key(0),
        lambda out, y: losses.cross_entropy(out, y, class_weights=jnp.asarray(of_class)),
    )
    np.testing.assert_allclose(weighted, expected(of_class, weights), rtol=1e-5)


@pytest.mark.parametrize("settings", [{"mixup": 0.5}, {"cutmix": 1.0, "mixup": 0.5, "flip": True}])
def test_images_and_targets_of_a_step_are_mixed_by_its_number_alone(
    model: Any, data: Data, settings: dict
) -> None:
    given = {"augment": settings, "loss": {"class_weights": (1.0, 2.0, 3.0), "smoothing": 0.1}}
    whole, seen, _ = train(model, data, 5, **given)
    in_parts, _, _ = train(model, data, 5, stretches=(2, 3), **given)
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(in_parts), strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.isfinite(seen["loss"]).all()
    plain, _, _ = train(model, data, 5)
    assert not np.allclose(plain.head.weight, whole.head.weight)


def test_a_mixed_batch_keeps_every_image_and_every_target_once(model: Any, data: Data) -> None:
    batch = data.train.batch(np.arange(24))
    found = jax.jit(lambda x, y, key: augmentation.augmented(Batch(x, y), key, Augment(mixup=0.5), model))(
        batch.x, batch.y, jax.random.key(1)
    )
    assert sorted(np.asarray(found.y.other_y)) == sorted(batch.y)
    np.testing.assert_allclose(found.x.mean(), batch.x.mean(), rtol=1e-5)
    assert augmentation.mixed(batch, jax.random.key(1), Augment(flip=True)) is batch


def test_models_that_predict_no_target_do_not_mix(data: Data) -> None:
    with pytest.raises(CapabilityError, match=r"augment\.cutmix: Picture predicts no target"):
        train(Picture(jnp.zeros((4, 5, 1))), data, 1, augment={"cutmix": 1.0})
