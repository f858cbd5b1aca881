"""The networks of the `nn` benchmark: made of Chainrule's layers, with random data and weights in PyTorch's layouts.

Each is a model that `fit` can train. `weights` lists its parameters in the order and the layouts in which PyTorch's
modules hold theirs, so that everybody starts from the same numbers.
"""

import abc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule import nn
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Rows, Split
from chainrule.data.text.windows import Windows
from chainrule.models.protocol import HasState, Model
from chainrule.nn.losses import cross_entropy

Weights = Iterator[Any]


class Network(Model):
    """A model that can list its weights for PyTorch."""

    @abc.abstractmethod
    def weights(self) -> Weights:
        """Parameters as PyTorch has them."""


@final
class Perceptron(Network):
    """784-512-512-10, rectifiers between."""

    layers: tuple[nn.Linear, ...]

    def __init__(self, key: Any) -> None:
        sizes = ((784, 512), (512, 512), (512, 10))
        keys = jax.random.split(key, len(sizes))
        self.layers = tuple(nn.Linear(a, b, key=k) for (a, b), k in zip(sizes, keys, strict=True))

    def loss(self, batch: Batch, key: Any) -> Any:
        """Cross-entropy."""
        del key  # nothing here is random
        h = batch.x.reshape(len(batch.x), 784)
        for layer in self.layers[:-1]:
            h = jax.nn.relu(layer(h))
        return cross_entropy(self.layers[-1](h), batch.y).mean(), {}

    def weights(self) -> Weights:
        for layer in self.layers:
            yield from _linear(layer)


@final
class ConvNet(Network):
    """Five 3x3 convolutions, 32-64-64-128-128, two of them with stride 2, global mean, dense."""

    convolutions: tuple[nn.Conv, ...]
    head: nn.Linear

    def __init__(self, key: Any) -> None:
        shapes = ((1, 32, 1), (32, 64, 1), (64, 64, 2), (64, 128, 1), (128, 128, 2))
        *keys, last = jax.random.split(key, 6)
        self.convolutions = tuple(
            nn.Conv(2, a, b, 3, stride=s, padding=1, gain=2**0.5, key=k)
            for (a, b, s), k in zip(shapes, keys, strict=True)
        )
        self.head = nn.Linear(128, 10, key=last)

    def loss(self, batch: Batch, key: Any) -> Any:
        """Cross-entropy."""
        del key  # nothing here is random
        h = batch.x
        for layer in self.convolutions:
            h = jax.nn.relu(layer(h))
        return cross_entropy(self.head(nn.global_average_pool(h)), batch.y).mean(), {}

    def weights(self) -> Weights:
        for layer in self.convolutions:
            yield from _conv(layer)
        yield from _linear(self.head)


@final
class Segmenter(Network):
    """The U-Net of Ronneberger et al. (2015), 1 -> 2 with widths 16-32-64: rectifiers, pooling, no normalisation."""

    down: tuple[tuple[nn.Conv, nn.Conv], ...]
    up: tuple[nn.ConvTranspose, ...]
    merge: tuple[tuple[nn.Conv, nn.Conv], ...]
    head: nn.Conv

    def __init__(self, key: Any) -> None:
        widths = (16, 32, 64)
        keys = iter(jax.random.split(key, 13))

        def double(inputs: int, outputs: int) -> tuple[nn.Conv, nn.Conv]:
            return tuple(  # type: ignore[return-value]  # two of them
                nn.Conv(2, size, outputs, 3, padding=1, gain=2**0.5, key=next(keys))
                for size in (inputs, outputs)
            )

        self.down = tuple(double(a, b) for a, b in zip((1, *widths), widths, strict=False))
        turns = ((64, 32), (32, 16))
        self.up = tuple(nn.ConvTranspose(2, a, b, 2, stride=2, key=next(keys)) for a, b in turns)
        self.merge = tuple(double(2 * b, b) for _, b in turns)
        self.head = nn.Conv(2, widths[0], 2, 1, key=next(keys))

    def loss(self, batch: Batch, key: Any) -> Any:
        """Cross-entropy of every pixel."""
        del key  # nothing here is random
        h, seen = batch.x, []
        for level, (first, second) in enumerate(self.down):
            h = h if level == 0 else nn.max_pool(h, 2)
            h = jax.nn.relu(second(jax.nn.relu(first(h))))
            seen.append(h)
        for grow, (first, second), beside in zip(self.up, self.merge, reversed(seen[:-1]), strict=True):
            h = jnp.concatenate([beside, grow(h)], axis=-1)
            h = jax.nn.relu(second(jax.nn.relu(first(h))))
        return cross_entropy(self.head(h), batch.y).mean(), {}

    def weights(self) -> Weights:
        for block in self.down:
            for layer in block:
                yield from _conv(layer)
        for grow, block in zip(self.up, self.merge, strict=True):
            yield from _conv(grow)
            for layer in block:
                yield from _conv(layer)
        yield from _conv(self.head)


