"""Policy-value networks: their shapes, their loss against a formula written out, and what training leaves alone."""

import equinox as eqx
import jax
import numpy as np
import pytest

from chainrule.agents.envs import make as make_env
from chainrule.agents.games.tic_tac_toe import TicTacToe
from chainrule.agents.learning.base import Decision
from chainrule.agents.policy_value.network import DenseBoardNetwork, PolicyValueNetwork, ResidualTower
from chainrule.agents.policy_value.policy import UnsearchedPolicy
from chainrule.agents.policy_value.sizing import check_alike, check_game, network_for
from chainrule.agents.policy_value.training import (
    Examples,
    TrainingHyper,
    arrays,
    begin_fit,
    loss,
    restore,
    turned,
    update,
)
from chainrule.core.errors import ArgumentError

SHAPE, ACTIONS, BATCH = (3, 3, 2), 9, 6


@pytest.fixture(scope="module")
def tower() -> ResidualTower:
    """A small one whose heads are not zero any more."""
    fresh = ResidualTower(SHAPE, ACTIONS, blocks=1, width=4, key=jax.random.key(0))
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda leaf: (
            leaf + 0.02 * rng.standard_normal(leaf.shape).astype(np.float32) ** 2
            if eqx.is_array(leaf)
            else leaf
        ),
        fresh,
    )


@pytest.fixture(scope="module")
def examples() -> Examples:
    """Positions of which the last has no outcome."""
    rng = np.random.default_rng(1)
    policy = rng.dirichlet(np.ones(ACTIONS), BATCH).astype(np.float32)
    outcome = np.array([1, -1, 0, 1, -1, 0], np.float32)
    known = np.array([1, 1, 1, 1, 1, 0], np.float32)
    planes = rng.integers(0, 2, (BATCH, *SHAPE)).astype(np.float32)
    return Examples(planes, policy, outcome, known)


def test_the_heads_have_the_published_shapes() -> None:
    net = jax.eval_shape(lambda k: arrays(network_for_go(k)), jax.random.key(0))
    assert net.stem.conv.weight.shape == (3, 3, 17, 256)
    assert len(net.blocks) == 20
    assert net.policy_maps.conv.weight.shape == (1, 1, 256, 2)
    assert net.policy.weight.shape == (2 * 361, 362)
    assert net.value_maps.conv.weight.shape == (1, 1, 256, 1)
    assert net.value_hidden.weight.shape == (361, 256)
    assert net.value.weight.shape == (256, 1)


def network_for_go(key: jax.Array) -> PolicyValueNetwork:
    """The network of AlphaGo Zero."""
    return ResidualTower((19, 19, 17), 362, blocks=20, width=256, key=key)


def test_a_fresh_network_tries_all_moves_alike_and_expects_nothing() -> None:
    net = network_for(TicTacToe(), "auto", 0, 8, jax.random.key(0))
    assert isinstance(net, DenseBoardNetwork)
    logits, value = eqx.filter_jit(net)(np.ones((2, 3, 3, TicTacToe().observation_shape[2]), np.float32))
    np.testing.assert_array_equal(logits, 0)
    np.testing.assert_array_equal(value, 0)


@eqx.filter_jit
def _loss(net: PolicyValueNetwork, examples: Examples, decay: float) -> tuple:
    return loss(net, examples, decay)


def test_the_loss_is_the_published_one(tower: ResidualTower, examples: Examples) -> None:
    total, (parts, _) = _loss(tower, examples, 1e-2)
    (logits, values), _ = eqx.filter_jit(lambda net, x: net.advance(x))(tower, examples.planes)
    logits, values = np.asarray(logits, np.float64), np.asarray(values, np.float64)
    assert np.abs(values).max() <= 1
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    policy = -(examples.policy * log_p).sum(1).mean()
    value = ((examples.outcome - values)[:5] ** 2).mean()
    trained = [
        leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(arrays(tower))
        if path[-1].name not in ("mean", "var")
    ]
    squares = sum((np.asarray(leaf, np.float64) ** 2).sum() for leaf in trained)
    np.testing.assert_allclose(parts["policy_loss"], policy, rtol=1e-5)
    np.testing.assert_allclose(parts["value_loss"], value, rtol=1e-5)
    np.testing.assert_allclose(total, policy + value + 1e-2 * squares, rtol=1e-5)
    right = (np.sign(values) == examples.outcome)[[0, 1, 3, 4]].mean()
    np.testing.assert_allclose(parts["value_accuracy"], right)


