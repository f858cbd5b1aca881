"""A2C: the corridor, and what its gradient leaves alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.algorithms.a2c import ENTRY
from chainrule.agents.learning import loop
from tests.agents.worlds import Corridor, OneStep

SMALL = ENTRY.config(
    environments=8, length=4, updates=4, widths=(16,), gamma=0.9, learning_rate=0.01, anneal=False
)


def test_the_way_out_of_a_corridor_is_learnt() -> None:
    learner = ENTRY.build(SMALL, Corridor(), 128)
    _, metrics = loop.run_iterations(learner, loop.start(learner, jax.random.key(0)), 40)
    assert metrics["return_mean"][0, -5:].mean() == pytest.approx(0.8, abs=0.06)


def test_an_episode_cut_off_is_worth_its_future_and_one_that_ended_is_not() -> None:
    values = []
    for truncates in (True, False):
        learner = ENTRY.build(SMALL, OneStep(truncates), 128)
        states, _ = loop.run_iterations(learner, loop.start(learner, jax.random.key(0)), 150)
        values.append(float(loop.run_of(states, 0).network.critic(jnp.ones((1, 2)))[0, 0]))
    np.testing.assert_allclose(values, [10, 1], rtol=0.07)


def test_iterations_repeat_the_steps_they_stand_for() -> None:
    learner = ENTRY.build(SMALL, Corridor(), 128)
    assert learner.steps_per_iteration == 8 * 4 * 4
    state = eqx.filter_jit(learner.start)(jax.random.key(0))
    after, _ = eqx.filter_jit(learner.iterate)(state)
    assert int(after.optimizer.count) == 4
