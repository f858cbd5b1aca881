"""Which training rows a prediction rests on: by influence functions, by gradients over checkpoints, by neighbours."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core.formatting import number
from chainrule.core.pictures import Footnote, Images, Picture, Swarm, Table
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.target import Cells
from chainrule.explain.methods.chosen_rows import chosen_rows
from chainrule.explain.methods.influence.gradient_trace import gradient_trace
from chainrule.explain.methods.influence.influence_functions import Influence, influence
from chainrule.explain.methods.influence.neighbour_shapley import neighbour_shapley
from chainrule.explain.methods.influence.of_runs import has_row_losses, parted, rows_of
from chainrule.explain.methods.quality.randomisation import rank_correlation
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import Model
from chainrule.train import Run

_SAME = "influence functions"
_CELLS = 4
"""Columns of a row that are shown beside what it does."""


@final
class InfluenceSettings(Settings):
    """Whose training rows are looked for, among how many, and how."""

    rows: str = Field("0:2", description="held-out rows by number, as in 0:4 or 4,7")
    n: Count = Field(
        500, description="training examples, spread evenly, among which the answer is looked for"
    )
    damping: float | None = Field(
        None, ge=0, description="added to the Hessian's eigenvalues; none: what makes them positive"
    )
    steps: Count = Field(100, description="of conjugate gradients, at most")
    trace: Count = Field(8, description="checkpoints over which gradients are compared, at most")
    neighbours: Count = Field(5, description="classes: neighbours that data Shapley values are computed for")
    shown: Count = Field(5, description="most helpful and most harmful rows that are shown")


def examine(run: Run, data: Data, settings: InfluenceSettings) -> Outcome:
    """The most helpful and the most harmful training rows of each held-out row."""
    part, said = data.held_out()
    tests = chosen_rows(settings.rows, len(part))
    among = np.unique(np.linspace(0, len(data.train) - 1, min(settings.n, len(data.train))).astype(int))
    train, test = rows_of(data.train, among), rows_of(part, tests)
    here = parted(run, run.model)
    found = influence(
        here.losses,
        here.params,
        train,
        test,
        damping=settings.damping,
        total=len(data.train),
        max_steps=settings.steps,
        chunk=min(256, len(among)),
    )
    values = {_SAME: found.removal, "gradients over checkpoints": _trace(run, train, test, settings)}
    if targets.of(run.schema).one_class and train[1] is not None and test[1] is not None:
        near = neighbour_shapley(train[0], train[1], test[0], test[1], k=settings.neighbours)
        values["data Shapley of neighbours"] = near
    note = _note(found, len(among), len(data.train))
    best, worst = (int(found.removal[0].argmax()), int(found.removal[0].argmin()))
    agreement = [rank_correlation(*two) for two in zip(*list(values.values())[:2], strict=True)]
    unit = run.model.loss_unit()
    return Outcome(
        [
            f"Held-out row {tests[0]} rests most on training row {among[best]}: without it the loss would change by "
            f"about {number(float(found.removal[0, best]), 3)}{' ' + unit if unit else ''}; most against it is row "
            f"{among[worst]} ({number(float(found.removal[0, worst]), 3)}).",
            f"Ranks by influence and by gradients over checkpoints agree to {np.mean(agreement):.2f}.",
            *(
                []
                if found.converged
                else [f"The systems were not solved: the residual is {found.residual:.1%}."]
            ),
            *said,
        ],
        [
            _swarm(values[_SAME], tests, unit, note),
            *_sheet(run, data, train, test, found.removal, (tests, among), settings.shown, note),
        ],
        _table(run, data, train, values, (tests, among), settings.shown),
        {
            "test_rows": tests.tolist(),
            "training_rows": among.tolist(),
            "damping": found.damping,
            "residual": found.residual,
            **{name.replace(" ", "_"): one.tolist() for name, one in values.items()},
        },
    )


def _note(found: Influence, count: int, total: int) -> Footnote:
    alarm = "" if found.converged else f"; not solved, residual {found.residual:.1%}"
    return Footnote(
        f"influence functions, {count:,} of {total:,} training rows, damping {number(found.damping, 2)}{alarm}",
        alarm=bool(alarm),
    )


def _trace(run: Run, train: Any, test: Any, settings: InfluenceSettings) -> np.ndarray:
    """Gradients over the checkpoints that are kept, each for the steps since the one before it."""
    steps = run.checkpoints
    steps = [steps[i] for i in np.unique(np.linspace(0, len(steps) - 1, settings.trace).astype(int))]
    logged, rates = run.curve("lr")
    before = [0, *steps[:-1]]
    weights = []
    for first, last in zip(before, steps, strict=True):
        during = rates[(logged > first) & (logged <= last)]
        rate = float(during.mean()) if len(during) else float(rates[-1]) if len(rates) else 1.0
        weights.append(rate * max(last - first, 1) / len(run.data.train))
    models = [parted(run, run.model_at(step)) for step in steps]
    chunk = min(256, len(train[0]))
    return gradient_trace(models[0].losses, [one.params for one in models], weights, train, test, chunk=chunk)


def _swarm(removal: np.ndarray, tests: np.ndarray, unit: str, note: Footnote) -> Swarm:
    return Swarm(
        "influence",
        "What training rows do for held-out ones",
        f"loss without the row, minus loss with it{', ' + unit if unit else ''}",
        [f"row {row}" for row in tests],
        removal,
        footnote=note,
        caption="A dot for each training row: to the right those that help, to the left those that harm.",
    )


def _sheet(
    run: Run,
    data: Data,
    train: Any,
    test: Any,
    removal: np.ndarray,
    numbers: tuple[np.ndarray, np.ndarray],
    shown: int,
    note: Footnote,
) -> Sequence[Picture]:
    """Images: each held-out one with the training images that help and harm it most."""
    kind = kinds.of(run.schema)
    if not kind.shows_pixels(run.schema):
        return []
    bounds = kind.raw_range(run.schema) or (0.0, 1.0)
    tiles, labels = [], []
    for row, values in enumerate(removal):
        order = np.argsort(-values, kind="stable")
        count = min(shown, len(order) // 2)
        tiles.append(test[0][row])
        labels.append(f"row {numbers[0][row]}{_class(run.schema, test[1], row)}")
        for i in (*order[:count], *order[len(order) - count :]):
            tiles.append(train[0][i])
            labels.append(f"{number(float(values[i]), 2)}{_class(run.schema, train[1], int(i))}")
    raw = np.asarray(data.scaling.inverse(np.stack(tiles).astype(np.float64)))
    return [
        Images(
            "influence-images",
            "Held-out image, training images that help it, and that harm it",
            np.clip((raw - bounds[0]) / (bounds[1] - bounds[0]), 0, 1),
            labels,
            columns=len(tiles) // len(removal),
            aligned=True,
            footnote=note,
            caption="Numbers: how the loss would change without the training image. Helpful ones first.",
        )
    ]


def _class(schema: Schema, y: np.ndarray | None, row: int) -> str:
    return f"\n{schema.classes[int(y[row])]}" if y is not None and targets.of(schema).one_class else ""


def _table(
    run: Run,
    data: Data,
    train: Any,
    values: Mapping[str, np.ndarray],
    numbers: tuple[np.ndarray, np.ndarray],
    shown: int,
) -> Table:
    """The most helpful and the most harmful rows, with what every method says of them."""
    raw = data.inverse(train[0])
    cells = _cells(run, data, raw)
    rows: list[list[Any]] = []
    for row, removal in enumerate(values[_SAME]):
        order = np.argsort(-removal, kind="stable")
        count = min(shown, len(order) // 2)
        for i in (*order[:count], *order[len(order) - count :]):
            own = _class(run.schema, train[1], int(i)).strip()
            judged = (float(one[row, i]) for one in values.values())
            rows.append([int(numbers[0][row]), int(numbers[1][i]), own, *judged, *cells.rows[i]])
    heads = ["held-out row", "training row", "class", *values, *cells.heads]
    if not any(row[2] for row in rows):
        heads, rows = [*heads[:2], *heads[3:]], [[*row[:2], *row[3:]] for row in rows]
    return Table("influence-table", "Most helpful and most harmful training rows", heads, rows)


def _cells(run: Run, data: Data, raw: np.ndarray) -> Cells:
    """The first columns of a table as the file has them, words as words; of other examples the first features."""
    kind = kinds.of(run.schema)
    if data.reading is None or not kind.has_rows:
        return kind.cells(run.schema, raw, _CELLS)
    heads, columns = data.reading.restored(np.asarray(raw, float).reshape(len(raw), -1))
    several = zip(*columns[:_CELLS], strict=True)
    rows = [[value if isinstance(value, str) else float(value) for value in row] for row in several]
    return Cells(list(heads[:_CELLS]), rows)


def _applies(model: Model, schema: Schema) -> bool:
    return has_row_losses(model) and not kinds.of(schema).has_tokens


probe = Probe(
    "Which training rows a prediction rests on: influence functions, gradients over checkpoints, data Shapley values.",
    "a model trained by the gradient of one loss, that loss's own, on examples that are no texts",
    _applies,
    examine,
    InfluenceSettings,
    toy={"rows": "0:1", "n": 8, "steps": 3, "trace": 1, "shown": 2, "damping": 1.0},
)

__all__ = ["InfluenceSettings", "examine", "probe"]
