"""Experiments of probability: their numbers are those of closed forms."""

import math

import numpy as np
import pytest

from chainrule import report
from chainrule.core.errors import ArgumentError
from chainrule.explain import experiments


def test_bumps_that_slide_apart_have_the_distances_of_normals() -> None:
    outcome = experiments.run("slide-test", steps=3, draws=8)
    assert all(report.draw(picture).startswith("<svg") for picture in outcome.pictures)
    numbers = outcome.numbers
    np.testing.assert_allclose(numbers["densities"]["kl"], [0, 4.5, 18], atol=1e-3)
    np.testing.assert_allclose(numbers["densities"]["w1"], [0, 3, 6], atol=1e-3)
    assert numbers["densities"]["tv"][1] == pytest.approx(0.866386, abs=1e-4)
    assert numbers["samples"]["kl"] == [math.inf] * 3
    np.testing.assert_allclose(numbers["samples"]["js"], math.log(2), rtol=1e-5)
    assert (np.diff(numbers["smoothed"]["js"]) < 1e-6).all()


def test_samples_of_ones_own_are_slid() -> None:
    outcome = experiments.run("slide-test", x=[0.0, 1.0], y=[0.0, 1.0], gap=2, steps=3)
    np.testing.assert_allclose(outcome.numbers["samples"]["w1"], [0, 1, 2], atol=1e-6)
    np.testing.assert_allclose(outcome.numbers["samples"]["tv"], [0, 0.5, 1], atol=1e-6)
    with pytest.raises(ArgumentError, match="two samples"):
        experiments.run("slide-test", x=[0.0, 1.0])


def test_a_map_knows_which_distances_are_lopsided() -> None:
    outcome = experiments.run("divergence-maps", size=4, base="2")
    assert all(report.draw(picture).startswith("<svg") for picture in outcome.pictures[-2:])
    asymmetry = outcome.numbers["asymmetry"]
    assert {name for name, value in asymmetry.items() if value > 1e-3} == {
        "KL",
        "cross-entropy",
        "chi-square",
    }


def test_the_conditioner_finds_the_worked_conditional() -> None:
    outcome = experiments.run("conditioner", draws=5)
    assert all(report.draw(picture).startswith("<svg") for picture in outcome.pictures)
    assert outcome.numbers["mean"] == [pytest.approx(1.164384, abs=1e-5)]
    assert outcome.numbers["covariance"] == [[pytest.approx(1.617808, abs=1e-5)]]
    assert "x0 has mean 1.16438" in outcome.findings[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mean": (1.0, 2.0)}, "covariance has 9 entries, 2 variables need 4"),
        ({"values": (1.0,)}, "2 variables are observed and 1 values"),
        ({"observed": (0, 1, 2), "values": (1.0, 1.0, 1.0)}, "every variable is observed"),
        ({"observed": (7,), "values": (1.0,)}, "no variable 7"),
        (
            {"mean": (0.0, 0.0), "covariance": (1.0, 2.0, 2.0, 1.0), "observed": (0,), "values": (1.0,)},
            "eigenvalue -1",
        ),
    ],
)
def test_what_cannot_be_conditioned_is_refused(settings, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        experiments.run("conditioner", **settings)
