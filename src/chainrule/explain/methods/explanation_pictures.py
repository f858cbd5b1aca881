"""Pictures of additive explanations: of one input and of many.

Every picture says on itself by which method it was made, what "absent" meant and how far the values miss the output,
in red where that is too far. Where there are more features than fit, the last one is "rest (n)", so that what is drawn
still adds up.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.formatting import number
from chainrule.core.pictures import (
    Bars,
    Footnote,
    Heatmap,
    Lines,
    Scatter,
    Swarm,
    Waterfall,
)
from chainrule.explain.methods.shapley.explanation import TOLERANCE, Explanation

SHOWN = 12
"""Features that pictures name, the rest taken together."""
_PATHS = 10
"""Rows whose paths are named; of more, the lowest, the middle and the highest are."""


def footnote(found: Explanation) -> Footnote:
    """How the numbers were come by, and whether they add up."""
    worst = float(np.abs(found.residual).max(initial=0.0))
    share = worst / found.output_range
    missing = f"residual {number(worst, 2)}, {number(100 * share, 2)} % of the range"
    absent = f"absent: {found.kind}" if found.kind else ""
    if found.is_additive:
        return Footnote("; ".join(filter(None, [found.method, absent, missing])))
    text = f"these values do not add up to the output: {missing} (more than {number(100 * TOLERANCE)} %)"
    return Footnote("; ".join(filter(None, [found.method, absent, text])), alarm=True)


class _Ranked(NamedTuple):
    """The features that are shown, largest first, and what is left."""

    names: list[str]
    values: Float[np.ndarray, "batch shown"]
    """The last column is the sum of the rest, where there is one."""
    chosen: Int[np.ndarray, " features"]


def _ranked(found: Explanation, names: Sequence[str], size: np.ndarray, shown: int) -> _Ranked:
    values = matrix(found)
    order = np.argsort(-size, kind="stable")
    if len(order) <= shown + 1:  # "rest (1)" would hide a name for nothing
        return _Ranked([names[i] for i in order], values[:, order], order)
    first, rest = order[:shown], order[shown:]
    columns = np.concatenate([values[:, first], values[:, rest].sum(axis=1, keepdims=True)], axis=1)
    return _Ranked([*(names[i] for i in first), f"rest ({len(rest)})"], columns, first)


def matrix(found: Explanation) -> Float[np.ndarray, "batch features"]:
    """The values with a batch axis and one for features."""
    batch = found.as_batch()
    return batch.values.reshape(len(batch), -1)


def names_of(found: Explanation) -> tuple[str, ...]:
    """What the values belong to; pixels without names are numbered."""
    return found.names or tuple(f"entry {index}" for index in range(matrix(found).shape[1]))


def waterfall(
    found: Explanation,
    *,
    names: Sequence[str] | None = None,
    shown: int = SHOWN,
    joined: bool = False,
    label: str = "",
    title: str = "",
) -> Waterfall:
    """The way from the base value to the output of one input, largest step first; or joined in one line (force)."""
    one = single(found)
    values, known = matrix(one)[0], list(names or names_of(one))
    ranked = _ranked(one, known, np.abs(values), shown)
    errors = None
    if one.errors is not None:
        own = one.errors.ravel()
        rest = np.setdiff1d(np.arange(len(own)), ranked.chosen)
        errors = own[ranked.chosen]
        if len(ranked.names) > len(ranked.chosen):  # as if the errors of the rest were independent
            errors = np.append(errors, np.sqrt(np.square(own[rest]).sum()))
    return Waterfall(
        "force" if joined else "waterfall",
        title or ("What raises and what lowers it" if joined else "From the base value to the output"),
        label or one.output,
        float(one.base.ravel()[0]),
        ranked.names,
        ranked.values[0],
        ("base value", "output"),
        errors=None if joined else errors,
        joined=joined,
        footnote=footnote(found),
        caption="Steps up in blue, steps down in orange."
        + (" Lines at the ends of bars: two standard errors." if errors is not None and not joined else ""),
    )


def single(found: Explanation) -> Explanation:
    """The explanation with a batch axis of length one, or an error where there are several inputs."""
    if found.is_batch and len(found) != 1:
        raise ArgumentError(
            f"this picture is of one input, the explanation of {len(found)}",
            remedy="choose one: explanation[0]",
        )
    return found.as_batch()


def beeswarm(found: Explanation, *, shown: int = SHOWN, label: str = "") -> Swarm:
    """A dot for every input and feature, coloured by the value of the feature."""
    ranked = _ranked(found, names_of(found), found.as_batch().mean_absolute().ravel(), shown)
    shades = feature_values(found)[:, ranked.chosen].T
    if len(ranked.names) > len(ranked.chosen):
        shades = np.concatenate([shades, np.full((1, shades.shape[1]), np.nan)])
    return Swarm(
        "beeswarm",
        "Values of all rows",
        f"value for {label or found.output}",
        ranked.names,
        ranked.values.T,
        shades,
        "value of the feature",
        footnote=footnote(found),
        caption=f"{len(found.as_batch()):,} rows; features by their mean size. Grey: words, or several features.",
    )


def bar(found: Explanation, *, shown: int = SHOWN, label: str = "") -> Bars:
    """The mean size of the values of every feature, with the standard error of the mean over inputs."""
    batch = found.as_batch()
    sizes = np.abs(matrix(batch))
    order = np.argsort(-sizes.mean(axis=0), kind="stable")
    known = names_of(batch)
    whole = len(order) <= shown + 1
    first, rest = (order, order[:0]) if whole else (order[:shown], order[shown:])
    columns = [*(sizes[:, i] for i in first), *([sizes[:, rest].sum(axis=1)] if len(rest) else [])]
    return Bars(
        "bar",
        "Mean size of the values",
        "feature",
        f"mean |value| for {label or found.output}",
        [*(known[i] for i in first), *([f"rest ({len(rest)})"] if len(rest) else [])],
        {"mean": np.array([column.mean() for column in columns])},
        errors={"mean": np.array([column.std() / np.sqrt(len(column)) for column in columns])},
        footnote=footnote(found),
        caption=f"Over {len(batch):,} rows; lines: two standard errors.",
    )


def dependence(found: Explanation, feature: str | None = None, *, label: str = "") -> Scatter:
    """The values of one feature against the feature itself, coloured by the one it interacts with most."""
    known = names_of(found)
    if feature is not None and feature not in known:
        raise ArgumentError(
            f"feature={feature}: no feature has this name{suggest(feature, known)}",
            remedy=f"features: {', '.join(known[:10])}{', ...' if len(known) > 10 else ''}",
        )
    sizes = found.as_batch().mean_absolute().ravel()
    index = int(sizes.argmax()) if feature is None else known.index(feature)
    x, values = feature_values(found, words=True), matrix(found)
    other = strongest_interaction(values[:, index], x, index)
    return Scatter(
        "dependence",
        f"How values of {known[index]} depend on it",
        known[index],
        f"value for {label or found.output}",
        {"rows": np.stack([x[:, index], values[:, index]], axis=1)},
        shades=None if other is None else (x[:, other], known[other]),
        footnote=footnote(found),
        caption=""
        if other is None
        else f"Colour: {known[other]}, which goes with the values most where {known[index]} is alike.",
    )


def strongest_interaction(
    values: Float[np.ndarray, " rows"], x: Float[np.ndarray, "rows features"], own: int
) -> int | None:
    """The feature that a column of values follows most once its own feature is taken into account.

    Rows are put into groups in which the own feature is alike; what is left of the values within a group is compared
    with what is left of every other feature there. None where nothing is left.

    >>> x = np.random.default_rng(0).normal(size=(200, 3))
    >>> strongest_interaction(x[:, 0] * x[:, 2], x, 0)
    2
    """
    count = len(values)
    groups = max(1, min(count // 8, 20))
    which = np.argsort(np.argsort(x[:, own], kind="stable"), kind="stable") * groups // max(count, 1)
    sizes = np.bincount(which, minlength=groups)[:, None]

    def within(columns: np.ndarray) -> np.ndarray:
        """Each group's covariances with the values, as a share of what there could be."""
        sums = np.stack([np.bincount(which, column, minlength=groups) for column in columns.T], axis=1)
        return np.asarray(columns - (sums / np.maximum(sizes, 1))[which])

    left = within(np.nan_to_num(x))
    rest = within(values[:, None])
    products = np.stack([np.bincount(which, column, minlength=groups) for column in (left * rest).T], axis=1)
    spread = np.sqrt(np.square(left).sum(axis=0))
    score = np.abs(products).sum(axis=0) / np.where(spread > 0, spread, np.inf)
    score[own] = 0.0
    scale = float(np.abs(values).max(initial=0.0))
    return int(score.argmax()) if score.max(initial=0.0) > 1e-9 * max(scale, 1e-300) else None


