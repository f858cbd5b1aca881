"""Entropy from samples: of symbols by counting, of sequences by blocks and phrases, of densities by neighbours.

Counting misses what was not seen and reads too low; the estimates here say by how much where that is known, and
stop where counts no longer support them.

References: Miller, Note on the bias of information estimates, 1955; Harris, The statistical estimation of entropy in
the non-parametric case, 1975; Kozachenko and Leonenko, Sample estimate of the
entropy of a random vector, Problems of Information Transmission, 1987.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import digamma, gammaln

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.information.phrases import phrase_tree
from chainrule.information.units import scale, takes_base

_CROWDED = 10
"""Symbols for each occupied cell that blocks need; with fewer, counts say little of probabilities."""


@final
@dataclass(frozen=True)
class EntropyEstimate:
    """An entropy estimated from samples."""

    value: float
    error: float
    """Standard error from the spread of surprisals; it knows nothing of the bias. NaN where there is none."""
    unit: str
    method: str
    count: int
    """Samples, or symbols."""
    remarks: tuple[str, ...] = ()
    """What a reader has to know of this number."""

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        error = "" if math.isnan(self.error) else f" ± {self.error:.2g}"
        said = f"{self.value:.6g}{error} {self.unit} ({self.method}, {self.count:,} samples)"
        return ". ".join([said, *(remark.removesuffix(".") for remark in self.remarks)])


@takes_base
def entropy_estimate(x: Any, method: str = "miller-madow", k: int = 3, unit: str = "bits") -> EntropyEstimate:
    """The entropy behind samples x.

    - "plug-in": that of the frequencies of symbols; too low by about (cells - 1) / (2n) nats;
    - "miller-madow": with this added;
    - "lz78": the entropy rate of a sequence, order included, c log(c) / n from c phrases; too high on short ones;
    - "knn": differential entropy of numbers or rows of numbers by the distance of their k-th neighbour.

    >>> print(entropy_estimate([0, 1, 0, 0], method="plug-in"))
    0.811278 ± 0.43 bits (plug-in, 4 samples). 2 different symbols in 4: too few of each, the estimate is too low
    """
    where = "entropy_estimate"
    factor = scale(unit, where)
    check_choice(where, "method", method, ("plug-in", "miller-madow", "lz78", "knn"))
    if method == "knn":
        value, error, count, remarks = _by_neighbours(x, whole(where, "k", k))
    elif method == "lz78":
        tree = phrase_tree(x)
        value, error, count = tree.rate("nats"), math.nan, tree.length
        remarks = ("An entropy rate; it falls towards that of the source from above as the sequence grows.",)
    else:
        value, error, count, remarks = _by_counts(symbol_numbers(where, x)[0], method == "miller-madow")
    return EntropyEstimate(value * factor, error * factor, unit, method, count, remarks)


def _by_counts(numbers: np.ndarray, corrected: bool) -> tuple[float, float, int, tuple[str, ...]]:
    counts = np.bincount(numbers)
    counts = counts[counts > 0]
    n = len(numbers)
    surprisal = np.log(n / counts)
    value = float(counts @ surprisal) / n
    bias = (len(counts) - 1) / (2 * n)
    # The second term is all there is where symbols are alike and surprisals have no spread (Harris, 1975).
    error = math.sqrt((float(counts @ np.square(surprisal - value)) / n + bias) / n)
    remarks = []
    if _CROWDED * len(counts) > n:
        remarks.append(
            f"{len(counts):,} different symbols in {n:,}: too few of each, the estimate is too low."
        )
    return value + bias * corrected, error, n, tuple(remarks)


def _by_neighbours(x: Any, k: int) -> tuple[float, float, int, tuple[str, ...]]:
    try:
        points = np.asarray(x, np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(
            "entropy_estimate(x): neighbours are of numbers, one row as long as the other",
            remedy='count symbols with method="plug-in"',
        ) from None
    points = points.reshape(len(points), -1) if points.ndim else points
    if points.ndim != 2 or len(points) <= k or not np.isfinite(points).all():
        raise ArgumentError(
            f"entropy_estimate(x): needs more than k={k} finite points, one a row; shape {np.shape(x)}"
        )
    n, dimension = points.shape
    distance = cKDTree(points).query(points, k + 1)[0][:, k]
    if not (distance > 0).all():
        raise ArgumentError(
            f"entropy_estimate(x): {int((distance == 0).sum()):,} points have {k} copies of themselves; a density has "
            "none",
            remedy='count symbols with method="plug-in", or add the noise that rounding took away',
        )
    ball = dimension / 2 * math.log(math.pi) - gammaln(dimension / 2 + 1)
    terms = dimension * np.log(distance) + ball + digamma(n) - digamma(k)
    remarks: tuple[str, ...] = (
        "A differential entropy: it may be negative, and changes with the scale of x.",
    )
    if dimension > 10:
        remarks += (f"In {dimension} dimensions neighbours are far, and the estimate is biased.",)
    return float(terms.mean()), float(terms.std() / math.sqrt(n)), n, remarks


@final
@dataclass(frozen=True, eq=False)
class BlockEntropies:
    """Entropies of blocks of a sequence, from those of one symbol to the longest that counts support."""

    unit: str
    entropies: np.ndarray
    """H(X^n) of blocks of n = 1, 2, ... symbols."""
    cells: np.ndarray
    """Different blocks that occurred."""
    length: int
    """Symbols of the sequence."""
    stopped: str
    """Why there are no longer blocks, in words."""

    @property
    def orders(self) -> np.ndarray:
        """Lengths of blocks, 1, 2, ..."""
        return np.arange(1, len(self.entropies) + 1)

    @property
    def per_symbol(self) -> np.ndarray:
        """H(X^n) / n."""
        return self.entropies / self.orders

    @property
    def conditional(self) -> np.ndarray:
        """H(X_n given the n - 1 symbols before); of a stationary source it falls to the entropy rate faster."""
        return np.diff(self.entropies, prepend=0.0)

    def __str__(self) -> str:
        return f"{self.conditional[-1]:.4g} {self.unit} per symbol given {len(self.orders) - 1} before; {self.stopped}"


@takes_base
def block_entropies(sequence: Any, most: int = 20, unit: str = "bits") -> BlockEntropies:
    """Entropies of blocks with the correction of Miller and Madow, as long as there are ten symbols for each block.

    >>> found = block_entropies([0, 1] * 500)
    >>> np.abs(found.conditional[:3]).round(2).tolist()
    [1.0, 0.0, 0.0]
    """
    factor = scale(unit, "block_entropies")
    numbers, _ = symbol_numbers("block_entropies", sequence)
    most = whole("block_entropies", "most", most)
    found, cells = [], []
    stopped = f"no blocks longer than {most} were asked for"
    blocks = numbers
    for order in range(1, min(most, len(numbers)) + 1):
        if order > 1:
            # A block is the number of the shorter block before it and one more symbol: numbers stay small.
            joined = blocks[: len(numbers) - order + 1] * (int(numbers.max()) + 1) + numbers[order - 1 :]
            blocks = np.unique(joined, return_inverse=True)[1].reshape(-1)
        occupied = int(blocks.max()) + 1
        crowded = occupied > len(numbers) / _CROWDED
        if crowded:
            what = f"blocks of {order}" if order > 1 else "different symbols"
            stopped = f"{occupied:,} {what} in {len(numbers):,} symbols are too many to count"
        if crowded and order > 1:
            break
        found.append(_by_counts(blocks, True)[0] * factor)
        cells.append(occupied)
        if crowded:  # there is no shorter block to go back to
            break
    return BlockEntropies(unit, np.array(found), np.array(cells), len(numbers), stopped)


def symbol_numbers(where: str, x: Any) -> tuple[np.ndarray, list[Any]]:
    """Symbols of any kind as whole numbers from 0, and the different symbols in their order."""
    items = np.asarray(list(x) if isinstance(x, str | bytes) else x)
    if items.ndim != 1 or not items.size:
        raise ArgumentError(f"{where}: needs a sequence of symbols, not an array of shape {items.shape}")
    if np.issubdtype(items.dtype, np.floating) and not np.isfinite(items).all():
        raise ArgumentError(f"{where}: a symbol is not finite")
    symbols, numbers = np.unique(items, return_inverse=True)
    return numbers.reshape(-1), symbols.tolist()


__all__ = ["BlockEntropies", "EntropyEstimate", "block_entropies", "entropy_estimate", "symbol_numbers"]
