"""The learning-rate finder: sane suggestions, and nothing changed."""

from typing import final

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import Batch
from chainrule.models.protocol import Metrics, Model
from chainrule.train import find_lr
from chainrule.train.finder import greedy_lr, smooth
from tests.train.toys import Mean, leaves, numbers

SETTINGS = {"batch": 16, "optimizer": {"name": "sgd"}}


@final
class Bowl(Model):
    """A quadratic of curvature ten, its minimum raised or lowered: stable up to a rate of 0.2."""

    w: Array
    bottom: float

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return 5 * jnp.square(self.w).sum() + self.bottom + 0 * batch.x.sum(), {}


@pytest.mark.parametrize("bottom", [1.0, 0.0, -7.0, -100.0])
def test_suggestions_lie_below_the_largest_stable_rate_and_are_not_timid(bottom: float) -> None:
    found = find_lr(Bowl(jnp.ones(3), bottom), numbers(), **SETTINGS)
    assert 1e-3 < found.steepest < 0.2
    assert 1e-3 < found.safe < 0.2


def test_the_greedy_finder_stops_at_the_largest_rate_that_does_not_overshoot() -> None:
    model = Bowl(jnp.ones(3), 0.0)
    found = greedy_lr(model, numbers(), **SETTINGS)
    # A step of curvature ten makes its loss worse above a rate of 0.2; the ramp has a factor of 1.2 a step.
    assert 0.2 / 1.25 < found <= 0.2
    assert (model.w == 1).all()
    with pytest.raises(ArgumentError, match="the first step makes its batch worse"):
        greedy_lr(model, numbers(), low=0.5, **SETTINGS)


def test_nothing_is_changed() -> None:
    model, data = Mean(jnp.ones(3)), numbers()
    before = leaves(model), data.train.arrays["x"].copy()
    first = find_lr(model, data, **SETTINGS)
    second = find_lr(model, data, **SETTINGS)
    for name, leaf in leaves(model).items():
        np.testing.assert_array_equal(leaf, before[0][name])
    np.testing.assert_array_equal(data.train.arrays["x"], before[1])
    np.testing.assert_array_equal(first.losses, second.losses)


def test_rates_rise_by_the_same_factor_and_the_curve_ends_where_the_loss_blows_up() -> None:
    found = find_lr(Bowl(jnp.ones(3), 1.0), numbers(), low=1e-4, high=10, steps=50, **SETTINGS)
    assert found.rates[0] == pytest.approx(1e-4)
    np.testing.assert_allclose(np.diff(np.log(found.rates)), np.log(1e5) / 49, rtol=1e-9)
    assert len(found.rates) == len(found.losses) < 50
    assert found.losses[-1] > 4 * found.losses.min()
    assert found.losses[-2] <= 4 * found.losses.min()


def test_the_picture_marks_both_suggestions() -> None:
    found = find_lr(Bowl(jnp.ones(3), 1.0), numbers(), **SETTINGS)
    picture = found.picture()
    assert [mark for mark, _ in picture.marks] == [found.steepest, found.safe]
    assert picture.log_x


def test_smoothing_is_corrected_for_its_start() -> None:
    np.testing.assert_allclose(smooth(np.full(10, 3.0)), np.full(10, 3.0))
    values = np.array([1.0, 0.0])
    np.testing.assert_allclose(smooth(values, 0.9), [1.0, 0.09 / (1 - 0.81)])


@pytest.mark.parametrize("wrong", [{"low": 0.0}, {"low": 2.0, "high": 1.0}, {"steps": 5}])
def test_a_range_that_cannot_be_searched_is_refused(wrong: dict) -> None:
    with pytest.raises(ArgumentError, match="needs 0 < low < high and at least 10 steps"):
        find_lr(Mean(jnp.ones(3)), numbers(), **wrong)


def test_a_loss_that_blows_up_at_once_is_told() -> None:
    with pytest.raises(ArgumentError, match="blows up at once"):
        find_lr(Bowl(jnp.ones(3), 1.0), numbers(), low=5.0, high=1e4, **SETTINGS)
