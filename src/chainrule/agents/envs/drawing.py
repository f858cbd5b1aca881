"""Drawings of states: a few shapes in the palette's colours, as SVG for pages and as pixels for films.

An environment describes what a state looks like with these records and needs no plotting library. Both ways of drawing
come from one record, so that a page and a film show the same. Lengths are pixels, x to the right, y downwards; colours
are roles of `core.palette`, so that a drawing follows light and dark pages.

>>> pole = Line(((40, 50), (48, 20)), "2", 4)
>>> cart = Rectangle(30, 50, 20, 12, "1", radius=2)
>>> drawing = Drawing(80, 64, (pole, cart), "a cart with a pole")
>>> drawing.to_pixels().shape, drawing.to_svg().startswith("<svg ")
((64, 80, 3), True)
"""

import abc
import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias, final

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

from chainrule.core import notebook
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.palette import COLORS, LIGHT

Point: TypeAlias = tuple[float, float]
Ink: TypeAlias = str | int
"""What is painted with: a colour, or how much of one."""

_FINER = 3
"""Pixels are drawn so many times finer and averaged, so that edges are smooth."""


class Shape(abc.ABC):
    """One shape of a drawing."""

    color: str
    opacity: float

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_choice(name, "color", self.color, COLORS)
        if not 0 <= self.opacity <= 1:
            raise ArgumentError(f"{name}(opacity={self.opacity}): opacity must lie between 0 and 1")

    @abc.abstractmethod
    def moved(self, x: float, y: float) -> "Shape":
        """The same shape, so far to the right and down."""

    @abc.abstractmethod
    def element(self) -> str:
        """The shape as an SVG element."""

    @abc.abstractmethod
    def paint(self, pen: ImageDraw.ImageDraw, scale: float, ink: Ink) -> None:
        """Draw the shape on an image that is `scale` times as large as the drawing."""

    @final
    def fill(self) -> str:
        """How an SVG element is filled with the shape's colour."""
        return f'class="f-{self.color}"{_faint(self.opacity)}'


@final
@dataclass(frozen=True)
class Rectangle(Shape):
    """A filled rectangle by its left upper corner and its size."""

    x: float
    y: float
    width: float
    height: float
    color: str = "field"
    radius: float = 0.0
    """Of its corners."""
    opacity: float = 1.0

    def moved(self, x: float, y: float) -> "Rectangle":
        return replace(self, x=self.x + x, y=self.y + y)

    def element(self) -> str:
        size = f'width="{_short(self.width)}" height="{_short(self.height)}"'
        corner = f' rx="{_short(self.radius)}"' if self.radius else ""
        return f'<rect x="{_short(self.x)}" y="{_short(self.y)}" {size}{corner} {self.fill()}/>'

    def paint(self, pen: ImageDraw.ImageDraw, scale: float, ink: Ink) -> None:
        # Pillow includes the last pixel; a rectangle of no size leaves no trace, as in SVG.
        left, top = scale * self.x, scale * self.y
        right, bottom = scale * (self.x + self.width) - 1, scale * (self.y + self.height) - 1
        if right >= left and bottom >= top:
            pen.rounded_rectangle((left, top, right, bottom), scale * self.radius, fill=ink)


@final
@dataclass(frozen=True)
class Circle(Shape):
    """A disc."""

    x: float
    y: float
    radius: float
    color: str = "field"
    opacity: float = 1.0

    def moved(self, x: float, y: float) -> "Circle":
        return replace(self, x=self.x + x, y=self.y + y)

    def element(self) -> str:
        return (
            f'<circle cx="{_short(self.x)}" cy="{_short(self.y)}" r="{_short(self.radius)}" {self.fill()}/>'
        )

    def paint(self, pen: ImageDraw.ImageDraw, scale: float, ink: Ink) -> None:
        pen.circle((scale * self.x, scale * self.y), scale * self.radius, fill=ink)


@final
@dataclass(frozen=True)
class Polygon(Shape):
    """A filled polygon by its corners in order."""

    points: Sequence[Point]
    color: str = "field"
    opacity: float = 1.0

    def moved(self, x: float, y: float) -> "Polygon":
        return replace(self, points=tuple((left + x, top + y) for left, top in self.points))

    def element(self) -> str:
        return f'<polygon points="{_joined(self.points)}" {self.fill()}/>'

    def paint(self, pen: ImageDraw.ImageDraw, scale: float, ink: Ink) -> None:
        pen.polygon([(scale * x, scale * y) for x, y in self.points], fill=ink)


@final
@dataclass(frozen=True)
class Line(Shape):
    """A line through points, with round ends."""

    points: Sequence[Point]
    color: str = "ink"
    width: float = 1.0
    opacity: float = 1.0

    def moved(self, x: float, y: float) -> "Line":
        return replace(self, points=tuple((left + x, top + y) for left, top in self.points))

    def element(self) -> str:
        look = f'class="s-{self.color}" stroke-width="{_short(self.width)}"{_faint(self.opacity)}'
        return f'<polyline points="{_joined(self.points)}" {look}/>'

    def paint(self, pen: ImageDraw.ImageDraw, scale: float, ink: Ink) -> None:
        points = [(scale * x, scale * y) for x, y in self.points]
        width = max(1, round(scale * self.width))
        pen.line(points, fill=ink, width=width, joint="curve")
        for end in (points[0], points[-1]):
            pen.circle(end, (width - 1) / 2, fill=ink)


