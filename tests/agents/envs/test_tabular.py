"""Problems of finitely many states: their tables against Gymnasium's, and steps that follow the tables."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.envs.finite import FiniteEnvironment, Outcomes
from chainrule.agents.mdp import cat_world
from chainrule.core.errors import ArgumentError

GYMNASIUM: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("frozen-lake", {}, "FrozenLake-v1", {}),
    ("frozen-lake", {"size": "8x8", "slippery": False}, "FrozenLake8x8-v1", {"is_slippery": False}),
    ("cliff-walking", {}, "CliffWalking-v1", {}),
    ("cliff-walking", {"slippery": True}, "CliffWalkingSlippery-v1", {}),
    ("taxi", {}, "Taxi-v4", {}),
]
FINITE = ["grid-world", "frozen-lake", "cliff-walking", "taxi", "chain", "cat-world"]


def all_outcomes(env: FiniteEnvironment) -> Outcomes:
    """What may follow every action in every state."""
    all_actions = jax.vmap(env.outcomes, in_axes=(None, 0, None))
    every = jax.jit(jax.vmap(all_actions, in_axes=(0, None, None)), static_argnums=2)
    found: Outcomes = every(np.arange(env.states), np.arange(env.actions), env.params)
    return found


def table_of(env: FiniteEnvironment, found: Outcomes, weights: np.ndarray) -> np.ndarray:
    """Weights of outcomes by (state, action, next state)."""
    table = np.zeros((env.states, env.actions, env.states))
    s, a, _ = np.indices(weights.shape)
    np.add.at(table, (s, a, np.asarray(found.successor)), weights)
    return table


def tables(env: FiniteEnvironment) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities of (state, action, next state), mean rewards, and probabilities of an end."""
    found = all_outcomes(env)
    probability = np.asarray(found.probability, np.float64)
    moves = table_of(env, found, probability)
    return moves, (probability * found.reward).sum(-1), (probability * found.terminated).sum(-1)


@pytest.mark.parametrize(("name", "settings", "theirs", "options"), GYMNASIUM, ids=lambda x: str(x)[:20])
def test_every_row_of_the_tables_is_gymnasium_s(
    name: str,
    settings: dict[str, Any],
    theirs: str,
    options: dict[str, Any],
    oracle: Callable[[str], ModuleType],
) -> None:
    other = oracle("gymnasium").make(theirs, **options)
    env: Any = envs.make(name, **settings)
    moves, rewards, ends = tables(env)
    expected, gains, over = np.zeros_like(moves), np.zeros_like(rewards), np.zeros_like(ends)
    for s, actions in other.unwrapped.P.items():
        for a, outcomes in actions.items():
            for probability, after, reward, terminated in outcomes:
                expected[s, a, after] += probability
                gains[s, a] += probability * reward
                over[s, a] += probability * terminated
    # Goals and cells of the cliff are never acted in; what Gymnasium writes there differs from lake to cliff.
    start = np.asarray(env.start(env.params))
    leads, acted = ((moves > 1e-6) & (ends < 0.99)[..., None]).any(1), start > 0
    while (further := acted | leads[acted].any(0)).sum() > acted.sum():
        acted = further
    acted &= np.einsum("sas->sa", moves).min(1) < 1
    np.testing.assert_allclose(moves[acted], expected[acted], atol=1e-6)
    np.testing.assert_allclose(rewards[acted], gains[acted], atol=1e-5)
    np.testing.assert_allclose(ends[acted], over[acted], atol=1e-6)
    np.testing.assert_allclose(start, other.unwrapped.initial_state_distrib, atol=1e-6)
    if other.spec.max_episode_steps is not None:
        assert int(env.limit(env.params)) == other.spec.max_episode_steps
        assert (
            name != "frozen-lake" or settings or envs.describe(name).threshold == other.spec.reward_threshold
        )


@pytest.mark.parametrize("name", FINITE)
def test_outcomes_of_every_state_and_action_add_up_to_one(name: str) -> None:
    env: Any = envs.make(name)
    moves, rewards, _ = tables(env)
    np.testing.assert_allclose(moves.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(np.asarray(env.start(env.params)).sum(), 1, atol=1e-6)
    assert np.isfinite(rewards).all()
    assert len({env.state_name(s) for s in range(env.states)}) == env.states
    assert len({env.action_name(a) for a in range(env.actions)}) == env.actions


@pytest.mark.parametrize("name", ["grid-world", "cat-world"])
def test_steps_are_drawn_from_the_outcomes(name: str) -> None:
    """Shares of 20,000 draws lie within five standard errors of the probabilities."""
    env: Any = envs.make(name)
    moves, _, _ = tables(env)
    count = 20_000
    keys = jax.random.split(jax.random.key(0), count)
    states, first = jax.jit(jax.vmap(env.reset))(keys)
    start = np.asarray(env.start(env.params))
    _near(np.bincount(first, minlength=env.states) / count, start, count)
    here, action = int(np.asarray(first)[0]), 1
    one = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states)
    after = jax.jit(jax.vmap(env.step, in_axes=(0, None, None)))(keys, one, np.int32(action))
    _near(np.bincount(after.observation, minlength=env.states) / count, moves[here, action], count)


