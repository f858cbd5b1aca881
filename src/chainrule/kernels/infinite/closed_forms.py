"""Activations whose mean products have a closed form: rectifiers, GELU, error function, sines, polynomials and more.

References: Cho and Saul, Kernel methods for deep learning, 2009 (rectifiers); Williams, Computing with infinite
networks, 1997 (error function); Tsuchida, Pearce, van der Heide, Roosta and Gallagher, Avoiding kernel fixed points,
2021 (GELU). The rest follows from moments and characteristic functions of Gaussians.
"""

import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.kernels.angles import angular
from chainrule.kernels.infinite.dual import DualActivation, correlation


@final
class Rectifier(DualActivation):
    """`negative x` below zero and `positive x` above: ReLU (0, 1), leaky (0.01, 1), absolute value (-1, 1).

    With p and q the half sum and half difference of the slopes it is `p x + q |x|`, whose two parts do not mix.

    >>> own, slopes = Rectifier().dual(jnp.array(1.0), jnp.array(0.6), jnp.array(1.0))
    >>> round(float(own), 4), round(float(slopes), 4)
    (0.3388, 0.3524)
    """

    negative: float = eqx.field(static=True)
    positive: float = eqx.field(static=True)

    def __init__(self, negative: float = 0.0, positive: float = 1.0) -> None:
        self.negative, self.positive = float(negative), float(positive)

    def value(self, x: Array) -> Array:
        return self.positive * jnp.maximum(x, 0) + self.negative * jnp.minimum(x, 0)

    def dual(self, a: Array, k: Array, b: Array) -> tuple[Array, Array]:
        p, q = (self.positive + self.negative) / 2, (self.positive - self.negative) / 2
        if q == 0:
            return p * p * k, jnp.full_like(k, p * p)
        cosine, scale = correlation(a, k, b)
        own = (p * p - q * q) * k + 2 * q * q * scale * angular(cosine, 1)
        return own, p * p - q * q + 2 * q * q * angular(cosine, 0)


@final
class StepActivation(DualActivation):
    """0 below zero and 1 above, or -1 and 1 (`signed`): its derivative is zero where it is defined.

    Gradient descent does not move what lies below a step, so its tangent kernel is that of the weights above it.
    """

    signed: bool = eqx.field(static=True, default=False)

    def value(self, x: Array) -> Array:
        return jnp.sign(x) if self.signed else (x > 0).astype(x.dtype)

    def dual(self, a: Array, k: Array, b: Array) -> tuple[Array, Array]:
        part = angular(correlation(a, k, b)[0], 0)
        own = 2 * part - 1 if self.signed else part / 2
        return own, jnp.zeros_like(own)


@final
class ErrorFunction(DualActivation):
    """`height erf(slope x) + offset`.

    >>> own, _ = ErrorFunction().dual(jnp.array(1.0), jnp.array(0.6), jnp.array(1.0))
    >>> round(float(own), 5)
    0.26198
    """

    height: float = eqx.field(static=True, default=1.0)
    slope: float = eqx.field(static=True, default=1.0)
    offset: float = eqx.field(static=True, default=0.0)

    def value(self, x: Array) -> Array:
        return self.height * jax.scipy.special.erf(self.slope * x) + self.offset

    def dual(self, a: Array, k: Array, b: Array) -> tuple[Array, Array]:
        square = self.slope**2
        a, k, b = 2 * square * a, 2 * square * k, 2 * square * b
        # (1 + a)(1 + b) - k², written so that it cannot fall below one.
        rest = jnp.sqrt(1 + a + b + jnp.maximum(a * b - k * k, 0))
        angle = 2 / math.pi * jnp.arctan2(k, rest)
        return self.height**2 * angle + self.offset**2, self.height**2 * 4 / math.pi * square / rest


@final
class Gelu(DualActivation):
    """`x P(z < x)` for a standard Gaussian z: the Gaussian error linear unit, exactly and not by tanh.

    With F the mean product of two distribution functions, Stein's identity gives
    `k F + (a b + k²) F_k + 2 k (a F_a + b F_b)`.
    """

    def value(self, x: Array) -> Array:
        return x * jax.scipy.stats.norm.cdf(x)

    def dual(self, a: Array, k: Array, b: Array) -> tuple[Array, Array]:
        determinant = 1 + a + b + jnp.maximum(a * b - k * k, 0)
        root = jnp.sqrt(determinant)
        angle = 0.25 + jnp.arctan2(k, root) / (2 * math.pi)
        mixed = 1 - a / (1 + a) - b / (1 + b)
        numerator = a * b + k * k * mixed
        own = k * angle + numerator / (2 * math.pi * root)
        bent = k / root * (1 + 2 * mixed + numerator / determinant)
        return own, angle + bent / (2 * math.pi)


