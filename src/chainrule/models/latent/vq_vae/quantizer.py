"""A codebook whose vectors follow the mean of what is mapped to them, and never fall out of use."""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import random
from chainrule.core.types import Array, Float, Int, Key, Scalar

_SMOOTHING = 1e-5
"""Added to how often a code was met, so that one that was not keeps a place."""


_LIGHT = 0.02
"""The least weight of a code that was just put in its place, as a share of an even use."""


class Quantized(NamedTuple):
    """Vectors and the codes that stand for them."""

    indices: Int[Array, " vectors"]
    codes: Float[Array, "vectors size"]
    """The rows of the codebook, which no gradient reaches."""


@final
class Quantizer(eqx.Module):
    """Maps vectors to the nearest row of a codebook; all of its arrays are moved by rule.

    A row is the running mean of the vectors that are mapped to it (van den Oord et al., 2017): the sum of these vectors
    over their number, both averaged over steps. A code that is met less often than a share `revive` of what it would be
    were all alike takes the place of a vector of the batch, drawn at random (Dhariwal et al., 2020). A fresh codebook
    has met nothing, so that the first batch gives it all of its rows.
    """

    codebook: Float[Array, "codes size"]
    counts: Float[Array, " codes"]
    """How many vectors of a batch were mapped to each code, averaged over steps."""
    sums: Float[Array, "codes size"]
    """The sum of these vectors, averaged likewise."""
    decay: float = eqx.field(static=True)
    revive: float = eqx.field(static=True)

    def __init__(self, codes: int, size: int, *, decay: float, revive: float, key: Key) -> None:
        self.codebook = random.normal(key, (codes, size))
        self.counts = jnp.zeros(codes)
        self.sums = jnp.zeros((codes, size))
        self.decay, self.revive = decay, revive

    def __call__(self, vectors: Float[Array, "vectors size"]) -> Quantized:
        """The nearest code of each vector."""
        book = jax.lax.stop_gradient(self.codebook).astype(vectors.dtype)
        # |v - b|² less |v|², which all codes share: one matrix product instead of all differences.
        distances = jnp.square(book).sum(axis=1)[None, :] - 2 * jax.lax.stop_gradient(vectors) @ book.T
        indices = distances.argmin(axis=1)
        return Quantized(indices, book[indices])

    def moved(
        self, vectors: Float[Array, "vectors size"], indices: Int[Array, " vectors"], key: Key
    ) -> "Quantizer":
        """The codebook after a batch."""
        vectors = jax.lax.stop_gradient(vectors).astype(self.sums.dtype)
        count, decay = len(self.counts), self.decay
        met = jnp.zeros_like(self.counts).at[indices].add(1.0)
        total = jnp.zeros_like(self.sums).at[indices].add(vectors)
        counts, sums = (
            decay * old + (1 - decay) * new for old, new in ((self.counts, met), (self.sums, total))
        )
        smooth = (counts + _SMOOTHING) * counts.sum() / (counts.sum() + count * _SMOOTHING)
        # Without vectors mapped to it a code would fade to zero: it stays where it was until it is revived.
        book = jnp.where((counts > _SMOOTHING)[:, None], sums / smooth[:, None], self.codebook)
        even = len(vectors) / count
        idle = (counts < self.revive * even) | ~self.counts.any()
        # So little weight that the code follows its first vectors quickly, and is soon given up if there are none.
        weight = even * max(2 * self.revive, _LIGHT)
        drawn = vectors[jax.random.permutation(key, len(vectors))[jnp.arange(count) % len(vectors)]]
        return eqx.tree_at(
            lambda q: (q.codebook, q.counts, q.sums),
            self,
            (
                jnp.where(idle[:, None], drawn, book),
                jnp.where(idle, weight, counts),
                jnp.where(idle[:, None], weight * drawn, sums),
            ),
        )


def straight_through(vectors: Array, codes: Array) -> Array:
    """The codes, with the gradient of the vectors they stand for (Bengio, Léonard and Courville, 2013).

    >>> jax.grad(lambda v: straight_through(v, jnp.round(v)) ** 2)(1.8)  # 2 round(v), as if rounding were nothing
    Array(4., dtype=float32, weak_type=True)
    """
    return vectors + jax.lax.stop_gradient(codes - vectors)


def perplexity(counts: Float[Array, " codes"]) -> Scalar:
    """The exponential of the entropy of how codes are used: as many codes as would be, used evenly.

    >>> perplexity(jnp.array([5.0, 5.0, 0.0, 5.0, 5.0]))
    Array(4., dtype=float32)
    """
    shares = counts / jnp.maximum(counts.sum(), 1)
    return jnp.exp(-jax.scipy.special.xlogy(shares, shares).sum())


__all__ = ["Quantized", "Quantizer", "perplexity", "straight_through"]
