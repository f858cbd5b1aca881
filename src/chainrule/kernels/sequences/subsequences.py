"""Subsequences with gaps: two sequences are alike if the same letters follow each other, near or far.

A subsequence of k letters counts `decay` to the power of the stretch it spans, gaps included, and the kernel is the sum
over all of them. Nothing is listed: a recursion over the prefixes of both sequences finds the sum.

Reference: Lodhi et al., Text classification using string kernels, 2002.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Scalar
from chainrule.kernels.precision import in_double
from chainrule.kernels.sequences.encoding import EncodedSequences, encoded
from chainrule.kernels.sequences.kernel import SequenceKernel, Texts

_STATE = 2**21
"""Numbers that the recursions of pairs compared at once hold together."""


@final
class Subsequences(SequenceKernel):
    """The sum over common subsequences of k letters, gaps allowed, each by `decay` to the letters it spans in both.

    >>> Subsequences(2, decay=0.5)("cat", "car")  # c-a, adjacent in both: 0.5 to the power 2 + 2
    0.0625
    >>> Subsequences(2, decay=0.5, normalized=True)("cat", "cat")
    1.0
    """

    k: int = eqx.field(static=True)
    decay: float = eqx.field(static=True)
    normalized: bool = eqx.field(static=True)
    alphabet: str | None = eqx.field(static=True)

    def __init__(
        self, k: int = 3, *, decay: float = 0.5, normalized: bool = False, alphabet: str | None = None
    ) -> None:
        self.k = whole("Subsequences", "k", k)
        if not 0 < decay <= 1:
            raise ArgumentError(f"Subsequences(decay={decay}): decay must be above 0 and at most 1")
        self.decay, self.normalized, self.alphabet = float(decay), normalized, alphabet

    def products(self, x: Texts, y: Texts | None) -> Float[np.ndarray, "rows columns"]:
        if y is None:
            rows, columns = np.triu_indices(len(x))
            found = self._compared(self._encoded(x), rows, columns)
            out = np.zeros((len(x), len(x)))
            out[rows, columns] = out[columns, rows] = found
            return out
        self._encoded(y)  # an error names the number of a sequence in its own list
        both = self._encoded([*x, *y])
        rows, columns = (grid.ravel() for grid in np.indices((len(x), len(y))))
        return self._compared(both, rows, columns + len(x)).reshape(len(x), len(y))

    def squares(self, x: Texts) -> Float[np.ndarray, " rows"]:
        numbers = np.arange(len(x))
        return self._compared(self._encoded(x), numbers, numbers)

    def _encoded(self, x: Texts) -> EncodedSequences:
        return encoded("Subsequences", x, self.k, self.alphabet)

    def _compared(
        self, sequences: EncodedSequences, rows: Int[np.ndarray, " pairs"], columns: Int[np.ndarray, " pairs"]
    ) -> Float[np.ndarray, " pairs"]:
        longest = int(np.diff(sequences.starts).max())
        padded = np.full((sequences.size, longest), -1)
        inside = np.arange(len(sequences.letters)) - sequences.starts[sequences.owner]
        padded[sequences.owner, inside] = sequences.letters
        decay = np.asarray(self.decay)
        return np.asarray(in_double(_all_pairs)(padded, rows, columns, decay, self.k))


@eqx.filter_jit
def _all_pairs(padded: Array, rows: Array, columns: Array, decay: Scalar, k: int) -> Array:
    padded, rows, columns = jnp.asarray(padded), jnp.asarray(rows), jnp.asarray(columns)
    at_once = max(16, _STATE // (k * padded.shape[1]))

    def pair(numbers: tuple[Array, Array]) -> Array:
        return _pair(padded[numbers[0]], padded[numbers[1]], jnp.asarray(decay), k)

    return jax.lax.map(pair, (rows, columns), batch_size=min(at_once, max(1, len(rows))))


def _pair(one: Array, other: Array, decay: Array, k: int) -> Array:
    """The recursion over the letters of both sequences.

    `begun[j, i]` sums over common subsequences of i letters in the prefixes so far, of `one` and of the first j letters
    of `other`, faded to the ends of both; so the next letter needs no look back.
    """

    def letter(state: tuple[Array, Array], symbol: Array) -> tuple[tuple[Array, Array], None]:
        begun, total = state

        def against(carried: tuple[Array, Array], at: tuple[Array, Array, Array]) -> tuple[Any, Array]:
            ending, total = carried
            before, here, letter = at
            same = jnp.where((letter == symbol) & (symbol >= 0), decay**2, 0.0)
            longer = same * before  # subsequences that go on with this letter in both
            ending = decay * ending + longer[:-1]
            return (ending, total + longer[-1]), decay * here[1:] + ending

        start = (jnp.zeros(k - 1, begun.dtype), total)
        (_, total), later = jax.lax.scan(against, start, (begun[:-1], begun[1:], other))
        return (begun.at[1:, 1:].set(later), total), None

    begun = jnp.zeros((len(other) + 1, k), decay.dtype).at[:, 0].set(1.0)
    (_, total), _ = jax.lax.scan(letter, (begun, jnp.zeros((), decay.dtype)), one)
    return total


__all__ = ["Subsequences"]
