"""Hidden Markov models against sums over all paths, exhaustive search, derivatives and a plain loop over time."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from chainrule import probability
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.probability import Bernoulli, Categorical, Diagonal, MultivariateNormal, Normal, markov
from chainrule.probability.markov import HiddenMarkov, hidden, next_symbol, pad
from chainrule.probability.markov.starting import best_guess_of_symbols
from tests.probability.markov.chains import HIDDEN, random_chain

START = np.array([0.5, 0.2, 0.3])
LEFT_TO_RIGHT = np.array([[0.7, 0.3, 0.0], [0.0, 0.6, 0.4], [0.0, 0.0, 1.0]])
SYMBOLS = np.random.default_rng(5).dirichlet(np.ones(4), size=3)
MODELS = {
    "dense": HiddenMarkov(START, random_chain(0, 3), SYMBOLS),
    "zeros": HiddenMarkov([1.0, 0.0, 0.0], LEFT_TO_RIGHT, SYMBOLS),
    "numbers": HiddenMarkov(
        START, random_chain(0, 3), Normal(np.array([-1.0, 0.0, 2.0]), np.array([0.5, 1.0, 0.75]))
    ),
}
Y = {"dense": [0, 3, 1, 1, 2, 0], "zeros": [0, 3, 1, 1, 2, 0], "numbers": [-1.2, 0.3, 1.0, 2.5, 2.0, -0.4]}


@functools.cache
def paths(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Every path of states, and the logarithm of its probability together with the observations."""
    model = MODELS[name]
    if name == "numbers":
        seen = scipy.stats.norm.logpdf(np.array(Y[name])[:, None], [-1.0, 0.0, 2.0], [0.5, 1.0, 0.75])
    else:
        seen = np.log(SYMBOLS[:, Y[name]].T)
    every = np.array(list(itertools.product(range(3), repeat=len(Y[name]))))
    with np.errstate(divide="ignore"):
        first, moves = np.log(model.start), np.log(model.transition)
    joint = first[every[:, 0]] + moves[every[:, :-1], every[:, 1:]].sum(axis=1)
    return every, joint + seen[np.arange(every.shape[1]), every].sum(axis=1)


@pytest.mark.parametrize("name", MODELS)
def test_the_likelihood_is_the_sum_over_all_paths(name) -> None:
    _, joint = paths(name)
    assert float(MODELS[name].log_prob(Y[name])) == pytest.approx(scipy.special.logsumexp(joint), rel=1e-13)


@pytest.mark.parametrize("name", MODELS)
def test_viterbi_finds_the_best_of_all_paths(name) -> None:
    every, joint = paths(name)
    assert MODELS[name].viterbi(Y[name]).tolist() == every[joint.argmax()].tolist()


@pytest.mark.parametrize("name", MODELS)
def test_posterior_and_filter_are_shares_of_all_paths(name) -> None:
    every, joint = paths(name)
    weights = scipy.special.softmax(joint)
    expected = np.stack([np.bincount(every[:, t], weights, minlength=3) for t in range(every.shape[1])])
    np.testing.assert_allclose(MODELS[name].posterior(Y[name]), expected, atol=1e-14)
    filtered = MODELS[name].filter(Y[name])
    np.testing.assert_allclose(filtered[-1], expected[-1], atol=1e-14)
    np.testing.assert_allclose(
        MODELS[name].predict(Y[name], 2)[1], expected[-1] @ MODELS[name].transition @ MODELS[name].transition
    )


