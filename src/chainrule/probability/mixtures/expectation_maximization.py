"""One step of EM for a mixture of Gaussians, in double precision, compiled, over rows in pieces.

The expectation gives every row its responsibilities, the posterior of the component given the row, in logarithms. The
maximisation takes weighted means and covariances. That is coordinate ascent on the evidence lower bound: with the exact
posterior the bound touches the log-likelihood, which therefore never falls. Covariances have `regularisation` added to
their diagonal, because the likelihood is unbounded where a component shrinks to a point.

Reference: Dempster, Laird and Rubin, Maximum likelihood from incomplete data via the EM algorithm, JRSS B 1977.
"""

import functools
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float

Covariances = Literal["full", "tied", "diag", "spherical"]
KINDS: tuple[Covariances, ...] = ("full", "tied", "diag", "spherical")
_ROWS = 4096
"""Rows that are worked on at once."""


class MixtureParameters(NamedTuple):
    """Weights, means and covariances, the latter as matrices whatever their kind."""

    weights: Float[np.ndarray, " components"]
    means: Float[np.ndarray, "components features"]
    covariances: Float[np.ndarray, "components features features"]


class DeviceParameters(NamedTuple):
    """The same on the device."""

    weights: Float[Array, " components"]
    means: Float[Array, "components features"]
    covariances: Float[Array, "components features features"]


class _Sums(NamedTuple):
    """Sums over rows that the maximisation needs."""

    log_likelihood: Array
    counts: Float[Array, " components"]
    first: Float[Array, "components features"]
    second: Array
    """Of products: of each component, for every pair of features (full) or every feature (diag, spherical)."""


def em_step(
    parameters: MixtureParameters,
    x: Float[np.ndarray, "rows features"],
    covariance: str,
    regularisation: float = 1e-6,
) -> tuple[MixtureParameters, float]:
    """The parameters after one step, and the mean log-likelihood of a row before it."""
    with jax.enable_x64(True):
        new, value = _step(
            DeviceParameters(*(jnp.asarray(a, jnp.float64) for a in parameters)),
            jnp.asarray(x, jnp.float64),
            covariance,
            jnp.asarray(regularisation, jnp.float64),
        )
        return MixtureParameters(*(np.asarray(a) for a in new)), float(value)


@functools.partial(jax.jit, static_argnames=("covariance",))
def _step(
    parameters: DeviceParameters, x: Array, covariance: str, regularisation: Array
) -> tuple[DeviceParameters, Array]:
    # Second moments around the middle of the data, not around zero, keep their digits.
    middle = x.mean(axis=0)
    centred = x - middle[None]
    parameters = parameters._replace(means=parameters.means - middle[None])
    sums = _summed(parameters, centred, covariance)
    new = _maximised(sums, centred, covariance, regularisation)
    return new._replace(means=new.means + middle[None]), sums.log_likelihood / len(x)


def _summed(parameters: DeviceParameters, x: Array, covariance: str) -> _Sums:
    """All sums over rows, a few thousand rows at a time."""
    rows, features = x.shape
    components = len(parameters.weights)
    pieces = -(-rows // _ROWS)
    size = -(-rows // pieces)
    padded = jnp.pad(x, ((0, pieces * size - rows), (0, 0))).reshape(pieces, size, features)
    real = (jnp.arange(pieces * size) < rows).reshape(pieces, size)
    score = component_scores(parameters, covariance)
    shape = {"full": (components, features, features), "tied": (0,)}.get(covariance, (components, features))

    def add(sums: _Sums, piece: tuple[Array, Array]) -> tuple[_Sums, None]:
        rows, real = piece
        logs = score(rows)
        total = jax.nn.logsumexp(logs, axis=1)
        shares = jnp.where(real[:, None], jnp.exp(logs - total[:, None]), 0.0)
        if covariance == "full":
            weighted = (shares[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
            second = (weighted.T @ rows).reshape(shape)
        else:
            second = shares.T @ jnp.square(rows) if covariance != "tied" else jnp.zeros(shape)
        here = _Sums(jnp.where(real, total, 0.0).sum(), shares.sum(axis=0), shares.T @ rows, second)
        return jax.tree.map(jnp.add, sums, here), None

    zeros = (jnp.zeros(()), jnp.zeros(components), jnp.zeros((components, features)), jnp.zeros(shape))
    return jax.lax.scan(add, _Sums(*zeros), (padded, real))[0]


def component_scores(parameters: DeviceParameters, covariance: str) -> Callable[[Array], Array]:
    """A function from rows to the log of weight times density of every component."""
    features = parameters.means.shape[1]
    constant = jnp.log(parameters.weights) - 0.5 * features * jnp.log(2 * jnp.pi)
    if covariance in ("diag", "spherical"):
        precision = 1 / jnp.diagonal(parameters.covariances, axis1=1, axis2=2)
        scaled = parameters.means * precision
        offset = (
            constant + 0.5 * jnp.log(precision).sum(axis=1) - 0.5 * (parameters.means * scaled).sum(axis=1)
        )
        return lambda rows: offset[None] + rows @ scaled.T - 0.5 * jnp.square(rows) @ precision.T
    lower = jnp.linalg.cholesky(
        parameters.covariances[:1] if covariance == "tied" else parameters.covariances
    )
    eye = jnp.broadcast_to(jnp.eye(features), lower.shape)
    white = jax.scipy.linalg.solve_triangular(lower, eye, lower=True)
    log_det = jnp.log(jnp.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    offset = constant - log_det
    if covariance == "tied":
        means = parameters.means @ white[0].T

        def tied(rows: Array) -> Array:
            seen = rows @ white[0].T
            square = (
                jnp.square(seen).sum(axis=1)[:, None]
                - 2 * seen @ means.T
                + jnp.square(means).sum(axis=1)[None]
            )
            return offset[None] - 0.5 * square

        return tied
    matrix = jnp.moveaxis(white, 0, 1).reshape(
        -1, features
    )  # rows: entry of a whitened vector, then component
    means = jnp.einsum("ked,kd->ek", white, parameters.means)

    def full(rows: Array) -> Array:
        seen = (rows @ matrix.T).reshape(len(rows), features, -1)
        return offset[None] - 0.5 * jnp.square(seen - means[None]).sum(axis=1)

    return full


def _maximised(sums: _Sums, x: Array, covariance: str, regularisation: Array) -> DeviceParameters:
    features = x.shape[1]
    # A component that nothing belongs to keeps a trace of weight, so that its mean is defined.
    counts = sums.counts + 10 * jnp.finfo(x.dtype).eps
    means = sums.first / counts[:, None]
    eye = jnp.eye(features)
    if covariance == "full":
        spread = sums.second / counts[:, None, None] - means[:, :, None] * means[:, None, :]
    elif covariance == "tied":
        within = x.T @ x - (counts[:, None] * means).T @ means
        spread = jnp.broadcast_to(within / len(x), (len(counts), features, features))
    else:
        variances = sums.second / counts[:, None] - jnp.square(means)
        if covariance == "spherical":
            variances = jnp.broadcast_to(variances.mean(axis=1, keepdims=True), variances.shape)
        spread = jnp.maximum(variances, 0.0)[:, :, None] * eye[None]
    return DeviceParameters(counts / counts.sum(), means, spread + regularisation * eye[None])


__all__ = ["KINDS", "Covariances", "DeviceParameters", "MixtureParameters", "component_scores", "em_step"]
