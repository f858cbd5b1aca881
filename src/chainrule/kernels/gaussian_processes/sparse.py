"""Sparse Gaussian process regression: a few inducing inputs Z stand for all points.

With `Q = K_nm K_mm^-1 K_mn` the bound `log N(t | 0, Q + noise I) - tr(K - Q) / (2 noise)` never exceeds the evidence
and equals it where Z holds all inputs, so that Z can be learnt with the kernel. All that the data enter through is an
M x M matrix and an M-vector, which are summed over tiles of rows: no matrix with a side of N is held, and time grows
with N alone.

Reference: Titsias, Variational learning of inducing variables in sparse Gaussian processes, 2009.
"""

import math
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.data_checks import checked_points, checked_targets
from chainrule.kernels.gaussian_processes.climbing import climbed
from chainrule.kernels.gaussian_processes.stochastic import INDUCING
from chainrule.kernels.kernel import TILE, Kernel, Points, a_kernel, points
from chainrule.kernels.nystrom import landmarks
from chainrule.kernels.positive import Factored, factored
from chainrule.kernels.precision import in_double
from chainrule.probability.distributions.parameters import floating, positive

KINDS = ("observation", "latent")


class Collapsed(NamedTuple):
    """What the posterior of the inducing values needs of the data."""

    prior: Factored
    """Of the kernel of the inducing inputs."""
    learnt: Factored
    """Of `I + A A' / noise`, where A is the whitened kernel of inducing inputs and rows."""
    weights: Float[Array, " inducing"]
    """The mean of the whitened inducing values."""
    bound: Scalar


@final
class SparseGaussianProcess(eqx.Module):
    """A Gaussian process with noise, seen through inducing inputs; `inducing` is their number, or where they are.

    A number of them is placed by k-means where there are more different rows than that. `fit` keeps them there;
    `optimize` on what it returns moves them, the kernel and the noise to where the bound is highest.

    >>> from chainrule.kernels import RBF
    >>> x = np.linspace(0, 6, 200)
    >>> found = SparseGaussianProcess(RBF(1.0), 0.01, inducing=10).fit(x, np.sin(x))
    >>> mean, variance = found.predict([1.5], kind="latent")
    >>> round(float(mean[0]), 2), bool(variance[0] < 0.01)
    (1.0, True)
    """

    kernel: Kernel
    log_noise: Scalar
    inducing: Float[Array | np.ndarray, "inducing features"] | int = INDUCING

    def __init__(self, kernel: Kernel, noise: Any = 0.1, inducing: Any = INDUCING) -> None:
        self.kernel = a_kernel("SparseGaussianProcess", kernel)
        self.log_noise = jnp.log(positive("SparseGaussianProcess", "noise", floating(noise)))
        if np.ndim(inducing) == 0:
            self.inducing = whole("SparseGaussianProcess", "inducing", inducing)
        else:
            self.inducing = points("SparseGaussianProcess", "inducing", inducing)

    @property
    def noise(self) -> Scalar:
        """The variance of an observation around the function."""
        return jnp.exp(self.log_noise)

    def fit(self, x: Any, y: Any, *, seed: int = 0) -> "SparsePosterior":
        """The posterior given examples, the inducing inputs placed if they were a number."""
        rows, values = checked_values("SparseGaussianProcess.fit", x, y)
        placed = self.inducing
        if isinstance(placed, int):
            placed = inducing_inputs(self.kernel, rows, placed, seed=seed)
        _same_features("SparseGaussianProcess.fit", placed, rows)
        process = eqx.tree_at(lambda p: p.inducing, self, np.asarray(placed, np.float64))
        return SparsePosterior(process, rows, values, Collapsed(*_collapsed(process, rows, values)))

    def bound(self, x: Any, y: Any) -> Scalar:
        """The lower bound of the log evidence, in nats; differentiable, and traced code itself."""
        if isinstance(self.inducing, int):
            raise ArgumentError(
                f"SparseGaussianProcess.bound: where the {self.inducing} inducing inputs are is not known yet",
                remedy="fit(x, y) places them and has the bound; or give their places: inducing=x[:100]",
            )
        rows, values = points("SparseGaussianProcess.bound", "x", x), floating(y)
        _same_features("SparseGaussianProcess.bound", self.inducing, rows)
        if values.shape != (len(rows),):
            raise ArgumentError(
                f"SparseGaussianProcess.bound(y): one number for each of {len(rows)} points, not {values.shape}"
            )
        return collapse(self, rows, values).bound


