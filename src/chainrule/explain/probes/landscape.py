"""The loss landscape on a plane through the trained weights, around them or along the path of training."""

from collections.abc import Sequence
from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Table
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.explain.methods.landscape import (
    Objective,
    Statistics,
    along,
    barrier,
    between,
    curvature,
    grid,
    objective,
    surface,
)
from chainrule.explain.methods.landscape_pictures import around, line, path_map, said
from chainrule.explain.methods.other_runs import beside
from chainrule.explain.methods.paths import FEWEST, main_plane, random_walk
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasOwnTraining, HasParts, Model
from chainrule.train import Run

MARGIN = 0.25
"""Room around a path, as a share of its extent."""
EXAMPLES, POINTS = 256, 25
"""What the loss is averaged over and how fine the grid is, where the model is not too large for that."""
FEWEST_EXAMPLES, FEWEST_POINTS = 16, 11
WORK = 1.5e12
"""Most floating-point operations of the grid, where its size is not given: some ten seconds on two cores."""


@final
class LandscapeSettings(Settings):
    """How much of the plane is looked at, and on what."""

    directions: Literal["random", "path"] = Field(
        "random", description="two random directions, or the two main ones of the run's own checkpoints"
    )
    points: int | None = Field(
        None, ge=3, description="points of the grid, each way; none: 25, fewer for a large model"
    )
    reach: float = Field(
        1.0, gt=0, description="how far along random directions, in multiples of the weights' own size"
    )
    other: str = Field(
        "",
        description="another run of the same model, its name beside this one or its folder: the loss between both",
    )
    statistics: Statistics | None = Field(
        None,
        description="of batch normalisers; none: trained around the weights, recomputed on a path or between runs",
    )
    examples: int | None = Field(
        None,
        ge=2,
        description="training examples the loss is averaged over, always the same; none: 256, fewer for a large model",
    )
    seed: int = Field(0, ge=0, description="which two random directions")


def examine(run: Run, data: Data, settings: LandscapeSettings) -> Outcome:
    """The loss around the weights or along their path, the extreme curvatures, and the line to another run."""
    examples, points = sizes(run.model, data.train, settings.examples, settings.points)
    shape = (
        _path(run, data, settings, examples, points)
        if settings.directions == "path"
        else _around(run, data, settings, examples, points)
    )
    loss = fixed(data.train, examples, settings.statistics or "trained")
    low, high = curvature(loss, run.model, random.key(settings.seed, "landscape"))
    bend = (
        f"Curvature at the weights (Lanczos, statistics held still) lies between {low:.3g} and {high:.3g}: the most "
        f"negative is {negative_share(low, high):.1%} of the largest."
    )
    line = _line(run, data, settings, examples, points) if settings.other else Outcome([])
    smaller = (
        [
            f"The model is large: the loss was averaged over {examples} examples at {points} x {points} points instead "
            f"of {EXAMPLES} and {POINTS} x {POINTS}; examples= and points= choose."
        ]
        if examples < (settings.examples or EXAMPLES) or points < (settings.points or POINTS)
        else []
    )
    return Outcome(
        [*shape.findings, bend, *line.findings, *smaller],
        [*shape.pictures, *line.pictures],
        shape.table,
        {
            "examples": examples,
            "points": points,
            **shape.numbers,
            "lowest": low,
            "highest": high,
            "ratio": negative_share(low, high),
            **line.numbers,
        },
    )