@final
class Residuals(Network, HasState):
    """A residual network of six basic blocks, 16-32-64, with batch normalisation."""

    stem: nn.Conv
    blocks: tuple[nn.ResidualBlock, ...]
    head: nn.Linear

    def __init__(self, key: Any) -> None:
        shapes = ((16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1))
        first, *keys, last = jax.random.split(key, 8)
        self.stem = nn.Conv(2, 3, 16, 3, padding=1, key=first)
        self.blocks = tuple(
            nn.ResidualBlock(a, b, stride=s, key=k) for (a, b, s), k in zip(shapes, keys, strict=True)
        )
        self.head = nn.Linear(64, 10, key=last)

    def loss_and_state(self, batch: Batch, key: Any) -> tuple[Any, Any, Self]:
        """Cross-entropy, and the moved statistics."""
        del key  # nothing here is random
        h, moved = self.stem(batch.x), []
        for block in self.blocks:
            h, after = block.advance(h)
            moved.append(after)
        out = self.head(nn.global_average_pool(h))
        after_all = eqx.tree_at(lambda model: model.blocks, self, tuple(moved))
        return cross_entropy(out, batch.y).mean(), {}, after_all

    def state(self) -> Sequence[Any]:
        """Running statistics of every block."""
        return [array for block in self.blocks for array in block.state()]

    def weights(self) -> Weights:
        yield from _conv(self.stem)
        for block in self.blocks:
            for convolution, norm in zip(block.convolutions, block.norms, strict=True):
                yield from _conv(convolution)
                yield from (norm.scale, norm.shift)  # type: ignore[attr-defined]
            if block.projection is not None and block.projection_norm is not None:
                yield from _conv(block.projection)
                yield from (block.projection_norm.scale, block.projection_norm.shift)  # type: ignore[attr-defined]
        yield from _linear(self.head)


@final
class Memory(Network):
    """An LSTM of 128 units over 64 steps of 32 numbers, and a dense layer on its last output."""

    lstm: nn.LSTM
    head: nn.Linear

    def __init__(self, key: Any) -> None:
        first, last = jax.random.split(key)
        self.lstm = nn.LSTM(32, 128, key=first)
        self.head = nn.Linear(128, 10, key=last)

    def loss(self, batch: Batch, key: Any) -> Any:
        """Cross-entropy."""
        del key  # nothing here is random
        _, (h, _) = self.lstm(batch.x)
        return cross_entropy(self.head(h), batch.y).mean(), {}

    def weights(self) -> Weights:
        inward, recurrent = self.lstm.inward, self.lstm.recurrent
        yield from (inward.weight.T, recurrent.weight.T, inward.bias, recurrent.bias)
        yield from _linear(self.head)


