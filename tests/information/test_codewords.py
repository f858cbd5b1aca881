"""The choice of codewords: known waste, and by sampling."""

import numpy as np
import pytest

from chainrule import information as I
from chainrule.core.errors import ArgumentError


def test_the_shorter_codeword_wastes_what_is_known() -> None:
    found = I.codeword_choice()
    assert found.mass == pytest.approx(0.841345, abs=1e-6)
    assert found.mean_waste == pytest.approx(0.273658, abs=1e-6)
    assert found.crossing == 0
    assert found.waste[len(found.x) // 2] == pytest.approx(1)
    assert np.trapezoid(found.used, found.x) == pytest.approx(found.mass, abs=1e-6)
    assert np.trapezoid(found.density, found.x) == pytest.approx(1, abs=1e-9)


def test_waste_of_other_codes_is_that_of_samples() -> None:
    means, sd, weights = (2.0, -1.0), 0.7, (0.3, 0.7)
    found = I.codeword_choice(means, sd, weights)
    draws = np.random.default_rng(0)
    code = draws.choice(2, 200_000, p=weights)
    x = np.array(means)[code] + sd * draws.normal(size=len(code))
    density = np.array(weights) * np.exp(-(((x[:, None] - np.array(means)) / sd) ** 2) / 2)
    assert found.mean_waste == pytest.approx(np.log2(density.sum(1) / density.max(1)).mean(), abs=3e-3)
    assert found.mass == pytest.approx(np.trapezoid(found.used, found.x), abs=1e-6)
    at = np.interp(found.crossing, found.x, found.waste)
    assert at == pytest.approx(1, abs=5e-3)


def test_codes_that_are_the_same_waste_their_choice() -> None:
    found = I.codeword_choice((1.0, 1.0))
    assert (found.mass, found.mean_waste) == pytest.approx((0.5, 1.0))
    assert np.isnan(found.crossing)
    with pytest.raises(ArgumentError, match="positive sd"):
        I.codeword_choice(sd=0.0)
    with pytest.raises(ArgumentError, match="points must be a whole number of at least 2"):
        I.codeword_choice(points=1)
    with pytest.raises(ArgumentError, match=r"sums to 1\.1"):
        I.codeword_choice(weights=(0.5, 0.6))
    for means in ((0.0, 1.0, 2.0), 1.0, ("low", "high")):
        with pytest.raises(ArgumentError, match=r"means=.*two numbers"):
            I.codeword_choice(means)
    with pytest.raises(ArgumentError, match="3 weights of two codewords"):
        I.codeword_choice(weights=(0.2, 0.3, 0.5))