@final
class Sine(DualActivation):
    """`height sin(frequency x + phase)`; a phase of pi/2 is the cosine.

    With height sqrt(2) and a phase of pi/4 the mean product is `exp(-frequency² (a + b - 2 k) / 2)`: a network whose
    first kernel is an RBF.
    """

    height: float = eqx.field(static=True, default=1.0)
    frequency: float = eqx.field(static=True, default=1.0)
    phase: float = eqx.field(static=True, default=0.0)

    def value(self, x: Array) -> Array:
        return self.height * jnp.sin(self.frequency * x + self.phase)

    def dual(self, a: Array, k: Array, b: Array) -> tuple[Array, Array]:
        square = self.frequency**2
        apart = jnp.exp(-square * (a + b - 2 * k) / 2)
        together = math.cos(2 * self.phase) * jnp.exp(-square * (a + b + 2 * k) / 2)
        half = self.height**2 / 2
        return half * (apart - together), half * square * (apart + together)


@final
class PolynomialActivation(DualActivation):
    """`c_0 + c_1 x + c_2 x² + ...`; `PolynomialActivation.monomial(3)` is the cube.

    Mean products are sums over how many factors of u are paired with factors of v (Isserlis).

    >>> own, _ = PolynomialActivation.monomial(2).dual(jnp.array(1.0), jnp.array(0.5), jnp.array(1.0))
    >>> float(own)  # a b + 2 k²
    1.5
    """

    coefficients: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, *coefficients: float) -> None:
        if not coefficients:
            raise ArgumentError("PolynomialActivation(): give the coefficients, lowest degree first")
        self.coefficients = tuple(float(c) for c in coefficients)

    @staticmethod
    def monomial(degree: int) -> "PolynomialActivation":
        """`x^degree`."""
        return PolynomialActivation(*(0.0,) * whole("monomial", "degree", degree, least=0), 1.0)

    def value(self, x: Array) -> Array:
        found = jnp.zeros_like(x)
        for coefficient in reversed(self.coefficients):
            found = found * x + coefficient
        return found

    def dual(self, a: Array, k: Array, b: Array) -> tuple[Array, Array]:
        slopes = tuple(n * c for n, c in enumerate(self.coefficients))[1:]
        return _mean_product(self.coefficients, a, k, b), _mean_product(slopes, a, k, b)


def _mean_product(coefficients: tuple[float, ...], a: Array, k: Array, b: Array) -> Array:
    found: Any = jnp.zeros(jnp.broadcast_shapes(a.shape, k.shape, b.shape), jnp.result_type(a, k, b))
    for paired in range(len(coefficients)):
        left, right = _unpaired(coefficients, paired, a), _unpaired(coefficients, paired, b)
        found = found + k**paired * left * right / math.factorial(paired)
    return found


def _unpaired(coefficients: tuple[float, ...], paired: int, variance: Array) -> Array:
    """`E[s^(paired)(u)]`: the rest of every power is paired with itself."""
    found = jnp.zeros_like(variance)
    for degree in range(paired, len(coefficients), 2):
        half = (degree - paired) // 2
        ways = math.factorial(degree) / (math.factorial(half) * 2**half)
        found = found + coefficients[degree] * ways * variance**half
    return found


@final
class ExponentialActivation(DualActivation):
    """`height exp(rate x)`."""

    height: float = eqx.field(static=True, default=1.0)
    rate: float = eqx.field(static=True, default=1.0)

    def value(self, x: Array) -> Array:
        return self.height * jnp.exp(self.rate * x)

    def dual(self, a: Array, k: Array, b: Array) -> tuple[Array, Array]:
        own = self.height**2 * jnp.exp(self.rate**2 * (a + b + 2 * k) / 2)
        return own, self.rate**2 * own


@final
class Bell(DualActivation):
    """`height exp(-rate x²)`."""

    height: float = eqx.field(static=True, default=1.0)
    rate: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if not self.rate > 0:
            raise ArgumentError(f"Bell(rate={self.rate}): rate must be positive")

    def value(self, x: Array) -> Array:
        return self.height * jnp.exp(-self.rate * jnp.square(x))

    def dual(self, a: Array, k: Array, b: Array) -> tuple[Array, Array]:
        a, k, b = 2 * self.rate * a, 2 * self.rate * k, 2 * self.rate * b
        determinant = 1 + a + b + jnp.maximum(a * b - k * k, 0)
        own = self.height**2 / jnp.sqrt(determinant)
        return own, 2 * self.rate * k * own / determinant


__all__ = [
    "Bell",
    "ErrorFunction",
    "ExponentialActivation",
    "Gelu",
    "PolynomialActivation",
    "Rectifier",
    "Sine",
    "StepActivation",
]
