"""Functions of a Markov chain, which need not be Markov chains: strong lumpability, and histories that disprove it.

States are put together in classes and only the class is seen. What is seen is a Markov chain whatever the start
exactly if all states of a class go to every class with the same probability. Where they do not, two histories with the
same last symbol show it by what follows them.

Reference: Kemeny and Snell, Finite Markov Chains, 1960, chapter 6.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError
from chainrule.probability.markov import structure
from chainrule.probability.markov.checks import distribution, transition_matrix

_HISTORIES = 4096
"""How many histories of one length are looked through for a witness."""

Classes: TypeAlias = Sequence[Any] | np.ndarray | Callable[[int], Hashable]
"""A label for each state, the states of each class, or a function from the number of a state to its label."""


@final
@dataclass(frozen=True)
class LumpingWitness:
    """Two histories of what is seen that end in the same symbol and go on differently."""

    histories: tuple[tuple[Any, ...], tuple[Any, ...]]
    """Symbols, the earliest first."""
    next: Any
    """The symbol whose probability differs."""
    probabilities: tuple[float, float]
    """Of that symbol after each history."""
    starts: tuple[np.ndarray, np.ndarray]
    """The distributions of the hidden chain at the beginning of each: one and the same if that is enough."""

    def __str__(self) -> str:
        sides = (
            f"P({self.next} | {', '.join(str(symbol) for symbol in history)}) = {p:.6g}"
            for history, p in zip(self.histories, self.probabilities, strict=True)
        )
        return " but ".join(sides)


@final
@dataclass(frozen=True)
class Lumpability:
    """Whether a function of a chain is a Markov chain for every start."""

    value: bool
    witness: LumpingWitness | None
    transition: Float[np.ndarray, "classes classes"] | None
    """Of the lumped chain, classes in the order of `symbols`; none if there is no such chain."""
    symbols: tuple[Any, ...]

    def __bool__(self) -> bool:
        return self.value


def is_lumpable(
    transition: Any, classes: Classes, start: Any = None, tolerance: float | None = None
) -> Lumpability:
    """Whether the class of the state is a Markov chain, whatever the start; if not, with a witness.

    Histories of the witness begin in `start`: by default the stationary distribution, or the uniform one where that is
    not unique. `tolerance` is how far probabilities may differ: by default rounding errors in the matrix's precision.

    >>> bool(is_lumpable([[0.5, 0.2, 0.3], [0.1, 0.4, 0.5], [0.1, 0.6, 0.3]], [[0], [1, 2]]))
    True
    >>> found = is_lumpable([[0, 1, 0], [0, 0, 1], [1, 0, 0]], "aab")
    >>> found.value, str(found.witness)
    (False, 'P(a | b, a) = 1 but P(a | a, a) = 0')
    """
    matrix = transition_matrix("is_lumpable", transition)
    labels, symbols = _labels("is_lumpable", classes, len(matrix))
    if tolerance is None:
        tolerance = 64 * float(np.finfo(np.result_type(np.asarray(transition).dtype, np.float32)).eps)
    into = matrix @ np.eye(len(symbols))[labels]
    groups = [np.flatnonzero(labels == label) for label in range(len(symbols))]
    spread = np.array([np.ptp(into[group], axis=0) for group in groups])
    if (spread <= tolerance).all():
        return Lumpability(True, None, np.stack([into[group[0]] for group in groups]), symbols)
    begin = _start("is_lumpable", matrix, start)
    witness = _witness(matrix, labels, symbols, begin, tolerance) or _start_witness(groups, into, symbols)
    return Lumpability(False, witness, None, symbols)


def next_symbol(
    transition: Any, classes: Classes, history: Sequence[Any], start: Any = None
) -> dict[Any, float]:
    """The probability of each class after a history of classes has been seen.

    >>> next_symbol([[0, 1, 0], [0, 0, 1], [1, 0, 0]], "aab", "ba")
    {'a': 1.0, 'b': 0.0}
    """
    matrix = transition_matrix("next_symbol", transition)
    labels, symbols = _labels("next_symbol", classes, len(matrix))
    if not len(history):
        raise ArgumentError("next_symbol(history): needs at least one symbol")
    now = _start("next_symbol", matrix, start)
    for position, symbol in enumerate(history):
        if symbol not in symbols:
            raise ArgumentError(
                f"next_symbol(history): {symbol!r} is no class",
                remedy=f"classes are {', '.join(map(str, symbols))}",
            )
        now = (now @ matrix if position else now) * (labels == symbols.index(symbol))
        if not now.sum() > 0:
            raise ArgumentError(
                f"next_symbol(history): the first {position + 1} symbols have probability 0, so nothing follows them",
                remedy="pass a history that can happen, or another start",
            )
        now = now / now.sum()
    after = now @ matrix @ np.eye(len(symbols))[labels]
    return {symbol: float(p) for symbol, p in zip(symbols, after, strict=True)}


def _labels(where: str, classes: Classes, states: int) -> tuple[np.ndarray, tuple[Any, ...]]:
    """The number of each state's class, and the symbols of the classes."""
    if callable(classes):
        named: list[Any] = [classes(state) for state in range(states)]
    elif len(classes) and all(isinstance(one, list | tuple | set | frozenset | range) for one in classes):
        found = sorted((int(state), number) for number, one in enumerate(classes) for state in one)
        if [state for state, _ in found] != list(range(states)):
            raise ArgumentError(
                f"{where}(classes): every one of the states 0 to {states - 1} must be in one class, and in one only",
                remedy="for example [[0, 1], [2]]",
            )
        named = [number for _, number in found]
    else:
        named = [one.item() if isinstance(one, np.generic) else one for one in classes]
        if len(named) != states:
            raise ArgumentError(
                f"{where}(classes): {len(named)} labels for {states} states",
                remedy="give a label for each state, or the states of each class: [[0, 1], [2]]",
            )
    symbols = tuple(sorted(set(named)))
    return np.array([symbols.index(one) for one in named]), symbols


