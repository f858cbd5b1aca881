"""TRPO: products with F against the dense Hessian, steps within the trust region, steps that are not taken."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.algorithms.trpo import TRPO, TRPOConfig
from chainrule.agents.algorithms.trpo.learner import backtracked, natural_step
from chainrule.agents.learning import loop
from chainrule.agents.learning.on_policy import judged
from chainrule.agents.learning.rollouts import gather
from chainrule.derive import hvp
from tests.agents.worlds import Corridor

CONFIG = TRPOConfig(
    environments=4, length=32, widths=(4,), gamma=0.9, value_steps=10, learning_rate=0.01, anneal=False
)


@pytest.fixture(scope="module")
def learner() -> TRPO:
    return TRPO(CONFIG, Corridor(), 128)


def test_products_with_f_are_those_of_the_dense_hessian(learner: TRPO) -> None:
    @eqx.filter_jit
    def both(key: Any) -> Any:
        state = learner.start(key)
        _, rollout = gather(learner.env, state.network, learner.actions, state.worlds, 32, key)
        batch = judged(state.network, learner.actions, rollout, 0.9, 0.95)
        flat, _, judge = learner.judge(state.network, batch)
        v = jax.random.normal(key, flat.shape)
        dense = jax.hessian(lambda x: judge(x)[1])(flat)
        step = natural_step(v, lambda v: dense @ v, 0.01, 0.1, 100)
        return hvp(lambda x: judge(x)[1])(flat, v), dense, v, jax.grad(lambda x: judge(x)[1])(flat), step

    product, dense, v, slope, step = (np.float64(a) for a in both(jax.random.key(0)))
    np.testing.assert_allclose(product, dense @ v, atol=1e-6)
    np.testing.assert_allclose(slope, 0, atol=1e-6)
    assert np.linalg.eigvalsh(dense).min() > -1e-6
    damped = dense + 0.1 * np.eye(len(v))
    solved = np.linalg.solve(damped, v)
    expected = np.sqrt(2 * 0.01 / (solved @ damped @ solved)) * solved
    np.testing.assert_allclose(step, expected, atol=1e-4)


def test_steps_taken_stay_within_the_trust_region_and_lead_out_of_the_corridor(learner: TRPO) -> None:
    states = loop.start(learner, jax.random.key(0))
    _, metrics = loop.run_iterations(learner, states, 40)
    assert metrics["accepted"].mean() > 0.5
    assert (metrics["kl"] <= 0.01).all()
    assert (metrics["kl"][metrics["accepted"] == 1] > 0).all()
    assert (metrics["kl"][metrics["accepted"] == 0] == 0).all()
    assert metrics["return_mean"][0, -5:].mean() == pytest.approx(0.8, abs=0.06)


def test_a_step_that_never_passes_is_not_taken() -> None:
    start, step = jnp.zeros(2), jnp.ones(2)
    worse = backtracked(start, step, lambda x: (-x.sum(), jnp.zeros(())), 0.01, 0.8, 10)
    assert not worse.accepted
    assert worse.flat.tolist() == [0, 0]
    assert int(worse.tried) == 10
    # Divergence x^2: a step of 0.8^k passes where 2 * 0.64^k <= 0.9, at k = 2.
    shorter = backtracked(start, step, lambda x: (x.sum(), jnp.square(x).sum()), 0.9, 0.8, 10)
    np.testing.assert_allclose(shorter.flat, 0.64, rtol=1e-6)
    assert int(shorter.tried) == 3