@final
class Transformer(Network):
    """Two causal blocks of width 128 with four heads over 128 tokens of 65."""

    tokens: Any
    positions: Any
    blocks: tuple[nn.TransformerBlock, ...]
    norm: nn.LayerNorm
    head: nn.Linear

    def __init__(self, key: Any) -> None:
        keys = jax.random.split(key, 5)
        self.tokens = 0.02 * jax.random.normal(keys[0], (65, 128))
        self.positions = 0.02 * jax.random.normal(keys[1], (128, 128))
        self.blocks = tuple(
            nn.TransformerBlock(128, heads=4, causal=True, activation="gelu", key=k) for k in keys[2:4]
        )
        self.norm = nn.LayerNorm(128)
        self.head = nn.Linear(128, 65, key=keys[4])

    def loss(self, batch: Batch, key: Any) -> Any:
        """Cross-entropy of every next token."""
        del key  # nothing here is random
        h = self.tokens[batch.x[:, :-1]] + self.positions[None]
        for block in self.blocks:
            h = block(h)
        return cross_entropy(self.head(self.norm(h)), batch.x[:, 1:]).mean(), {}

    def weights(self) -> Weights:
        yield from (self.tokens, self.positions)
        for block in self.blocks:
            yield from (block.first_norm.scale, block.first_norm.shift)
            yield from _linear(block.attention.inward)
            yield from _linear(block.attention.outward)
            yield from (block.second_norm.scale, block.second_norm.shift)
            yield from _linear(block.widen)
            yield from _linear(block.narrow)
        yield from (self.norm.scale, self.norm.shift)
        yield from _linear(self.head)


def _linear(layer: nn.Linear) -> Weights:
    yield from (layer.weight.T, layer.bias)


def _conv(layer: nn.Conv | nn.ConvTranspose) -> Weights:
    yield layer.weight.transpose(3, 2, 0, 1)
    if layer.bias is not None:
        yield layer.bias


@final
@dataclass(frozen=True)
class Workload:
    """One case: a network, its batch and what a step costs."""

    label: str
    network: Callable[[Any], Network]
    data: Callable[[], Data]
    batch: int
    operations: float
    """Floating-point operations of the products of one step, roughly."""

    def model(self) -> Network:
        """The network with its first weights."""
        return eqx.filter_jit(self.network)(jax.random.key(0))


def pictures(shape: tuple[int, int, int], masks: bool = False, count: int = 2048) -> Data:
    """Random pictures in ten classes, or with a random mask each."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(count, *shape)).astype(np.float32)
    size = (count, *shape[:2]) if masks else (count,)
    y = draw.integers(0, 2 if masks else 10, size).astype(np.int32)
    schema = Schema("image", shape, target="class", classes=tuple(map(str, range(2 if masks else 10))))
    return _data(schema, Rows({"x": x, "y": y}))


def series(count: int = 2048) -> Data:
    """Random sequences in ten classes."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(count, 64, 32)).astype(np.float32)
    y = draw.integers(0, 10, count).astype(np.int32)
    return _data(
        Schema("sequence", (64, 32), target="class", classes=tuple("0123456789")), Rows({"x": x, "y": y})
    )


def text(count: int = 2048) -> Data:
    """Random tokens."""
    tokens = np.random.default_rng(0).integers(0, 65, count * 129).astype(np.uint8)
    schema = Schema("text", (129,), tokens=tuple(map(chr, range(48, 113))))
    return _data(schema, Windows({"tokens": tokens}, length=128, stride=129))


def _data(schema: Schema, split: Split) -> Data:
    return Data(
        name="random",
        schema=schema,
        train=split,
        val=split,
        test=split,
        scaling=Scaling(),
        target_scaling=None,
        hash=f"random-{schema.kind}-{schema.shape}",
        source={"name_or_path": "random", "seed": 0},
    )


WORKLOADS = {
    "mlp": Workload("784-512-512-10", Perceptron, lambda: pictures((28, 28, 1)), 64, 0.26e9),
    "conv": Workload("five convolutions", ConvNet, lambda: pictures((28, 28, 1)), 64, 16.7e9),
    "unet": Workload("U-Net 16-32-64", Segmenter, lambda: pictures((64, 64, 1), True), 16, 9.7e9),
    "resnet": Workload("six residual blocks", Residuals, lambda: pictures((32, 32, 3)), 32, 4.8e9),
    "lstm": Workload("LSTM 128", Memory, series, 32, 1.0e9),
    "gpt": Workload("two transformer blocks", Transformer, text, 16, 5.6e9),
}

__all__ = ["WORKLOADS", "Network", "Workload"]
