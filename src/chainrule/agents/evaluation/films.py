"""Films of recordings: what happened, with what the policy thought of it below.

Every moment shows the state as its environment draws it; below it the course of rewards and of the value up to that
moment, and how much the policy wanted each action. `film` is the moving picture, `slides` the same step by step.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.agents.envs.drawing import Drawing, Line, Rectangle, Shape, Text
from chainrule.agents.envs.spaces import Box, Discrete
from chainrule.agents.evaluation.recording import Recording
from chainrule.core import checks
from chainrule.core.formatting import number
from chainrule.core.pictures import Film, Slides

_HEIGHT, _NARROWEST = 64, 200
_TOP, _BOTTOM = 22, 58
"""Between which heights of the panel curves and bars lie."""
_SECONDS_A_STEP, _SHORTEST, _LONGEST = 0.05, 2.0, 12.0
_MOST_BARS = 24


def film(
    recording: Recording, *, name: str = "episode", title: str = "An episode", frames: int = 100
) -> Film:
    """A recording as a moving picture of at most so many frames, spread evenly over its moments."""
    checks.whole("film", "frames", frames)
    drawn = [_frame(recording, moment).to_pixels() for moment in _moments(recording, frames)]
    seconds = float(np.clip(_SECONDS_A_STEP * len(recording), _SHORTEST, _LONGEST))
    pixels = np.stack(drawn)[:, None].astype(np.float32) / 255
    return Film(name, title, pixels, columns=1, seconds=seconds, caption=_caption(recording))


def slides(
    recording: Recording,
    *,
    name: str = "episode-steps",
    title: str = "An episode, step by step",
    count: int = 40,
) -> Slides:
    """A recording to be stepped through, in at most so many slides, with what was done and thought in words."""
    checks.whole("slides", "count", count)
    moments = _moments(recording, count)
    return Slides(
        name,
        title,
        [_frame(recording, moment).to_svg() for moment in moments],
        [_words(recording, moment) for moment in moments],
        _caption(recording),
    )


def _moments(recording: Recording, most: int) -> list[int]:
    """Moments from the first to the last: one more than there are steps, or fewer, spread evenly."""
    moments = len(recording) + 1
    return [int(m) for m in np.linspace(0, moments - 1, min(moments, most)).round()]


def _caption(recording: Recording) -> str:
    end = "came to its own end" if recording.terminated else "was cut off"
    return (
        f"{len(recording):,} steps, return {number(recording.score)}; the episode {end}. "
        "Below: value (blue) and reward (grey) up to this moment; how much each action was wanted."
    )


def _frame(recording: Recording, moment: int) -> Drawing:
    drawn = recording.drawing(moment)
    return drawn.above(_panel(recording, moment, max(drawn.width, _NARROWEST)))


def _panel(recording: Recording, moment: int, width: int) -> Drawing:
    total = number(float(recording.rewards[:moment].sum(dtype=np.float64)))
    said = Text(width / 2, 10, f"step {moment} of {len(recording)}   return {total}", "soft", 11)
    ground = Line(((8, _BOTTOM), (width / 2 - 8, _BOTTOM)), "grid", 1)
    curves = [
        *_curve(recording.rewards, moment, width / 2, "field", 0.6),
        *_curve(recording.values, moment, width / 2, "1", 1.0),
    ]
    wanted = _wanted(recording, min(moment, len(recording) - 1), width / 2 + 8, width - 8)
    return Drawing(width, _HEIGHT, [said, ground, *curves, *wanted], "course of the episode")


def _curve(values: np.ndarray, moment: int, width: float, color: str, opacity: float) -> list[Shape]:
    """A curve up to a moment, on the scale of the whole episode."""
    known = values[np.isfinite(values)]
    if moment < 1 or not known.size:
        return []
    heights = _BOTTOM - (_BOTTOM - _TOP) * _scaled(values[:moment], float(known.min()), float(known.max()))
    across = 8 + (width - 16) * np.arange(moment) / max(len(values) - 1, 1)
    # As many points as there are pixels: more cannot be seen.
    some = np.unique(np.linspace(0, moment - 1, min(moment, int(width))).round().astype(int))
    points = [(float(across[i]), float(heights[i])) for i in some if np.isfinite(heights[i])]
    return [Line(points, color, 1.5, opacity)] if points else []


def _wanted(recording: Recording, step: int, left: float, right: float) -> Sequence[Shape]:
    space: Any = recording.env.action_space
    if isinstance(space, Discrete) and space.n <= _MOST_BARS:
        return _bars(recording.preferences[step], int(recording.actions[step]), left, right)
    if isinstance(space, Box) and space.bounded and 0 < space.size <= 4:
        return _tracks(
            np.ravel(recording.actions[step]), np.ravel(space.low), np.ravel(space.high), left, right
        )
    return []


def _bars(preferences: np.ndarray, taken: int, left: float, right: float) -> Sequence[Shape]:
    """A bar for each action: probabilities from 0 to 1, values from the lowest to the highest."""
    if is_probabilities(preferences):
        shares = preferences
    else:
        known = preferences[np.isfinite(preferences)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
        shares = 0.15 + 0.85 * _scaled(preferences, low, high)
    step = (right - left) / len(shares)
    heights = (_BOTTOM - _TOP) * np.nan_to_num(np.asarray(shares, float))
    return [
        Rectangle(
            left + step * a + 1,
            _BOTTOM - float(h),
            step - 2,
            max(float(h), 1.0),
            "2" if a == taken else "field",
        )
        for a, h in enumerate(heights)
    ]


def _tracks(
    action: np.ndarray, low: np.ndarray, high: np.ndarray, left: float, right: float
) -> Sequence[Shape]:
    """A track for each entry of a continuous action, with a knob where it is."""
    gap = (_BOTTOM - _TOP) / (len(action) + 1)
    shares = np.clip((action - low) / np.maximum(high - low, 1e-12), 0, 1)
    found: list[Shape] = []
    for row, share in enumerate(shares, start=1):
        y, x = _TOP + gap * row, left + (right - left) * float(share)
        found += [Line(((left, y), (right, y)), "axis", 2), Rectangle(x - 3, y - 5, 6, 10, "2", 2)]
    return found


def _words(recording: Recording, moment: int) -> str:
    """What is said of a moment."""
    total = number(float(recording.rewards[:moment].sum(dtype=np.float64)))
    if moment == len(recording):
        return f"After the last step\nreturn {total}"
    lines = [
        f"Step {moment}",
        f"return so far {total}, reward to come {number(float(recording.rewards[moment]))}",
    ]
    if np.isfinite(recording.values[moment]):
        lines.append(f"value {number(float(recording.values[moment]))}")
    taken, wanted = recording.actions[moment], recording.preferences[moment]
    lines.append("action " + " ".join(number(float(a)) for a in np.ravel(taken)))
    if isinstance(recording.env.action_space, Discrete) and wanted.size <= _MOST_BARS:
        if is_probabilities(wanted):
            lines.append("probabilities of actions " + " ".join(f"{a:.2f}" for a in wanted))
        else:
            lines.append("values of actions " + " ".join(number(float(a), 3) for a in wanted))
    return "\n".join(lines)


def is_probabilities(preferences: np.ndarray) -> bool:
    """Whether preferences among actions, the last axis, are probabilities; else they are values.

    >>> is_probabilities(np.array([0.25, 0.75])), is_probabilities(np.array([3.0, -2.0]))
    (True, False)
    """
    return bool((preferences >= 0).all() and np.allclose(preferences.sum(axis=-1), 1, atol=1e-3))


def _scaled(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """From 0 at the lowest to 1 at the highest; one half where all are the same."""
    return (values - low) / (high - low) if high > low else np.full(np.shape(values), 0.5)


__all__ = ["film", "is_probabilities", "slides"]
