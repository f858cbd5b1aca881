"""An album holds its pictures as files, its numbers as JSON and everything on one page that asks for nothing."""

import base64
import hashlib
import html
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import RunError
from chainrule.core.pictures import AttentionMaps, Images, Lines, Table
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
    assert (
        tmp_path / "album" / "curve.csv"
    ).read_text() == "series,x,y,low,high\na,0.0,0.0,,\na,1.0,1.0,,\na,2.0,2.0,,\n"
    assert (tmp_path / "album" / "rows.csv").read_text() == "what,how much\n<b>cats</b>,3\n"
    assert not (tmp_path / "album" / "sheet.csv").exists()
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


def test_attention_maps_bring_the_one_script_that_the_page_allows(tmp_path: Path) -> None:
    weights = np.array([[[[1.0, 0.0], [0.25, 0.75]]], [[[1.0, 0.0], [1.0, 0.0]]]])
    maps = AttentionMaps("maps", "Maps", weights, ["<b>", "b"], ["</script>", "b"], (1, 0))
    album = write_album(tmp_path / "a", "T", "L", [Chapter("c", "C.", ["S."], [maps])], settings={}, again={})
    page = album.page.read_text()
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page, flags=re.DOTALL)
    assert [kind for kind, _ in scripts] == [' type="application/json"', ""]
    data = json.loads(scripts[0][1])
    assert (data["queries"], data["keys"], data["heads"]) == (["<b>", "b"], ["</script>", "b"], 1)
    levels = np.frombuffer(base64.b64decode(data["weights"]), "<u2").reshape(weights.shape)
    np.testing.assert_allclose(levels / 65535, weights, atol=1e-5)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    digest = base64.b64encode(hashlib.sha256(scripts[1][1].encode()).digest()).decode()
    assert html.unescape(policy).endswith(f"; script-src 'sha256-{digest}'")
    assert "<svg" in page.split('class="live"')[0], "a drawing for readers without scripts"
    assert re.findall(r"<option( selected)?>(\d)</option>", page) == [
        ("", "1"),
        (" selected", "2"),
        (" selected", "1"),
    ]
    for network in ("fetch(", "XMLHttpRequest", "import(", "http", "innerHTML", "eval"):
        assert network not in scripts[1][1]


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
