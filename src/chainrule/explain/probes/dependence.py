"""Dependence of an output on single features: partial dependence, individual curves, accumulated local effects."""

from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.formatting import number
from chainrule.core.pictures import Footnote, Lines, Picture, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.global_importance.dependence import (
    LocalEffects,
    PartialDependence,
    accumulated_effects,
    partial_dependence,
)
from chainrule.explain.methods.input_groups import Groups, groups_of
from chainrule.explain.methods.raw_rows import raw_rows
from chainrule.explain.methods.run_outputs import Asked, asked_output, numbers_of
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import Model
from chainrule.train import Run


@final
class DependenceSettings(Settings):
    """Which output, which features, and how finely."""

    out: str = Field("", description="the number that is explained, as in logit:cat, value or log-likelihood")
    features: tuple[str, ...] = Field(
        (), description="names of features; none: those with the largest effects"
    )
    most: Count = Field(4, description="features that are shown where none are named")
    n: Count = Field(300, description="held-out examples that curves are drawn for")
    points: int = Field(24, ge=2, le=1000, description="values of a feature; bins of accumulated effects")


def examine(run: Run, data: Data, settings: DependenceSettings) -> Outcome:
    """Curves of the features with the largest effects."""
    part, said = data.held_out()
    rows = raw_rows(run, part, settings.n)
    asked = asked_output(run, data, settings.out, rows.x[:1])
    groups = groups_of(data)
    marks = _marks(groups, data)
    columns = _columns(groups, rows.x, marks, settings)
    pictures: list[Picture] = []
    table: list[tuple[str, float, float, float]] = []
    numbers: dict[str, dict[str, Any]] = {}
    for group in columns:
        name, column = groups.names[group], int(groups.columns(group)[0])
        x = _known(rows.x, marks.get(group))
        partial = partial_dependence(asked.function, x, column, points=settings.points, output=asked.output)
        local = accumulated_effects(asked.function, x, column, bins=settings.points, output=asked.output)
        shown = f"{len(x):,} held-out rows{' whose value is known' if group in marks else ''}"
        pictures.append(_curves(name, asked, partial, local, shown))
        reach = float(np.ptp(partial.mean)), float(np.ptp(local.effects))
        table.append((name, *reach, partial.interaction))
        numbers[name] = {
            "grid": partial.grid.tolist(),
            "partial_dependence": partial.mean.tolist(),
            "edges": local.edges.tolist(),
            "accumulated_effects": local.effects.tolist(),
            "interaction": partial.interaction,
        }
    order = sorted(range(len(table)), key=lambda i: -table[i][1])[: len(settings.features) or settings.most]
    top = table[order[0]]
    return Outcome(
        [
            f"Over the range of {top[0]} the {asked.name} changes by {number(top[1])} on average "
            f"(accumulated effects: {number(top[2])}).",
            f"{abs(top[3]):.0%} of the spread of its individual curves is not common to all rows: what interactions "
            "do.",
            *said,
        ],
        [pictures[i] for i in order],
        Table(
            "dependence-table",
            f"Reach of features: {asked.name}",
            ["feature", "partial dependence", "accumulated effects", "interaction"],
            [table[i] for i in order],
        ),
        {table[i][0]: numbers[table[i][0]] for i in order},
    )


def _curves(name: str, asked: Asked, partial: PartialDependence, local: LocalEffects, rows: str) -> Lines:
    """Both kinds of curve of one feature."""
    # Effects are known up to a constant: they are drawn around the mean of the outputs.
    middle = float(partial.mean.mean())
    return Lines(
        f"dependence-{name}",
        f"{asked.name} and {name}",
        name,
        asked.label,
        {
            "partial dependence": (partial.grid, partial.mean),
            "accumulated effects": (local.edges, local.effects + middle),
        },
        threads=(partial.grid, partial.curves),
        footnote=Footnote(f"{rows}; thin: individual curves"),
        caption="Individual curves: the feature moves and the rest of a row stays; not parallel, they tell of "
        "interactions. Accumulated effects move rows only a little, so they stay where the data are.",
    )


def _marks(groups: Groups, data: Data) -> dict[int, int]:
    """Of columns of numbers with a mark where the cell was missing: their groups, and where the marks stand."""
    if data.reading is None:
        return {}
    marked = [
        plan.name
        for plan in data.reading.columns
        if plan.marked and plan.reading is not None and plan.reading.scaled == (True,)
    ]
    found = [groups.names.index(name) for name in marked if name in groups.names]
    return {group: int(groups.columns(group)[1]) for group in found}


def _known(x: np.ndarray, mark: int | None) -> np.ndarray:
    """The rows in which a value was not missing: to move one that was filled in would contradict its mark."""
    return x if mark is None else x[x[:, mark] < 0.5]


def _columns(groups: Groups, x: np.ndarray, marks: dict[int, int], settings: DependenceSettings) -> list[int]:
    """Features that are one number each and differ between rows; those that are named, or all."""
    flat = x.reshape(len(x), -1)
    usable = [
        group
        for group in sorted({*groups.single, *marks})
        if len(np.unique(_known(flat, marks.get(group))[:, groups.columns(group)[0]])) > 1
    ]
    names = [groups.names[group] for group in usable]
    for name in settings.features:
        if name not in names:
            raise ArgumentError(
                f"features={name}: no feature of one number that differs between rows has this name"
                f"{suggest(name, names)}",
                remedy=f"such features: {', '.join(names[:10])}{', ...' if len(names) > 10 else ''}",
            )
    if not usable:
        raise ArgumentError(
            "dependence: no feature is one number that differs between rows",
            remedy="chainrule probe RUN importance",
        )
    return [usable[names.index(name)] for name in settings.features] or usable


def _applies(model: Model, schema: Schema) -> bool:
    return bool(numbers_of(model, schema)) and kinds.of(schema).has_rows and len(schema.shape) == 1


probe = Probe(
    "Dependence of an output on single features: partial dependence, individual curves, accumulated local effects.",
    "a model that predicts from, or knows the likelihood of, rows of numbers",
    _applies,
    examine,
    DependenceSettings,
    toy={"n": 8, "points": 3, "most": 2},
)

__all__ = ["DependenceSettings", "examine", "probe"]