def _start(where: str, matrix: np.ndarray, start: Any) -> np.ndarray:
    if start is not None:
        return np.asarray(distribution(where, "start", start, len(matrix)))
    basis = structure.stationary_basis(matrix)
    return basis[0] if len(basis) == 1 else np.full(len(matrix), 1 / len(matrix))


def _witness(
    matrix: np.ndarray, labels: np.ndarray, symbols: tuple[Any, ...], start: np.ndarray, tolerance: float
) -> LumpingWitness | None:
    """The pair of shortest histories whose continuations differ most, if there is one among those looked at."""
    seen = labels[None, :] == np.arange(len(symbols))[:, None]
    into = matrix @ seen.T.astype(float)
    histories: list[tuple[tuple[int, ...], np.ndarray]] = list(_extended([((), start)], seen))
    # What histories longer than twice the number of states tell of the hidden state, shorter ones have told.
    for _ in range(2 * len(matrix)):
        if len(histories) > _HISTORIES:
            break
        after = np.stack([now @ into for _, now in histories])
        last = np.array([history[-1] for history, _ in histories])
        best = (tolerance, 0, 0, 0)
        for symbol in range(len(symbols)):
            rows = np.flatnonzero(last == symbol)
            if len(rows):
                high, low = (rows[pick(after[rows], axis=0)] for pick in (np.argmax, np.argmin))
                gaps = after[high, np.arange(len(symbols))] - after[low, np.arange(len(symbols))]
                j = int(np.argmax(gaps))
                best = max(best, (float(gaps[j]), int(high[j]), int(low[j]), j))
        gap, high_row, low_row, j = best
        if gap > tolerance:
            pair = [histories[row] for row in (high_row, low_row)]
            named = [tuple(symbols[k] for k in history) for history, _ in pair]
            chances = [float(after[row, j]) for row in (high_row, low_row)]
            return LumpingWitness((named[0], named[1]), symbols[j], (chances[0], chances[1]), (start, start))
        histories = list(_extended([(history, now @ matrix) for history, now in histories], seen))
    return None


def _extended(
    histories: list[tuple[tuple[int, ...], np.ndarray]], seen: np.ndarray
) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Histories longer by each symbol that can come next, with the distribution of the hidden state given them."""
    for history, ahead in histories:
        for symbol, states in enumerate(seen):
            now = ahead * states
            if now.sum() > 0:
                yield (*history, symbol), now / now.sum()


def _start_witness(groups: list[np.ndarray], into: np.ndarray, symbols: tuple[Any, ...]) -> LumpingWitness:
    """Two states of one class as starts: a chain may be Markov from one start and not from every other."""
    number = int(np.argmax([np.ptp(into[group], axis=0).max() for group in groups]))
    group = groups[number]
    j = int(np.argmax(np.ptp(into[group], axis=0)))
    pair = [int(group[pick(into[group, j])]) for pick in (np.argmax, np.argmin)]
    starts = [np.eye(len(into))[state] for state in pair]
    history = (symbols[number],)
    chances = (float(into[pair[0], j]), float(into[pair[1], j]))
    return LumpingWitness((history, history), symbols[j], chances, (starts[0], starts[1]))


__all__ = ["Classes", "Lumpability", "LumpingWitness", "is_lumpable", "next_symbol"]