@final
@dataclass(frozen=True)
class Text(Shape):
    """A line of text around its middle."""

    x: float
    y: float
    words: str
    color: str = "ink"
    size: float = 12.0
    """Height of the font."""
    opacity: float = 1.0

    def moved(self, x: float, y: float) -> "Text":
        return replace(self, x=self.x + x, y=self.y + y)

    def element(self) -> str:
        # A third of the height below the middle: where a baseline is, without asking each browser for it.
        at = f'x="{_short(self.x)}" y="{_short(self.y + self.size / 3)}" font-size="{_short(self.size)}"'
        return f"<text {at} {self.fill()}>{escape(self.words)}</text>"

    def paint(self, pen: ImageDraw.ImageDraw, scale: float, ink: Ink) -> None:
        font = ImageFont.truetype(_font(), scale * self.size)
        pen.text((scale * self.x, scale * self.y), self.words, fill=ink, font=font, anchor="mm")


@final
@dataclass(frozen=True)
class Drawing:
    """Shapes on paper, the first at the bottom."""

    width: int
    height: int
    shapes: Sequence[Shape]
    label: str = ""
    """What is to be seen, for those who cannot see it."""

    def __post_init__(self) -> None:
        if min(self.width, self.height) < 1:
            raise ArgumentError(f"Drawing(width={self.width}, height={self.height}): both must be at least 1")

    def above(self, other: "Drawing") -> "Drawing":
        """One drawing with another below it, each in the middle of their common width."""
        width = max(self.width, other.width)
        moved = [
            shape.moved((width - part.width) / 2, down)
            for part, down in ((self, 0), (other, self.height))
            for shape in part.shapes
        ]
        return Drawing(width, self.height + other.height, moved, self.label)

    def to_svg(self) -> str:
        """The drawing as an SVG document for light and dark pages."""
        roles = sorted({"paper", *(shape.color for shape in self.shapes)})
        style = (
            f"<style>text{{font-family:sans-serif;text-anchor:middle}}polyline{{fill:none;stroke-linecap:round;\
stroke-linejoin:round}}{_rules(roles, 0)}@media (prefers-color-scheme:dark){{{_rules(roles, 1)}}}</style>"
        )
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.label)}">',
                style,
                f'<rect width="{self.width}" height="{self.height}" class="f-paper"/>',
                *(shape.element() for shape in self.shapes),
                "</svg>\n",
            ]
        )

    def to_pixels(self, scale: float = 1.0) -> UInt8[np.ndarray, "height width 3"]:
        """The drawing in its light colours, `scale` times as large."""
        if not 0 < scale <= 16:
            raise ArgumentError(f"to_pixels(scale={scale}): scale must lie above 0 and at most at 16")
        size = (max(1, round(scale * self.width)), max(1, round(scale * self.height)))
        fine = Image.new("RGB", (_FINER * size[0], _FINER * size[1]), LIGHT["paper"])
        pen, finer = ImageDraw.Draw(fine), _FINER * scale
        for shape in self.shapes:
            if shape.opacity == 1:
                shape.paint(pen, finer, LIGHT[shape.color])
            else:  # what it covers comes first and its colour second, so that no part of it counts twice
                covered = Image.new("L", fine.size)
                shape.paint(ImageDraw.Draw(covered), finer, round(255 * shape.opacity))
                fine.paste(LIGHT[shape.color], mask=covered)
        return np.asarray(fine.reduce(_FINER))

    def _repr_html_(self) -> str:
        return notebook.drawing(self.to_svg())


@functools.cache
def _font() -> Path:
    """The font that comes with Matplotlib, found without loading it."""
    package = find_spec("matplotlib")
    if package is None or package.origin is None:
        raise ArgumentError(
            "Text: Matplotlib, whose font is used, is not installed", remedy="pip install matplotlib"
        )
    return Path(package.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"


def _rules(roles: Sequence[str], which: int) -> str:
    return "".join(
        f".f-{role}{{fill:{COLORS[role][which]}}}.s-{role}{{stroke:{COLORS[role][which]}}}" for role in roles
    )


def _faint(opacity: float) -> str:
    return "" if opacity == 1 else f' opacity="{_short(opacity)}"'


def _short(value: float) -> str:
    """A hundredth of a pixel is enough."""
    return f"{round(float(value), 2):g}"


def _joined(points: Sequence[Point]) -> str:
    return " ".join(f"{_short(x)},{_short(y)}" for x, y in points)


__all__ = ["Circle", "Drawing", "Ink", "Line", "Point", "Polygon", "Rectangle", "Shape", "Text"]
