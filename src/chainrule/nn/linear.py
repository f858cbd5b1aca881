"""The dense layer."""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import random
from chainrule.core.checks import check_features, whole
from chainrule.core.types import Array, Float, Key
from chainrule.nn.initializers import draw


@final
class Linear(eqx.Module):
    """`x W + b` over the last axis, for any leading axes.

    Leading axes are flattened into one before the product: XLA's CPU backend runs one large matrix product much
    faster than a batched contraction over the same numbers. `initializer` is a scheme of `chainrule.nn.initializers`;
    `gain` takes the place of its own factor on the standard deviation (√2 for "he", 1 for the others).
    """

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"] | None

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        key: Key,
        initializer: str = "fan-in",
        gain: float | None = None,
        bias: bool = True,
    ) -> None:
        inputs, outputs = whole("Linear", "inputs", inputs), whole("Linear", "outputs", outputs)
        key_weight, key_bias = jax.random.split(key)
        self.weight = draw(initializer, key_weight, (inputs, outputs), gain)
        self.bias = self._initial_bias(key_bias, inputs, outputs, initializer) if bias else None

    def __call__(self, x: Float[Array, "*leading inputs"]) -> Float[Array, "*leading outputs"]:
        """The affine map of every vector along the last axis."""
        check_features("Linear", x, self.weight.shape[0])
        with jax.named_scope("Linear"):
            flat = as_weights(x, self.weight).reshape(math.prod(x.shape[:-1]), x.shape[-1])
            out = flat @ self.weight
            if self.bias is not None:
                out = plus(out, self.bias[None, :])
            return out.reshape(*x.shape[:-1], self.weight.shape[1])

    @staticmethod
    def _initial_bias(key: Key, inputs: int, outputs: int, initializer: str) -> Array:
        # PyTorch draws biases like weights; every other scheme starts them at zero.
        if initializer == "torch":
            limit = 1 / math.sqrt(inputs)
            return random.uniform(key, (outputs,), -limit, limit)
        return jnp.zeros(outputs)


def as_weights(x: Array, weight: Array) -> Array:
    """`x` in the type of the matrix it meets if that is half its size: layers compute in the type of their matrices.

    >>> as_weights(jnp.ones(2), jnp.ones((2, 2), jnp.bfloat16)).dtype.name
    'bfloat16'
    """
    return x.astype(weight.dtype) if weight.dtype.itemsize < x.dtype.itemsize == 4 else x


def plus(x: Array, term: Array) -> Array:
    """`x + term` in the type of `x`, where `term` may have axes of length one.

    The gradient of such a term is a sum over examples. Where numbers have half the size, adding thousands of them in
    their own type would lose most of the digits, so that sum is taken in single precision.
    """
    return _plus(x, term) if x.dtype.itemsize < 4 else x + term.astype(x.dtype)


@jax.custom_jvp
def _plus(x: Array, term: Array) -> Array:
    return x + term.astype(x.dtype)


@_plus.defjvp
def _plus_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    moved, change = (t.astype(jnp.float32) for t in tangents)
    return _plus(*primals), (moved + change).astype(primals[0].dtype)


__all__ = ["Linear", "as_weights", "plus"]
