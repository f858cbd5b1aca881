"""Films: every moment is a frame with exact greys, the last one stays, and a page shows it still on request."""

import io
import json

import numpy as np
import pytest
from PIL import Image, ImageSequence

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Film, Images
from chainrule.report import draw, draw_gif, draw_png
from chainrule.report.image_grids import sheet_png, title_width
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


def test_what_is_said_of_a_moment_is_shown_to_its_end_however_narrow_its_images_are() -> None:
    """The page of a film of one small image is as wide as the longest heading, at every moment."""
    labels = ["step 1: 0 of 8 modes, and more is said of it", "step 2"]
    film = Film("small", "One small image", np.zeros((2, 1, 4, 4, 3)), labels, columns=1)
    wide, _, image = moments(film)
    assert image.width == title_width(f"One small image · {labels[0]}")
    (plain,), _, _ = moments(
        Film("small", "One small image", np.zeros((1, 1, 4, 4, 3)), columns=1), title=False
    )
    assert plain.shape[1] < image.width
    written = np.flatnonzero((wide[0][:30] < 128).any(axis=(0, 2)))
    assert image.width - 40 < written.max() < image.width - 8


def test_a_film_without_moments_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least one moment"):
        draw_gif(Film("none", "None", np.zeros((0, 1, 4, 4, 1))))
