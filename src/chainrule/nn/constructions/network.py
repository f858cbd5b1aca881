"""A plain network: affine layers with an activation by name after each.

The form in which every constructed network comes, and small enough to be taken apart: its states have names, affine
layers with nothing between them can be merged, and the layout can be changed from rows (`x W + b`) to columns
(`W x + b`) and back.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn.activations import activation
from chainrule.nn.linear import Linear
from chainrule.nn.losses import cross_entropy, squared_error


@final
class Network(eqx.Module):
    """Affine layers, each followed by its activation.

    >>> network = mlp([2, 8, 8, 1], key=jax.random.key(0))
    >>> print(network)
    network 2-8-8-1: depth 3 (hidden depth 2), width 8, relu, relu, identity
    """

    layers: tuple[Linear, ...]
    activations: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, layers: Sequence[Linear], activations: Sequence[str]) -> None:
        if not layers or len(layers) != len(activations):
            raise ArgumentError(
                f"Network: {len(layers)} layers and {len(activations)} activations; it needs one for each layer"
            )
        for first, second in itertools.pairwise(layers):
            if first.weight.shape[1] != second.weight.shape[0]:
                raise ArgumentError(
                    f"Network: a layer with {first.weight.shape[1]} outputs is followed by one with "
                    f"{second.weight.shape[0]} inputs"
                )
        for name in activations:
            activation(name)
        self.layers = tuple(layers)
        self.activations = tuple(activations)

    def __call__(self, x: Float[Array, "*leading inputs"]) -> Float[Array, "*leading outputs"]:
        """The outputs for every vector along the last axis."""
        for layer, name in zip(self.layers, self.activations, strict=True):
            x = activation(name)(layer(x))
        return x

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of inputs, then of outputs of every layer."""
        return (self.layers[0].weight.shape[0], *(layer.weight.shape[1] for layer in self.layers))

    @property
    def depth(self) -> int:
        """Number of affine layers."""
        return len(self.layers)

    @property
    def hidden_depth(self) -> int:
        """Number of affine layers but the last."""
        return self.depth - 1

    @property
    def width(self) -> int:
        """Outputs of the largest layer."""
        return max(self.sizes[1:])

    @property
    def units(self) -> int:
        """Number of hidden units."""
        return sum(self.sizes[1:-1])

    def __str__(self) -> str:
        sizes = "-".join(map(str, self.sizes))
        return (
            f"network {sizes}: depth {self.depth} (hidden depth {self.hidden_depth}), width {self.width}, "
            f"{', '.join(self.activations)}"
        )


def affine(weight: Any, bias: Any) -> Linear:
    """The dense layer `x W + b` with these numbers; W has shape (inputs, outputs).

    >>> affine([[1.0], [2.0]], [3.0])(jnp.array([1.0, 1.0])).tolist()
    [6.0]
    """
    weight, bias = jnp.asarray(weight, jnp.result_type(float)), jnp.asarray(bias, jnp.result_type(float))
    if weight.ndim != 2 or bias.shape != weight.shape[1:]:
        raise ArgumentError(
            f"affine: a weight of shape {weight.shape} does not go with a bias of shape {bias.shape}"
        )
    # A construction may need no unit at all: a constant function has none.
    inputs, outputs = (max(1, size) for size in weight.shape)
    blank = Linear(inputs, outputs, key=jax.random.key(0), initializer="zero")
    return eqx.tree_at(lambda layer: (layer.weight, layer.bias), blank, (weight, bias))


