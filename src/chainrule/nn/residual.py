"""Skip connections: a branch plus what went into it, and the blocks of residual networks.

A block with batch normalisation is called two ways, like a normaliser: as a function when predicting, and through
`advance` when training, which also returns the block with its running statistics moved on. In inference mode both do
the same, so that a frozen block within a network that trains stays as it is.
"""

from collections.abc import Callable, Sequence
from typing import Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key, Tree
from chainrule.nn.activations import activation
from chainrule.nn.convolution.layers import Conv
from chainrule.nn.dropout import StochasticDepth
from chainrule.nn.normalize import Norm, norm, normalised


@final
class Residual(eqx.Module):
    """`x -> f(x) + shortcut(x)`: a layer whose parameters are those of `f` and of the shortcut."""

    f: Callable[[Array], Array]
    shortcut: Callable[[Array], Array] | None

    def __call__(self, x: Array) -> Array:
        """The sum."""
        return add_shortcut(self.f(x), x if self.shortcut is None else self.shortcut(x))


def residual(f: Callable[[Array], Array], shortcut: Callable[[Array], Array] | None = None) -> Residual:
    """`x -> f(x) + shortcut(x)`; the shortcut is the identity unless given (He et al., 2016).

    >>> residual(lambda x: 2 * x)(jnp.array([1.0]))
    Array([3.], dtype=float32)
    """
    return Residual(f, shortcut)


def add_shortcut(branch: Array, shortcut: Array) -> Array:
    """Their sum; an error that names both shapes where they differ."""
    if branch.shape != shortcut.shape:
        raise ArgumentError(
            f"residual: the branch has shape {branch.shape}, the shortcut {shortcut.shape}",
            remedy="give a projection as shortcut: Linear, or Conv with a kernel of 1 and the stride of the branch",
        )
    return branch + shortcut


