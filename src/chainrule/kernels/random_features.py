"""Random features of the Gaussian kernel `exp(-g |x - y|²)`, and linear models on them.

The inner product of the features of x and y is the kernel on average. Trigonometric features are bounded (Rahimi and
Recht, 2007). Positive ones follow from `exp(-g|x|²) exp(-g|y|²) exp(2g x·y)` and the features of the exponential
kernel, and stay accurate in relation to the kernel where it is tiny (Choromanski et al., 2021).
"""

import math
from dataclasses import dataclass
from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from chainrule.core.checks import check_class_numbers
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn.attention.features import directions, log_features
from chainrule.probability.distances import squared_distances


@final
class GaussianFeatures(eqx.Module):
    """A fixed random map from vectors to features.

    >>> features = GaussianFeatures(2, count=2000, g=0.5, key=jax.random.key(0))
    >>> x = jnp.array([[0.5, 0.0], [0.25, 0.5]])
    >>> float((features(x) @ features(x).T)[0, 1]), float(gram(x, 0.5)[0, 1])
    (0.86..., 0.855...)
    """

    w: Float[Array, "draws size"]
    phase: Float[Array, " draws"]
    g: float = eqx.field(static=True)
    kind: str = eqx.field(static=True)

    def __init__(
        self,
        size: int,
        *,
        count: int,
        g: float,
        kind: Literal["trigonometric", "positive", "hyperbolic"] = "trigonometric",
        orthogonal: bool = True,
        key: Key,
    ) -> None:
        check_choice("GaussianFeatures", "kind", kind, ("trigonometric", "positive", "hyperbolic"))
        if g <= 0 or count < 1 or (kind == "hyperbolic" and count % 2):
            raise ArgumentError(
                f"GaussianFeatures(count={count}, g={g}): g must be positive and count at least 1, even if hyperbolic"
            )
        draws = count // 2 if kind == "hyperbolic" else count
        first, second = jax.random.split(key)
        self.w = directions(first, draws, size, orthogonal=orthogonal)
        self.phase = jax.random.uniform(second, (draws,), maxval=2 * math.pi)
        self.g = g
        self.kind = kind

    def __call__(self, x: Float[Array, "batch size"]) -> Float[Array, "batch features"]:
        """The features of every row."""
        scaled = math.sqrt(2 * self.g) * x
        if self.kind == "trigonometric":
            return math.sqrt(2 / len(self.phase)) * jnp.cos(scaled @ self.w.T + self.phase[None, :])
        logs = log_features(scaled, self.w, self.kind == "hyperbolic")
        return jnp.exp(logs - self.g * jnp.square(x).sum(axis=-1, keepdims=True)) / math.sqrt(logs.shape[-1])


def gram(x: Float[Array, "batch size"], g: float) -> Float[Array, "batch batch"]:
    """The exact matrix `exp(-g |x_i - x_j|²)`."""
    return jnp.exp(-g * squared_distances(x, x))


@final
@dataclass(frozen=True)
class GramError:
    """How far features are from the kernel they stand for."""

    root_mean_square: float
    largest: float
    relative: float
    """In the Frobenius norm."""


def gram_error(features: GaussianFeatures, x: Float[Array, "batch size"]) -> GramError:
    """Errors of the entries of the Gram matrix."""
    exact, psi = gram(x, features.g), features(x)
    error = np.asarray(psi @ psi.T - exact)
    return GramError(
        float(np.sqrt(np.square(error).mean())),
        float(np.abs(error).max()),
        float(np.linalg.norm(error) / np.linalg.norm(np.asarray(exact))),
    )


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


__all__ = ["GaussianFeatures", "GramError", "gram", "gram_error", "logistic", "ridge"]
