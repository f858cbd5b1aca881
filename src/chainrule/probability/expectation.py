"""Expected values of functions: exact where there are finitely many points, by quadrature or from draws elsewhere."""

import itertools
import math
from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key
from chainrule.probability.distributions.base import Atoms, Distribution
from chainrule.probability.distributions.multivariate_normal import MultivariateNormal
from chainrule.probability.distributions.normal import Normal
from chainrule.probability.kullback_leibler.estimate import mean_and_error

METHODS = ("auto", "enumeration", "quadrature", "monte-carlo")
_NODES = {1: 128, 2: 48, 3: 24}
"""Nodes of the quadrature along each axis."""


@final
class Expectation(eqx.Module):
    """An expected value, `[*batch, ...]`, how it was found, and its standard error (0 where nothing was drawn)."""

    value: Array
    standard_error: Array
    method: str = eqx.field(static=True)


def expect(
    p: Distribution,
    f: Callable[[Array], Any],
    *,
    key: Key | None = None,
    samples: int = 10_000,
    method: str = "auto",
) -> Expectation:
    """E f(X) for X drawn from `p`; `f` takes one event and returns an array.

    With finitely many points it is the sum over them ("enumeration"); for normal distributions of up to three
    dimensions Gauss-Hermite quadrature, exact for polynomials and close for smooth functions ("quadrature"); else the
    mean over `samples` draws with its standard error ("monte-carlo"), for which a `key` is needed.

    >>> from chainrule.probability import Normal
    >>> found = expect(Normal(1.0, 2.0), lambda x: x**2)
    >>> found.method, round(float(found.value), 4)
    ('quadrature', 5.0)
    """
    check_choice("expect", "method", method, METHODS)
    samples = whole("expect", "samples", samples, least=2)
    if method in ("auto", "enumeration"):
        atoms = p.atoms()
        if atoms is not None:
            return _weighted(p, f, atoms, "enumeration")
    if method in ("auto", "quadrature"):
        nodes = _gauss_hermite(p)
        if nodes is not None:
            return _weighted(p, f, nodes, "quadrature")
    if method in ("enumeration", "quadrature"):
        needed = (
            "finitely many points"
            if method == "enumeration"
            else "a normal distribution of 1 to 3 dimensions"
        )
        raise ArgumentError(
            f'expect(method="{method}"): needs {needed}, not {type(p).__name__} with events of shape {p.event_shape}',
            remedy='use method="auto"',
        )
    if key is None:
        raise ArgumentError(
            f"expect: for {type(p).__name__} the mean is taken over draws, which need a key",
            remedy="give key=jax.random.key(0)",
        )
    values = _values(p, f, p.sample(key, samples))
    return Expectation(*mean_and_error(values), "monte-carlo")


def _values(p: Distribution, f: Callable[[Array], Any], points: Array) -> Array:
    """`f` of every event, over all leading axes."""
    rank = len(p.event_shape)
    lead = points.shape[: points.ndim - rank]
    flat = jax.vmap(lambda x: jnp.asarray(f(x)))(points.reshape(-1, *p.event_shape))
    return flat.reshape(*lead, *flat.shape[1:])


def _weighted(p: Distribution, f: Callable[[Array], Any], atoms: Atoms, method: str) -> Expectation:
    value = atoms.mean(_values(p, f, atoms.points))
    return Expectation(value, jnp.zeros_like(value), method)


def _gauss_hermite(p: Distribution) -> Atoms | None:
    """Nodes and weights for a normal distribution, or nothing for others."""
    if isinstance(p, Normal):
        noise, weights = _standard_nodes(1)
        noise = noise.reshape(-1, *(1,) * len(p.batch_shape))
        mean, scale = p.mean[None], p.scale[None]
        points = mean + scale * jnp.asarray(noise, mean.dtype)
    elif isinstance(p, MultivariateNormal) and p.structure.noise_size() <= max(_NODES):
        noise, weights = _standard_nodes(p.structure.noise_size())
        noise = noise.reshape(len(noise), *(1,) * len(p.batch_shape), noise.shape[-1])
        wide = jnp.broadcast_to(
            jnp.asarray(noise, p.mean.dtype), (len(noise), *p.batch_shape, noise.shape[-1])
        )
        points = p.mean[None] + p.structure.color(wide)
    else:
        return None
    batch = (1,) * len(p.batch_shape)
    masses = jnp.asarray(weights, points.dtype).reshape(-1, *batch)
    return Atoms(points, jnp.broadcast_to(masses, (len(weights), *p.batch_shape)))


def _standard_nodes(dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes `[n, dimensions]` and weights of the product rule for standard normal vectors."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES[dimensions])
    weights = weights / math.sqrt(2 * math.pi)
    grid = np.array(list(itertools.product(nodes, repeat=dimensions)))
    return grid, np.prod(list(itertools.product(weights, repeat=dimensions)), axis=1)


__all__ = ["METHODS", "Expectation", "expect"]
