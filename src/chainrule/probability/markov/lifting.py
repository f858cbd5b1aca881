"""Enlarged states: processes that look back k steps, or on everything so far, as chains that look back one.

A process whose next symbol depends on the last k is a chain on tuples of k symbols; one whose next symbol depends on
all so far is a chain on histories, each of which is a state of its own.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.probability.markov.checks import TOLERANCE

_LARGEST = 20_000
"""Lifted states beyond which the matrix would not fit into memory."""


@final
@dataclass(frozen=True)
class LiftedChain:
    """A chain of order one whose states are tuples of symbols."""

    states: tuple[tuple[int, ...], ...]
    """The last symbols, or all so far; the latest comes last."""
    transition: Float[np.ndarray, "states states"]

    def lifted(self, path: Sequence[int]) -> list[int]:
        """The numbers of the lifted states that a path of symbols goes through.

        The first is that of the path's first symbols, as many as the shortest state has: none, for histories.
        """
        number = {state: k for k, state in enumerate(self.states)}
        shortest, longest = (pick(len(state) for state in self.states) for pick in (min, max))
        symbols = tuple(int(symbol) for symbol in path)
        ends = range(shortest, len(symbols) + 1)
        tuples = [symbols[:end] if shortest != longest else symbols[end - longest : end] for end in ends]
        for one in tuples:
            if one not in number:
                raise ArgumentError(
                    f"lifted(path): the chain has no state {one}",
                    remedy=f"its states are tuples of {shortest} to {longest} symbols",
                )
        return [number[one] for one in tuples]

    def symbols(self, path: Any) -> np.ndarray:
        """The latest symbol of each lifted state of a path; -1 where nothing has been seen yet."""
        latest = np.array([state[-1] if state else -1 for state in self.states])
        return latest[np.asarray(path)]


def lift(
    conditional: Any, order: int | None = None, symbols: int | None = None, steps: int | None = None
) -> LiftedChain:
    """The chain of order one on tuples of symbols that has the same paths with the same probabilities.

    `conditional` is a table whose last axis is the next symbol and whose other axes are the symbols before it, the
    latest last; or a function from the tuple of symbols before to the probabilities of the next, which also needs
    `symbols` and either `order` (it looks back so far) or `steps` (it looks back on everything: histories up to so many
    symbols). An `order` above that of a table gives longer tuples. A history of `steps` symbols stays as it is.

    >>> lift([[0.9, 0.1], [0.2, 0.8]], order=2).transition[1].tolist()
    [0.0, 0.0, 0.2, 0.8]
    """
    if not callable(conditional):
        if steps is not None:
            raise ArgumentError(
                f"lift(steps={steps}): histories need a function",
                remedy="leave steps out for a table of probabilities",
            )
        table = _rows(np.asarray(conditional, np.float64), "")
        if table.ndim < 2 or len(set(table.shape)) != 1:
            raise ArgumentError(
                f"lift(conditional): needs a table of k + 1 axes of one length each, not shape {table.shape}",
                remedy="its last axis is the next symbol, the others are the k symbols before",
            )
        back = table.ndim - 1
        length = back if order is None else whole("lift", "order", order, least=back)
        return _tuples(lambda last: table[last[len(last) - back :]], length, len(table))
    if symbols is None or (order is None) == (steps is None):
        raise ArgumentError(
            "lift(conditional): a function needs the number of symbols, and how far it looks back",
            remedy="pass symbols=2, order=3 (the last three) or symbols=2, steps=5 (everything, for five steps)",
        )
    count = whole("lift", "symbols", symbols)
    if steps is None:
        return _tuples(conditional, whole("lift", "order", order), count)
    return _histories(conditional, whole("lift", "steps", steps), count)


def _tuples(conditional: Callable[[tuple[int, ...]], Any], order: int, symbols: int) -> LiftedChain:
    _check_size(symbols**order)
    states = tuple(itertools.product(range(symbols), repeat=order))
    transition = np.zeros((len(states), len(states)))
    for k, state in enumerate(states):
        # Tuples in order are numbers to the base of `symbols`: a step drops the first digit and appends one.
        first = k % symbols ** (order - 1) * symbols
        transition[k, first : first + symbols] = _next(conditional, state, symbols)
    return LiftedChain(states, transition)


def _histories(conditional: Callable[[tuple[int, ...]], Any], steps: int, symbols: int) -> LiftedChain:
    _check_size(sum(symbols**length for length in range(steps + 1)))
    by_length = [list(itertools.product(range(symbols), repeat=length)) for length in range(steps + 1)]
    states = tuple(itertools.chain.from_iterable(by_length))
    number = {state: k for k, state in enumerate(states)}
    transition = np.zeros((len(states), len(states)))
    for state, k in number.items():
        if len(state) == steps:
            transition[k, k] = 1.0
        else:
            first = number[(*state, 0)]
            transition[k, first : first + symbols] = _next(conditional, state, symbols)
    return LiftedChain(states, transition)


def _next(conditional: Callable[[tuple[int, ...]], Any], state: tuple[int, ...], symbols: int) -> np.ndarray:
    found = np.asarray(conditional(state), np.float64)
    if found.shape != (symbols,):
        raise ArgumentError(
            f"lift(conditional): after {state} it gives shape {found.shape} for {symbols} symbols",
            remedy=f"return {symbols} probabilities",
        )
    return _rows(found, f" after {state}")


def _rows(table: np.ndarray, after: str) -> np.ndarray:
    sums = table.sum(axis=-1, keepdims=True)
    if not ((table >= 0).all() and (np.abs(sums - 1) <= TOLERANCE).all()):
        worst = float(sums.ravel()[np.argmax(np.abs(sums.ravel() - 1))])
        raise ArgumentError(
            f"lift(conditional): probabilities of the next symbol{after} are negative or sum to {worst:.6g}, not 1",
            remedy="the next symbol is the last axis: divide by its sum",
        )
    return table / sums


def _check_size(states: int) -> None:
    if states > _LARGEST:
        raise ArgumentError(
            f"lift: {states:,} lifted states are more than the {_LARGEST:,} whose matrix fits into memory",
            remedy="use a lower order, fewer steps or fewer symbols",
        )


__all__ = ["LiftedChain", "lift"]
