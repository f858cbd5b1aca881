"""Curvature products of a loss on a network: Gauss-Newton and Fisher, without forming the matrix.

For outputs `z = f(params)` and a loss `l(z)`, `G v = Jᵀ (∇²l) J v` needs one forward product, one product with the
small output Hessian and one reverse product. For the log-likelihood of an exponential family in its natural parameters
it is the Fisher information.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.checks import check_class_numbers
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key, Tree
from chainrule.derive import validation
from chainrule.derive.dense.hessians import hvp

LIKELIHOODS = ("categorical", "gaussian", "bernoulli")
KINDS = ("exact", "empirical", "sampled")


def gauss_newton_product(
    f: Callable[[Any], Array], loss: Callable[[Array], Array], params: Tree
) -> Callable[[Tree], Tree]:
    """`v -> Jᵀ (∇²loss) J v` at `params`; linearised once, applied many times.

    >>> G = gauss_newton_product(lambda w: w**2, lambda z: 0.5 * jnp.sum(z**2), jnp.array([1.0, 2.0]))
    >>> G(jnp.ones(2)).tolist()
    [4.0, 16.0]
    """
    params = validation.point("gauss_newton_product", params, name="params")
    z, push = jax.linearize(f, params)
    pull = jax.linear_transpose(push, params)
    curve = hvp(loss)

    def product(v: Tree) -> Tree:
        v = validation.direction("gauss_newton_product", "v", v, params, "params")
        return pull(curve(z, push(v)))[0]

    return product


def fisher_product(
    f: Callable[[Any], Array],
    params: Tree,
    *,
    likelihood: str = "categorical",
    kind: str = "exact",
    targets: Array | None = None,
    key: Key | None = None,
    samples: int = 1,
) -> Callable[[Tree], Tree]:
    """`v -> F v`, the mean over examples of `E[∇ log p ∇ log pᵀ] v`, for outputs `f(params)` of shape (batch, outputs).

    - `likelihood`: what the outputs parametrise: "categorical" (logits), "bernoulli" (logits), "gaussian" (means, unit
      variance).
    - `kind`: "exact" takes the expectation over targets in closed form, "empirical" puts the given `targets` in its
      place (not the Fisher matrix, but often used as one), "sampled" draws `samples` targets per example.
    """
    check_choice("fisher_product", "likelihood", likelihood, LIKELIHOODS)
    check_choice("fisher_product", "kind", kind, KINDS)
    if kind == "empirical" and targets is None:
        raise ArgumentError('fisher_product(kind="empirical"): needs the targets of the batch')
    if kind == "sampled" and key is None:
        raise ArgumentError('fisher_product(kind="sampled"): needs a random key')
    if samples < 1:
        raise ArgumentError(f"fisher_product(samples={samples}): at least one sample is needed")
    params = validation.point("fisher_product", params, name="params")
    z, push = jax.linearize(f, params)
    if z.ndim != 2:
        raise ArgumentError(f"fisher_product: the function must return (batch, outputs), not shape {z.shape}")
    wanted = z.shape[:1] if likelihood == "categorical" else z.shape
    if targets is not None and jnp.shape(targets) != wanted:
        raise ArgumentError(
            f"fisher_product: targets of shape {jnp.shape(targets)} for outputs of shape {z.shape}",
            remedy=f'likelihood="{likelihood}" takes targets of shape {wanted}',
        )
    if targets is not None and likelihood == "categorical":
        check_class_numbers("fisher_product", "targets", targets, z.shape[1])
    pull = jax.linear_transpose(push, params)
    metric = _output_metric(z, likelihood, kind, targets, key, samples)

    def product(v: Tree) -> Tree:
        v = validation.direction("fisher_product", "v", v, params, "params")
        return pull(metric(push(v)) / z.shape[0])[0]

    return product


def _output_metric(
    z: Array, likelihood: str, kind: str, targets: Array | None, key: Key | None, samples: int
) -> Callable[[Array], Array]:
    """The map of output directions by the Fisher information of the outputs, example by example."""
    if kind == "exact":
        if likelihood == "categorical":
            p = jax.nn.softmax(z, axis=-1)
            return lambda t: p * t - p * (p * t).sum(axis=-1, keepdims=True)
        if likelihood == "bernoulli":
            p = jax.nn.sigmoid(z)
            return lambda t: p * (1 - p) * t
        return lambda t: t
    if kind == "empirical":
        scores = _score(z, likelihood, jnp.asarray(targets))[None]
    else:
        assert key is not None
        draw = lambda k: _score(z, likelihood, _draw(z, likelihood, k))  # noqa: E731
        scores = jax.vmap(draw)(jax.random.split(key, samples))
    return lambda t: (scores * (scores * t[None]).sum(axis=-1, keepdims=True)).mean(axis=0)


def _score(z: Array, likelihood: str, targets: Array) -> Array:
    """Gradient of the log-likelihood of each example in its outputs."""
    if likelihood == "categorical":
        return jax.nn.one_hot(targets, z.shape[-1], dtype=z.dtype) - jax.nn.softmax(z, axis=-1)
    if likelihood == "bernoulli":
        return targets - jax.nn.sigmoid(z)
    return targets - z


def _draw(z: Array, likelihood: str, key: Key) -> Array:
    if likelihood == "categorical":
        return jax.random.categorical(key, z, axis=-1)
    if likelihood == "bernoulli":
        return jax.random.bernoulli(key, jax.nn.sigmoid(z)).astype(z.dtype)
    return z + jax.random.normal(key, z.shape, z.dtype)


__all__ = ["KINDS", "LIKELIHOODS", "fisher_product", "gauss_newton_product"]