@final
class ResidualBlock(eqx.Module):
    """Two 3x3 convolutions ("basic"), or 1x1, 3x3, 1x1 with a quarter of the width within ("bottleneck"), and a skip.

    The stride is taken by the (first) 3x3 convolution. Where the shape changes the shortcut is a projection, or every
    stride-th pixel with channels of zeros on both sides (`shortcut="pad"`); otherwise it is the identity. "post"
    activation is He et al., 2016a (arXiv:1512.03385); "pre" puts normalisation and activation before each convolution
    (2016b, arXiv:1603.05027). `zero_last` starts the last normalisation's scale at zero, so that the block starts as
    its shortcut. `skip=False` leaves the shortcut out, for comparison. `dilation` spreads the 3x3 kernels.
    `stochastic_depth` is the probability with which training leaves the branch out for an example, if there is a key.
    """

    convolutions: tuple[Conv, ...]
    norms: tuple[Norm, ...]
    projection: Conv | None
    projection_norm: Norm | None
    drop: StochasticDepth
    inference: bool
    stride: int = eqx.field(static=True)
    pre: bool = eqx.field(static=True)
    skip: bool = eqx.field(static=True)
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        kind: str = "basic",
        order: str = "post",
        normalization: str = "batch",
        activation: str = "relu",
        shortcut: str = "projection",
        zero_last: bool = False,
        skip: bool = True,
        stochastic_depth: float = 0.0,
        dimensions: int = 2,
        key: Key,
    ) -> None:
        check_choice("ResidualBlock", "kind", kind, ("basic", "bottleneck"))
        check_choice("ResidualBlock", "order", order, ("post", "pre"))
        check_choice("ResidualBlock", "shortcut", shortcut, ("projection", "pad"))
        where = "ResidualBlock"
        inputs, outputs = whole(where, "inputs", inputs), whole(where, "outputs", outputs)
        stride, dimensions = whole(where, "stride", stride), whole(where, "dimensions", dimensions)
        dilation = whole(where, "dilation", dilation)
        inner = max(1, outputs // 4)
        shapes = {
            "basic": [(inputs, outputs, 3, stride), (outputs, outputs, 3, 1)],
            "bottleneck": [(inputs, inner, 1, 1), (inner, inner, 3, stride), (inner, outputs, 1, 1)],
        }[kind]
        bias = normalization == "none"
        *keys, key_projection = jax.random.split(key, len(shapes) + 1)
        self.convolutions = tuple(
            _conv(dimensions, *shape, bias, activation, k, dilation)
            for shape, k in zip(shapes, keys, strict=True)
        )
        self.norms = tuple(
            norm(normalization, shape[0 if order == "pre" else 1], dimensions) for shape in shapes
        )
        if zero_last and order == "post" and normalization != "none":
            last = eqx.tree_at(lambda n: n.scale, self.norms[-1], jnp.zeros(outputs))
            self.norms = (*self.norms[:-1], last)
        changes = skip and shortcut == "projection" and (stride != 1 or inputs != outputs)
        self.projection = (
            _conv(dimensions, inputs, outputs, 1, stride, bias, "identity", key_projection)
            if changes
            else None
        )
        self.projection_norm = (
            norm(normalization, outputs, dimensions) if changes and order == "post" else None
        )
        self.drop = StochasticDepth(stochastic_depth)
        self.inference = False
        self.stride = stride
        self.pre = order == "pre"
        self.skip = skip
        self.activation = activation

    def __call__(self, x: Float[Array, "*axes inputs"]) -> Float[Array, "*output_axes outputs"]:
        """The block when predicting."""
        return self._run(x, training=False, key=None)[0]

    def advance(
        self, x: Float[Array, "*axes inputs"], key: Key | None = None
    ) -> tuple[Float[Array, "*output_axes outputs"], Self]:
        """The block when training, and the block with its statistics moved on; a key switches stochastic depth on."""
        return self._run(x, training=not self.inference, key=key)

    def state(self) -> Sequence[Tree]:
        """The running statistics."""
        norms = [*self.norms, *([] if self.projection_norm is None else [self.projection_norm])]
        return [array for one in norms for array in one.state()]

    def _run(self, x: Array, training: bool, key: Key | None) -> tuple[Array, Self]:
        act = activation(self.activation)
        moved: list[Norm] = []
        h = shortcut = x
        for number, (convolution, one) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            if self.pre:
                h, after = normalised(one, h, training)
                h = act(h)
                shortcut = h if number == 0 and self.projection is not None else shortcut
                h = convolution(h)
            else:
                h, after = normalised(one, convolution(h), training)
                h = h if number == len(self.norms) - 1 else act(h)
            moved.append(after)
        projection_norm = self.projection_norm
        if self.projection is not None:
            shortcut = self.projection(shortcut)
        elif self.skip:
            shortcut = padded(shortcut, len(self.convolutions[0].kernel), self.stride, h.shape[-1])
        if projection_norm is not None:
            shortcut, projection_norm = normalised(projection_norm, shortcut, training)
        if self.skip:
            h = add_shortcut(h if key is None else self.drop(h, key), shortcut)
        after_block = eqx.tree_at(
            lambda block: (block.norms, block.projection_norm),
            self,
            (tuple(moved), projection_norm),
            is_leaf=lambda leaf: leaf is None,
        )
        return h if self.pre else act(h), after_block


@final
class LayerScale(eqx.Module):
    """One factor for each channel of a branch, small at first (Touvron et al., 2021, arXiv:2103.17239).

    >>> LayerScale(2, 0.5)(jnp.ones((1, 2)))
    Array([[0.5, 0.5]], dtype=float32)
    """

    scale: Float[Array, " features"]

    def __init__(self, features: int, start: float = 1e-6) -> None:
        self.scale = jnp.full(features, start)

    def __call__(self, x: Float[Array, "*leading features"]) -> Float[Array, "*leading features"]:
        """Every channel times its factor."""
        return x * self.scale.astype(x.dtype).reshape((1,) * (x.ndim - 1) + self.scale.shape)


def padded(x: Array, dimensions: int, stride: int, channels: int) -> Array:
    """Every `stride`-th pixel, with channels of zeros on both sides of those there are; often just the input.

    >>> padded(jnp.ones((1, 4, 4, 2)), 2, 2, 5)[0, 0, 0]
    Array([0., 1., 1., 0., 0.], dtype=float32)
    """
    if stride > 1:
        x = x[(..., *[slice(None, None, stride)] * dimensions, slice(None))]
    more = channels - x.shape[-1]
    if more <= 0:
        return x
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(more // 2, more - more // 2)])


def _conv(
    dimensions: int,
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int,
    bias: bool,
    act: str,
    key: Key,
    dilation: int = 1,
) -> Conv:
    dilation = dilation if kernel > 1 else 1
    return Conv(
        *(dimensions, inputs, outputs, kernel),
        stride=stride,
        padding=dilation * (kernel // 2),
        dilation=dilation,
        bias=bias,
        gain=activation(act).gain,
        key=key,
    )


__all__ = ["LayerScale", "Residual", "ResidualBlock", "add_shortcut", "padded", "residual"]
