"""Training predicted without training: the distribution of a wide network's outputs after gradient descent.

Over initialisations the outputs before training are Gaussian with covariance K (`nngp`), and gradient descent is linear
in them. So at every time they are Gaussian: with `A = Theta_x Theta^-1 (I - exp(-rate t Theta))` their mean is `A y`
and their covariance `K_xx + A K A' - A K_x' - K_x A'` (Lee et al., Wide neural networks of any depth evolve as linear
models under gradient descent, 2019).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array
from chainrule.kernels.infinite.spectrum import Descent, decomposed
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.precision import in_double

KernelFunction = Kernel | Callable[[Any, Any], Any]
"""A kernel, or a function of two batches that gives the matrix between them, such as `network.ntk`."""


class TrainedPrediction(NamedTuple):
    """A Gaussian for every new point; with several times, along a first axis."""

    mean: np.ndarray
    """`(points,)`, or `(points, outputs)` where targets have several outputs."""
    covariance: np.ndarray
    """`(points, points)`; outputs are independent and share it."""

    @property
    def variance(self) -> np.ndarray:
        """The diagonal of the covariance."""
        return np.diagonal(self.covariance, axis1=-2, axis2=-1)


@final
@dataclass(frozen=True)
class TrainedEnsemble:
    """Networks of infinite width, trained from every initialisation on the same data."""

    ntk: KernelFunction
    """The kernel that trains: the tangent kernel, or `nngp` where only the last layer learns."""
    nngp: KernelFunction
    x: np.ndarray
    y: np.ndarray
    covariance: np.ndarray
    """`nngp` of the training points."""
    descent: Descent
    times: np.ndarray

    def __call__(self, x_new: Any) -> TrainedPrediction:
        """The distribution of the outputs at new points."""
        theta = matrix_of(self.ntk, x_new, self.x)
        cross = theta if self.nngp is self.ntk else matrix_of(self.nngp, x_new, self.x)
        own = matrix_of(self.nngp, x_new, x_new)
        times = np.atleast_1d(self.times)
        found = _predicted(self.descent, times, theta, cross, own, self.covariance, self.y)
        mean, covariance = (np.asarray(part) for part in found)
        return (
            TrainedPrediction(mean, covariance)
            if self.times.ndim
            else TrainedPrediction(mean[0], covariance[0])
        )

    def training_outputs(self) -> np.ndarray:
        """Mean outputs at the training points."""
        theta = _theta(self.descent)
        mean = np.stack([theta @ _applied(self.descent, t, self.y) for t in np.atleast_1d(self.times)])
        return mean if self.times.ndim else mean[0]


def gradient_descent(
    ntk: KernelFunction,
    nngp: KernelFunction,
    x: Any,
    y: Any,
    t: Any = math.inf,
    *,
    learning_rate: float = 1.0,
    discrete: bool = False,
    get: str = "ntk",
    ridge: float = 0.0,
) -> TrainedEnsemble:
    """Networks of infinite width after training for time t (one, several, or infinity) on the loss `½ sum (f - y)²`.

    Time runs in units of `1 / learning_rate`; `discrete` counts steps. `get="nngp"` trains the last layer alone, which
    ends in the Bayesian posterior. `ridge` is added to the diagonal of the kernel that trains: the penalty
    `½ ridge |parameters - initial parameters|²`, or the variance of noise of the targets.

    >>> from chainrule.kernels.infinite import Dense
    >>> network = Dense(1, "relu")
    >>> x, y = [[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]], [1.0, -1.0, 0.5]
    >>> mean, covariance = gradient_descent(network.ntk, network.nngp, x, y, 1.0)([[0.8, 0.6]])
    >>> print(f"{mean[0]:.4f} {covariance[0, 0]:.4f}")
    -0.0533 0.0354
    """
    check_choice("gradient_descent", "get", get, ("ntk", "nngp"))
    kernels: dict[str, Any] = {"ntk": ntk, "nngp": nngp}
    for name, kernel in kernels.items():
        if not callable(kernel):
            raise ArgumentError(
                f"gradient_descent({name}): a kernel is needed, a function of two batches, not a "
                f"{type(kernel).__name__}",
                remedy="such as network.ntk; predictions at new points need its values there, too",
            )
    inputs, targets, times = _inputs(x), _targets(y), np.asarray(t, np.float64)
    if len(targets) != len(inputs):
        raise ArgumentError(f"gradient_descent: x has {len(inputs)} points and y has {len(targets)}")
    if times.ndim > 1 or not (times >= 0).all():
        raise ArgumentError(f"gradient_descent(t={t}): times are numbers of at least 0, one or a row of them")
    if discrete and not (np.isinf(times) | (times == np.floor(np.where(np.isinf(times), 0, times)))).all():
        raise ArgumentError(f"gradient_descent(t={t}): discrete steps are whole numbers")
    if not 0 <= ridge < math.inf:
        raise ArgumentError(f"gradient_descent(ridge={ridge}): ridge must be finite and at least 0")
    covariance = matrix_of(nngp, inputs, None)
    trained = nngp if get == "nngp" else ntk
    theta = covariance if trained is nngp else matrix_of(trained, inputs, None)
    descent = decomposed(theta + ridge * np.eye(len(theta)), rate=learning_rate, discrete=discrete)
    return TrainedEnsemble(trained, nngp, inputs, targets, covariance, descent, times)


def matrix_of(kernel: KernelFunction, x: Any, y: Any) -> np.ndarray:
    """The matrix of a kernel between two batches, or of one with itself, in double precision."""
    with jax.enable_x64(True):
        rows = _inputs(x)
        columns = None if y is None else _inputs(y)
        if isinstance(kernel, Kernel):
            return np.asarray(kernel.gram(rows, columns), np.float64)
        return np.asarray(kernel(rows, columns), np.float64)


def _inputs(x: Any) -> np.ndarray:
    exact = np.asarray(x, np.float64)
    if exact.ndim < 2:
        raise ArgumentError(
            f"gradient_descent(x): points lie along the first axis, not in an array of shape {exact.shape}",
            remedy="use x[:, None] for points of one coordinate",
        )
    return exact


def _targets(y: Any) -> np.ndarray:
    exact = np.asarray(y, np.float64)
    if exact.ndim not in (1, 2):
        raise ArgumentError(
            f"gradient_descent(y): shape {exact.shape}; targets are (points,) or (points, outputs)"
        )
    if not np.isfinite(exact).all():
        raise ArgumentError("gradient_descent(y): targets must be finite")
    return exact


@in_double
def _predicted(
    descent: Descent, times: Any, theta: Any, cross: Any, own: Any, covariance: Any, y: Any
) -> tuple[Array, Array]:
    return _over_times(descent, times, theta, cross, own, covariance, y)


@eqx.filter_jit
def _over_times(
    descent: Descent, times: Array, theta: Array, cross: Array, own: Array, covariance: Array, y: Array
) -> tuple[Array, Array]:
    # All in the basis of the eigenvectors: A = B diag(w) V', so that each time costs products alone.
    turned = jnp.matmul(theta, descent.vectors, precision="highest")
    inner = jnp.matmul(descent.vectors.T, y, precision="highest")
    rotated = descent.vectors.T @ covariance @ descent.vectors
    crossed = jnp.matmul(cross, descent.vectors, precision="highest")

    def at(t: Array) -> tuple[Array, Array]:
        weights = descent.inverse(t)
        learnt = turned * weights[None]
        mixed = learnt @ crossed.T
        return learnt @ inner, own + learnt @ rotated @ learnt.T - mixed - mixed.T

    return jax.lax.map(at, times)


@in_double
def _applied(descent: Descent, t: Any, y: Any) -> Array:
    return descent.applied(jnp.asarray(t), y)


@in_double
def _theta(descent: Descent) -> Array:
    return jnp.asarray((descent.vectors * descent.values[None]) @ descent.vectors.T)


__all__ = ["KernelFunction", "TrainedEnsemble", "TrainedPrediction", "gradient_descent", "matrix_of"]
