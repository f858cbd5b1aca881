"""What EM climbs: the evidence lower bound of a mixture for any responsibilities.

With q(k|x) for every row, `E_q log p(x, k) + H(q) = log p(x) - KL(q || p(k|x))`. The expectation sets q to the
posterior, where the bound touches the log-likelihood; the maximisation moves the parameters with q held: both rise.

Reference: Neal and Hinton, A view of the EM algorithm that justifies incremental, sparse, and other variants, 1998.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.probability.mixtures.expectation_maximization import (
    DeviceParameters,
    MixtureParameters,
    component_scores,
)

Shares = Float[np.ndarray, "rows components"]


def responsibilities(parameters: MixtureParameters, x: Any) -> Shares:
    """The posterior of the component given each row, in double precision."""
    return np.asarray(scipy.special.softmax(_log_joint(parameters, x), axis=1))


def lower_bound(parameters: MixtureParameters, x: Any, shares: Any) -> float:
    """The mean over rows of `E_q log p(x, k) + H(q)` for responsibilities `shares`, in nats.

    >>> found = MixtureParameters(np.array([0.5, 0.5]), np.array([[-1.0], [1.0]]), np.ones((2, 1, 1)))
    >>> x = np.array([[0.0], [2.0]])
    >>> round(lower_bound(found, x, responsibilities(found, x)), 4), round(lower_bound(found, x, [[0.5, 0.5]] * 2), 4)
    (-1.7564, -2.4189)
    """
    q = np.asarray(shares, np.float64)
    logs = _log_joint(parameters, x)
    if q.shape != logs.shape or (q < 0).any() or np.abs(q.sum(axis=1) - 1).max(initial=0) > 1e-6:
        raise ArgumentError(
            f"lower_bound(shares): shape {q.shape}; every one of {len(logs)} rows needs {logs.shape[1]} "
            "responsibilities that sum to 1",
            remedy="responsibilities(parameters, x) are the best ones",
        )
    terms = np.where(q > 0, q * np.where(q > 0, logs, 0.0), 0.0) + scipy.special.entr(q)
    return float(terms.sum(axis=1).mean())


def _log_joint(parameters: MixtureParameters, x: Any) -> Shares:
    with jax.enable_x64(True):
        on_device = DeviceParameters(*(jnp.asarray(part, jnp.float64) for part in parameters))
        return np.asarray(_compiled(on_device, jnp.asarray(np.asarray(x, np.float64))))


@jax.jit
def _compiled(parameters: DeviceParameters, x: Array) -> Array:
    return component_scores(parameters, "full")(x)


__all__ = ["lower_bound", "responsibilities"]
