"""Examples along the first axis of an array: their splits, and the scaling fitted to the training split.

The scaling is fitted to the training examples alone; validation and test never leak into it. Images stay bytes and are
scaled batch by batch. Numbers that are standardised are kept standardised: done once in double precision, this keeps
the digits of, say, a year or a time stamp, which a subtraction in single precision would lose. Arrays larger than
memory are only ever touched in pieces.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from chainrule.core.errors import DataError
from chainrule.data import targets
from chainrule.data.division import Positions, complete, divide, sizes
from chainrule.data.loading import copies
from chainrule.data.loading.moments import moments, standardising
from chainrule.data.loading.scan import Contents
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Coins, Rows, Selected, Split


class Divided(NamedTuple):
    """Three splits, their schema, and the maps to the units a model sees."""

    schema: Schema
    splits: Sequence[Split]
    scaling: Scaling
    target_scaling: Scaling | None = None
    fills: np.ndarray | None = None
    """For each feature what was filled in where it was missing."""
    positions: Sequence[Positions] | None = None
    """Where the examples of each split stood in the source; nothing where splits are pieces of one text."""


def positions(contents: Contents, shares: Sequence[float], seed: int) -> list[Positions]:
    """Where the examples of each split stand."""
    target = targets.of(contents)
    if contents.consecutive:
        found = np.split(np.arange(len(contents)), np.cumsum(sizes(len(contents), shares))[:-1])
    elif (groups := target.groups(contents.y)) is not None:
        found = _together(contents, groups, shares, seed)
    elif contents.together:
        found = _together(contents, copies.inputs(contents), shares, seed)
    else:
        found = _drawn(contents.parts, len(contents), shares, seed, target.strata(contents.y))
    target.check_training(contents, found[0])
    return found


def _drawn(
    parts: Positions | None, examples: int, shares: Sequence[float], seed: int, strata: Positions | None
) -> list[Positions]:
    if parts is None:
        return divide(examples, shares, seed, strata)
    return complete(parts, shares, seed, strata)


def _together(contents: Contents, first: Positions, shares: Sequence[float], seed: int) -> list[Positions]:
    """A division of groups of examples, such as an input with all its copies; `first` is the first of each group.

    Where the source comes divided, what is held out stays held out: training does without the rest of its group.
    """
    parts = contents.parts
    different = np.unique(first)
    if parts is not None:
        # The last part that an input is in is the one it belongs to; its copies in the parts before are left out.
        last = np.zeros(len(first), parts.dtype)
        np.maximum.at(last, first, parts)
        leading = last[different]
    strata = targets.of(contents).strata(contents.y)
    chosen = _drawn(
        None if parts is None else leading,
        len(different),
        shares,
        seed,
        None if strata is None else strata[different],
    )
    found = [np.flatnonzero(np.isin(first, different[part])) for part in chosen]
    return found if parts is None else [part[parts[part] == last[first[part]]] for part in found]


def in_rows(
    contents: Contents,
    schema: Schema,
    shares: Sequence[float],
    seed: int,
    chosen: Sequence[Positions] | None = None,
) -> Divided:
    """The splits of examples along the first axis, drawn at random or where they were chosen to stand."""
    parts = positions(contents, shares, seed) if chosen is None else chosen
    contents, fills = _filled(contents, parts[0])
    scaling = _scaling(contents, parts[0])
    contents, schema, target_scaling = targets.of(contents).prepared(contents, schema, parts[0])
    contents = replace(contents, weights=_weights(contents, parts[0]))
    splits = [_rows(contents, part, scaling, target_scaling) for part in parts]
    if contents.grey is not None:
        grey = {**splits[0].arrays, "grey": contents.grey[parts[0]]}
        splits[0] = Coins(grey, Scaling(0.0, 1 / contents.brightest))
    return Divided(schema, splits, scaling, target_scaling, fills, parts)


def _filled(contents: Contents, train: Positions) -> tuple[Contents, np.ndarray | None]:
    """The contents with what is missing filled in from the training examples, and the values that were used."""
    if not contents.fill:
        return contents, None
    rows = contents.x[train].reshape(-1, contents.x.shape[-1])
    empty = np.flatnonzero(np.isnan(rows).all(axis=0))
    if len(empty):
        name = contents.reading.features[empty[0]] if contents.reading else f"feature {empty[0]}"
        raise DataError(
            f"{name!r} is missing in every training example, so nothing is known to fill it in with",
            remedy="leave its column out with data.drop, or try another data.seed",
        )
    fills = (np.nanmedian if contents.fill == "median" else np.nanmean)(rows, axis=0)
    return replace(contents, x=np.where(np.isnan(contents.x), fills, contents.x)), fills


def _weights(contents: Contents, train: Positions) -> np.ndarray | None:
    """Weights of mean one over the training examples: they say what examples count for, not how fast to learn."""
    if contents.weights is None:
        return None
    mean = float(contents.weights[train].mean(dtype=np.float64))
    if not math.isfinite(mean) or contents.weights.min() < 0 or mean == 0:
        raise DataError(
            "weights of examples must be finite and not negative, and some of the training examples above 0",
            remedy="mend them, or leave them out",
        )
    return (contents.weights / mean).astype(np.float32)


def _scaling(contents: Contents, train: Positions) -> Scaling:
    if contents.levels:
        return Scaling(0.0, 1 / (contents.levels - 1))
    if contents.standardise is None:
        return Scaling()
    mean, deviation = moments(contents.x, train if contents.rows is None else contents.rows[train])
    chosen = contents.standardise
    scaling = standardising(np.where(chosen, mean, 0.0), np.where(chosen, deviation, 1.0))
    shape = contents.x.shape[1:]
    return Scaling(
        np.broadcast_to(scaling.shift, shape).copy(), np.broadcast_to(scaling.factor, shape).copy()
    )


def _rows(contents: Contents, part: Positions, scaling: Scaling, target_scaling: Scaling | None) -> Split:
    if isinstance(contents.x, np.memmap) and contents.y is None:
        rows = part if contents.rows is None else contents.rows[part]
        return Selected({"x": contents.x, "rows": rows}, scaling)
    arrays = {"x": contents.x[part]}
    if contents.standardise is not None:
        arrays["x"] = scaling.apply(arrays["x"].astype(np.float64)).astype(np.float32)
    if contents.y is not None:
        arrays["y"] = contents.y[part]
    if contents.weights is not None:
        arrays["weight"] = contents.weights[part]
    if target_scaling is not None:
        arrays["y"] = target_scaling.apply(arrays["y"].astype(np.float64)).astype(np.float32)
    return Rows(arrays, scaling if contents.standardise is None else Scaling())


__all__ = ["Divided", "in_rows", "positions"]
