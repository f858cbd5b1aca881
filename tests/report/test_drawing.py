"""Every record becomes a valid drawing: the same bytes each time, in both themes, whatever the names and numbers."""

import io
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from PIL import Image

from chainrule.core.errors import ArgumentError, DiskError
from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Images, Lines, Picture
from chainrule.report import draw, draw_png
from tests.report.records import CORNERS, HOSTILE, NASTY, ORDINARY

SVG = "{http://www.w3.org/2000/svg}"
XLINK = "{http://www.w3.org/1999/xlink}"


_kept: dict[tuple[int, str], str] = {}


def drawn(picture: Picture, theme: str = "light") -> str:
    """The drawing of one of the pictures at hand; each is made once for all tests."""
    kept = (id(picture), theme)
    if kept not in _kept:
        _kept[kept] = draw(picture, theme=theme)
    return _kept[kept]


def named(picture: Picture) -> str:
    return f"{type(picture).__name__}-{picture.name}" if picture.name != NASTY else type(picture).__name__


@pytest.mark.parametrize("picture", [*ORDINARY, *CORNERS, *HOSTILE], ids=named)
def test_every_record_is_valid_xml_with_its_title(picture: Picture) -> None:
    root = ElementTree.fromstring(drawn(picture))
    assert root.tag == f"{SVG}svg"
    assert root[0].tag == f"{SVG}title"
    width, height = (float(root.attrib[side]) for side in ("width", "height"))
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    assert 100 < width < 1000
    assert 40 < height < 1100


@pytest.mark.parametrize("picture", [*ORDINARY[::4], *CORNERS[::3], *CORNERS[16:19], *HOSTILE], ids=named)
def test_every_record_has_a_png(picture: Picture) -> None:
    with Image.open(io.BytesIO(draw_png(picture))) as image:
        image.load()
        assert image.format == "PNG"


@pytest.mark.parametrize("picture", ORDINARY, ids=named)
def test_the_same_picture_gives_the_same_bytes(picture: Picture) -> None:
    assert draw(picture) == drawn(picture)


@pytest.mark.parametrize("picture", HOSTILE, ids=lambda picture: type(picture).__name__)
@pytest.mark.parametrize("theme", ["light", "auto"])
def test_names_stay_text_whatever_they_hold(picture: Picture, theme: str) -> None:
    drawing = draw(picture, theme=theme, metadata={"run": NASTY})
    root = ElementTree.fromstring(drawing)
    assert not [element for element in root.iter() if element.tag.endswith("script")]
    assert "<script" not in drawing
    assert "<!--" not in drawing
    shown = "".join(root.itertext())
    assert "<script>alert(1)</script>" in shown
    assert "var(--" not in shown, "a colour written in a name is not a colour of the drawing"


@pytest.mark.parametrize("picture", ORDINARY, ids=named)
def test_embedded_drawings_leave_their_colours_to_the_page(picture: Picture) -> None:
    plain, embedded = drawn(picture), drawn(picture, theme="auto")
    assert "var(" not in plain
    assert "var(--cr-paper, #ffffff)" in embedded
    bare = re.sub(r"var\(--cr-\w+, #[0-9a-f]{6}\)", "", embedded)
    assert not [value for value in LIGHT.values() if value in bare]
    assert re.sub(r"var\(--cr-\w+, (#[0-9a-f]{6})\)", r"\1", embedded) == plain


@pytest.mark.parametrize("picture", ORDINARY, ids=named)
def test_a_drawing_refers_to_nothing_outside_itself(picture: Picture) -> None:
    root = ElementTree.fromstring(drawn(picture))
    names = {element.attrib["id"] for element in root.iter() if "id" in element.attrib}
    links = [v for e in root.iter() for k, v in e.attrib.items() if k in (f"{XLINK}href", "href", "src")]
    urls = [url for e in root.iter() for v in e.attrib.values() for url in re.findall(r"url\(([^)]*)\)", v)]
    for link in [*links, *urls]:
        assert link.startswith("data:image/png;base64,") or link[1:] in names
    assert all(name.startswith(re.sub(r"\W", "-", picture.name)) for name in names)


