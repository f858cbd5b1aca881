"""Times at which a batch is noised in training: spread evenly, or so that noise levels are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion.schedules.schedule import Schedule

_CELLS = 1024
"""Parts of the schedule within which times are drawn evenly; how many changes the variance, and nothing else."""


def drawn_times(
    schedule: Schedule, count: int, key: Key, dtype: Any = jnp.float32, *, evenly_in_lam: bool = False
) -> tuple[Float[Array, " count"], Float[Array, " count"]]:
    """Times for each of a batch, and how much more likely each was than among even ones, by which to divide its weight.

    One random number decides all of them: they fill the schedule as evenly as they can, each time being as likely as it
    would be alone. A mean over levels is the same either way; where it counts levels alike, drawing them alike makes it
    far less noisy than weighting them does.
    """
    even = (jax.random.uniform(key, (), dtype) + jnp.arange(count, dtype=dtype) / count) % 1
    if not evenly_in_lam:
        return schedule.first + (1 - schedule.first) * even, jnp.ones_like(even)
    edges = schedule.first + (1 - schedule.first) * np.linspace(0, 1, _CELLS + 1)
    gone = schedule.lam(jnp.asarray(edges, dtype))
    reached = (gone[0] - gone) / (gone[0] - gone[-1])
    cell = jnp.clip(jnp.searchsorted(reached, even, side="right") - 1, 0, _CELLS - 1)
    share = reached[cell + 1] - reached[cell]
    within = jnp.clip((even - reached[cell]) / share, 0, 1)
    return schedule.first + (1 - schedule.first) * (cell + within) / _CELLS, share * _CELLS


__all__ = ["drawn_times"]
