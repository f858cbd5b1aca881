"""Counterfactuals of a classifier: how little of a row has to change before the decision is another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError, suggest
from chainrule.core.formatting import number
from chainrule.core.pictures import Bars, Footnote, Table
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.all_outputs import all_outputs
from chainrule.explain.methods.counterfactuals import Counterfactual, columns_of, counterfactuals
from chainrule.explain.methods.input_groups import Groups, groups_of
from chainrule.explain.methods.raw_rows import raw_rows
from chainrule.explain.methods.run_outputs import RunOutput, numbers_of, output_function
from chainrule.explain.protocol import Count, Outcome, Positive, Probe, Settings
from chainrule.models.protocol import Model
from chainrule.train import Run


@final
class CounterfactualSettings(Settings):
    """Which rows, which decision, and what may change."""

    rows: str = Field("0:3", description="held-out rows by number, as in 0:3 or 4,7")
    wanted: str = Field("", description="the class that is to be decided; none: any other")
    fixed: tuple[str, ...] = Field((), description="features that must not change")
    weights: dict[str, Positive] = Field(
        default_factory=dict,
        description="what changes of a feature cost beside those of others, e.g. weights.age=3; 1 unless given",
    )
    count: Count = Field(3, description="changes of different features for each row")
    n: Count = Field(2000, description="training examples that say what values there are")


def examine(run: Run, data: Data, settings: CounterfactualSettings) -> Outcome:
    """The cheapest changes of each row."""
    part, said = data.held_out()
    rows, groups = raw_rows(run, part, settings.rows), groups_of(data)
    function = output_function(run, data, "probability")
    flat = raw_rows(run, data.train, settings.n).x.astype(np.float64).reshape(-1, run.schema.dimensions)
    ways = columns_of(flat, fixed=_fixed(groups, settings.fixed), group=groups.membership.ravel())
    ways = replace(ways, weights=ways.weights * _costs(groups, settings.weights))
    wanted = _class("wanted", settings.wanted, function.names) if settings.wanted else None
    listed: list[tuple[int, str, str, str, float]] = []
    changes: list[list[str]] = []
    declined: list[str] = []
    for row, x in zip(rows.numbers.tolist(), rows.x.astype(np.float64).reshape(len(rows.x), -1), strict=True):
        now = int(_decided(function, run.schema, x[None])[0])
        if now == wanted:
            declined.append(f"Row {row} is taken for {function.names[now]} already.")
            continue
        decides = _Decision(function, run.schema, now, wanted)
        try:
            found = counterfactuals(decides, x, flat, ways, count=settings.count)
        except CapabilityError:
            declined.append(f"Row {row}: no change within the range of the data changes the decision.")
            continue
        for one in found:
            after = function.names[int(_decided(function, run.schema, one.x[None])[0])]
            listed.append((row, function.names[now], after, _words(groups, data, x, one), one.cost))
            changes.append([groups.names[group] for group in one.changed])
    if not listed:
        return Outcome([*declined, *said], numbers={"row": [], "size": [], "changed": []})
    first, sizes = listed[0], np.array([one[-1] for one in listed])
    return Outcome(
        [
            f"Row {first[0]} is taken for {first[1]}; for {first[2]} it takes {first[3]}.",
            f"{len(listed)} changes of {len({one[0] for one in listed})} rows, of size "
            f"{number(float(sizes.min()))} to {number(float(sizes.max()))}.",
            *declined,
            *said,
        ],
        [_sizes(listed, changes, settings)],
        Table("counterfactuals", "Smallest changes", ["row", "from", "to", "change", "size"], listed),
        {"row": [one[0] for one in listed], "size": sizes.tolist(), "changed": changes},
    )


def _sizes(
    listed: Sequence[tuple[int, str, str, str, float]],
    changes: Sequence[Sequence[str]],
    settings: CounterfactualSettings,
) -> Bars:
    held = f"; fixed: {', '.join(settings.fixed)}" if settings.fixed else ""
    times = [f"{weight:g} times for {name}" for name, weight in settings.weights.items()]
    held = "".join([*(f", {one}" for one in times), held])
    return Bars(
        "counterfactual-size",
        "How much has to change",
        "row and change",
        "size, in deviations of the features",
        [f"row {one[0]}: {', '.join(names)}" for one, names in zip(listed, changes, strict=True)],
        {"size": np.array([one[-1] for one in listed])},
        footnote=Footnote(
            f"weighted sum of absolute changes, each in median absolute deviations of its feature{held}"
        ),
    )


@final
@dataclass(frozen=True)
class _Decision:
    """Whether rows are decided as wanted, or at least otherwise than now."""

    function: RunOutput
    schema: Schema
    now: int
    wanted: int | None

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """For each of them."""
        decided = _decided(self.function, self.schema, rows)
        return np.asarray(decided != self.now if self.wanted is None else decided == self.wanted)


def _decided(function: RunOutput, schema: Schema, rows: np.ndarray) -> np.ndarray:
    """The class that is predicted for each row."""
    if not len(rows):
        return np.zeros(0, int)
    return all_outputs(function, rows.astype(np.float32).reshape(len(rows), *schema.shape)).argmax(axis=1)


def _fixed(groups: Groups, names: tuple[str, ...]) -> list[int]:
    return [int(groups.columns(_class("fixed", name, groups.names))[0]) for name in names]


def _costs(groups: Groups, weights: Mapping[str, float]) -> np.ndarray:
    """The factor of each entry."""
    of_group = np.ones(len(groups.names))
    for name, weight in weights.items():
        of_group[_class("weights", name, groups.names)] = weight
    return of_group[groups.membership.ravel()]


def _class(setting: str, name: str, known: tuple[str, ...]) -> int:
    if name not in known:
        raise ArgumentError(
            f"{setting}={name}: there is no such name{suggest(name, known)}",
            remedy=f"names: {', '.join(known[:10])}{', ...' if len(known) > 10 else ''}",
        )
    return known.index(name)


def _words(groups: Groups, data: Data, x: np.ndarray, one: Counterfactual) -> str:
    """What becomes of each feature that changes."""
    before, after = groups.shown(x, data), groups.shown(one.x, data)
    found = []
    for group in one.changed:
        new = after[group].partition(" = ")[2]
        found.append(f"{before[group]} → {new}" if new else f"another {groups.names[group]}")
    return ", ".join(found)


def _applies(model: Model, schema: Schema) -> bool:
    decides = targets.of(schema).one_class and "probability" in numbers_of(model, schema)
    return decides and kinds.of(schema).has_rows and len(schema.shape) == 1


probe = Probe(
    "Counterfactuals: the smallest changes of a row that change the decision, each of other features.",
    "a classifier of rows of numbers",
    _applies,
    examine,
    CounterfactualSettings,
    toy={"rows": "0:2", "count": 2, "n": 60},
)

__all__ = ["CounterfactualSettings", "examine", "probe"]
