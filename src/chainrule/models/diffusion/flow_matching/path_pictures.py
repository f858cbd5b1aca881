"""Pictures of paths from noise to data: how much they bend, and where the velocity leads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Lines, Picture, Scatter
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.models.diffusion.flow_matching.curvature import bending

if TYPE_CHECKING:
    from chainrule.models.diffusion.flow_matching.model import FlowMatching

_SHOWN = 128
_WAYS = 40
_SIDE = 2.5
_AT = 0.5
"""Time at which the velocity is drawn, halfway."""


def pictures(model: "FlowMatching") -> Sequence[Picture]:
    """Every picture that suits the data; samples of each class in turn, where there are classes."""
    n = _SHOWN
    condition = jnp.arange(n, dtype=jnp.int32) % model.classes if model.classes else None
    if model.conditional and not model.classes and model.needs_condition:
        return []
    paths = _paths(model, jax.random.key(0), n, condition)
    # The velocity of all data together is known where conditions were left out now and then.
    whole = not model.conditional or bool(model.config.condition_dropout)
    plane = whole and kinds.of(model.schema).is_plane(model.schema)
    return [*([field(model, np.asarray(paths))] if plane else []), bends(paths)]


@eqx.filter_jit
def _paths(model: "FlowMatching", key: Key, n: int, condition: Array | None) -> Array:
    return model.paths(key, n, condition)


def bends(paths: Array) -> Picture:
    """How far the velocity is from that of a straight path at every time, over samples."""
    off = np.asarray(bending(paths))
    low, high = np.quantile(off, [0.1, 0.9], axis=1)
    times = (np.arange(len(off)) + 0.5) / len(off)
    return Lines(
        "path-curvature",
        "How paths bend",
        "time, from noise to data",
        "share of the mean squared length",
        {"mean": (times, off.mean(axis=1), low, high)},
        caption=f"Squared distance of the velocity from that of a straight path at even speed, over {off.shape[1]} "
        f"samples, with the range of eight in ten. Its mean over time is {off.mean():.3f}; were it 0, one step would "
        "do.",
    )


def field(model: "FlowMatching", paths: np.ndarray) -> Picture:
    """The velocity halfway over the plane, where samples begin and end, and the paths of some."""
    axis = np.linspace(-_SIDE, _SIDE, 18)
    points = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    velocity = np.asarray(model.velocity(jnp.asarray(points, jnp.float32), _AT))
    longest = np.linalg.norm(velocity, axis=1).max()
    return Scatter(
        "velocity",
        "Velocity halfway between noise and data",
        "first coordinate",
        "second coordinate",
        {
            "paths": paths[:, :_WAYS].reshape(-1, 2),
            "noise": paths[0],
            "samples": paths[-1],
        },
        arrows=(points, (axis[1] - axis[0]) * velocity / max(longest, 1e-9)),
        caption=f"At time {_AT:g}, of all data together; the longest arrow stands for {longest:.2g}. Dots are {_WAYS} "
        "paths from noise to data.",
    )


__all__ = ["bends", "field", "pictures"]
