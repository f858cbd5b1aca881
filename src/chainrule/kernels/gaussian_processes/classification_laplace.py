"""Laplace's approximation of the posterior of latent functions: a Gaussian at the mode, with the curvature there.

The mode is found by Newton's method in `a = K^-1 f`, so that K is never inverted, with the best of several step
lengths. One more step from the mode, with everything else held still, carries the derivative of the mode with respect
to the kernel (the implicit function theorem, since a Newton step from the mode does not depend on where it starts):
gradients of the approximate evidence are exact.

Reference: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapter 3.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Scalar
from chainrule.kernels.gaussian_processes.likelihoods import ClassLikelihood
from chainrule.kernels.positive import factored

STEPS = 100
"""Newton steps at most; a dozen is usual."""
_SHORTER = 2.0 ** -np.arange(10)

Gram = Float[Array, "rows rows"]
Latents = Float[Array, "latents rows"]


class Curvature(NamedTuple):
    """`(K + W^-1)^-1` for the negative Hessian W of the log-likelihood, by blocks of the latent functions.

    The block of latents c and d is `E_c` where they are the same, less `E_c S^-1 E_d` where values are coupled.
    """

    blocks: Float[Array, "latents rows rows"]
    """`E_c`, for the diagonal of W."""
    coupling: Gram | None
    """The lower factor of S, the sum of all E_c; none for a single latent function."""
    log_det: Scalar
    """The logarithm of the determinant of `I + K W`."""

    def times(self, b: Latents) -> Latents:
        """The product with a vector for each latent function."""
        found = jnp.einsum("cij,cj->ci", self.blocks, b)
        if self.coupling is None:
            return found
        shared = jax.scipy.linalg.cho_solve((self.coupling, True), found.sum(axis=0))
        return found - jnp.einsum("cij,j->ci", self.blocks, shared)


class Mode(NamedTuple):
    """Where the posterior of the latent values is highest."""

    latent: Latents
    weights: Latents
    """`K^-1` times the latent values."""
    log_evidence: Scalar
    steps: Array
    change: Array
    """What the last step raised the log posterior by."""


def log_likelihood(likelihood: ClassLikelihood, f: Latents, y: Array) -> Scalar:
    """Of all rows."""
    return likelihood.log_prob(f.T, y).sum()


def curvature(likelihood: ClassLikelihood, K: Gram, f: Latents, y: Array) -> tuple[Curvature, Latents]:
    """The curvature at some latent values, and the product of W with them."""
    if likelihood.latents == 1:
        slope = jax.grad(lambda f: log_likelihood(likelihood, f, y))
        # Rows are independent, so one product with ones is the diagonal of the Hessian.
        diagonal = -jax.jvp(slope, (f,), (jnp.ones_like(f),))[1]
        blocks, logs = _blocks(K, diagonal)
        return Curvature(blocks, None, logs.sum()), diagonal * f
    shares = jax.nn.softmax(f, axis=0)
    blocks, logs = _blocks(K, shares)
    coupling = factored(blocks.sum(axis=0), "sum of E")
    product = shares * (f - (shares * f).sum(axis=0, keepdims=True))
    return Curvature(blocks, coupling.lower, logs.sum() + coupling.log_det), product


def _blocks(K: Gram, diagonal: Latents) -> tuple[Array, Array]:
    """`(K + D^-1)^-1` and `log |I + K D|` of every latent function."""

    def one(weight: Array) -> tuple[Array, Array]:
        root = jnp.sqrt(jnp.maximum(weight, jnp.finfo(weight.dtype).tiny))
        scaled = root[:, None] * K * root[None, :] + jnp.eye(len(K), dtype=K.dtype)
        found = factored(scaled, "I + W K")
        white = found.whiten(jnp.diag(root))
        return white.T @ white, found.log_det

    if len(diagonal) == 1:
        block, log_det = one(diagonal[0])
        return block[None], log_det[None]
    return jax.lax.map(one, diagonal)


def predicted(
    bent: Curvature, weights: Latents, across: Float[Array, "rows new"], own: Float[Array, " new"]
) -> tuple[Float[Array, "new latents"], Float[Array, "new latents latents"]]:
    """Means and covariances of the latent functions at new points, by the curvature at the mode.

    `weights` are those of the mode, `across` the kernel of the rows with the new points, `own` that of each new point.
    """
    weighted = jnp.einsum("cij,jr->cir", bent.blocks, across)
    left = jnp.maximum(own[None] - (across[None] * weighted).sum(axis=1), 0.0)
    covariance = left.T[:, :, None] * jnp.eye(len(weights), dtype=left.dtype)[None]
    if bent.coupling is not None:
        latents, rows, new = weighted.shape
        columns = jnp.moveaxis(weighted, 0, 1).reshape(rows, latents * new)
        white = jax.scipy.linalg.solve_triangular(bent.coupling, columns, lower=True)
        white = white.reshape(rows, latents, new)
        covariance = covariance + jnp.einsum("icr,idr->rcd", white, white)
    return (weights @ across).T, covariance


def newton(likelihood: ClassLikelihood, K: Gram, f: Latents, y: Array) -> tuple[Latents, Curvature]:
    """`K^-1 f` after a whole Newton step from f, and the curvature it was taken with."""
    bent, product = curvature(likelihood, K, f, y)
    b = product + jax.grad(lambda f: log_likelihood(likelihood, f, y))(f)
    return b - bent.times(b @ K), bent


def mode(likelihood: ClassLikelihood, K: Gram, y: Array, tolerance: float = 1e-10) -> Mode:
    """The mode, found until a step raises the log posterior by less than the tolerance; differentiable in K."""
    still = jax.lax.stop_gradient(K)
    fixed = jax.lax.stop_gradient(likelihood)

    def height(a: Latents, f: Latents) -> Scalar:
        return log_likelihood(fixed, f, y) - 0.5 * (a * f).sum()

    def goes_on(state: tuple[Array, ...]) -> Array:
        *_, change, steps = state
        return (change > tolerance) & (steps < STEPS)

    def climb(state: Any) -> Any:
        a, f, high, _, steps = state
        ahead, _ = newton(fixed, still, f, y)
        lengths = jnp.asarray(_SHORTER, f.dtype)[:, None, None]
        ways = a[None] + lengths * (ahead - a)[None]
        values = f[None] + lengths * (ahead @ still - f)[None]
        heights = jax.vmap(height)(ways, values)
        best = jnp.nanargmax(heights)
        rose = heights[best] - high
        kept = rose > 0
        new = (
            jnp.where(kept, ways[best], a),
            jnp.where(kept, values[best], f),
            jnp.maximum(heights[best], high),
        )
        return *new, rose, steps + 1

    zero = jnp.zeros((likelihood.latents, len(K)), K.dtype)
    start = zero, zero, height(zero, zero), jnp.asarray(jnp.inf, K.dtype), jnp.zeros((), jnp.int32)
    _, f, _, change, steps = jax.lax.while_loop(goes_on, climb, start)
    a, _ = newton(likelihood, K, jax.lax.stop_gradient(f), y)
    f = a @ K
    bent, _ = curvature(likelihood, K, f, y)
    evidence = log_likelihood(likelihood, f, y) - 0.5 * (a * f).sum() - 0.5 * bent.log_det
    return Mode(f, a, evidence, steps, change)


__all__ = ["Curvature", "Mode", "curvature", "log_likelihood", "mode", "newton", "predicted"]
