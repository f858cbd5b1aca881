"""The hidden Markov model of text: exact likelihoods, reading on, what a run learns, what is refused."""

import itertools
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data.schema import Schema
from chainrule.models.text.hmm import TextHMM
from chainrule.probability import HiddenMarkov

SCHEMA = Schema("text", (7,), tokens=("a", "b", "c"))
TRUTH = HiddenMarkov([0.6, 0.4], [[0.9, 0.1], [0.3, 0.7]], [[0.7, 0.3, 0.0], [0.1, 0.2, 0.7]])


def holding(hidden: HiddenMarkov, schema: Schema = SCHEMA) -> TextHMM:
    """The model with the probabilities of a chain."""
    model: Any = cr.models.build("hmm", schema, states=hidden.states)
    arrays = (hidden.start, hidden.transition, hidden.emission.probs)  # type: ignore[attr-defined]
    return eqx.tree_at(
        lambda m: (m.initial, m.transition, m.emission), model, tuple(jnp.asarray(a) for a in arrays)
    )


@pytest.fixture(scope="module")
def model() -> TextHMM:
    return holding(TRUTH)


_logits = eqx.filter_jit(lambda model, x: model.logits(x))
_surprisal = eqx.filter_jit(lambda model, x: model.surprisal(x))
_advance = eqx.filter_jit(lambda model, state, x: model.advance(state, x))


def test_the_likelihood_is_that_of_the_sum_over_all_paths_given_the_first_token(model: TextHMM) -> None:
    x = np.array([[0, 1, 2, 2], [2, 0, 0, 1]], np.int32)

    def summed(row: np.ndarray) -> float:
        total = 0.0
        for path in itertools.product(range(2), repeat=len(row)):
            chance = TRUTH.start[path[0]] * TRUTH.emission.probs[path[0], row[0]]  # type: ignore[attr-defined]
            for before, now, token in zip(path, path[1:], row[1:], strict=False):
                chance *= TRUTH.transition[before, now] * TRUTH.emission.probs[now, token]  # type: ignore[attr-defined]
            total += float(chance)
        return total

    exact = [np.log(summed(row)) - np.log(summed(row[:1])) for row in x]
    surprisal = np.asarray(_surprisal(model, jnp.asarray(x)))
    np.testing.assert_allclose(-surprisal.sum(axis=1), exact, rtol=1e-5)
    # All log-probabilities at once say the same, and add up to one.
    log_probs = np.asarray(_logits(model, jnp.asarray(x)))
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=-1), 1, rtol=1e-5)
    picked = np.take_along_axis(log_probs[:, :-1], x[:, 1:, None], axis=2)[..., 0]
    np.testing.assert_allclose(-picked, surprisal, rtol=1e-4)


def test_reading_on_gives_the_logits_of_reading_at_once(model: TextHMM) -> None:
    x = jnp.asarray(np.random.default_rng(0).integers(0, 3, (3, 9)), jnp.int32)
    state, parts = model.start(3, 9), []
    for piece in np.split(np.asarray(x), [1, 2, 6], axis=1):
        logits, state = _advance(model, state, jnp.asarray(piece))
        parts.append(logits)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), _logits(model, x), rtol=1e-4)
    assert int(state.position) == 9
    with pytest.raises(CapabilityError, match="does not keep"):
        state.rewind(2)


def test_a_long_text_neither_underflows_nor_is_it_lost_after_what_cannot_come() -> None:
    stuck = holding(HiddenMarkov([1.0, 0.0], np.eye(2), [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]))
    x = np.zeros((1, 3000), np.int32)
    x[0, 10] = 2
    nats = np.asarray(_surprisal(stuck, jnp.asarray(x)))[0]
    assert np.isinf(nats[9])
    np.testing.assert_allclose(np.delete(nats, 9), np.log(2), rtol=1e-5)


