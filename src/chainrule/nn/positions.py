"""Position encodings: vectors added to embeddings, rotations of queries and keys, and biases by distance.

Attention by itself does not know order. `Sinusoids` and `Learned` tell each position its number (absolute); `Rotary`
and `Distance` tell each pair how far apart it is (relative), inside the attention.
"""

import abc
import math
from collections.abc import Sequence
from typing import ClassVar, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn.linear import plus

_SLOW, _FAST = 1.0, 4.0
"""Turns in the context of training below which a rotation is slowed down altogether, and above which not at all."""


def sinusoids(
    positions: Int[Array, " time"], width: int, *, base: float = 10000.0
) -> Float[Array, "time width"]:
    """`sin(position / base^(2i/width))` at entry 2i and the cosine at entry 2i + 1 (Vaswani et al., 2017).

    The inner product of two of these vectors depends on how far apart they are and on nothing else.

    >>> sinusoids(jnp.array([1]), 4).round(4)
    Array([[0.8415, 0.5403, 0.01  , 1.    ]], dtype=float32)
    """
    if whole("sinusoids", "width", width) % 2:
        raise ArgumentError(
            f"sinusoids(width={width}): sines and cosines come in pairs, so the width must be even"
        )
    angles = _turns(positions, [base ** (-2 * i / width) for i in range(width // 2)])
    return jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1).reshape(len(positions), width)


@final
class Learned(eqx.Module):
    """A table of one vector for each position, for as many positions as it was made for."""

    weight: Float[Array, "context width"]

    def __init__(self, context: int, width: int, *, deviation: float = 0.02, key: Key) -> None:
        context, width = whole("Learned", "context", context), whole("Learned", "width", width)
        self.weight = random.normal(key, (context, width), deviation)

    def __call__(self, length: int, offset: int | Int[Array, ""] = 0) -> Float[Array, "length width"]:
        """The vectors of `length` positions from `offset` on."""
        context = self.weight.shape[0]
        if length > context or (isinstance(offset, int) and offset + length > context):
            raise ArgumentError(
                f"Learned: positions {offset} to {offset} + {length} asked of a table of {context}",
                remedy="learned positions cannot be continued: shorten the text, or train with a longer context",
            )
        return jax.lax.dynamic_slice_in_dim(self.weight, offset, length)

    def at(self, positions: Int[Array, "batch time"]) -> Float[Array, "batch time width"]:
        """The vectors of any positions, such as those of several documents that each begin at 0."""
        return self.weight[positions]


@final
class Sinusoids(eqx.Module):
    """The vectors of `sinusoids` where a table of learned ones would stand; there is no last position.

    >>> Sinusoids(4)(2, offset=5).shape
    (2, 4)
    """

    width: int = eqx.field(static=True)

    def __init__(self, width: int) -> None:
        sinusoids(jnp.arange(1), width)  # refuses a width that is odd
        self.width = width

    def __call__(self, length: int, offset: int | Int[Array, ""] = 0) -> Float[Array, "length width"]:
        """The vectors of `length` positions from `offset` on."""
        return sinusoids(offset + jnp.arange(length), self.width)

    def at(self, positions: Int[Array, "batch time"]) -> Float[Array, "batch time width"]:
        """The vectors of any positions."""
        return sinusoids(positions.reshape(-1), self.width).reshape(*positions.shape, self.width)


def with_positions(
    x: Float[Array, "batch time width"], vectors: Float[Array, "#batch time width"]
) -> Float[Array, "batch time width"]:
    """Embeddings plus the vectors of their positions.

    On a GPU the sum is kept in the order of its axes: XLA would otherwise store it in the order that suits the sum over
    examples in the gradient of the vectors, with everything that is added to it in all blocks, and transpose it there
    and back in every one of them.
    """
    out = plus(x, vectors)
    in_order = Layout(tuple(range(out.ndim)))
    return with_layout_constraint(out, in_order) if jax.default_backend() == "gpu" else out


class Positions(eqx.Module):
    """Relative positions: what attention does to queries and keys, or adds to their scores."""

    biased: eqx.AbstractClassVar[bool]
    """Whether anything is added to the scores."""

    @abc.abstractmethod
    def turned(
        self, x: Float[Array, "*leading time size"], positions: Int[Array, " time"]
    ) -> Float[Array, "*leading time size"]:
        """Queries or keys of every head, each changed by where it stands."""

    @abc.abstractmethod
    def bias(
        self, heads: int, queries: Int[Array, " queries"], keys: Int[Array, " keys"]
    ) -> Float[Array, "heads queries keys"]:
        """What is added to the scores."""


@final
class Rotary(Positions):
    """Each pair of entries of a query or key is rotated by `position * base^(-2i/size)` (Su et al., 2021).

    Scores then depend on the distance alone. Pairs are entries i and i + size/2 (`layout="half"`) or 2i and 2i + 1
    ("interleaved"): the same thing up to a permutation of the weights, so it matters for weights from elsewhere.

    A `factor` above 1 slows the rotations down, for texts that are longer than those of training: all of them (Chen et
    al., 2023), or with `trained`, the context of that training, only those that turn less than once or a few times in
    it (Llama 3.1).

    >>> Rotary(layout="interleaved").turned(jnp.array([[1.0, 0, 1, 0]]), jnp.array([1])).round(4)
    Array([[0.5403, 0.8415, 1.    , 0.01  ]], dtype=float32)
    """

    biased: ClassVar[bool] = False
    base: float = eqx.field(static=True)
    layout: str = eqx.field(static=True)
    factor: float = eqx.field(static=True)
    trained: int | None = eqx.field(static=True)

    def __init__(
        self,
        base: float = 10000.0,
        layout: Literal["half", "interleaved"] = "half",
        *,
        factor: float = 1.0,
        trained: int | None = None,
    ) -> None:
        check_choice("Rotary", "layout", layout, ("half", "interleaved"))
        self.base = base
        self.layout = layout
        self.factor = factor
        self.trained = trained

    def _rates(self, size: int) -> list[float]:
        """The angle from one position to the next, of every pair."""
        rates = [self.base ** (-2 * i / size) for i in range(size // 2)]
        if self.factor == 1:
            return rates
        return [rate / self.factor * (1 + (self.factor - 1) * self._kept(rate)) for rate in rates]

    def _kept(self, rate: float) -> float:
        """How much of a rate stays as it is.

        In the context of training: nothing of one that turns less than once, all of one that turns four times.
        """
        if self.trained is None:
            return 0.0
        turns = self.trained * rate / (2 * math.pi)
        return min(1.0, max(0.0, (turns - _SLOW) / (_FAST - _SLOW)))

    def turned(
        self, x: Float[Array, "*leading time size"], positions: Int[Array, " time"]
    ) -> Float[Array, "*leading time size"]:
        size = x.shape[-1]
        if size % 2:
            raise ArgumentError(
                f"Rotary: entries are rotated in pairs, but a head has {size}",
                remedy="choose width and heads so that width / heads is even",
            )
        angles = _turns(positions, self._rates(size))
        cos, sin = (
            part.astype(x.dtype).reshape((1,) * (x.ndim - 2) + part.shape)
            for part in (jnp.cos(angles), jnp.sin(angles))
        )
        if self.layout == "half":
            a, b = jnp.split(x, 2, axis=-1)
            return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
        a, b = x[..., 0::2], x[..., 1::2]
        return jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)

    def bias(
        self, heads: int, queries: Int[Array, " queries"], keys: Int[Array, " keys"]
    ) -> Float[Array, "heads queries keys"]:
        return jnp.zeros((heads, len(queries), len(keys)))


@final
class Distance(Positions):
    """A penalty that grows with the distance, at another rate in each head: ALiBi (Press et al., 2022).

    >>> Distance().bias(2, jnp.array([2]), jnp.arange(3))[:, 0]
    Array([[-0.125     , -0.0625    , -0.        ],
           [-0.0078125 , -0.00390625, -0.        ]], dtype=float32)
    """

    biased: ClassVar[bool] = True

    def turned(
        self, x: Float[Array, "*leading time size"], positions: Int[Array, " time"]
    ) -> Float[Array, "*leading time size"]:
        del positions
        return x

    def bias(
        self, heads: int, queries: Int[Array, " queries"], keys: Int[Array, " keys"]
    ) -> Float[Array, "heads queries keys"]:
        distance = jnp.abs(queries[:, None] - keys[None, :])
        slopes = jnp.array(slopes_of(heads))
        return -slopes[:, None, None] * distance[None]


def slopes_of(heads: int) -> list[float]:
    """The rates of the heads: 2^(-8/heads), its square and so on.

    For numbers that are no power of two, those of the next lower power come first and every second one of the next
    higher after them, as its authors do.

    >>> slopes_of(8)[:3]
    [0.5, 0.25, 0.125]
    >>> len(slopes_of(12))
    12
    """
    power = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    return first + [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * power, 2)][: heads - power]


def _turns(positions: Array, rates: Sequence[float]) -> Array:
    # Wide enough for a large position times a small rate, whatever the type of the activations.
    kind = jnp.promote_types(jnp.result_type(float), jnp.float32)
    return positions.astype(kind)[:, None] * jnp.array(rates, kind)[None, :]


__all__ = ["Distance", "Learned", "Positions", "Rotary", "Sinusoids", "sinusoids", "slopes_of"]
