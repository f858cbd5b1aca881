"""Random features of stationary kernels: vectors whose inner products are the kernel on average.

A stationary kernel is the mean of `cos(w · (x - y))` over its spectrum, the distribution of frequencies w (Bochner's
theorem), so cosine and sine of a few hundred drawn frequencies stand for it (Rahimi and Recht, 2007). The spectra here
are all normal vectors times the root of a random factor g: one for RBF, a Gamma variable for the rational quadratic
kernel, its inverse for Matérn, whose spectrum is Student's t distribution with 2 nu degrees of freedom.

Positive features belong to RBF alone. They follow from `exp(-g|x - y|²) = exp(-g|x|²) exp(-g|y|²) exp(2g x·y)`, with
the factor two, and the features of the exponential kernel that linear attention uses; they stay accurate in relation to
the kernel where it is tiny (Choromanski et al., 2021).
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.kernels.features import KernelFeatures, Rows
from chainrule.kernels.functions import RBF, Matern, OrnsteinUhlenbeck, Product, RationalQuadratic
from chainrule.kernels.functions.stationary import Stationary
from chainrule.kernels.kernel import Kernel
from chainrule.nn.attention.features import directions, log_features

FREQUENCIES = 1024
"""Frequencies that are drawn unless told otherwise."""


@final
class RandomFourierFeatures(KernelFeatures):
    """Cosines and sines of random frequencies, divided by the root of their number.

    The frequencies `w` are an array like any other, so they may be learnt. With `phases` each frequency has one feature
    `sqrt(2) cos(w · x + b)` for a random b in place of two: half as many features, and a larger variance at the same
    number of frequencies. `orthogonal` frequencies scatter less.

    >>> from chainrule.kernels import RBF
    >>> features = RandomFourierFeatures(RBF(gamma=0.5), 2, frequencies=2000, key=jax.random.key(0))
    >>> x = jnp.array([[0.3, -0.7], [-0.2, 0.4]])
    >>> features(x).shape, float((features(x) @ features(x).T)[0, 1])  # exactly 0.4819
    ((2, 4000), 0.48...)
    """

    w: Float[Array, "frequencies size"]
    phase: Float[Array, " frequencies"] | None

    def __init__(
        self,
        kernel: Kernel,
        size: int,
        *,
        frequencies: int = FREQUENCIES,
        phases: bool = False,
        orthogonal: bool = True,
        key: Key,
    ) -> None:
        count = whole("RandomFourierFeatures", "frequencies", frequencies)
        size = whole("RandomFourierFeatures", "size", size)
        first, second = jax.random.split(key)
        self.w = spectrum(_in_default_precision(kernel), first, count, size, orthogonal)
        self.phase = jax.random.uniform(second, (count,), maxval=2 * math.pi) if phases else None

    @property
    def count(self) -> int:
        return len(self.w) * (2 if self.phase is None else 1)

    def __call__(self, x: Rows) -> Float[Array, "batch features"]:
        _check_size(x, self.w)
        along = x @ self.w.T
        if self.phase is None:
            return jnp.concatenate([jnp.cos(along), jnp.sin(along)], axis=1) / math.sqrt(len(self.w))
        return math.sqrt(2 / len(self.w)) * jnp.cos(along + self.phase[None, :])


@final
class PositiveFeatures(KernelFeatures):
    """Positive features of an RBF kernel, by the exponential kernel of points in units of the scale.

    With `pairs` every w comes with -w, which halves the draws of a given number of features and lowers the variance by
    more than that.

    >>> features = PositiveFeatures(RBF(gamma=0.5), 2, draws=2000, key=jax.random.key(0))
    >>> x = jnp.array([[0.3, -0.7], [-0.2, 0.4]])
    >>> bool((features(x) > 0).all()), float((features(x) @ features(x).T)[0, 1])  # exactly 0.4819
    (True, 0.48...)
    """

    w: Float[Array, "draws size"]
    log_scale: Float[Array, " #size"]
    pairs: bool = eqx.field(static=True)

    def __init__(
        self,
        kernel: Kernel,
        size: int,
        *,
        draws: int = FREQUENCIES,
        pairs: bool = True,
        orthogonal: bool = True,
        key: Key,
    ) -> None:
        if not isinstance(kernel, RBF):
            raise ArgumentError(
                f"PositiveFeatures: {type(kernel).__name__} has no positive features, RBF has",
                remedy="use RandomFourierFeatures or Nystrom",
            )
        size = whole("PositiveFeatures", "size", size)
        self.w = directions(key, whole("PositiveFeatures", "draws", draws), size, orthogonal=orthogonal)
        self.log_scale = _scales(kernel, size)[0]
        self.pairs = pairs

    @property
    def count(self) -> int:
        return len(self.w) * (2 if self.pairs else 1)

    def __call__(self, x: Rows) -> Float[Array, "batch features"]:
        _check_size(x, self.w)
        scaled = jnp.asarray(x) * jnp.exp(-self.log_scale)[None, :]
        logs = log_features(scaled, self.w, self.pairs)
        return jnp.exp(logs - jnp.square(scaled).sum(axis=1, keepdims=True) / 2) / math.sqrt(self.count)


def _in_default_precision(kernel: Kernel) -> Kernel:
    """The kernel in the precision that frequencies are drawn in; a machine may hold one of double precision."""
    dtype = jnp.result_type(float)
    found: Kernel = jax.tree.map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, kernel)
    return found


@functools.singledispatch
def spectrum(kernel: Kernel, key: Key, count: int, size: int, orthogonal: bool) -> Float[Array, "count size"]:
    """Frequencies drawn from the spectrum of a stationary kernel; the kernel is the mean of `cos(w · (x - y))`.

    The spectrum of a product is that of the sum of independent frequencies.
    """
    del key, count, size, orthogonal
    raise ArgumentError(
        f"{type(kernel).__name__} has no spectrum that is known here",
        remedy='random Fourier features are those of RBF, Matern, RationalQuadratic and products of them; "nystrom" '
        "approximates any kernel",
    )


@spectrum.register
def _(kernel: RBF, key: Key, count: int, size: int, orthogonal: bool) -> Float[Array, "count size"]:
    return _scaled(kernel, directions(key, count, size, orthogonal=orthogonal))


@spectrum.register
def _(kernel: Matern, key: Key, count: int, size: int, orthogonal: bool) -> Float[Array, "count size"]:
    return _student(kernel, kernel.nu, key, count, size, orthogonal)


@spectrum.register
def _(
    kernel: OrnsteinUhlenbeck, key: Key, count: int, size: int, orthogonal: bool
) -> Float[Array, "count size"]:
    return _student(kernel, 0.5, key, count, size, orthogonal)


@spectrum.register
def _(
    kernel: RationalQuadratic, key: Key, count: int, size: int, orthogonal: bool
) -> Float[Array, "count size"]:
    first, second = jax.random.split(key)
    factor = jax.random.gamma(second, kernel.alpha, (count,)) / kernel.alpha
    return _scaled(kernel, jnp.sqrt(factor)[:, None] * directions(first, count, size, orthogonal=orthogonal))


@spectrum.register
def _(kernel: Product, key: Key, count: int, size: int, orthogonal: bool) -> Float[Array, "count size"]:
    first, second = jax.random.split(key)
    return spectrum(kernel.first, first, count, size, orthogonal) + spectrum(
        kernel.second, second, count, size, orthogonal
    )


def _student(kernel: Stationary, nu: float, key: Key, count: int, size: int, orthogonal: bool) -> Array:
    """Student's t with 2 nu degrees of freedom: a normal vector over the root of a chi-squared mean."""
    first, second = jax.random.split(key)
    factor = nu / jax.random.gamma(second, nu, (count,))
    return _scaled(kernel, jnp.sqrt(factor)[:, None] * directions(first, count, size, orthogonal=orthogonal))


