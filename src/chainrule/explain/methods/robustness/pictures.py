"""Pictures of attacks: triples of images, changed columns, paths across the map of decisions, how little is enough."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from chainrule.core.formatting import short_number
from chainrule.core.pictures import Bars, Images, Lines, Picture, Scatter, Table
from chainrule.core.types import Key
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.explain.methods.attacks import Aim, Attack, attacked, probabilities, stations
from chainrule.nn.attacks import Smallest

SHOWN = 6
"""Examples of a sheet, or paths of a map."""
_COLUMNS = 12
_GRID = 120
_BINS = 12
_CLASSES = 4
"""Classes whose probabilities are followed."""


def before_and_after(
    aim: Aim,
    worst: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    raw: tuple[np.ndarray, np.ndarray],
    caption: str,
) -> Picture:
    """Images as triples, anything else as a table of one example; first what was right before and is wrong after.

    `raw` are the examples before and after in data units.
    """
    before, after = probabilities(aim.victim, aim.x), probabilities(aim.victim, worst)
    fooled = (before.argmax(axis=-1) == y) & (after.argmax(axis=-1) != y)
    chosen = np.argsort(~fooled, kind="stable")[:SHOWN]
    names = [[f"{schema.classes[p[i].argmax()]} {p[i].max():.0%}" for i in chosen] for p in (before, after)]
    if kinds.of(schema).spatial:
        return _triples(raw, chosen, names, schema, caption)
    return _changed_columns(raw, int(chosen[0]), (names[0][0], names[1][0]), schema, caption)


def _triples(
    raw: tuple[np.ndarray, np.ndarray],
    chosen: np.ndarray,
    names: Sequence[Sequence[str]],
    schema: Schema,
    caption: str,
) -> Images:
    bounds = kinds.of(schema).raw_range(schema)
    assert bounds is not None, "images have a range"
    low, span = bounds[0], bounds[1] - bounds[0]
    clean, wrong = (_shown((images[chosen] - low) / span) for images in raw)
    change = wrong - clean
    times = 0.5 / max(float(np.abs(change).max()), 1e-9)
    return Images(
        "attack-images",
        "Clean, change, attacked",
        np.clip(np.concatenate([clean, change * times + 0.5, wrong]), 0, 1),
        [*names[0], *[""] * len(chosen), *names[1]],
        columns=len(chosen),
        aligned=True,
        caption="Rows: the image and its prediction; the change (grey: none; "
        f"enlarged {short_number(times)} times); the sum of both and its prediction. {caption}",
    )


def magnified(
    aim: Aim,
    worst: np.ndarray,
    y: np.ndarray,
    schema: Schema,
    sizes: Sequence[float],
    attack: Attack,
    key: Key,
    raw: Callable[[Any], np.ndarray],
) -> list[Picture]:
    """One image at every radius: the change enlarged alike, the image with it, and how the classes fare.

    It is the first that is right as it is and wrong in `worst`.
    """
    if not kinds.of(schema).spatial:
        return []
    before, after = probabilities(aim.victim, aim.x), probabilities(aim.victim, worst)
    fooled = (before.argmax(axis=-1) == y) & (after.argmax(axis=-1) != y)
    which = int(np.argmax(fooled))
    one = aim._replace(x=aim.x[which : which + 1], y=aim.y[which : which + 1])
    moved = np.concatenate([np.asarray(attacked(one, attack, eps, key)) for eps in sizes])
    p = probabilities(aim.victim, moved)
    bounds = kinds.of(schema).raw_range(schema)
    assert bounds is not None, "images have a range"
    low, span = bounds[0], bounds[1] - bounds[0]
    clean, wrong = (_shown((raw(images) - low) / span) for images in (one.x, moved))
    change = wrong - clean
    times = 0.5 / max(float(np.abs(change).max()), 1e-9)
    names = [f"{schema.classes[row.argmax()]} {row.max():.0%}" for row in p]
    eps = [short_number(float(size)) for size in sizes]
    classes = np.argsort(-p.max(axis=0), kind="stable")[:_CLASSES]
    across = np.asarray(sizes, np.float64)
    return [
        Images(
            "attack-magnifier",
            f"Test image {which} at every eps",
            np.clip(np.concatenate([change * times + 0.5, wrong]), 0, 1),
            [*(f"eps {size}" for size in eps), *names],
            columns=len(eps),
            aligned=True,
            caption=f"Above the change, enlarged {short_number(times)} times (grey: none), below the image with it and "
            "what it is taken for.",
        ),
        Lines(
            "attack-classes",
            f"What test image {which} is taken for",
            "eps",
            "probability",
            {schema.classes[number]: (across, p[:, number]) for number in np.sort(classes)},
        ),
    ]


def _changed_columns(
    raw: tuple[np.ndarray, np.ndarray],
    index: int,
    names: tuple[str, str],
    schema: Schema,
    caption: str,
) -> Table:
    clean, wrong = (np.asarray(rows[index], np.float64).ravel() for rows in raw)
    spread = np.maximum(np.ptp(raw[0].reshape(len(raw[0]), -1), axis=0), 1e-12)
    order = np.argsort(-np.abs(wrong - clean) / spread, kind="stable")[:_COLUMNS]
    columns = schema.columns or tuple(f"entry {j + 1}" for j in range(clean.size))
    rows = [
        [columns[j], *(float(f"{v:.4g}") for v in (clean[j], wrong[j] - clean[j], wrong[j]))] for j in order
    ]
    return Table(
        "attack-columns",
        f"Example {index}: {names[0]} before, {names[1]} after",
        ["column", "before", "change", "after"],
        rows,
        caption=f"What moved most, by the range of its column. {caption}",
    )


def decision_map(
    aim: Aim, y: np.ndarray, schema: Schema, eps: float, steps: int, norm: str, loss: str
) -> Scatter:
    """The plane in the colours of what is predicted, and the paths of attacks across it, in data units."""
    unit = np.ones(2) if aim.victim.unit is None else np.asarray(aim.victim.unit).ravel()
    chosen = _near_the_border(aim, y)
    few = aim._replace(x=aim.x[chosen], y=aim.y[chosen])
    way = np.asarray(stations(few, eps, steps, norm=norm, loss=loss)) * unit
    x = np.asarray(aim.x).reshape(len(aim.x), -1) * unit
    low, high = (f(axis=0) for f in (np.concatenate([x, way.reshape(-1, 2)]).min, x.max))
    high = np.maximum(high, way.reshape(-1, 2).max(axis=0))
    margin = 0.05 * np.maximum(high - low, 1e-9)
    low, high = low - margin, high + margin
    across, up = (np.linspace(low[i], high[i], _GRID) for i in (0, 1))
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2) / unit
    p = probabilities(aim.victim, jnp.asarray(grid, aim.x.dtype).reshape(-1, *aim.x.shape[1:]))
    field = p[:, 1] if p.shape[1] == 2 else p.argmax(axis=-1) / (p.shape[1] - 1)
    starts, ends = way[:-1].reshape(-1, 2), way[1:].reshape(-1, 2)
    label = (*schema.columns, "first coordinate", "second coordinate")
    return Scatter(
        "attack-map",
        "Paths of attacks across the map of decisions",
        *(label[0], label[1]),
        {name: x[y == i] for i, name in enumerate(schema.classes)},
        field.reshape(_GRID, _GRID).astype(np.float64),
        (float(low[0]), float(high[0]), float(low[1]), float(high[1])),
        arrows=(starts, ends - starts),
        caption=f"Arrows: {steps} steps from each of {len(chosen)} test examples that were right, near the border.",
    )


def _near_the_border(aim: Aim, y: np.ndarray) -> np.ndarray:
    """Examples that are right with little to spare: their paths cross the border."""
    p = probabilities(aim.victim, aim.x)
    rival = np.where(np.arange(p.shape[1])[None] == y[:, None], 0.0, p).max(axis=-1)
    sure = p[np.arange(len(y)), y] - rival
    return np.argsort(np.where(sure > 0, sure, np.inf), kind="stable")[:SHOWN]


def histogram(found: Smallest, largest: float, unit: str) -> Bars:
    """How many examples fall at which radius; the last bar has those that never do."""
    eps = np.asarray(found.eps, np.float64)
    finite = eps[np.isfinite(eps)]
    top = float(finite.max()) if finite.size and finite.max() > 0 else largest
    counts, edges = np.histogram(finite, _BINS, (0, top))
    never = int((~np.isfinite(eps)).sum())
    return Bars(
        "attack-smallest",
        "The smallest change that is enough",
        f"smallest eps, {unit}",
        "examples",
        [*(short_number(float(edge)) for edge in edges[1:]), *(["never"] if never else [])],
        {"examples": np.array([*counts, *([never] if never else [])], np.float64)},
        caption="Found by bisection with the iterated attack, so upper bounds: the nearest error may be nearer. Labels "
        "are the upper ends of the bars.",
    )


def _shown(images: np.ndarray) -> np.ndarray:
    """Images in grey or colour; of other channels the mean."""
    return images if images.shape[-1] in (1, 3) else images.mean(axis=-1, keepdims=True)


__all__ = ["before_and_after", "decision_map", "histogram", "magnified"]
