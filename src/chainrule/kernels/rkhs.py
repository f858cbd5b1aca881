"""Functions of a reproducing kernel Hilbert space: `f = sum_i a_i k(x_i, ·)`.

In this space a value at a point is an inner product, `f(x) = <f, k(x, ·)>`, so `|f(x)| <= |f| sqrt(k(x, x))`, and among
all functions through given values one has the least norm: that with `a = K^-1 y`.

Reference: Aronszajn, Theory of reproducing kernels, 1950.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.kernels.kernel import Kernel, a_kernel, points
from chainrule.kernels.positive import factored
from chainrule.kernels.precision import in_double

Rows = Float[Array | np.ndarray, "rows features"]


@final
class KernelFunction(eqx.Module):
    """`f = sum_i a_i k(x_i, ·)`: called, added, scaled, differentiated, compared.

    >>> from chainrule.kernels import RBF
    >>> f = KernelFunction(RBF(1.0), [[0.0], [1.0]], [1.0, -1.0])
    >>> section = KernelFunction.section(RBF(1.0), [0.3])
    >>> bool(np.isclose(f.inner(section), f([[0.3]])[0]))
    True
    """

    kernel: Kernel
    centres: Rows
    coefficients: Float[Array | np.ndarray, " rows"]

    def __init__(self, kernel: Kernel, centres: Any, coefficients: Any) -> None:
        self.kernel = a_kernel("KernelFunction", kernel)
        self.centres = in_double(points)("KernelFunction", "centres", centres)
        weights = (
            coefficients if isinstance(coefficients, jax.Array) else np.asarray(coefficients, np.float64)
        )
        if weights.shape != (len(self.centres),):
            raise ArgumentError(
                f"KernelFunction: {weights.shape} coefficients for {len(self.centres)} centres; each needs one"
            )
        self.coefficients = weights

    @classmethod
    def section(cls, kernel: Kernel, x: Any) -> "KernelFunction":
        """`k(x, ·)`, the function whose inner product with f is `f(x)`."""
        return cls(kernel, in_double(points)("section", "x", x, single=True), np.ones(1))

    def __call__(self, x: Any) -> Float[Array | np.ndarray, " points"]:
        """Values at points."""
        return _values(self, x)

    def derivative(self, x: Any) -> Float[Array | np.ndarray, "points features"]:
        """The gradient at points, by differentiating the kernel."""
        return _slopes(self, x)

    def inner(self, other: "KernelFunction") -> Float[Array | np.ndarray, ""]:
        """`a' K b`; both functions have to belong to the same kernel."""
        _check_kernels(self, other)
        return _inner(self, other)

    @property
    def norm(self) -> Float[Array | np.ndarray, ""]:
        """`sqrt(a' K a)`: how rough and how large the function is."""
        return _norm(self)

    def project(self, x: Any) -> "KernelFunction":
        """The function closest to this one in the span of `k(x_j, ·)`: it has the same values at these points."""
        return interpolate(self.kernel, x, self(x))

    def __add__(self, other: "KernelFunction") -> "KernelFunction":
        _check_kernels(self, other)
        centres = np.concatenate([np.asarray(self.centres), np.asarray(other.centres)])
        return KernelFunction(
            self.kernel,
            centres,
            np.concatenate([np.asarray(self.coefficients), np.asarray(other.coefficients)]),
        )

    def __mul__(self, factor: float) -> "KernelFunction":
        return KernelFunction(self.kernel, self.centres, factor * np.asarray(self.coefficients))

    __rmul__ = __mul__

    def __sub__(self, other: "KernelFunction") -> "KernelFunction":
        return self + (-1.0) * other


def interpolate(kernel: Kernel, x: Any, y: Any) -> KernelFunction:
    """The function of least norm with `f(x_i) = y_i`.

    Values that no function of the space can take, such as two at one point, are refused.

    >>> from chainrule.kernels import RBF
    >>> f = interpolate(RBF(1.0), [0.0, 1.0, 2.0], [0.0, 1.0, 0.0])
    >>> f([0.0, 1.0, 2.0]).round(9).tolist()
    [0.0, 1.0, 0.0]
    >>> interpolate(RBF(1.0), [0.0, 0.0], [0.0, 1.0])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: interpolate: no function of the kernel takes these values: at point ...
           points that are the same, or more points than features, leave no choice: smooth with a ridge
    """
    a_kernel("interpolate", kernel)
    rows = in_double(points)("interpolate", "x", x)
    values = np.asarray(y, np.float64)
    if values.shape != (len(rows),):
        raise ArgumentError(f"interpolate: {values.shape} values for {len(rows)} points; each needs one")
    if not np.isfinite(values).all():
        first = int(np.argmax(~np.isfinite(values)))
        raise ArgumentError(f"interpolate(y): y[{first}] is {values[first]:g}; values must be finite")
    coefficients, missed = _interpolated(kernel, rows, values)
    apart = np.abs(np.asarray(missed))
    if len(apart) and apart.max() > 1e-3 * max(np.abs(values).max(), 1e-300):
        worst = int(apart.argmax())
        raise ArgumentError(
            f"interpolate: no function of the kernel takes these values: at point {worst} the closest is "
            f"{apart[worst]:.3g} off",
            remedy="points that are the same, or more points than features, leave no choice: smooth with a ridge",
        )
    return KernelFunction(kernel, rows, coefficients)


@in_double
def _interpolated(kernel: Kernel, rows: Array, values: Array) -> tuple[Array, Array]:
    matrix = kernel.gram(jnp.asarray(rows))
    coefficients = factored(matrix).solve(values)
    return coefficients, matrix @ coefficients - values


@in_double
def _values(f: KernelFunction, x: Any) -> Array:
    rows = points("KernelFunction", "x", x)
    return f.kernel.gram(rows, jnp.asarray(f.centres)) @ jnp.asarray(f.coefficients)


@in_double
def _slopes(f: KernelFunction, x: Any) -> Array:
    rows = points("KernelFunction", "x", x)
    centres, weights = jnp.asarray(f.centres), jnp.asarray(f.coefficients)
    return _gradients(f.kernel, centres, weights, rows)


@eqx.filter_jit
def _gradients(kernel: Kernel, centres: Array, weights: Array, rows: Array) -> Array:
    # A value depends on its own point alone, so the gradient of the sum holds that of each.
    return jax.grad(lambda rows: (kernel.tile(rows, centres) @ weights).sum())(rows)


@in_double
def _inner(f: KernelFunction, g: KernelFunction) -> Array:
    matrix = f.kernel.gram(jnp.asarray(f.centres), jnp.asarray(g.centres))
    return jnp.asarray(f.coefficients) @ matrix @ jnp.asarray(g.coefficients)


@in_double
def _norm(f: KernelFunction) -> Array:
    return jnp.sqrt(jnp.maximum(_inner(f, f), 0.0))


def _check_kernels(f: KernelFunction, g: KernelFunction) -> None:
    if not eqx.tree_equal(f.kernel, g.kernel):
        raise ArgumentError(
            f"KernelFunction: functions of {type(f.kernel).__name__} and {type(g.kernel).__name__} kernels with other "
            "parameters are in different spaces"
        )


__all__ = ["KernelFunction", "interpolate"]
