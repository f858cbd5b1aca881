"""Normalisation over the batch, over the features, or over groups of them.

Statistics are computed in float32 (or wider) whatever the type of the input. A normaliser is called two ways: as a
function of its input when predicting, and through `advance` when training, which also returns the normaliser with its
running statistics moved on; only batch normalisation has any.
"""

import abc
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import check_features, whole
from chainrule.core.errors import ArgumentError
from chainrule.core.registry import Registry
from chainrule.core.types import Array, Float, Tree
from chainrule.nn import grouped
from chainrule.nn.activations import activations


class Norm(eqx.Module):
    """A normaliser over the last axis (the features)."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "*leading features"]) -> Float[Array, "*leading features"]:
        """The normalised input, with stored statistics where there are any."""

    @abc.abstractmethod
    def advance(self, x: Float[Array, "*leading features"]) -> tuple[Float[Array, "*leading features"], Self]:
        """The normalised input as in training, and the normaliser with its statistics moved on."""

    @abc.abstractmethod
    def state(self) -> Sequence[Tree]:
        """The running statistics."""


@final
class NoNorm(Norm):
    """Leaves its input alone."""

    def __init__(self, features: int) -> None:
        del features

    def __call__(self, x: Float[Array, "*leading features"]) -> Float[Array, "*leading features"]:
        return x

    def advance(self, x: Float[Array, "*leading features"]) -> tuple[Float[Array, "*leading features"], Self]:
        return x, self

    def state(self) -> Sequence[Tree]:
        return ()


@final
class LayerNorm(Norm):
    """`(x - mean) / sqrt(var + eps) * scale + shift` over the features of each example (Ba et al., 2016).

    Without `bias` there is no shift.
    """

    scale: Float[Array, " features"]
    shift: Float[Array, " features"] | None
    eps: float = eqx.field(static=True)

    def __init__(self, features: int, *, eps: float = 1e-5, bias: bool = True) -> None:
        features = whole("LayerNorm", "features", features)
        self.scale = jnp.ones(features)
        self.shift = jnp.zeros(features) if bias else None
        self.eps = eps

    def __call__(self, x: Float[Array, "*leading features"]) -> Float[Array, "*leading features"]:
        check_features("LayerNorm", x, len(self.scale))
        unit, _, _ = standardised(x, (x.ndim - 1,), self.eps)
        return _affine(unit, self.scale, self.shift).astype(x.dtype)

    def advance(self, x: Float[Array, "*leading features"]) -> tuple[Float[Array, "*leading features"], Self]:
        return self(x), self

    def state(self) -> Sequence[Tree]:
        return ()


@final
class BatchNorm(Norm):
    """`(x - mean) / sqrt(var + eps) * scale + shift` with statistics over all leading axes (Ioffe and Szegedy, 2015).

    Training normalises by the batch (biased variance) and moves the running averages:
    `running <- (1 - new_weight) running + new_weight batch`. Prediction uses the running averages. What other libraries
    call momentum is the weight of the new (PyTorch) or of the old. `unbiased` stores the variance as PyTorch does.
    """

    scale: Float[Array, " features"]
    shift: Float[Array, " features"]
    mean: Float[Array, " features"]
    var: Float[Array, " features"]
    eps: float = eqx.field(static=True)
    new_weight: float = eqx.field(static=True)
    unbiased: bool = eqx.field(static=True)

    def __init__(
        self, features: int, *, eps: float = 1e-5, new_weight: float = 0.1, unbiased: bool = False
    ) -> None:
        features = whole("BatchNorm", "features", features)
        self.scale = jnp.ones(features)
        self.shift = jnp.zeros(features)
        self.mean = jnp.zeros(features)
        self.var = jnp.ones(features)
        self.eps = eps
        self.new_weight = new_weight
        self.unbiased = unbiased

    def __call__(self, x: Float[Array, "*leading features"]) -> Float[Array, "*leading features"]:
        check_features("BatchNorm", x, len(self.scale))
        mean, var = jax.lax.stop_gradient((self.mean, self.var))
        unit = (_wide(x) - _last(mean, x)) * _last(jax.lax.rsqrt(var + self.eps), x)
        return _affine(unit, self.scale, self.shift).astype(x.dtype)

    def advance(self, x: Float[Array, "*leading features"]) -> tuple[Float[Array, "*leading features"], Self]:
        check_features("BatchNorm", x, len(self.scale))
        if x.size // x.shape[-1] < 2:
            raise ArgumentError(
                f"BatchNorm: one value per feature cannot be normalised while training (input shape {x.shape})",
                remedy="use a batch of at least 2, or normalization=layer",
            )
        unit, mean, var = standardised(x, tuple(range(x.ndim - 1)), self.eps)
        mean, var = mean.reshape(-1), var.reshape(-1)
        w = self.new_weight
        count = x.size // x.shape[-1]
        stored = var * (count / (count - 1)) if self.unbiased else var
        moved = eqx.tree_at(
            lambda norm: (norm.mean, norm.var),
            self,
            (
                (1 - w) * self.mean + w * mean.astype(self.mean.dtype),
                (1 - w) * self.var + w * stored.astype(self.var.dtype),
            ),
        )
        return _affine(unit, self.scale, self.shift).astype(x.dtype), jax.lax.stop_gradient(moved)

    def state(self) -> Sequence[Tree]:
        return (self.mean, self.var)


@final
class GroupNorm(Norm):
    """`(x - mean) / sqrt(var + eps) * scale + shift` over groups of channels and `dimensions` axes of each example.

    (Wu and He, 2018.) One group per channel is instance normalisation (Ulyanov et al., 2016). What usually follows can
    be done in the same pass over the data: `film`, a pair (a, b) of one number for each example and channel, makes of
    the normalised y `(1 + a) y + b` (Perez et al., 2018), and `activation` names a function applied to that.
    """

    scale: Float[Array, " features"]
    shift: Float[Array, " features"]
    groups: int = eqx.field(static=True)
    dimensions: int = eqx.field(static=True)
    eps: float = eqx.field(static=True)

    def __init__(
        self, features: int, *, groups: int | None = None, dimensions: int = 2, eps: float = 1e-5
    ) -> None:
        features = whole("GroupNorm", "features", features)
        groups = math.gcd(32, features) if groups is None else whole("GroupNorm", "groups", groups)
        if features % groups:
            raise ArgumentError(f"GroupNorm(groups={groups}): {features} features cannot be split evenly")
        self.scale = jnp.ones(features)
        self.shift = jnp.zeros(features)
        self.groups = groups
        self.dimensions = dimensions
        self.eps = eps

    def __call__(
        self,
        x: Float[Array, "*leading features"],
        film: tuple[Float[Array, "*examples features"], Float[Array, "*examples features"]] | None = None,
        activation: str = "identity",
    ) -> Float[Array, "*leading features"]:
        """The normalised input, modulated and activated if asked for."""
        check_features("GroupNorm", x, len(self.scale))
        if x.ndim <= self.dimensions:
            raise ArgumentError(
                f"GroupNorm(dimensions={self.dimensions}): shape {x.shape} has fewer axes before the features",
                remedy=f"use dimensions={x.ndim - 1} at most: the axes that one example has beside its features",
            )
        leading = x.shape[: x.ndim - 1 - self.dimensions]
        count, features = math.prod(leading), x.shape[-1]
        flat = x.reshape(count, math.prod(x.shape[len(leading) : -1]), features)
        if flat.shape[1] * features // self.groups < 2:
            raise ArgumentError(
                f"GroupNorm: groups of one value cannot be normalised (input shape {x.shape})",
                remedy="use fewer groups, or normalise over more axes",
            )
        if activation in ("identity", "silu") and grouped.fast(flat, self.groups):
            scale, shift = (jnp.broadcast_to(v[None], (count, features)) for v in (self.scale, self.shift))
            if film is not None:
                times, plus = (v.reshape(count, features) for v in film)
                scale, shift = scale * (1 + times), shift * (1 + times) + plus
            silu = activation == "silu"
            out = grouped.normalised(flat, scale, shift, groups=self.groups, eps=self.eps, silu=silu)
            return out.reshape(x.shape)
        parts = flat.reshape(*flat.shape[:2], self.groups, features // self.groups)
        unit = standardised(parts, (1, 3), self.eps)[0].reshape(flat.shape)
        out = _affine(unit, self.scale, self.shift).astype(x.dtype)
        if film is not None:
            times, plus = (v.reshape(count, 1, features) for v in film)
            out = (1 + times) * out + plus
        return activations[activation](out).astype(x.dtype).reshape(x.shape)

    def advance(self, x: Float[Array, "*leading features"]) -> tuple[Float[Array, "*leading features"], Self]:
        return self(x), self

    def state(self) -> Sequence[Tree]:
        return ()


@final
class RMSNorm(Norm):
    """`x / sqrt(mean(x²) + eps) * scale` over the features of each example (Zhang and Sennrich, 2019)."""

    scale: Float[Array, " features"]
    eps: float = eqx.field(static=True)

    def __init__(self, features: int, *, eps: float = 1e-5) -> None:
        self.scale = jnp.ones(whole("RMSNorm", "features", features))
        self.eps = eps

    def __call__(self, x: Float[Array, "*leading features"]) -> Float[Array, "*leading features"]:
        check_features("RMSNorm", x, len(self.scale))
        wide = _wide(x)
        size = jax.lax.rsqrt(jnp.square(wide).mean(axis=-1, keepdims=True) + self.eps)
        return (wide * size * _last(self.scale, x)).astype(x.dtype)

    def advance(self, x: Float[Array, "*leading features"]) -> tuple[Float[Array, "*leading features"], Self]:
        return self(x), self

    def state(self) -> Sequence[Tree]:
        return ()


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def standardised(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array, Array]:
    """`(x - mean) / sqrt(var + eps)`, the mean and the variance over some axes, which are kept with length one.

    Written out, the derivative passes over the data half as often as the one found operation by operation, and it is
    its own adjoint.
    """
    wide = _wide(x)
    if wide.dtype == x.dtype:
        mean = wide.mean(axis=axes, keepdims=True)
        var = jnp.square(wide - mean).mean(axis=axes, keepdims=True)
    else:
        # Few digits in, many in the sums: both in one pass over the data, around an entry so that little cancels.
        pivot = wide[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(x.ndim))]
        offset = (wide - pivot).mean(axis=axes, keepdims=True)
        square = jnp.square(wide - pivot).mean(axis=axes, keepdims=True)
        mean, var = pivot + offset, jnp.maximum(square - jnp.square(offset), 0.0)
    return (wide - mean) * jax.lax.rsqrt(var + eps), mean, var


@standardised.defjvp
def _standardised_jvp(axes: tuple[int, ...], eps: float, primals: Any, tangents: Any) -> tuple[Any, Any]:
    (x,), (tangent,) = primals, tangents
    unit, mean, var = standardised(x, axes, eps)
    change = _wide(tangent)
    average = change.mean(axis=axes, keepdims=True)
    along = (unit * change).mean(axis=axes, keepdims=True)
    slope = jax.lax.rsqrt(var + eps)
    return (unit, mean, var), (slope * (change - average - unit * along), average, 2 / slope * along)


norms: Registry[Callable[[int, int], Norm]] = Registry("normalization")
norms.add("none", lambda features, dimensions: NoNorm(features))
norms.add("batch", lambda features, dimensions: BatchNorm(features))
norms.add("layer", lambda features, dimensions: LayerNorm(features))
norms.add("rms", lambda features, dimensions: RMSNorm(features))
norms.add("group", lambda features, dimensions: GroupNorm(features, dimensions=dimensions))
norms.add(
    "instance", lambda features, dimensions: GroupNorm(features, groups=features, dimensions=dimensions)
)


def norm(name: str, features: int, dimensions: int = 0) -> Norm:
    """A normaliser by its name: none, batch, layer, rms, group or instance.

    The last two need to know how many axes before the features belong to one example: 2 for images.
    """
    return norms[name](features, dimensions)


def normalised(norm: Norm, x: Array, training: bool) -> tuple[Array, Norm]:
    """The normalised input, and the normaliser, moved on when training."""
    return norm.advance(x) if training else (norm(x), norm)


def _wide(x: Array) -> Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _last(vector: Array, like: Array) -> Array:
    if vector.shape[0] != like.shape[-1]:
        raise ArgumentError(
            f"an input of shape {like.shape} has {like.shape[-1]} features, the normaliser {vector.shape[0]}",
            remedy="features are the last axis",
        )
    return vector.reshape((1,) * (like.ndim - 1) + vector.shape)


def _affine(x: Array, scale: Array, shift: Array | None) -> Array:
    scaled = x * _last(scale, x)
    return scaled if shift is None else scaled + _last(shift, x)


__all__ = [
    "BatchNorm",
    "GroupNorm",
    "LayerNorm",
    "NoNorm",
    "Norm",
    "RMSNorm",
    "norm",
    "normalised",
    "norms",
    "standardised",
]
