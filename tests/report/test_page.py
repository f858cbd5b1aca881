"""Pictures on a page: reading order, rows without holes, one colour for one series."""

import re

import numpy as np
import pytest

from chainrule.core.pictures import Lines, Table
from chainrule.report import page, style

STEPS = np.arange(3.0)


def curve(title: str, *series: str) -> Lines:
    return Lines(title, title, "step", "", dict.fromkeys(series or ("a", "b"), (STEPS, STEPS + 1)))


def wide(title: str) -> Table:
    return Table(title, title, list("abcde"), [[1, 2, 3, 4, 5]])


def rows(html: str) -> list[tuple[str, bool]]:
    """Every title in order, and whether it has a row of its own."""
    return [
        (title, bool(mark)) for mark, title in re.findall(r"<figure( class=wide)?>\n<h3>(.*?)</h3>", html)
    ]


@pytest.mark.parametrize(
    ("pictures", "alone"),
    [
        (["1", "2"], []),
        (["1", "2", "3"], ["3"]),
        (["1", "W", "2", "3"], ["1", "W"]),
        (["W", "1", "2", "3", "V"], ["W", "3", "V"]),
    ],
)
def test_pictures_keep_their_order_and_leave_no_hole(pictures: list[str], alone: list[str]) -> None:
    found = rows(page.gallery([wide(title) if title in "WV" else curve(title) for title in pictures]))
    assert [title for title, _ in found] == pictures
    assert [title for title, fills in found if fills] == alone


def test_a_series_keeps_its_colour_on_a_page() -> None:
    with style.one_color_per_series():
        first = page.gallery([curve("loss", "training", "validation")])
        second = page.gallery([curve("error", "validation", "test")])
    alone = page.gallery([curve("error", "validation", "test")])
    colours = [
        list(
            dict.fromkeys(
                t for t in re.findall(r"stroke: var\(--cr-\w+, (#\w+)\)", html) if t in style.SERIES
            )
        )
        for html in (first, second, alone)
    ]
    assert colours[0][1] == colours[1][0]  # validation
    assert colours[1][1] not in colours[0]  # test is new
    assert colours[2] == colours[0]  # without a page there is nothing to keep


def test_more_series_than_colours_share_them_but_never_in_one_picture() -> None:
    many = [f"series {i}" for i in range(3 * len(style.SERIES))]
    with style.one_color_per_series():
        for first in range(0, len(many) - 4, 2):
            assert len(set(style.positions(many[first : first + 5]))) == 5
