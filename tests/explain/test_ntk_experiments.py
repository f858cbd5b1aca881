"""Experiments on wide networks: predictions hold real training, and choices that make no sense are refused."""

import math

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain import experiments
from chainrule.explain.methods.two_classes import two_classes
from chainrule.explain.protocol import silent


def test_real_training_lies_in_the_predicted_band() -> None:
    outcome = experiments.run(
        "training-prediction", silent, width=512, depth=1, draws=4, steps=40, points=8, new=6
    )
    found = outcome.numbers
    assert found["inside"] > 0.8
    assert found["off"] < 0.15 * found["moved"]
    predicted, real = (np.array(found["losses"][f"training, {name}"][0]) for name in ("predicted", "real"))
    assert np.abs(predicted[-1] - real[-1]) < 0.1 * predicted[0]
    times = next(one for one in outcome.pictures if one.name == "training-prediction-times")
    values, steps = times.series["predicted"]  # type: ignore[union-attr]
    learnt, taken = times.dots  # type: ignore[union-attr]
    assert len(learnt) >= 2  # the largest eigenvalues are learnt within the steps
    np.testing.assert_allclose(np.log(taken), np.interp(learnt, values, np.log(steps)), atol=0.3)


def test_two_classes_have_unit_length_and_balanced_targets() -> None:
    found = two_classes("digits", ("1", "7"), 7, 4, seed=0)
    np.testing.assert_allclose(np.linalg.norm(found.x, axis=1), 1, rtol=1e-6)
    assert sorted(found.y) == [-1] * 3 + [1] * 4
    assert found.x_new.shape == (4, 64)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": ("3", "x")}, r"digits has no class 'x'"),
        ({"classes": ("3", "3")}, r"two different ones"),
        ({"points": 500}, r"250 examples of a class are wanted"),
    ],
)
def test_classes_and_numbers_that_are_not_there_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        experiments.run("wide-networks", silent, **{"widths": (4, 8), **settings})


def test_measures_are_finite_for_every_width() -> None:
    found = experiments.run(
        "wide-networks", silent, widths=(4, 16), depth=1, draws=3, steps=3, points=4, new=2
    )
    assert all(math.isfinite(value) for one in found.numbers["widths"] for value in one.values())
    assert found.table is not None
    assert len(found.table.rows) == 6