@final
class SparsePosterior(eqx.Module):
    """What examples say about the function, by the inducing values."""

    process: SparseGaussianProcess
    x: Float[np.ndarray, "rows features"]
    y: Float[np.ndarray, " rows"]
    collapsed: Collapsed

    @property
    def bound(self) -> float:
        """The lower bound of the log evidence, in nats."""
        return float(self.collapsed.bound)

    @property
    def inducing(self) -> Float[np.ndarray, "inducing features"]:
        """Where the inducing inputs are."""
        return np.asarray(self.process.inducing)

    def predict(self, x: Any, *, kind: str = "observation") -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of new observations, or of the function itself (`kind="latent"`)."""
        check_choice("predict", "kind", kind, KINDS)
        new = checked_points("predict", "x", x, self.inducing.shape[1])
        mean, variance = _predicted(self.process, self.collapsed, new)
        noise = float(np.exp(np.float64(self.process.log_noise))) if kind == "observation" else 0.0
        return np.asarray(mean), np.asarray(variance) + noise

    def optimize(self, steps: int = 200, *, move: bool = True) -> "SparsePosterior":
        """The posterior where L-BFGS finds the bound highest: kernel, noise and, if they `move`, inducing inputs."""
        process = self.process
        free = process if move else (process.kernel, process.log_noise)
        climb = climbed(_moving_bound if move else _still_bound, free, process, self.x, self.y, steps=steps)
        best = climb.best if move else _with_parameters(process, climb.best)
        again: SparsePosterior = best.fit(self.x, self.y)
        return again


def _same_features(where: str, placed: Any, rows: Any) -> None:
    if placed.shape[1] != rows.shape[1]:
        raise ArgumentError(
            f"{where}: inducing inputs have {placed.shape[1]} features and x has {rows.shape[1]}"
        )


def _moving_bound(free: SparseGaussianProcess, process: SparseGaussianProcess, x: Array, y: Array) -> Scalar:
    del process
    return free.bound(x, y)


def _with_parameters(process: SparseGaussianProcess, free: tuple[Kernel, Any]) -> SparseGaussianProcess:
    return eqx.tree_at(lambda p: (p.kernel, p.log_noise), process, free)


def _still_bound(free: tuple[Kernel, Any], process: SparseGaussianProcess, x: Array, y: Array) -> Scalar:
    return _with_parameters(process, free).bound(x, y)


def collapse(process: SparseGaussianProcess, x: Points, y: Float[Array, " rows"]) -> Collapsed:
    """Sums over tiles of rows, then the closed form; a derivative goes through the tiles once more."""
    kernel, noise = process.kernel, process.noise
    placed = jnp.asarray(process.inducing)
    prior = factored(kernel.tile(placed, placed), "kernel of the inducing inputs")
    # A product with the inverse factor, and its derivative, take half the time of solving for every tile.
    whitening = prior.whiten(jnp.eye(len(placed), dtype=y.dtype))
    rows, size = len(x), min(len(x), max(1, TILE // len(placed)))
    tiles = -(-rows // size)
    padded = jnp.pad(x, ((0, tiles * size - rows), (0, 0)), mode="edge").reshape(tiles, size, -1)
    targets = jnp.pad(y, (0, tiles * size - rows)).reshape(tiles, size)
    there = (jnp.arange(tiles * size) < rows).astype(y.dtype).reshape(tiles, size)

    @jax.checkpoint
    def add(sums: tuple[Array, ...], tile: tuple[Array, ...]) -> tuple[tuple[Array, ...], None]:
        here, values, real = tile
        seen = whitening @ (kernel.tile(placed, here) * real[None, :])
        own = (kernel.diagonal(here) * real).sum()
        return jax.tree.map(jnp.add, sums, (_squared(seen), seen @ values, own)), None

    count = len(placed)
    zeros = jnp.zeros((count, count), y.dtype), jnp.zeros(count, y.dtype), jnp.zeros((), y.dtype)
    (square, across, own), _ = jax.lax.scan(add, zeros, (padded, targets, there))
    learnt = factored(jnp.eye(count, dtype=y.dtype) + square / noise, "I + A A' / noise")
    white = learnt.whiten(across) / noise
    evidence = -0.5 * (
        rows * (math.log(2 * math.pi) + process.log_noise)
        + learnt.log_det
        + jnp.square(y).sum() / noise
        - jnp.square(white).sum()
    )
    # The trace of K - Q is not negative; rounding may say otherwise where Z holds all inputs.
    left = jnp.maximum(own - jnp.trace(square), 0.0)
    return Collapsed(prior, learnt, learnt.solve(across) / noise, evidence - 0.5 * left / noise)


@jax.custom_jvp
def _squared(a: Float[Array, "rows columns"]) -> Float[Array, "rows rows"]:
    """`a a'`; the two halves of its derivative are one product."""
    return a @ a.T


@_squared.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    half = tangents[0] @ primals[0].T
    return _squared(primals[0]), half + half.T


@in_double
@eqx.filter_jit
def _collapsed(process: SparseGaussianProcess, x: Array, y: Array) -> tuple[Any, ...]:
    return tuple(collapse(process, x, y))


@in_double
def _predicted(process: SparseGaussianProcess, collapsed: Collapsed, x: Array) -> tuple[Array, Array]:
    block = max(1, TILE // len(collapsed.weights))
    parts = [_tile(process, collapsed, x[i : i + block]) for i in range(0, max(len(x), 1), block)]
    return jnp.concatenate([mean for mean, _ in parts]), jnp.concatenate([spread for _, spread in parts])


@eqx.filter_jit
def _tile(process: SparseGaussianProcess, collapsed: Collapsed, x: Array) -> tuple[Array, Array]:
    prior, learnt = Factored(*collapsed.prior), Factored(*collapsed.learnt)
    seen = prior.whiten(process.kernel.tile(jnp.asarray(process.inducing), x))
    own = process.kernel.diagonal(x)
    variance = own - jnp.square(seen).sum(axis=0) + jnp.square(learnt.whiten(seen)).sum(axis=0)
    return seen.T @ collapsed.weights, jnp.maximum(variance, 0.0)


def inducing_inputs(
    kernel: Kernel, x: Float[np.ndarray, "rows features"], count: int = INDUCING, *, seed: int = 0
) -> Float[np.ndarray, "inducing features"]:
    """Where inducing inputs begin: the means of clusters, or all different rows where there are no more than that.

    >>> from chainrule.kernels import RBF
    >>> inducing_inputs(RBF(1.0), np.array([[0.0], [1.0], [1.0]]), 5).tolist()
    [[0.0], [1.0]]
    """
    rows = np.asarray(x, np.float64)
    few = np.unique(rows[: 4 * count], axis=0)
    if len(few) <= count:
        few = np.unique(rows, axis=0)
        if len(few) <= count:
            return few
    return landmarks(kernel, rows, count, choice="kmeans", key=jax.random.key(seed))


def checked_values(
    where: str, x: Any, y: Any
) -> tuple[Float[np.ndarray, "rows features"], Float[np.ndarray, " rows"]]:
    """Rows and as many finite numbers, in double precision."""
    rows = checked_points(where, "x", x)
    values = checked_targets(where, "y", y, len(rows))
    if values.ndim != 1:
        raise ArgumentError(
            f"{where}(y): one number for each row is needed, not shape {values.shape}",
            remedy="fit every column by itself",
        )
    return rows, values


__all__ = [
    "Collapsed",
    "SparseGaussianProcess",
    "SparsePosterior",
    "checked_values",
    "collapse",
    "inducing_inputs",
]
