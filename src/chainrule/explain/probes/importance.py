"""Importance of features: what predictions lose when one is exchanged between rows, and its share of the loss."""

from collections.abc import Sequence
from typing import TypeAlias, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.formatting import number
from chainrule.core.pictures import Bars, Footnote, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.global_importance.permutation_importance import permutation_importance
from chainrule.explain.methods.global_importance.sage import LossShares, sage
from chainrule.explain.methods.input_groups import Groups, groups_of
from chainrule.explain.methods.prediction_losses import (
    JudgedPredictions,
    can_be_judged,
    judged_predictions,
    raw_targets,
)
from chainrule.explain.methods.raw_rows import raw_rows
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import Model
from chainrule.train import Run

_SHOWN = 20
_TABLE, _IMAGES = (500, 10, 16), (64, 3, 4)
"""Examples, repeats and background examples, unless told: an image has many parts and takes long."""
_Columns: TypeAlias = dict[str, tuple[np.ndarray, np.ndarray]]
"""Importances and their standard errors, by the way they were found."""


@final
class ImportanceSettings(Settings):
    """On how many rows, how often, and whether shares of the loss are computed."""

    n: int | None = Field(
        None,
        ge=1,
        description="held-out examples the loss is measured on; none: 500 rows of a table, 64 images",
    )
    repeats: int | None = Field(None, ge=1, description="exchanges of each feature; none: 10, for images 3")
    sage: bool = Field(True, description="Shapley values of the loss, too")
    background: int | None = Field(
        None,
        ge=1,
        description="of these: training examples that stand in for what is not known; none: 16, for images 4",
    )
    budget: int | None = Field(
        None, ge=8, description="of these: coalitions; none: two for each feature and 256"
    )
    patch: int | None = Field(None, ge=1, description="images, sequences: side of a patch, steps of a window")
    seed: int = Field(0, ge=0, description="of the exchanges and coalitions")


def examine(run: Run, data: Data, settings: ImportanceSettings) -> Outcome:
    """Both importances, side by side."""
    part, said = data.held_out()
    many, repeats, behind = _TABLE if len(run.schema.shape) == 1 else _IMAGES
    rows, repeats = raw_rows(run, part, settings.n or many), settings.repeats or repeats
    judged, groups = judged_predictions(run, data), groups_of(data, settings.patch)
    y = raw_targets(run, rows.y)
    found = permutation_importance(
        judged.function,
        rows.x,
        y,
        loss=lambda out, y: np.asarray(judged.loss(jnp.asarray(out), jnp.asarray(y))),
        groups=groups.membership,
        names=groups.names,
        repeats=repeats,
        seed=settings.seed,
    )
    columns: _Columns = {"exchanged": (found.mean, found.errors)}
    notes = [f"permutation importance, {repeats} repeats, {len(y):,} held-out rows"]
    best = int(found.mean.argmax())
    sentences = [
        f"Most important is {groups.names[best]}: exchanged between rows, it raises the {judged.name} from "
        f"{number(found.loss)} by {number(float(found.mean[best]))} (± {number(float(found.errors[best]), 2)})."
    ]
    if settings.sage:
        given = judged, groups, rows.x, y
        shares = _shares(run, data, settings, *given, most=settings.background or behind)
        none = np.zeros(len(shares.values))
        columns["share of the loss"] = (shares.values, none if shares.errors is None else shares.errors)
        notes.append(f"shares of the loss (SAGE): {shares.method}")
        sentences.append(
            f"The mean prediction has a {judged.name} of {number(shares.without)}, the model "
            f"{number(shares.with_all)}: features take away {number(float(shares.values.sum()))} together."
        )
    return Outcome(
        [*sentences, *said],
        [_picture(judged, groups, columns, notes)],
        _table(groups, columns),
        {
            "loss": found.loss,
            **{
                name.replace(" ", "_"): dict(zip(groups.names, map(float, values), strict=True))
                for name, (values, _) in columns.items()
            },
        },
    )


def _shares(
    run: Run,
    data: Data,
    settings: ImportanceSettings,
    judged: JudgedPredictions,
    groups: Groups,
    x: np.ndarray,
    y: np.ndarray,
    *,
    most: int,
) -> LossShares:
    return sage(
        judged.function,
        x,
        y,
        loss=judged.loss,
        background=raw_rows(run, data.train, 1000).x,
        groups=groups.membership,
        names=groups.names,
        most=most,
        budget=settings.budget,
        seed=settings.seed,
    )


def _order(columns: _Columns) -> np.ndarray:
    first, _ = next(iter(columns.values()))
    return np.argsort(-first, kind="stable")


def _picture(judged: JudgedPredictions, groups: Groups, columns: _Columns, notes: Sequence[str]) -> Bars:
    order = _order(columns)[:_SHOWN]
    return Bars(
        "importance",
        "What features are worth",
        "feature",
        judged.label,
        [groups.names[i] for i in order],
        {name: values[order] for name, (values, _) in columns.items()},
        errors={name: errors[order] for name, (_, errors) in columns.items()},
        footnote=Footnote("; ".join(notes)),
        caption="Exchanged: how much worse predictions become when the feature comes from another row; what another "
        "feature says as well is not missed. Share: what it takes away on average over all orders of features. "
        "Lines: two standard errors.",
    )


def _table(groups: Groups, columns: _Columns) -> Table:
    heads = [head for name in columns for head in (name, f"standard error, {name}")]
    return Table(
        "importance-table",
        "Importance of features",
        ["feature", *heads],
        [
            [groups.names[i], *(float(v[i]) for both in columns.values() for v in both)]
            for i in _order(columns)
        ],
    )


def _applies(model: Model, schema: Schema) -> bool:
    return can_be_judged(model, schema) and not kinds.of(schema).has_tokens


probe = Probe(
    "Importance of features: exchanged between rows (permutation importance), and as shares of the loss (SAGE).",
    "a model that predicts from numbers",
    _applies,
    examine,
    ImportanceSettings,
    toy={"n": 16, "repeats": 2, "background": 2, "budget": 200, "patch": 4},
)

__all__ = ["ImportanceSettings", "examine", "probe"]
