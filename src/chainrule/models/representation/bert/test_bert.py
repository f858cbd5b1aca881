"""The encoder: what is hidden, how gaps are filled, vectors of texts, and weights from elsewhere."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers.character import Character
from chainrule.data.text.tokenizers.word_piece import WordPiece
from chainrule.models.representation.bert import BERT
from chainrule.models.representation.bert.gaps import Gaps, draw_gaps

LETTERS = Schema("text", (10,), tokens=tuple("\nabcdefgh"))
KEY = jax.random.key(3)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@pytest.fixture(scope="module")
def model() -> BERT:
    found = models.build("bert", LETTERS, layers=2, heads=2, width=8)
    assert isinstance(found, BERT)
    return jax.tree.map(lambda a: a * 10 if eqx.is_array(a) and a.ndim > 1 else a, found)


def test_fifteen_percent_are_guessed_of_which_most_are_hidden_some_replaced_and_some_left() -> None:
    x = np.random.default_rng(3).integers(5, 105, (2000, 40)).astype(np.int32)
    drawn = jax.jit(lambda key, x: draw_gaps(key, x, 0.15, 105, mask=4, special=(0, 1, 2, 3, 4)))
    positions, seen = (np.asarray(part) for part in drawn(jax.random.key(0), x))
    assert positions.shape == (2000, 6)
    assert all(len(set(row)) == 6 for row in positions.tolist())
    old, new = (np.take_along_axis(a, positions, axis=1) for a in (x, seen))
    assert np.mean(new == 4) == pytest.approx(0.8, abs=0.02)
    assert np.mean((new != 4) & (new != old)) == pytest.approx(0.1, abs=0.02)
    untouched = np.ones(x.shape, bool)
    np.put_along_axis(untouched, positions, False, axis=1)
    assert (seen[untouched] == x[untouched]).all()


def test_special_symbols_are_never_guessed_and_gaps_are_drawn_anew() -> None:
    x = jnp.asarray(np.tile(np.where(np.arange(40) % 2 == 0, 2, 7).astype(np.int32), (50, 1)))
    drawn = jax.jit(lambda key: draw_gaps(key, x, 0.15, 9, mask=4, special=(2,)))
    (first, _), (second, _) = drawn(jax.random.key(0)), drawn(jax.random.key(1))
    assert (np.asarray(first) % 2 == 1).all()
    assert not np.array_equal(first, second)


def test_every_position_sees_every_other(model: BERT) -> None:
    x = np.array([[3, 1, 4, 1, 5, 8]], np.int32)
    features = eqx.filter_jit(model.features)
    before = np.asarray(features(jnp.asarray(x)))
    for i in range(6):
        changed = x.copy()
        changed[0, i] = (x[0, i] + 1) % 9
        assert (np.abs(np.asarray(features(jnp.asarray(changed))) - before).max(axis=-1) > 0).all()


def test_gaps_are_written_and_filled_by_the_likeliest_symbols(model: BERT) -> None:
    guesses = model.fill("ab[MASK]de[MASK]", top=3)
    assert [len(one) for one in guesses] == [3, 3]
    assert all(a[1] >= b[1] for one in guesses for a, b in itertools.pairwise(one))
    x = jnp.array([[1, 2, 9, 4, 5, 9]])
    p = jax.nn.softmax(eqx.filter_jit(model.logits)(x)[0, 2])
    assert guesses[0][0] == (LETTERS.tokens[int(p.argmax())], pytest.approx(float(p.max())))


def test_a_sample_keeps_what_is_given_and_leaves_no_gap(model: BERT) -> None:
    out = np.asarray(model.sample(KEY, 5, prompt="a[MASK]c[MASK][MASK]f"))
    assert (out[:, [0, 2, 5]] == np.array([[1, 3, 6]])).all()
    assert ((out >= 0) & (out < 9)).all()
    assert model.sample(KEY, 2).shape == (2, 10)
    sure = np.asarray(model.sample(KEY, 1, prompt="a[MASK]c", temperature=0.0))
    assert LETTERS.tokens[sure[0, 1]] == model.fill("a[MASK]c", top=1)[0][0][0]
    with pytest.raises(ArgumentError, match="temperature"):
        model.sample(KEY, 1, temperature=-1.0)


def test_variations_change_only_the_chosen_part(model: BERT) -> None:
    texts = model.vary(KEY, "abcdefgh", 2, 5, n=6)
    assert len(texts) == 6
    assert all(text[:2] == "ab" and text[5:] == "fgh" and len(text) == 8 for text in texts)
    with pytest.raises(ArgumentError, match="the text has 3 tokens"):
        model.vary(KEY, "abc", 2, 5)


def test_the_pseudo_likelihood_hides_each_symbol_once(model: BERT) -> None:
    x = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
    logits_of, expected = eqx.filter_jit(model.logits), np.zeros(2)
    for i in range(3):
        hidden = x.copy()
        hidden[:, i] = 9
        logits = np.asarray(logits_of(jnp.asarray(hidden)))[:, i]
        expected += logits[np.arange(2), x[:, i]] - np.log(np.exp(logits).sum(axis=1))
    found = eqx.filter_jit(model.pseudo_log_likelihood)(jnp.asarray(x))
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_the_vector_of_a_text_does_not_depend_on_the_longer_ones_beside_it(model: BERT) -> None:
    both, one = model.embed(["abc", "abcdefgh"]), model.embed(["abc"])
    np.testing.assert_allclose(both[0], one[0], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(both, axis=1), 1.0, rtol=1e-5)


def test_dropout_acts_while_training_only() -> None:
    drops: Any = models.build("bert", LETTERS, layers=1, heads=2, width=8, dropout=0.5)
    x = jnp.arange(9)[None, :]
    features = eqx.filter_jit(drops.features)
    assert not np.allclose(features(x, key=KEY), features(x, key=jax.random.key(4)))
    judged = eqx.nn.inference_mode(drops)
    still = eqx.filter_jit(judged.features)
    np.testing.assert_array_equal(still(x, key=KEY), still(x))
    assert eqx.filter_eval_shape(judged.loss, Batch(x), KEY)[0].shape == ()


def test_gaps_use_the_symbols_a_vocabulary_has_for_them() -> None:
    words = WordPiece((*SPECIAL, "the", "cat"), SPECIAL)
    assert Gaps(words).encode("the [MASK]", whole=True).tolist() == [2, 5, 4, 3]
    assert Gaps(words).special == (0, 1, 2, 3, 4)
    assert Gaps(Character(("a",))).mask == 1


# ---------------------------------------------------------------------- weights

WIDTH, HEADS, HIDDEN, LAYERS, CONTEXT = 12, 3, 20, 2, 7


def test_weights_of_berts_style_give_its_features_and_go_back_unchanged(
    tmp_path: Path, oracle: Callable[[str], ModuleType]
) -> None:
    torch: Any = oracle("torch")
    words = WordPiece((*SPECIAL, *(f"w{i}" for i in range(9))), SPECIAL)
    torch.manual_seed(0)
    layers = [
        torch.nn.TransformerEncoderLayer(
            WIDTH, HEADS, HIDDEN, 0.0, "gelu", layer_norm_eps=1e-12, batch_first=True
        ).eval()
        for _ in range(LAYERS)
    ]
    stored = {
        f"embeddings.{name}_embeddings.weight": torch.randn(rows, WIDTH)
        for name, rows in (("word", len(words)), ("position", CONTEXT), ("token_type", 2))
    }
    stored |= {f"embeddings.LayerNorm.{part}": torch.randn(WIDTH) for part in ("weight", "bias")}
    for i, layer in enumerate(layers):
        for part in ("weight", "bias"):
            three = getattr(layer.self_attn, f"in_proj_{part}").detach().chunk(3)
            names = dict(zip(("query", "key", "value"), three, strict=True))
            stored |= {f"encoder.layer.{i}.attention.self.{n}.{part}": a.clone() for n, a in names.items()}
            for theirs, own in (
                ("attention.output.dense", layer.self_attn.out_proj),
                ("attention.output.LayerNorm", layer.norm1),
                ("intermediate.dense", layer.linear1),
                ("output.dense", layer.linear2),
                ("output.LayerNorm", layer.norm2),
            ):
                stored[f"encoder.layer.{i}.{theirs}.{part}"] = getattr(own, part).detach().clone()
    arrays = {f"bert.{name}": array.numpy() for name, array in stored.items()}
    path = tmp_path / "bert.safetensors"
    safetensors.numpy.save_file(arrays | {"bert.pooler.dense.bias": np.zeros(WIDTH, np.float32)}, path)
    ours: Any = models.open_weights("bert", path, words, heads=HEADS)
    x = np.array([[2, 5, 6, 7, 4, 8, 3]])
    h = stored["embeddings.word_embeddings.weight"][x] + stored["embeddings.position_embeddings.weight"][None]
    h = h + stored["embeddings.token_type_embeddings.weight"][0]
    norm = (stored["embeddings.LayerNorm.weight"], stored["embeddings.LayerNorm.bias"])
    h = torch.nn.functional.layer_norm(h, (WIDTH,), *norm, eps=1e-12)
    for layer in layers:
        h = layer(h)
    np.testing.assert_allclose(eqx.filter_jit(ours.features)(jnp.asarray(x)), h.detach().numpy(), atol=1e-4)
    back = safetensors.numpy.load_file(models.export_weights(ours, tmp_path / "back.safetensors"))
    assert {f"bert.{name}" for name in back} == arrays.keys()
    for name, array in back.items():
        assert array.tobytes() == arrays[f"bert.{name}"].tobytes()
    with pytest.raises(ArgumentError, match="the tokenizer has 1"):
        models.open_weights("bert", path, Character(("a",)))


def test_a_folder_of_transformers_gives_its_features_both_ways(
    tmp_path: Path, oracle: Callable[[str], ModuleType]
) -> None:
    torch, transformers = oracle("torch"), oracle("transformers")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    words = WordPiece((*SPECIAL, *(f"w{i}" for i in range(9))), SPECIAL)
    described = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=6,
        intermediate_size=20,
        max_position_embeddings=9,
        layer_norm_eps=0.03,
        initializer_range=0.3,
    )
    torch.manual_seed(0)
    x = np.array([[2, 5, 6, 7, 4, 8, 3]])
    transformers.BertModel(described, add_pooling_layer=False).save_pretrained(tmp_path / "theirs")
    tokenizers.write(words, tmp_path / "theirs" / "tokenizer.json")

    def theirs(folder: Path) -> np.ndarray:
        model = transformers.AutoModel.from_pretrained(folder).eval()
        found: np.ndarray = model(torch.tensor(x)).last_hidden_state.detach().numpy()
        return found

    ours: Any = models.open_weights("bert", tmp_path / "theirs")
    assert (ours.config.heads, ours.config.norm_eps) == (6, 0.03)
    expected = theirs(tmp_path / "theirs")
    np.testing.assert_allclose(eqx.filter_jit(ours.features)(jnp.asarray(x)), expected, atol=1e-4)
    models.export_folder(ours, tmp_path / "ours")
    np.testing.assert_allclose(theirs(tmp_path / "ours"), expected, atol=1e-5)
    (tmp_path / "theirs" / "config.json").write_text(
        json.dumps({**described.to_dict(), "num_hidden_layers": 2})
    )
    with pytest.raises(ArgumentError, match=r"config\.json says layers=2, the arrays layers=1"):
        models.open_weights("bert", tmp_path / "theirs")


def test_a_bert_trained_here_comes_back_from_a_folder_with_its_mask(tmp_path: Path) -> None:
    schema = Schema("text", (9,), tokens=("a", "b", "c"))
    model: Any = models.build("bert", schema, preset="bert", layers=1, heads=2, width=8)
    models.export_folder(model, tmp_path / "ours")
    again: Any = models.open_weights("bert", tmp_path / "ours")
    assert again.schema.tokens == ("a", "b", "c", "[MASK]")
    x = jnp.asarray([[0, 2, 1, 3]])
    np.testing.assert_array_equal(eqx.filter_jit(model.features)(x), eqx.filter_jit(again.features)(x))


@pytest.mark.parametrize("text", ["", "abc"])
def test_a_text_without_a_gap_cannot_be_filled(model: BERT, text: str) -> None:
    with pytest.raises(ArgumentError, match=rf"fill\('{text}'\): the text has no gap\s+write \[MASK\]"):
        model.fill(text)
    with pytest.raises(ArgumentError, match="top=0"):
        model.fill("a[MASK]", top=0)
