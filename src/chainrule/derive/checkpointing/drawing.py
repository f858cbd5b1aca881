"""Drawing of the memory-recomputation frontier."""

from collections.abc import Callable, Sequence

from chainrule.core.formatting import memory_size
from chainrule.derive.svg import Canvas, round_bytes

_WIDTH, _HEIGHT = 760.0, 440.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 96.0, 84.0, 74.0


def svg(points: Sequence[tuple[str, int, int]], frontier: Sequence[str], chosen: str, budget: int) -> str:
    """Every candidate as a dot (peak bytes, work), the frontier as a line, the budget as a wall."""
    canvas = Canvas(_WIDTH, _HEIGHT, "memory against recomputation")
    cheapest = max(min(flops for _, _, flops in points), 1)
    placed = {label: (float(peak), flops / cheapest) for label, peak, flops in points}
    right = round_bytes(max(peak for peak, _ in placed.values()))
    ticks = _ticks(max(work for _, work in placed.values()))
    low, high = ticks[0] - 0.3 * (ticks[1] - ticks[0]), ticks[-1]

    def x(peak: float) -> float:
        return _LEFT + peak / right * (_WIDTH - _LEFT - _RIGHT)

    def y(work: float) -> float:
        return _HEIGHT - _BOTTOM - (work - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    peak, work = placed[chosen]
    canvas.text(24, 32, "checkpointing: memory against recomputation", "f-ink bold", size=16)
    found = f"chosen: {chosen}, peak {memory_size(peak)}, {work:.2f} times the work"
    canvas.text(24, 52, f"{found}; budget {memory_size(budget)}", "f-soft", size=12)
    for tick in ticks:
        canvas.path(f"M{_LEFT},{y(tick):.1f} H{_WIDTH - _RIGHT}", "none s-grid thin")
        canvas.text(_LEFT - 8, y(tick) + 4, f"{tick:g}×", "f-soft", size=11, anchor="end")
    for share in range(5):
        amount = right * share / 4
        canvas.text(
            x(amount), _HEIGHT - _BOTTOM + 18, memory_size(amount), "f-soft", size=11, anchor="middle"
        )
    canvas.text(_WIDTH - _RIGHT, _HEIGHT - _BOTTOM + 40, "peak memory", "f-soft", size=12, anchor="end")
    canvas.text(_LEFT - 42, _TOP - 12, "work, relative to storing all", "f-soft", size=12)
    if budget < right:
        canvas.path(f"M{x(budget):.1f},{_TOP} V{_HEIGHT - _BOTTOM}", "none s-mark thick dashed")
        canvas.text(x(budget) + 6, _HEIGHT - _BOTTOM - 8, "budget", "f-mark halo", size=11)
    line = sorted(placed[label] for label in frontier)
    canvas.path(
        "M" + " L".join(f"{x(peak):.1f},{y(work):.1f}" for peak, work in line), "none s-tangent thick"
    )
    for label, (peak, work) in sorted(placed.items(), key=lambda item: item[0] in frontier):
        style = "f-mark" if label == chosen else "f-tangent" if label in frontier else "f-axis"
        canvas.open(f"{label}: {memory_size(peak)}, {work:.2f} times the work")
        canvas.circle(x(peak), y(work), 6 if label == chosen else 4, f"{style} s-paper thin")
        canvas.close()
    _names(canvas, [chosen, *frontier], placed, x, y)
    return canvas.render()


def _names(
    canvas: Canvas,
    labels: Sequence[str],
    placed: dict[str, tuple[float, float]],
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> None:
    """Write names beside dots, the first ones first, leaving out those that would cover another."""
    written: list[tuple[float, float]] = []
    for label in dict.fromkeys(labels):
        left, base = x(placed[label][0]) + 9, y(placed[label][1]) - 7
        if all(abs(left - other) > 100 or abs(base - height) > 14 for other, height in written):
            canvas.text(left, base, label, "f-ink halo", size=11)
            written.append((left, base))


def _ticks(most: float) -> list[float]:
    """Round numbers from 1 to just above the most work."""
    step = next(
        step for step in (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 1e9) if (most - 1) / step <= 5
    )
    count = int((most - 1) / step) + 1
    return [1 + step * one for one in range(count + 1)]


__all__ = ["svg"]
