"""Spy plots are well-formed, show every entry once and name every group."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from chainrule.derive.sparse import METHODS, Pattern, color
from tests.derive.sparse.coloring.graphs import arrow, band_with_hubs, brusselator


def marks(svg: str) -> tuple[int, int]:
    """Squares and discs in the picture, without the legend."""
    paths = [node.attrib["d"] for node in ET.fromstring(svg).iter() if node.tag.endswith("path")]
    drawn = [data for data in paths if data.startswith("M") and "L" not in data]
    return sum(data.count("h-") for data in drawn), sum(data.count("a") // 2 for data in drawn)


def test_every_entry_of_a_small_matrix_is_a_mark() -> None:
    assert marks(brusselator(4).to_svg()) == (32 * 6, 0)
    found = color(arrow(12))
    squares, discs = marks(found.to_svg())
    assert squares + discs == arrow(12).nnz
    assert discs == 11
    assert "reverse product 0: 11 entries" in found.to_svg()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_drawn(method: str) -> None:
    pattern = band_with_hubs(30, width=2, hubs=1)
    found = color(pattern, method)
    assert sum(marks(found.to_svg())) == pattern.nnz
    assert f"{found.num_colors} colours, {method}" in found.to_svg()


def test_a_large_matrix_is_drawn_in_blocks() -> None:
    svg = color(band_with_hubs(1000), "star").to_svg()
    assert "block of 8 x 8" in svg
    assert len(svg) < 200_000
    assert sum(marks(svg)) < 128 * 128


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (3, 0), (3, 4)])
def test_nothing_can_be_drawn_too(shape: tuple[int, int]) -> None:
    empty = Pattern(np.zeros(0, dtype=int), np.zeros(0, dtype=int), shape)
    assert marks(empty.to_svg()) == (0, 0)
    assert marks(color(empty).to_svg()) == (0, 0)