def plain(model: HiddenMarkov, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Scaled forward and backward recursion, a step at a time."""
    seen = SYMBOLS.T[y]
    forward, backward = np.zeros_like(seen), np.ones_like(seen)
    total, now = 0.0, model.start
    for t, one in enumerate(seen):
        now = (now if t == 0 else now @ model.transition) * one
        total += np.log(now.sum())
        now = now / now.sum()
        forward[t] = now
    for t in range(len(y) - 2, -1, -1):
        back = model.transition @ (seen[t + 1] * backward[t + 1])
        backward[t] = back / back.sum()
    both = forward * backward
    return total, both / both.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def long() -> np.ndarray:
    return np.asarray(MODELS["dense"].sample(jax.random.key(1), 1000).y)


@pytest.mark.parametrize("name", ["dense", "zeros"])
def test_a_sequence_long_enough_to_be_cut_into_blocks_gives_the_same(name, long) -> None:
    y = long
    total, states = plain(MODELS[name], y)
    assert float(MODELS[name].log_prob(y)) == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(MODELS[name].posterior(y), states, atol=1e-12)


@pytest.mark.parametrize("name", ["dense", "zeros"])
def test_the_best_path_of_a_long_sequence_is_that_of_a_plain_search(name, long) -> None:
    model, y = MODELS[name], long
    with np.errstate(divide="ignore"):
        best, moves, seen = np.log(model.start), np.log(model.transition), np.log(SYMBOLS.T[y])
    best, came = best + seen[0], []
    for one in seen[1:]:
        ways = best[:, None] + moves
        came.append(ways.argmax(axis=0))
        best = ways.max(axis=0) + one
    path = [int(best.argmax())]
    for back in reversed(came):
        path.append(int(back[path[-1]]))
    assert model.viterbi(y).tolist() == path[::-1]


def test_states_that_were_hopeless_are_found_again() -> None:
    # For fifty steps state 0 is far more than e^745 times as likely; then only what state 1 leads to can go on.
    scale = 1 / 128
    emission = Normal(np.array([0.0, 10.0, 99.0]), np.full(3, scale))
    model = HiddenMarkov([0.5, 0.5, 0.0], [[1, 0, 0], [0, 0.5, 0.5], [0, 0, 1]], emission)
    y = np.concatenate([np.full(50, 0.0), np.full(5, 99.0)])
    seen = scipy.stats.norm.logpdf(y, np.repeat([10.0, 99.0], [50, 5]), scale)
    assert float(model.log_prob(y)) == pytest.approx(51 * np.log(0.5) + seen.sum(), rel=1e-14)
    assert model.viterbi(y).tolist() == [1] * 50 + [2] * 5
    np.testing.assert_allclose(model.posterior(y), np.eye(3)[[1] * 50 + [2] * 5], atol=1e-14)


def test_sequences_of_different_lengths_are_each_taken_to_their_end() -> None:
    model = MODELS["dense"]
    rows = [[0, 1, 2, 3, 1, 0], [2], [3, 3, 0, 1, 2, 3]]
    y, lengths = pad(rows)
    total = model.log_prob(y, lengths)
    np.testing.assert_allclose(total[[0, 2]], [model.log_prob(rows[0]), model.log_prob(rows[2])], rtol=1e-13)
    assert total[1] == pytest.approx(np.log(START @ SYMBOLS[:, 2]), rel=1e-13)
    states, best = model.posterior(y, lengths), model.viterbi(y, lengths)
    np.testing.assert_allclose(states[0], model.posterior(rows[0]), atol=1e-13)
    np.testing.assert_allclose(states[1, 0], START * SYMBOLS[:, 2] / (START @ SYMBOLS[:, 2]), atol=1e-13)
    assert (states[1, 1:] == 0).all()
    assert best[2].tolist() == model.viterbi(rows[2]).tolist()
    assert best[1].tolist() == [(START * SYMBOLS[:, 2]).argmax()] * 6
    assert model.log_prob_per_step(y, lengths, base=2) == pytest.approx(total.sum() / 13 / math.log(2))


def test_derivatives_with_respect_to_log_probabilities_are_posterior_counts() -> None:
    model, y = MODELS["dense"], jnp.array(Y["dense"])

    @jax.jit
    @jax.grad
    def slope(transition):
        return HiddenMarkov(jnp.asarray(START), transition, jnp.asarray(SYMBOLS)).log_prob(y)

    with jax.enable_x64(True):
        found = np.asarray(slope(jnp.asarray(model.transition))) * model.transition
    every, joint = paths("dense")
    weights = scipy.special.softmax(joint)
    counts = np.zeros((3, 3))
    for path, weight in zip(every, weights, strict=True):
        np.add.at(counts, (path[:-1], path[1:]), weight)
    np.testing.assert_allclose(found, counts, atol=1e-12)


def test_a_function_of_a_chain_is_a_hidden_chain() -> None:
    seen = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 2)
    model = HiddenMarkov(np.array([6, 5, 4, 5, 4]) / 24, HIDDEN, seen)
    after = np.exp(model.log_prob([1, 0, 0]) - model.log_prob([1, 0]))
    assert after == pytest.approx(5 / 6, abs=1e-14)
    assert after == pytest.approx(next_symbol(HIDDEN, [[0, 1, 2], [3, 4]], (1, 0))[0])


@pytest.mark.parametrize("name", ["dense", "zeros"])
def test_expected_moves_come_out_the_same_from_both_rules(name, long) -> None:
    # One iteration of Baum-Welch on a short sequence, against sums over all paths.
    model, y = MODELS[name], np.array(Y[name])
    every, joint = paths(name)
    weights = scipy.special.softmax(joint)
    moves = np.zeros((3, 3))
    for path, weight in zip(every, weights, strict=True):
        np.add.at(moves, (path[:-1], path[1:]), weight)
    fitted = model.fit(y, steps=1, tolerance=0)
    np.testing.assert_allclose(fitted.transition, moves / moves.sum(axis=1, keepdims=True), atol=1e-12)
    states = model.posterior(y)
    symbols = np.stack([states[y == k].sum(axis=0) for k in range(4)], axis=1) / states.sum(axis=0)[:, None]
    np.testing.assert_allclose(fitted.emission.probs, symbols, atol=1e-6)


def test_baum_welch_never_lowers_the_likelihood_and_finds_the_states_again() -> None:
    truth = HiddenMarkov([0.5, 0.5], [[0.95, 0.05], [0.1, 0.9]], Normal([-2.0, 1.0], [0.5, 1.0]))
    y = np.asarray(truth.sample(jax.random.key(0), 250, (4,)).y)
    begin = HiddenMarkov([0.5, 0.5], [[0.5, 0.5], [0.5, 0.5]], Normal([-1.0, 0.0], [1.0, 1.0]))
    fitted = begin.fit(y)
    assert fitted.trace.converged
    assert np.diff(fitted.trace.log_likelihoods).min() > -1e-9
    assert fitted.trace.log_likelihoods[-1] >= truth.log_prob(y).sum()
    np.testing.assert_allclose(fitted.emission.mean, [-2, 1], atol=0.15)
    np.testing.assert_allclose(fitted.transition, truth.transition, atol=0.05)


@pytest.mark.parametrize("diagonal", [True, False])
def test_vectors_are_fitted_with_full_and_diagonal_covariances(diagonal) -> None:
    draws = np.random.default_rng(0)
    left = draws.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 150)
    right = draws.multivariate_normal([6, 0], [[0.5, 0], [0, 2]], 150)
    y = np.concatenate([left, right])
    covariance = Diagonal(np.ones((2, 2))) if diagonal else np.stack([np.eye(2)] * 2)
    emission = MultivariateNormal(np.array([[1.0, 0.0], [4.0, 0.0]]), covariance)
    fitted = HiddenMarkov([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], emission).fit(y)
    expected = np.cov(left.T, bias=True)
    expected = np.diag(np.diag(expected)) if diagonal else expected
    np.testing.assert_allclose(fitted.emission.covariance[0], expected, atol=1e-3)
    np.testing.assert_allclose(fitted.emission.mean[1], right.mean(axis=0), atol=1e-3)


@pytest.mark.parametrize("name", ["symbols", "numbers"])
def test_an_iteration_over_a_few_sequences_at_a_time_is_one_over_all_of_them(name, monkeypatch) -> None:
    emission = (
        np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]) if name == "symbols" else Normal([0.0, 1.0], [1.0, 0.5])
    )
    model = HiddenMarkov([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], emission)
    y = model.sample(jax.random.key(0), 6, (7,)).y
    lengths = np.array([6, 6, 1, 4, 6, 2, 5])
    whole = model.fit(y, lengths, steps=3, tolerance=0)
    monkeypatch.setattr(
        hidden, "_TOGETHER", 3 * 6 * 2
    )  # three at a time, the last three with two that are empty
    parts = model.fit(y, lengths, steps=3, tolerance=0)
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(whole.trace.log_likelihoods, parts.trace.log_likelihoods, rtol=1e-12)


def test_the_best_of_several_guesses_leads_to_the_states_where_single_ones_may_not() -> None:
    """Letters of two kinds that take turns: guesses that mix the kinds up stay with the frequencies of letters."""
    turns = HiddenMarkov([0.5, 0.5], [[0.05, 0.95], [0.9, 0.1]], [[0.6, 0.4, 0.0, 0.0], [0.0, 0.0, 0.3, 0.7]])
    y = np.asarray(turns.sample(jax.random.key(1), 41, (40,)).y)
    exact = turns.log_prob_per_step(y)
    for seed in range(2):
        begun = best_guess_of_symbols(jax.random.key(seed), 2, 4, y)
        assert begun.log_prob_per_step(y) == pytest.approx(exact, abs=0.01)


def test_a_state_that_collapses_on_one_observation_is_held_and_named() -> None:
    y = np.concatenate([np.random.default_rng(0).normal(size=50), [40.0]])
    model = HiddenMarkov([0.5, 0.5], np.full((2, 2), 0.5), Normal([0.0, 40.0], [1.0, 0.1]))
    fitted = model.fit(y, steps=20)
    assert fitted.trace.floored == (1,)
    assert np.isfinite(fitted.trace.log_likelihoods).all()


def test_coins_are_fitted() -> None:
    y = np.array([0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 1])
    fitted = HiddenMarkov([1.0, 0.0], [[0.9, 0.1], [0.0, 1.0]], Bernoulli([0.3, 0.75])).fit(y)
    assert np.diff(fitted.trace.log_likelihoods).min() > -1e-9
    assert fitted.transition[1].tolist() == [0.0, 1.0]


def test_draws_have_the_frequencies_of_the_model() -> None:
    model = MODELS["dense"]
    drawn = model.sample(jax.random.key(3), 3, (20_000,))
    y = np.asarray(drawn.y)
    pair = np.bincount(y[:, 1] * 4 + y[:, 2], minlength=16) / len(y)
    second = model.start @ model.transition
    expected = np.einsum("i,ik,ij,jl->kl", second, SYMBOLS, model.transition, SYMBOLS)
    assert np.abs(pair - expected.ravel()).max() < 4 * 0.5 / math.sqrt(len(y))


def test_it_is_found_where_people_look() -> None:
    assert probability.HiddenMarkov is HiddenMarkov


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HiddenMarkov(START, LEFT_TO_RIGHT.T, SYMBOLS), "transpose"),
        (lambda: HiddenMarkov(START, LEFT_TO_RIGHT, SYMBOLS[:2]), r"batch shape \(2,\) for 3 states"),
        (lambda: HiddenMarkov(START, LEFT_TO_RIGHT, SYMBOLS[0]), "no matrix of probabilities"),
        (lambda: HiddenMarkov(START, LEFT_TO_RIGHT, SYMBOLS * 0.9), "sums to 0.9"),
        (lambda: MODELS["dense"].log_prob([0, 4]), "4 is no symbol; they are numbered 0 to 3"),
        (lambda: MODELS["dense"].log_prob([]), "at least one observation"),
        (lambda: MODELS["dense"].log_prob([[[0]]]), "no sequence of what the states emit"),
        (lambda: MODELS["dense"].log_prob([[0, 1], [1]]), "markov.pad"),
        (lambda: MODELS["dense"].log_prob([[0, 1], [1, 1]], [1, 3]), "3 is not between 1 and 2"),
        (lambda: MODELS["dense"].log_prob([[0, 1], [1, 1]], [1]), "one length for each"),
        (lambda: MODELS["numbers"].log_prob([0.0, np.nan]), "holds NaN"),
        (lambda: HiddenMarkov([1, 0], np.eye(2), np.eye(2)).posterior([0, 1]), "probability 0"),
        (lambda: HiddenMarkov([1, 0], np.eye(2), np.eye(2)).viterbi([0, 1]), "probability 0"),
        (lambda: MODELS["dense"].fit([0, 1], pseudo_count=-1), "at least 0"),
        (lambda: pad([]), "at least one sequence"),
    ],
)
def test_bad_input_is_named(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_the_advice_for_an_impossible_sequence_works() -> None:
    model = HiddenMarkov([0.5, 0.5], np.full((2, 2), 0.5), [[1.0, 0.0], [1.0, 0.0]])
    assert np.isneginf(model.log_prob([0, 1]))
    fitted = model.fit([0, 0], pseudo_count=0.001)
    assert np.isfinite(fitted.log_prob([0, 1]))


def test_families_without_a_rule_are_refused_by_name() -> None:
    mixture = probability.Mixture(np.array([[0.5, 0.5]] * 2), Normal(np.zeros((2, 2)), np.ones((2, 2))))
    with pytest.raises(CapabilityError, match="no rule for fitting Mixture"):
        HiddenMarkov([0.5, 0.5], np.full((2, 2), 0.5), mixture).fit([0.0, 1.0])


def test_symbols_may_also_be_given_as_a_distribution() -> None:
    given = HiddenMarkov(START, MODELS["dense"].transition, Categorical(SYMBOLS))
    assert float(given.log_prob(Y["dense"])) == pytest.approx(
        float(MODELS["dense"].log_prob(Y["dense"])), rel=1e-6
    )


def test_numbers_inside_compiled_code_are_computed_in_double_precision_as_outside() -> None:
    chain, y, key = random_chain(2, 3), np.array([0, 2, 1, 1, 0]), jax.random.key(0)

    def found() -> dict[str, np.ndarray]:
        model = HiddenMarkov([0.2, 0.3, 0.5], chain, random_chain(3, 3))
        return {
            "log_prob": model.log_prob(y),
            "filter": model.filter(y),
            "posterior": model.posterior(y),
            "viterbi": model.viterbi(y),
            "draws": model.sample(key, 4).states,
            "distributions": markov.distributions(0, chain, 3),
            "path": markov.log_prob(y, 1, chain),
        }

    inside = []

    @jax.jit
    def compiled(x: jax.Array) -> jax.Array:
        inside.append(found())
        return x + inside[0]["posterior"].sum()

    assert compiled(1.0) == 6.0
    for name, value in found().items():
        assert inside[0][name].dtype == value.dtype
        np.testing.assert_array_equal(inside[0][name], value, name)


def test_a_model_of_numbers_meets_sequences_and_keys_of_compiled_code_in_their_precision() -> None:
    model, y = HiddenMarkov([0.2, 0.3, 0.5], random_chain(2, 3), random_chain(3, 3)), jnp.array([0, 2, 1])
    inside = jax.jit(lambda seen: model.log_prob(seen))(y)
    assert inside.dtype == jnp.float32
    np.testing.assert_allclose(inside, model.log_prob(y), rtol=1e-5)
    assert jax.jit(lambda key: model.sample(key, 4).y)(jax.random.key(0)).shape == (4,)
