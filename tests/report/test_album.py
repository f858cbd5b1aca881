"""An album holds its pictures as files, its numbers as JSON and everything on one page that asks for nothing."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import RunError
from chainrule.core.pictures import Images, Lines, Table
from chainrule.report import Chapter, write_album

CURVE = Lines("curve", "Curve", "x", "y", {"a": (np.arange(3), np.arange(3.0))})
SHEET = Images("sheet", "Sheet", np.zeros((2, 4, 4, 1)))
ROWS = Table("rows", "Rows", ["what", "how much"], [["<b>cats</b>", 3]])


def test_pictures_numbers_and_page_are_written(tmp_path: Path) -> None:
    chapters = [
        Chapter(
            "one",
            "First.",
            ["It <i>works</i>."],
            [ROWS, CURVE, SHEET],
            {"a": 1.5, "bad": math.nan, "list": (1, True)},
        ),
        Chapter("two", "Second.", pictures=[CURVE]),
        Chapter("three", "Third.", problem="there are no cats"),
    ]
    album = write_album(
        tmp_path / "album",
        "A <title>",
        "About it.",
        chapters,
        settings={"seed": 0},
        again={"Again": "chainrule probe x"},
    )
    assert sorted(path.name for path in album.pictures) == ["curve-2.svg", "curve.svg", "sheet.png"]
    assert all(path.is_file() for path in album.pictures)
    numbers = json.loads(album.numbers.read_text())
    assert numbers == {"one": {"a": 1.5, "bad": None, "list": [1, True]}, "two": {}, "three": {}}
    page = album.page.read_text()
    for words in (
        "A &lt;title&gt;",
        "It &lt;i&gt;works&lt;/i&gt;.",
        "&lt;b&gt;cats",
        "there are no cats",
        "chainrule probe x",
    ):
        assert words in page
    for forbidden in ("<script", "<i>works", "http://", "<b>cats"):
        assert forbidden not in page.replace("http://www.w3.org/", "")


def test_writing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    words = {"settings": {}, "again": {}}
    first = write_album(tmp_path / "a", "T", "L", [Chapter("c", "C.", ["S."], [CURVE])], **words)
    before = first.page.read_bytes()
    again = write_album(tmp_path / "a", "T", "L", [Chapter("c", "C.", ["S."], [CURVE])], **words)
    assert again.page.read_bytes() == before


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(RunError, match="is a link"):
        write_album(tmp_path / "link", "T", "L", [], settings={}, again={})
    assert not list((tmp_path / "real").iterdir())
