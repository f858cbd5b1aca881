"""Image grids: as SVG with the labels as text, and as PNG with the labels as pixels.

Both come from one layout. A pixel of the data becomes a square of whole pixels, unless the picture asks to be smooth.
"""

import base64
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFont, PngImagePlugin

from chainrule.core.errors import ArgumentError
from chainrule.core.palette import LIGHT
from chainrule.core.pictures import Images
from chainrule.core.quoting import plain
from chainrule.report import style, svg
from chainrule.report.image_marks import mark_png, mark_svg
from chainrule.report.style import SMALL_SIZE, TITLE_SIZE

_TILE = 48
"""Small images are enlarged to about this many CSS pixels."""
_SMOOTH_TILE = 80
"""The same where they are enlarged smoothly."""
_MARKED_TILE = 140
"""The same where boxes are drawn over them."""
_SMALLEST = 16
"""Images of rows that stay whole are not shown smaller than this; the sheet gets wider instead."""
_WIDEST = 928
_NARROWEST = 160
_MARGIN = 12
_LABEL_WIDTH = 150
_LINE = 13
_FONT = Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"


@final
@dataclass(frozen=True)
class _Layout:
    """Where the tiles of a sheet lie, in CSS pixels."""

    columns: int
    rows: int
    tile: tuple[int, int]
    """Width and height of an image as it is shown."""
    shrunk: bool
    """Whether that is less than its own size."""
    cell: tuple[int, int]
    """The same with its label and the gap to the next."""
    labels: tuple[tuple[str, ...], ...]
    """The lines of every label."""
    top: int

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the sheet."""
        width, height = self.cell
        return max(self.columns * width + 2 * _MARGIN, _NARROWEST), self.top + self.rows * height + _MARGIN

    def corner(self, index: int) -> tuple[int, int]:
        """Left upper corner of a tile."""
        row, column = divmod(index, self.columns)
        left = _MARGIN + column * self.cell[0] + (self.cell[0] - self.tile[0]) // 2
        return left, self.top + row * self.cell[1]


def _layout(picture: Images, title: bool) -> _Layout:
    count, height, width, _ = picture.images.shape
    wanted = _MARKED_TILE if len(picture.marks) else _SMOOTH_TILE if picture.smooth else _TILE
    scale = max(1, round(wanted / max(width, height, 1)))
    columns = max(1, min(picture.columns, max(count, 1)))
    room = _WIDEST // columns - 6 if picture.aligned else _WIDEST
    if picture.aligned:
        scale = max(1, min(scale, room // max(width, 1)))
    tile = (width * scale, height * scale)
    if picture.aligned and width > max(room, _SMALLEST):
        shown = max(room, _SMALLEST)
        tile = (shown, max(1, round(height * shown / width)))
    font = ImageFont.truetype(_FONT, SMALL_SIZE)
    texts = [[plain(line) for line in label.split("\n")] for label in picture.labels[:count]]
    widest = max((font.getlength(line) + 10 for lines in texts for line in lines), default=0)
    cell_width = max(tile[0] + 6, min(widest, _LABEL_WIDTH, room))
    labels = tuple(tuple(_cut(line, cell_width - 6, font) for line in lines) for lines in texts)
    if not picture.aligned:
        columns = max(1, min(columns, int(_WIDEST // cell_width)))
    below = _LINE * max((len(lines) for lines in labels), default=0) + (9 if labels else 6)
    cell = (math.ceil(cell_width), tile[1] + below)
    return _Layout(
        columns,
        math.ceil(count / columns),
        *(tile, tile[0] < width, cell, labels),
        top=36 if title else _MARGIN,
    )


def check(picture: Images) -> np.ndarray:
    """The images as RGB or grey bytes, shape (count, height, width, 1 or 3)."""
    images = np.asarray(picture.images, dtype=float)
    if images.ndim != 4 or images.shape[-1] not in (1, 3):
        raise ArgumentError(
            f"Images(images=…): shape {images.shape} must be (count, height, width, 1 or 3)",
            remedy="choose one or three channels to show",
        )
    return np.rint(255 * np.nan_to_num(np.clip(images, 0, 1))).astype(np.uint8)


def sheet_svg(picture: Images, title: bool) -> svg.Element:
    """The sheet as a drawing: embedded images, labels and title as text."""
    pixels = check(picture)
    layout = _layout(picture, title)
    width, height = layout.size
    if title:
        width = max(width, math.ceil(len(picture.title) * TITLE_SIZE * 0.62) + 2 * _MARGIN)
    said = style.foot_lines(picture.footnote, width)
    root = svg.canvas(width, height + _LINE * len(said))
    if title:
        svg.write_text(root, _MARGIN, 22, picture.title, size=TITLE_SIZE, bold=True)
    # Every image is embedded with its own few pixels; the reader enlarges it without smoothing. A smooth one is
    # enlarged here: readers differ in how they would do it.
    for index, image in enumerate(map(_image, pixels)):
        left, top = layout.corner(index)
        box = {"x": left, "y": top, "width": layout.tile[0], "height": layout.tile[1]}
        attributes = {name: str(value) for name, value in box.items()}
        if picture.smooth:
            image = _resized(image, (2 * layout.tile[0], 2 * layout.tile[1]), smooth=True)
        elif not layout.shrunk:
            attributes["style"] = "image-rendering: crisp-edges; image-rendering: pixelated"
        attributes["preserveAspectRatio"] = "none"
        attributes["xlink:href"] = "data:image/png;base64," + base64.b64encode(_png(image)).decode()
        ElementTree.SubElement(root, "image", attributes)
        if index < len(picture.marks):
            mark_svg(root, picture.marks[index], (left, top), _per_pixel(layout, picture))
    for index, lines in enumerate(layout.labels):
        left, top = layout.corner(index)
        x, y = left + layout.tile[0] / 2, top + layout.tile[1]
        for below, line in enumerate(lines, start=1):
            svg.write_text(root, x, y + _LINE * below, line, size=SMALL_SIZE, role="soft", anchor="middle")
    for below, line in enumerate(said, start=1):
        role = "mark" if picture.footnote is not None and picture.footnote.alarm else "soft"
        svg.write_text(root, _MARGIN, height + _LINE * below - 8, line, size=SMALL_SIZE, role=role)
    return root


def title_width(title: str) -> int:
    """How wide a sheet has to be for a title to be read to its end."""
    return math.ceil(ImageFont.truetype(_FONT, TITLE_SIZE).getlength(plain(title))) + 2 * _MARGIN


def _fitting(title: str, width: int) -> str:
    """As much of a title as a sheet of this width has room for.

    >>> _fitting("Samples of moons-diffusion-001: sampler=ddim", 200)
    'Samples of moons-diff…'
    """
    whole = plain(title)
    kept = next((n for n in range(len(whole), 1, -1) if title_width(plain(whole, n)) <= width), 1)
    return plain(whole, kept)


def sheet_png(picture: Images, title: bool, zoom: int = 2, least: int = 0) -> Image.Image:
    """The sheet as pixels, at `zoom` times the size of the drawing, which is `least` wide at least."""
    pixels = check(picture)
    layout = _layout(picture, title)
    said = style.foot_lines(picture.footnote, layout.size[0])
    height = layout.size[1] + _LINE * len(said)
    sheet = Image.new("RGB", (zoom * max(layout.size[0], least), zoom * height), LIGHT["paper"])
    pen = ImageDraw.Draw(sheet)
    if title:
        font = ImageFont.truetype(_FONT, zoom * TITLE_SIZE)
        heading = _fitting(picture.title, max(layout.size[0], least))
        pen.text((zoom * _MARGIN, 9 * zoom), heading, fill=LIGHT["ink"], font=font)
    font = ImageFont.truetype(_FONT, zoom * SMALL_SIZE)
    for index, image in enumerate(pixels):
        left, top = layout.corner(index)
        size = (zoom * layout.tile[0], zoom * layout.tile[1])
        shown = _resized(_image(image), size, smooth=picture.smooth or layout.shrunk)
        sheet.paste(shown, (zoom * left, zoom * top))
        if index < len(picture.marks):
            wide, tall = _per_pixel(layout, picture)
            mark_png(
                pen,
                picture.marks[index],
                (zoom * left, zoom * top),
                (zoom * wide, zoom * tall),
                zoom,
                str(_FONT),
            )
        for below, line in enumerate(layout.labels[index] if index < len(layout.labels) else (), start=1):
            middle = (zoom * left + zoom * layout.tile[0] // 2, zoom * (top + layout.tile[1] + _LINE * below))
            pen.text(middle, line, fill=LIGHT["soft"], font=font, anchor="ms")
    for below, line in enumerate(said, start=1):
        at = (zoom * _MARGIN, zoom * (layout.size[1] + _LINE * below - 8))
        pen.text(at, line, fill=style.foot_color(picture.footnote), font=font, anchor="ls")
    return sheet


def _per_pixel(layout: _Layout, picture: Images) -> tuple[float, float]:
    """Width and height of a pixel of an image as it is shown."""
    return layout.tile[0] / picture.images.shape[2], layout.tile[1] / picture.images.shape[1]


def text_chunks(metadata: Mapping[str, Any]) -> PngImagePlugin.PngInfo:
    """Named values for a PNG file: text as it is, everything else as JSON."""
    info = PngImagePlugin.PngInfo()
    for key, value in metadata.items():
        if not 0 < len(key) < 80 or not key.isascii():
            raise ArgumentError(f"metadata key {key!r}: a PNG keyword has 1 to 79 ASCII characters")
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if text.isascii():
            info.add_text(key, text)
        else:
            info.add_itxt(key, text)
    return info


def _image(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def _resized(image: Image.Image, size: tuple[int, int], *, smooth: bool) -> Image.Image:
    return image.resize(size, Image.Resampling.BICUBIC if smooth else Image.Resampling.NEAREST)


def _png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def _cut(text: str, room: float, font: ImageFont.FreeTypeFont) -> str:
    if font.getlength(text) <= room:
        return text
    kept = text
    while kept and font.getlength(kept + "…") > room:
        kept = kept[:-1]
    return kept + "…"


__all__ = ["check", "sheet_png", "sheet_svg", "text_chunks", "title_width"]
