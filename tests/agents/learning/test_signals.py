"""What an update would learn from, without making it."""

import equinox as eqx
import jax
import numpy as np
import pytest

from chainrule.agents import algorithms, envs
from chainrule.agents.learning import loop
from chainrule.agents.learning.base import HasLearningSignal, LearningSignal

KEY = jax.random.key(0)


def signal(name: str, steps: int, **settings: object) -> tuple[LearningSignal, object]:
    entry = algorithms.entry(name)
    config = algorithms.configure(name, **{**entry.toy, **settings})
    learner = entry.build(config, envs.make("cartpole"), 256)
    assert isinstance(learner, HasLearningSignal)
    states = loop.start(learner, KEY)
    if steps:
        states, _ = loop.run_iterations(learner, states, steps)
    state = loop.run_of(states, 0)
    return eqx.filter_jit(learner.signal)(state, KEY), state


def test_ratios_leave_one_only_where_the_policy_moves() -> None:
    still, _ = signal("ppo", 0, learning_rate=1e-12)
    moved, _ = signal("ppo", 0, learning_rate=0.1)
    np.testing.assert_allclose(still.numbers["ratio"], 1, atol=1e-5)
    assert np.abs(np.asarray(moved.numbers["ratio"]) - 1).max() > 0.01
    np.testing.assert_allclose(np.asarray(still.lines["ratio"]), [0.8, 1.2], rtol=1e-6)
    assert still.numbers["advantage"].shape == still.numbers["ratio"].shape


def test_priorities_are_those_of_steps_that_can_be_drawn() -> None:
    found, state = signal("dqn", 1, replay="prioritised")
    known = np.isfinite(np.asarray(found.numbers["priority"]))
    assert known.sum() == int(state.replay.filled) * state.replay.worlds
    assert (np.asarray(found.numbers["priority"])[known] > 0).all()
    assert np.isfinite(np.asarray(found.numbers["td_error"])).all()


@pytest.mark.parametrize("name", ["a2c", "trpo"])
def test_advantages_of_other_policy_gradients_are_shown_too(name: str) -> None:
    found, _ = signal(name, 0)
    assert list(found.numbers) == ["advantage"]
    assert np.isfinite(np.asarray(found.numbers["advantage"])).all()
