"""Short forms of the usual networks: dense, and convolutional with pooling or flattening at the end."""

from typing import Any, final

from chainrule.core.checks import whole
from chainrule.core.errors import check_choice
from chainrule.kernels.infinite.layer import InfiniteLayer
from chainrule.kernels.infinite.network import InfiniteNetwork
from chainrule.kernels.infinite.pooling import Flatten, GlobalAveragePool
from chainrule.kernels.infinite.units import Activate
from chainrule.kernels.infinite.weights import Affine, Convolve


@final
class Dense(InfiniteNetwork):
    """A dense network with `depth` hidden layers.

    The first layer is `W x` with entries of W from N(0, weight_std²), so that depth 0 has the kernel `x · y`; with
    `scaled_inputs` it is divided by the root of the number of inputs, as hidden layers always are. `normalized`
    activations have `E[s(z)²] = 1`, which keeps the size of what passes through.

    >>> import jax, numpy as np
    >>> network = Dense(3, "relu")
    >>> x, y = [1.0, 0.0], [0.6, 0.8]
    >>> round(float(network.nngp(x, y)), 4), round(float(network.ntk(x, y)), 4)
    (0.7753, 1.9523)
    >>> network.finite(8, jax.random.key(0), inputs=2)(np.ones((5, 2))).shape
    (5, 1)
    """

    layers: tuple[InfiniteLayer, ...]

    def __init__(
        self,
        depth: int = 1,
        activation: Any = "relu",
        *,
        weight_std: Any = 1.0,
        bias_std: Any = None,
        normalized: bool = True,
        scaled_inputs: bool = False,
    ) -> None:
        layers: list[InfiniteLayer] = []
        for n in range(whole("Dense", "depth", depth, least=0)):
            scaled = scaled_inputs or n > 0
            layers += [
                Affine(weight_std, bias_std, scaled=scaled),
                Activate(activation, normalized=normalized),
            ]
        self.layers = (*layers, Affine(weight_std, bias_std, scaled=scaled_inputs or depth > 0))


@final
class Convolutional(InfiniteNetwork):
    """A convolutional network: `depth` convolutions with activations, positions gathered, a dense readout.

    `window=3` is for sequences `(time, channels)`, `window=(3, 3)` for images `(height, width, channels)`. Gathering by
    "flatten" costs as many numbers for a pair of inputs as there are positions, "pool" (global average) their square.

    >>> network = Convolutional(2, "relu", window=3, weight_std=2**0.5, bias_std=0.1, padding="circular")
    >>> x, y = [[1.0], [2.0], [0.0], [-1.0]], [[0.0], [1.0], [1.0], [3.0]]
    >>> round(float(network.ntk(x, y)), 4)
    1.2432
    """

    layers: tuple[InfiniteLayer, ...]

    def __init__(
        self,
        depth: int = 1,
        activation: Any = "relu",
        *,
        window: int | tuple[int, ...] = (3, 3),
        weight_std: Any = 1.0,
        bias_std: Any = None,
        normalized: bool = False,
        padding: str = "same",
        gather: str = "flatten",
        readout_std: Any = 1.0,
    ) -> None:
        check_choice("Convolutional", "gather", gather, ("flatten", "pool"))
        block: list[InfiniteLayer] = []
        for _ in range(whole("Convolutional", "depth", depth)):
            block += [
                Convolve(window, weight_std, bias_std, padding=padding),
                Activate(activation, normalized=normalized),
            ]
        gathered = GlobalAveragePool() if gather == "pool" else Flatten()
        self.layers = (*block, gathered, Affine(readout_std))


__all__ = ["Convolutional", "Dense"]
