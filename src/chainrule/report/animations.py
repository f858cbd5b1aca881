"""Animations: sheets of images that change over time, as GIF.

Where nothing can move (SVG, PNG, a reader who asked for no motion), the last moment stands for the whole.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Film, Images
from chainrule.report import image_grids

_LAST = 2000
"""Milliseconds the last moment stays."""
_SHORTEST = 20
"""Milliseconds below which browsers slow a GIF down."""


def still(film: Film, moment: int = -1) -> Images:
    """One moment as a sheet.

    >>> still(Film("fade", "Fade", np.zeros((5, 2, 4, 4, 1)))).images.shape
    (2, 4, 4, 1)
    """
    frames = np.asarray(film.frames)
    if frames.ndim != 5 or not len(frames):
        raise ArgumentError(
            f"Film(frames=…): shape {frames.shape} must be (moments, count, height, width, 1 or 3)",
            remedy="give at least one moment, each a set of images",
        )
    return Images(
        film.name, film.title, frames[moment].astype(float), (), film.columns, film.caption, film.smooth
    )


def gif(film: Film, title: bool, metadata: Mapping[str, Any] | None = None) -> bytes:
    """The film as an animated GIF that starts again when it ends; the same film gives the same bytes.

    What is said of a moment follows the title. `metadata` goes into the comment of the file, as JSON.
    """
    still(film)  # refuses what is no film
    count, headed = len(film.frames), title or bool(film.labels)
    headings = [_heading(film, moment, title) for moment in range(count)]
    sheets = [
        replace(still(film, moment), title=heading, caption="") for moment, heading in enumerate(headings)
    ]
    # All moments are as wide as the longest of what is said of them.
    least = max(map(image_grids.title_width, headings))
    pages = [_page(sheet, headed, least) for sheet in sheets]
    each = max(_SHORTEST, round(1000 * film.seconds / max(count - 1, 1)))
    out = io.BytesIO()
    pages[0].save(
        out,
        "GIF",
        save_all=True,
        append_images=pages[1:],
        duration=[each] * (count - 1) + [_LAST],
        loop=0,
        comment=json.dumps(dict(metadata or {}), default=str).encode(),
    )
    return out.getvalue()


def _heading(film: Film, moment: int, title: bool) -> str:
    said = film.labels[moment] if film.labels else ""
    return " · ".join(filter(None, [film.title if title else "", said]))


def _page(sheet: Images, headed: bool, least: int) -> Image.Image:
    drawn = image_grids.sheet_png(sheet, headed, zoom=1, least=least if headed else 0)
    # A palette of its own for each moment, but the same way of choosing it: greys stay exact.
    grey = sheet.images.shape[-1] == 1
    return drawn.convert("L") if grey else drawn.quantize(256, method=Image.Quantize.MEDIANCUT)


__all__ = ["gif", "still"]
