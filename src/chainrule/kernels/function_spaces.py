"""Functions as vectors: `<f, g> = ∫ f g` over an interval, by Gauss-Legendre quadrature.

With an inner product functions have lengths and angles, can be made orthonormal and projected. This space, L2, is not a
reproducing kernel Hilbert space: functions of norm one may be as large as you like at a point, so a value at a point is
no inner product with anything and two functions that differ at a point only are one. Spaces with values at points are
those of `rkhs.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import numpy as np
import scipy.special

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Float

Function = Callable[[Any], Any]
"""From numbers to numbers, one for each; a constant may be one number."""


class BestApproximation(NamedTuple):
    """The member of a span that is closest to a function."""

    coefficients: Float[np.ndarray, " functions"]
    error: float
    """The norm of what is left: the distance of the function from the span."""
    function: Function
    """The member itself."""


@final
class L2(eqx.Module):
    """Square-integrable functions on [a, b] with `<f, g> = ∫ f g weight`.

    128 nodes are exact for polynomials up to degree 255; kinks and jumps need more, or an interval for each piece.

    >>> unit = L2(0.0, 1.0)
    >>> float(round(unit.inner(lambda t: t, lambda t: t**2), 12)), float(round(unit.norm(lambda t: 1.0), 12))
    (0.25, 1.0)
    """

    a: float = eqx.field(static=True)
    b: float = eqx.field(static=True)
    nodes: Float[np.ndarray, " nodes"]
    weights: Float[np.ndarray, " nodes"]

    def __init__(self, a: float, b: float, *, nodes: int = 128, weight: Function | None = None) -> None:
        if not (np.isfinite(a) and np.isfinite(b) and a < b):
            raise ArgumentError(
                f"L2(a={a}, b={b}): needs finite ends with a < b",
                remedy="substitute a variable with finite ends for one without",
            )
        self.a, self.b = float(a), float(b)
        base, weights = scipy.special.roots_legendre(whole("L2", "nodes", nodes))
        self.nodes = (self.b - self.a) / 2 * base + (self.a + self.b) / 2
        self.weights = (self.b - self.a) / 2 * weights
        if weight is not None:
            factor = _values("weight", weight, self.nodes)
            if (factor < 0).any():
                raise ArgumentError(
                    f"L2(weight): negative at {self.nodes[factor < 0][0]:.6g}; squares would not be positive"
                )
            self.weights = self.weights * factor

    def inner(self, f: Function, g: Function) -> float:
        """`∫ f g`."""
        return float(self._values("f", f) @ (self.weights * self._values("g", g)))

    def norm(self, f: Function) -> float:
        """The root of `∫ f²`."""
        return float(np.sqrt(self.weights @ np.square(self._values("f", f))))

    def gram(self, functions: Sequence[Function]) -> Float[np.ndarray, "functions functions"]:
        """Inner products of all pairs."""
        values = self._all(functions)
        product: np.ndarray = (values * self.weights[None, :]) @ values.T
        return product

    def orthonormal(self, functions: Sequence[Function]) -> Float[np.ndarray, "functions functions"]:
        """Coefficients of an orthonormal family, one member a row: of f_i and of those before it.

        >>> legendre = L2(-1.0, 1.0).orthonormal([lambda t: 1.0, lambda t: t, lambda t: t**2])
        >>> legendre.round(4)[:, 0].tolist()  # constant terms; those of odd polynomials are zero
        [0.7071, ...0.0, -0.7906]
        """
        scaled = self._all(functions) * np.sqrt(self.weights)[None, :]
        upper: np.ndarray = np.linalg.qr(scaled.T)[1]
        own, lengths = np.diagonal(upper), np.linalg.norm(scaled, axis=1)
        # Where functions outnumber nodes the last ones have no entry of their own.
        relative = np.zeros(len(scaled))
        relative[: len(own)] = np.abs(own) / np.where(lengths > 0, lengths, 1.0)[: len(own)]
        if (relative < 1e-12).any():
            first = int(np.argmax(relative < 1e-12))
            raise ArgumentError(
                f"orthonormal: function {first} depends on those before it",
                remedy=f"leave out function {first}",
            )
        signs = np.sign(own)
        inverse: np.ndarray = np.linalg.inv(upper.T * signs[None, :])
        return np.tril(inverse)

    def project(self, f: Function, functions: Sequence[Function]) -> BestApproximation:
        """The member of the span of functions that is closest to f, and how far it is.

        >>> best = L2(0.0, 1.0).project(lambda t: t**2, [lambda t: 1.0, lambda t: t])
        >>> best.coefficients.round(6).tolist(), round(best.error, 6)
        ([-0.166667, 1.0], 0.074536)
        """
        rows, wanted = self._all(functions), self._values("f", f)
        root = np.sqrt(self.weights)
        coefficients = np.linalg.lstsq((rows * root[None, :]).T, wanted * root, rcond=None)[0]
        left = wanted - coefficients @ rows
        members = tuple(functions)

        def best(t: Any) -> Any:
            return sum(float(c) * member(t) for c, member in zip(coefficients, members, strict=True))

        return BestApproximation(coefficients, float(np.sqrt(self.weights @ np.square(left))), best)

    def _all(self, functions: Sequence[Function]) -> Float[np.ndarray, "functions nodes"]:
        if not len(functions):
            raise ArgumentError("L2(functions): needs at least one function")
        return np.stack([self._values(f"functions[{i}]", f) for i, f in enumerate(functions)])

    def _values(self, name: str, f: Function) -> Float[np.ndarray, " nodes"]:
        return _values(name, f, self.nodes)


def _values(name: str, f: Function, nodes: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        found = np.asarray(f(nodes), np.float64)
    if found.shape not in ((), nodes.shape):
        raise ArgumentError(
            f"L2({name}): {len(nodes)} numbers gave an array of shape {found.shape}, not one value for each",
            remedy="np.vectorize(f) makes a function of one number take many",
        )
    values = np.broadcast_to(found, nodes.shape)
    if not np.isfinite(values).all():
        at = nodes[~np.isfinite(values)][0]
        raise ArgumentError(f"L2({name}): the value at {at:.6g} is not finite")
    return values


__all__ = ["L2", "BestApproximation"]
