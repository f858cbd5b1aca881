"""What a domain-adversarial network shows: its game over time, regions of classes, both domains at the end."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from chainrule.core.palette import GROUPS, LIGHT
from chainrule.core.pictures import Film, Heatmap, Lines, Picture, Scatter
from chainrule.core.quoting import plain
from chainrule.core.types import Array
from chainrule.data.dataset import Data
from chainrule.data.splits import Split
from chainrule.models.protocol import Alarm, CanAdapt, CanPredict

_SIDE = 200
"""Pixels of the plane that is drawn."""
_EACH = 500
"""Points of a domain that are drawn."""
_MARGIN = 0.08
_BEGUN = 0.5
"""Share of a run after which domains that are told apart are worth an alarm."""
_APART = 0.95
_KEPT = 0.9
"""Share of the best accuracy in the first domain below which its classes count as lost."""
_FEWEST = 10
"""Lines of a history before anything is said of it."""


def window(data: Data) -> Float[np.ndarray, "2 axes"]:
    """Lowest and highest corner of what both domains take up, with a margin."""
    both = [data.train.x, *([data.other.train.x] if data.other else [])]
    points = np.concatenate([np.asarray(part, np.float32).reshape(-1, 2) for part in both])
    low, high = points.min(axis=0), points.max(axis=0)
    margin = _MARGIN * np.maximum(high - low, 1e-6)
    return np.stack([low - margin, high + margin])


def grid(corners: Float[np.ndarray, "2 axes"]) -> Float[np.ndarray, "points 2"]:
    """Points of the plane, row by row from below."""
    axes = [np.linspace(corners[0, i], corners[1, i], _SIDE) for i in (0, 1)]
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2).astype(np.float32)


def film(
    steps: Int[np.ndarray, " moments"], probabilities: np.ndarray, corners: np.ndarray, data: Data
) -> list[Picture]:
    """Regions of classes at each moment, with examples of the first domain and, darker, of the other one."""
    colours = np.stack([_rgb(GROUPS[i % len(GROUPS)]) for i in range(probabilities.shape[-1])])
    pale = 0.72 + 0.28 * colours
    frames = (probabilities @ pale).reshape(len(steps), _SIDE, _SIDE, 3)[:, ::-1].copy()
    batch = data.train.batch(np.arange(min(_EACH, len(data.train))))
    _dots(frames, np.asarray(batch.x).reshape(-1, 2), corners, colours[np.asarray(batch.y)])
    what = f"Dots: {plain(data.name)}, by class."
    if data.other is not None:
        others = np.asarray(data.other.train.batch(np.arange(min(_EACH, len(data.other.train)))).x).reshape(
            -1, 2
        )
        _dots(frames, others, corners, np.broadcast_to(_rgb("ink"), (len(others), 3)))
        what += f" Black: {plain(data.other.name)}, whose classes training does not see."
    labels = [f"step {step:,}" for step in steps]
    return [Film("film", "Regions of the classes", frames[:, None], labels, 1, caption=what)]


def _rgb(role: str) -> np.ndarray:
    code = LIGHT[role]
    return np.array([int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def _dots(frames: np.ndarray, points: np.ndarray, corners: np.ndarray, colours: np.ndarray) -> None:
    at = np.rint((points - corners[0]) / (corners[1] - corners[0]) * (_SIDE - 1)).astype(int)
    inside = ((at >= 0) & (at < _SIDE)).all(axis=1)
    frames[:, _SIDE - 1 - at[inside, 1], at[inside, 0]] = colours[inside]


def curves(history: Mapping[str, np.ndarray]) -> list[Picture]:
    """The game over time."""
    found: list[Picture] = []
    accuracy = _curve(history, "domain_accuracy")
    if accuracy is not None:
        chance = (accuracy[0], np.full(len(accuracy[0]), 0.5))
        found.append(
            Lines(
                "domain-accuracy",
                "Telling the domains apart",
                "step",
                "share correct",
                {"discriminator": accuracy, "chance": chance},
                caption="At one half the discriminator cannot tell the domains by their features.",
            )
        )
    for name, title, unit in (
        ("label_loss", "Loss of the classes", "nats"),
        ("distance", "Distance of the domains", ""),
        ("strength", "Weight of the alignment", ""),
    ):
        curve = _curve(history, name)
        if curve is not None:
            found.append(Lines(name.replace("_", "-"), title, "step", unit, {"training": curve}))
    return found


def _curve(history: Mapping[str, np.ndarray], name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Steps and values of a number of training, whichever part it is of."""
    column = next((key for key in history if key.split(".")[-1] == name), None)
    if column is None:
        return None
    chosen = (history["split"] == "train") & np.isfinite(history[column])
    return (history["step"][chosen], history[column][chosen]) if chosen.any() else None


