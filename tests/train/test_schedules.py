"""Learning-rate schedules as factors of the peak: numbers at the start, the end and in between."""

import math
from collections.abc import Callable
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.train.config import LearningRateSchedule
from chainrule.train.schedules import schedule, shapes


def factors(*cases: tuple[int, dict]) -> list[np.ndarray]:
    """For each (steps, settings): the factor at every step from 0 to `steps`, both included, in double precision."""

    def all_at_once() -> list[jax.Array]:
        found = [
            (schedule(LearningRateSchedule(**settings), steps), jnp.arange(steps + 1))
            for steps, settings in cases
        ]
        return [jax.vmap(lambda t, f=f: jnp.asarray(f(t), float))(at) for f, at in found]

    with jax.enable_x64(True):
        return [np.asarray(values) for values in jax.jit(all_at_once)()]


def test_every_name_of_the_schema_is_a_schedule() -> None:
    assert set(get_args(LearningRateSchedule.model_fields["name"].annotation)) == set(shapes)


def test_one_cycle_of_a_thousand_steps_to_a_hundredth() -> None:
    rate = 0.01 * factors((1000, {"name": "1cycle"}))[0]
    assert rate[0] == pytest.approx(0.0004)
    assert rate[300] == pytest.approx(0.01)
    assert rate.argmax() == 300
    assert rate[1000] == pytest.approx(4e-8)
    assert (np.diff(rate[:301]) > 0).all()
    assert (np.diff(rate[300:]) < 0).all()
    assert rate[150] == pytest.approx((0.0004 + 0.01) / 2)  # half of a cosine


def test_one_cycle_agrees_with_torch_up_to_the_step_torch_starts_earlier(oracle: Callable) -> None:
    torch = oracle("torch")
    method = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    theirs, rates = torch.optim.lr_scheduler.OneCycleLR(method, max_lr=0.01, total_steps=1001), []
    for _ in range(1001):
        rates.append(theirs.get_last_lr()[0])
        method.step()
        if len(rates) < 1001:
            theirs.step()
    # torch puts the peak at 0.3 x 1001 - 1 steps and the end at 1000.
    ours, largest_change = 0.01 * factors((1000, {"name": "1cycle"}))[0], np.abs(np.diff(rates)).max()
    np.testing.assert_allclose(ours, rates, atol=largest_change)


def test_cosine_falls_from_one_to_its_floor() -> None:
    half = (1 + np.cos(math.pi * np.arange(101) / 100)) / 2
    plain, floored = factors((100, {"name": "cosine"}), (100, {"name": "cosine", "floor": 0.2}))
    np.testing.assert_allclose(plain, half, atol=1e-12)
    np.testing.assert_allclose(floored, 0.2 + 0.8 * half, atol=1e-12)


def test_linear_falls_evenly_to_its_floor() -> None:
    (found,) = factors((50, {"name": "linear", "floor": 0.1}))
    np.testing.assert_allclose(found, np.linspace(1, 0.1, 51), atol=1e-12)


def test_exponential_falls_by_the_same_factor_every_step() -> None:
    ends = {0.0: 1e-3, 1e-5: 1e-5, 0.5: 0.5, 1.0: 1.0}
    found = factors(*((50, {"name": "exponential", "floor": floor}) for floor in ends))
    for end, values in zip(ends.values(), found, strict=True):
        np.testing.assert_allclose(values, end ** (np.arange(51) / 50), rtol=1e-9)


def test_step_drops_at_whole_multiples() -> None:
    (found,) = factors((50, {"name": "step", "every": 20, "gamma": 0.5}))
    np.testing.assert_allclose(found, 0.5 ** (np.arange(51) // 20), rtol=1e-12)


def test_constant_is_constant_and_the_loop_lowers_a_plateau() -> None:
    for found in factors((20, {"name": "constant"}), (20, {"name": "plateau"})):
        np.testing.assert_array_equal(found, np.ones(21))


def test_warm_up_rises_evenly_from_zero_and_then_the_shape_begins() -> None:
    names = list(shapes)
    warm = factors(*((60, {"name": name, "warmup": 20, "every": 7}) for name in names))
    plain = factors(*((40, {"name": name, "every": 7}) for name in names))
    for name, with_warmup, without in zip(names, warm, plain, strict=True):
        np.testing.assert_allclose(with_warmup[:20], np.arange(20) / 20, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(with_warmup[20:], without, atol=1e-12, err_msg=name)


def test_very_short_runs_have_rates_between_zero_and_the_peak() -> None:
    cases = [(steps, {"name": name}) for name in shapes for steps in (1, 2, 3, 4)]
    for (steps, settings), values in zip(cases, factors(*cases), strict=True):
        used = values[:steps]
        assert ((used > 0) & (used <= 1 + 1e-12)).all(), (steps, settings, used)


def test_a_warm_up_as_long_as_the_run_is_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"schedule.warmup=10: the warm-up must be shorter than the run of 10"
    ):
        schedule(LearningRateSchedule(warmup=10), 10)


def test_a_polynomial_falls_with_its_power_and_a_stable_rate_over_the_last_fifth() -> None:
    square, cubic, stable = factors(
        (100, {"name": "polynomial"}),
        (100, {"name": "polynomial", "power": 3.0, "floor": 0.1}),
        (100, {"name": "stable", "floor": 0.5}),
    )
    left = 1 - np.arange(101) / 100
    np.testing.assert_allclose(square, left**2, atol=1e-12)
    np.testing.assert_allclose(cubic, 0.1 + 0.9 * left**3, atol=1e-12)
    np.testing.assert_allclose(stable, np.minimum(1, 0.5 + 0.5 * (100 - np.arange(101)) / 20), atol=1e-12)


def test_tripling_has_eight_stages_the_last_two_thirds_of_the_run() -> None:
    """Rates of "Importance weighted autoencoders": 10^(-i/7) of the first for 3^i of 3,280 parts."""
    (found,) = factors((3280, {"name": "tripling"}))
    stages, lengths = np.unique(-np.round(7 * np.log10(found[:-1]), 6), return_counts=True)
    np.testing.assert_allclose(stages, np.arange(8), atol=1e-5)
    assert lengths.tolist() == [3**i for i in range(8)]
