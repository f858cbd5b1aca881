"""Environments that break a rule are named before anything is trained; those that keep them are not."""

import random
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from chainrule.agents import envs, sources
from chainrule.core.errors import ArgumentError

GOOD = """
import jax
import jax.numpy as jnp

ACTIONS = 3
PARAMS = {"push": 0.5}


def reset(key, params):
    x = jax.random.uniform(key, (2,))
    return {"x": x, "t": 0}, x


def step(key, state, action, params):
    x = jnp.clip(state["x"] + params["push"] * (action - 1), -5, 5)
    t = state["t"] + 1
    return {"x": x, "t": t}, x, -jnp.abs(x).sum(), False, t >= 20, {"far": jnp.abs(x).max()}
"""


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def one(text: str) -> Path:
        file = tmp_path / "my_env.py"
        file.write_text(text, encoding="utf-8")
        return file

    return one


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("own") / "my_env.py"
    file.write_text(GOOD, encoding="utf-8")
    return envs.load(file, push=0.25)


def test_a_file_with_two_functions_is_an_environment(good: Any) -> None:
    assert isinstance(good.action_space, envs.Discrete)
    assert good.action_space.n == 3
    assert good.observation_space.shape == (2,)
    assert good.params == {"push": 0.25}
    state, seen = eqx.filter_jit(good.reset)(jax.random.key(0))
    after = eqx.filter_jit(good.step)(jax.random.key(1), state, np.int32(2))
    np.testing.assert_allclose(after.observation, seen + 0.25, rtol=1e-6)
    np.testing.assert_allclose(after.info["far"], np.abs(after.observation).max())
    assert not after.terminated


def test_what_random_steps_have_shown_is_said(good: Any) -> None:
    found = envs.check_env(good, steps=100)
    assert (found.steps, found.terminated, found.truncated) == (100, 0, 5)
    assert found.lowest_reward <= found.highest_reward <= 0
    assert found.notes == ()