def sizes(model: Model, split: Split, examples: int | None, points: int | None) -> tuple[int, int]:
    """Examples and points of a grid: as given, else the usual ones, fewer where these would be too much work.

    Examples go first: the mean of some of them has the same shape.
    """
    wanted, fine = examples or EXAMPLES, points or POINTS
    share = WORK / max(_operations(model, split) * wanted * fine**2, 1.0)
    if examples is None and share < 1:
        fewer = max(FEWEST_EXAMPLES, int(wanted * share))
        wanted, share = fewer, share * wanted / fewer
    if points is None and share < 1:
        fine = max(FEWEST_POINTS, 2 * (int(fine * share**0.5) // 2) + 1)
    return wanted, fine


def _operations(model: Model, split: Split) -> float:
    """Floating-point operations of the loss of one example, as far as the compiler can count them."""
    arrays, rest = eqx.partition(model, eqx.is_array)
    loss = fixed(split, 2, "trained")
    lowered = jax.jit(lambda arrays: loss(eqx.combine(arrays, rest))).lower(arrays)
    return float((lowered.cost_analysis() or {}).get("flops", 0.0)) / 2


def fixed(split: Split, examples: int, statistics: Statistics) -> Objective:
    """The loss on the first examples of a split, always the same."""
    batch = jax.tree.map(jnp.asarray, split.batch(np.arange(min(examples, len(split)))))
    return objective(batch, random.key(0, "probe"), statistics)


def negative_share(low: float, high: float) -> float:
    """`|lambda_min / lambda_max|` of a Hessian, 0 where no curvature is negative.

    >>> negative_share(-1.0, 4.0), negative_share(0.5, 4.0)
    (0.25, 0.0)
    """
    return abs(min(low, 0.0)) / max(abs(high), 1e-12)


def _around(run: Run, data: Data, settings: LandscapeSettings, examples: int, points: int) -> Outcome:
    """The loss on a plane of two random directions."""
    statistics = settings.statistics or "trained"
    loss = fixed(data.train, examples, statistics)
    key = random.key(settings.seed, "landscape")
    found = surface(loss, run.model, key, points=points, reach=settings.reach)
    about = (
        f"Mean loss of {min(examples, len(data.train))} training examples at step {run.step:,}, running "
        f"statistics {said(statistics)}, two random directions rescaled filter by filter."
    )
    centre = float(eqx.filter_jit(loss)(run.model))
    return Outcome(
        [
            f"The loss is {centre:.4g} at the weights and between {found.losses.min():.4g} and "
            f"{found.losses.max():.4g} on the plane."
        ],
        around("landscape", "Loss around the weights", found, about),
        None,
        {"loss": centre, "losses": found.losses.tolist(), "steps": found.first.tolist()},
    )


def _path(run: Run, data: Data, settings: LandscapeSettings, examples: int, points: int) -> Outcome:
    """The loss on the plane of the run's own path."""
    steps = run.checkpoints
    if len(steps) < FEWEST:
        raise ArgumentError(
            f"directions=path: {run.id} keeps {len(steps)} checkpoints, a path needs at least {FEWEST}",
            remedy="train with more of them, e.g. keep=1000 save_every=20",
        )
    statistics = settings.statistics or "recomputed"
    loss = fixed(data.train, examples, statistics)
    return on_path(loss, steps, [run.model_at(step) for step in steps], points, statistics)


def on_path(
    loss: Objective, steps: Sequence[int], models: Sequence[Model], points: int, statistics: Statistics
) -> Outcome:
    """The loss on the plane that holds most of a path of models, with the path drawn on it."""
    path = main_plane(models)
    low, high = path.coordinates.min(axis=0), path.coordinates.max(axis=0)
    room = MARGIN * np.maximum(high - low, 0.05 * (high - low).max())
    first, second = (
        np.linspace(a, b, points, dtype=np.float32) for a, b in zip(low - room, high + room, strict=True)
    )
    found = grid(loss, models[-1], path.ways, first, second)
    at = eqx.filter_jit(loss)
    feet = [along(models[-1], *zip(point, path.ways, strict=True)) for point in path.coordinates.tolist()]
    far = np.sqrt((path.coordinates**2).sum(axis=1) + path.away**2)
    rows = [
        [step, float(at(model)), float(at(foot)), float(away / max(distance, 1e-12))]
        for step, model, foot, away, distance in zip(steps, models, feet, path.away, far, strict=True)
    ]
    walk = random_walk(len(models))[:2]
    shares, chance = (" and ".join(f"{share:.1%}" for share in two) for two in (path.shares, walk))
    return Outcome(
        [
            f"Two directions hold {shares} of the variance of the path of {len(models)} points, steps {steps[0]:,} to "
            f"{steps[-1]:,}; a random walk of as many would show {chance}.",
            f"The loss falls from {rows[0][1]:.4g} to {rows[-1][1]:.4g} on the way; where the plane is nearest to the "
            f"first point it is {rows[0][2]:.4g}.",
        ],
        [path_map(path, found, steps, statistics)],
        Table(
            "landscape-path-table",
            "Points of the path",
            ["step", "loss", "loss on the plane", "off the plane"],
            rows,
            caption="On the plane: at its point nearest to the weights of that step. Off the plane: the distance to "
            "that point, as a share of the distance to the last weights.",
        ),
        {
            "shares": path.shares.tolist(),
            "random walk": walk.tolist(),
            "path": path.coordinates.tolist(),
            "losses": found.losses.tolist(),
            "first": found.first.tolist(),
            "second": found.second.tolist(),
        },
    )


def _line(run: Run, data: Data, settings: LandscapeSettings, examples: int, points: int) -> Outcome:
    """The loss on the straight line to the weights of another run."""
    other = beside(run, settings.other)
    statistics = settings.statistics or "recomputed"
    losses = {
        "training examples": fixed(data.train, examples, statistics),
        "test examples": fixed(data.examples("test"), examples, statistics),
    }
    steps, found = between(losses, run.model, other.model, points=points)
    rise = {name: barrier(steps, values) for name, values in found.items()}
    curves = line(
        "landscape-line",
        f"Loss between {run.id} and {other.id}",
        {name: (steps, values) for name, values in found.items()},
        ("this run", "the other"),
        f"Mean loss, running statistics {said(statistics)}.",
    )
    return Outcome(
        [
            f"Between {run.id} and {other.id} the loss of the training examples rises "
            f"{rise['training examples']:.4g} above the straight line between its ends, that of test examples "
            f"{rise['test examples']:.4g}."
        ],
        [curves],
        None,
        {"barrier": rise, "line": {name: values.tolist() for name, values in found.items()}},
    )


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    # Around what EM or a closed form finds, most of a plane is no model at all: variances there are not positive.
    return not isinstance(model, HasParts | HasOwnTraining)


probe = Probe(
    "The loss on a plane through the trained weights: around them, along the path of training, or to another run.",
    "a model that follows the gradient of a single loss",
    _applies,
    examine,
    LandscapeSettings,
    toy={"points": 3, "examples": 8},
)

__all__ = [
    "LandscapeSettings",
    "examine",
    "fixed",
    "negative_share",
    "on_path",
    "probe",
    "sizes",
]
