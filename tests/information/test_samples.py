"""Entropy from samples and from phrases: known biases, known sources, text that is written anew."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule import information as I
from chainrule.core.errors import ArgumentError
from chainrule.probability import markov

TWO = np.array([[0.9, 0.1], [0.5, 0.5]])


@pytest.fixture(scope="module")
def paths() -> np.ndarray:
    return np.asarray(markov.sample(jax.random.key(1), [5 / 6, 1 / 6], TWO, 99_999, (5,)))


def test_the_correction_takes_away_most_of_the_bias() -> None:
    draws = np.random.default_rng(0).integers(16, size=(200, 100))
    plain = np.mean([I.entropy_estimate(row, "plug-in").value for row in draws])
    corrected = np.mean([I.entropy_estimate(row).value for row in draws])
    assert plain == pytest.approx(4 - 15 / (200 * np.log(2)), abs=0.02)
    assert corrected == pytest.approx(4, abs=0.02)
    found = I.entropy_estimate(draws[0])
    assert "bits" in str(found)
    assert float(found) == found.value
    assert "too few" in I.entropy_estimate("abc").remarks[0]


@pytest.mark.parametrize("dimension", [1, 3])
def test_neighbours_find_the_entropy_of_normal_points(dimension) -> None:
    points = np.random.default_rng(0).normal(size=(4000, dimension))
    found = I.entropy_estimate(points, "knn")
    assert found.value == pytest.approx(dimension * 0.5 * np.log2(2 * np.pi * np.e), abs=0.1)
    halved = I.entropy_estimate(points / 16, "knn", unit="nats")
    assert halved.value == pytest.approx(found.value * np.log(2) - dimension * np.log(16), abs=1e-6)


def test_blocks_of_a_chain_fall_to_its_rate_and_stop_where_counts_end(paths) -> None:
    found = I.block_entropies(paths[0][:20_000])
    assert found.conditional[1:6] == pytest.approx(np.full(5, 0.557496), abs=0.01)
    assert found.per_symbol[0] == pytest.approx(0.65, abs=0.01)
    assert (np.diff(found.per_symbol) < 0.001).all()
    assert "too many to count" in found.stopped
    assert found.cells[-1] <= 2000
    short = I.block_entropies("ab" * 8, most=50)
    assert len(short.orders) <= 16
    crowded = I.block_entropies(np.arange(20) % 10)
    assert (len(crowded.orders), crowded.stopped) == (
        1,
        "10 different symbols in 20 symbols are too many to count",
    )


def parsed(sequence) -> int:
    """The number of phrases, each the shortest that was not there before."""
    seen, phrase, count = set(), (), 0
    for symbol in sequence:
        phrase = (*phrase, int(symbol))
        if phrase not in seen:
            seen.add(phrase)
            phrase, count = (), count + 1
    return count + bool(phrase)


def test_phrases_of_a_chain_need_ever_fewer_bits(paths) -> None:
    for one in paths:
        count = parsed(one[:10_000])
        assert I.phrase_tree(one[:10_000]).rate() == pytest.approx(count * np.log2(count) / 10_000, abs=1e-12)
    rates = [np.mean([I.phrase_tree(one[:n]).rate() for one in paths]) for n in (10**3, 10**4, 10**5)]
    # Means of five runs, which scatter by some hundredths.
    assert rates == pytest.approx([0.785, 0.750, 0.693], abs=0.04)
    assert rates[0] > rates[1] > rates[2] > I.entropy_rate(TWO)
    assert I.entropy_estimate(paths[0], "lz78").value == pytest.approx(I.phrase_tree(paths[0]).rate())


@given(st.text("abc", min_size=1, max_size=200))
def test_phrases_give_the_text_back(text: str) -> None:
    tree = I.phrase_tree(text)
    assert "".join(tree.decode()) == text
    assert tree.length == len(text)
    assert tree.counts[0] == len(tree.parents) - 1
    for node in range(len(tree.parents)):
        below = sum(tree.counts[child] for child in tree.children[node].values())
        assert below <= tree.counts[node] or node == 0


@pytest.mark.parametrize("method", ["walk", "suffix"])
def test_what_is_written_follows_the_source(method, paths) -> None:
    tree = I.phrase_tree(paths[0])
    written = tree.generate(20_000, seed=0, method=method)
    assert set(written) <= {0, 1}
    chain, _ = I.chain_of(written)
    np.testing.assert_allclose(chain.transition, TWO, atol=0.08)
    assert written == tree.generate(20_000, seed=0, method=method)
    assert written != tree.generate(20_000, seed=1, method=method)


def test_copying_on_repeats_and_jumping_mixes() -> None:
    tree = I.phrase_tree("the cat sat on the mat " * 200)
    copied = "".join(tree.generate(300, alpha=1.0))
    mixed = "".join(tree.generate(300, alpha=0.0))
    trigrams = {"the cat sat on the mat the "[k : k + 3] for k in range(24)}
    share = [np.mean([text[k : k + 3] in trigrams for k in range(298)]) for text in (copied, mixed)]
    assert share[0] > 0.9 > share[1]


def test_an_estimate_is_printed_with_what_is_to_be_known_of_it() -> None:
    crowded = I.entropy_estimate(np.random.default_rng(0).normal(size=200))
    assert "too few of each, the estimate is too low" in str(crowded)
    phrases = str(I.entropy_estimate("ab" * 50, "lz78"))
    assert "nan" not in phrases
    assert "An entropy rate" in phrases


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: I.entropy_estimate([1, 2], "guess"), 'method must be "plug-in"'),
        (lambda: I.entropy_estimate(np.zeros((2, 2))), "needs a sequence of symbols"),
        (lambda: I.entropy_estimate(np.zeros(50), "knn"), "copies of themselves"),
        (lambda: I.entropy_estimate([1.0, 2.0], "knn"), "more than k=3 finite points"),
        (lambda: I.entropy_estimate("abcdefgh", "knn"), "neighbours are of numbers"),
        (lambda: I.entropy_estimate([1.0, np.nan]), "not finite"),
        (lambda: I.phrase_tree(""), "is empty"),
        (lambda: I.phrase_tree(np.zeros((2, 2))), "lists cannot be"),
        (lambda: I.phrase_tree("ab").generate(5, alpha=2.0), "between 0 and 1"),
        (lambda: I.phrase_tree("ab").generate(0), "whole number of at least 1"),
    ],
)
def test_samples_that_say_nothing_are_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