def _near(share: np.ndarray, probability: np.ndarray, count: int) -> None:
    assert (np.abs(share - probability) <= 5 * np.sqrt(probability * (1 - probability) / count) + 1e-6).all()


def test_the_book_s_grid_has_the_book_s_value() -> None:
    """Value iteration on the map that comes with it: Russell and Norvig print 0.705 at the start."""
    env: Any = envs.make("grid-world")
    moves, rewards, _ = tables(env)
    ends = np.isin(np.arange(12), [3, 5, 7])
    values = np.zeros(12)
    for _ in range(200):
        values = np.where(ends, 0, (rewards + moves @ values).max(1))
    assert values[8] == pytest.approx(0.705, abs=5e-4)
    assert values[0] == pytest.approx(0.812, abs=5e-4)
    assert values[11] == pytest.approx(0.388, abs=5e-4)


def test_a_map_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "maze.txt"
    file.write_text("S.G\n.#X\n", encoding="utf-8")
    env: Any = envs.make("grid-world", layout=str(file), slip=0.0)
    assert env.states == 6
    moves, rewards, ends = tables(env)
    assert moves[1, 1, 2] == 1
    assert rewards[1, 1] == pytest.approx(0.96)
    assert ends[1, 1] == 1
    assert moves[1, 2, 1] == 1  # a wall below
    assert moves[0, 0, 0] == 1  # the edge above


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("...G", "the map has no start"),
        ("S.G/..", "row 2 has 2 cells, the first one has 3"),
        ("S\nQ", "'Q' in row 2 has no meaning"),
        ("maze.txt", "neither a map nor a file"),
        ("/", "the map is empty"),
    ],
)
def test_a_map_that_is_none_is_refused(layout: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        envs.make("grid-world", layout=layout)


def test_the_cat_s_tables_are_those_of_the_decision_process() -> None:
    moves, rewards, ends = tables(envs.make("cat-world"))  # type: ignore[arg-type]
    awake = slice(0, 5)
    np.testing.assert_allclose(moves[awake], cat_world.decisions()[awake], atol=1e-7)
    np.testing.assert_allclose(rewards[:, 0], cat_world.rewards())
    np.testing.assert_allclose(ends[awake], cat_world.decisions()[awake, :, 5], atol=1e-7)


def test_a_chain_slips_into_the_other_action() -> None:
    moves, rewards, ends = tables(envs.make("chain", length=3, slip=0.25))  # type: ignore[arg-type]
    np.testing.assert_allclose(moves[2, 0], [0.25, 0, 0.75])
    np.testing.assert_allclose(moves[0, 1], [0.75, 0.25, 0])
    np.testing.assert_allclose(rewards[2], [0.75 * 10 + 0.25 * 2, 0.25 * 10 + 0.75 * 2])
    assert not ends.any()


def test_a_bandit_pays_its_arms_means_and_says_the_regret() -> None:
    env: Any = envs.make("bandit", arms=3, noise=0.0, limit=2)
    state, seen = jax.jit(env.reset)(jax.random.key(1))
    step = jax.jit(env.step)
    after = step(jax.random.key(2), state, np.int32(2))
    means = np.asarray(state.means)
    assert seen == 0
    assert after.reward == means[2]
    assert after.info["regret"] == pytest.approx(means.max() - means[2])
    assert not after.truncated
    assert step(jax.random.key(3), after.state, np.int32(0)).truncated


@pytest.mark.parametrize("name", FINITE)
def test_known_returns_are_those_of_random_and_of_best_actions(name: str) -> None:
    """Backwards from the limit of time, by tables: nothing is drawn."""
    env: Any = envs.make(name)
    found = all_outcomes(env)
    probability = np.asarray(found.probability, np.float64)
    moves = table_of(env, found, probability * ~np.asarray(found.terminated))
    rewards = (probability * np.asarray(found.reward)).sum(-1)
    best = random = np.zeros(env.states)
    for _ in range(int(env.limit(env.params))):
        best, random = (rewards + moves @ best).max(1), (rewards + moves @ random).mean(1)
    start = np.asarray(env.start(env.params))
    known = envs.describe(name)
    assert start @ random == pytest.approx(known.random_return, rel=1e-3)
    assert start @ best == pytest.approx(known.optimal_return, rel=1e-3)