def heat_map(found: Explanation, *, shown: int = SHOWN, label: str = "") -> Heatmap:
    """The values of all inputs, which stand in the order of their outputs."""
    batch = found.as_batch()
    ranked = _ranked(batch, names_of(batch), batch.mean_absolute().ravel(), shown)
    order = np.argsort(batch.outputs, kind="stable")
    low, high = float(batch.outputs.min()), float(batch.outputs.max())
    return Heatmap(
        "heat-map",
        "Values row by row",
        f"rows, {label or found.output} from {number(low, 3)} to {number(high, 3)}",
        "",
        ranked.values[order].T,
        rows=ranked.names,
        columns=[str(i) for i in order] if len(order) <= 40 else (),
        diverging=True,
        footnote=footnote(found),
        caption="Blue raises, orange lowers the output.",
    )


def decision_paths(
    found: Explanation, *, order: Sequence[str] = (), shown: int = SHOWN, label: str = ""
) -> Lines:
    """One line for each input from the base value to its output, feature by feature.

    Without an order the features come from the least to the most important.
    """
    batch = found.as_batch()
    known = names_of(batch)
    if unknown := [name for name in order if name not in known]:
        raise ArgumentError(
            f"order={unknown[0]}: no feature has this name{suggest(unknown[0], known)}",
            remedy=f"features: {', '.join(known[:10])}{', ...' if len(known) > 10 else ''}",
        )
    ranked = _ranked(batch, known, batch.mean_absolute().ravel(), shown)
    names, values = ranked.names[::-1], ranked.values[:, ::-1]
    if order:
        first = [known.index(name) for name in order]
        rest = np.setdiff1d(np.arange(len(known)), first)
        others = matrix(batch)[:, rest].sum(axis=1, keepdims=True)
        values = np.concatenate([matrix(batch)[:, first], *([others] if len(rest) else [])], axis=1)
        names = [*order, *([f"rest ({len(rest)})"] if len(rest) else [])]
    paths = batch.base[:, None] + np.concatenate(
        [np.zeros((len(batch), 1)), np.cumsum(values, axis=1)], axis=1
    )
    rows = list(range(len(batch)))
    many = len(batch) > _PATHS
    if many:
        by_output = np.argsort(batch.outputs, kind="stable")
        rows = [int(by_output[i]) for i in (0, len(by_output) // 2, -1)]
    across = np.arange(len(names) + 1)
    return Lines(
        "decision-paths",
        "From the base value to the outputs",
        "",
        label or found.output,
        {f"row {row}": (across, paths[row]) for row in rows},
        threads=(across, paths) if many else None,
        names=["base value", *names],
        footnote=footnote(found),
        caption="At each feature the value that it adds." + (" Thin: all rows." if many else ""),
    )


def feature_values(found: Explanation, *, words: bool = False) -> Float[np.ndarray, "rows features"]:
    """The value that each feature has in each input; of groups of several entries none.

    With `words`, groups count as the number of their largest entry: marks of a word give the number of the word.
    """
    batch = found.as_batch()
    flat = np.asarray(batch.x, float).reshape(len(batch), -1)
    count = matrix(batch).shape[1]
    if batch.membership is None:
        return flat if flat.shape[1] == count else np.full((len(batch), count), np.nan)
    owners = np.broadcast_to(batch.membership, batch.x.shape).reshape(len(batch), -1)[0]
    columns = []
    for group in range(count):
        own = np.flatnonzero(owners == group)
        if len(own) == 1:
            columns.append(flat[:, own[0]])
        else:
            several = flat[:, own].argmax(axis=1).astype(float) if words and len(own) else np.nan
            columns.append(np.broadcast_to(several, (len(batch),)))
    return np.stack(columns, axis=1)


__all__ = [
    "SHOWN",
    "bar",
    "beeswarm",
    "decision_paths",
    "dependence",
    "feature_values",
    "footnote",
    "heat_map",
    "matrix",
    "names_of",
    "single",
    "strongest_interaction",
    "waterfall",
]
