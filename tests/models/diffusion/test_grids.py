"""Noise levels that samplers visit: their ends, and that everything that walks takes the same."""

import functools
import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Schema
from chainrule.models.diffusion import samplers, schedules
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.diffusion import Diffusion
from chainrule.models.diffusion.process import Level, per_example
from chainrule.models.diffusion.score import ScoreModel

KEY = jax.random.key(0)
POINTS = Schema("points", (2,))


@functools.cache
def build(**settings: Any) -> Diffusion:
    model = models.build("diffusion", POINTS, width=8, depth=1, **settings)
    assert isinstance(model, Diffusion)
    return model


@pytest.mark.parametrize("spacing", schedules.SPACINGS)
@pytest.mark.parametrize("name", ["cosine", "vp-linear", "rectified"])
def test_the_first_and_last_levels_are_those_asked_for(name: str, spacing: str) -> None:
    levels = schedules.grid(schedules.schedule(name), 7, spacing, sigma_min=0.05, sigma_max=80.0)
    sigma = np.asarray(levels.at(slice(None, -1)).sigma)
    np.testing.assert_allclose(sigma[[0, -1]], [80, 0.05], rtol=1e-5)
    assert (np.diff(sigma) < 0).all()
    assert (levels.a[-1], levels.s[-1]) == (1, 0)


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ({"sigma_max": 500.0}, r"sigma_max=500: the noise of the schedule goes from 0\.01 to 157"),
        ({"sigma_min": 1e-4}, "sigma_min=0.0001: the noise of the schedule goes from"),
        ({"sigma_min": 5.0, "sigma_max": 2.0}, "noise runs from much to little"),
    ],
)
def test_noise_beyond_the_schedule_is_refused(ends: dict[str, float], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        schedules.grid(schedules.schedule("linear"), 7, **ends)


@pytest.mark.parametrize("name", ["linear", "cosine", "vp-linear", "logsnr-linear", "rectified", "karras"])
def test_the_time_of_a_noise_level_is_found(name: str) -> None:
    schedule = schedules.schedule(name)
    for time in (0.2, 0.7, 0.99):
        assert schedule.time(float(schedule.lam(time))) == pytest.approx(time, abs=1e-6)


@pytest.mark.parametrize("noise", ["cosine", "linear", "vp-linear", "logsnr-linear"])
@pytest.mark.parametrize("spacing", schedules.SPACINGS)
def test_samples_start_where_data_of_their_size_are_noise(noise: str, spacing: str) -> None:
    sigma = np.asarray(build(noise=noise).levels(5, spacing).at(slice(None, -1)).sigma)
    assert sigma[0] == pytest.approx(schedules.enough_noise(2), rel=1e-4)


def test_a_schedule_that_ends_earlier_is_walked_whole() -> None:
    images = models.build("diffusion", Schema("image", (32, 32, 3)), width=8, depth=1, noise="linear")
    assert isinstance(images, Diffusion)
    whole = schedules.grid(images.schedule, 1000)
    assert np.array_equal(images.levels(1000).a, whole.a)
    score = models.build("score", POINTS, width=8, depth=1, high=100.0)
    assert isinstance(score, ScoreModel)
    assert float(score.levels(5).sigma[0]) == pytest.approx(100, rel=1e-4)


def test_walks_that_are_compared_take_the_levels_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Level] = []

    def walk(denoiser: Any, x: Any, levels: Level, *rest: Any, **more: Any) -> samplers.Drawn:
        seen.append(levels)
        return samplers.Drawn(x)

    monkeypatch.setattr(samplers, "walk", walk)
    model, noise = build(), jnp.zeros((3, 2))
    names = set(model.samplers()) & set(samplers.samplers)
    # A hundred evaluations at each level, and as many as it takes.
    assert set(samplers.samplers) - names == {"langevin", "dormand-prince"}
    evaluations = {"heun": 11, "dpm-solver-2s": 11, "runge-kutta": 12}
    for name in sorted(names):
        seen.clear()
        model.sample(KEY, 3, sampler=name, steps=6)
        model.walk(noise, name, evaluations.get(name, 6), KEY)
        np.testing.assert_array_equal(seen[0].a, seen[1].a, err_msg=name)


@final
class _Saturated(Denoiser):
    """The noise in N(0, 1/4), as a network gives it: a little off, and never large."""

    target: str = eqx.field(static=True, default="eps")

    def predict(self, x: jax.Array, level: Level, condition: Any = None) -> jax.Array:
        del condition
        a, s = per_example(level.a, x), per_example(level.s, x)
        return jnp.clip(s * x / (a * a / 4 + s * s), -3, 3) + 0.02


@pytest.mark.parametrize(
    "options", [{}, {"spacing": "karras"}, {"sampler": "dpm-solver", "steps": 20}], ids=str
)
def test_an_estimate_of_the_noise_that_is_a_little_off_gives_samples_a_little_off(options: dict) -> None:
    model = eqx.tree_at(lambda m: m.denoiser, build(target="eps"), _Saturated())
    drawn = np.asarray(model.sample(KEY, 1000, **options))
    assert drawn.std() == pytest.approx(0.5, abs=0.1)
    assert np.abs(drawn.mean(axis=0)).max() < 0.15


def test_noise_of_a_walk_is_an_option() -> None:
    model = eqx.tree_at(lambda m: m.denoiser, build(target="eps"), _Saturated())
    usual, asked = (model.sample(KEY, 5, **o) for o in ({}, {"sigma_max": 10.0, "sigma_min": 0.1}))
    assert not np.array_equal(usual, asked)
    end = math.exp(
        -model.schedule.ends()[1] / 2
    )  # what the default saves from: the whole of the cosine schedule
    assert np.asarray(model.sample(KEY, 100, sigma_max=end)).std() > 10
    with pytest.raises(ArgumentError, match="sigma_max=0: sigma_max must be above 0"):
        model.sample(KEY, 5, sigma_max=0)


def test_the_size_of_enough_noise_follows_from_the_divergence() -> None:
    for count in (1, 2, 50):
        assert count / (2 * schedules.enough_noise(count) ** 2) == pytest.approx(0.002)
    assert schedules.enough_noise(10_000) == 160
    assert -2 * math.log(schedules.enough_noise(10_000)) == pytest.approx(-10, abs=0.2)
