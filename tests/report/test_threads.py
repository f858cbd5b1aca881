"""Dots and threads below curves."""

import numpy as np

from chainrule import report
from chainrule.core.pictures import Lines


def test_dots_and_threads_are_drawn_below_curves_and_widen_the_axes() -> None:
    x = np.linspace(0, 1, 5)
    plain = Lines("plain", "Plain", "x", "y", {"mean": (x, x)})
    whole = Lines(
        "whole", "Whole", "x", "y", {"mean": (x, x)}, dots=(x, 7 + x), threads=(x, np.stack([x - 9, x]))
    )
    assert "-8" not in report.draw(plain).replace("−", "-")
    drawn = report.draw(whole).replace("−", "-")
    assert drawn.count("<path") + drawn.count("<use") > report.draw(plain).count("<path")


def test_threads_that_are_not_finite_are_left_out() -> None:
    x = np.linspace(0, 1, 5)
    rows = np.array([[0.0, np.nan, 1.0, np.inf, 2.0], [1.0, 1.0, 1.0, 1.0, 1.0]])
    assert report.draw(Lines("t", "T", "x", "y", {"a": (x, x)}, threads=(x, rows))).startswith("<svg")
