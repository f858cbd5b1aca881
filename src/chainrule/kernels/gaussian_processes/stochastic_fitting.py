"""Training of stochastic Gaussian processes on rows that stay on the host, a few batches on the device at a time.

q moves by natural gradients; kernel, likelihood and inducing inputs follow by Adam. Or all follow by Adam alone.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float
from chainrule.kernels.gaussian_processes.likelihoods import FunctionLikelihood
from chainrule.kernels.gaussian_processes.sparse import inducing_inputs
from chainrule.kernels.gaussian_processes.stochastic import INDUCING, StochasticGaussianProcess
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.precision import widened

_AT_ONCE = 25
"""Steps whose batches are on the device together."""


class StochasticFit(NamedTuple):
    """What `fit_stochastic` found."""

    process: StochasticGaussianProcess
    bounds: Float[np.ndarray, " steps"]
    """The bound as each step's batch estimates it, in nats an example."""


def fit_stochastic(
    kernel: Kernel,
    likelihood: FunctionLikelihood,
    x: Any,
    y: Any,
    *,
    inducing: int | StochasticGaussianProcess = INDUCING,
    steps: int = 1000,
    batch: int = 256,
    rate: float = 0.01,
    natural_rate: float = 0.1,
    seed: int = 0,
    precision: str = "float64",
) -> StochasticFit:
    """A process trained on batches of rows; `inducing` may be one that was trained before.

    `rate` is Adam's; `natural_rate` that of natural gradients, raised from a hundredth of it over the first 50 steps,
    or zero to leave q to Adam, too. Rows may be memory-mapped: of a million of them only batches, and a sample for the
    inducing inputs, are read.
    """
    check_choice("fit_stochastic", "precision", precision, ("float64", "float32"))
    steps, batch = whole("fit_stochastic", "steps", steps), whole("fit_stochastic", "batch", batch)
    if not (0 <= natural_rate <= 1 and rate >= 0):
        raise ArgumentError(
            f"fit_stochastic(rate={rate}, natural_rate={natural_rate}): natural_rate lies between 0 and 1, rate is not "
            "negative"
        )
    rows = x if x.ndim == 2 else x[:, None]
    targets = likelihood.checked("fit_stochastic", y)
    if len(rows) != len(targets) or not len(rows):
        raise ArgumentError(f"fit_stochastic: {len(rows)} rows of x for {len(targets)} of y")
    with jax.enable_x64(precision == "float64"):
        process = inducing
        random = np.random.default_rng(seed)
        if not isinstance(process, StochasticGaussianProcess):
            some = np.sort(random.choice(len(rows), min(len(rows), _SAMPLE), replace=False))
            placed = inducing_inputs(kernel, np.asarray(rows[some]), process, seed=seed)
            process = StochasticGaussianProcess(kernel, likelihood, placed.astype(precision))
        process = widened(process) if precision == "float64" else jax.tree.map(_single, process)
        found, bounds = _trained(
            process, rows, targets, steps, min(batch, len(rows)), rate, natural_rate, random
        )
        return StochasticFit(jax.tree.map(lambda a: np.asarray(a) if eqx.is_array(a) else a, found), bounds)


_SAMPLE = 20_000
"""Rows that inducing inputs are placed by."""


def _single(leaf: Any) -> Any:
    # A copy: what is trained is given away to the compiled steps.
    return jnp.array(leaf, jnp.float32, copy=True) if eqx.is_inexact_array_like(leaf) else leaf


def _trained(
    process: StochasticGaussianProcess,
    x: Any,
    y: np.ndarray,
    steps: int,
    batch: int,
    rate: float,
    natural_rate: float,
    random: np.random.Generator,
) -> tuple[StochasticGaussianProcess, np.ndarray]:
    dtype = process.inducing.dtype
    state = optimizer(rate).init(eqx.filter(process, eqx.is_inexact_array))
    bounds = []
    for start in range(0, steps, _AT_ONCE):
        count = min(_AT_ONCE, steps - start)
        chosen = np.sort(random.integers(len(x), size=(count, batch)), axis=1)
        flat = np.asarray(x[chosen.reshape(-1)], dtype).reshape(count, batch, -1)
        ramp = (
            np.minimum(1.0, 10.0 ** (-2 + 2 * (start + np.arange(count)) / 50)) if natural_rate < 1 else 1.0
        )
        rates = jnp.asarray(np.broadcast_to(natural_rate * ramp, (count,)), dtype)
        given = jnp.asarray(flat), jnp.asarray(y[chosen]), rates
        process, state, found = _steps(given, process, state, len(x), rate, natural_rate > 0)
        bounds.append(np.asarray(found))
    return process, np.concatenate(bounds) / len(x)


@functools.cache
def optimizer(rate: float) -> optax.GradientTransformation:
    """Adam at a constant rate."""
    return optax.adam(rate)


@eqx.filter_jit(donate="all-except-first")
def _steps(
    batches: tuple[Array, Array, Array],
    process: StochasticGaussianProcess,
    state: Any,
    total: int,
    rate: float,
    natural: bool,
) -> tuple[StochasticGaussianProcess, Any, Array]:
    arrays, rest = eqx.partition(process, eqx.is_inexact_array)

    def step(carry: tuple[Any, Any], given: tuple[Array, Array, Array]) -> tuple[tuple[Any, Any], Array]:
        arrays, state = carry
        rows, targets, natural_rate = given

        def loss(arrays: Any) -> tuple[Array, Array]:
            process = eqx.combine(arrays, rest)
            seen = process.features(rows)
            return -process.bound_of(seen, rows, targets, total), seen

        (value, seen), gradient = jax.value_and_grad(loss, has_aux=True)(arrays)
        if natural:
            gradient = eqx.tree_at(lambda p: (p.mean, p.factor), gradient, replace_fn=jnp.zeros_like)
        updates, state = optimizer(rate).update(gradient, state, arrays)
        new = optax.apply_updates(arrays, updates)
        if natural:
            moved = eqx.combine(arrays, rest).natural_step(rows, targets, total, natural_rate, seen)
            new = eqx.tree_at(lambda p: (p.mean, p.factor), new, (moved.mean, moved.factor))
        return (new, state), -value

    (arrays, state), bounds = jax.lax.scan(step, (arrays, state), batches)
    return eqx.combine(arrays, rest), state, bounds


__all__ = ["StochasticFit", "fit_stochastic"]
