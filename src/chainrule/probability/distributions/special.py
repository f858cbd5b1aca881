"""Logarithms of the beta function and of factorials without cancellation.

Sums of `gammaln` lose all digits in single precision where arguments are large, and in double precision
`jax.scipy.special.betaln` is good to eight digits only. From 10 on Stirling's series gives all digits of either.

Reference: DiDonato and Morris, Algorithm 708, ACM Transactions on Mathematical Software 18, 1992.
"""

import math

import jax.numpy as jnp
from jax.scipy.special import gammaln

from chainrule.core.types import Array

_LARGE = 10.0
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""Coefficients of 1/x, 1/x³, ... in the logarithm of the gamma function less its leading terms."""


def log_beta(a: Array, b: Array) -> Array:
    """`log(Gamma(a) Gamma(b) / Gamma(a + b))`.

    >>> round(float(log_beta(jnp.array(2.0), jnp.array(3.0))), 5)  # 1 / 12
    -2.48491
    """
    small, large = jnp.minimum(a, b), jnp.maximum(a, b)
    big_small, big = _at_least(small), _at_least(large)
    both_small = (
        gammaln(small) + gammaln(jnp.minimum(large, _LARGE)) - gammaln(small + jnp.minimum(large, _LARGE))
    )
    ratio, total = small / big, small + big
    one_large = (
        gammaln(small)
        + small
        - (big - 0.5) * jnp.log1p(ratio)
        - small * jnp.log(total)
        + stirling_rest(big)
        - stirling_rest(total)
    )
    whole = big_small + big
    both_large = (
        (big_small - 0.5) * jnp.log(big_small / whole)
        - big * jnp.log1p(big_small / big)
        + 0.5 * (math.log(2 * math.pi) - jnp.log(big))
        + stirling_rest(big_small)
        + stirling_rest(big)
        - stirling_rest(whole)
    )
    return jnp.where(large < _LARGE, both_small, jnp.where(small < _LARGE, one_large, both_large))


def log_poisson(x: Array, rate: Array) -> Array:
    """`x log rate - rate - log x!`, of counts.

    >>> round(float(log_poisson(jnp.array(2.0), jnp.array(1.0))), 5)  # 1 / 2e
    -1.69315
    """
    few = jnp.minimum(x, _LARGE)
    direct = few * jnp.log(rate) - rate - gammaln(few + 1)
    # Loader's form: large terms that cancel are never made.
    many = _at_least(x)
    more = many - rate
    apart = many * jnp.log1p(more / rate) - more
    return jnp.where(x < _LARGE, direct, -apart - 0.5 * jnp.log(2 * math.pi * many) - stirling_rest(many))


def stirling_rest(x: Array) -> Array:
    """`log Gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2)` for x of 10 or more."""
    inverse = 1 / x
    square = jnp.square(inverse)
    total = jnp.full_like(x, _SERIES[-1])
    for coefficient in _SERIES[-2::-1]:
        total = total * square + coefficient
    return total * inverse


def _at_least(x: Array) -> Array:
    """The larger of x and 10; unlike that of `maximum`, the derivative at 10 is the one from above."""
    return jnp.where(x < _LARGE, _LARGE, x)


__all__ = ["log_beta", "log_poisson", "stirling_rest"]
