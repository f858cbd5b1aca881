"""Where a walk begins: at pure noise, or at given examples, noised part of the way (Meng et al., 2022)."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion.process import Level, noised
from chainrule.models.diffusion.steering.files import arrays_of

if TYPE_CHECKING:
    from chainrule.models.diffusion.generative import Generative


@final
class Plan(eqx.Module):
    """The levels of a walk, and the examples it starts from, if any."""

    levels: Level
    examples: Float[Array, "batch ..."] | None
    std: Any
    shape: tuple[int, ...]

    def begin(self, key: Key, first: int, count: int) -> Float[Array, "batch ..."]:
        """`count` starting points, from the `first` on."""
        noise = jax.random.normal(key, (count, *self.shape))
        if self.examples is None:
            return self.std * noise
        mine = jnp.take(self.examples, jnp.arange(first, first + count), axis=0, mode="wrap")
        return noised(mine, noise, Level(*(jnp.asarray(v[0], mine.dtype) for v in self.levels)))


def plan(model: "Generative", start: Any, strength: float, levels: Level, n: int) -> Plan:
    """A walk down all levels from noise; from examples, down the last `strength` of them."""
    shape = model.schema.shape
    std = jnp.asarray(model.schedule.process.prior_std(levels.at(0)), jnp.float32)
    if start is None:
        return Plan(levels, None, std, shape)
    if not (isinstance(strength, int | float) and 0 < strength <= 1):
        raise ArgumentError(f"strength={strength}: a share of the noise above 0, up to 1")
    if isinstance(start, str | Path):
        start = arrays_of(Path(start), ("samples",), model.schema)["samples"]
    given = np.asarray(start, np.float32)
    given = given[None] if given.shape == shape else given
    if given.ndim != len(shape) + 1 or given.shape[1:] != shape or not len(given) or len(given) > n:
        raise ArgumentError(
            f"start: shape {given.shape}; the data have shape {shape}",
            remedy=f"give up to n={n} examples",
        )
    steps = len(np.asarray(levels.a)) - 1
    first = min(round((1 - strength) * steps), steps - 1)
    return Plan(levels.at(slice(first, None)), model.to_network_units(jnp.asarray(given)), std, shape)


def similarity(one: Float[Array, "batch ..."], other: Float[Array, "batch ..."]) -> Float[Array, " batch"]:
    """Correlation of the entries of two examples: 1 for a copy, 0 where nothing was kept or one is a single shade.

    >>> x = jnp.array([[0.0, 1.0, 2.0]])
    >>> float(similarity(x, 2 * x + 1)[0].round(4))
    1.0
    """
    a, b = (x.reshape(len(x), -1) for x in (one, other))
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (a, b))
    sizes = jnp.sqrt(jnp.square(a).sum(axis=1) * jnp.square(b).sum(axis=1))
    return (a * b).sum(axis=1) / jnp.where(sizes > 0, sizes, 1)


__all__ = ["Plan", "plan", "similarity"]