def _scaled(kernel: Stationary, w: Array) -> Array:
    return w * jnp.exp(-_scales(kernel, w.shape[1]))


def _scales(kernel: Stationary, size: int) -> Array:
    logs = kernel.log_scale
    if logs.ndim and logs.shape[0] not in (1, size):
        raise ArgumentError(
            f"{type(kernel).__name__}: {logs.shape[0]} scales for points of {size} features",
            remedy="give one scale, or one for every feature",
        )
    return jnp.broadcast_to(logs, (1, size))


def _check_size(x: Rows, w: Array) -> None:
    if x.ndim != 2 or x.shape[1] != w.shape[1]:
        raise ArgumentError(
            f"random features of points with {w.shape[1]} coordinates, not of an array of shape {x.shape}"
        )


@final
@dataclass(frozen=True)
class GramError:
    """How far features are from the kernel they stand for."""

    root_mean_square: float
    largest: float
    relative: float
    """In the Frobenius norm."""


def gram_error(features: Callable[[Any], Any], kernel: Kernel, x: Float[Array, "batch size"]) -> GramError:
    """Errors of the entries of the Gram matrix of these points."""
    exact, psi = np.asarray(kernel.gram(x)), np.asarray(features(x))
    error = psi @ psi.T - exact
    return GramError(
        float(np.sqrt(np.square(error).mean())),
        float(np.abs(error).max()),
        float(np.linalg.norm(error) / np.linalg.norm(exact)),
    )


__all__ = [
    "FREQUENCIES",
    "GramError",
    "PositiveFeatures",
    "RandomFourierFeatures",
    "gram_error",
    "spectrum",
]
