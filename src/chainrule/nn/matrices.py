"""Matrices of linear layers, the table of a stack of convolutions, and settings inferred from such a table."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.nn.summary import LayerSummary, summarize
from chainrule.nn.windows import output_size


def as_matrix(layer: Callable[[Array], Array], input_shape: Sequence[int]) -> Float[Array, "outputs inputs"]:
    """The matrix M of a linear layer: `M @ x.ravel()` is `layer(x).ravel()`; a bias is left out.

    A convolution gives a banded Toeplitz matrix, of blocks in two dimensions, circulant with circular padding.

    >>> from chainrule.nn import Conv
    >>> layer = Conv(1, 1, 1, 3, padding="valid", key=jax.random.key(0))
    >>> as_matrix(layer, (5, 1)).shape
    (3, 5)
    """
    zero = jnp.zeros(tuple(input_shape))
    return jax.vmap(
        lambda tangent: jax.jvp(layer, (zero,), (tangent.reshape(zero.shape),))[1].ravel(), out_axes=1
    )(jnp.eye(zero.size, dtype=zero.dtype))


def conv_table(network: Any, input_shape: Sequence[int]) -> list[LayerSummary]:
    """Shapes, parameters, multiply-adds and receptive fields of the convolutions and pools of a network.

    The network is a list of layers and functions that are applied one after another, or anything that can be called
    with an array of the shape. With each window the receptive field grows by (kernel - 1) dilation times the product
    of the strides before it. `chainrule.summary` gives all layers of any model.

    >>> from chainrule.nn import Conv
    >>> stack = [Conv(2, 3, 8, 3, stride=2, padding=1, key=jax.random.key(0))]
    >>> conv_table(stack, (7, 7, 3))[0].shape
    (4, 4, 8)
    """
    if not callable(network) and not isinstance(network, list | tuple):
        raise ArgumentError(
            f"conv_table(network of type {type(network).__name__}): it cannot be called with an array",
            remedy="give a list of layers, or for a model chainrule.summary(model)",
        )
    found = summarize(network, tuple(input_shape)).layers
    return [one for one in found if one.kind in ("Conv", "ConvTranspose") or one.kind.endswith("pool")]


@final
@dataclass(frozen=True)
class Candidate:
    """Settings of one convolution that a table would allow."""

    kernel: int
    stride: int
    padding: int
    bias: bool


def infer_layers(
    shapes: Sequence[tuple[int, int]], parameters: Sequence[int], *, dimensions: int = 2
) -> list[list[Candidate]]:
    """For each layer of a table every (kernel, stride, padding, bias) that explains it.

    `shapes` are (size, channels) of the input and of each layer's output, `parameters` the layers' numbers. Padding is
    less than the kernel; the stride may be larger (a shortcut of kernel 1 and stride 2), up to the size of the input.

    >>> infer_layers([(5, 1), (3, 2)], [18])
    [[Candidate(kernel=3, stride=1, padding=0, bias=False),
      Candidate(kernel=3, stride=2, padding=1, bias=False),
      Candidate(kernel=3, stride=3, padding=2, bias=False)]]
    """
    steps = zip(itertools.pairwise(shapes), parameters, strict=True)
    return [list(_explanations(before, after, count, dimensions)) for (before, after), count in steps]


def _explanations(
    before: tuple[int, int], after: tuple[int, int], parameters: int, dimensions: int
) -> Iterator[Candidate]:
    (size, inputs), (wanted, outputs) = before, after
    for bias in (True, False):
        entries, rest = divmod(parameters - (outputs if bias else 0), inputs * outputs)
        kernel = round(entries ** (1 / dimensions)) if entries > 0 else 0
        if rest or kernel < 1 or kernel**dimensions != entries:
            continue
        for stride, padding in itertools.product(range(1, max(kernel, size) + 1), range(kernel)):
            if (
                size + 2 * padding >= kernel
                and output_size(size, kernel, stride, (padding, padding)) == wanted
            ):
                yield Candidate(kernel, stride, padding, bias)


__all__ = ["Candidate", "as_matrix", "conv_table", "infer_layers"]
