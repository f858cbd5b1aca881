"""Duality for distances: W_1 is how much the means of a function of bounded slope can differ.

    W_1(p, q) = sup over Lip(f) <= 1 of E_p f - E_q f;   with slopes up to K the supremum is K W_1

A best function follows from the potentials of an exact plan, and extends to the whole space.

Reference: Kantorovich and Rubinstein, On a space of totally additive functions, 1958; Arjovsky, Chintala and Bottou,
Wasserstein GAN, ICML 2017.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.distributions.parameters import floating, positive
from chainrule.probability.transport.costs import euclidean, two_sets, weights_of
from chainrule.probability.transport.duality import c_transform
from chainrule.probability.transport.exact import exact


class LipschitzWitness(NamedTuple):
    """A function of bounded slope whose means under two distributions are as far apart as they can be: `witness(z)`."""

    value: Scalar
    """E_p f - E_q f = bound W_1."""
    bound: Scalar
    """The largest slope."""
    anchors: Float[Array, "others dim"]
    heights: Float[Array, " others"]

    def __call__(self, z: Any) -> Float[Array, " points"]:
        """`bound * min_j |z - y_j| - g_j`, at any rows."""
        rows, anchors = two_sets("kantorovich_rubinstein", z, self.anchors)
        return self.bound * c_transform(euclidean(rows, anchors), self.heights, axis=1)


def kantorovich_rubinstein(
    x: Any, y: Any, a: Any = None, b: Any = None, bound: Any = 1.0
) -> LipschitzWitness:
    """The function with slopes up to `bound` that tells rows `x` (weights `a`) from rows `y` (weights `b`) best.

    >>> found = kantorovich_rubinstein([[0.0], [1.0]], [[3.0], [4.0]])
    >>> float(found.value), found([[0.0], [3.0]]).round(4).tolist()
    (3.0, [2.0, -1.0])
    """
    first, second = two_sets("kantorovich_rubinstein", x, y)
    some = weights_of("kantorovich_rubinstein", "a", a, len(first), first.dtype)
    others = weights_of("kantorovich_rubinstein", "b", b, len(second), first.dtype)
    slope = positive("kantorovich_rubinstein", "bound", floating(bound)).astype(first.dtype)
    found = exact(some, others, euclidean(first, second))
    return LipschitzWitness(slope * found.cost, slope, second, jnp.asarray(found.potentials[1], first.dtype))


__all__ = ["LipschitzWitness", "kantorovich_rubinstein"]