def alarms(history: Mapping[str, np.ndarray]) -> list[Alarm]:
    """Domains that are told apart as if nothing aligned them, and classes that are lost while domains are aligned."""
    return [*_apart(history), *_lost(history)]


def _apart(history: Mapping[str, np.ndarray]) -> list[Alarm]:
    accuracy, strength = _curve(history, "domain_accuracy"), _curve(history, "strength")
    if accuracy is None or strength is None or len(accuracy[0]) < _FEWEST:
        return []
    late = accuracy[1][-_FEWEST:]
    if strength[1][-1] < _BEGUN or late.min() < _APART:
        return []
    text = (
        f"the discriminator tells the domains apart in {late.mean():.0%} of the cases; what helps: a larger strength, "
        "a smaller discriminator, a lower optimizer.lr"
    )
    return [Alarm("domains apart", int(accuracy[0][-1]), text)]


def _lost(history: Mapping[str, np.ndarray]) -> list[Alarm]:
    accuracy = _curve(history, "accuracy")
    if accuracy is None or len(accuracy[0]) < 2 * _FEWEST:
        return []
    means = np.convolve(accuracy[1], np.full(_FEWEST, 1 / _FEWEST), "valid")
    if means[-1] > _KEPT * means.max():
        return []
    text = (
        f"classes of the first domain are right in {means[-1]:.0%} of the cases, after {means.max():.0%} before: "
        "features are made alike at the expense of the classes; what helps: a smaller strength, fewer steps, a lower "
        "optimizer.lr"
    )
    return [Alarm("classes lost", int(accuracy[0][-1]), text)]


def beside(model: CanAdapt, data: Data) -> list[Picture]:
    """The features of both domains in the plane that shows most of them, and confusion in the one and in the other."""
    if data.other is None:
        return []
    parts = {data.name: data.held_out()[0], data.other.name: data.other.held_out()[0]}
    return [_map(model, parts), *_confusion(model, data, parts)]


def _map(model: CanAdapt, parts: Mapping[str, Split]) -> Picture:
    features = {
        name: np.asarray(
            _features(model, jnp.asarray(part.batch(np.arange(min(_EACH, len(part)))).x)), np.float64
        )
        for name, part in parts.items()
    }
    every = np.concatenate(list(features.values()))
    mean = every.mean(axis=0)
    axes = np.linalg.svd(every - mean, full_matrices=False)[2][:2]
    if len(axes) < 2:
        axes = np.vstack([axes, np.zeros_like(axes)])
    return Scatter(
        "domains",
        "Features of both domains",
        "first principal component",
        "second",
        {plain(name): (values - mean) @ axes.T for name, values in features.items()},
        caption="Held-out examples. Where the domains lie on each other, one classifier serves both.",
    )


def _confusion(model: CanAdapt, data: Data, parts: Mapping[str, Split]) -> list[Picture]:
    found: list[Picture] = []
    classes = data.schema.classes
    for number, (name, part) in enumerate(parts.items()):
        if "y" not in part.arrays:
            continue
        batch = part.batch(np.arange(len(part)))
        said = np.asarray(_predict(model, jnp.asarray(batch.x))).argmax(axis=1)
        counts = np.zeros((len(classes), len(classes)))
        np.add.at(counts, (np.asarray(batch.y), said), 1)
        rows = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        right = float(np.trace(counts) / counts.sum())
        found.append(
            Heatmap(
                f"confusion-{'source' if number == 0 else 'target'}",
                f"{plain(name)}: {right:.1%} right",
                "predicted",
                "true",
                rows,
                [plain(one, 20) for one in classes],
                [plain(one, 20) for one in classes],
                numbers=len(classes) <= 12,
            )
        )
    return found


@eqx.filter_jit
def _features(model: CanAdapt, x: Array) -> Array:
    return model.features(x)


@eqx.filter_jit
def _predict(model: CanAdapt, x: Array) -> Array:
    assert isinstance(model, CanPredict), "what adapts to a domain predicts in it"
    return model.predict(x)


__all__ = ["alarms", "beside", "curves", "film", "grid", "window"]