def test_a_number_that_is_that_of_no_token_has_no_score(model: TextHMM) -> None:
    for number in (-1, 3):
        x = jnp.asarray([[0, 1, number, 1, 1]], jnp.int32)
        with pytest.raises(ArgumentError, match="vocabulary has 0 to 2"):
            model.surprisal(x)
        assert np.isnan(np.asarray(_surprisal(model, x))[0, 1:]).all()
        assert np.isnan(np.asarray(_logits(model, x))[0, 2:]).all()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vowels and consonants that take turns, mostly: what two states can know of them."""
    random = np.random.default_rng(0)
    turns = HiddenMarkov([0.5, 0.5], [[0.05, 0.95], [0.9, 0.1]], [[0.6, 0.4, 0.0, 0.0], [0.0, 0.0, 0.3, 0.7]])
    tokens = np.asarray(turns.sample(jax.random.key(int(random.integers(100))), 6000).y)
    path = tmp_path_factory.mktemp("text") / "poems.txt"
    path.write_text("".join(np.array(list("aent"))[tokens]))
    return path


@pytest.fixture(scope="module")
def run(text: Path) -> cr.Run:
    data = cr.data.load(str(text), window=40)
    return cr.fit(cr.models.build("hmm", data, states=2), data, run=text.parent / "run", steps=40)


def test_a_run_learns_what_takes_turns_and_how_well_it_can_be_foretold(run: cr.Run) -> None:
    assert "converged" in run.status["message"]
    hidden = run.model.hidden()  # type: ignore[attr-defined]
    assert np.asarray(hidden.transition)[0, 1] == pytest.approx(0.95, abs=0.06)
    assert np.asarray(hidden.emission.probs).max() == pytest.approx(0.7, abs=0.05)
    # The entropy of the text, whose states can be read off the letters: that of the move and of the letter.
    stationary = np.array([0.9, 0.95]) / 1.85
    entropy = lambda *p: -sum(one * np.log(one) for one in p)  # noqa: E731
    letters = stationary @ np.array([entropy(0.6, 0.4), entropy(0.3, 0.7)])
    moves = stationary @ np.array([entropy(0.05, 0.95), entropy(0.9, 0.1)])
    found = run.score("val")
    assert found["nats_per_token"].value == pytest.approx(moves + letters, abs=0.06)
    assert found["bits_per_character"].unit == "bits/character"
    # What was logged is the loss of a model of the same examples.
    losses = run.metrics["loss"]
    assert np.diff(np.asarray(losses)[~np.isnan(losses)]).max() < 0.05


def test_the_loss_that_is_logged_is_that_of_the_model_before_the_step(run: cr.Run) -> None:
    data = run.data
    x = data.train.apart.batch(np.arange(len(data.train.apart)))
    _, metrics = run.model.iterate(x, jax.random.key(0))  # type: ignore[attr-defined]
    direct = np.asarray(_surprisal(run.model, jnp.asarray(x.x)), np.float64).mean()
    assert float(metrics["loss"]) == pytest.approx(direct, rel=1e-4)


def test_it_goes_on_from_a_prompt(run: cr.Run) -> None:
    drawn = np.asarray(run.model.sample(jax.random.key(0), 3, prompt="tat", length=30))  # type: ignore[attr-defined]
    assert drawn.shape == (3, 33)
    written = ["".join(run.schema.tokens[i] for i in row) for row in drawn]
    assert all(line.startswith("tat") for line in written)
    turns = [(a in "ae") != (b in "ae") for line in written for a, b in itertools.pairwise(line)]
    assert np.mean(turns) > 0.8


def test_its_pictures_say_what_states_emit(run: cr.Run) -> None:
    found = run.model.pictures(run.data, jax.random.key(0))  # type: ignore[attr-defined]
    assert [one.name for one in found] == ["states", "posterior", "transitions"]
    emitted = {frozenset(row[2].split()[::3]) for row in found[0].rows}  # type: ignore[union-attr]
    assert emitted == {frozenset("ae"), frozenset("nt")}
    assert all(report.draw(one).startswith("<svg") for one in found)
    states = np.asarray(run.model.encode(jnp.asarray(run.data.val.batch([0]).x)))  # type: ignore[attr-defined]
    assert states.shape == (1, 41, 2)
    np.testing.assert_allclose(states.sum(axis=-1), 1, rtol=1e-5)


def test_what_makes_no_sense_is_refused_with_a_way_out() -> None:
    with pytest.raises(CapabilityError, match=r"each of these has one(.|\n)*data.target=none"):
        cr.models.build("hmm", Schema("text", (7,), target="class", classes=("x", "y"), tokens=("a", "b")))
    with pytest.raises(ArgumentError, match=r"covariance=diagonal(.|\n)*leave covariance out"):
        cr.models.build("hmm", SCHEMA, covariance="diagonal")
