"""Global self-attention of infinitely many heads, each of infinite width, over all positions of an input.

A head is `A(x) x W_value` with a matrix A of scores for all pairs of positions. Two forms have kernels in closed form.
Where scores are the products of queries and keys over the root of their size, as they are, they stay random, and their
second moments are products of kernels. Where they are divided by their size, and keys are queries, they converge to the
kernel of the input itself, and any function of them, such as softmax, is known. Of softmax over the root, the usual
one, no closed form is known.

References: Hron, Bahri, Sohl-Dickstein and Novak, Infinite attention: NNGP and NTK for deep attention networks, 2020;
Yang, Tensor programs I, 2019 (division by the size).
"""

import abc
import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.kernels.infinite.layer import Drawn, HasKernels, InfiniteLayer, Shape, Sizes, check_std
from chainrule.kernels.infinite.state import KernelState


class Attention(InfiniteLayer):
    """Self-attention over all positions: heads side by side, and a dense layer of what they give.

    Queries and keys have weights of deviation `score_std`, values of deviation one, the layer behind the heads
    `weight_std` and biases of `bias_std`. A network of width n has `sqrt(n)` heads, rounded up, each n wide.
    """

    score_std: eqx.AbstractVar[Scalar]
    weight_std: eqx.AbstractVar[Scalar]
    bias_std: eqx.AbstractVar[Scalar | None]

    @staticmethod
    @abc.abstractmethod
    def tied() -> bool:
        """Whether keys are queries."""

    @staticmethod
    @abc.abstractmethod
    def scores(products: Float[Array, "*batch positions positions"], width: int) -> Array:
        """What values are weighted with, from the products of queries and keys of this width."""

    def has_weights(self) -> bool:
        return True

    def draw(self, key: Key, inputs: Shape, sizes: Sizes) -> tuple[Drawn, Shape]:
        """Weights of queries, keys and values `(heads, inputs, width)` and of outputs `(heads * width, outputs)`."""
        require_positions(type(self).__name__, inputs[:-1])
        heads, width, count = math.isqrt(sizes.width - 1) + 1, sizes.width, inputs[-1]
        keys = jax.random.split(key, 5)
        factors = [float(self.score_std), float(self.score_std), 1.0]
        scales = [factor / math.sqrt(count) for factor in factors] + [
            float(self.weight_std) / math.sqrt(heads * width)
        ]
        shapes = [(heads, count, width)] * 3 + [(heads * width, sizes.outputs)]
        weights = [jax.random.normal(k, shape) for k, shape in zip(keys, shapes, strict=False)]
        bias = None if self.bias_std is None else jax.random.normal(keys[4], (sizes.outputs,))
        bias_scale = 0.0 if self.bias_std is None else float(self.bias_std)
        if sizes.standard:
            weights = [scale * weight for scale, weight in zip(scales, weights, strict=True)]
            bias = None if bias is None else bias_scale * bias
            scales, bias_scale = [1.0] * 4, 1.0
        query, other, value, output = weights
        drawn = FiniteAttention(
            query, None if self.tied() else other, value, output, bias, tuple(scales), bias_scale, type(self)
        )
        return drawn, (*inputs[:-1], sizes.outputs)


class AttentionWithKernels(Attention, HasKernels):
    """Self-attention whose kernels are known."""

    @abc.abstractmethod
    def attended(self, state: "PositionKernels") -> tuple[Array, Array | None]:
        """The kernel behind heads and output weights of deviation one, and the tangent kernel."""

    def kernels(self, state: KernelState) -> KernelState:
        name = type(self).__name__
        require_positions(name, state.space)
        if state.standard is not None:
            raise ArgumentError(
                f"{name}: its tangent kernel is that of the parameterisation of tangent kernels",
                remedy="leave standard_width out",
            )
        lead = state.nngp.shape[: state.nngp.ndim - 2 * len(state.space)]
        count = math.prod(state.space)
        left, right = (a.reshape(len(a), count, count) for a in (state.left, state.right))
        between = (*lead, count, count)
        found, tangent = self.attended(
            PositionKernels(
                state.nngp.reshape(between),
                None if state.ntk is None else state.ntk.reshape(between),
                left[:, None],
                right[None],
            )
        )
        rows = self.attended(PositionKernels(left, None, left, left))[0]
        columns = self.attended(PositionKernels(right, None, right, right))[0]
        square = jnp.square(self.weight_std).astype(found.dtype)
        added = 0.0 if self.bias_std is None else jnp.square(self.bias_std).astype(found.dtype)

        def shaped(kernel: Array) -> Array:
            return (square * kernel + added).reshape(*kernel.shape[:-2], *state.space, *state.space)

        arrays = shaped(found), None if tangent is None else shaped(tangent), shaped(rows), shaped(columns)
        return state.with_arrays(*arrays).marked(gaussian=True, channels=1, wide=True)

    def needs_pairs(self, later: bool) -> bool:
        del later
        return True


@final
class PositionKernels(eqx.Module):
    """Kernels of all pairs of positions, with those of each input itself, which broadcast against them."""

    nngp: Float[Array, "*batch positions positions"]
    ntk: Float[Array, "*batch positions positions"] | None
    left: Float[Array, "*#batch positions positions"]
    right: Float[Array, "*#batch positions positions"]