@pytest.mark.parametrize("picture", ORDINARY, ids=named)
def test_no_text_is_cut_off_at_the_edge(picture: Picture) -> None:
    root = ElementTree.fromstring(drawn(picture))
    right, bottom = (float(root.attrib[side]) for side in ("width", "height"))
    for text, corners, _ in texts(root):
        assert corners.min() >= -1, text
        assert corners[:, 0].max() <= right + 1, text
        assert corners[:, 1].max() <= bottom + 1, text


@pytest.mark.parametrize("picture", ORDINARY, ids=named)
def test_no_two_texts_overlap(picture: Picture) -> None:
    level = [(text, box) for text, box, angle in texts(ElementTree.fromstring(drawn(picture))) if not angle]
    for (a, one), (b, other) in itertools.combinations(level, 2):
        apart = (one.min(axis=0) >= other.max(axis=0) - 1.5) | (other.min(axis=0) >= one.max(axis=0) - 1.5)
        assert apart.any(), f"{a!r} lies on {b!r}"


def texts(root: ElementTree.Element) -> Iterator[tuple[str, np.ndarray, float]]:
    """Every text of a drawing with the corners of its box and its angle, measured in the widest font it may get."""
    for element in root.iter(f"{SVG}text"):
        text, style = element.text or "", dict(d.split(": ") for d in element.attrib["style"].split("; "))
        size = float(style["font-size"].removesuffix("px"))
        prop = FontProperties(family="DejaVu Sans", size=size, weight=int(style.get("font-weight", 400)))
        width = text_to_path.get_text_width_height_descent(text, prop, False)[0]
        left = {"start": 0.0, "middle": -width / 2, "end": -width}[style.get("text-anchor", "start")]
        box = np.array(
            [
                [left, -0.75 * size],
                [left + width, -0.75 * size],
                [left + width, 0.2 * size],
                [left, 0.2 * size],
            ]
        )
        transform = element.attrib.get("transform", "")
        turn = re.search(r"rotate\((-?[\d.]+)", transform)
        angle = np.deg2rad(float(turn[1])) if turn else 0.0
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        shift = re.match(r"translate\((-?[\d.]+) (-?[\d.]+)\)", transform)
        x, y = shift.groups() if shift else (element.attrib["x"], element.attrib["y"])
        yield text, box @ rotation.T + [float(x), float(y)], angle


def test_a_png_is_the_same_bytes_each_time() -> None:
    for picture in (ORDINARY[0], ORDINARY[13]):
        assert draw_png(picture) == draw_png(picture)


def test_pixels_stay_crisp_and_exact() -> None:
    pixels = np.array([[[[0.0], [1.0]], [[0.2], [0.6]]]])
    drawing = ElementTree.fromstring(draw(Images("two", "Two by two", pixels)))
    (image,) = drawing.iter(f"{SVG}image")
    assert "pixelated" in image.attrib["style"]
    assert int(image.attrib["width"]) % 2 == 0
    sheet = np.asarray(Image.open(io.BytesIO(draw_png(Images("two", "Two by two", pixels), title=False))))
    assert set(np.unique(sheet[..., 0])) == {0, 51, 153, 255}


def test_samples_are_enlarged_smoothly_where_the_picture_says_so() -> None:
    pixels = np.zeros((1, 8, 8, 1))
    pixels[0, 4:] = 1.0
    crisp, smooth = (Images("two", "Two", pixels, smooth=wanted) for wanted in (False, True))
    levels = [
        len(np.unique(np.asarray(Image.open(io.BytesIO(draw_png(one, title=False))))))
        for one in (crisp, smooth)
    ]
    assert levels[0] <= 2 < levels[1]
    assert "pixelated" in draw(crisp)
    assert "pixelated" not in draw(smooth)


