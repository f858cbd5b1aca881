"""Matrices of linear layers, the table of a stack of convolutions, and settings inferred from such a table."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.nn.convolution.layers import Conv
from chainrule.nn.windows import output_size


def as_matrix(layer: Callable[[Array], Array], input_shape: Sequence[int]) -> Float[Array, "outputs inputs"]:
    """The matrix M of a linear layer: `M @ x.ravel()` is `layer(x).ravel()`; a bias is left out.

    A convolution gives a banded Toeplitz matrix, of blocks in two dimensions, circulant with circular padding.

    >>> layer = Conv(1, 1, 1, 3, padding="valid", key=jax.random.key(0))
    >>> as_matrix(layer, (5, 1)).shape
    (3, 5)
    """
    zero = jnp.zeros(tuple(input_shape))
    return jax.vmap(
        lambda tangent: jax.jvp(layer, (zero,), (tangent.reshape(zero.shape),))[1].ravel(), out_axes=1
    )(jnp.eye(zero.size, dtype=zero.dtype))


@final
@dataclass(frozen=True)
class TableRow:
    """One convolution of a stack."""

    shape: tuple[int, ...]
    """Sizes and channels that come out."""
    parameters: int
    multiply_adds: int
    receptive_field: tuple[int, ...]
    """How many entries of the network's input, along each axis, one output sees."""


def conv_table(layers: Sequence[Conv], input_shape: Sequence[int]) -> list[TableRow]:
    """Shapes, parameters, multiply-adds and receptive fields of convolutions applied one after another.

    With each layer the receptive field grows by (kernel - 1) dilation times the product of the strides before it.

    >>> stack = [Conv(2, 3, 8, 3, stride=2, padding=1, key=jax.random.key(0))]
    >>> conv_table(stack, (7, 7, 3))[0].shape
    (4, 4, 8)
    """
    shape = tuple(input_shape)
    field, jump = [1] * (len(shape) - 1), [1] * (len(shape) - 1)
    rows = []
    for layer in layers:
        shape = jax.eval_shape(layer, jax.ShapeDtypeStruct(shape, layer.weight.dtype)).shape
        field = [
            r + (k - 1) * d * j for r, k, d, j in zip(field, layer.kernel, layer.dilation, jump, strict=True)
        ]
        jump = [j * s for j, s in zip(jump, layer.stride, strict=True)]
        parameters = layer.weight.size + (0 if layer.bias is None else layer.bias.size)
        rows.append(TableRow(shape, parameters, math.prod(shape[:-1]) * layer.weight.size, tuple(field)))
    return rows


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


__all__ = ["Candidate", "TableRow", "as_matrix", "conv_table", "infer_layers"]
