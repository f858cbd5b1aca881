"""The tabular algorithm: settings become rules, what does not go together is refused, a training finds the optimum."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.algorithms import configure, entry
from chainrule.agents.mdp import enumerated
from chainrule.agents.tabular import DoubleQLearning, ExpectedSarsa, NStepSarsa, QLearning, Sarsa
from chainrule.core.errors import ArgumentError, CapabilityError


def built(env, steps=1000, **settings):
    found = entry("tabular")
    return found.build(configure("tabular", **settings), env, steps)


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({}, QLearning()),
        ({"rule": "sarsa", "trace": 0.5}, Sarsa(0.5)),
        ({"rule": "expected-sarsa"}, ExpectedSarsa()),
        ({"rule": "double-q"}, DoubleQLearning()),
        ({"rule": "n-step-sarsa", "lookahead": 3}, NStepSarsa(3)),
    ],
)
def test_settings_become_rules(settings, rule) -> None:
    assert built(envs.make("cliff-walking"), **settings).rule == rule


def test_settings_become_ways_of_exploring() -> None:
    env = envs.make("cliff-walking")
    found = built(
        env, behaviour="softmax", temperature=4, temperature_end=1, schedule="exponential"
    ).hyper.behaviour
    values = jnp.array([0.0, 1.0])
    for step, temperature in (
        (0, 4.0),
        (250, 2.0),
        (500, 1.0),
        (900, 1.0),
    ):  # half of it by the middle, in logs
        odds = np.exp(1 / temperature)
        assert float(found.probabilities(values, step)[1]) == pytest.approx(odds / (1 + odds), rel=1e-5)
    falling = built(env, schedule="exponential", epsilon_end=0.01).hyper.behaviour
    assert float(falling.epsilon(250)) == pytest.approx(0.1, rel=1e-5)


def test_a_training_learns_the_exact_values_of_certain_steps() -> None:
    env = envs.make("frozen-lake", slippery=False)
    learner = built(env, 8000, gamma=0.9, chunk=2000)
    state, iterate = jax.jit(learner.start)(jax.random.key(0)), jax.jit(learner.iterate)
    for _ in range(4):
        state, numbers = iterate(state)
    exact = enumerated(env).solve(0.9).values
    assert float(np.asarray(state.q)[0, 0].max()) == pytest.approx(exact[0], abs=1e-3)
    assert float(numbers["return_mean"]) > 0.5


@pytest.mark.parametrize(
    ("env", "settings", "error", "message"),
    [
        ("cartpole", {}, CapabilityError, "dqn or ppo"),
        ("chain", {"gamma": 1.0}, ArgumentError, "never ends by itself"),
        ("cliff-walking", {"rule": "double-q", "trace": 0.5}, ArgumentError, "has no traces"),
        ("cliff-walking", {"schedule": "exponential", "epsilon_end": 0}, ArgumentError, "schedule=linear"),
        ("cliff-walking", {"alpha": 0.0}, ArgumentError, "alpha"),
    ],
)
def test_what_does_not_go_together_is_refused(env, settings, error, message) -> None:
    with pytest.raises(error, match=message):
        built(envs.make(env), **settings)
