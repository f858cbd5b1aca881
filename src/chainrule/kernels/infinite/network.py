"""Networks of infinite width: one description, its two kernels, and networks of finite width to compare with.

Before training, the outputs of a wide network are a draw from a Gaussian process with the kernel `nngp`; trained by
gradient descent, they move as a linear model with the kernel `ntk` (Neal, Bayesian learning for neural networks, 1994;
Lee et al., Deep neural networks as Gaussian processes, 2018; Jacot, Gabriel and Hongler, Neural tangent kernel, 2018).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, ArrayLike, Key
from chainrule.kernels.infinite.branches import key_of
from chainrule.kernels.infinite.layer import (
    Drawn,
    FixedLayer,
    HasKernels,
    InfiniteLayer,
    Shape,
    Sizes,
    with_kernels,
)
from chainrule.kernels.infinite.state import KernelState, initial
from chainrule.probability.distributions.parameters import finite, floating


class Kernels(NamedTuple):
    """Both kernels between rows and columns."""

    nngp: Array | np.ndarray
    ntk: Array | np.ndarray


class InfiniteNetwork(HasKernels):
    """Layers one after the other, with the kernels of what comes out."""

    layers: eqx.AbstractVar[tuple[InfiniteLayer, ...]]

    def nngp(self, x: Any, y: Any = None) -> Array:
        """The covariance of the outputs over random networks: of every row of x with every row of y (or of x).

        A batch `(rows, ...)` gives a matrix; two single points give a number.
        """
        return self._kernel(x, y, ntk=False, standard=None)[0]

    def ntk(self, x: Any, y: Any = None, *, standard_width: int | None = None) -> Array:
        """The tangent kernel: inner products of the derivatives of an output in all parameters, in the limit.

        With `standard_width`, that of networks of this width in the standard parameterisation, where it grows with it.
        """
        return self._kernel(x, y, ntk=True, standard=standard_width)[1]

    def both(self, x: Any, y: Any = None, *, standard_width: int | None = None) -> Kernels:
        """Both kernels for the price of the second."""
        return Kernels(*self._kernel(x, y, ntk=True, standard=standard_width))

    def variance(self, x: Any) -> Array:
        """`nngp` of every row of x with itself."""
        rows, _ = _batch("variance", "x", x, self.axes() or 1)
        return _variance(self, rows)

    def finite(
        self,
        width: int,
        key: Key,
        inputs: int | Shape | None = None,
        *,
        outputs: int = 1,
        standard: bool = False,
    ) -> "FiniteNetwork | UnsizedNetwork":
        """A random network of this width: `network(x)` of a batch, a PyTree of its parameters.

        `inputs` is the shape of one input, channels last (`x.shape[1:]`), or a number of features. Without it the
        network has no parameters yet: they are drawn when inputs are seen, and `sized(inputs)` holds them. `standard`
        draws weights in the standard parameterisation, with the same distribution of outputs.
        """
        sizes = Sizes(whole("finite", "width", width), whole("finite", "outputs", outputs), bool(standard))
        unsized = UnsizedNetwork(self, key, sizes)
        return unsized if inputs is None else unsized.sized(inputs)

    def kernels(self, state: KernelState) -> KernelState:
        for layer in self.layers:
            state = with_kernels(layer).kernels(state)
        return state

    def needs_pairs(self, later: bool) -> bool:
        for layer in reversed(self.layers):
            later = with_kernels(layer).needs_pairs(later)
        return later

    def has_weights(self) -> bool:
        return any(layer.has_weights() for layer in self.layers)

    def axes(self) -> int | None:
        known = [found for layer in self.layers if (found := layer.axes()) is not None]
        return known[0] if known else None

    def draw(self, key: Key, inputs: Shape, sizes: Sizes) -> tuple[Drawn, Shape]:
        """Layers of the width, the last one with weights as wide as asked for."""
        weighty = [n for n, layer in enumerate(self.layers) if layer.has_weights()]
        inner = sizes._replace(outputs=sizes.width)
        drawn: list[Drawn] = []
        shape = inputs
        keys = jax.random.split(key, max(1, len(self.layers)))
        for n, layer in enumerate(self.layers):
            last = bool(weighty) and n == weighty[-1]
            made, shape = layer.draw(keys[n], shape, sizes if last else inner)
            drawn.append(made)
        return FiniteChain(tuple(drawn)), shape

    def tile(self, x: Array, y: Array, same: Array, *, ntk: bool, standard: int | None) -> KernelState:
        """The final state of one block of rows and columns, in traced code."""
        x, y, layers = _through_fixed(self.layers, x, y)
        later = Serial(*layers)
        state = initial(x, y, same, ntk=ntk, pairs=later.needs_pairs(False), standard=standard)
        final = later.kernels(state)
        if final.space:
            raise ArgumentError(
                f"{type(self).__name__}: the network ends with positions {final.space}",
                remedy="gather them with Flatten() or GlobalAveragePool() before the last Affine()",
            )
        return final

    def _kernel(self, x: Any, y: Any, *, ntk: bool, standard: int | None) -> tuple[Array, Array]:
        if standard is not None:
            whole("ntk", "standard_width", standard)
        axes = self.axes() or 1
        rows, single = _batch("kernel", "x", x, axes)
        columns, other = (rows, single) if y is None else _batch("kernel", "y", y, axes)
        _check_points(rows, columns)
        nngp, tangent = _kernels(self, rows, columns, y is None, ntk, standard)
        return (nngp[0, 0], tangent[0, 0]) if single and other else (nngp, tangent)


def _batch(where: str, name: str, values: Any, axes: int) -> tuple[Array, bool]:
    """Points along the first axis, and whether a single one was given."""
    array = finite(where, name, floating(values))
    single = array.ndim == axes
    return (array[None] if single else array), single


def _check_points(x: Array, y: Array) -> None:
    if x.shape[1:] != y.shape[1:] or x.ndim < 2:
        raise ArgumentError(
            f"kernel: points of x have the shape {x.shape[1:]}, those of y {y.shape[1:]}; both need the same"
        )


def _through_fixed(
    layers: Sequence[InfiniteLayer], x: Array, y: Array
) -> tuple[Array, Array, Sequence[InfiniteLayer]]:
    """Layers without parameters at the beginning are functions of the inputs: they are applied to them."""
    count = 0
    for layer in layers:
        if not isinstance(layer, FixedLayer):
            break
        x, y, count = layer(x), layer(y), count + 1
    return x, y, layers[count:]


@eqx.filter_jit
def _kernels(
    network: InfiniteNetwork, x: Array, y: Array, symmetric: bool, ntk: bool, standard: int | None
) -> tuple[Array, Array]:
    same = jnp.eye(len(x), len(y), dtype=bool) & symmetric
    state = network.tile(x, y, same, ntk=ntk, standard=standard)
    return state.nngp, state.nngp if state.ntk is None else state.ntk


@eqx.filter_jit
def _variance(network: InfiniteNetwork, x: Array) -> Array:
    return network.tile(x, x[:1], jnp.zeros((len(x), 1), bool), ntk=False, standard=None).left


@final
class Serial(InfiniteNetwork):
    """A network of these layers, one after the other; inside another network it is a layer.

    >>> from chainrule.kernels.infinite import Activate, Affine
    >>> network = Serial(Affine(1.0), Activate("relu", normalized=True), Affine(1.0))
    >>> float(network.nngp([3.0, 4.0], [3.0, 4.0]))  # |x|² / 2
    12.5
    """

    layers: tuple[InfiniteLayer, ...]

    def __init__(self, *layers: Any) -> None:
        for n, layer in enumerate(layers):
            if not isinstance(layer, InfiniteLayer):
                raise ArgumentError(
                    f"Serial: argument {n} is {layer!r} and not a layer", remedy='such as Activate("relu")'
                )
        self.layers = layers


@final
class FiniteChain(eqx.Module):
    """Layers of finite width, one after the other."""

    layers: tuple[Drawn, ...]

    def __call__(self, x: Array, key: Key | None = None) -> Array:
        """One after the other."""
        for n, layer in enumerate(self.layers):
            x = layer(x, key_of(key, n))
        return x


@final
class FiniteNetwork(eqx.Module):
    """A network of finite width: its arrays are its parameters."""

    body: Drawn
    inputs: Shape = eqx.field(static=True)

    def __call__(self, x: ArrayLike, key: Key | None = None) -> Array:
        """The outputs of inputs with any leading axes; with a key, units are dropped where the network says so."""
        x = floating(x)
        if x.ndim < len(self.inputs) or x.shape[x.ndim - len(self.inputs) :] != self.inputs:
            raise ArgumentError(
                f"FiniteNetwork: inputs end with the shape {self.inputs}, not {np.shape(x)}",
                remedy="draw the network with inputs=x.shape[1:]",
            )
        lead = x.shape[: x.ndim - len(self.inputs)]
        found = self.body(x.reshape(-1, *self.inputs), key)
        return found.reshape(*lead, *found.shape[1:])


@final
@dataclass(frozen=True, eq=False)
class UnsizedNetwork:
    """A random network whose first weights wait for the size of its inputs; it is no PyTree and has no parameters."""

    description: InfiniteNetwork
    key: Key
    sizes: Sizes

    def sized(self, inputs: int | Shape) -> FiniteNetwork:
        """The network for inputs of this shape, channels last; the same at every call."""
        shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
        body, _ = self.description.draw(self.key, shape, self.sizes)
        return FiniteNetwork(body, shape)

    def __call__(self, x: ArrayLike, key: Key | None = None) -> Array:
        """The outputs of a batch `(rows, ...)`, or of one input."""
        rows, single = _batch("network", "x", x, self.description.axes() or 1)
        found = self.sized(rows.shape[1:])(rows, key)
        return found[0] if single else found


__all__ = ["FiniteChain", "FiniteNetwork", "InfiniteNetwork", "Kernels", "Serial", "UnsizedNetwork"]
