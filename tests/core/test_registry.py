"""A registry is a closed table: what is in it is found, everything else is refused with help."""

import pytest

from chainrule.core import Registry
from chainrule.core.errors import ArgumentError


def test_things_are_found_under_the_name_they_were_given() -> None:
    shapes = Registry[int]("shape")
    assert shapes.add("triangle", 3) == 3
    shapes.register("square")(4)
    assert shapes["triangle"] == 3
    assert shapes["square"] == 4
    assert list(shapes) == ["triangle", "square"]
    assert len(shapes) == 2
    assert "square" in shapes
    assert "circle" not in shapes


def test_the_decorator_gives_back_what_it_decorates() -> None:
    rules = Registry[object]("rule")

    @rules.register("double")
    def double(x: int) -> int:
        return 2 * x

    assert rules["double"] is double
    assert double(2) == 4


def test_a_name_is_given_once() -> None:
    shapes = Registry[int]("shape")
    shapes.add("triangle", 3)
    with pytest.raises(ArgumentError, match="shape 'triangle' is registered already"):
        shapes.add("triangle", 4)
    assert shapes["triangle"] == 3


def test_an_unknown_name_is_refused_with_the_closest_one_and_all_the_others() -> None:
    shapes = Registry[int]("shape")
    shapes.add("triangle", 3)
    shapes.add("square", 4)
    with pytest.raises(ArgumentError) as caught:
        shapes["sqare"]
    assert (
        str(caught.value) == "unknown shape 'sqare' (did you mean 'square'?)\n       known: triangle, square"
    )