def test_contours_carry_their_names_where_the_field_reaches_them() -> None:
    (picture,) = [picture for picture in ORDINARY if picture.name == "contours"]
    drawn = draw(picture)
    assert all(f">{name}<" in drawn for name in ("low", "high"))
    assert "nowhere" not in drawn


def test_a_title_can_be_left_to_the_page() -> None:
    picture = Lines("a", "The title", "x", "y", {"a": (np.arange(2), np.arange(2))})
    assert draw(picture, title=False).count("The title") == 1
    assert draw(picture).count("The title") == 2


def test_metadata_come_back_from_png_and_svg(tmp_path: Path) -> None:
    facts = {"run": "digits-ddpm-001", "step": 800, "seed": 3, "settings": {"guidance": 2.0, "class": "ä→ö"}}
    for picture in (ORDINARY[0], Images("a", "A", np.zeros((1, 2, 2, 1)))):
        draw_png(picture, tmp_path / "a.png", metadata=facts)
        with Image.open(tmp_path / "a.png") as image:
            read = {key: value if key == "run" else json.loads(value) for key, value in image.text.items()}
        assert read == facts
        draw(picture, tmp_path / "a.svg", metadata=facts)
        (element,) = ElementTree.parse(tmp_path / "a.svg").iter(f"{SVG}metadata")
        assert json.loads(element.text or "") == facts


def test_a_png_key_that_readers_would_refuse_is_refused() -> None:
    with pytest.raises(ArgumentError, match="1 to 79 ASCII"):
        draw_png(ORDINARY[0], metadata={"ключ": 1})


def test_what_is_returned_is_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "loss.svg"
    assert draw(ORDINARY[0], path) == path.read_text(encoding="utf-8")
    assert draw_png(ORDINARY[0], path.with_suffix(".png")) == path.with_suffix(".png").read_bytes()
    assert sorted(file.name for file in path.parent.iterdir()) == ["loss.png", "loss.svg"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises((DiskError, NotADirectoryError, FileExistsError), match="file"):
        draw(ORDINARY[0], tmp_path / "file" / "loss.svg")


def test_unknown_themes_and_strange_images_are_refused() -> None:
    with pytest.raises(ArgumentError, match='theme must be "light" or "auto"'):
        draw(ORDINARY[0], theme="sepia")
    with pytest.raises(ArgumentError, match="1 or 3"):
        draw(Images("a", "A", np.zeros((1, 2, 2, 5))))


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    with mpl.rc_context({"font.size": 31.0, "svg.fonttype": "path"}):
        before = dict(mpl.rcParams)
        drawing = draw(ORDINARY[0])
        assert dict(mpl.rcParams) == before
    assert draw(ORDINARY[0]) == drawing, "settings of the process have no influence"


def test_pyplot_is_never_imported() -> None:
    code = (
        "import sys, numpy as np; from chainrule.core.pictures import Bars; from chainrule.report import draw;"
        "draw(Bars('a', 'A', 'x', 'y', ['a'], {'a': np.ones(1)}));"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("side", [8, 60, 224])
def test_rows_that_belong_together_are_never_broken(side: int) -> None:
    rows = Images("rows", "Rows", np.zeros((26, side, side, 1)), ["word"] * 26, columns=13, aligned=True)
    root = ElementTree.fromstring(draw(rows))
    tiles = list(root.iter(f"{SVG}image"))
    assert len({tile.attrib["y"] for tile in tiles}) == 2
    assert float(root.attrib["width"]) < 1000
    assert all(
        float(a.attrib["x"]) + float(a.attrib["width"]) <= float(b.attrib["x"])
        for a, b in itertools.pairwise(tiles[:13])
    )
    assert Image.open(io.BytesIO(draw_png(rows))).width == 2 * float(root.attrib["width"])
