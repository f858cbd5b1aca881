"""Permutation importance: how much worse predictions become when one feature is exchanged between rows.

The feature keeps its distribution and loses all that it says about the target and about other features. What the model
then loses is what it had from that feature alone: two features that say the same can both look unimportant.

Reference: Breiman, Random forests, 2001; Fisher, Rudin and Dominici, 2019, arXiv:1801.01489.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.all_outputs import finite_outputs
from chainrule.explain.methods.functions import Function, adapted

Losses: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From outputs (rows, outputs) and targets to a loss for each row."""


@final
@dataclass(frozen=True)
class PermutationImportance:
    """What each feature is worth: the mean increase of the loss, over repeats."""

    names: tuple[str, ...]
    increases: Float[np.ndarray, "repeats features"]
    loss: float
    """Without any exchange."""

    @property
    def mean(self) -> Float[np.ndarray, " features"]:
        """The importance of each feature."""
        return np.asarray(self.increases.mean(axis=0))

    @property
    def errors(self) -> Float[np.ndarray, " features"]:
        """Standard errors over the repeats; zero for a single one."""
        count = len(self.increases)
        return np.asarray(self.increases.std(axis=0, ddof=min(count - 1, 1)) / np.sqrt(count))


def squared_error(out: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The squared distance of outputs and targets, summed over outputs."""
    targets = np.asarray(y, float)
    if targets.size != out.size:
        raise ArgumentError(
            f"squared error: the function gives {out.shape[1]} outputs for a row, y has shape {targets.shape}",
            remedy="explain a function with one output for each target, or give another loss: loss=(out, y) -> losses",
        )
    return np.square(out - targets.reshape(out.shape)).sum(axis=1)


def permutation_importance(
    f: Function,
    x: Any,
    y: Any,
    *,
    loss: Losses = squared_error,
    groups: Int[np.ndarray, "..."] | None = None,
    names: Sequence[str] | None = None,
    repeats: int = 10,
    seed: int = 0,
) -> PermutationImportance:
    """How much the mean loss grows when a feature, or a group of entries, is exchanged between rows.

    `groups` numbers the group of each entry of an input, in its shape; without it every column is one.

    >>> rows = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    >>> found = permutation_importance(lambda x: 3 * x[:, 0], rows, 3 * rows[:, 0])
    >>> bool(abs(found.mean[0] - 18) < 1), float(found.mean[1])  # twice the variance of 3 x, and nothing
    (True, 0.0)
    """
    where, rows = "permutation_importance", np.asarray(x)
    count = whole(where, "repeats", repeats)
    membership = np.arange(rows[0].size) if groups is None else np.asarray(groups).ravel()
    known = tuple(names) if names is not None else tuple(f"x{i}" for i in range(int(membership.max()) + 1))
    if len(rows) != len(y) or len(rows) < 2:
        raise ArgumentError(
            f"permutation_importance: {len(rows)} inputs and {len(y)} targets",
            remedy="give at least two rows, each with its target",
        )
    if membership.size != rows[0].size:
        raise ArgumentError(
            f"permutation_importance(groups): {membership.size} numbers for inputs of {rows[0].size} entries",
            remedy="number the group of every entry",
        )
    if len(known) != int(membership.max()) + 1:
        raise ArgumentError(
            f"permutation_importance(names): {len(known)} names for {int(membership.max()) + 1} features",
            remedy="name every feature, or every group",
        )
    f = adapted(where, f, rows[:1])
    draw = np.random.default_rng(seed)
    flat = rows.reshape(len(rows), -1)
    before = float(loss(finite_outputs(where, f, rows), np.asarray(y)).mean())
    increases = np.empty((count, len(known)))
    for repeat in range(count):
        order = draw.permutation(len(rows))  # one for all features: their increases can be compared
        for group in range(len(known)):
            mixed = np.where((membership == group)[None], flat[order], flat).reshape(rows.shape)
            increases[repeat, group] = loss(finite_outputs(where, f, mixed), np.asarray(y)).mean() - before
    return PermutationImportance(known, increases, before)


__all__ = ["Losses", "PermutationImportance", "permutation_importance", "squared_error"]
