"""What an attacker of a run may do: held-out examples, the classes an attack is about, and the units of a change.

Where `eps` is given it is in data units, the same for every number of an example. Where shares of the range are given,
every column is measured by its own: then the attacker's unit is the range of a column.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, suggest
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.attacks import Aim, raw_bounds, victim_of
from chainrule.nn.attacks import largest_change
from chainrule.train import Run


class Threat(NamedTuple):
    """What may be changed, and in which units."""

    aim: Aim
    """Examples in the attacker's units, with the classes that the attack is about."""
    y: np.ndarray
    """Classes of the examples."""
    unit: np.ndarray
    """Data units in one unit of the attacker."""
    low: float
    high: float
    """The range of raw values."""
    most: float
    """The largest change there can be, in units of eps."""
    words: str
    """What eps is measured in."""
    said: tuple[str, ...] = ()
    """Which examples they are, where there is no test split."""

    def raw(self, x: Any) -> np.ndarray:
        """Examples in data units."""
        return np.asarray(x, np.float64) * self.unit

    def aimed_at(self, other: Run) -> Aim:
        """The same examples before another run of the same data."""
        return self.aim._replace(victim=victim_of(other, None if self.unit.ndim == 0 else self.unit))


def threat_of(run: Run, data: Data, examples: int, target: str, norm: str, raw_eps: bool) -> Threat:
    """The first held-out examples of a run; with a target, those of other classes.

    `raw_eps`: changes are measured in data units, and not by the range of each column.
    """
    schema = run.schema
    x, y, aim_at = _chosen(run, data, schema, examples, target)
    bounds = raw_bounds(run, x)
    low, high = (np.asarray(bound, np.float64) for bound in bounds)
    unit = np.ones(())
    words = f"raw units ({low.min():g} to {high.max():g})"
    if low.ndim and not raw_eps:
        span = high - low
        unit = np.where(span > 0, span, 1.0)  # what never changes stays as it is
        words = "share of the range of every column"
    inner = (low / unit, high / unit)
    scaled = jnp.asarray(x / unit, jnp.result_type(float))
    victim = victim_of(run, None if unit.ndim == 0 else unit)
    return Threat(
        Aim(victim, scaled, jnp.asarray(aim_at), inner),
        *(y, unit, float(low.min()), float(high.max())),
        largest_change(inner, schema.shape, norm),
        words,
        tuple(data.held_out()[1]),
    )


def entry_noun(schema: Schema) -> str:
    """What a number of an example is called."""
    return "pixel" if kinds.of(schema).spatial else "number"


def _chosen(
    run: Run, data: Data, schema: Schema, examples: int, target: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    part, _ = data.held_out()
    y = np.asarray(part.y)
    which = np.arange(len(y))
    number = None
    if target:
        if target not in schema.classes:
            raise ArgumentError(
                f"target={target}: no class has this name{suggest(target, schema.classes)}",
                remedy=f"classes: {', '.join(schema.classes[:10])}{', ...' if len(schema.classes) > 10 else ''}",
            )
        number = schema.classes.index(target)
        which = which[y != number]
        if not len(which):
            raise ArgumentError(f"target={target}: every test example is of this class already")
    which = which[:examples]
    x = np.asarray(run.scaling.inverse(np.asarray(part.batch(which).x)), np.float32)
    own = y[which]
    return x, own, own if number is None else np.full_like(own, number)


__all__ = ["Threat", "entry_noun", "threat_of"]
