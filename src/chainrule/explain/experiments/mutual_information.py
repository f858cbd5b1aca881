"""Estimators of mutual information side by side: on pairs whose information is known, or on a data set of yours."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, final

import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule.core.errors import ArgumentError, DataError
from chainrule.core.pictures import Bars, Lines, Picture, Table
from chainrule.data import kinds, targets
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.information.estimates.estimate import (
    ESTIMATORS,
    MutualInformationPanel,
    mutual_information_estimate,
    mutual_information_panel,
)

_NETWORKS = ("infonce", "mine", "nwj", "smile")
_REPEATED = 10
"""Values that come so often on average are labels."""
_RANKED = 30
"""Columns of a data set that are ranked by themselves."""


@final
class MutualInformationSettings(Settings):
    """Pairs of normals, or inputs and targets of a data set; and the methods."""

    data: str | None = Field(None, description="name or path of data with a target; none: pairs of normals")
    load: dict[str, Any] = Field(
        default_factory=dict, description="options of the data, e.g. load.target=price"
    )
    correlations: tuple[Annotated[float, Field(gt=-1, lt=1)], ...] = Field(
        (0.0, 0.5, 0.9, 0.99), min_length=1, description="normals: of each coordinate of x with that of y"
    )
    dimensions: int = Field(1, ge=1, le=1000, description="normals: coordinates of x and of y")
    n: int = Field(2000, ge=20, le=1_000_000, description="pairs, at most")
    methods: tuple[str, ...] = Field(tuple(ESTIMATORS), min_length=1, description="which of them")
    steps: int = Field(1500, ge=1, le=1_000_000, description="of training of each critic, at most")
    batch: int = Field(128, ge=2, le=100_000, description="of each critic; infonce is at most its logarithm")
    critic: Literal["separable", "joint"] = Field(
        "separable", description="critics: a product of two codes, or a network of both values"
    )
    bins: int = Field(30, ge=2, le=10_000, description="binning: for each number")
    edges: Literal["width", "quantile"] = Field(
        "width", description="binning: bins of one width, or of one count of values"
    )
    k: int = Field(3, ge=1, le=1000, description="ksg: neighbours")
    noise: float = Field(0.1, gt=0, description="noise: its standard deviation, in the units of the model")
    seed: int = Field(0, ge=0, description="pairs, divisions and weights")


def run(settings: MutualInformationSettings, listener: Listener) -> Outcome:
    """All methods on the same pairs."""
    for name in settings.methods:
        if name not in ESTIMATORS:
            raise ArgumentError(
                f"methods={','.join(settings.methods)}: there is no method {name!r}",
                remedy=f"choose among {', '.join(ESTIMATORS)}",
            )
    return _of_data(settings, listener) if settings.data else _of_normals(settings, listener)


def _panel(
    settings: MutualInformationSettings,
    methods: Sequence[str],
    x: np.ndarray,
    y: np.ndarray,
    truth: float | None = None,
) -> MutualInformationPanel:
    options: dict[str, dict[str, Any]] = {
        **{
            name: {"steps": settings.steps, "batch": settings.batch, "critic": settings.critic}
            for name in _NETWORKS
        },
        "label": {"steps": settings.steps, "batch": settings.batch},
        "binning": {"bins": settings.bins, "edges": settings.edges},
        "ksg": {"k": settings.k},
        "noise": {"noise": settings.noise},
    }
    return mutual_information_panel(x, y, methods, seed=settings.seed, truth=truth, options=options)


def _of_normals(settings: MutualInformationSettings, listener: Listener) -> Outcome:
    methods = [name for name in settings.methods if name not in ("label", "noise")]
    if not methods:
        raise ArgumentError(
            f"methods={','.join(settings.methods)}: label and noise measure something else than the information of two "
            "normals",
            remedy="add ksg or binning, or give data= with classes",
        )
    draw = np.random.default_rng(settings.seed).normal(size=(2, settings.n, settings.dimensions))
    panels = []
    for rho in settings.correlations:
        truth = 0.5 * settings.dimensions * np.log2(1 / (1 - rho**2))
        listener(f"correlation {rho:g}: {truth:.3g} bits, {', '.join(methods)}")
        y = rho * draw[0] + np.sqrt(1 - rho**2) * draw[1]
        panels.append(_panel(settings, methods, draw[0], y, float(truth)))
    truths = np.array([panel.truth or 0.0 for panel in panels])
    order = np.argsort(truths)
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for number, name in enumerate(methods):
        found = [panels[i].estimates[number] for i in order]
        low, high = (np.array([one.interval[side] for one in found]) for side in (0, 1))
        series[name] = (truths[order], np.array([one.value for one in found]), low, high)
    worst = panels[int(np.argmax([panel.disagreement for panel in panels]))]
    return Outcome(
        [
            *(_said(panel) for panel in panels),
            f"They disagree most, by {worst.disagreement:.3g} bits, where the truth is {worst.truth:.3g} bits.",
        ],
        [
            Lines(
                "mutual-information",
                f"Estimates of {settings.n:,} pairs of normals in {settings.dimensions} + {settings.dimensions} "
                "dimensions",
                "true mutual information in bits",
                "estimate in bits",
                series,
                diagonal=True,
                caption="Bands are the intervals each method claims; bias is not in them. Estimates on the dashed line "
                "are right.",
            )
        ],
        worst.table(),
        {
            "unit": "bits",
            "truth": truths.tolist(),
            "estimates": {
                name: [panel.estimates[number].value for panel in panels]
                for number, name in enumerate(methods)
            },
            "intervals": {
                name: [list(panel.estimates[number].interval) for panel in panels]
                for number, name in enumerate(methods)
            },
        },
    )


def _said(panel: MutualInformationPanel) -> str:
    ranked = sorted(panel.estimates, key=lambda one: abs(one.value - (panel.truth or 0.0)))
    return (
        f"True {panel.truth:.3g} bits: nearest is {ranked[0].method} with {ranked[0].value:.3g}, farthest "
        f"{ranked[-1].method} with {ranked[-1].value:.3g}."
    )


def _of_data(settings: MutualInformationSettings, listener: Listener) -> Outcome:
    assert settings.data is not None, "asked before"
    found = sources.load(settings.data, **settings.load)
    listener(f"{found.name}: {found.describe()}")
    if not kinds.of(found.schema).comparable or not targets.of(found.schema).given:
        raise DataError(
            f"{found.name}: inputs of numbers and a target are needed",
            remedy="give a table with load.target=COLUMN, or images with classes",
        )
    chosen = np.random.default_rng(settings.seed).permutation(len(found.train))[: settings.n]
    batch = found.train.batch(chosen)
    x = np.asarray(batch.x, np.float64).reshape(len(chosen), -1)
    y = np.asarray(batch.y)
    y = y if targets.of(found.schema).link != "identity" else y.astype(np.float64)
    # Noise added to numbers that are no label's says which example it is, not what x and y share.
    methods = [name for name in settings.methods if name != "noise" or y.dtype.kind != "f"]
    panel = _panel(settings, methods, x, y)
    ranking, table = _columns(settings, found.schema, x, y)
    low, high = (select(panel.estimates, key=lambda one: one.value) for select in (min, max))
    return Outcome(
        [
            f"Between all {x.shape[1]} inputs and the target of {found.name}, {len(x):,} examples: from "
            f"{low.value:.3g} bits ({low.method}) to {high.value:.3g} ({high.method}).",
            *(f"{one.method}: {one.caveat}" for one in panel.estimates),
            f"By itself, {ranking[0][0]} says most about the target: {ranking[0][1]:.3g} bits.",
        ],
        _bars(panel, ranking),
        table,
        {
            "unit": "bits",
            "estimates": {one.method: one.value for one in panel.estimates},
            "intervals": {one.method: list(one.interval) for one in panel.estimates},
            "left_out": dict(panel.left_out),
            "columns": dict(ranking),
        },
    )


def _columns(
    settings: MutualInformationSettings, schema: Schema, x: np.ndarray, y: np.ndarray
) -> tuple[list[tuple[str, float]], Table]:
    """Every input by itself, the one that says most first."""
    rows: list[list[str | float | int]] = []
    for column in range(x.shape[1]):
        values = x[:, column]
        repeats = len(np.unique(values)) <= max(2, len(values) // _REPEATED)
        # What takes a few values only has no neighbours: it is a label.
        one = (
            mutual_information_estimate(values, y, "binning", discrete="both", shuffles=0)
            if repeats and y.dtype.kind != "f"
            else mutual_information_estimate(
                values, y, "ksg", k=settings.k, seed=settings.seed, discrete="x" if repeats else "auto"
            )
        )
        name = schema.columns[column] if len(schema.columns) == x.shape[1] else f"input {column}"
        rows.append([name, *(float(v) for v in (one.value, *one.interval)), one.method])
    rows.sort(key=lambda row: -float(row[1]))
    table = Table(
        "mutual-information-inputs",
        "Inputs by what each says about the target",
        ["input", "bits", "from", "to", "method"],
        rows[:_RANKED],
        caption="Two that say little apart can say much together.",
    )
    return [(str(row[0]), float(row[1])) for row in rows], table


def _bars(panel: MutualInformationPanel, ranking: list[tuple[str, float]]) -> list[Picture]:
    shown: list[Picture] = [
        Bars(
            "mutual-information",
            "Between inputs and target, by every method",
            "method",
            "bits",
            [one.method for one in panel.estimates],
            {"value": np.array([one.value for one in panel.estimates])},
            caption=f"They are {panel.disagreement:.3g} bits apart.",
        ),
        panel.table(),
    ]
    best = ranking[:_RANKED]
    shown.append(
        Bars(
            "mutual-information-columns",
            "What each input says about the target by itself",
            "input",
            "bits",
            [name for name, _ in best],
            {"bits": np.array([value for _, value in best])},
        )
    )
    return shown


experiment = Experiment(
    "Estimators of mutual information side by side: against the truth for normals, or on a data set of yours.",
    MutualInformationSettings,
    run,
    toy={"correlations": (0.0, 0.9), "n": 100, "steps": 10},
    reference="Kraskov, Stögbauer and Grassberger, Estimating mutual information, Physical Review E 69, 2004; Poole et "
    "al., On variational bounds of mutual information, 2019",
)

__all__ = ["MutualInformationSettings", "experiment", "run"]
