"""Sequences of observations as users give them: one, or several of different lengths as rows of one array."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.probability.distributions import Categorical, Distribution
from chainrule.probability.markov.checks import is_traced


@final
@dataclass(frozen=True)
class Observations:
    """Sequences of what hidden states emit."""

    y: Any
    """`[sequences, time, *event]`."""
    lengths: Any
    """How many of the times of each are observations."""
    is_batch: bool
    """Whether several were given, or one."""

    def unbatched(self, found: Any) -> Any:
        """Results without the axis of sequences, where one sequence was given."""
        return found if self.is_batch else jax.tree.map(lambda array: array[0, ...], found)

    def parts(self, most: int) -> Iterator["Observations"]:
        """At most so many sequences at a time, all parts of one size: the last is filled up with empty sequences."""
        count = -(-len(self.y) // max(most, 1))
        size = -(-len(self.y) // count)
        for first in range(0, len(self.y), size):
            y, lengths = self.y[first : first + size], self.lengths[first : first + size]
            rest = size - len(y)
            if rest:
                y = np.concatenate([y, np.broadcast_to(y[:1], (rest, *y.shape[1:]))])
                lengths = np.concatenate([lengths, np.zeros(rest, lengths.dtype)])
            yield Observations(y, lengths, is_batch=True)

    @property
    def count(self) -> int:
        """All observations of all sequences."""
        return int(np.sum(self.lengths))


def observed(where: str, emission: Distribution, y: Any, lengths: Any = None) -> Observations:
    """`y` as sequences of events of `emission`, checked."""
    array = y if is_traced(y) else _array(where, y)
    event = emission.event_shape
    axes = array.ndim - len(event)
    if axes not in (1, 2) or array.shape[axes:] != event:
        rest = "".join(f", {size}" for size in event)
        raise ArgumentError(
            f"{where}(y): shape {array.shape} is no sequence of what the states emit",
            remedy=f"one sequence has shape (time{rest}), several have shape (sequences, time{rest})",
        )
    rows = array if axes == 2 else array[None]
    if 0 in rows.shape[:2]:
        raise ArgumentError(f"{where}(y): needs at least one observation, not shape {array.shape}")
    sizes = _lengths(where, lengths, rows.shape[0], rows.shape[1])
    if not is_traced(rows, sizes):
        _check_values(where, emission, rows[np.arange(rows.shape[1]) < sizes[:, None]])
    return Observations(rows, sizes, axes == 2)


def pad(sequences: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of different lengths as rows of one array, and their lengths.

    >>> rows, lengths = pad([[1, 2, 3], [4]])
    >>> rows.tolist(), lengths.tolist()
    ([[1, 2, 3], [4, 4, 4]], [3, 1])
    """
    arrays = [np.asarray(one) for one in sequences]
    if not arrays or any(not one.ndim or not len(one) for one in arrays):
        raise ArgumentError(
            "pad(sequences): needs at least one sequence, and at least one observation in each"
        )
    longest = max(len(one) for one in arrays)
    # The last observation is repeated: whatever stands there is not looked at, but is a possible observation.
    rows = [np.concatenate([one, np.repeat(one[-1:], longest - len(one), axis=0)]) for one in arrays]
    return np.stack(rows), np.array([len(one) for one in arrays])


def _array(where: str, y: Any) -> np.ndarray:
    try:
        array = np.asarray(y)
    except ValueError:
        array = np.empty((), object)
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ArgumentError(
            f"{where}(y): needs an array of numbers, not {type(y).__name__}",
            remedy="sequences of different lengths: rows, lengths = markov.pad(sequences), then pass both",
        )
    return array


def _lengths(where: str, lengths: Any, rows: int, time: int) -> Any:
    if lengths is None:
        return np.full(rows, time)
    if is_traced(lengths):
        return lengths
    sizes = np.atleast_1d(np.asarray(lengths))
    if sizes.shape != (rows,):
        raise ArgumentError(
            f"{where}(lengths): shape {sizes.shape} for {rows} sequences", remedy="give one length for each"
        )
    if sizes.min() < 1 or sizes.max() > time:
        worst = sizes.min() if sizes.min() < 1 else sizes.max()
        raise ArgumentError(
            f"{where}(lengths): {worst} is not between 1 and {time}, the number of times in y"
        )
    return sizes


def _check_values(where: str, emission: Distribution, found: np.ndarray) -> None:
    if np.issubdtype(found.dtype, np.floating) and np.isnan(found).any():
        raise ArgumentError(f"{where}(y): holds NaN", remedy="leave out or fill in missing values first")
    if isinstance(emission, Categorical):
        symbols = emission.log_probs.shape[-1]
        wrong = found[(found < 0) | (found >= symbols) | (found != np.floor(found))]
        if wrong.size:
            raise ArgumentError(
                f"{where}(y): {wrong[0]:g} is no symbol; they are numbered 0 to {symbols - 1}"
            )


__all__ = ["Observations", "observed", "pad"]
