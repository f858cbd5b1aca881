"""A canvas for pictures in SVG: shapes and escaped text in the palette's roles, for light and dark pages.

Pictures carry their own background, so they stay readable wherever they are put, and no script.
"""

from html import escape
from math import ceil, log2
from typing import final

from chainrule.core.palette import COLORS

_QUANTITIES = {"tangent": "1", "adjoint": "2", "residual": "3", "primal": "field"}
"""What flows through a program, by the role of its colour."""
_COLORS = COLORS | {name: COLORS[role] for name, role in _QUANTITIES.items()}


@final
class Canvas:
    """Shapes and text, collected in order and written out once."""

    def __init__(self, width: float, height: float, label: str) -> None:
        self.width, self.height, self.label = width, height, label
        self._parts: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, style: str, *, round: float = 0) -> None:
        """A rectangle."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round:g}" class="{style}"/>'
        )

    def path(self, data: str, style: str, *, arrow: bool = False, dash: str = "") -> None:
        """A path, with an arrow head at its end or dashes if wanted."""
        head = ' marker-end="url(#head)"' if arrow else ""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(f'<path d="{data}" class="{style}"{head}{dashes}/>')

    def circle(self, x: float, y: float, radius: float, style: str) -> None:
        """A disc."""
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{style}"/>')

    def text(
        self, x: float, y: float, words: str, style: str, *, size: float = 12, anchor: str = "start"
    ) -> None:
        """A line of text; the anchor is start, middle or end."""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" font-size="{size:g}" text-anchor="{anchor}">'
            f"{escape(words)}</text>"
        )

    def open(self, tooltip: str) -> None:
        """Start a group that explains itself when pointed at."""
        self._parts.append(f"<g><title>{escape(tooltip)}</title>")

    def close(self) -> None:
        """End the group."""
        self._parts.append("</g>")

    def render(self) -> str:
        """The whole document."""
        width, height = f"{self.width:.0f}", f"{self.height:.0f}"
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="{escape(self.label)}">'
        )
        marker = (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0,0.8 L7.5,4 L0,7.2 z" class="f-axis"/></marker></defs>'
        )
        page = f'<rect width="{width}" height="{height}" class="f-paper"/>'
        return "\n".join([head, f"<style>{_style()}</style>", marker, page, *self._parts, "</svg>\n"])


def shorten(words: str, width: float, size: float) -> str:
    """Text cut to fit a width in a monospaced font of a size.

    >>> shorten("a rather long formula", 60, 10)
    'a rather…'
    """
    fits = max(int(width / (0.602 * size)), 1)
    return words if len(words) <= fits else words[: fits - 1].rstrip() + "…"


def round_bytes(most: float) -> float:
    """The end of an axis: the next amount that divides into quarters with short names.

    >>> round_bytes(70_000) / 1024, round_bytes(100_000) / 1024
    (96.0, 128.0)
    """
    power = 2.0 ** ceil(log2(max(most, 4.0)))
    return 0.75 * power if most <= 0.75 * power else power


def _style() -> str:
    def rules(which: int) -> str:
        found = []
        for name, values in _COLORS.items():
            found.append(f".f-{name}{{fill:{values[which]}}}.s-{name}{{stroke:{values[which]}}}")
        found.append(f".halo{{stroke:{COLORS['paper'][which]}}}")
        return "".join(found)

    fonts = (
        "text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}"
        ".mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
        ".bold{font-weight:600}.none{fill:none}.thin{stroke-width:1}.thick{stroke-width:1.6}.thicker{stroke-width:2.2}"
        ".dashed{stroke-dasharray:4 3}.halo{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}"
    )
    return f"{fonts}{rules(0)}@media (prefers-color-scheme:dark){{{rules(1)}}}"


__all__ = ["Canvas", "round_bytes", "shorten"]
