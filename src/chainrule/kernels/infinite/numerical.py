"""Mean products of any function of one unit: by its Hermite expansion where it is smooth, by draws where it is not.

Quadrature conditions on the correlation c through Mehler's expansion, `E[s(u) s(v)] = sum_n h_n(a) h_n(b) c^n` with
`h_n(a) = E[s(sqrt(a) z) He_n(z)] / sqrt(n!)`. The coefficients are sums over nodes and belong to single points, so a
pair costs as many products as there are terms, where a rule in the plane costs the square of its nodes. What the
coefficients leave of `E[s(u)²]` is added to the last power, so that variances are exact. The matrix of all pairs is
positive semi-definite whatever the error, and a polynomial in c with finite derivatives at c = 1.

Kinks have slowly falling coefficients: they have closed forms (`Rectifier`), and a function that looks kinked is warned
of.
"""

import math
import warnings
from collections.abc import Callable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ChainruleWarning
from chainrule.core.types import Array, Key
from chainrule.kernels.infinite.dual import DualActivation, correlation

_NODES, _REACH = 256, 12.0
"""Nodes of the trapezoidal rule for a standard Gaussian, and how far they reach."""
_ROUGH = 1e-3
"""Share of the mean square of the derivative outside of the expansion from which a function is called rough."""


@final
class Quadrature(DualActivation):
    """Any smooth function of one unit, such as tanh; derivatives by automatic differentiation.

    Sixty-four terms give tanh to nine digits at variance 2 and to four at variance 25; ask for more beyond.

    >>> own, _ = Quadrature(jnp.tanh).dual(jnp.array(1.0), jnp.array(0.6), jnp.array(1.0))
    >>> round(float(own), 5)
    0.22522
    """

    function: Callable[[Array], Array] = eqx.field(static=True)
    terms: int = eqx.field(static=True)

    def __init__(self, function: Callable[[Array], Array], terms: int = 64) -> None:
        self.function, self.terms = function, whole("Quadrature", "terms", terms, least=2)
        _warn_of_kinks(function, self.terms)

    def value(self, x: Array) -> Array:
        return self.function(x)

    def dual(self, a: Array, k: Array, b: Array) -> tuple[Array, Array]:
        cosine, _ = correlation(a, k, b)
        slope = _derivative(self.function)
        own = _series(
            expansion(self.function, a, self.terms), expansion(self.function, b, self.terms), cosine
        )
        slopes = _series(expansion(slope, a, self.terms), expansion(slope, b, self.terms), cosine)
        return own, slopes


def expansion(function: Callable[[Array], Array], variance: Array, terms: int) -> Array:
    """Coefficients for each variance, along a first axis; the last one holds all that the others leave."""
    points, weights, basis = hermite(terms)
    scale = _root(variance)
    values = function(jnp.asarray(points, scale.dtype).reshape((1,) * scale.ndim + (-1,)) * scale[..., None])
    found = jnp.matmul(values, jnp.asarray(basis, scale.dtype), precision="highest")
    square = jnp.matmul(jnp.square(values), jnp.asarray(weights, scale.dtype), precision="highest")
    rest = _root(square - jnp.square(found).sum(axis=-1))
    return jnp.moveaxis(jnp.concatenate([found, rest[..., None]], axis=-1), -1, 0)


def _series(left: Array, right: Array, cosine: Array) -> Array:
    def term(total: Array, pair: tuple[Array, Array]) -> tuple[Array, None]:
        return total * cosine + pair[0] * pair[1], None

    start = jnp.zeros(jnp.broadcast_shapes(left.shape[1:], right.shape[1:], cosine.shape), cosine.dtype)
    return jax.lax.scan(term, start, (left, right), reverse=True)[0]


@final
class MonteCarlo(DualActivation):
    """Any function of one unit, kinked or not, by means over `draws` fixed pairs of Gaussian numbers.

    Errors fall with the root of the number of draws. Both points of a pair play the same part, so that the kernel is
    symmetric; rounding of the means may leave it slightly indefinite. A jump has a derivative that draws cannot see.
    """

    function: Callable[[Array], Array] = eqx.field(static=True)
    key: Key
    draws: int = eqx.field(static=True)

    def __init__(self, function: Callable[[Array], Array], key: Key, draws: int = 4096) -> None:
        self.function, self.key = function, key
        self.draws = whole("MonteCarlo", "draws", draws, least=2)

    def value(self, x: Array) -> Array:
        return self.function(x)

    def dual(self, a: Array, k: Array, b: Array) -> tuple[Array, Array]:
        cosine, _ = correlation(a, k, b)
        shared, apart = _root((1 + cosine) / 2), _root((1 - cosine) / 2)
        left, right = _root(a), _root(b)
        slope = _derivative(self.function)
        z = jax.random.normal(self.key, (-(-self.draws // 2), 2), cosine.dtype)

        def add(total: tuple[Array, Array], drawn: Array) -> tuple[tuple[Array, Array], None]:
            first, second = total
            for sign in (1, -1):
                common, own = drawn[0] * shared, sign * drawn[1] * apart
                u, v = left * (common + own), right * (common - own)
                first = first + self.function(u) * self.function(v)
                second = second + slope(u) * slope(v)
            return (first, second), None

        zero = jnp.zeros(jnp.broadcast_shapes(a.shape, k.shape, b.shape), cosine.dtype)
        (own, slopes), _ = jax.lax.scan(add, (zero, zero), z)
        return own / (2 * len(z)), slopes / (2 * len(z))


def _root(value: Array) -> Array:
    """The square root of what is not negative, with derivative zero at zero."""
    known = value > 0
    return jnp.where(known, jnp.sqrt(jnp.where(known, value, 1.0)), 0.0)


def _derivative(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: jax.jvp(function, (x,), (jnp.ones_like(x),))[1]


def hermite(terms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes z_i and weights w_i for a standard Gaussian, and `w_i He_n(z_i) / sqrt(n!)` for every n below `terms`.

    >>> points, weights, basis = hermite(3)
    >>> np.abs(np.round(basis.T @ (1 + points), 6)).tolist()  # the coefficients of He_0, He_1 and He_2
    [1.0, 1.0, 0.0]
    """
    points, apart = np.linspace(-_REACH, _REACH, _NODES, retstep=True)
    weights = apart * np.exp(-np.square(points) / 2) / math.sqrt(2 * math.pi)
    rows: list[np.ndarray] = [np.ones(_NODES), points]
    for n in range(1, terms - 1):
        rows.append((points * rows[n] - math.sqrt(n) * rows[n - 1]) / math.sqrt(n + 1))
    return points, weights, (np.stack(rows[:terms]) * weights).T


def _warn_of_kinks(function: Callable[[Array], Array], terms: int) -> None:
    """By the share of the mean square of the derivative that the expansion leaves out."""
    with jax.ensure_compile_time_eval():
        coefficients = np.square(
            np.asarray(expansion(_derivative(function), jnp.ones(()), terms), np.float64)
        )
    outside = coefficients[-1] / max(coefficients.sum(), 1e-300)
    if not outside < _ROUGH:
        name = getattr(function, "__name__", "the function")
        warnings.warn(
            f"Quadrature({name}): {terms} terms leave out {outside:.1g} of the mean square of its derivative; it has a "
            "kink or changes fast. Use a closed form (Rectifier for kinks at zero), more terms, or MonteCarlo",
            ChainruleWarning,
            stacklevel=3,
        )


__all__ = ["MonteCarlo", "Quadrature", "expansion", "hermite"]
