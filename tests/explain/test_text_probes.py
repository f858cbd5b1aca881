"""Probes into models of text, on one whose probabilities are known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models, report
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines, Passage
from chainrule.data import load
from chainrule.explain import probes
from chainrule.report import gallery, language_models
from chainrule.train import Run, fit


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    data = load("shakespeare", window=16)
    model = models.build("ngram", data, order=2)
    return fit(model, data, run=tmp_path_factory.mktemp("runs") / "text", steps=60, batch=32, log_every=10)


def known(run: Run) -> Run:
    """The same run with a model that gives every token the chances of the alphabet's first letters."""
    changed = Run(run.path, data=run.data)
    table = jnp.zeros((1, len(run.schema.tokens))).at[0, :2].set(jnp.array([9.0, 8.0]))
    model = eqx.tree_at(lambda m: m.tables, run.model, (table, jnp.zeros_like(run.model.tables[1])))
    changed.__dict__["model"] = model  # what the cached property would read from the checkpoint
    return changed


def test_the_surprisal_of_each_token_is_that_of_the_model(run: Run) -> None:
    text = "To be or not"
    found = probes.examine("surprisal", run, text=text)
    picture = found.pictures[0]
    assert isinstance(picture, Passage)
    assert "".join(picture.pieces) == text
    assert np.isnan(picture.values[0]), "the first token is given"
    nats = eqx.filter_jit(run.model.surprisal)(jnp.asarray(run.model.tokenizer.encode(text))[None, :])[0]
    assert np.allclose(picture.values[1:], np.asarray(nats) / np.log(2), rtol=1e-5)
    assert found.numbers["bits"] == pytest.approx(picture.values[1:].tolist())
    assert len(found.numbers["nats_by_position"]) == 16
    assert report.draw(picture).startswith("<svg")


def test_a_text_that_does_not_fit_is_refused(run: Run) -> None:
    with pytest.raises(ArgumentError, match="text: 20 tokens; this model reads from 2 to 17"):
        probes.examine("surprisal", run, text="x" * 20)


def test_what_comes_next_is_shown_before_and_after_the_cuts(run: Run) -> None:
    found = probes.examine("next-token", known(run), text="To", temperature=1.0, top_p=0.6).numbers
    first, second = np.exp([9.0, 8.0]) / (np.exp(9.0) + np.exp(8.0) + len(run.schema.tokens) - 2)
    assert found["model"][:2] == pytest.approx([first, second], rel=1e-5)
    assert found["kept"] == 1
    assert found["drawn"][:2] == [1.0, 0.0]
    wide = probes.examine("next-token", known(run), text="To", temperature=1.0, top_p=1.0, top_k=2).numbers
    assert wide["drawn"][:2] == pytest.approx([1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1))], rel=1e-5)


def test_both_apply_to_models_of_text_only(run: Run) -> None:
    assert {"surprisal", "next-token"} <= set(probes.applicable(run))
    mlp = models.build("mlp", load("moons", n=100), depth=1)
    for name in ("surprisal", "next-token"):
        assert not probes.get(name).applies(mlp, load("moons", n=100).schema)


def test_baselines_are_those_of_counting() -> None:
    data = load("shakespeare", window=16)
    found = language_models.baselines(data)
    train, val = (np.asarray(split.arrays["tokens"], int) for split in (data.train, data.val))
    size = len(data.schema.tokens)
    single = (np.bincount(train, minlength=size) + 1) / (len(train) + size)
    pairs = np.zeros((size, size))
    np.add.at(pairs, (train[:-1], train[1:]), 1)
    different = (pairs > 0).sum(axis=1, keepdims=True)
    p = (pairs + different * single[None, :]) / np.maximum(pairs.sum(axis=1, keepdims=True) + different, 1)
    assert np.allclose(p[pairs.sum(axis=1) > 0].sum(axis=1), 1)
    assert found["uniform"] == pytest.approx(np.log(size))
    assert found["unigram"] == pytest.approx(-np.log(single[val[1:]]).mean())
    assert found["bigram"] == pytest.approx(-np.log(p[val[:-1], val[1:]]).mean())
    assert found["bigram"] < found["unigram"] < found["uniform"]


def test_the_report_compares_the_loss_with_counting_and_shows_surprisal(run: Run) -> None:
    pictures = {picture.name: picture for picture in gallery.pictures(run)}
    curve = pictures["curve-loss"]
    assert isinstance(curve, Lines)
    assert curve.y_label == "nats per token"
    assert {name.split()[0] for name in curve.series} == {
        "training",
        "validation",
        "uniform",
        "unigram",
        "bigram",
    }
    assert isinstance(pictures["surprisal"], Passage)
    assert report.draw(curve).startswith("<svg")


def test_without_the_data_the_report_says_that_there_are_no_baselines(run: Run) -> None:
    other = load("shakespeare", window=8)
    curve = Lines("curve-loss", "Loss", "step", "", {"training": (np.arange(2), np.ones(2))})
    found = language_models.compared(curve, Run(run.path, data=other))
    assert list(found.series) == ["training"]
    assert "No baselines: the data of text have changed" in found.caption


def test_the_tree_of_a_search_ends_with_what_the_search_of_the_model_finds(run: Run) -> None:
    found = probes.examine("beams", run, text="Th", beams=3, length=4)
    expected = run.model.search(jax.random.key(0), "Th", beams=3, length=4)
    assert found.numbers["texts"] == [one.text for one in expected]
    assert found.numbers["log_probs"] == pytest.approx([one.log_prob for one in expected], abs=1e-4)
    assert found.numbers["greedy"] <= found.numbers["log_probs"][0] + 1e-4
    assert report.draw(found.pictures[0]).startswith("<svg")
