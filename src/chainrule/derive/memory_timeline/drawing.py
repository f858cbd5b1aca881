"""Drawing of a memory timeline: stacked areas by role, the peak, and what holds it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from chainrule.core.formatting import memory_size
from chainrule.derive.svg import Canvas, round_bytes

_WIDTH, _HEIGHT = 860.0, 430.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 84.0, 24.0, 74.0, 118.0
_COLUMNS = 700
_DASHES = ("7 4", "2 3", "10 3 2 3")


@final
@dataclass(frozen=True)
class Content:
    """Everything the picture shows."""

    title: str
    by_role: Mapping[str, np.ndarray]
    total: np.ndarray
    peak_step: int
    peak_label: str
    holders: Sequence[str]
    compiled: int | None
    compare: Mapping[str, np.ndarray]


def svg(content: Content) -> str:
    """Draw it."""
    canvas = Canvas(_WIDTH, _HEIGHT, content.title)
    steps = max(len(content.total), *(len(other) for other in content.compare.values()), 1)
    top = max(int(content.total.max(initial=1)), content.compiled or 0, 1)
    top = max(top, *(int(other.max(initial=0)) for other in content.compare.values()), 1)
    frame = _Frame(steps, round_bytes(top))
    canvas.text(_LEFT - 56, 30, content.title, "f-ink bold", size=16)
    most = memory_size(float(content.total.max(initial=0)))
    peak = f"peak {most} at step {content.peak_step + 1} of {len(content.total)}"
    where = f" ({content.peak_label})" if content.peak_label else ""
    canvas.text(_LEFT - 56, 50, peak + where, "f-soft", size=12)
    frame.axes(canvas)
    base = np.zeros(len(content.total))
    for role, live in content.by_role.items():
        if live.any():
            frame.area(canvas, base, base + live, f"f-{role}")
            base = base + live
    for (_, other), dash in zip(content.compare.items(), _DASHES * 9, strict=False):
        frame.outline(canvas, other, dash)
    if content.compiled is not None:
        y = frame.y(content.compiled)
        canvas.path(f"M{_LEFT},{y:.1f} H{_WIDTH - _RIGHT}", "none s-mark thick dashed")
    frame.peak(canvas, content.peak_step, float(content.total.max(initial=0)))
    _legend(canvas, content)
    return canvas.render()


@final
@dataclass(frozen=True)
class _Frame:
    """Data to page."""

    steps: int
    top: float

    def x(self, step: float) -> float:
        return _LEFT + step / self.steps * (_WIDTH - _LEFT - _RIGHT)

    def y(self, count: float) -> float:
        return _HEIGHT - _BOTTOM - count / self.top * (_HEIGHT - _TOP - _BOTTOM)

    def axes(self, canvas: Canvas) -> None:
        """Lines at round amounts, step numbers below."""
        for share in range(5):
            amount = self.top * share / 4
            y = self.y(amount)
            canvas.path(f"M{_LEFT},{y:.1f} H{_WIDTH - _RIGHT}", "none s-grid thin")
            canvas.text(_LEFT - 8, y + 4, memory_size(amount), "f-soft", size=11, anchor="end")
        for share in range(5):
            step = round(1 + (self.steps - 1) * share / 4)
            canvas.text(
                self.x(step - 0.5), _HEIGHT - _BOTTOM + 18, str(step), "f-soft", size=11, anchor="middle"
            )
        canvas.text(_WIDTH - _RIGHT, _HEIGHT - _BOTTOM + 34, "step", "f-soft", size=11, anchor="end")

    def area(self, canvas: Canvas, low: np.ndarray, high: np.ndarray, style: str) -> None:
        """The band between two curves, constant over each step."""
        upper = self._points(high)
        lower = self._points(low)[::-1]
        data = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *lower]) + " z"
        canvas.path(data, style)

    def outline(self, canvas: Canvas, live: np.ndarray, dash: str) -> None:
        """Another timeline, as a line."""
        data = "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in self._points(live))
        canvas.path(data, "none s-ink thick", dash=dash)

    def peak(self, canvas: Canvas, step: int, amount: float) -> None:
        """A dot at the peak."""
        canvas.circle(self.x(step + 0.5), self.y(amount), 4, "f-mark s-paper thin")

    def _points(self, live: np.ndarray) -> list[tuple[float, float]]:
        # More steps than columns: each column shows the most its steps need, so no peak is lost.
        width = max(1, -(-len(live) // _COLUMNS))
        points = []
        for start in range(0, len(live), width):
            y = self.y(float(live[start : start + width].max()))
            points += [(self.x(start), y), (self.x(min(start + width, len(live))), y)]
        return points


def _legend(canvas: Canvas, content: Content) -> None:
    x, y = _LEFT - 56, _HEIGHT - 62
    for role, live in content.by_role.items():
        if live.any():
            canvas.rect(x, y - 9, 11, 11, f"f-{role}", round=2)
            canvas.text(x + 16, y, role, "f-ink", size=12)
            x += 16 + 7 * len(role) + 20
    if content.compiled is not None:
        words = f"compiled program: {memory_size(content.compiled)}"
        canvas.path(f"M{x:.1f},{y - 4} h18", "none s-mark thick dashed")
        canvas.text(x + 24, y, words, "f-ink", size=12)
        x += 24 + 6.4 * len(words) + 20
    for (name, other), dash in zip(content.compare.items(), _DASHES * 9, strict=False):
        words = f"{name}: peak {memory_size(float(other.max(initial=0)))}"
        canvas.path(f"M{x:.1f},{y - 4} h22", "none s-ink thick", dash=dash)
        canvas.text(x + 28, y, words, "f-ink", size=12)
        x += 28 + 6.4 * len(words) + 20
    if content.holders:
        canvas.text(
            _LEFT - 56, y + 22, "held at the peak by  " + "  ·  ".join(content.holders), "f-soft", size=12
        )
    note = "Operations one by one, unfused. Compiled, they are fused, but arguments and results are held throughout."
    canvas.text(_LEFT - 56, y + 42, note, "f-soft", size=11)


__all__ = ["Content", "svg"]
