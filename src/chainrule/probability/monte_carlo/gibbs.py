"""Gibbs sampling: one entry of a state after the other is drawn anew given all others.

Reference: Geman and Geman, 1984.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.monte_carlo.chains import (
    LogDensity,
    MCMCResult,
    Moved,
    check_lengths,
    checked_start,
    collect,
    result,
)

Conditional = Callable[[Key, Array], Array]
"""A draw of one entry of a state given the others."""


@final
class FiniteConditional(eqx.Module):
    """The conditional distribution of one entry, of which there are finitely many values 0, 1, ..., by trying all."""

    log_density: LogDensity
    entry: int = eqx.field(static=True)
    values: int = eqx.field(static=True)

    def log_probabilities(self, x: Array) -> Float[Array, " values"]:
        """Of every value, given the other entries of `x`."""
        tried = jax.vmap(lambda value: self.log_density(x.at[self.entry].set(value)))(
            jnp.arange(self.values, dtype=x.dtype)
        )
        return jax.nn.log_softmax(tried)

    def __call__(self, key: Key, x: Array) -> Array:
        """A draw."""
        return jax.random.categorical(key, self.log_probabilities(x))


def finite_conditionals(log_density: LogDensity, values: Sequence[int]) -> list[FiniteConditional]:
    """Conditionals for `gibbs` of a model whose entry i has the values 0 to `values[i]` - 1.

    >>> ising = finite_conditionals(lambda x: 0.5 * ((2 * x[1:] - 1) * (2 * x[:-1] - 1)).sum(), [2] * 3)
    >>> found = gibbs(ising, jnp.zeros((4, 3), int), jax.random.key(0), draws=1000)
    >>> bool((abs(found.mean - 0.5) < 4 * found.standard_error).all())
    True
    """
    return [
        FiniteConditional(log_density, entry, whole("finite_conditionals", f"values[{entry}]", count))
        for entry, count in enumerate(values)
    ]


def gibbs(
    conditionals: Sequence[Conditional],
    start: Any,
    key: Key,
    *,
    draws: int = 1000,
    burn_in: int = 100,
    thin: int = 1,
    warn: bool = True,
) -> MCMCResult:
    """Gibbs sampling of states `[entries]`, a chain from each row of `start` `[chains, entries]`.

    `conditionals[i](key, state)` draws entry i given the others; `finite_conditionals` makes them where every entry has
    few values. A move draws all entries, from the first to the last.
    """
    check_lengths("gibbs", draws, burn_in, thin)
    x = checked_start("gibbs", start, None)
    if x.ndim != 2 or x.shape[1] != len(conditionals):
        raise ArgumentError(
            f"gibbs: start has shape {x.shape} and there are {len(conditionals)} conditionals; it must be (chains, "
            f"{len(conditionals)})",
            remedy="one conditional for each entry of a state",
        )
    return result(_swept(tuple(conditionals), x, key, (draws, burn_in, thin)), warn=warn)


@eqx.filter_jit
def _swept(conditionals: tuple[Conditional, ...], x: Array, key: Key, lengths: tuple[int, int, int]) -> Moved:
    def sweep(key: Key, x: Array) -> Array:
        for entry, (conditional, one) in enumerate(
            zip(conditionals, jax.random.split(key, len(conditionals)), strict=True)
        ):
            x = x.at[entry].set(jnp.asarray(conditional(one, x), x.dtype))
        return x

    def step(key: Key, x: Array) -> Moved:
        moved = jax.vmap(sweep)(jax.random.split(key, len(x)), x)
        broken = ~jnp.isfinite(moved).all(axis=1)
        return Moved(jnp.where(broken[:, None], x, moved), jnp.ones(len(x)), broken)

    draws, burn_in, thin = lengths
    begin, walk = jax.random.split(key)
    if burn_in:
        x, _ = collect(step, x, begin, 1, burn_in)
    return collect(step, x, walk, draws, thin)[1]


__all__ = ["Conditional", "FiniteConditional", "finite_conditionals", "gibbs"]
