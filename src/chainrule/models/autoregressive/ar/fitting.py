"""The parameters of an autoregressive process from data: least squares, Yule and Walker, or exact likelihood."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jaxtyping import Float

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array
from chainrule.models.autoregressive.ar.process import ARProcess, predictors

METHODS = ("least-squares", "yule-walker", "likelihood")


def fit(x: Float[np.ndarray, "*batch time"], order: int, method: str = "least-squares") -> ARProcess:
    """The process of this order that suits the series best.

    `least-squares` regresses each value on those before it (the likelihood given the first p values); `yule-walker`
    equates autocovariances, and always gives a stationary process; `likelihood` maximises the exact stationary
    likelihood. Several series, one a row, are taken as draws of one process.

    >>> fit(np.array([1.0, 0.5, 0.25, 0.125, 0.0625]), 1).coefficients.round(3).tolist()
    [0.5]
    """
    check_choice("fit", "method", method, METHODS)
    rows = np.atleast_2d(np.asarray(x, np.float64))
    if order < 1 or rows.shape[1] <= 2 * order:
        raise ArgumentError(
            f"order={order}: a series of {rows.shape[1]} values fits orders from 1 to {(rows.shape[1] - 1) // 2}"
        )
    if method == "least-squares":
        return _least_squares(rows, order)
    start = _yule_walker(rows, order)
    return start if method == "yule-walker" else _likelihood(rows, start)


def autocovariances(x: Float[np.ndarray, "*batch time"], lags: int) -> Float[np.ndarray, " lags"]:
    """Sample autocovariances at lags 0 to `lags`, divided by the length of the series (which keeps them definite).

    >>> autocovariances(np.array([1.0, -1.0, 1.0, -1.0]), 1).tolist()
    [1.0, -0.75]
    """
    rows = np.atleast_2d(np.asarray(x, np.float64))
    deviation = rows - rows.mean()
    time = rows.shape[1]
    return (
        np.array([(deviation[:, k:] * deviation[:, : time - k]).sum() for k in range(lags + 1)]) / rows.size
    )


def _least_squares(rows: Float[np.ndarray, "batch time"], order: int) -> ARProcess:
    time = rows.shape[1]
    lagged = [rows[:, order - k : time - k].ravel() for k in range(1, order + 1)]
    target = rows[:, order:].ravel()
    design = np.stack([np.ones_like(target), *lagged], axis=1)
    found, *_ = np.linalg.lstsq(design, target, rcond=None)
    variance = np.square(target - design @ found).mean()
    rest = 1 - found[1:].sum()
    # A unit root has no mean to return to: deviations are then counted from the mean of the series.
    mean = found[0] / rest if abs(rest) > 1e-8 else rows.mean()
    return ARProcess(mean, found[1:], variance)


def _yule_walker(rows: Float[np.ndarray, "batch time"], order: int) -> ARProcess:
    gamma = autocovariances(rows, order)
    if gamma[0] == 0:
        raise ArgumentError("the series is constant: there is nothing to fit")
    a = np.zeros(0)
    variance = gamma[0]
    for k in range(1, order + 1):
        r = (gamma[k] - a @ gamma[k - 1 : 0 : -1]) / variance
        a = np.append(a - r * a[::-1], r)
        variance *= 1 - r**2
    return ARProcess(rows.mean(), a, variance)


def _likelihood(rows: Float[np.ndarray, "batch time"], start: ARProcess) -> ARProcess:
    with jax.enable_x64(True):
        x = jnp.asarray(rows)
        scale = float(rows.std())

        def process(free: Array) -> ARProcess:
            a = predictors(jnp.tanh(free[2:])).weights[-1]
            return ARProcess(rows.mean() + scale * free[0], a, scale**2 * jnp.exp(free[1]))

        @jax.jit
        def loss(free: Array) -> tuple[Array, Array]:
            return jax.value_and_grad(lambda f: -process(f).log_prob(x).sum() / x.size)(free)

        first = ARProcess(
            *(np.asarray(a, np.float64) for a in (start.mean, start.coefficients, start.variance))
        )
        partial = np.clip(np.asarray(first.partial_autocorrelations()), -0.999, 0.999)
        free = np.concatenate([[0.0, np.log(float(first.variance) / scale**2)], np.arctanh(partial)])
        found = scipy.optimize.minimize(
            lambda f: tuple(np.asarray(v) for v in loss(jnp.asarray(f))),
            free,
            jac=True,
            method="L-BFGS-B",
            options={"gtol": 1e-9, "ftol": 1e-15, "maxiter": 1000},
        )
        best = process(jnp.asarray(found.x))
        values = [np.asarray(a) for a in (best.mean, best.coefficients, best.variance)]
    return ARProcess(*values)


__all__ = ["METHODS", "autocovariances", "fit"]
