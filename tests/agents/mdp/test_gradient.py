"""The exact gradient of the return, by two more routes: the policy gradient theorem, and differences."""

import numpy as np
import pytest

from chainrule.agents.mdp import evaluate, policy_gradient
from chainrule.core.errors import ArgumentError

STATES, ACTIONS, GAMMA = 5, 3, 0.9


@pytest.fixture(scope="module")
def process() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(STATES), (STATES, ACTIONS))
    P[-1] = 0
    return (
        rng.normal(size=(STATES, ACTIONS)),
        P,
        rng.normal(size=(STATES, ACTIONS)),
        rng.dirichlet(np.ones(STATES)),
    )


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits)
    return weights / weights.sum(-1, keepdims=True)


def test_two_arms_have_the_gradient_one_computes_by_hand() -> None:
    value, gradient = policy_gradient([[0.0, 0.0]], np.zeros((1, 2, 1)), [[1.0, 0.0]], 1.0, [1.0])
    assert value == 0.5
    assert gradient.tolist() == [[0.25, -0.25]]
    # Of one pull: r (onehot - policy), twice as likely as not; a baseline of 0.5 leaves nothing to chance.
    score = np.eye(2) - 0.5
    for baseline, variance in ((0.0, 0.0625), (0.5, 0.0)):
        samples = (np.array([1.0, 0.0]) - baseline)[:, None] * score
        np.testing.assert_allclose(samples.mean(0), gradient[0])
        np.testing.assert_allclose(samples.var(0), variance)


def test_it_is_what_the_theorem_says(process) -> None:
    logits, P, r, start = process
    value, gradient = policy_gradient(logits, P, r, GAMMA, start)
    policy = softmax(logits)
    found = evaluate(P, r, policy, GAMMA)
    assert value == pytest.approx(start @ found.values, abs=1e-12)
    visits = start @ found.occupancy
    np.testing.assert_allclose(gradient, visits[:, None] * policy * found.advantages, atol=1e-12)


def test_it_is_what_differences_say(process) -> None:
    logits, P, r, start = process
    gradient = policy_gradient(logits, P, r, GAMMA, start)[1]
    step = 1e-5
    for index in np.ndindex(logits.shape):
        moved = np.zeros_like(logits)
        moved[index] = step
        up, down = (start @ evaluate(P, r, softmax(logits + sign * moved), GAMMA).values for sign in (1, -1))
        assert gradient[index] == pytest.approx((up - down) / (2 * step), abs=1e-8)


def test_shapes_and_endless_returns_are_named(process) -> None:
    logits, P, r, start = process
    with pytest.raises(ArgumentError, match="logits"):
        policy_gradient(logits[0], P, r, GAMMA, start)
    with pytest.raises(ArgumentError, match="start"):
        policy_gradient(logits, P, r, GAMMA, start[1:])
    with pytest.raises(ArgumentError, match="gamma=1"):
        policy_gradient(np.zeros((1, 1)), np.ones((1, 1, 1)), np.ones((1, 1)), 1, [1.0])
