"""Networks for tests of tangent kernels, and their kernels by brute force."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

Params = dict[str, np.ndarray]


def mixed_params(seed: int = 0) -> Params:
    """For `mixed`: a convolution, a dense layer of many positions, a tied matrix, a scale, a table, a wide layer."""
    noise = np.random.default_rng(seed)
    shapes = {
        "conv": (3, 2, 4), "dense": (4, 5), "tied": (5, 5), "scale": (5,), "bias": (5,), "table": (3, 5), "out": (15, 3)
    }  # fmt: skip
    return {name: noise.normal(size=shape) for name, shape in shapes.items()}


def mixed(params: Any, x: Any) -> Any:
    """Everything that the search for layers has to tell apart; x is (batch, 6, 2)."""
    h = jax.lax.conv_general_dilated(
        x, params["conv"] / 2.0, (2,), [(1, 1)], dimension_numbers=("NHC", "HIO", "NHC")
    )
    h = jnp.tanh(h @ (0.5 * params["dense"]) + params["bias"][None, None])
    h = jnp.tanh(h @ params["tied"]) @ params["tied"].T * params["scale"][None, None]
    h = h + params["table"][None]
    return jax.nn.relu(h.reshape(len(x), -1)) @ params["out"].T.reshape(3, 15).T


def examples(count: int, shape: Sequence[int], seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, *shape))


def brute_force(f: Callable[[Any, Any], Any], params: Any, x: Any, y: Any) -> np.ndarray:
    """Inner products of rows of Jacobians, in all outputs."""
    flat, back = ravel_pytree(params)

    def jacobian(batch: Any) -> np.ndarray:
        return np.asarray(jax.jit(jax.jacfwd(lambda p: f(back(p), batch)))(flat))

    return np.einsum("nop,mrp->nmor", jacobian(x), jacobian(y))
