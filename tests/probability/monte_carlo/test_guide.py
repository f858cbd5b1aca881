"""The code of the guide to Monte Carlo and convergence runs, and its comments are true."""

import math
from pathlib import Path

import numpy as np
import pytest

from tests.explain.test_guide import followed


@pytest.mark.slow
def test_the_guide_runs_and_its_numbers_are_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = followed("monte-carlo.md", tmp_path, capsys)
    assert made["found"].draws.shape == (4, 2000, 2)
    assert (np.abs(made["found"].mean - [0, 1]) < 4 * made["found"].standard_error).all()
    assert "tail ESS" in made["report"]
    low, high = made["plain"].interval(4.0)
    assert low < -2.2655 < high
    assert float(made["exact"].log_mean) == pytest.approx(-2.2655, abs=1e-4)
    assert made["mean"].value == pytest.approx((math.e - 1) ** 2, abs=1e-3)
    assert abs(made["less"].value - (math.e - 1)) < 4 * made["less"].standard_error
    assert made["less"].standard_error < np.exp(made["u"]).std() / math.sqrt(4000) / 4
    assert all(made["modes"].values())
    assert not made["sliding"].falls()["almost surely"]
    assert "no mean" in made["cauchy"].broken
