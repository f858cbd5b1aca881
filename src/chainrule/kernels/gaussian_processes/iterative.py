"""Exact Gaussian process regression by iteration: ten thousand points and more, without a matrix of their pairs.

Weights come from preconditioned conjugate gradients, to a tolerance; the log-determinant in the evidence, and the trace
in its gradient, are means over random probe vectors, with their standard errors. Memory grows with the number of points
times the rank of the preconditioner and the number of probes; every step computes all kernel values once.
"""

import math
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.kernels.data_checks import checked_points
from chainrule.kernels.gaussian_processes import iterative_solver as solver
from chainrule.kernels.gaussian_processes.sparse import KINDS, checked_values
from chainrule.kernels.kernel import TILE, Kernel, a_kernel
from chainrule.kernels.pivoting import pivoted_points
from chainrule.kernels.precision import in_double, widened
from chainrule.probability.distributions.parameters import floating, positive

_COLUMNS = 64
"""New points whose variances are solved for together."""


class _Probed(NamedTuple):
    """What the compiled part of the evidence gives."""

    rest: Any
    """The evidence without the part of the determinant that the probes tell."""
    gradient: Any
    diagonal: Any
    beside: Any
    steps: Any
    residual: Any


class EstimatedEvidence(NamedTuple):
    """The log marginal likelihood, its slope, and how far both can be trusted."""

    value: float
    """In nats."""
    standard_error: float
    """Of the value, by the spread over probe vectors; what conjugate gradients left is not in it."""
    gradient: "IterativeGaussianProcess"
    """In the arrays of the process, by the same probe vectors."""
    steps: int
    residual: float
    """The largest share of a right-hand side that conjugate gradients left."""


@final
class IterativeGaussianProcess(eqx.Module):
    """A Gaussian process with noise whose kernel matrix is never stored.

    `rank` is that of the preconditioner; conjugate gradients end at a residual of `tolerance`, or after `limit` steps
    with an error that says what to change.

    >>> from chainrule.kernels import RBF
    >>> x = np.linspace(0, 6, 300)
    >>> found = IterativeGaussianProcess(RBF(1.0), 0.01).fit(x, np.sin(x))
    >>> round(float(found.predict([1.5], kind="latent")[0][0]), 2)
    1.0
    """

    kernel: Kernel
    log_noise: Scalar
    rank: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    limit: int = eqx.field(static=True)

    def __init__(
        self, kernel: Kernel, noise: Any = 0.1, *, rank: int = 100, tolerance: float = 1e-6, limit: int = 500
    ) -> None:
        self.kernel = a_kernel("IterativeGaussianProcess", kernel)
        self.log_noise = jnp.log(positive("IterativeGaussianProcess", "noise", floating(noise)))
        self.rank = whole("IterativeGaussianProcess", "rank", rank, least=0)
        self.limit = whole("IterativeGaussianProcess", "limit", limit)
        if not 0 < tolerance < 1:
            raise ArgumentError(
                f"IterativeGaussianProcess(tolerance={tolerance}): tolerance lies between 0 and 1"
            )
        self.tolerance = float(tolerance)

    def fit(self, x: Any, y: Any) -> "IterativePosterior":
        """The posterior given examples."""
        rows, values = checked_values("IterativeGaussianProcess.fit", x, y)
        factor = self._factor(rows)
        weights, residual, steps = _weights(self, rows, factor, values[:, None])
        self._check(float(np.max(residual)))
        return IterativePosterior(self, rows, values, factor, np.asarray(weights)[:, 0], np.asarray(steps))

    def evidence(self, x: Any, y: Any, key: Key, *, probes: int = 16) -> EstimatedEvidence:
        """The log marginal likelihood and its gradient from so many probe vectors."""
        rows, values = checked_values("IterativeGaussianProcess.evidence", x, y)
        whole("IterativeGaussianProcess.evidence", "probes", probes, least=2)
        found = _evidence(self, rows, self._factor(rows), values, key, probes)
        self._check(float(found.residual))
        logs = len(rows) * solver.mean_logs(found.diagonal, found.beside, int(found.steps))
        error = 0.5 * logs.std(ddof=1) / math.sqrt(probes)
        value = float(found.rest) - 0.5 * float(logs.mean())
        return EstimatedEvidence(value, float(error), found.gradient, int(found.steps), float(found.residual))

    def _factor(self, rows: np.ndarray) -> Float[np.ndarray, "rows rank"]:
        if not self.rank:
            return np.zeros((len(rows), 0))
        return pivoted_points(self.kernel, rows, self.rank).factor

    def _check(self, residual: float) -> None:
        if not residual <= self.tolerance:
            raise ArgumentError(
                f"IterativeGaussianProcess: after {self.limit} steps {residual:.2g} of a right-hand side is left; the "
                f"tolerance is {self.tolerance:g}",
                remedy="raise rank or limit, or the noise: small noise and long scales make the matrix hard to solve",
            )


