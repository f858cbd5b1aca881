"""Exact Gaussian processes of one coordinate in linear time: Matérn kernels as linear systems driven by noise.

A Matérn process and its derivatives are a Markov chain in time: between two times the state is multiplied by a small
matrix and gets Gaussian noise. Filtering and smoothing that chain is exact regression, at a cost that grows with the
number of points alone. Both are prefix sums of an associative operation, so they run in parallel over blocks: in about
twice as many rounds as the square root of the number of points, and as one small program whatever that number is.

References: Hartikainen and Särkkä, Kalman filtering and smoothing solutions to temporal Gaussian process regression
models, 2010; Särkkä and García-Fernández, Temporal parallelization of Bayesian smoothers, 2021.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.data_checks import checked_points
from chainrule.kernels.functions import Constant, Matern, OrnsteinUhlenbeck, Product, Sum
from chainrule.kernels.gaussian_processes.climbing import climbed
from chainrule.kernels.gaussian_processes.sparse import KINDS, checked_values
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.precision import in_double
from chainrule.probability.distributions.parameters import floating, positive

E = TypeVar("E")
Square = Float[Array, "*rows state state"]
Vector = Float[Array, "*rows state"]


class LinearSystem(NamedTuple):
    """A stationary Markov chain in continuous time, of which one entry combination is the process."""

    transition: Callable[[Array], Array]
    """From the time between two points to the matrix of the state."""
    stationary: Square
    """The covariance of the state at any time."""
    reading: Vector
    """The weights of the process's value in the state."""


@functools.singledispatch
def linear_system(kernel: Any) -> LinearSystem:
    """The chain of a kernel: Matérn kernels, their sums, and their products with numbers."""
    raise ArgumentError(
        f"linear_system: {type(kernel).__name__} is no finite chain",
        remedy="use Matern, OrnsteinUhlenbeck, their sums, or these times numbers; for smooth paths Matern(2.5)",
    )


@linear_system.register
def _(kernel: Matern) -> LinearSystem:
    # Derivatives are in units of the rate, so that all entries of the state are about one.
    rate = math.sqrt(2 * kernel.nu) * jnp.exp(-_single_scale(kernel.log_scale))
    make, stationary = _MATERN[kernel.nu]
    covariance = jnp.asarray(stationary, rate.dtype)
    reading = jnp.zeros(len(covariance), rate.dtype).at[0].set(1.0)
    return LinearSystem(lambda time: jnp.exp(-rate * time) * make(rate * time), covariance, reading)


@linear_system.register
def _(kernel: OrnsteinUhlenbeck) -> LinearSystem:
    return linear_system(eqx.tree_at(lambda k: k.log_scale, Matern(0.5), kernel.log_scale))


@linear_system.register
def _(kernel: Sum) -> LinearSystem:
    first, second = linear_system(kernel.first), linear_system(kernel.second)
    return LinearSystem(
        lambda time: jax.scipy.linalg.block_diag(first.transition(time), second.transition(time)),
        jax.scipy.linalg.block_diag(first.stationary, second.stationary),
        jnp.concatenate([first.reading, second.reading]),
    )


@linear_system.register
def _(kernel: Product) -> LinearSystem:
    for number, other in ((kernel.first, kernel.second), (kernel.second, kernel.first)):
        if isinstance(number, Constant):
            inner = linear_system(other)
            return inner._replace(stationary=number.value * inner.stationary)
    raise ArgumentError(
        "linear_system: a product of two kernels is no chain that is known here",
        remedy="multiply Matern kernels by numbers only",
    )


def _single_scale(log_scale: Array) -> Scalar:
    if log_scale.size != 1:
        raise ArgumentError(f"linear_system: times have one scale, not {log_scale.size}")
    return log_scale.reshape(())


