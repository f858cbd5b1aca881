"""The features of polynomial kernels written out: every monomial of a degree, weighted by its multinomial coefficient.

`(x · y)^d` is the inner product of the C(n+d-1, d) monomials `sqrt(d! / (a_1! ... a_n!)) x_1^a_1 ... x_n^a_n` with
`a_1 + ... + a_n = d`. `(x · y + c)^d` is the same of points with one more coordinate, `sqrt(c)`: C(n+d, d) monomials.
The kernel costs n operations a pair whatever the degree; the features are for looking at, and for linear models.
"""

import itertools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int
from chainrule.kernels.functions import Polynomial
from chainrule.kernels.kernel import points

MOST = 10**6
"""Columns that are written out at most."""


def polynomial_feature_count(size: int, degree: int, *, offset: bool = False) -> int:
    """How many features the polynomial kernel of a degree has on points of `size` coordinates.

    >>> [polynomial_feature_count(n, d) for n, d in ((2, 2), (3, 3), (20, 4))]
    [3, 10, 8855]
    >>> [polynomial_feature_count(n, d, offset=True) for n, d in ((2, 2), (3, 3), (20, 4))]
    [6, 20, 10626]
    """
    n = whole("polynomial_feature_count", "size", size) + bool(offset)
    d = whole("polynomial_feature_count", "degree", degree)
    return math.comb(n + d - 1, d)


def explicit_features(kernel: Polynomial, x: Any) -> Float[Array, "rows features"]:
    """The features of every point: powers of one coordinate first, then products of two, and so on.

    >>> explicit_features(Polynomial(2), [[3.0, 5.0]]).tolist()
    [[9.0, 25.0, 21.213...]]
    >>> explicit_features(Polynomial(6), np.ones((1, 100)))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: explicit_features: 1,609,344,100 columns, more than 1,000,000
           use the kernel, which needs none of them: Polynomial(6).gram(x)
    """
    if not isinstance(kernel, Polynomial):
        raise ArgumentError(
            f"explicit_features(kernel): features are those of a Polynomial, not of a {type(kernel).__name__}",
            remedy="use Polynomial(degree), or feature_map for features that come close to those of other kernels",
        )
    rows = points("explicit_features", "x", x)
    offset = float(kernel.offset)
    count = polynomial_feature_count(rows.shape[1], kernel.degree, offset=offset > 0)
    if count > MOST:
        shown = f"Polynomial({kernel.degree}{f', {offset:g}' if offset else ''})"
        raise ArgumentError(
            f"explicit_features: {count:,} columns, more than {MOST:,}",
            remedy=f"use the kernel, which needs none of them: {shown}.gram(x)",
        )
    if offset > 0:
        last = jnp.broadcast_to(jnp.sqrt(kernel.offset).astype(rows.dtype), (len(rows), 1))
        rows = jnp.concatenate([rows, last], axis=1)
    chosen = monomials(rows.shape[1], kernel.degree)
    product = jnp.asarray(_roots(chosen), rows.dtype)[None, :]
    for factor in chosen.T:
        product = product * rows[:, factor]
    return product


def monomials(size: int, degree: int) -> Int[np.ndarray, "monomials degree"]:
    """The coordinates that each monomial multiplies, with repetition: fewest different ones first.

    >>> monomials(2, 2).tolist()
    [[0, 0], [1, 1], [0, 1]]
    """
    count = math.comb(size + degree - 1, degree)
    drawn = itertools.chain.from_iterable(itertools.combinations_with_replacement(range(size), degree))
    chosen = np.fromiter(drawn, np.int32, count * degree).reshape(count, degree)
    different = 1 + (np.diff(chosen, axis=1) != 0).sum(axis=1)
    return chosen[np.argsort(different, kind="stable")]


def _roots(chosen: np.ndarray) -> np.ndarray:
    """Roots of multinomial coefficients: d! over the factorials of how often each coordinate is repeated."""
    degree = chosen.shape[1]
    repeated = np.ones(len(chosen))
    run = np.ones(len(chosen))
    for step in range(1, degree):
        run = np.where(chosen[:, step] == chosen[:, step - 1], run + 1, 1)
        repeated *= run  # 1, 2, 3, ... along a run of equal coordinates multiply to its factorial
    return np.sqrt(math.factorial(degree) / repeated)


__all__ = ["MOST", "explicit_features", "monomials", "polynomial_feature_count"]
