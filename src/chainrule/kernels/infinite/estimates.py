"""Kernels of any network estimated from random ones of finite width, with standard errors.

The way out for layers without a rule, and the oracle for those that have one. Every draw is one network; both kernels
are means over draws, so what is left beside the stated error is the effect of the finite width.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key
from chainrule.probability.distributions.parameters import floating


class EstimatedKernels(NamedTuple):
    """Means over draws and their standard errors, one entry for every pair of rows of x and y."""

    nngp: np.ndarray
    nngp_error: np.ndarray
    ntk: np.ndarray
    ntk_error: np.ndarray


def monte_carlo_kernel(
    make: Callable[[Key], Callable[[Array], Array]], x: Any, y: Any = None, *, key: Key, draws: int = 100
) -> EstimatedKernels:
    """Both kernels of networks `make(key)`, such as `lambda key: network.finite(512, key, x.shape[1:])`.

    A network is a PyTree whose floating-point arrays are its parameters and a function of a batch, with outputs
    `(batch, outputs)` that count as separate draws of the covariance.

    >>> from chainrule.kernels.infinite import Dense
    >>> found = monte_carlo_kernel(lambda key: Dense(0).finite(1, key, 2), np.eye(2), key=jax.random.key(0), draws=50)
    >>> found.ntk.tolist()  # that of a linear model has no spread
    [[1.0, 0.0], [0.0, 1.0]]
    """
    whole("monte_carlo_kernel", "draws", draws, least=2)
    rows = floating(x)
    columns = rows if y is None else floating(y)
    if not jax.tree.leaves(eqx.filter(eqx.filter_eval_shape(make, key), _is_parameter)):
        raise ArgumentError(
            "monte_carlo_kernel(make): its networks have no parameters",
            remedy="say the shape of the inputs: network.finite(512, key, x.shape[1:])",
        )
    nngp, ntk = _drawn(make, rows, columns, jax.random.split(key, draws))
    return EstimatedKernels(*_mean_and_error(nngp), *_mean_and_error(ntk))


def _is_parameter(leaf: Any) -> bool:
    return eqx.is_inexact_array(leaf) or (
        isinstance(leaf, jax.ShapeDtypeStruct) and jnp.issubdtype(leaf.dtype, jnp.floating)
    )


@eqx.filter_jit
def _drawn(make: Callable[[Key], Any], x: Array, y: Array, keys: Array) -> tuple[Array, Array]:
    def one(key: Key) -> tuple[Array, Array]:
        parameters, rest = eqx.partition(make(key), eqx.is_inexact_array)

        def outputs(parameters: Any, batch: Array) -> Array:
            found: Array = eqx.combine(parameters, rest)(batch)
            return found

        def gradient(point: Array) -> Any:
            return jax.grad(lambda p: outputs(p, point[None]).reshape(-1)[0])(parameters)

        first, second = outputs(parameters, x), outputs(parameters, y)
        nngp = jnp.matmul(first, second.T, precision="highest") / first.shape[1]
        left, right = jax.lax.map(gradient, x), jax.lax.map(gradient, y)
        products = jax.tree.map(
            lambda a, b: jnp.matmul(a.reshape(len(a), -1), b.reshape(len(b), -1).T, precision="highest"),
            left,
            right,
        )
        return nngp, jnp.stack(jax.tree.leaves(products)).sum(axis=0)

    return jax.lax.map(one, keys)


def _mean_and_error(drawn: Array) -> tuple[np.ndarray, np.ndarray]:
    exact = np.asarray(drawn, np.float64)
    return exact.mean(axis=0), exact.std(axis=0, ddof=1) / np.sqrt(len(exact))


__all__ = ["EstimatedKernels", "monte_carlo_kernel"]