@final
class IterativePosterior(eqx.Module):
    """What examples say about the function."""

    process: IterativeGaussianProcess
    x: Float[np.ndarray, "rows features"]
    y: Float[np.ndarray, " rows"]
    factor: Float[np.ndarray, "rows rank"]
    weights: Float[np.ndarray, " rows"]
    steps: np.ndarray
    """Of conjugate gradients that the weights took."""

    def predict(
        self, x: Any, *, kind: str = "observation", variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of new observations, or of the function itself (`kind="latent"`).

        Every variance is a solve of its own; without them (`variance=False`) they are NaN.
        """
        check_choice("predict", "kind", kind, KINDS)
        new = checked_points("predict", "x", x, self.x.shape[1])
        mean = np.asarray(_means(self.process.kernel, self.x, self.weights, new))
        if not variance:
            return mean, np.full(len(new), np.nan)
        noise = float(np.exp(np.float64(self.process.log_noise))) if kind == "observation" else 0.0
        parts = []
        for start in range(0, len(new), _COLUMNS):
            own, residual = _variances(self.process, self.x, self.factor, new[start : start + _COLUMNS])
            self.process._check(float(np.max(residual, initial=0.0)))
            parts.append(np.asarray(own))
        return mean, np.concatenate([*parts, np.zeros(0)]) + noise

    def optimize(
        self, steps: int = 50, *, rate: float = 0.1, probes: int = 16, key: Key | None = None
    ) -> "IterativePosterior":
        """The posterior after steps of Adam on kernel and noise along estimated gradients of the evidence."""
        key = jax.random.key(0) if key is None else key
        process: Any = self.process
        with jax.enable_x64(True):
            process = widened(process)
            adam = optax.adam(optax.cosine_decay_schedule(rate, whole("optimize", "steps", steps)))
            state = adam.init(eqx.filter(process, eqx.is_inexact_array))
            for number in range(steps):
                slope = process.evidence(
                    self.x, self.y, jax.random.fold_in(key, number), probes=probes
                ).gradient
                uphill = jax.tree.map(
                    lambda g: -jnp.asarray(g) / len(self.x), eqx.filter(slope, eqx.is_inexact_array)
                )
                updates, state = adam.update(uphill, state)
                process = eqx.apply_updates(process, updates)
            process = jax.tree.map(lambda a: np.asarray(a) if eqx.is_array(a) else a, process)
        again: IterativePosterior = process.fit(self.x, self.y)
        return again


def _near(process: IterativeGaussianProcess, factor: Array) -> solver.Preconditioner:
    return solver.preconditioner(factor, jnp.exp(process.log_noise))


def _solved(
    process: IterativeGaussianProcess, x: Array, near: solver.Preconditioner, right: Array
) -> solver.Solved:
    limit = min(process.limit, 10 * len(x))
    return solver.conjugate_gradients(process.kernel, x, near, right, process.tolerance, limit)


@in_double
@eqx.filter_jit
def _weights(process: IterativeGaussianProcess, x: Any, factor: Any, y: Any) -> tuple[Any, Any, Any]:
    found = _solved(process, x, _near(process, factor), y)
    return found.solution, found.residual, found.steps


@in_double
@eqx.filter_jit
def _evidence(
    process: IterativeGaussianProcess, x: Any, factor: Any, y: Any, key: Key, probes: int
) -> _Probed:
    near = _near(process, factor)
    drawn = near.draw(key, probes)
    found = _solved(process, x, near, jnp.concatenate([y[:, None], drawn], axis=1))
    weights, solved = found.solution[:, :1], found.solution[:, 1:]
    rest = -0.5 * (y @ weights[:, 0] + near.log_det + len(x) * math.log(2 * math.pi))
    white = near.solve(drawn)
    # Each probe at unit length in the geometry of the preconditioner: exact in the mean, and less spread.
    shares = -len(x) / (probes * (drawn * white).sum(axis=0))
    left = jnp.concatenate([weights, solved * shares[None]], axis=1)
    right = jnp.concatenate([weights, white], axis=1)

    def form(process: IterativeGaussianProcess) -> Scalar:
        kernel = solver.kernel_form(process.kernel, x, left, right)
        return 0.5 * (kernel + jnp.exp(process.log_noise) * (left * right).sum())

    gradient = eqx.filter_grad(form)(process)
    return _Probed(rest, gradient, found.diagonal[1:], found.beside[1:], found.steps, found.residual.max())


@in_double
@eqx.filter_jit
def _variances(process: IterativeGaussianProcess, x: Any, factor: Any, new: Any) -> tuple[Any, Any]:
    across = process.kernel.tile(x, new)
    found = _solved(process, x, _near(process, factor), across)
    own = process.kernel.diagonal(new) - (across * found.solution).sum(axis=0)
    return jnp.maximum(own, 0.0), found.residual


@in_double
def _means(kernel: Kernel, x: Array, weights: Array, new: Array) -> Array:
    block = max(1, TILE // len(x))
    parts = [_tile_means(kernel, x, weights, new[i : i + block]) for i in range(0, max(len(new), 1), block)]
    return jnp.concatenate(parts)


@eqx.filter_jit
def _tile_means(kernel: Kernel, x: Array, weights: Array, new: Array) -> Array:
    return kernel.tile(new, x) @ weights


__all__ = ["EstimatedEvidence", "IterativeGaussianProcess", "IterativePosterior"]
