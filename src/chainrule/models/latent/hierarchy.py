"""Latent variables in levels z_1 ... z_T: what networks between them have to offer, whatever order they are drawn in.

A code holds all levels one after another, the lowest first. A hierarchy gives the distribution of every entry twice:
given the example and the entries that were inferred before it (q), and given the levels above it (p). Bound, importance
weights, samples and pictures follow from the two.
"""

import abc
import itertools
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.information.compression.bits_back import Move, downward_moves, upward_moves
from chainrule.models.latent.posteriors import Gaussian

_Codes: TypeAlias = Float[Array, "batch size"]
Choose: TypeAlias = Callable[[int, Gaussian], Array]
"""From the number of a level, counted from 0, and a distribution to the code of that level."""


class Path(NamedTuple):
    """The codes of some examples, the distribution of every entry by q and by p, and what they decode to."""

    codes: _Codes
    posterior: Gaussian
    prior: Gaussian
    parameters: Float[Array, "batch ..."]
    """Of every entry of the example, by p(x|z)."""

    def log_ratio(self) -> _Codes:
        """`log q - log p` of every entry; summed and averaged over codes it is the rate."""
        return self.posterior.log_prob(self.codes) - self.prior.log_prob(self.codes)


class Hierarchy(eqx.Module):
    """Networks between an example and the levels of its code."""

    sizes: eqx.AbstractVar[tuple[int, ...]]
    """Entries of each level."""
    exact: eqx.AbstractClassVar[bool]
    """Whether levels are inferred from the top, so that each term of the rate is a divergence in closed form.

    From the bottom it is not: the prior of a level depends on codes above it, which depend in turn on the level.
    """
    compared: eqx.AbstractClassVar[int]
    """At most so many examples are compared with each other."""

    @abc.abstractmethod
    def inferred(self, x: Float[Array, "batch ..."], noise: _Codes) -> Path:
        """The codes that standard normal noise becomes under q(z|x), for examples in network units."""

    @abc.abstractmethod
    def path(self, x: Float[Array, "batch ..."], codes: _Codes) -> Path:
        """The same for codes that are given."""

    @abc.abstractmethod
    def generated(self, noise: _Codes, temperature: float | Array, known: _Codes, fixed: int) -> _Codes:
        """The codes that standard normal noise becomes under p(z); the top `fixed` levels are taken from `known`."""

    @abc.abstractmethod
    def entry_parameters(self, codes: _Codes) -> Float[Array, "batch ..."]:
        """The parameters of every entry of an example given its code."""

    def pairs(self, x: Float[Array, "batch ..."], codes: _Codes) -> Float[Array, "batch batch"]:
        """Default: `log q(z_i|x_j)` of every code i under every example j, all pairs through the networks."""

        def under_all(own: Array) -> Array:
            same = jnp.broadcast_to(own[None], codes.shape)
            return self.path(x, same).posterior.log_prob(same).sum(axis=-1)

        return jax.lax.map(under_all, codes)

    @property
    def moves(self) -> tuple[Move, ...]:
        """Default: to code by it, all levels are inferred in their order before anything is generated."""
        return (downward_moves if self.exact else upward_moves)(len(self.sizes))

    @property
    def size(self) -> int:
        """Entries of all levels together."""
        return sum(self.sizes)

    def part(self, level: int) -> slice:
        """Where the entries of a level, counted from 0, stand in a code."""
        ends = list(itertools.accumulate(self.sizes))
        return slice(ends[level] - self.sizes[level], ends[level])

    def by_level(self, entries: _Codes) -> Float[Array, "batch levels"]:
        """Sums over the entries of each level."""
        parts = [entries[:, self.part(level)].sum(axis=-1) for level in range(len(self.sizes))]
        return jnp.stack(parts, axis=-1)


def joined(parts: list[Gaussian]) -> Gaussian:
    """The distributions of all levels one after another."""
    return Gaussian(*(jnp.concatenate(column, axis=-1) for column in zip(*parts, strict=True)))


def standard(like: Array) -> Gaussian:
    """The standard normal distribution of as many entries."""
    return Gaussian(jnp.zeros_like(like), jnp.zeros_like(like))


__all__ = ["Choose", "Hierarchy", "Path", "joined", "standard"]
