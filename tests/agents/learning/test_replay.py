"""Replay: what the ring holds, which rows are drawn how often, what returns over several steps are, what is copied."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.learning.replay import Priorities, Replay, prioritised, stratified, summed
from chainrule.core.types import Array

SLOTS, WORLDS, TIME = 6, 2, 3


def filled(blocks: int) -> Replay:
    """A ring after so many blocks, in which the step at time t of world w holds the number 10 t + w."""
    replay = Replay.empty(jnp.zeros((), jnp.int32), slots=SLOTS, worlds=WORLDS)
    for block in range(blocks):
        times = np.arange(block * TIME, (block + 1) * TIME)
        replay = replay.add(jnp.asarray(10 * times[:, None] + np.arange(WORLDS), jnp.int32))
    return replay


@pytest.mark.parametrize("blocks", [1, 2, 3, 5])
def test_the_ring_holds_the_latest_steps(blocks: int) -> None:
    replay = filled(blocks)
    latest = deque(range(blocks * TIME), maxlen=SLOTS)
    held = np.asarray(replay.rows)[: int(replay.filled) * WORLDS]
    assert sorted(held) == sorted(10 * t + w for t in latest for w in range(WORLDS))


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("span", [1, 3])
def test_rows_are_drawn_equally_often_where_enough_steps_follow(blocks: int, span: int) -> None:
    replay = filled(blocks)
    latest = deque(range(blocks * TIME), maxlen=SLOTS)
    starts = [10 * t + w for t in latest if t + span - 1 in latest for w in range(WORLDS)]
    levels = (np.arange(4 * len(starts)) + 0.5) / (4 * len(starts))
    rows = np.asarray(replay.first_rows(jnp.asarray(levels, jnp.float32), span))
    numbers, counts = np.unique(np.asarray(replay.rows)[rows], return_counts=True)
    assert numbers.tolist() == sorted(starts)
    assert set(counts) == {4}
    assert sorted(np.asarray(replay.rows)[np.asarray(replay.complete(span))]) == sorted(starts)


def test_following_rows_are_the_next_steps_of_the_same_world_across_the_end_of_the_ring() -> None:
    replay = filled(3)
    rows = replay.first_rows(jnp.asarray((np.arange(8) + 0.5) / 8, jnp.float32), 3)
    ahead = np.asarray(replay.rows)[np.asarray(replay.following(rows, 3))]
    assert (np.diff(ahead, axis=1) == 10).all()


def by_steps(rewards: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, gamma: float) -> list:
    total, last = 0.0, 0
    for k, reward in enumerate(rewards):
        total, last = total + gamma**k * reward, k
        if terminated[k] or truncated[k]:
            break
    return [total, 0.0 if terminated[last] else gamma ** (last + 1), last]


def test_returns_over_several_steps_end_with_the_episode() -> None:
    noise = np.random.default_rng(0)
    rewards = noise.normal(size=(64, 4))
    terminated = noise.random((64, 4)) < 0.2
    truncated = (noise.random((64, 4)) < 0.2) & ~terminated
    got = jax.jit(summed)(
        jnp.asarray(rewards, jnp.float32), jnp.asarray(terminated), jnp.asarray(truncated), 0.9
    )
    wanted = [by_steps(*row, 0.9) for row in zip(rewards, terminated, truncated, strict=True)]
    np.testing.assert_allclose(np.stack([np.asarray(x) for x in got], 1), wanted, rtol=1e-5, atol=1e-6)


def test_shares_of_a_mass_find_the_row_that_cumulated_sums_find() -> None:
    noise = np.random.default_rng(1)
    mass = np.where(noise.random(1000) < 0.3, 0, noise.integers(1, 9, 1000)).astype(np.float32)
    shares = (np.arange(512) + 0.5) / 512
    wanted = np.searchsorted(np.cumsum(mass.astype(np.float64)), shares * mass.sum(), side="right")
    got = jax.jit(stratified)(jnp.asarray(mass), jnp.asarray(shares, jnp.float32))
    assert (np.asarray(got) == wanted).mean() > 0.99  # single precision of a share moves few across a border
    assert (mass[np.asarray(got)] > 0).all()


def test_rows_without_mass_are_never_drawn_whatever_rounding_does() -> None:
    mass = np.zeros(4099, np.float32)
    mass[[5, 1234, 4000]] = [1e-7, 0.3, 1e4]
    shares = np.concatenate([np.linspace(0, 1, 999), [np.nextafter(1, 0)] * 3]).astype(np.float32)
    got = np.asarray(jax.jit(stratified)(jnp.asarray(mass), jnp.asarray(shares)))
    assert set(got) <= {5, 1234, 4000}


def test_importance_weights_make_means_over_rows_of_means_over_draws() -> None:
    noise = np.random.default_rng(2)
    mass, values = noise.uniform(0.1, 3, 200), noise.normal(3, 1, 200)
    drawn = jax.jit(prioritised)(jnp.asarray(mass, jnp.float32), jnp.full(20_000, 0.5), 1.0)
    weights = np.asarray(drawn.weights, np.float64)
    assert weights.max() == 1
    estimate = (weights * values[np.asarray(drawn.rows)]).sum() / weights.sum()
    np.testing.assert_allclose(estimate, values.mean(), rtol=1e-3)
    flat = jax.jit(prioritised)(jnp.asarray(mass, jnp.float32), jnp.full(20_000, 0.5), 0.0)
    np.testing.assert_allclose(flat.weights, 1)


def test_nothing_to_draw_from_weighs_nothing() -> None:
    drawn = jax.jit(prioritised)(jnp.zeros(7), jnp.full(3, 0.5), 0.4)
    assert np.asarray(drawn.weights).tolist() == [0, 0, 0]
    assert (np.asarray(drawn.rows) < 7).all()


def test_new_rows_are_as_likely_as_the_likeliest_so_far() -> None:
    priorities = Priorities.empty(6).added(jnp.array(0), 3)
    priorities = priorities.updated(jnp.array([0, 2]), jnp.array([-16.0, 4.0]), 0.5)
    priorities = priorities.added(jnp.array(3), 3)
    np.testing.assert_allclose(priorities.mass, [4, 1, 2, 4, 4, 4], rtol=1e-4)


@pytest.mark.parametrize("runs", [0, 2])
def test_a_ring_is_written_in_place_inside_a_loop(runs: int) -> None:
    """No second ring in memory: what the program needs beside its arguments is less than one."""
    ring = Replay.empty(jax.ShapeDtypeStruct((64,), jnp.float32), slots=4096, worlds=1)

    def step(replay: Replay, level: Array) -> tuple[Replay, Array]:
        replay = replay.add(jnp.ones((8, 1, 64)))
        return replay, replay.rows[replay.first_rows(level[None], 1)].sum()

    def loop(replay: Replay, levels: Array) -> tuple[Replay, Array]:
        return jax.lax.scan(step, replay, levels)

    if runs:
        ring = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (runs, *leaf.shape)), ring)
        loop = jax.vmap(loop, in_axes=(0, None))
    program = jax.jit(loop, donate_argnums=0).lower(ring, jnp.zeros(5)).compile()
    used = program.memory_analysis()
    assert used is not None
    assert used.temp_size_in_bytes < ring.rows.nbytes / 2
