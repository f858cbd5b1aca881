"""How an output depends on one feature: partial dependence with its individual curves, and accumulated local effects.

*Partial dependence* sets the feature to a value in every row and averages; an *individual curve* is that of one row,
and where curves are not parallel the feature interacts with others. Both ask about rows that may not exist where
features depend on each other. *Accumulated local effects* move every row only within its own bin of the feature, sum
the mean differences up and so stay where the data are.

References: Friedman, Greedy function approximation, 2001; Goldstein et al., 2015, arXiv:1309.6392; Apley and Zhu,
Visualizing the effects of predictor variables in black box supervised learning models, 2020, arXiv:1612.08468.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.all_outputs import finite_outputs
from chainrule.explain.methods.functions import Function, adapted, choose_output, count_outputs


@final
@dataclass(frozen=True)
class PartialDependence:
    """The output of every row at every value of one feature."""

    grid: Float[np.ndarray, " points"]
    curves: Float[np.ndarray, "rows points"]
    """Individual curves."""

    @property
    def mean(self) -> Float[np.ndarray, " points"]:
        """Partial dependence."""
        return np.asarray(self.curves.mean(axis=0))

    @property
    def interaction(self) -> float:
        """The share of the curves' spread that is not common to all: 0 where they are parallel."""
        centred = self.curves - self.curves.mean(axis=1, keepdims=True)
        spread = float(np.square(centred).mean())
        common = float(np.square(self.mean - self.mean.mean()).mean())
        return 1 - common / spread if spread > 0 else 0.0


@final
@dataclass(frozen=True)
class LocalEffects:
    """Accumulated local effects of one feature, centred so that their mean over the rows is zero."""

    edges: Float[np.ndarray, " edges"]
    """Ends of the bins: quantiles of the feature."""
    effects: Float[np.ndarray, " edges"]
    counts: Float[np.ndarray, " bins"]


def partial_dependence(
    f: Function, x: Any, column: int, *, points: int = 32, output: int = 0, grid: Any = None
) -> PartialDependence:
    """The output as one entry of the input takes the values of a grid and the rest of each row stays.

    The grid is of quantiles of the feature unless one is given.

    >>> rows = np.array([[0.0, 1.0], [1.0, 2.0]], np.float32)
    >>> found = partial_dependence(lambda x: x[:, 0] * x[:, 1], rows, 0, grid=[0.0, 2.0])
    >>> found.curves.tolist(), found.mean.tolist()
    ([[0.0, 2.0], [0.0, 4.0]], [0.0, 3.0])
    """
    rows = np.asarray(x)
    flat = _flat("partial_dependence", rows, column)
    if grid is None:
        grid = _quantiles(flat[:, column], whole("partial_dependence", "points", points, least=2))
    values = np.asarray(grid, rows.dtype if rows.dtype.kind == "f" else np.float32)
    moved = np.repeat(flat[:, None, :], len(values), axis=1).astype(values.dtype)
    moved[:, :, column] = values[None]
    out = _asked("partial_dependence", f, moved.reshape(-1, *rows.shape[1:]), output)
    return PartialDependence(np.asarray(values, float), out.reshape(len(rows), len(values)))


def accumulated_effects(f: Function, x: Any, column: int, *, bins: int = 32, output: int = 0) -> LocalEffects:
    """Mean differences of the output between the ends of each row's own bin, summed up over bins.

    >>> rows = np.linspace(0, 1, 101)[:, None].astype(np.float32)
    >>> found = accumulated_effects(lambda x: 3 * x[:, 0], rows, 0, bins=4)
    >>> np.round(np.diff(found.effects) / np.diff(found.edges), 3).tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    rows = np.asarray(x)
    flat = _flat("accumulated_effects", rows, column)
    edges = _quantiles(flat[:, column], whole("accumulated_effects", "bins", bins) + 1)
    if len(edges) < 2:
        raise ArgumentError(
            f"accumulated_effects(column={column}): all rows have the value {edges[0]:g}",
            remedy="choose a feature that differs between rows",
        )
    own = np.clip(np.searchsorted(edges, flat[:, column], side="left") - 1, 0, len(edges) - 2)
    ends = []
    for side in (0, 1):
        moved = flat.astype(np.float32 if rows.dtype.kind != "f" else rows.dtype).copy()
        moved[:, column] = edges[own + side]
        ends.append(_asked("accumulated_effects", f, moved.reshape(rows.shape), output))
    counts = np.bincount(own, minlength=len(edges) - 1).astype(float)
    sums = np.bincount(own, ends[1] - ends[0], minlength=len(edges) - 1)
    steps = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    effects = np.concatenate([[0.0], np.cumsum(steps)])
    middle = (effects[1:] + effects[:-1]) / 2
    return LocalEffects(edges, effects - float((middle * counts).sum() / counts.sum()), counts)


def _asked(where: str, f: Function, rows: np.ndarray, output: int) -> Float[np.ndarray, " rows"]:
    """One output of `f`, on the host where JAX cannot trace it, for every row."""
    f = adapted(where, f, rows[:1])
    position, _ = choose_output(where, output, count_outputs(where, f, rows))
    return np.asarray(finite_outputs(where, f, rows)[:, position])


def _flat(where: str, rows: np.ndarray, column: int) -> np.ndarray:
    flat = rows.reshape(len(rows), -1)
    if whole(where, "column", column, least=0) >= flat.shape[1]:
        raise ArgumentError(
            f"{where}(column={column}): inputs have {flat.shape[1]} entries",
            remedy=f"choose one from 0 to {flat.shape[1] - 1}",
        )
    return flat


def _quantiles(values: np.ndarray, count: int) -> np.ndarray:
    """So many quantiles from the lowest to the highest value, each once."""
    return np.unique(np.quantile(np.asarray(values, float), np.linspace(0, 1, count)))


__all__ = ["LocalEffects", "PartialDependence", "accumulated_effects", "partial_dependence"]
