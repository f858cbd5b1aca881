"""Boxes over the images of a sheet: as SVG, and as pixels."""

from collections.abc import Sequence
from xml.etree import ElementTree

from PIL import ImageDraw, ImageFont

from chainrule.core.palette import GROUPS, LIGHT
from chainrule.core.pictures import Mark
from chainrule.core.quoting import plain
from chainrule.report import svg

_SIZE = 9
_DASH = 4


def mark_svg(
    root: svg.Element, marks: Sequence[Mark], corner: tuple[float, float], scale: tuple[float, float]
) -> None:
    """Boxes over an image whose left upper corner is there and whose pixels are so large, with what they are called."""
    for mark in marks:
        x0, y0, x1, y1 = _placed(mark, corner, scale)
        shape = {"x": f"{x0:g}", "y": f"{y0:g}", "width": f"{x1 - x0:g}", "height": f"{y1 - y0:g}"}
        dashed = f"; stroke-dasharray: {_DASH} {_DASH - 1}" if mark.dashed else ""
        for color, width in ((LIGHT["paper"], 3.0), (_color(mark), 1.6)):  # a rim that any image lets see
            style = f"fill: none; stroke: {color}; stroke-width: {width}{dashed}"
            ElementTree.SubElement(root, "rect", {**shape, "style": style})
    for mark in marks:
        if mark.label:
            x0, y0, _, _ = _placed(mark, corner, scale)
            style = (
                f"font-size: {_SIZE}px; fill: {_color(mark)}; stroke: {LIGHT['paper']}; stroke-width: 2.5; "
                "paint-order: stroke; font-weight: 600"
            )
            at = {"x": f"{x0 + 2:g}", "y": f"{y0 + _SIZE:g}", "style": style}
            ElementTree.SubElement(root, "text", at).text = plain(mark.label)


def mark_png(
    pen: ImageDraw.ImageDraw,
    marks: Sequence[Mark],
    corner: tuple[float, float],
    scale: tuple[float, float],
    zoom: int,
    font: str,
) -> None:
    """The same as pixels; corner and scale are those of the enlarged sheet."""
    written = ImageFont.truetype(font, zoom * _SIZE)
    for mark in marks:
        box = _placed(mark, corner, scale)
        if mark.dashed:
            _dashed(pen, box, _color(mark), zoom)
        else:
            pen.rectangle(box, outline=_color(mark), width=2 * zoom)
    for mark in marks:
        if mark.label:
            x0, y0, _, _ = _placed(mark, corner, scale)
            at = (x0 + 2 * zoom, y0 + zoom)
            words = plain(mark.label)
            pen.text(
                at, words, fill=_color(mark), font=written, stroke_width=zoom, stroke_fill=LIGHT["paper"]
            )


def _dashed(pen: ImageDraw.ImageDraw, box: tuple[float, ...], color: str, zoom: int) -> None:
    x0, y0, x1, y1 = box
    step = _DASH * zoom
    for ends in (((x0, y0), (x1, y0)), ((x0, y1), (x1, y1)), ((x0, y0), (x0, y1)), ((x1, y0), (x1, y1))):
        (ax, ay), (bx, by) = ends
        length = max(abs(bx - ax), abs(by - ay), 1.0)
        for first in range(0, int(length), 2 * step):
            a, b = first / length, min(first + step, length) / length
            line = [ax + (bx - ax) * a, ay + (by - ay) * a, ax + (bx - ax) * b, ay + (by - ay) * b]
            pen.line(line, fill=color, width=2 * zoom)


def _placed(mark: Mark, corner: tuple[float, float], scale: tuple[float, float]) -> tuple[float, ...]:
    x0, y0, x1, y1 = mark.box
    (left, top), (wide, tall) = corner, scale
    return left + wide * x0, top + tall * y0, left + wide * x1, top + tall * y1


def _color(mark: Mark) -> str:
    return LIGHT[GROUPS[mark.group % len(GROUPS)]]


__all__ = ["mark_png", "mark_svg"]