def test_functions_need_no_params_and_actions_may_be_numbers(write: Any) -> None:
    env = envs.load(
        write(
            "import jax.numpy as jnp\n"
            "ACTIONS = ([-1, -2], [1, 2])\n"
            "OBSERVATIONS = 7\n"
            "def reset(key):\n    return 0, 0\n"
            "def step(key, state, action):\n"
            "    state = (state + 1) % 7\n    return state, state, action.sum(), state == 0, False, {}\n"
        )
    )
    assert isinstance(env.observation_space, envs.Discrete)
    assert isinstance(env.action_space, envs.Box)
    assert env.action_space.low.tolist() == [-1, -2]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "x, -jnp.abs(x).sum(), False, t >= 20,",
            "x, -jnp.abs(x).sum(), t >= 20,",
            "step returns 5 values, six are",
        ),
        ("-jnp.abs(x).sum(), False", "-jnp.abs(x).sum() / 0 * 0, False", "not a finite number"),
        ("-jnp.abs(x).sum(), False", "jnp.where(t > 3, jnp.inf, 0.0), False", "not a finite number"),
        ("x = jnp.clip", "raise RuntimeError('boom')\n    x = jnp.clip", "step fails: RuntimeError: boom"),
        (
            "x = jax.random",
            "raise RuntimeError('boom')\n    x = jax.random",
            "reset fails: RuntimeError: boom",
        ),
        ("x = jax.random", "if key[0] > 0: pass\n    x = jax.random", "reset "),
        (
            "-jnp.abs(x).sum(), False",
            "-jnp.abs(x), False",
            r"the reward is float32\[2\], not one real number",
        ),
        (", False, t", ", 0, t", r"terminated is int32\[\], not one truth value"),
        ("t = state['t'] + 1", "t = state['t'] + 1.0", "changes from int32"),
        ("x, -jnp", "x[:1], -jnp", r"step: the observation is float32\[1\], its space says float32\[2\]"),
        ("x = jnp.clip", "if action == 1: pass\n    x = jnp.clip", "step cannot be compiled"),
        ("params['push'] *", "__import__('random').random() *", "two different results"),
        ("ACTIONS = 3", "", "has no ACTIONS"),
        ("ACTIONS = 3", "ACTIONS = 'many'", "ACTIONS='many' is no space"),
        ("ACTIONS = 3", "ACTIONS = 3\nOBSERVATIONS = (0, 0.1)", "its space says"),
        ("ACTIONS = 3", "ACTIONS = 3\nOBSERVATIONS = ([-1, -1], [1, 1])", "lies outside its space"),
        ("def reset(key, params)", "def begin(key, params)", "has no function reset"),
        ("def step(key, state, action, params)", "def step(state)", "step takes 1 arguments"),
        (
            "x = jax.random.uniform(key, (2,))",
            "x = jnp.full(2, jnp.nan)",
            "reset: there is a value that is not",
        ),
        ("{'x': x, 't': 0}, x", "{'x': x, 't': 0}, x / 0", "reset: there is a value that is not"),
        ("{'x': x, 't': 0}, x", "{'x': x / 0 * 0, 't': 0}, x", "reset: there is a value that is not"),
        ("t}, x, -jnp", "t}, x / (t < 5), -jnp", "not a finite number"),
        (
            "ACTIONS = 3",
            "ACTIONS = 3\nOBSERVATIONS = ([2, 2], [3, 3])",
            "reset: the observation lies outside",
        ),
        (
            "uniform(key, (2,))",
            "uniform(key, (2,)) + __import__('random').random()",
            "reset: the same arguments",
        ),
        ("import jax.numpy as jnp", "import jax.nunpy as jnp", "fails when it is run: ModuleNotFoundError"),
        ("{'push': 0.5}", "0.5", "PARAMS is float"),
        ("return {'x': x, 't': 0}, x", "return x", "reset must return two values"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(write: Any, before: str, after: str, message: str) -> None:
    text = GOOD.replace('"', "'")
    assert before in text
    random.seed(0)
    with pytest.raises(ArgumentError, match=message) as caught:
        envs.load(write(text.replace(before, after)))
    assert "my_env.py" in str(caught.value)


def test_unknown_numbers_get_a_suggestion_and_all_must_be_finite(write: Any) -> None:
    file = write(GOOD)
    with pytest.raises(ArgumentError, match=r"unknown setting 'psuh' \(did you mean 'push'\?\)"):
        envs.load(file, psuh=1.0)
    with pytest.raises(ArgumentError, match="push=nan: it must be a finite number"):
        envs.load(file, push=float("nan"))
    with pytest.raises(ArgumentError, match="there is no file"):
        envs.load(file.with_name("other.py"))


def test_numbers_of_a_world_may_have_any_name(write: Any) -> None:
    file = str(write(GOOD.replace('"push": 0.5', '"push": 0.5, "name": 1.0, "check": 0.0')))
    assert sources.make(file, name=2.0, check=1.0).params == {"push": 0.5, "name": 2.0, "check": 1.0}
    for source in (str(write(GOOD)), "cartpole", "tic-tac-toe"):
        for name in ("name", "check", "file"):
            with pytest.raises(ArgumentError, match=f"unknown setting '{name}'"):
                sources.make(source, **{name: 0})


def test_an_environment_that_never_ends_is_said_to(write: Any) -> None:
    endless = envs.check_env(envs.load(write(GOOD.replace("t >= 20", "False"))), steps=50)
    assert endless.endless in endless.notes
    assert endless.endless.startswith("no episode was over within 50 random steps")


def test_rewards_after_an_end_are_noted() -> None:
    assert any("after an end" in note for note in envs.check_env(envs.make("cartpole"), steps=100).notes)


@pytest.mark.parametrize("name", envs.names())
def test_every_bundled_environment_keeps_the_rules(name: str) -> None:
    env = envs.make(name)
    found = envs.check_env(env, steps=1000, seed=1)
    assert np.isfinite([found.lowest_reward, found.highest_reward]).all()
    described = envs.describe(name)
    assert described.summary
    assert described.citation
    assert all(setting.description for setting in described.settings)


@pytest.mark.parametrize("name", envs.names())
def test_every_drawing_of_an_environment_has_the_same_size(name: str) -> None:
    env = envs.make(name)
    assert isinstance(env, envs.HasDrawing)
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    after = jax.jit(env.step)(jax.random.key(1), state, env.action_space.sample(jax.random.key(2)))
    drawings = [env.render(jax.tree.map(np.asarray, one)) for one in (state, after.state)]
    assert len({(drawing.width, drawing.height) for drawing in drawings}) == 1
    assert drawings[0].width * drawings[0].height <= 300_000
    assert drawings[0].to_svg().startswith("<svg")


def test_names_and_settings_are_checked() -> None:
    with pytest.raises(ArgumentError, match=r"unknown environment 'frozenlake' \(did you mean 'frozen-lake'"):
        envs.make("frozenlake")
    with pytest.raises(ArgumentError, match=r"gravity=-1\.0"):
        envs.make("cartpole", gravity=-1.0)
    with pytest.raises(ArgumentError, match="gravity=inf"):
        envs.make("cartpole", gravity=float("inf"))
    with pytest.raises(ArgumentError, match="limit=0"):
        envs.make("cartpole", limit=0)
    with pytest.raises(ArgumentError, match="size='9x9'"):
        envs.make("frozen-lake", size="9x9")
