"""The encoder over patches: what it sees, what it is judged by, and how gaps are filled."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, ChainruleError
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.representation.bert import PatchBERT

SCHEMA = Schema("image", (4, 6, 2), levels=5)
KEY = jax.random.key(3)
SMALL: dict[str, Any] = {"layers": 1, "heads": 2, "width": 8, "patch": 2}
X = jnp.asarray(np.random.default_rng(3).integers(0, 5, (3, 4, 6, 2)) / 4, jnp.float32)


def build(schema: Schema = SCHEMA, **settings: Any) -> Any:
    return models.build("bert", schema, **{**SMALL, **settings})


@pytest.fixture(scope="module")
def model() -> PatchBERT:
    found: PatchBERT = jax.tree.map(lambda a: a * 10 if eqx.is_array(a) and a.ndim > 1 else a, build())
    return found


def test_patches_are_squares_row_by_row_and_make_up_the_image_again(model: PatchBERT) -> None:
    tokens = model.cut(X)
    assert tokens.shape == (3, 6, 8)
    np.testing.assert_array_equal(tokens[:, 4], X[:, 2:4, 2:4].reshape(3, -1))
    np.testing.assert_array_equal(model.joined(tokens), X)


def test_nothing_is_seen_of_a_gap_and_every_other_patch_is_seen_from_everywhere(model: PatchBERT) -> None:
    gaps = jnp.array([[False, True, False, False, True, False]])
    slopes = jax.jit(jax.jacobian(lambda tokens: model.features(tokens, gaps)[0]))(model.cut(X[:1]))[:, :, 0]
    seen = np.abs(np.asarray(slopes)).max(axis=(1, 3))  # by output and input patch
    assert (seen[:, [1, 4]] == 0).all()
    assert (seen[:, [0, 2, 3, 5]] > 0).all()


def test_the_loss_is_the_mean_surprisal_at_the_pixels_to_be_guessed() -> None:
    logits = np.random.default_rng(3).normal(size=(8, 5)).astype(np.float32)
    blank = eqx.tree_at(
        lambda model: (model.head.weight, model.head.bias),
        build(hide=0.99),
        (jnp.zeros((8, 40)), jnp.asarray(logits.reshape(-1))),
    )  # guesses the same whatever it sees, and is asked about every patch
    wanted = np.rint(np.asarray(blank.cut(X)) * 4).astype(int)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    surprisal = -log_p[np.arange(8)[None, None, :], wanted]
    loss, metrics = eqx.filter_jit(blank.loss)(Batch(X), KEY)
    np.testing.assert_allclose(loss, surprisal.mean(), rtol=1e-5)
    np.testing.assert_allclose(metrics["guessed"], (log_p.argmax(axis=1) == wanted).mean(), rtol=1e-5)
    guesses = eqx.filter_jit(blank.guesses)(X, KEY)
    np.testing.assert_allclose(guesses.nats, surprisal.mean(axis=(1, 2)), rtol=1e-5)
    means = np.exp(log_p) @ np.linspace(0, 1, 5)
    squares = np.square(means[None, None, :] - wanted / 4).mean(axis=(1, 2))
    np.testing.assert_allclose(guesses.more["hidden_squared_error"].values, squares, rtol=1e-5)


def test_only_gaps_are_filled_with_levels_and_the_likeliest_ones_without_temperature(
    model: PatchBERT,
) -> None:
    def cut(images: jax.Array) -> np.ndarray:
        return np.asarray(eqx.filter_jit(model.cut)(images))

    gaps = np.asarray(model.random_gaps(KEY, 3, 0.5))
    assert gaps.sum(axis=1).tolist() == [3, 3, 3]
    expect = eqx.filter_jit(lambda model, gaps: model.expected(X, gaps))
    expected, drawn = expect(model, jnp.asarray(gaps)), model.fill(X, jnp.asarray(gaps), KEY)
    for filled in (expected, drawn):
        np.testing.assert_array_equal(cut(filled)[~gaps], cut(X)[~gaps])
    values = cut(drawn)[gaps] * 4
    np.testing.assert_allclose(values, values.round(), atol=1e-6)
    one = jnp.asarray(np.arange(6)[None, :] == np.full((3, 1), 2))
    logits = jax.jit(lambda: model.read_out(model.features(model.cut(X), one)))()[:, 2]
    sure = cut(model.fill(X, one, KEY, temperature=0.0))[:, 2]
    np.testing.assert_allclose(sure, logits.argmax(axis=-1) / 4)
    probabilities = jax.nn.softmax(logits)
    np.testing.assert_allclose(
        cut(expect(model, one))[:, 2], probabilities @ jnp.linspace(0, 1, 5), rtol=1e-5
    )
    with pytest.raises(ArgumentError, match="temperature"):
        model.sample(KEY, 1, temperature=-1.0)


def test_sizes_suit_the_images_unless_they_are_given() -> None:
    for side, patch in ((8, 2), (28, 4), (32, 4), (5, 1), (9, 1)):
        shapes = eqx.filter_eval_shape(build, Schema("image", (side, side, 1), levels=256), patch=None)
        assert (shapes.patch, shapes.levels) == (patch, 32)
    shapes = eqx.filter_eval_shape(build, Schema("image", (8, 8, 1), levels=17), levels=9)
    assert shapes.levels == 9


@pytest.mark.parametrize(
    ("schema", "settings", "message"),
    [
        (SCHEMA, {"patch": 3}, "patch=3: squares of this side do not cover images of 4×6"),
        (SCHEMA, {"context": 9}, "context=9 is a setting for texts"),
        (Schema("image", (4, 6, 1)), {}, "bert needs pixels with levels"),
        (Schema("text", (9,), tokens=("a", "b")), {"patch": 2}, "patch=2 is a setting for images"),
        (
            Schema("text", (9,), "class", tokens=("a",), classes=("b", "c")),
            {},
            "target none; these have target",
        ),
    ],
)
def test_what_does_not_fit_is_said(schema: Schema, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ChainruleError, match=message):
        models.build("bert", schema, **settings)


def test_the_blocks_of_an_encoder_of_images_are_no_body_of_a_reader() -> None:
    wanted = Schema("image", (4, 6, 2), "class", classes=("a", "b"), levels=5)
    with pytest.raises(ChainruleError, match="reader cannot begin with a bert of images"):
        models.begin("reader", build(), wanted)
