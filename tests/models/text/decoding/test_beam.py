"""Searches over trees that can be written out."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.types import Array
from chainrule.models.text import decoding
from chainrule.models.text.decoding import BeamOrder, BestFirst, GumbelTopK, Resampled
from chainrule.models.text.token_history import TokenHistory
from tests.models.text.toys import positional

KEY = jax.random.key(5)
PLAIN = {size: decoding.rules(size) for size in (3, 5)}
FIRST = np.array([0.6, 0.4, 0.0])
SECOND = np.array([[0.4, 0.35, 0.25], [0.9, 0.05, 0.05], [1 / 3, 1 / 3, 1 / 3]])
JOINT = {(a, b): FIRST[a] * SECOND[a, b] for a in range(2) for b in range(3)}


def tree(state: TokenHistory, tokens: Array) -> tuple[Array, TokenHistory]:
    with np.errstate(divide="ignore"):
        return jnp.asarray(np.log(SECOND))[tokens], state.read(tokens)


def climb(order: BeamOrder, beams: int, batch: int = 1, seed: int = 5, **options: int) -> decoding.Beams:
    with np.errstate(divide="ignore"):
        logits = jnp.broadcast_to(jnp.asarray(np.log(FIRST)), (batch, 3))
    key, state = jax.random.key(seed), TokenHistory.blank(batch, 1)
    return decoding.search(tree, state, logits, key, PLAIN[3], order, length=2, beams=beams, **options)


def best(penalty: float = 0.0) -> BestFirst:
    return BestFirst(jnp.asarray(penalty))


def test_a_greedy_search_misses_what_two_beams_find() -> None:
    greedy, wide = climb(best(), 1), climb(best(), 2)
    assert np.isclose(np.exp(greedy.log_probs[0, 0]), 0.24)
    assert greedy.tokens[0, 0].tolist() == [0, 0]
    assert np.isclose(np.exp(wide.log_probs[0, 0]), 0.36)
    assert wide.tokens[0].tolist() == [[1, 0], [0, 0]]


def test_a_beam_as_wide_as_the_tree_lists_it_all_in_order() -> None:
    found = climb(best(), 6)
    expected = sorted(JOINT.items(), key=lambda item: -item[1])
    assert [tuple(t) for t in found.tokens[0].tolist()] == [text for text, _ in expected]
    assert np.allclose(np.exp(found.log_probs[0]), [p for _, p in expected])


def test_more_beams_than_texts_leave_some_empty() -> None:
    log_probs = np.asarray(climb(best(), 8).log_probs[0])
    assert np.isfinite(log_probs[:6]).all()
    assert (log_probs[6:] == -np.inf).all()


def test_a_branch_limits_the_children_of_a_prefix() -> None:
    found = climb(best(), 4, branch=1)
    assert np.isclose(np.exp(found.log_probs[0, 0]), 0.24), "only the likeliest child of each prefix"
    assert (np.asarray(found.log_probs[0, 1:]) == -np.inf).all()


def test_width_v_to_the_t_minus_one_is_exhaustive() -> None:
    model, length = positional(context=4), 3
    logits, state = eqx.filter_jit(model.advance)(model.start(1, 4), jnp.array([[2]]))
    found = decoding.search(
        model.advance, state, logits[:, -1], KEY, PLAIN[5], best(), length=length, beams=5 ** (length - 1)
    )
    every = np.array(list(itertools.product(range(5), repeat=length)))
    log_probs = np.asarray(eqx.filter_jit(model.log_prob)(jnp.asarray(np.insert(every, 0, 2, axis=1))))
    top = np.argsort(-log_probs)[0]
    assert found.tokens[0, 0].tolist() == every[top].tolist()
    assert np.isclose(found.log_probs[0, 0], log_probs[top])


def test_an_ended_text_is_kept_and_compared_with_longer_ones() -> None:
    ends = climb(best(), 2, stop=(1,))
    assert np.isclose(np.exp(ends.log_probs[0, 0]), 0.4), (
        "the empty text, ended by token 1, beats all longer ones"
    )
    assert ends.tokens[0, 0].tolist() == [-1, -1]
    longer = climb(best(penalty=6.0), 2, stop=(1,))
    expected = {"empty": np.log(0.4), "two": np.log(0.24) / (7 / 6) ** 6}
    assert expected["two"] > expected["empty"]
    assert longer.tokens[0, 0].tolist() == [0, 0]
    assert np.isclose(longer.ranks[0, 0], expected["two"])


def test_rows_of_a_batch_are_searched_by_themselves() -> None:
    model = positional(context=4)
    begun, advance = jnp.array([[1], [2], [3]]), eqx.filter_jit(model.advance)
    logits, state = advance(model.start(3, 4), begun)
    together = decoding.search(model.advance, state, logits[:, -1], KEY, PLAIN[5], best(), length=3, beams=4)
    logits, state = advance(model.start(1, 4), begun[2:])
    alone = decoding.search(model.advance, state, logits[:, -1], KEY, PLAIN[5], best(), length=3, beams=4)
    assert np.array_equal(together.tokens[2], alone.tokens[0])
    assert np.allclose(together.log_probs[2], alone.log_probs[0])


def test_gumbel_beams_are_draws_without_replacement_from_the_joint() -> None:
    runs = 60_000
    found = climb(GumbelTopK(), 2, batch=runs)
    pairs = [tuple(map(tuple, pair)) for pair in np.asarray(found.tokens).tolist()]
    assert all(one != other for one, other in pairs)
    first = {text: sum(one == text for one, _ in pairs) / runs for text in JOINT}
    assert max(abs(first[text] - p) for text, p in JOINT.items()) < 0.01
    for one, other in itertools.permutations(JOINT, 2):
        expected = JOINT[one] * JOINT[other] / (1 - JOINT[one])
        assert abs(pairs.count((one, other)) / runs - expected) < 0.01


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_survivors_are_drawn_by_their_tempered_probability(temperature: float) -> None:
    runs = 40_000
    found = climb(Resampled(jnp.asarray(temperature)), 6, batch=runs)
    first = np.asarray(found.tokens)[:, 0]
    weights = {text: p ** (1 / temperature) for text, p in JOINT.items()}
    for text, weight in weights.items():
        share = (first == np.array(text)).all(axis=1).mean()
        assert abs(share - weight / sum(weights.values())) < 0.01
