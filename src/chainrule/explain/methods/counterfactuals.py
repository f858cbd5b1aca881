"""Counterfactuals: the smallest change of an input that changes the decision, and several that differ.

Size is a weighted sum of absolute changes. Whatever decides may be any function, so the search only asks it for
answers: first every column alone, over the range of the data; then rows of the data that are decided differently, with
columns put back one by one as long as the decision stays changed. Of what is left each number is moved back towards the
input by bisection, until the decision is only just another. Columns that must not change never do, whole numbers stay
whole, and of columns that are marks of one word exactly one stays set.

References: Wachter, Mittelstadt and Russell, Counterfactual explanations without opening the black box, 2018,
arXiv:1711.00399; Mothilal, Sharma and Tan, Diverse counterfactual explanations, 2020, arXiv:1905.07697.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import Bool, Float, Int

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, CapabilityError

Decides: TypeAlias = Callable[[Float[np.ndarray, "rows columns"]], Bool[np.ndarray, " rows"]]
"""For which inputs the decision is the wanted one."""
_GRID = 48
"""Values of a column that are tried at first."""
_HALVINGS = 24
_MARGIN = 1e-4
"""By which share changes go beyond the border of the decision."""
_CANDIDATES = 64
"""Rows of the data, nearest first, that are taken back towards the input."""


@final
@dataclass(frozen=True)
class Columns:
    """What may become of the columns of an input."""

    weights: Float[np.ndarray, " columns"]
    """What a change by one unit costs."""
    fixed: Bool[np.ndarray, " columns"]
    whole_numbers: Bool[np.ndarray, " columns"]
    group: Int[np.ndarray, " columns"]
    """Columns of one number change together: the marks of one word. Other columns have one for themselves."""
    low: Float[np.ndarray, " columns"]
    high: Float[np.ndarray, " columns"]

    def cost(self, changes: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, " rows"]:
        """The weighted sum of absolute changes; of one-word marks two change, which counts as one."""
        together = np.bincount(self.group)[self.group] > 1
        share = np.where(together, 0.5, 1.0)
        return np.asarray((np.abs(changes) * (self.weights * share)[None]).sum(axis=1))


@final
@dataclass(frozen=True)
class Counterfactual:
    """An input that is decided differently."""

    x: Float[np.ndarray, " columns"]
    changed: tuple[int, ...]
    """The groups of columns that differ."""
    cost: float


def columns_of(
    data: Any,
    *,
    fixed: Sequence[int] = (),
    whole_numbers: Sequence[int] | None = None,
    group: Any = None,
    weights: Any = None,
) -> Columns:
    """What the rows of some data say about their columns.

    A change costs its size in median absolute deviations of the column unless `weights` say otherwise; columns that
    hold whole numbers alone keep to them unless `whole_numbers` says which do.
    """
    rows = np.asarray(data, np.float64)
    if rows.ndim != 2 or len(rows) < 2:
        raise ArgumentError(
            f"columns_of(data): shape {rows.shape}", remedy="give at least two rows of numbers"
        )
    if not np.isfinite(rows).all():
        raise ArgumentError(
            "columns_of(data): there are numbers that are not finite",
            remedy="leave such rows out, or fill them in",
        )
    count = rows.shape[1]
    deviation = np.median(np.abs(rows - np.median(rows, axis=0)), axis=0)
    deviation = np.where(deviation > 0, deviation, rows.std(axis=0))
    found = 1 / np.where(deviation > 0, deviation, 1.0) if weights is None else np.asarray(weights, float)
    if found.shape != (count,) or not (found > 0).all():
        raise ArgumentError(f"columns_of(weights): {found}", remedy=f"give {count} numbers above 0")
    integral = (rows == np.rint(rows)).all(axis=0)
    if whole_numbers is not None:
        integral = np.isin(np.arange(count), whole_numbers)
    for name, given in (("fixed", fixed), ("whole_numbers", whole_numbers or ())):
        for column in given:
            if not 0 <= column < count:
                raise ArgumentError(
                    f"columns_of({name}): there is no column {column}", remedy=f"choose 0 to {count - 1}"
                )
    own = np.arange(count) if group is None else np.asarray(group)
    if own.shape != (count,) or own.dtype.kind not in "iu" or (own < 0).any():
        raise ArgumentError(
            f"columns_of(group): shape {own.shape} of type {own.dtype} for {count} columns",
            remedy="number the group of every column, from 0",
        )
    held = np.isin(own, own[list(fixed)]) if len(fixed) else np.zeros(count, bool)
    return Columns(found, held, integral, own, rows.min(axis=0), rows.max(axis=0))


def counterfactuals(
    decides: Decides, x: Any, data: Any, columns: Columns, *, count: int = 3
) -> list[Counterfactual]:
    """The cheapest changes of an input after which `decides` is true, each of other columns than those before it.

    >>> rows = np.random.default_rng(0).normal(size=(200, 2))
    >>> ways = columns_of(rows, weights=[1.0, 1.0])
    >>> best = counterfactuals(lambda x: x[:, 0] + 2 * x[:, 1] > 1, np.zeros(2), rows, ways)[0]
    >>> best.changed, round(best.cost, 3)  # half a unit of the second column
    ((1,), 0.5)
    """
    origin, rows = np.asarray(x, np.float64).ravel(), np.asarray(data, np.float64)
    wanted = whole("counterfactuals", "count", count)
    if origin.shape != rows.shape[1:]:
        raise ArgumentError(
            f"counterfactuals(x): {origin.size} columns, the data have {rows.shape[1:]}",
            remedy="give a row with the columns of the data",
        )
    for name, given in (("x", origin), ("data", rows)):
        if not np.isfinite(given).all():
            raise ArgumentError(
                f"counterfactuals({name}): there are numbers that are not finite",
                remedy="leave such rows out, or fill them in",
            )
    if len(columns.weights) != origin.size:
        raise ArgumentError(
            f"counterfactuals(columns): they are {len(columns.weights)}, the row has {origin.size}",
            remedy="make them of the same data: columns_of(data)",
        )
    said = np.asarray(decides(origin[None]))
    if said.shape != (1,):
        raise ArgumentError(
            f"counterfactuals(decides): it gives an array of shape {said.shape} for one row",
            remedy="it must say of every row whether the decision is the wanted one: lambda x: f(x)[:, 1] > 0",
        )
    if said[0]:
        raise ArgumentError(
            "counterfactuals(x): the decision is the wanted one already", remedy="ask for another decision"
        )
    allowed = rows.copy()
    allowed[:, columns.fixed] = origin[columns.fixed]
    found = np.concatenate(
        [_single(decides, origin, rows, columns), _from_rows(decides, origin, allowed, columns)]
    )
    if not len(found):
        raise CapabilityError(
            "counterfactuals: no change within the range of the data changes the decision",
            remedy="free some of the columns that must not change, or give more rows of data",
        )
    nearer = _nearer(decides, origin, found, columns)
    return _different(origin, nearer, columns, wanted)


def _single(decides: Decides, origin: np.ndarray, rows: np.ndarray, columns: Columns) -> np.ndarray:
    """For every group of columns alone the nearest values that change the decision, above and below."""
    tried = []
    for group in np.unique(columns.group[~columns.fixed]):
        own = np.flatnonzero(columns.group == group)
        if len(own) > 1:
            values = np.unique(rows[:, own], axis=0)
        else:
            low, high = columns.low[own[0]], columns.high[own[0]]
            values = np.linspace(low, high, _GRID)[:, None]
            if columns.whole_numbers[own[0]]:
                values = np.unique(np.rint(values), axis=0)
        moved = np.repeat(origin[None], len(values), axis=0)
        moved[:, own] = values
        tried.append(moved)
    if not tried:
        return np.zeros((0, len(origin)))
    every = np.concatenate(tried)
    sizes = np.cumsum([0, *map(len, tried)])
    hit = decides(every)
    cost = np.where(hit, columns.cost(every - origin[None]), np.inf)
    found = []
    for first, last in itertools.pairwise(sizes):
        up = (every[first:last] - origin[None]).sum(axis=1) > 0
        sides = (np.where(side, cost[first:last], np.inf) for side in (up, ~up))
        found += [every[first + int(side.argmin())] for side in sides if np.isfinite(side).any()]
    return np.array(found).reshape(-1, len(origin))


def _from_rows(decides: Decides, origin: np.ndarray, allowed: np.ndarray, columns: Columns) -> np.ndarray:
    """The nearest rows with the wanted decision, with columns put back as long as it holds, dearest first."""
    there = allowed[decides(allowed)]
    order = np.argsort(columns.cost(there - origin[None]), kind="stable")[:_CANDIDATES]
    found = there[order]
    if not len(found):
        return found
    groups = np.unique(columns.group[~columns.fixed])
    apart = np.stack([_of_group(columns, int(group), found - origin[None]) for group in groups], axis=1)
    for turn in range(len(groups)):
        which = groups[np.argsort(-apart, axis=1, kind="stable")[:, turn]]
        back = np.where(columns.group[None] == which[:, None], origin[None], found)
        found = np.where(decides(back)[:, None], back, found)
    return found


def _of_group(columns: Columns, group: int, changes: np.ndarray) -> np.ndarray:
    return columns.cost(np.where(columns.group[None] == group, changes, 0.0))


def _nearer(decides: Decides, origin: np.ndarray, found: np.ndarray, columns: Columns) -> np.ndarray:
    """Every number moved back towards the input as far as the decision allows, one column after another."""
    counts = np.bincount(columns.group, minlength=int(columns.group.max()) + 1)
    for column in np.flatnonzero(~columns.fixed & (counts[columns.group] == 1)):
        if not (found[:, column] != origin[column]).any():
            continue
        far, near = found[:, column].copy(), np.full(len(found), origin[column])
        for _ in range(_HALVINGS):
            middle = (far + near) / 2
            if columns.whole_numbers[column]:
                middle = np.where(far > origin[column], np.floor(middle), np.ceil(middle))
            tried = found.copy()
            tried[:, column] = middle
            hit = decides(tried)
            far, near = np.where(hit, middle, far), np.where(hit, near, middle)
        found = found.copy()
        found[:, column] = far
    return _beyond(decides, origin, found, columns)


def _beyond(decides: Decides, origin: np.ndarray, found: np.ndarray, columns: Columns) -> np.ndarray:
    """A little farther than the border, so that the last digits of a computation do not decide."""
    free = ~columns.whole_numbers & ~columns.fixed & (np.bincount(columns.group)[columns.group] == 1)
    farther = found + np.where(free[None], _MARGIN * (found - origin[None]), 0.0)
    return np.where(decides(farther)[:, None], farther, found)


def _different(origin: np.ndarray, found: np.ndarray, columns: Columns, count: int) -> list[Counterfactual]:
    """The cheapest ones, each of other columns than those before it."""
    order = np.argsort(columns.cost(found - origin[None]), kind="stable")
    chosen: dict[tuple[int, ...], Counterfactual] = {}
    for row in order:
        changed = tuple(int(group) for group in np.unique(columns.group[found[row] != origin]))
        # One that also changes what a cheaper one changes, and more besides, tells nothing new.
        if changed and not any(set(known) <= set(changed) for known in chosen):
            chosen[changed] = Counterfactual(
                found[row], changed, float(columns.cost((found[row] - origin)[None])[0])
            )
        if len(chosen) == count:
            break
    return list(chosen.values())


__all__ = ["Columns", "Counterfactual", "Decides", "columns_of", "counterfactuals"]
