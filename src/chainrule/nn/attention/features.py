"""Feature maps whose inner products stand in for the softmax's kernel `exp(query · key / sqrt(size))`.

Attention by features needs queries' features up to a factor of their own, which cancels, and keys' features up to one
factor for all keys, feature by feature: what keys are divided by, queries are multiplied by. Exponents of keys are
therefore reduced by the largest over all keys, which is returned, so that sums over different keys can be put together,
and those of queries by their own largest after that. The likeliest feature of a query then meets a key whose feature is
one, and no sum of weights vanishes, however large keys are. A largest for each key would not cancel.
"""

import abc
import functools
import math
from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key


class FeatureMap(eqx.Module):
    """Positive features of queries and keys."""

    @abc.abstractmethod
    def count(self, size: int) -> int:
        """How many features a vector of this size has."""

    @abc.abstractmethod
    def logs(self, x: Float[Array, "*leading time size"]) -> Float[Array, "*leading time features"]:
        """Logarithms of the features of queries or keys."""

    @abc.abstractmethod
    def of_queries(
        self, x: Float[Array, "*leading time size"], top: Float[Array, "*leading features"]
    ) -> Float[Array, "*leading time features"]:
        """Features times `exp(top)`, what keys were divided by; each query's up to a positive factor."""

    @abc.abstractmethod
    def of_keys(
        self, x: Float[Array, "*leading time size"], valid: Bool[Array, "..."] | None = None
    ) -> tuple[Float[Array, "*leading time features"], Float[Array, "*leading features"]]:
        """Features, each up to one positive factor for all keys, and the logarithms of these; zeros where not valid.

        `valid` broadcasts against (..., time). Where none is, the logarithms may be -inf.
        """


@final
class EluPlusOne(FeatureMap):
    """`u + 1` for positive u, else `exp(u)` (Katharopoulos et al., 2020). It does not approximate the softmax."""

    def count(self, size: int) -> int:
        return size

    def logs(self, x: Float[Array, "*leading time size"]) -> Float[Array, "*leading time features"]:
        return jnp.where(x > 0, jnp.log1p(jnp.maximum(x, 0)), x)

    def of_queries(
        self, x: Float[Array, "*leading time size"], top: Float[Array, "*leading features"]
    ) -> Float[Array, "*leading time features"]:
        del top  # keys are not divided by anything
        return jax.nn.elu(x) + 1

    def of_keys(
        self, x: Float[Array, "*leading time size"], valid: Bool[Array, "..."] | None = None
    ) -> tuple[Float[Array, "*leading time features"], Float[Array, "*leading features"]]:
        f = jax.nn.elu(x) + 1
        kept = f if valid is None else jnp.where(_beside(valid, f), f, 0)
        return kept, jnp.zeros((*x.shape[:-2], x.shape[-1]), x.dtype)


@final
class RandomFeatures(FeatureMap):
    """Random features that are positive and whose inner products average to the softmax's kernel (Performer).

    (Choromanski et al., 2021.) "plain": `exp(w · x - |x|²/2)` for Gaussian w. "hyperbolic" uses w and -w, which at the
    same number of draws has less than half the variance. `draws` defaults to `size log(size)`. The w depend on `seed`
    alone and never change: they are no parameters.

    >>> RandomFeatures(draws=8).count(size=4)
    16
    """

    draws: int | None = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    orthogonal: bool = eqx.field(static=True)
    seed: int = eqx.field(static=True)

    def __init__(
        self,
        draws: int | None = None,
        kind: Literal["plain", "hyperbolic"] = "hyperbolic",
        *,
        orthogonal: bool = True,
        seed: int = 0,
    ) -> None:
        check_choice("RandomFeatures", "kind", kind, ("plain", "hyperbolic"))
        if draws is not None and draws < 1:
            raise ArgumentError(f"RandomFeatures(draws={draws}): at least one is needed")
        self.draws = draws
        self.kind = kind
        self.orthogonal = orthogonal
        self.seed = seed

    def count(self, size: int) -> int:
        return self._draws(size) * (2 if self.kind == "hyperbolic" else 1)

    def of_queries(
        self, x: Float[Array, "*leading time size"], top: Float[Array, "*leading features"]
    ) -> Float[Array, "*leading time features"]:
        exponents = self.logs(x) + finite(top)[..., None, :]
        return jnp.exp(exponents - jax.lax.stop_gradient(exponents.max(axis=-1, keepdims=True)))

    def of_keys(
        self, x: Float[Array, "*leading time size"], valid: Bool[Array, "..."] | None = None
    ) -> tuple[Float[Array, "*leading time features"], Float[Array, "*leading features"]]:
        exponents = self.logs(x)
        if valid is not None:
            exponents = jnp.where(_beside(valid, exponents), exponents, -jnp.inf)
        top = jax.lax.stop_gradient(exponents.max(axis=-2))
        return jnp.exp(exponents - finite(top)[..., None, :]), top

    def _draws(self, size: int) -> int:
        return max(1, round(size * math.log(size))) if self.draws is None else self.draws

    def logs(self, x: Float[Array, "*leading time size"]) -> Float[Array, "*leading time features"]:
        size = x.shape[-1]
        return log_features(x / size**0.25, self._directions(size).astype(x.dtype), self.kind == "hyperbolic")

    def _directions(self, size: int) -> Array:
        with jax.ensure_compile_time_eval():  # constants of the program, not part of its work
            return directions(jax.random.key(self.seed), self._draws(size), size, orthogonal=self.orthogonal)


def finite(top: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Logarithms of the largest of some numbers, 0 where there was none."""
    return jnp.where(top == -jnp.inf, 0, top)


def _beside(valid: Array, features: Array) -> Array:
    return jnp.broadcast_to(valid[..., None], features.shape)


def log_features(
    x: Float[Array, "*leading size"], w: Float[Array, "draws size"], hyperbolic: bool
) -> Float[Array, "*leading features"]:
    """Logarithms of features whose inner products average to `exp(x · y)`, up to the factor 1/sqrt(features)."""
    along = (x.reshape(-1, x.shape[-1]) @ w.T).reshape(*x.shape[:-1], w.shape[0])
    both = jnp.concatenate([along, -along], axis=-1) if hyperbolic else along
    return both - jnp.square(x).sum(axis=-1, keepdims=True) / 2


@functools.partial(jax.jit, static_argnums=(1, 2), static_argnames="orthogonal")
def directions(key: Key, draws: int, size: int, *, orthogonal: bool) -> Float[Array, "draws size"]:
    """Standard normal vectors; with `orthogonal`, at right angles to each other within blocks of `size`.

    Each vector is standard normal either way: the lengths of orthogonal ones are drawn from the chi distribution
    (Yu et al., 2016).
    """
    if not orthogonal:
        return jax.random.normal(key, (draws, size))
    turn, length = jax.random.split(key)
    blocks = -(-draws // size)
    turned = jax.vmap(lambda k: jax.random.orthogonal(k, size))(jax.random.split(turn, blocks))
    norms = jnp.linalg.norm(jax.random.normal(length, (draws, size)), axis=-1)
    return turned.reshape(blocks * size, size)[:draws] * norms[:, None]


__all__ = ["EluPlusOne", "FeatureMap", "RandomFeatures", "directions", "log_features"]
