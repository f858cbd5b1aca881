"""The picture of a program in two variables."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.derive.implicit.optimization.drawing import draw_program

SIDES = np.array([[1.0, 0], [0, 2], [3, 2], [-1, 0], [0, -1]])
LIMITS = np.array([4.0, 12, 18, 0, 0])


def test_the_picture_names_the_best_corner_and_how_it_moves() -> None:
    picture = draw_program([-3.0, -5.0], SIDES, LIMITS)
    assert "best corner (2, 6), value -36" in picture
    assert "constraint 1: the solution moves by (-0.3333, 0.5) for each unit of h" in picture
    assert "constraint 2: the solution moves by (0.3333, " in picture
    assert "constraint 0" not in picture
    assert picture.count("marker-end") == 3


def test_what_cannot_be_drawn_is_named() -> None:
    with pytest.raises(ArgumentError, match="only two variables can be drawn"):
        draw_program([1.0, 1, 1], np.eye(3), np.ones(3))
    with pytest.raises(ArgumentError, match="enclose no polygon"):
        draw_program([1.0, 1.0], -np.eye(2), np.zeros(2))