def mlp(
    sizes: Sequence[int],
    activation: str = "relu",
    final_activation: str = "identity",
    *,
    key: Key,
    initializer: str = "he",
    gain: float | None = None,
) -> Network:
    """A random network of these sizes; `gain` is that of the activation unless given, and one for the last layer."""
    from chainrule.nn.activations import activation as find

    if len(sizes) < 2:
        raise ArgumentError(f"mlp(sizes={list(sizes)}): needs at least an input and an output size")
    sizes = [whole("mlp", "sizes", size) for size in sizes]
    hidden = find(activation).gain if gain is None else gain
    last = find(final_activation).gain if gain is None else gain
    gains = [hidden] * (len(sizes) - 2) + [last]
    keys = jax.random.split(key, len(gains))
    layers = [
        Linear(a, b, key=k, initializer=initializer, gain=g)
        for a, b, k, g in zip(sizes[:-1], sizes[1:], keys, gains, strict=True)
    ]
    return Network(layers, [activation] * (len(sizes) - 2) + [final_activation])


def states(
    network: Network,
    x: Float[Array, "batch inputs"],
    y: Int[Array, " batch"] | Float[Array, "batch outputs"] | None = None,
    *,
    layout: str = "row",
) -> Mapping[str, Array]:
    """Every state on the way: S0 is the input, odd ones are affine maps, even ones their activations, then the loss.

    Rows hold examples (`S1 = S0 W + b`), columns are the transpose (`S1 = W S0 + b`). The loss, with a target, is the
    mean cross-entropy for class numbers and the mean squared error for values.

    >>> network = mlp([2, 3, 1], key=jax.random.key(0))
    >>> [(name, state.shape) for name, state in states(network, jnp.ones((5, 2)), layout="column").items()]
    [('S0', (2, 5)), ('S1', (3, 5)), ('S2', (3, 5)), ('S3', (1, 5))]
    """
    check_choice("states", "layout", layout, ["row", "column"])
    found = {"S0": x}
    for number, (layer, name) in enumerate(zip(network.layers, network.activations, strict=True)):
        x = layer(x)
        found[f"S{2 * number + 1}"] = x
        if number + 1 < network.depth or name != "identity":
            x = activation(name)(x)
            found[f"S{2 * number + 2}"] = x
    if layout == "column":
        found = {name: state.T for name, state in found.items()}
    if y is not None:
        loss = cross_entropy(x, y) if jnp.issubdtype(y.dtype, jnp.integer) else squared_error(x, y)
        found["loss"] = loss.mean()
    return found


def collapse(network: Network) -> Network:
    """The same function with affine layers merged wherever nothing stands between them: A2 A1, A2 b1 + b2.

    >>> linear = mlp([2, 50, 50, 1], "identity", key=jax.random.key(0))
    >>> collapse(linear).sizes
    (2, 1)
    """
    layers, names = [network.layers[0]], [network.activations[0]]
    for layer, name in zip(network.layers[1:], network.activations[1:], strict=True):
        if names[-1] == "identity":
            before = layers[-1]
            layers[-1] = affine(before.weight @ layer.weight, layer(_bias(before)))
            names[-1] = name
        else:
            layers.append(layer)
            names.append(name)
    return Network(layers, names)


def to_columns(network: Network) -> list[tuple[Float[Array, "outputs inputs"], Float[Array, " outputs"]]]:
    """Weights and biases for `W x + b`, the layout of most textbooks and of PyTorch."""
    return [(layer.weight.T, _bias(layer)) for layer in network.layers]


def from_columns(layers: Sequence[tuple[Any, Any]], activations: Sequence[str]) -> Network:
    """The network whose layers compute `W x + b`; the inverse of `to_columns`."""
    return Network([affine(jnp.asarray(weight).T, bias) for weight, bias in layers], activations)


def numbers(layer: Linear) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias in double precision on the host, for work that must be exact."""
    return np.asarray(layer.weight, dtype=np.float64), np.asarray(_bias(layer), dtype=np.float64)


def _bias(layer: Linear) -> Array:
    return jnp.zeros(layer.weight.shape[1], layer.weight.dtype) if layer.bias is None else layer.bias


__all__ = [
    "Network",
    "affine",
    "collapse",
    "from_columns",
    "mlp",
    "numbers",
    "states",
    "to_columns",
]
