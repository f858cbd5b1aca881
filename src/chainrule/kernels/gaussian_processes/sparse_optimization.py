"""Climbing an objective over the arrays of a PyTree: L-BFGS on the host, value and gradient compiled.

Bounds and evidences of Gaussian processes are smooth functions of a few logarithms and inducing inputs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy import optimize

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Scalar
from chainrule.kernels.functions import Precomputed
from chainrule.kernels.precision import widened

_REACH = 20.0
"""How far any number may move from where it began: logarithms that leave it mean scales of no use."""


class Climbed(NamedTuple):
    """What `climbed` found."""

    best: Any
    """The tree, its arrays NumPy's."""
    value: float
    values: np.ndarray
    """The objective after every step."""
    converged: bool


def climbed(objective: Callable[..., Scalar], start: Any, *arguments: Any, steps: int = 200) -> Climbed:
    """The tree whose floating-point arrays make `objective(tree, *arguments)` as large as L-BFGS finds.

    >>> climbed(lambda x: -((x - 3) ** 2).sum(), jnp.zeros(2)).best.round(4).tolist()
    [3.0, 3.0]
    """
    most = whole("climbed", "steps", steps)
    with jax.enable_x64(True):
        wide = widened(start)
        arrays, rest = eqx.partition(wide, _movable(wide))
        flat, unravel = ravel_pytree(arrays)
        given = widened(arguments)

        @eqx.filter_jit
        def slope(flat: Any, given: Any) -> Any:
            return jax.value_and_grad(lambda flat: -objective(eqx.combine(unravel(flat), rest), *given))(flat)

        seen: dict[bytes, float] = {}

        def host(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = (np.asarray(part) for part in slope(jnp.asarray(flat), given))
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                return 1e300, np.zeros_like(flat)  # a step too far: the line search comes back from it
            seen[flat.tobytes()] = float(value)
            return float(value), gradient

        first = np.asarray(flat)
        if host(first)[0] >= 1e300:
            raise ArgumentError("climbed(start): the objective or its gradient is not finite where it begins")
        values: list[float] = []
        found = optimize.minimize(
            host,
            first,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(first - _REACH, first + _REACH, strict=True)),
            callback=lambda at: values.append(-seen.get(np.asarray(at).tobytes(), np.nan)),
            options={"maxiter": most},
        )
        best = eqx.combine(unravel(jnp.asarray(found.x)), rest)
        plain = jax.tree.map(lambda a: np.asarray(a) if isinstance(a, jax.Array) else a, best)
        return Climbed(plain, -float(found.fun), np.array(values), bool(found.success))


def _movable(tree: Any) -> Any:
    """Which leaves are learnt: arrays of floating-point numbers, but no tables of similarities."""
    return jax.tree.map(
        lambda node: not isinstance(node, Precomputed) and eqx.is_inexact_array(node),
        tree,
        is_leaf=lambda node: isinstance(node, Precomputed),
    )


__all__ = ["Climbed", "climbed"]
