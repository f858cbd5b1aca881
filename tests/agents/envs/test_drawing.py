"""Drawings: the same shapes as SVG and as pixels."""

from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import ImageColor

from chainrule.agents.envs.drawing import Circle, Drawing, Line, Polygon, Rectangle, Text
from chainrule.core.errors import ArgumentError
from chainrule.core.palette import LIGHT

RGB = {role: np.array(ImageColor.getrgb(color)) for role, color in LIGHT.items()}
SHAPES = {
    "rectangle": Rectangle(10, 10, 20, 20, "1"),
    "circle": Circle(20, 20, 9, "1"),
    "polygon": Polygon(((10, 10), (30, 10), (30, 30), (10, 30)), "1"),
    "line": Line(((5, 20), (35, 20)), "1", 8),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_its_colour_inside_and_paper_outside(name: str) -> None:
    pixels = Drawing(40, 40, [SHAPES[name]]).to_pixels()
    np.testing.assert_array_equal(pixels[20, 20], RGB["1"])
    np.testing.assert_array_equal(pixels[2, 2], RGB["paper"])


def test_a_rectangle_covers_exactly_its_pixels() -> None:
    pixels = Drawing(40, 40, [SHAPES["rectangle"]]).to_pixels()
    covered = (pixels == RGB["1"]).all(axis=-1)
    expected = np.zeros((40, 40), bool)
    expected[10:30, 10:30] = True
    np.testing.assert_array_equal(covered, expected)


@pytest.mark.parametrize("name", [*SHAPES, "text"])
def test_a_moved_shape_looks_the_same_elsewhere(name: str) -> None:
    shape = SHAPES.get(name, Text(20, 20, "7", "1", 14))
    here = Drawing(60, 60, [shape]).to_pixels()
    there = Drawing(60, 60, [shape.moved(12, 7)]).to_pixels()
    np.testing.assert_array_equal(here[:48, :46], there[7:55, 12:58])


def test_later_shapes_lie_on_top() -> None:
    pixels = Drawing(40, 40, [SHAPES["rectangle"], Circle(20, 20, 5, "2")]).to_pixels()
    np.testing.assert_array_equal(pixels[20, 20], RGB["2"])
    np.testing.assert_array_equal(pixels[12, 12], RGB["1"])


@pytest.mark.parametrize("name", SHAPES)
def test_what_one_sees_through_mixes_with_what_is_below_once(name: str) -> None:
    faint = {
        "rectangle": Rectangle(10, 10, 20, 20, "1", opacity=0.5),
        "circle": Circle(20, 20, 9, "1", 0.5),
        "polygon": Polygon(((10, 10), (30, 10), (30, 30), (10, 30)), "1", 0.5),
        "line": Line(((5, 20), (20, 20), (35, 20)), "1", 8, 0.5),  # its joints and ends overlap
    }[name]
    pixels = Drawing(40, 40, [faint]).to_pixels()
    np.testing.assert_allclose(pixels[20, 20], (RGB["1"] + RGB["paper"]) / 2, atol=1.5)


def test_a_scale_enlarges_everything() -> None:
    drawing = Drawing(40, 30, [SHAPES["rectangle"]])
    large = drawing.to_pixels(2)
    assert large.shape == (60, 80, 3)
    np.testing.assert_array_equal(large[::2, ::2], drawing.to_pixels())


def test_svg_is_well_formed_and_escapes_what_is_written() -> None:
    drawing = Drawing(40, 40, [*SHAPES.values(), Text(20, 20, "<a & b>")], 'so "called"')
    root = ElementTree.fromstring(drawing.to_svg())
    assert root.attrib["aria-label"] == 'so "called"'
    tags = [child.tag.partition("}")[2] for child in root]
    assert tags == ["style", "rect", "rect", "circle", "polygon", "polyline", "text"]
    assert root[-1].text == "<a & b>"


def test_svg_has_the_colours_of_dark_pages_too() -> None:
    text = Drawing(4, 4, [Circle(2, 2, 1, "3")]).to_svg()
    assert "prefers-color-scheme:dark" in text
    assert 'class="f-3"' in text


def test_one_drawing_above_another_is_both() -> None:
    top, below = (
        Drawing(40, 20, [Rectangle(0, 0, 40, 20, "1")]),
        Drawing(20, 10, [Rectangle(0, 0, 20, 10, "2")]),
    )
    pixels = top.above(below).to_pixels()
    assert pixels.shape == (30, 40, 3)
    np.testing.assert_array_equal(pixels[10, 20], RGB["1"])
    np.testing.assert_array_equal(pixels[25, 20], RGB["2"])
    np.testing.assert_array_equal(pixels[25, 5], RGB["paper"])  # the narrower one is in the middle


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r'color="pink".*did you mean'):
        Circle(0, 0, 1, "pink")
    with pytest.raises(ArgumentError, match="opacity"):
        Circle(0, 0, 1, "1", 2.0)
    with pytest.raises(ArgumentError, match="at least 1"):
        Drawing(0, 5, [])
    with pytest.raises(ArgumentError, match="scale"):
        Drawing(5, 5, []).to_pixels(0)
