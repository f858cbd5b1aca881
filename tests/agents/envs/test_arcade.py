"""Games on small grids: rules, move by move."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.envs.arcade.asterix import AsterixState
from chainrule.agents.envs.arcade.seaquest import SeaquestState

ARCADE = ("catch", "snake", "breakout", "freeway", "asterix", "space-invaders", "seaquest")
KEY = jax.random.key(0)


class Play:
    """A game and its compiled functions, shared by all tests of it."""

    def __init__(self, name: str) -> None:
        self.env: Any = envs.make(name)
        self.step, self.reset = jax.jit(self.env.step), jax.jit(self.env.reset)
        self.start = jax.tree.map(np.asarray, self.reset(KEY)[0])

    def after(self, state: Any, *actions: str, key: Any = KEY) -> Any:
        """The last of several steps."""
        for action in actions:
            found = self.step(key, state, np.int32(self.env.actions.index(action)))
            state = found.state
        return jax.tree.map(np.asarray, found)

    def plane(self, found: Any, kind: str) -> np.ndarray:
        return np.argwhere(found.observation[..., list(self.env.kinds).index(kind)])


@pytest.fixture(scope="module")
def play() -> Any:
    made: dict[str, Play] = {}
    return lambda name: made.setdefault(name, Play(name))


@pytest.mark.parametrize(("column", "reward"), [(2, 1), (4, -1)])
def test_a_ball_is_caught_where_the_paddle_is(play: Any, column: int, reward: float) -> None:
    game = play("catch")
    state = game.start._replace(column=np.int32(column))
    early, last = game.after(state, *["stay"] * 8), game.after(state, *["stay"] * 9)
    assert (early.reward, bool(early.terminated)) == (0, False)
    assert (last.reward, bool(last.terminated)) == (reward, True)


def test_a_snake_moves_eats_and_grows(play: Any) -> None:
    game = play("snake")
    state = game.start._replace(food=np.array([5, 6], np.int32))
    eaten = game.after(state, "right")
    assert eaten.reward == 1
    assert eaten.state.length == 4
    assert sorted(map(tuple, game.plane(eaten, "body"))) == [(5, 3), (5, 4), (5, 5), (5, 6)]
    further = game.after(eaten.state, "up")
    assert sorted(map(tuple, game.plane(further, "body"))) == [(4, 6), (5, 4), (5, 5), (5, 6)]
    assert tuple(game.plane(further, "tail")[0]) == (5, 4)


def test_a_snake_cannot_turn_back_and_dies_at_the_wall_and_of_itself(play: Any) -> None:
    game = play("snake")
    state = game.start._replace(food=np.array([0, 0], np.int32))
    assert tuple(game.after(state, "left").state.head) == (5, 6)
    assert game.after(state, *["right"] * 5).terminated
    assert not game.after(state, *["right"] * 4).terminated
    long = state._replace(food=np.array([5, 6], np.int32))
    grown = game.after(long, "right").state._replace(food=np.array([5, 7], np.int32))
    grown = game.after(grown, "right").state._replace(food=np.array([0, 0], np.int32))
    assert game.after(grown, "down", "left", "up").terminated  # length 5: the body is still there
    # Length 4: where the tail was a step ago, a head may go.
    four = game.after(long, "right").state._replace(food=np.array([0, 0], np.int32))
    assert not game.after(four, "down", "left", "up").terminated


def test_the_ball_bounces_off_walls_bricks_and_paddle(play: Any) -> None:
    game = play("breakout")
    state = game.start._replace(
        ball=np.array([4, 5], np.int32), way=np.array([-1, 1], np.int32), struck=np.array(False)
    )
    hit = game.after(state, "stay")
    assert hit.reward == 1
    assert not hit.state.bricks[3, 6]
    assert hit.state.ball.tolist() == [4, 6]
    assert hit.state.way.tolist() == [1, 1]
    side = game.after(state._replace(ball=np.array([6, 9], np.int32)), "stay")
    assert side.state.ball.tolist() == [5, 9]
    assert side.state.way.tolist() == [-1, -1]
    down = state._replace(ball=np.array([8, 4], np.int32), way=np.array([1, 1], np.int32))
    above = game.after(down, "stay")
    assert above.state.way.tolist() == [-1, 1]
    edge = game.after(down._replace(paddle=np.int32(5)), "stay")
    assert edge.state.way.tolist() == [-1, -1]
    assert game.after(down._replace(paddle=np.int32(8)), "stay").terminated


def test_a_wall_that_is_gone_comes_back_when_the_ball_is_down(play: Any) -> None:
    game = play("breakout")
    state = game.start._replace(
        ball=np.array([8, 4], np.int32), way=np.array([1, 1], np.int32), bricks=np.zeros((10, 10), bool)
    )
    assert game.after(state, "stay").state.bricks.sum() == 30


def test_a_chicken_rests_between_moves_crosses_and_is_run_over(play: Any) -> None:
    game = play("freeway")
    far = game.start._replace(cars=np.zeros(8, np.int32), waits=np.full(8, 5, np.int32))
    assert game.after(far, "up").state.row == 8
    assert game.after(far, "up", "up", "up").state.row == 8
    assert game.after(far, "up", "up", "up", "up").state.row == 7
    across = game.after(far._replace(row=np.int32(1)), "up")
    assert (across.reward, int(across.state.row)) == (1, 9)
    hit = game.after(far._replace(cars=np.full(8, 4, np.int32)), "up")
    assert (hit.reward, int(hit.state.row), bool(hit.terminated)) == (0, 9, False)
    paces = np.array([1, -1, 2, -2, 3, -3, 4, -4], np.int32)
    moved = game.after(far._replace(paces=paces, waits=np.zeros(8, np.int32)), "stay").state
    assert moved.cars.tolist() == [1, 9] * 4
    assert moved.waits.tolist() == [1, 1, 2, 2, 3, 3, 4, 4]


def asterix(start: AsterixState, gold: bool) -> AsterixState:
    there = np.arange(8) == 4  # the lane of row 5
    return start._replace(
        there=there, columns=np.full(8, 6, np.int32), gold=np.full(8, gold), rightwards=np.zeros(8, bool)
    )


def test_gold_is_collected_and_enemies_are_the_end(play: Any) -> None:
    game = play("asterix")
    gold = game.after(asterix(game.start, True), "right")
    assert (gold.reward, bool(gold.terminated), int(gold.state.there.sum())) == (1, False, 0)
    enemy = game.after(asterix(game.start, False), "right")
    assert (enemy.reward, bool(enemy.terminated)) == (0, True)
    coming = asterix(game.start, False)._replace(move_in=np.int32(0))
    assert game.after(coming, "stay").terminated
    assert not game.after(coming, "up").terminated


def test_things_come_one_by_one_on_lanes_of_their_own_and_ever_quicker(play: Any) -> None:
    game = play("asterix")

    @jax.jit
    def spawned(state: Any) -> Any:
        def one(state: Any, key: Any) -> Any:
            # Beside every lane, where nothing is met.
            after = game.env.step(key, state._replace(row=jnp.int32(9)), jnp.zeros((), jnp.int32)).state
            return after, (after.there.sum(), after.columns, after.there)

        return jax.lax.scan(one, state, jax.random.split(KEY, 400))[1]

    count, columns, there = spawned(game.start)
    assert count[9] == 0
    assert count[10] == 1
    assert (np.asarray(columns)[np.asarray(there)] < 10).all()
    assert np.asarray(count)[300:].mean() > np.asarray(count)[:100].mean() > 0.5


def test_aliens_march_shoot_and_fall(play: Any) -> None:
    game = play("space-invaders")
    state = game.start
    marched = game.after(state._replace(move_in=np.int32(0)), "stay").state
    assert np.flatnonzero(marched.aliens.any(0)).tolist() == [1, 2, 3, 4, 5, 6]
    edge = marched._replace(aliens=np.roll(np.asarray(marched.aliens), -1, 1), move_in=np.int32(0))
    lower = game.after(edge, "stay").state
    assert np.flatnonzero(lower.aliens.any(1)).tolist() == [1, 2, 3, 4]
    assert lower.way == 1
    shot = game.after(state._replace(shoot_in=np.int32(0)), "stay").state
    assert np.argwhere(shot.theirs).tolist() == [[3, 5]]
    fired = game.after(state, "fire", "stay", "stay", "stay")
    assert np.argwhere(fired.state.own).tolist() == [[5, 5]]
    hit = game.after(fired.state._replace(theirs=np.zeros((10, 10), bool)), "stay", "stay")
    assert (hit.reward, int(hit.state.aliens.sum())) == (1, 23)


def test_a_shot_or_a_landing_alien_is_the_end_and_an_empty_sky_a_new_wave(play: Any) -> None:
    game = play("space-invaders")
    state = game.start
    above = np.zeros((10, 10), bool)
    above[8, 5] = True
    assert game.after(state._replace(theirs=above), "stay").terminated
    assert not game.after(state._replace(theirs=above), "left").terminated
    low = np.zeros((10, 10), bool)
    low[9, 0] = True
    assert game.after(state._replace(aliens=low, move_in=np.int32(0)), "stay").terminated
    one = np.zeros((10, 10), bool)
    one[4, 5] = True
    shot = np.zeros((10, 10), bool)
    shot[5, 5] = True
    won = game.after(state._replace(aliens=one, own=shot), "stay")
    assert (won.reward, int(won.state.aliens.sum()), int(won.state.wave)) == (1, 24, 1)


def with_one(state: SeaquestState, who: str, **fields: Any) -> SeaquestState:
    """The state with one enemy or diver."""
    swimmers = getattr(state, who)
    changed = {name: np.array(getattr(swimmers, name)) for name in ("there", *fields)}
    changed["there"][0] = True
    for name, value in fields.items():
        changed[name][0] = value
    return state._replace(**{who: swimmers._replace(**changed)})


def test_enemies_are_shot_and_kill_those_they_meet(play: Any) -> None:
    game = play("seaquest")
    deep = game.start._replace(row=np.int32(4), right=np.array(True), surfaced=np.array(False))
    fish = with_one(deep, "enemies", rows=4, columns=7, right=False, move_in=4)
    assert game.after(fish, "fire").reward == 0
    assert game.after(fish, "fire", "stay").reward == 1
    near = with_one(deep, "enemies", rows=4, columns=6, right=False, move_in=0)
    assert game.after(near, "stay").terminated
    assert not game.after(near, "up").terminated
    shooter = with_one(deep, "enemies", rows=4, columns=8, right=False, submarine=True, move_in=4, shoot_in=0)
    assert not game.after(shooter, "stay", "stay", "stay").terminated
    assert game.after(shooter, "stay", "stay", "stay", "stay").terminated


def test_divers_are_taken_aboard_and_six_of_them_are_worth_the_air_that_is_left(play: Any) -> None:
    game = play("seaquest")
    deep = game.start._replace(row=np.int32(4), surfaced=np.array(False))
    taken = game.after(with_one(deep, "divers", rows=4, columns=4, move_in=3), "left")
    assert int(taken.state.aboard) == 1
    assert not taken.state.divers.there.any()
    full = deep._replace(aboard=np.int32(6), row=np.int32(1), oxygen=np.int32(101))
    up = game.after(full, "up")
    assert (up.reward, int(up.state.aboard), int(up.state.oxygen)) == (5, 0, 200)
    some = game.after(full._replace(aboard=np.int32(3)), "up")
    assert (some.reward, int(some.state.aboard), bool(some.terminated)) == (0, 2, False)


def test_without_air_or_without_divers_at_the_surface_it_is_the_end(play: Any) -> None:
    game = play("seaquest")
    deep = game.start._replace(row=np.int32(1), surfaced=np.array(False))
    assert game.after(deep, "up").terminated
    assert game.after(deep._replace(oxygen=np.int32(0)), "stay").terminated
    assert not game.after(deep._replace(oxygen=np.int32(1)), "stay").terminated
    assert not game.after(game.start, "stay", "stay").terminated


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in envs.names() if not name.startswith("cliff")])
def test_random_actions_earn_what_is_said(name: str, compiled_well: None) -> None:
    env: Any = envs.make(name)
    episodes = 1024
    said = envs.describe(name).random_return

    @eqx.filter_jit
    def earned(keys: Any) -> Any:
        def go_on(carry: Any) -> Any:
            state, total, over, t = carry
            step_keys = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, t)))(keys)
            actions = jax.vmap(env.action_space.sample)(step_keys[:, 0])
            after = jax.vmap(env.step)(step_keys[:, 1], state, actions)
            total = total + jnp.where(over, 0, after.reward)
            return after.state, total, over | after.terminated | after.truncated, t + 1

        state, _ = jax.vmap(env.reset)(keys)
        begun = (state, jnp.zeros(episodes), jnp.zeros(episodes, bool), 1)
        return jax.lax.while_loop(lambda carry: ~carry[2].all(), go_on, begun)[1]

    found = np.asarray(earned(jax.random.split(jax.random.key(11), episodes)), np.float64)
    assert said is not None
    assert abs(found.mean() - said) <= 5 * found.std() / np.sqrt(episodes) + 0.02 * abs(said)
