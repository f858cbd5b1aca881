"""What may be drawn, on distributions that can be written out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.core.errors import ArgumentError
from chainrule.models.text.decoding import draw, rules

P = np.array([0.5, 0.25, 0.15, 0.1])


def left(p: np.ndarray = P, seen: np.ndarray | None = None, **options: object) -> np.ndarray:
    """The distribution that is drawn from."""
    marks = None if seen is None else jnp.asarray(seen)
    with np.errstate(divide="ignore"):
        return np.exp(rules(len(p), **options).apply(jnp.asarray(np.log(p)), marks))  # type: ignore[arg-type]


@pytest.mark.parametrize(("temperature", "entropy"), [(0.5, 0.82356), (1.0, 1.20797), (2.0, 1.33992)])
def test_temperature_changes_the_entropy(temperature: float, entropy: float) -> None:
    p = left(temperature=temperature)
    assert np.isclose(-(p * np.log(p)).sum(), entropy, atol=5e-6)


def test_top_p_keeps_the_symbol_that_crosses_and_never_nothing() -> None:
    assert np.allclose(left(top_p=0.6), [2 / 3, 1 / 3, 0, 0])
    assert np.allclose(left(top_p=0.8), [5 / 9, 5 / 18, 1 / 6, 0])
    assert np.allclose(left(top_p=1e-9), [1, 0, 0, 0])
    assert np.allclose(left(top_p=1.0), P)


def test_top_k_and_min_p_cut_the_unlikely() -> None:
    assert np.allclose(left(top_k=2), [2 / 3, 1 / 3, 0, 0])
    assert np.allclose(left(top_k=4), P)
    assert np.allclose(left(top_k=1000), P)
    assert np.allclose(left(min_p=0.3), [5 / 9, 5 / 18, 1 / 6, 0])
    assert np.allclose(left(np.full(4, 0.25), top_k=3), [1 / 3, 1 / 3, 1 / 3, 0]), "of equals the first stay"


def test_each_rule_sees_what_the_one_before_it_left() -> None:
    # Of the two that top-k leaves the first has 2/3 > 0.6, so top-p keeps it alone; by itself it would keep both.
    assert np.allclose(left(top_k=2, top_p=0.6), [1, 0, 0, 0])
    # At a low temperature the first alone reaches 0.75.
    assert np.allclose(left(temperature=0.5, top_p=0.7), [1, 0, 0, 0])
    assert np.allclose(left(banned=[0], top_k=1), [0, 1, 0, 0])


def test_temperature_zero_takes_the_likeliest_that_is_allowed() -> None:
    assert left(temperature=0).tolist() == [1, 0, 0, 0]
    assert left(temperature=0, banned=[0]).tolist() == [0, 1, 0, 0]
    assert left(temperature=0, bias={3: 10.0}).tolist() == [0, 0, 0, 1]
    assert left(temperature=1e-300).tolist() == [1, 0, 0, 0], "no overflow on the way there"


def test_bias_is_added_to_the_logits() -> None:
    assert np.allclose(left(bias={3: np.log(5.0)}), np.array([0.5, 0.25, 0.15, 0.5]) / 1.4)


def test_repetition_lowers_what_came_already_on_both_sides_of_zero() -> None:
    logits = jnp.array([2.0, -1.0, 2.0, -1.0])
    seen = jnp.array([True, True, False, False])
    found = rules(4, repetition=2.0).apply(logits, seen)
    assert np.allclose(found, jax.nn.log_softmax(jnp.array([1.0, -2.0, 2.0, -1.0])))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.1}, "temperature=-0.1: temperature must be at least 0"),
        ({"top_k": 0}, "top_k=0: top_k must be at least 1"),
        ({"top_p": 0.0}, "top_p=0.0: top_p must be above 0 and at most 1"),
        ({"top_p": 1.5}, "top_p=1.5"),
        ({"min_p": 2}, "min_p=2: min_p must be at least 0 and at most 1"),
        ({"repetition": 0}, "repetition=0: repetition must be above 0"),
        ({"banned": [9]}, "bias or banned=9: .* a token from 0 to 3"),
        ({"banned": range(4)}, "every token is banned"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        left(**options)


SIX = {  # one program each
    "top_p": rules(6, top_p=0.5),
    "min_p": rules(6, min_p=0.5),
    "top_k": rules(6, top_k=3),
}
apply = eqx.filter_jit(lambda rules, logits: rules.apply(logits))


@given(st.lists(st.floats(-20, 20), min_size=6, max_size=6), st.sampled_from(sorted(SIX)))
@settings(max_examples=60, deadline=None)
def test_cuts_keep_the_ratios_of_what_is_left(logits: list[float], rule: str) -> None:
    before = np.array(logits) - np.logaddexp.reduce(logits)
    after = np.asarray(apply(SIX[rule], jnp.asarray(np.array(logits))))
    kept = after > -np.inf
    assert kept[before.argmax()]
    assert np.isclose(np.exp(after[kept]).sum(), 1)
    gaps = (after - before)[kept]
    assert np.allclose(gaps, gaps[0], atol=1e-9)
    assert before[kept].min() >= before[~kept].max(initial=-np.inf) - 1e-12


def test_draws_follow_the_probabilities() -> None:
    n = 40_000
    logits = jnp.broadcast_to(jnp.log(jnp.asarray(P)), (n, 4))
    token, log_prob = eqx.filter_jit(draw)(
        logits, None, jax.random.key(0), jnp.asarray(3), rules(4, top_p=0.8)
    )
    assert np.allclose(np.bincount(token, minlength=4) / n, [5 / 9, 5 / 18, 1 / 6, 0], atol=0.01)
    assert np.allclose(log_prob, np.log(P)[np.asarray(token)]), "as the model sees it, without the rules"