def _smooth(t: Array) -> Array:
    square = jnp.square(t)
    return jnp.array(
        [
            [square / 2 + t + 1, square + t, square / 2],
            [-square / 2, 1 + t - square, t - square / 2],
            [square / 2 - t, square - 3 * t, square / 2 - 2 * t + 1],
        ]
    )


_MATERN: dict[float, tuple[Callable[[Array], Array], list[list[float]]]] = {
    0.5: (lambda t: jnp.ones((1, 1), t.dtype), [[1.0]]),
    1.5: (lambda t: jnp.array([[1 + t, t], [-t, 1 - t]]), [[1.0, 0.0], [0.0, 1.0]]),
    2.5: (_smooth, [[1.0, 0.0, -1 / 3], [0.0, 1 / 3, 0.0], [-1 / 3, 0.0, 1.0]]),
}
"""By smoothness: the matrix over a time in units of the rate, without its decay, and the stationary covariance."""


class _Filtering(NamedTuple):
    """What a stretch of points does to the state before it, and says about it."""

    matrix: Square
    shift: Vector
    spread: Square
    score: Vector
    information: Square


class _Smoothing(NamedTuple):
    """What is known of a state by the one after a stretch."""

    matrix: Square
    shift: Vector
    spread: Square


class SmoothedProcess(NamedTuple):
    """The process at sorted times given observations of some of them."""

    mean: Float[Array, " times"]
    variance: Float[Array, " times"]
    log_evidence: Scalar


def smoothed(
    kernel: Kernel, noise: Scalar, times: Float[Array, " times"], y: Float[Array, " times"], seen: Array
) -> SmoothedProcess:
    """Mean and variance of the process at sorted times; where `seen` is false `y` counts for nothing."""
    system = linear_system(kernel)
    steps = jnp.diff(times, prepend=times[:1])
    moves = jax.vmap(system.transition)(steps)
    stationary, reading = system.stationary, system.reading
    drift = stationary[None] - moves @ stationary @ moves.mT
    weight = seen.astype(y.dtype)
    first = _filtering(system, noise, moves, drift, y, weight)
    size, none = stationary.shape, jnp.zeros_like(stationary)
    nothing = _Filtering(jnp.eye(size[0], dtype=y.dtype), none[0], none, none[0], none)
    found = prefix_sums(_joined, first, nothing)
    means, spreads = found.shift, found.spread
    ahead_mean = jnp.concatenate([jnp.zeros_like(means[:1]), jnp.einsum("tij,tj->ti", moves[1:], means[:-1])])
    ahead = jnp.concatenate([stationary[None], moves[1:] @ spreads[:-1] @ moves[1:].mT + drift[1:]])
    total = jnp.einsum("i,tij,j->t", reading, ahead, reading) + noise
    missed = y - ahead_mean @ reading
    densities = -0.5 * (jnp.square(missed) / total + jnp.log(2 * math.pi * total))
    back = _smoothing(moves, means, spreads, ahead_mean, ahead)
    turned = jax.tree.map(lambda a: a[::-1], back)
    smooth = prefix_sums(_known_later, turned, _Smoothing(nothing.matrix, none[0], none))
    smooth = jax.tree.map(lambda a: a[::-1], smooth)
    variance = jnp.einsum("i,tij,j->t", reading, smooth.spread, reading)
    return SmoothedProcess(smooth.shift @ reading, jnp.maximum(variance, 0.0), (weight * densities).sum())


def _filtering(
    system: LinearSystem, noise: Scalar, moves: Array, drift: Array, y: Array, weight: Array
) -> _Filtering:
    eye, reading = jnp.eye(len(system.reading), dtype=y.dtype), system.reading

    def one(move: Array, spread: Array, value: Array, seen: Array) -> _Filtering:
        across = spread @ reading
        total = across @ reading + noise
        gain = seen * across / total
        kept = eye - gain[:, None] * reading[None, :]
        through = move.T @ reading
        precision = seen / total
        return _Filtering(
            kept @ move,
            gain * value,
            kept @ spread,
            precision * value * through,
            precision * jnp.outer(through, through),
        )

    # The first state comes from nowhere: from the stationary distribution.
    drift = drift.at[0].set(system.stationary)
    moves = moves.at[0].set(0.0)
    return jax.vmap(one)(moves, drift, y, weight)


