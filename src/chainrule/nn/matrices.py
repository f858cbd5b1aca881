"""Matrices of linear layers, the table of a stack of convolutions, and settings inferred from such a table."""

import abc
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.nn.summary import LayerSummary, Summary, summarize


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


class GivesLogits(eqx.Module):
    """Is looked at through the logits of a batch of examples; it is not a function of one array."""

    @abc.abstractmethod
    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """The outputs of the network before any softmax, in inference mode."""


class GivesPredictions(eqx.Module):
    """Is looked at through what it predicts for a batch of examples, where there are no logits."""

    @abc.abstractmethod
    def predict(self, x: Array) -> Array:
        """What it predicts for every example, in inference mode."""


class GivesMeans(GivesPredictions):
    """Predicts the mean of a distribution of values, so that what it predicts is its output."""


@final
class ConvTable(Sequence[LayerSummary]):
    """The convolutions and pools of a network in the order of the call; `print` shows them as a table."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary

    def __getitem__(self, index: Any) -> Any:
        return self.summary.layers[index]

    def __len__(self) -> int:
        return len(self.summary.layers)

    def __str__(self) -> str:
        return str(self.summary)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.summary._repr_html_()


def conv_table(network: Any, input_shape: Sequence[int]) -> ConvTable:
    """Kernels, shapes, parameters, multiply-adds and receptive fields of the convolutions and pools of a network.

    The network is a list of layers and functions that are applied one after another, a model that predicts, or anything
    that can be called with an array of the shape, without an axis of examples. With each window the receptive field
    grows by (kernel - 1) dilation times the product of the strides before it. `chainrule.summary` gives all layers of
    any model.

    >>> from chainrule.nn import Conv
    >>> print(conv_table([Conv(2, 3, 8, 3, stride=2, padding=1, key=jax.random.key(0))], (7, 7, 3)))
    list   input 7 × 7 × 3
    layer  kind  kernel        output     parameters  multiply-adds  receptive field
    0      Conv  (8, 3, 3, 3)  4 × 4 × 8         224          3,456  3 × 3
    total                                        224          3,456
    kernel: (outputs, inputs of a group, height, width)
    """
    if isinstance(network, GivesLogits):
        still = eqx.nn.inference_mode(network)
        found = summarize(still, (1, *input_shape), call=lambda model, x: model.logits(x), examples=True)
    elif callable(network) or isinstance(network, list | tuple):
        found = summarize(network, tuple(input_shape))
    else:
        raise ArgumentError(
            f"conv_table(network of type {type(network).__name__}): it cannot be called with an array",
            remedy="give a list of layers, or for a model that does not predict chainrule.summary(model, data)",
        )
    windows = [one for one in found.layers if one.kernel or one.kind.endswith("pool")]
    own = sum(one.parameters for one in windows)
    return ConvTable(replace(found, layers=tuple(windows), parameters=own))


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
        for stride in range(1, max(kernel, size) + 1):
            # floor((size + 2 padding - kernel) / stride) + 1 = wanted, solved for the padding
            least = (wanted - 1) * stride + kernel - size
            paddings = range(max(0, -(-least // 2)), min(kernel - 1, (least + stride - 1) // 2) + 1)
            yield from (Candidate(kernel, stride, padding, bias) for padding in paddings)


__all__ = [
    "Candidate",
    "ConvTable",
    "GivesLogits",
    "GivesMeans",
    "GivesPredictions",
    "as_matrix",
    "conv_table",
    "infer_layers",
]
