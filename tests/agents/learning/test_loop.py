"""Whole trainings: runs beside each other, in chunks, and gone on with, all with the bits of a lone one."""

import os
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.algorithms.ppo import PPO, PPOConfig
from chainrule.agents.learning import loop
from chainrule.core.errors import ArgumentError
from tests.agents.worlds import Corridor

STEPS = 3 * 32
CONFIG = PPOConfig(environments=4, length=8, epochs=2, minibatches=2, widths=(8,), learning_rate=0.01)


@pytest.fixture(scope="module")
def learner() -> PPO:
    return PPO(CONFIG, Corridor(), STEPS)


@pytest.fixture(scope="module")
def keys() -> Any:
    return jax.random.split(jax.random.key(7), 3)


@pytest.fixture(scope="module")
def trained(learner: PPO, keys: Any) -> loop.TrainedRuns:
    return loop.train(learner, keys, STEPS, chunk=2)


def arrays(states: Any) -> list[np.ndarray]:
    keyless = jax.tree.map(
        lambda a: jax.random.key_data(a) if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else a, states
    )
    return [np.asarray(a) for a in jax.tree.leaves(keyless)]


def assert_same(a: Any, b: Any) -> None:
    for one, other in zip(arrays(a), arrays(b), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_run_beside_others_has_the_bits_of_a_lone_one(
    learner: PPO, keys: Any, trained: loop.TrainedRuns
) -> None:
    lone = loop.train(learner, keys[1:2], STEPS, chunk=2)
    assert_same(loop.run_of(lone.states, 0), loop.run_of(trained.states, 1))
    for name, values in lone.metrics.items():
        np.testing.assert_array_equal(values[0], trained.metrics[name][1])
    assert not np.array_equal(trained.metrics["policy_loss"][0], trained.metrics["policy_loss"][1])


def test_chunks_and_going_on_from_stored_arrays_change_nothing(
    learner: PPO, keys: Any, trained: loop.TrainedRuns
) -> None:
    states = loop.start(learner, keys)
    states, first = loop.run_iterations(learner, states, 1, most=2)
    # A checkpoint: everything leaves the device and comes back.
    leaves, form = jax.tree.flatten(states)
    stored = arrays(states)
    back = [
        jax.random.wrap_key_data(jnp.asarray(s))
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key)
        else jnp.asarray(s)
        for a, s in zip(leaves, stored, strict=True)
    ]
    states, rest = loop.run_iterations(learner, jax.tree.unflatten(form, back), 2, most=2)
    assert_same(states, trained.states)
    for name, values in trained.metrics.items():
        np.testing.assert_array_equal(np.concatenate([first[name], rest[name]], axis=1), values)


def test_numbers_may_differ_between_runs(learner: PPO, keys: Any, trained: loop.TrainedRuns) -> None:
    rates = jnp.array([0.01, 0.0, 0.01])
    found = loop.train(learner, keys, STEPS, hyper=learner.hyper._replace(learning_rate=rates), chunk=2)
    assert_same(loop.run_of(found.states, 2), loop.run_of(trained.states, 2))
    still, start = loop.run_of(found.states, 1).network, loop.run_of(loop.start(learner, keys), 1).network
    assert_same(still, start)
    assert found.metrics["learning_rate"][1].tolist() == [0, 0, 0]


def test_metrics_have_their_names_and_the_rate_falls(trained: loop.TrainedRuns) -> None:
    expected = "return_mean episode_length policy_loss value_loss entropy kl clip_fraction explained_variance"
    assert set(trained.metrics) == {*expected.split(), "learning_rate"}
    np.testing.assert_allclose(trained.metrics["learning_rate"][0], [0.01, 0.02 / 3, 0.01 / 3], rtol=1e-5)
    assert all(values.shape == (3, 3) for values in trained.metrics.values())


def test_a_watcher_sees_every_chunk(learner: PPO, keys: Any) -> None:
    seen: list[int] = []
    loop.train(learner, keys, STEPS, chunk=2, watch=lambda done, states, metrics: seen.append(done))
    assert seen == [2, 3]


def test_runs_that_do_not_fit_into_memory_are_halved(learner: PPO, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def together(_: Any, states: Any, count: Any, room: int) -> Any:
        asked.append(len(states))
        if len(states) > 2:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return states + count, {"twice": jnp.stack([2 * states] * room, axis=1)}

    monkeypatch.setattr(loop, "_together", together)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.warns(UserWarning, match="4 agents at once do not fit into memory: 2 and then 2"):
        states, metrics = loop.run_iterations(learner, jnp.arange(4), 1)
    assert states.tolist() == [1, 2, 3, 4]
    assert metrics["twice"].tolist() == [[0], [2], [4], [6]]
    assert asked == [4, 2, 2]


def test_what_does_not_fit_is_named(learner: PPO, keys: Any) -> None:
    with pytest.raises(ArgumentError, match="steps=0"):
        loop.train(learner, keys, 0)
    with pytest.raises(ArgumentError, match="seeds=0"):
        loop.start(learner, jax.random.key(0), seeds=0)
    with pytest.raises(ArgumentError, match=r"shape \(2,\) for 3 runs"):
        loop.start(learner, keys, hyper=learner.hyper._replace(gamma=jnp.ones(2)))
    with pytest.raises(ArgumentError, match="count=3"):
        loop.run_iterations(learner, loop.start(learner, keys), 3, most=2)


_SPREAD = """
import jax, jax.numpy as jnp, numpy as np
from chainrule.agents.algorithms.ppo import PPO, PPOConfig
from chainrule.agents.learning import loop
from tests.agents.worlds import Corridor

learner = PPO(PPOConfig(environments=2, length=4, epochs=1, minibatches=2, widths=(4,)), Corridor(), 16)
states = loop.start(learner, jax.random.split(jax.random.key(7), 6))
wide = loop.spread(states, jax.local_devices())
after, metrics = loop._in_memory(learner, states, jnp.asarray(2), 2, 6)
alone, same = loop._together(learner, states, jnp.asarray(2), 2)
for name in same:
    np.testing.assert_allclose(metrics[name], same[name], rtol=1e-4, atol=1e-5)
print(*(len(one.iteration.sharding.device_set) for one in (states, wide, after)))
"""


@pytest.mark.slow
def test_runs_are_spread_over_devices() -> None:
    flags = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    ran = subprocess.run([sys.executable, "-c", _SPREAD], env=flags, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["1", "3", "3"]  # six runs on three of four devices, two on each