def _joined(a: _Filtering, b: _Filtering) -> _Filtering:
    eye = jnp.eye(len(a.shift), dtype=a.shift.dtype)
    right = jnp.concatenate([a.matrix, a.spread, (a.shift + a.spread @ b.score)[:, None]], axis=1)
    solved = jnp.linalg.solve(eye + a.spread @ b.information, right)
    size = len(eye)
    through, between, shift = solved[:, :size], solved[:, size:-1], solved[:, -1]
    spread = b.matrix @ between @ b.matrix.T + b.spread
    information = through.T @ b.information @ a.matrix + a.information
    return _Filtering(
        b.matrix @ through,
        b.matrix @ shift + b.shift,
        (spread + spread.T) / 2,
        through.T @ (b.score - b.information @ a.shift) + a.score,
        (information + information.T) / 2,
    )


def prefix_sums(join: Callable[[E, E], E], elements: E, nothing: E) -> E:
    """`join` of the first i elements, for every i; `nothing` joined with anything leaves it as it is.

    Elements lie along the first axis of every array. Blocks of about the square root of their number are summed side
    by side, then the blocks one after the other: two short loops in place of one long one.

    >>> prefix_sums(jnp.add, jnp.array([1.0, 2.0, 3.0, 4.0, 5.0]), jnp.array(0.0)).tolist()
    [1.0, 3.0, 6.0, 10.0, 15.0]
    """
    count = len(jax.tree.leaves(elements)[0])
    size = max(1, math.isqrt(count))
    blocks = -(-count // size)

    def cut(values: Array, none: Array) -> Array:
        filled = jnp.broadcast_to(none, (blocks * size - count, *none.shape)).astype(values.dtype)
        return jnp.concatenate([values, filled]).reshape(blocks, size, *none.shape)

    inside = jax.tree.map(lambda v, n: jnp.moveaxis(cut(v, n), 1, 0), elements, nothing)

    def one(before: E, here: E) -> tuple[E, E]:
        joined = join(before, here)
        return joined, before

    def side_by_side(before: E, here: E) -> tuple[E, E]:
        joined = jax.vmap(join)(before, here)
        return joined, joined

    start = jax.tree.map(
        lambda n, v: jnp.broadcast_to(n, (blocks, *n.shape)).astype(v.dtype), nothing, elements
    )
    totals, sums = jax.lax.scan(side_by_side, start, inside)
    _, before = jax.lax.scan(one, jax.tree.map(lambda v: v[0], start), totals)
    whole = jax.vmap(jax.vmap(join), in_axes=(None, 0))(before, sums)
    back: E = jax.tree.map(
        lambda v: jnp.moveaxis(v, 0, 1).reshape(blocks * size, *v.shape[2:])[:count], whole
    )
    return back


def _smoothing(moves: Array, means: Array, spreads: Array, ahead_mean: Array, ahead: Array) -> _Smoothing:
    across = spreads[:-1] @ moves[1:].mT
    gain = jnp.linalg.solve(ahead[1:], across.mT).mT
    zero = jnp.zeros_like(spreads[:1])
    return _Smoothing(
        jnp.concatenate([gain, zero]),
        jnp.concatenate([means[:-1] - jnp.einsum("tij,tj->ti", gain, ahead_mean[1:]), means[-1:]]),
        jnp.concatenate([spreads[:-1] - gain @ ahead[1:] @ gain.mT, spreads[-1:]]),
    )


def _known_later(later: _Smoothing, earlier: _Smoothing) -> _Smoothing:
    return _Smoothing(
        earlier.matrix @ later.matrix,
        earlier.matrix @ later.shift + earlier.shift,
        earlier.matrix @ later.spread @ earlier.matrix.T + earlier.spread,
    )


@final
class StateSpaceGaussianProcess(eqx.Module):
    """Exact regression over one coordinate, for Matérn kernels, their sums and multiples; a million points will do.

    >>> t = np.linspace(0, 10, 1000)
    >>> found = StateSpaceGaussianProcess(Matern(2.5, 2.0), 0.01).fit(t, np.sin(t))
    >>> round(float(found.predict([np.pi / 2])[0][0]), 3)
    1.0
    """

    kernel: Kernel
    log_noise: Scalar

    def __init__(self, kernel: Kernel, noise: Any = 0.1) -> None:
        linear_system(kernel)
        self.kernel = kernel
        self.log_noise = jnp.log(positive("StateSpaceGaussianProcess", "noise", floating(noise)))

    def fit(self, times: Any, y: Any) -> "StateSpacePosterior":
        """The posterior given values at times of any order; times may repeat."""
        rows, values = checked_values("StateSpaceGaussianProcess.fit", times, y)
        if rows.shape[1] != 1:
            raise ArgumentError(
                f"StateSpaceGaussianProcess.fit: times are one number each, not {rows.shape[1]}",
                remedy="for points of several coordinates: SparseGaussianProcess or IterativeGaussianProcess",
            )
        order = np.argsort(rows[:, 0], kind="stable")
        found = _chain(self, rows[order, 0], values[order], np.ones(len(order), bool))
        return StateSpacePosterior(self, rows[order, 0], values[order], found.log_evidence)

    def log_evidence(self, times: Float[Array, " times"], y: Float[Array, " times"]) -> Scalar:
        """The log marginal likelihood of values at sorted times; differentiable, and traced code itself."""
        return smoothed(
            self.kernel, jnp.exp(self.log_noise), times, y, jnp.ones(len(times), bool)
        ).log_evidence


@final
class StateSpacePosterior(eqx.Module):
    """What values at some times say about the process."""

    process: StateSpaceGaussianProcess
    times: Float[np.ndarray, " times"]
    y: Float[np.ndarray, " times"]
    value: Any

    @property
    def log_marginal_likelihood(self) -> float:
        """Exact, in nats."""
        return float(self.value)

    def predict(self, times: Any, *, kind: str = "observation") -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of new observations, or of the function itself (`kind="latent"`)."""
        check_choice("predict", "kind", kind, KINDS)
        new = checked_points("predict", "times", times, 1)[:, 0]
        both = np.concatenate([self.times, new])
        order = np.argsort(both, kind="stable")
        values = np.concatenate([self.y, np.zeros(len(new))])[order]
        found = _chain(self.process, both[order], values, order < len(self.times))
        back = np.argsort(order, kind="stable")[len(self.times) :]
        noise = float(np.exp(np.float64(self.process.log_noise))) if kind == "observation" else 0.0
        return np.asarray(found.mean)[back], np.asarray(found.variance)[back] + noise

    def optimize(self, steps: int = 100) -> "StateSpacePosterior":
        """The posterior under the kernel and noise with the highest evidence that L-BFGS finds from here."""
        best = climbed(
            lambda process, times, y: process.log_evidence(times, y),
            self.process,
            self.times,
            self.y,
            steps=steps,
        ).best
        return StateSpaceGaussianProcess.fit(best, self.times, self.y)


@in_double
@eqx.filter_jit
def _chain(process: StateSpaceGaussianProcess, times: Any, y: Any, seen: Any) -> SmoothedProcess:
    return smoothed(process.kernel, jnp.exp(process.log_noise), times, y, seen)


__all__ = [
    "LinearSystem",
    "SmoothedProcess",
    "StateSpaceGaussianProcess",
    "StateSpacePosterior",
    "linear_system",
    "prefix_sums",
    "smoothed",
]
