"""Climbing an objective by L-BFGS on the host: of a vector within bounds, or of the arrays of a PyTree.

Bounds and evidences of Gaussian processes are smooth functions of a few logarithms and inducing inputs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float
from scipy import optimize

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Scalar
from chainrule.kernels.functions import Precomputed
from chainrule.kernels.precision import widened

_REACH = 20.0
"""How far any number may move from where it began: logarithms that leave it mean scales of no use."""

_TOO_FAR = 1e300
"""What stands for a value that is not finite."""


class Climbed(NamedTuple):
    """What `climbed` found."""

    best: Any
    """The tree, its arrays NumPy's."""
    value: float
    values: np.ndarray
    """The objective after every step."""
    converged: bool


class Lowest(NamedTuple):
    """What `lowest` found."""

    at: Float[np.ndarray, " size"]
    value: float
    values: Float[np.ndarray, " steps"]
    """After every step."""
    evaluations: int
    converged: bool


def lowest(
    judge: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: Float[np.ndarray, " size"],
    bounds: Float[np.ndarray, "size 2"],
    steps: int,
) -> Lowest:
    """The lowest value of a function that gives its gradient too, within bounds, that L-BFGS finds in so many steps.

    Where value or gradient are not finite a step was too far: the line search comes back from it.

    >>> bounds = np.array([[-2.0, 2.0], [0.5, 2.0]])
    >>> np.abs(lowest(lambda x: (float(x @ x), 2 * x), np.ones(2), bounds, 50).at).round(6).tolist()
    [0.0, 0.5]
    """
    seen: dict[bytes, float] = {}

    def tried(at: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = judge(at)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            value, gradient = _TOO_FAR, np.zeros_like(at)
        seen[at.tobytes()] = value
        return value, gradient

    values: list[float] = []
    found = optimize.minimize(
        tried,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=lambda at: values.append(seen.get(np.asarray(at).tobytes(), np.nan)),
        options={"maxiter": steps},
    )
    return Lowest(found.x, float(found.fun), np.array(values), int(found.nfev), bool(found.success))


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

        def judge(flat: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = _sloped(objective, unravel(jnp.asarray(flat)), rest, given)
            return -float(value), -np.asarray(ravel_pytree(gradient)[0])

        first = np.asarray(flat)
        found = lowest(judge, first, np.stack([first - _REACH, first + _REACH], axis=1), most)
        if found.value >= _TOO_FAR:
            raise ArgumentError("climbed(start): the objective or its gradient is not finite where it begins")
        best = eqx.combine(unravel(jnp.asarray(found.at)), rest)
        plain = jax.tree.map(lambda a: np.asarray(a) if isinstance(a, jax.Array) else a, best)
        return Climbed(plain, -found.value, -found.values, found.converged)


@eqx.filter_jit
def _sloped(objective: Callable[..., Scalar], arrays: Any, rest: Any, given: Any) -> Any:
    """The objective and its gradient; compiled once for all climbs of one objective over arrays of the same shapes."""
    return jax.value_and_grad(lambda arrays: objective(eqx.combine(arrays, rest), *given))(arrays)


def _movable(tree: Any) -> Any:
    """Which leaves are learnt: arrays of floating-point numbers, but no tables of similarities."""
    return jax.tree.map(
        lambda node: not isinstance(node, Precomputed) and eqx.is_inexact_array(node),
        tree,
        is_leaf=lambda node: isinstance(node, Precomputed),
    )


__all__ = ["Climbed", "Lowest", "climbed", "lowest"]
