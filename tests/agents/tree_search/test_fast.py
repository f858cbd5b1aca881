"""The compiled search beside the readable one, beside mctx, and gone on with."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.arena import every_line
from chainrule.agents.envs.classic.cartpole import CartPole, CartPoleState
from chainrule.agents.games.tic_tac_toe import TicTacToe, TicTacToeState
from chainrule.agents.tree_search import fast, reference, reuse
from chainrule.core.errors import ArgumentError
from tests.agents.tree_search.conftest import Positions

GAME = TicTacToe()
SIMULATIONS = 25


def uniform(states: Any) -> tuple[jax.Array, jax.Array]:
    """The same for all moves, and no opinion."""
    batch = states.moves.shape[0]
    return jnp.ones((batch, 9)), jnp.zeros(batch)


_WEIGHTS = np.random.default_rng(0).normal(size=(9, 10)).astype(np.float32)


def opinionated(states: Any) -> tuple[jax.Array, jax.Array]:
    """Some function of the stones."""
    own = states.board * (1 - 2 * (states.moves % 2))[:, None]
    found = own.astype(jnp.float32) @ _WEIGHTS
    return jax.nn.softmax(found[:, :9]), jnp.tanh(found[:, 9] / 3)


@pytest.fixture(scope="module")
def chosen(positions: Positions) -> Any:
    """1,000 positions of tic-tac-toe that have not ended."""
    going = np.flatnonzero(~positions.over)
    return positions.of(np.random.default_rng(0).choice(going, 1000, replace=False))


@pytest.mark.parametrize(("evaluate", "count"), [(uniform, 1000), (opinionated, 200)])
def test_visits_equal_those_of_the_readable_search(
    positions: Positions,
    chosen: Any,
    evaluate: Callable[[Any], Any],
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reference, "_look", positions.look)
    found = jax.jit(lambda s: fast.search_batch(GAME, s, evaluate, simulations=SIMULATIONS))(chosen)
    visits, q, value = jax.device_get((found.visits, found.q, found.value))
    priors, values = jax.device_get(jax.jit(evaluate)(positions.states))
    for i in range(count):
        expected = reference.search(
            GAME,
            TicTacToeState(chosen.board[i], chosen.moves[i]),
            lambda state: (priors[k := positions.number[state.board.tobytes()]], values[k]),
            simulations=SIMULATIONS,
            transpositions=False,
        )
        assert visits[i].tolist() == expected.visits.tolist()
        assert np.abs(q[i] - expected.q).max() < 2e-6
        assert abs(value[i] - expected.value) < 2e-6


def test_lines_against_a_search_of_plain_python_and_losses_without_a_change_of_sign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def choose(states: Any) -> Any:
        return fast.search_batch(GAME, states, uniform, simulations=200, temperature=0.0).action

    right = every_line(GAME, jax.jit(choose), 0)
    advance = fast.advance_game

    def unturned(game: Any, evaluate: Any) -> Any:
        def same_sign(*arguments: Any) -> Any:
            found = advance(game, evaluate)(*arguments)
            return found._replace(discount=jnp.abs(found.discount), reward=-found.reward)

        return same_sign

    monkeypatch.setattr(fast, "advance_game", unturned)
    # As a search in plain Python finds them, without one node for equal positions.
    assert right == (53, 3, 0)
    assert every_line(GAME, jax.jit(lambda states: choose(states)), 0) == (27, 9, 17)  # traced anew


@pytest.mark.slow
def test_uniform_search_with_many_simulations_cannot_be_beaten() -> None:
    def choose(states: Any) -> Any:
        return fast.search_batch(GAME, states, uniform, simulations=2000, temperature=0.0).action

    assert [every_line(GAME, jax.jit(choose), player).losses for player in (0, 1)] == [0, 0]


def test_gumbel_search_equals_mctx(chosen: Any, oracle: Callable[[str], ModuleType]) -> None:
    mctx = oracle("mctx")
    states = jax.tree.map(lambda x: x[:64], chosen)

    def recurrent(_: Any, key: Any, actions: Any, states: Any) -> Any:
        found = fast.advance_game(GAME, opinionated)(key, states, actions)
        logits = jnp.log(jnp.maximum(found.prior, 1e-30))
        output = mctx.RecurrentFnOutput(
            reward=found.reward, discount=found.discount, prior_logits=logits, value=found.value
        )
        return output, found.state

    @jax.jit
    def theirs(states: Any) -> Any:
        prior, value = opinionated(states)
        root = mctx.RootFnOutput(prior_logits=jnp.log(prior), value=value, embedding=states)
        illegal = ~jax.vmap(GAME.legal_mask)(states)
        found = mctx.gumbel_muzero_policy(
            (), jax.random.key(0), root, recurrent, 24, invalid_actions=illegal, gumbel_scale=0.0
        )
        return found.search_tree.summary().visit_counts, found.action_weights, found.action

    @jax.jit
    def ours(states: Any) -> Any:
        found = fast.search_gumbel(
            GAME, states, opinionated, simulations=24, key=jax.random.key(1), gumbel_scale=0.0
        )
        return found.visits, found.policy, found.action

    with jax.numpy_rank_promotion("allow"):  # mctx relies on it
        visits, weights, actions = jax.device_get(theirs(states))
    own_visits, policy, own_actions = jax.device_get(ours(states))
    same = (visits == own_visits).all(1)
    assert same.mean() > 0.95  # sums and running means round differently, and a tie goes another way
    np.testing.assert_allclose(policy[same], weights[same], atol=1e-4)
    np.testing.assert_array_equal(own_actions[same], actions[same])


def test_gumbel_search_never_chooses_an_illegal_move(chosen: Any) -> None:
    found = jax.jit(
        lambda s: fast.search_gumbel(GAME, s, uniform, simulations=7, key=jax.random.key(0), considered=4)
    )(chosen)
    legal = np.asarray(jax.vmap(GAME.legal_mask)(chosen))
    visits, policy, action = jax.device_get((found.visits, found.policy, found.action))
    assert (visits.sum(1) == 7).all()
    assert (visits[~legal] == 0).all()
    assert (policy[~legal] == 0).all()
    assert ((visits > 0).sum(1) <= 4).all()
    assert legal[np.arange(len(action)), action].all()


def test_a_subtree_is_gone_on_with_as_if_it_had_grown_alone(chosen: Any) -> None:
    room = 30
    states = jax.tree.map(lambda x: x[:100], chosen)

    @jax.jit
    def both(states: Any) -> Any:
        found = fast.search_batch(GAME, states, opinionated, simulations=60)
        after = jax.vmap(GAME.step)(states, found.action)
        kept = reuse.reroot(found.trees, found.action, room=room)
        on = fast.search_batch(GAME, after, opinionated, simulations=room, trees=kept)
        return found, kept, on

    found, kept, on = jax.device_get(both(states))
    rows = np.arange(100)
    child = found.trees.children[rows, 0, found.action]
    np.testing.assert_array_equal(kept.visits[:, 0], found.trees.visits[rows, child])
    np.testing.assert_array_equal(kept.totals[:, 0], found.trees.totals[rows, child])
    # Sums of visits: a node has been come by once for its own evaluation, then for each move from it.
    inner = kept.visits.sum(2)
    for row in range(100):
        for node in range(1, kept.size[row]):
            parent = kept.parents[row, node]
            action = int(np.flatnonzero(kept.children[row, parent] == node)[0])
            if not kept.over[row, node]:
                assert kept.visits[row, parent, action] == inner[row, node] + 1
    going = ~np.asarray(jax.vmap(GAME.terminated)(jax.tree.map(lambda x: x[rows, child], found.trees.states)))
    more = on.visits.sum(1) - kept.visits[:, 0].sum(1)
    assert (more[going] == room).all()


def test_a_subtree_without_room_is_cut_and_a_new_game_begins_with_nothing(chosen: Any) -> None:
    states = jax.tree.map(lambda x: x[:50], chosen)
    found = jax.jit(lambda s: fast.search_batch(GAME, s, uniform, simulations=60))(states)
    fresh = np.arange(50) % 2 == 0
    kept = jax.device_get(
        jax.jit(lambda t, a: reuse.reroot(t, a, room=55, fresh=jnp.asarray(fresh)))(found.trees, found.action)
    )
    assert (kept.size[fresh] == 0).all()
    assert (kept.visits[fresh] == 0).all()
    assert kept.size.max() <= 61 - 55
    assert (kept.children < np.maximum(kept.size, 1)[:, None, None]).all()


def test_search_looks_ahead_in_an_environment() -> None:
    env = CartPole()
    leaning = CartPoleState(
        jnp.array([[0.0, 0.0, 0.15, 0.9], [0.0, 0.0, -0.15, -0.9]]), jnp.zeros(2, jnp.int32)
    )

    def evaluate(states: Any) -> Any:
        batch = states.t.shape[0]
        return jnp.ones((batch, 2)), jnp.zeros(batch)

    found = jax.jit(
        lambda s: fast.search_environment(
            env, s, evaluate, simulations=60, key=jax.random.key(0), temperature=0.0
        )
    )(leaning)
    assert np.asarray(found.action).tolist() == [1, 0]  # under the pole
    assert (np.asarray(found.visits).sum(1) == 60).all()
    # A reward of 1 a step, as far ahead as was looked: never more than the sum of the discounts.
    assert (np.asarray(found.q) <= (1 - 0.99**32) / 0.01).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda s: fast.search_batch(GAME, s, uniform, simulations=0),
        lambda s: fast.search_gumbel(GAME, s, uniform, simulations=4, key=jax.random.key(0), considered=0),
        lambda s: fast.search_environment(
            CartPole(), s, uniform, simulations=4, key=jax.random.key(0), depth=0
        ),
        lambda s: fast.search_batch(
            GAME, s, uniform, simulations=9, trees=fast.search_batch(GAME, s, uniform, simulations=3).trees
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(call: Callable[[Any], Any]) -> None:
    states = jax.tree.map(lambda x: x[None], GAME.init())
    with pytest.raises(ArgumentError):
        call(states)
