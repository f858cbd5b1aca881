"""Matrix-free estimators of traces, diagonals, spectra and determinants, with standard errors.

A product is any linear map on vectors: `hvp(f)(x, .)`, `gauss_newton_product(...)`, a Jacobian product. Random probes
are Rademacher vectors, whose variance is the smallest among independent symmetric entries.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key, Tree
from chainrule.derive import validation
from chainrule.derive.flattening import flatten

Product = Callable[[Array], Array]


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Estimate:
    """A value (a number or an array) with its standard error; an exact value has error zero."""

    value: Any
    stderr: Any


def trace(
    product: Product, size: int, key: Key, *, samples: int = 32, method: str = "hutchinson"
) -> Estimate:
    """The trace of a square matrix of that size.

    "hutchinson" averages `zᵀ A z` over random probes; "hutch++" first takes out the range of a third of the probes
    exactly (Meyer, Musco, Musco and Woodruff, 2021), which is far better for matrices with few large eigenvalues.

    >>> A = jnp.diag(jnp.array([1.0, 2.0, 3.0]))
    >>> float(trace(lambda v: A @ v, 3, jax.random.key(0)).value)  # diagonal: exact with sign probes
    6.0
    """
    check_choice("trace", "method", method, ("hutchinson", "hutch++"))
    _positive("trace", size=size, samples=samples)
    if method == "hutchinson":
        probes = _signs(key, samples, size)
        return _mean(jax.vmap(lambda z: z @ product(z))(probes))
    first, rest = jax.random.split(key)
    sketch = min(max(samples // 3, 1), size)
    basis, _ = jnp.linalg.qr(jax.vmap(product, in_axes=1, out_axes=1)(_signs(first, sketch, size).T))
    exact = jnp.trace(basis.T @ jax.vmap(product, in_axes=1, out_axes=1)(basis))
    probes = _signs(rest, max(samples - 2 * sketch, 2), size)
    probes = probes - probes @ basis @ basis.T
    left = _mean(jax.vmap(lambda z: z @ product(z))(probes))
    return Estimate(exact + left.value, left.stderr)


def diagonal(product: Product, size: int, key: Key, *, samples: int = 32) -> Estimate:
    """The diagonal of a square matrix: the mean of `z * (A z)` over sign probes (Bekas, Kokiopoulou and Saad, 2007)."""
    _positive("diagonal", size=size, samples=samples)
    probes = _signs(key, samples, size)
    return _mean(jax.vmap(lambda z: z * product(z))(probes))


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lanczos:
    """Ritz values (ascending) and vectors (columns), and the weight each value has in the starting vector."""

    values: Array
    vectors: Array
    weights: Array


def lanczos(product: Product, size: int, key: Key, *, steps: int) -> Lanczos:
    """Lanczos with full reorthogonalisation: the ends of the spectrum of a symmetric matrix from a few products.

    When the starting vector's subspace is used up before that many steps (few distinct eigenvalues), it goes on with
    a new random vector, so that every value it returns is one of the matrix.
    """
    _positive("lanczos", size=size, steps=steps)
    return _lanczos(product, size, key, min(steps, size))


def _lanczos(product: Product, size: int, key: Key, steps: int) -> Lanczos:
    random, basis, zeros = _lanczos_start(key, size, steps)

    def project(w: Array, basis: Array) -> Array:
        for _ in range(2):  # twice is enough (Parlett)
            w = w - basis.T @ (basis @ w)
        return w

    def step(k: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        basis, alphas, betas = carry
        w = product(basis[k])
        alphas = alphas.at[k].set(w @ basis[k])
        scale = jnp.linalg.norm(w)
        w = project(w, basis)
        norm = jnp.linalg.norm(w)
        used_up = norm <= 100 * jnp.finfo(w.dtype).eps * scale
        fresh = project(random[jnp.minimum(k + 1, steps - 1)], basis)
        following = jnp.where(used_up, fresh / jnp.linalg.norm(fresh), w / jnp.where(used_up, 1.0, norm))
        betas = betas.at[k].set(jnp.where(used_up, 0.0, norm))
        return basis.at[k + 1].set(following, mode="drop"), alphas, betas

    # What the product closes over, maybe all weights of a network, must not become constants of a compiled program.
    return _ritz(*jax.lax.fori_loop(0, steps, step, (basis, zeros, zeros)))


@partial(jax.jit, static_argnums=(1, 2))
def _lanczos_start(key: Key, size: int, steps: int) -> tuple[Array, Array, Array]:
    random = jax.random.normal(key, (steps, size))  # one to start, the others in case they are needed
    start = random[0] / jnp.linalg.norm(random[0])
    return random, jnp.zeros((steps, size), start.dtype).at[0].set(start), jnp.zeros(steps, start.dtype)


@jax.jit
def _ritz(basis: Array, alphas: Array, betas: Array) -> Lanczos:
    """From the tridiagonal matrix and the vectors it is written in."""
    off = betas[:-1]
    values, vectors = jnp.linalg.eigh(jnp.diag(alphas) + jnp.diag(off, 1) + jnp.diag(off, -1))
    return Lanczos(values, basis.T @ vectors, jnp.square(vectors[0]))


def top_eigenpairs(
    product: Product, size: int, count: int, key: Key, *, steps: int | None = None
) -> tuple[Array, Array]:
    """The `count` eigenvalues of largest magnitude of a symmetric matrix (descending in magnitude), and their vectors.

    >>> values, _ = top_eigenpairs(lambda v: jnp.array([5.0, 1.0, -3.0]) * v, 3, 2, jax.random.key(0))
    >>> [round(float(value), 3) for value in values]
    [5.0, -3.0]
    """
    _positive("top_eigenpairs", size=size, count=count)
    if count > size:
        raise ArgumentError(f"top_eigenpairs(count={count}): count must lie between 1 and {size}")
    found = lanczos(product, size, key, steps=steps or min(size, max(2 * count + 20, 30)))
    return _largest(found, count)


@partial(jax.jit, static_argnums=1)
def _largest(found: Lanczos, count: int) -> tuple[Array, Array]:
    order = jnp.argsort(-jnp.abs(found.values))[:count]
    return found.values[order], found.vectors[:, order]


def log_determinant(product: Product, size: int, key: Key, *, samples: int = 16, steps: int = 30) -> Estimate:
    """The log-determinant of a positive definite matrix by stochastic Lanczos quadrature (Ubaru et al., 2017).

    An eigenvalue that is not positive is an error, in a compiled program when it runs.
    """
    _positive("log_determinant", size=size, samples=samples, steps=steps)
    values, weights = _quadratures(product, size, key, samples, steps)
    if isinstance(values, jax.core.Tracer):
        problem = "log_determinant: the eigenvalues of the matrix are not all positive"
        values = eqx.error_if(values, values.min() <= 0, f"{problem}\n{_SHIFT}")
    elif (lowest := float(values.min())) <= 0:
        raise ArgumentError(
            f"log_determinant: the matrix has an eigenvalue of {lowest:.3g}, not all are positive",
            remedy=_SHIFT,
        )
    return _mean(_log_sums(values, weights, size))


_SHIFT = "add a multiple of the identity (lambda v: product(v) + shift * v)"


@partial(jax.jit, static_argnums=2)
def _log_sums(values: Array, weights: Array, size: int) -> Array:
    return size * jnp.sum(weights * jnp.log(values), axis=1)


def spectral_density(
    product: Product, size: int, key: Key, *, samples: int = 8, steps: int = 40, points: int = 200
) -> tuple[Any, Any]:
    """A smoothed density of the eigenvalues of a symmetric matrix: (values, density), integrating to one."""
    _positive("spectral_density", size=size, samples=samples, steps=steps, points=points)
    found = _quadratures(product, size, key, samples, steps)
    # On the host NumPy has double precision; inside a compiled program there is only JAX.
    xp: Any = jnp if isinstance(found[0], jax.core.Tracer) else np
    values, weights = (xp.asarray(a).ravel() for a in found)
    width = xp.maximum(values.max() - values.min(), 1e-12) / 50
    grid = xp.linspace(values.min() - 3 * width, values.max() + 3 * width, points)
    bumps = xp.exp(-0.5 * xp.square((grid[:, None] - values[None, :]) / width)) / (
        width * math.sqrt(2 * math.pi)
    )
    return grid, bumps @ weights / samples


def divergence(f: Callable[[Any], Any], *, samples: int | None = None) -> Callable[..., Any]:
    """`sum_i df_i/dx_i` of a vector field: exactly by `divergence(f)(x)`, or from random probes with a key.

    >>> float(divergence(lambda x: x**2)(jnp.array([1.0, 2.0])))
    6.0
    """

    def evaluate(x: Tree, key: Key | None = None) -> Any:
        flat = flatten(f, validation.point("divergence", x))
        if flat.n != flat.m:
            raise ArgumentError(
                f"divergence: the field maps {flat.n} numbers to {flat.m}; it must keep their number"
            )
        _, push = jax.linearize(flat.vector, flat.x)
        if samples is None:
            return jnp.trace(jax.vmap(push)(jnp.eye(flat.n, dtype=flat.x.dtype)))
        if key is None:
            raise ArgumentError("divergence: an estimate from samples needs a random key")
        return trace(push, flat.n, key, samples=samples)

    return evaluate


def batch_divergence(
    f: Callable[[Array], Array],
    x: Float[Array, "batch ..."],
    directions: Float[Array, "probes batch ..."] | None = None,
) -> Float[Array, "probes batch"]:
    """The divergence of a field that acts example by example: exact (one row), or a row for each random direction.

    >>> batch_divergence(lambda x: x**2, jnp.array([[1.0, 2.0], [0.0, 1.0]])).tolist()
    [[6.0, 2.0]]
    """

    def along(direction: Array) -> Array:
        moved = jax.jvp(f, (x,), (direction,))[1]
        return (direction * moved).reshape(len(x), -1).sum(axis=1)

    if directions is not None:
        return jax.vmap(along)(directions)
    count = math.prod(x.shape[1:])
    basis = jnp.eye(count, dtype=x.dtype).reshape(count, 1, *x.shape[1:])
    return jax.vmap(along)(jnp.broadcast_to(basis, (count, *x.shape))).sum(axis=0)[None]


def _quadratures(product: Product, size: int, key: Key, samples: int, steps: int) -> tuple[Array, Array]:
    """Nodes and weights of one quadrature of the spectrum per random vector."""

    def one(key: Key) -> tuple[Array, Array]:
        found = _lanczos(product, size, key, min(steps, size))
        return found.values, found.weights

    return jax.vmap(one)(jax.random.split(key, samples))


def _signs(key: Key, count: int, size: int) -> Array:
    return jax.random.rademacher(key, (count, size), jnp.result_type(float))


@jax.jit
def _mean(values: Array) -> Estimate:
    count = values.shape[0]
    error = values.std(axis=0, ddof=1) / jnp.sqrt(count) if count > 1 else jnp.full(values.shape[1:], jnp.nan)
    return Estimate(values.mean(axis=0), error)


def _positive(where: str, **numbers: int) -> None:
    for name, number in numbers.items():
        if not isinstance(number, int | np.integer):
            raise ArgumentError(f"{where}: {name} is {type(number).__name__}, a whole number is needed")
        if number < 1:
            raise ArgumentError(f"{where}({name}={number}): {name} must be at least 1")


__all__ = [
    "Estimate",
    "Lanczos",
    "batch_divergence",
    "diagonal",
    "divergence",
    "lanczos",
    "log_determinant",
    "spectral_density",
    "top_eigenpairs",
    "trace",
]