@final
class AttendLinearly(AttentionWithKernels):
    """Self-attention by products of queries and keys as they are: `K' = s⁴ w² K(a, b) sum_cd K(c, d)²`.

    s is `score_std` and w is `weight_std`; the sum is over all pairs of positions of the two inputs.
    """

    score_std: Scalar
    weight_std: Scalar
    bias_std: Scalar | None

    def __init__(self, score_std: Any = 1.0, weight_std: Any = 1.0, bias_std: Any = None) -> None:
        self.score_std, self.weight_std, self.bias_std = _deviations(
            "AttendLinearly", score_std, weight_std, bias_std
        )

    @staticmethod
    def tied() -> bool:
        """No."""
        return False

    @staticmethod
    def scores(products: Array, width: int) -> Array:
        """Over the root of the width."""
        return products / math.sqrt(width)

    def attended(self, state: PositionKernels) -> tuple[Array, Array | None]:
        """Four layers of weights have a tangent kernel of `K'` each; the input moves queries, keys and values."""
        factor = jnp.square(jnp.square(self.score_std)).astype(state.nngp.dtype)
        energy = jnp.square(state.nngp).sum(axis=(-2, -1), keepdims=True)
        own = factor * state.nngp * energy
        if state.ntk is None:
            return own, None
        mixed = (state.nngp * state.ntk).sum(axis=(-2, -1), keepdims=True)
        return own, 4 * own + factor * (state.ntk * energy + 2 * state.nngp * mixed)


@final
class AttendTied(AttentionWithKernels):
    """Self-attention by softmax of products over their size, with keys that are the queries: `K' = w² A(x) K A(y)'`.

    `A(x) = softmax(s² K(x, x))` over positions, in the limit without chance; s is `score_std` and w is `weight_std`.
    """

    score_std: Scalar
    weight_std: Scalar
    bias_std: Scalar | None

    def __init__(self, score_std: Any = 1.0, weight_std: Any = 1.0, bias_std: Any = None) -> None:
        self.score_std, self.weight_std, self.bias_std = _deviations(
            "AttendTied", score_std, weight_std, bias_std
        )

    @staticmethod
    def tied() -> bool:
        """Yes: scores of independent keys would vanish over their size."""
        return True

    @staticmethod
    def scores(products: Array, width: int) -> Array:
        """Softmax of the products over the width."""
        return jax.nn.softmax(products / width, axis=-1)

    def attended(self, state: PositionKernels) -> tuple[Array, Array | None]:
        """Values and outputs have a tangent kernel of `K'` each; scores no longer move."""
        square = jnp.square(self.score_std).astype(state.nngp.dtype)
        first, second = (jax.nn.softmax(square * own, axis=-1) for own in (state.left, state.right))

        def weighted(kernel: Array) -> Array:
            inner = jnp.matmul(kernel, jnp.swapaxes(second, -1, -2), precision="highest")
            return jnp.matmul(first, inner, precision="highest")

        own = weighted(state.nngp)
        return own, None if state.ntk is None else 2 * own + weighted(state.ntk)


@final
class Attend(Attention):
    """The usual self-attention, softmax of products over the root of their size: finite networks have it.

    Its kernels are means over Gaussian scores that no closed form is known for. `AttendTied` and `AttendLinearly` have
    kernels.
    """

    score_std: Scalar
    weight_std: Scalar
    bias_std: Scalar | None

    def __init__(self, score_std: Any = 1.0, weight_std: Any = 1.0, bias_std: Any = None) -> None:
        self.score_std, self.weight_std, self.bias_std = _deviations(
            "Attend", score_std, weight_std, bias_std
        )

    @staticmethod
    def tied() -> bool:
        """No."""
        return False

    @staticmethod
    def scores(products: Array, width: int) -> Array:
        """Softmax of the products over the root of the width."""
        return jax.nn.softmax(products / math.sqrt(width), axis=-1)


@final
class FiniteAttention(eqx.Module):
    """Self-attention of finitely many heads."""

    query: Float[Array, "heads inputs width"]
    key: Float[Array, "heads inputs width"] | None
    """None where keys are queries."""
    value: Float[Array, "heads inputs width"]
    output: Float[Array, "inner outputs"]
    bias: Float[Array, " outputs"] | None
    scales: tuple[float, ...] = eqx.field(static=True)
    """Of queries, keys, values and outputs."""
    bias_scale: float = eqx.field(static=True)
    form: type[Attention] = eqx.field(static=True)

    def __call__(self, x: Float[Array, "batch *space inputs"], key: Key | None = None) -> Array:
        """Over the axes between the first and the last, taken as one."""
        del key
        flat = x.reshape(len(x), -1, x.shape[-1])
        query, value = (
            scale * jnp.einsum("npi,hiw->nhpw", flat, weight)
            for scale, weight in ((self.scales[0], self.query), (self.scales[2], self.value))
        )
        keys = query if self.key is None else self.scales[1] * jnp.einsum("npi,hiw->nhpw", flat, self.key)
        scores = self.form.scores(jnp.einsum("nhpw,nhqw->nhpq", query, keys), query.shape[-1])
        heads = jnp.einsum("nhpq,nhqw->nphw", scores, value)
        found = self.scales[3] * (heads.reshape(*heads.shape[:2], -1) @ self.output)
        if self.bias is not None:
            found = found + self.bias_scale * self.bias[None, None]
        return found.reshape(*x.shape[:-1], found.shape[-1])


def require_positions(where: str, space: Shape) -> None:
    """Refuse inputs without positions to attend to."""
    if not space:
        raise ArgumentError(
            f"{where}: inputs are vectors, with no positions to attend to",
            remedy="give sequences (time, channels) or images (height, width, channels)",
        )


def _deviations(
    where: str, score_std: Any, weight_std: Any, bias_std: Any
) -> tuple[Array, Array, Array | None]:
    bias = None if bias_std is None else check_std(where, "bias_std", bias_std)
    return check_std(where, "score_std", score_std), check_std(where, "weight_std", weight_std), bias


__all__ = ["Attend", "AttendLinearly", "AttendTied", "Attention", "AttentionWithKernels", "FiniteAttention"]
