"""Features in place of a kernel, by one name: what the setting `approximate` of machines on kernels means.

A machine on N points solves with an N by N matrix. On explicit features whose inner products come close to the kernel
the same machine is a linear one. `feature_map` gives such features, random ones or those of landmarks.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Literal

import jax

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Key
from chainrule.kernels.features import (
    ConstantFeatures,
    JoinedFeatures,
    KernelFeatures,
    LinearFeatures,
    ScaledFeatures,
)
from chainrule.kernels.functions import Constant, Linear, Product, Sum
from chainrule.kernels.functions.dot_products import held
from chainrule.kernels.kernel import Kernel, points
from chainrule.kernels.nystrom import Nystrom
from chainrule.kernels.precision import in_double
from chainrule.kernels.random_features import RandomFourierFeatures

Approximate = Literal["none", "rff", "nystrom"]
"""How a machine treats its kernel: exactly, by random Fourier features, by landmarks."""


def feature_map(kernel: Kernel, x: Any, method: str, count: int, key: Key) -> KernelFeatures:
    """Features of a kernel on points like these: `rff` (random Fourier) or `nystrom` (landmarks among the points).

    `count` is how many. `rff` knows RBF, Matérn and rational quadratic kernels, their products, and sums with linear
    and constant ones, whose few features are exact; it does not look at the points. `nystrom` takes any kernel and
    needs as many points as features.

    >>> from chainrule.kernels import RBF
    >>> x = jax.random.normal(jax.random.key(0), (100, 2))
    >>> for method in ("rff", "nystrom"):
    ...     features = feature_map(RBF(2.0), x, method, 40, jax.random.key(1))
    ...     print(method, features(x).shape)
    rff (100, 40)
    nystrom (100, 40)
    """
    check_choice("feature_map", "method", method, _METHODS)
    rows = in_double(points)("feature_map", "x", x)
    return _METHODS[method](kernel, rows, whole("feature_map", "count", count), key)


def _nystrom(kernel: Kernel, rows: Any, count: int, key: Key) -> KernelFeatures:
    return Nystrom(kernel, rows, count=count, key=key)


def _fourier(kernel: Kernel, rows: Any, count: int, key: Key) -> KernelFeatures:
    return fourier_features(kernel, rows.shape[1], count, key)


_METHODS: Mapping[str, Callable[[Kernel, Any, int, Key], KernelFeatures]] = {
    "rff": _fourier,
    "nystrom": _nystrom,
}


@functools.singledispatch
def fourier_features(kernel: Kernel, size: int, count: int, key: Key) -> KernelFeatures:
    """Random features of a kernel of points with `size` coordinates: exact where that takes few, else Fourier's."""
    return RandomFourierFeatures(kernel, size, frequencies=_frequencies(count), key=key)


@fourier_features.register
def _(kernel: Constant, size: int, count: int, key: Key) -> KernelFeatures:
    del size, count, key
    return ConstantFeatures(kernel.value)


@fourier_features.register
def _(kernel: Linear, size: int, count: int, key: Key) -> KernelFeatures:
    del count, key
    return LinearFeatures(held(kernel.offset), size)


@fourier_features.register
def _(kernel: Sum, size: int, count: int, key: Key) -> KernelFeatures:
    first, second = jax.random.split(key)
    one = fourier_features(kernel.first, size, count // 2, first)
    return JoinedFeatures(one, fourier_features(kernel.second, size, count - one.count, second))


@fourier_features.register
def _(kernel: Product, size: int, count: int, key: Key) -> KernelFeatures:
    for factor, other in ((kernel.first, kernel.second), (kernel.second, kernel.first)):
        if isinstance(factor, Constant):
            return ScaledFeatures(fourier_features(other, size, count, key), factor.value)
    return RandomFourierFeatures(kernel, size, frequencies=_frequencies(count), key=key)


def _frequencies(count: int) -> int:
    if count < 2:
        raise ArgumentError(
            f"feature_map: {count} features are left for a kernel of which every random frequency has two",
            remedy="use a larger count",
        )
    return count // 2


__all__ = ["Approximate", "feature_map", "fourier_features"]
