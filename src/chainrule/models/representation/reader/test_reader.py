"""The reader's own mathematics: padding, pooling, and a body that is another model's."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core import tree
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data.schema import Schema
from chainrule.data.text.pairs import encode
from chainrule.data.text.tokenizers import WordPiece

LETTERS = tuple("abcdef")
TEXTS = Schema("text", (9,), "class", classes=("left", "right"), tokens=LETTERS)
IMAGES = Schema("image", (4, 6, 1), "class", classes=("left", "right", "middle"))
SMALL = {"layers": 1, "heads": 2, "width": 8}


encode_with = eqx.filter_jit(lambda model, x: model.encode(x))


def reader(schema: Schema, body: str = "gpt", **settings: Any) -> Any:
    return models.build("reader", schema, body={"name": body, **SMALL}, **settings)


def rows(*texts: str, schema: Schema = TEXTS) -> jax.Array:
    return jnp.asarray(np.stack([encode(schema, text) for text in texts]))


@pytest.mark.parametrize(("body", "pooling"), [("gpt", "mean"), ("bert", "last"), ("bert", "cls")])
def test_padding_changes_nothing(body: str, pooling: str) -> None:
    model = reader(TEXTS, body, pooling=pooling)
    short = jnp.asarray(encode(TEXTS, "bad"))[None, :4]
    np.testing.assert_allclose(
        encode_with(model, rows("bad")), encode_with(model, short), rtol=1e-5, atol=1e-6
    )


@pytest.fixture(scope="module")
def trained() -> Any:
    return models.build("gpt", Schema("text", (13,), tokens=LETTERS), seed=3, tie=False, **SMALL)


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_a_reader_pools_the_features_of_the_model_it_begins_with(trained: Any, pooling: str) -> None:
    model: Any = models.begin("reader", trained, TEXTS, pooling=pooling)
    features = np.asarray(eqx.filter_jit(trained.features)(rows("cafe")[:, :4]))[0]
    expected = features.mean(axis=0) if pooling == "mean" else features[-1]
    np.testing.assert_allclose(encode_with(model, rows("cafe"))[0], expected, rtol=1e-5, atol=1e-6)


def test_a_reader_of_words_has_the_vectors_of_the_encoder_it_begins_with() -> None:
    tokens = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "we", "read", "##er", "it")
    words = WordPiece(tokens, tokens[:5], "[UNK]", True)
    known = {"tokens": words.tokens, "tokenizer": words.canonical}
    bert: Any = models.build(
        "bert", Schema("text", (8,), **known), seed=1, preset="bert", segments=2, **SMALL
    )
    schema = Schema("text", (6,), "class", classes=("left", "right"), **known)
    model: Any = models.begin("reader", bert, schema)
    found = encode_with(model, rows("we reader it", schema=schema))[0]
    expected = bert.embed(["we reader it"])[0]
    np.testing.assert_allclose(found / jnp.linalg.norm(found), expected, rtol=1e-4, atol=1e-5)


def test_the_position_of_its_own_is_the_last_one_and_sees_the_whole_example() -> None:
    model = reader(IMAGES, pooling="cls")
    x = jax.random.normal(jax.random.key(0), (1, 4, 6, 1))
    slopes = jax.jit(jax.grad(lambda x: model.encode(x).sum()))(x)
    assert (np.abs(slopes) > 0).all(), "a body that looks back reads everything from there"
    text = reader(TEXTS, pooling="cls")
    moved = eqx.tree_at(lambda m: m.summary, text, text.summary + 1)
    assert not np.allclose(encode_with(text, rows("bad")), encode_with(moved, rows("bad")))


def test_patches_are_squares_row_by_row() -> None:
    model = reader(IMAGES)
    x = jnp.arange(24.0).reshape(1, 4, 6, 1)
    vectors, _ = eqx.filter_jit(model._image)(x)
    second = jnp.array([2.0, 3.0, 8.0, 9.0])
    np.testing.assert_allclose(vectors[0, 1], model.patches(second), rtol=1e-5)
    assert vectors.shape == (1, 6, 8)


def test_a_trained_body_reads_images_and_keeps_all_of_its_blocks(trained: Any) -> None:
    model: Any = models.begin("reader", trained, IMAGES)
    for ours, theirs in zip(jax.tree.leaves(model.body.blocks), jax.tree.leaves(trained.blocks), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert model.body.embedding is None
    assert not any(name.startswith("head") for name, _ in tree.named_leaves(model.body))


@pytest.mark.parametrize(
    ("schema", "settings", "message"),
    [
        (IMAGES, {"patch": 4}, "squares of this side do not cover images of 4×6"),
        (TEXTS, {"body": {"name": "mlp"}}, "body.name must be gpt or bert"),
        (TEXTS, {"body": {"layesr": 2}}, "body.layesr"),
        (TEXTS, {"body": {"name": "gpt", "context": 4}}, "9 positions; the body can look at 4"),
    ],
)
def test_what_cannot_be_read_is_refused(schema: Schema, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        models.build("reader", schema, **settings)


def test_only_models_of_text_are_bodies() -> None:
    points = Schema("points", (2,), "class", classes=("a", "b"))
    with pytest.raises(CapabilityError, match="reader cannot begin with a mlp"):
        models.begin("reader", models.build("mlp", points, width=4), TEXTS)
