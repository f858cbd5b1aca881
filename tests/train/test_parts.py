"""Models with several parts, against a loop written by hand: order, repeats, rests, and an optimiser for each."""

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.data import Batches, Data
from chainrule.train import Run, fit
from tests.train.toys import Game, leaves, numbers, train

STEPS, BATCH = 12, 16
SETTINGS = {
    "optimizer": {"name": "sgd", "lr": 0.2},
    "parts": {"critic": {"name": "momentum", "momentum": 0.5, "lr": 0.1}},
}


@pytest.fixture(scope="module")
def data() -> Data:
    return numbers(40, 1, sizes=(0, 0))


def play(data: Data, repeat: int, every: int, most: float = np.inf) -> dict[str, np.ndarray]:
    """Positions after every step and losses before every last move, by hand in double precision."""
    x, y, velocity = 1.0, -0.5, 0.0
    values = data.train.arrays["x"].astype(np.float64)[:, 0]
    batches = Batches(len(data.train), BATCH, seed=0)
    path: dict[str, list[float]] = {name: [] for name in ("x", "y", "critic.loss", "maker.loss")}
    for step in range(STEPS):
        for r in range(repeat):
            center = values[batches.indices(step * repeat + r, 1)[0]].mean()
            gap = y + x - center
            velocity = 0.5 * velocity + gap
            y = float(np.clip(y - 0.1 * velocity, -most, most))
        path["critic.loss"].append(gap**2 / 2)
        if step % every == 0:
            path["maker.loss"].append(x * y + x**2 / 2)
            x = x - 0.2 * (y + x)  # sees the critic that has just moved
        else:
            path["maker.loss"].append(np.nan)
        path["x"].append(x)
        path["y"].append(y)
    return {name: np.array(values) for name, values in path.items()}


@pytest.mark.parametrize(("repeat", "every"), [(1, 1), (3, 1), (1, 2), (2, 3)])
def test_parts_move_as_in_the_loop_written_by_hand(repeat: int, every: int, data: Data) -> None:
    model, seen, state = train(Game(jnp.array(1.0), jnp.array(-0.5), repeat, every), data, STEPS, **SETTINGS)
    expected = play(data, repeat, every)
    np.testing.assert_allclose(model.x, expected["x"][-1], rtol=1e-5)
    np.testing.assert_allclose(model.y, expected["y"][-1], rtol=1e-5)
    for name in ("critic.loss", "maker.loss"):
        np.testing.assert_allclose(seen[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)
    total = expected["critic.loss"] + expected["maker.loss"]
    np.testing.assert_allclose(seen["loss"], total, rtol=1e-4, atol=1e-6)
    moved = ~np.isnan(expected["maker.loss"])
    np.testing.assert_allclose(seen["critic.lr"], np.full(STEPS, 0.1), rtol=1e-6)
    np.testing.assert_allclose(seen["maker.lr"][moved], np.full(moved.sum(), 0.2), rtol=1e-6)
    assert set(state.optimizers) == {"critic", "maker"}


def test_a_part_is_projected_after_every_one_of_its_moves(data: Data) -> None:
    model, seen, _ = train(Game(jnp.array(1.0), jnp.array(-0.5), 3, 1, 0.45), data, STEPS, **SETTINGS)
    expected = play(data, 3, 1, 0.45)
    assert (np.abs(expected["y"]) == 0.45).any(), "the box was never met"
    np.testing.assert_allclose(model.y, expected["y"][-1], rtol=1e-5)
    np.testing.assert_allclose(seen["critic.loss"], expected["critic.loss"], rtol=1e-4, atol=1e-6)
    assert (seen["critic.update_norm"] > 0).all()


def test_a_part_moves_only_what_it_owns(data: Data) -> None:
    # Neither part ever steps: its rate is too small to be seen in single precision.
    still = {"parts": {"maker": {"lr": 1e-30}}, "optimizer": {"name": "sgd", "lr": 0.1}}
    model, _, _ = train(Game(jnp.array(1.0), jnp.array(-0.5)), data, 3, **still)
    assert float(model.x) == 1.0
    assert float(model.y) != -0.5


@pytest.fixture(scope="module")
def run(data: Data, tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("game") / "run"
    game = Game(jnp.array(1.0), jnp.array(-0.5), 2, 3)
    settings = {"steps": STEPS, "batch": BATCH, "log_every": 6, "schedule": {"name": "constant"}}
    return fit(game, data, run=path, **SETTINGS, **settings)


def test_what_is_logged_of_a_part_is_the_mean_over_the_steps_in_which_it_moved(run: Run, data: Data) -> None:
    expected = play(data, 2, 3)
    for name in ("critic.loss", "maker.loss"):
        steps, values = run.curve(name)
        assert steps.tolist() == [6, 12]
        np.testing.assert_allclose(values, np.nanmean(expected[name].reshape(2, 6), axis=1), rtol=1e-4)
    np.testing.assert_allclose(run.curve("maker.lr")[1], [0.2, 0.2], rtol=1e-6)


def test_a_game_can_be_saved_and_opened(run: Run, data: Data) -> None:
    expected = play(data, 2, 3)
    model = Run.open(run.path, model=Game(jnp.array(0.0), jnp.array(0.0), 2, 3)).model
    np.testing.assert_allclose(model.x, expected["x"][-1], rtol=1e-5)
    np.testing.assert_allclose(model.y, expected["y"][-1], rtol=1e-5)
    assert leaves(model).keys() == {".x", ".y"}


def test_settings_for_a_part_that_does_not_exist_are_refused(data: Data) -> None:
    with pytest.raises(ArgumentError, match=r"parts.citric: this model has no such part"):
        train(Game(jnp.array(1.0), jnp.array(0.0)), data, 1, parts={"citric": {"lr": 1.0}})