def test_a_position_without_an_outcome_does_not_move_the_value_head(
    tower: ResidualTower, examples: Examples
) -> None:
    unknown = examples._replace(known=np.zeros(BATCH, np.float32))
    grad = eqx.filter_jit(eqx.filter_grad(lambda net, e: loss(net, e, 0.0)[0]))
    none, some = grad(tower, unknown), grad(tower, examples)
    np.testing.assert_array_equal(none.value.weight, 0)
    assert np.abs(none.policy.weight).max() > 0
    assert np.abs(some.value.weight).max() > 0


def test_updates_fit_the_examples_and_the_average_follows(tower: ResidualTower, examples: Examples) -> None:
    step = eqx.filter_jit(lambda state, e: update(tower, state, e, TrainingHyper(1e-2, 0.0, 0.5)))
    state = begin_fit(tower)
    losses = []
    for _ in range(40):
        before = state
        state, metrics = step(state, examples)
        losses.append(float(metrics["loss"]))
    assert losses[-1] < losses[0] - 0.5
    # Running statistics move by their own rule, and the average is half way between the old and the new.
    assert np.abs(state.weights.stem.norm.mean - before.weights.stem.norm.mean).max() > 0
    expected = 0.5 * before.average.policy.weight + 0.5 * state.weights.policy.weight
    np.testing.assert_allclose(state.average.policy.weight, expected, rtol=1e-5)
    assert int(state.updates) == 40


def test_moves_turn_with_the_board() -> None:
    """A stone on a cell and the probability of that cell stay together under all eight symmetries."""
    game = TicTacToe()
    cells = np.arange(9)
    planes = np.zeros((9, 3, 3, 2), np.float32)
    planes[cells, cells // 3, cells % 3, 0] = 1
    many = Examples(np.tile(planes, (30, 1, 1, 1)), np.tile(np.eye(9, dtype=np.float32), (30, 1)), None, None)
    out = jax.jit(lambda key: turned(key, many, game.symmetries()))(jax.random.key(0))
    np.testing.assert_array_equal(out.planes[..., 0].reshape(-1, 9), out.policy)
    seen = {tuple(row) for row in np.asarray(out.policy).argmax(1).reshape(30, 9).T.tolist()}
    assert len(seen) == 9
    # A corner reaches four cells, the middle one.
    by_cell = np.asarray(out.policy).argmax(1).reshape(30, 9)
    assert set(by_cell[:, 0]) == {0, 2, 6, 8}
    assert set(by_cell[:, 4]) == {4}


def test_the_policy_keeps_to_legal_moves() -> None:
    net = network_for(TicTacToe(), "dense", 1, 4, jax.random.key(0))
    legal = np.zeros(9, bool)
    legal[[2, 5]] = True
    planes = np.zeros(TicTacToe().observation_shape, np.float32)
    policy = UnsearchedPolicy(net)

    @eqx.filter_jit
    def act(key: jax.Array, planes: jax.Array, legal: jax.Array, greedy: bool) -> Decision:
        return policy.act(key, planes, (), greedy=greedy, legal=legal)

    drawn = [int(act(jax.random.key(seed), planes, legal, False).action) for seed in range(8)]
    assert set(drawn) == {2, 5}
    decision = act(jax.random.key(0), planes, legal, True)
    np.testing.assert_allclose(decision.preferences, legal / 2, atol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ArgumentError, match="learns games of two, and CartPole is none"):
        check_game("alphazero", make_env("cartpole"))
    small = network_for(TicTacToe(), "dense", 1, 4, jax.random.key(0))
    with pytest.raises(ArgumentError, match="another size"):
        check_alike(small, network_for(TicTacToe(), "dense", 1, 5, jax.random.key(0)))
    assert restore(small, arrays(small)).policy.weight is small.policy.weight
