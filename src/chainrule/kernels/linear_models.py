"""Linear models on features: ridge and logistic regression.

On random or landmark features they stand for the machine on the kernel, at a cost that grows with the number of
features instead of the number of points.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from chainrule.core.checks import check_class_numbers
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int


def ridge(
    psi: Float[Array, "batch features"], y: Float[Array, "batch outputs"], penalty: float
) -> Float[Array, "features outputs"]:
    """Weights with the least `|psi w - y|² + penalty |w|²`; predict with `psi @ w`."""
    if penalty <= 0:
        raise ArgumentError(
            f"ridge(penalty={penalty}): features may be dependent, so the penalty must be positive"
        )
    normal = psi.T @ psi + penalty * jnp.eye(psi.shape[1], dtype=psi.dtype)
    return jax.scipy.linalg.solve(normal, psi.T @ y, assume_a="pos")


def logistic(
    psi: Float[Array, "batch features"], labels: Int[Array, " batch"], classes: int, penalty: float
) -> Float[Array, "features classes"]:
    """Weights of a linear classifier: least cross-entropy (summed) plus `penalty/2 |w|²`; its logits are `psi @ w`."""
    if penalty <= 0:
        raise ArgumentError(
            f"logistic(penalty={penalty}): without a penalty separable data have no best weights"
        )
    if labels.shape != psi.shape[:1]:
        raise ArgumentError(f"logistic: {labels.shape} labels for {psi.shape[0]} rows of features")
    check_class_numbers("logistic", "labels", labels, classes)
    shape = (psi.shape[1], classes)

    @jax.jit
    def objective(flat: Array) -> tuple[Array, Array]:
        def total(flat: Array) -> Array:
            logs = jax.nn.log_softmax(psi @ flat.reshape(shape), axis=-1)
            return (
                -jnp.take_along_axis(logs, labels[:, None], axis=1).sum()
                + penalty / 2 * jnp.square(flat).sum()
            )

        return jax.value_and_grad(total)(flat)

    def host(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = objective(jnp.asarray(flat, psi.dtype))
        return float(value), np.asarray(slope, np.float64)

    found = optimize.minimize(host, np.zeros(math.prod(shape)), jac=True, method="L-BFGS-B")
    return jnp.asarray(found.x, psi.dtype).reshape(shape)


__all__ = ["logistic", "ridge"]
