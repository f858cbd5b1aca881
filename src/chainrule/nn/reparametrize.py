"""Reparametrised layers: weight normalisation and spectral normalisation."""

from collections.abc import Callable, Sequence
from typing import Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Tree
from chainrule.nn.convolution.layers import Conv
from chainrule.nn.linear import Linear


@final
class WeightNorm(eqx.Module):
    """A layer with weight `scale * v / |v|`: length and direction of each unit are trained apart.

    (Salimans and Kingma, 2016, arXiv:1602.07868.) A unit is what makes one output: a column of a dense layer, a filter
    of a convolution. At the start the layer does what it did before.

    >>> layer = Linear(3, 2, key=jax.random.key(0))
    >>> x = jnp.ones((1, 3))
    >>> bool(jnp.allclose(WeightNorm(layer)(x), layer(x)))
    True
    """

    layer: Linear | Conv
    """Its weight is the direction."""
    scale: Float[Array, " outputs"]

    def __init__(self, layer: eqx.Module) -> None:
        self.layer = _checked("WeightNorm", layer)
        lengths = _lengths(self.layer.weight)
        if not bool((lengths > 0).all()):
            raise ArgumentError("WeightNorm: a unit whose weights are all zero has no direction")
        self.scale = lengths

    @property
    def weight(self) -> Array:
        """The weight the layer is used with."""
        v = self.layer.weight
        return v * (self.scale / _lengths(v)).reshape((1,) * (v.ndim - 1) + self.scale.shape)

    def __call__(self, x: Float[Array, "*axes inputs"]) -> Float[Array, "*output_axes outputs"]:
        """The layer with its normalised weight."""
        return _with_weight(self.layer, self.weight)(x)


@final
class SpectralNorm(eqx.Module):
    """A layer whose weight is divided by its largest singular value, so that it stretches nothing.

    The value is estimated by one power iteration a step, from where the last one ended (Miyato et al., 2018,
    arXiv:1802.05957): `advance` is the layer as in training and gives the layer moved on. Gradients take the two
    singular vectors as given.

    Of a convolution it is that of the weight as a matrix from patches to outputs. No patch is stretched then, but whole
    images may be, by up to the root of the number of kernel entries. With the `sizes` of the images it is the value of
    the convolution itself, by power iterations through it and its adjoint: a true Lipschitz bound, at the cost of two
    convolutions of one image a step. With `scaled` the weight is multiplied by a factor that is trained, 1 at the
    start: the layer then stretches by as much as training finds worth it.
    """

    layer: Linear | Conv
    left: Float[Array, "..."]
    right: Float[Array, "..."]
    scale: Float[Array, ""] | None
    sizes: tuple[int, ...] | None = eqx.field(static=True)

    def __init__(
        self,
        layer: eqx.Module,
        *,
        key: Key,
        iterations: int = 15,
        sizes: tuple[int, ...] | None = None,
        scaled: bool = False,
    ) -> None:
        self.layer = _checked("SpectralNorm", layer)
        self.scale = jnp.ones(()) if scaled else None
        if sizes is not None and not isinstance(self.layer, Conv):
            raise ArgumentError(
                "SpectralNorm(sizes=...): a dense layer has no images", remedy="leave sizes out"
            )
        self.sizes = sizes
        there, inputs = _linear_map(self.layer, sizes)
        self.left = jnp.zeros(inputs.shape)
        self.right = _unit(jax.random.normal(key, jax.eval_shape(there, inputs).shape))
        for _ in range(iterations):
            self.left, self.right = _iterate(self.layer, sizes, self.right)

    @property
    def largest(self) -> Float[Array, ""]:
        """The estimate of the largest singular value."""
        left, right = jax.lax.stop_gradient((self.left, self.right))
        there, _ = _linear_map(self.layer, self.sizes)
        return (there(left) * right).sum()

    @property
    def weight(self) -> Array:
        """The weight the layer is used with."""
        weight = self.layer.weight / self.largest
        return weight if self.scale is None else self.scale.astype(weight.dtype) * weight

    def __call__(self, x: Float[Array, "*axes inputs"]) -> Float[Array, "*output_axes outputs"]:
        """The layer with its normalised weight."""
        return _with_weight(self.layer, self.weight)(x)

    def advance(self, x: Float[Array, "*axes inputs"]) -> tuple[Float[Array, "*output_axes outputs"], Self]:
        """The layer as in training, and with its estimate moved on."""
        vectors = jax.lax.stop_gradient(_iterate(self.layer, self.sizes, self.right))
        moved = eqx.tree_at(lambda norm: (norm.left, norm.right), self, vectors)
        return moved(x), moved

    def state(self) -> Sequence[Tree]:
        """The singular vectors, which training moves by rule."""
        return (self.left, self.right)


def _checked(where: str, layer: eqx.Module) -> Linear | Conv:
    if not isinstance(layer, Linear | Conv):
        raise ArgumentError(f"{where}: takes a Linear or Conv layer, not {type(layer).__name__}")
    return layer


def _with_weight(layer: Linear | Conv, weight: Array) -> Linear | Conv:
    changed: Linear | Conv = eqx.tree_at(lambda layer: layer.weight, layer, weight)
    return changed


def _lengths(weight: Array) -> Array:
    return jnp.sqrt(jnp.square(weight).sum(axis=tuple(range(weight.ndim - 1))))


def _matrix(weight: Array) -> Array:
    return weight.reshape(-1, weight.shape[-1])


def _linear_map(
    layer: Linear | Conv, sizes: tuple[int, ...] | None
) -> tuple[Callable[[Array], Array], jax.ShapeDtypeStruct]:
    """The map whose singular value is meant, and what it takes: a row of inputs or a patch, or one image."""
    weight = layer.weight
    if sizes is None:
        rows = weight.size // weight.shape[-1]
        return lambda x: x.astype(weight.dtype) @ _matrix(weight), jax.ShapeDtypeStruct((rows,), weight.dtype)
    assert isinstance(layer, Conv)
    linear = eqx.tree_at(lambda layer: layer.bias, layer, None, is_leaf=lambda leaf: leaf is None)
    return linear, jax.ShapeDtypeStruct((*sizes, layer.inputs), weight.dtype)


def _iterate(layer: Linear | Conv, sizes: tuple[int, ...] | None, right: Array) -> tuple[Array, Array]:
    """One power iteration: there and back through the map and its adjoint."""
    there, inputs = _linear_map(layer, sizes)
    (back,) = jax.linear_transpose(there, inputs)(right.astype(inputs.dtype))
    left = _unit(back.astype(right.dtype))
    return left, _unit(there(left).astype(right.dtype))


def _unit(vector: Array) -> Array:
    return vector / jnp.maximum(jnp.linalg.norm(vector.reshape(-1)), 1e-12)


__all__ = ["SpectralNorm", "WeightNorm"]
