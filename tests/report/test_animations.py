"""Films: every moment is a frame with exact greys, the last one stays, and a page shows it still on request."""

import io
import json

import numpy as np
import pytest
from PIL import Image, ImageSequence

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Film, Images
from chainrule.report import draw, draw_gif, draw_png
from chainrule.report.image_grids import sheet_png
from chainrule.report.page import figure

FRAMES = np.linspace(0, 1, 4)[:, None, None, None, None] * np.linspace(0.2, 1, 2 * 4 * 4).reshape(
    1, 2, 4, 4, 1
)
FILM = Film("fade", "Fading in", FRAMES, ["one", "two", "three", "four"], seconds=0.3)


def moments(film: Film, **options: object) -> tuple[list[np.ndarray], list[int], Image.Image]:
    with Image.open(io.BytesIO(draw_gif(film, **options))) as image:
        pages = [
            (np.asarray(page.convert("RGB")), page.info["duration"]) for page in ImageSequence.Iterator(image)
        ]
        return [page for page, _ in pages], [duration for _, duration in pages], image


def test_every_moment_is_a_frame_and_the_last_one_stays() -> None:
    pages, durations, image = moments(FILM, metadata={"seed": 3})
    assert durations == [100, 100, 100, 2000]
    assert image.info["loop"] == 0
    assert json.loads(image.info["comment"]) == {"seed": 3}
    for page, frame, label in zip(pages, FRAMES, FILM.labels, strict=True):
        expected = sheet_png(Images("fade", f"Fading in · {label}", frame), title=True, zoom=1)
        assert np.abs(page.astype(int) - np.asarray(expected.convert("L"))[..., None]).max() == 0
    assert draw_gif(FILM) == draw_gif(FILM)


def test_colours_survive_as_far_as_a_palette_goes() -> None:
    colours = np.random.default_rng(0).random((2, 1, 2, 2, 3))
    pages, _, _ = moments(Film("colour", "Colours", colours), title=False)
    expected = np.asarray(sheet_png(Images("colour", "", colours[0]), title=False, zoom=1))
    assert np.abs(pages[0].astype(int) - expected.astype(int)).max() <= 4


def test_where_nothing_moves_the_last_moment_is_shown() -> None:
    last = Images("fade", "Fading in", FRAMES[-1])
    assert draw(FILM) == draw(last)
    assert draw_png(FILM) == draw_png(last)
    shown = figure(FILM)
    assert 'media="(prefers-reduced-motion: reduce)" srcset="data:image/png;base64,' in shown
    assert '<img src="data:image/gif;base64,' in shown


def test_a_film_without_moments_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least one moment"):
        draw_gif(Film("none", "None", np.zeros((0, 1, 4, 4, 1))))
