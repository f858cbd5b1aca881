"""Pictures of a flow that is a differential equation: its ways in the plane, and where the solver takes short steps."""

import itertools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Bars, Picture, Scatter
from chainrule.core.types import Array, Key
from chainrule.networks.flows.audit import layers_of
from chainrule.networks.flows.base import Bijection, Conditions
from chainrule.networks.flows.continuous import Continuous

_EXAMPLES = 128
_MOMENTS, _PARTS = 16, 4
"""Moments at which ways are drawn, and parts of them for which evaluations are counted."""
_WAYS = 40


def pictures(bijection: Bijection, given: Conditions, key: Key) -> Sequence[Picture]:
    """Of the first layer that solves an equation; none of a flow without one."""
    layer = next((one for one in layers_of(bijection) if isinstance(one, Continuous)), None)
    if layer is None:
        return []
    z = jax.random.normal(key, (_EXAMPLES, *layer.shape))
    condition = None if given is None else given[:_EXAMPLES]
    path = [z]
    for start, end in itertools.pairwise(np.linspace(0, 1, _MOMENTS + 1)):
        path.append(_carried(layer, path[-1], condition, jnp.asarray(start), jnp.asarray(end))[0])
    counts = []
    for number, (start, end) in enumerate(itertools.pairwise(np.linspace(0, 1, _PARTS + 1))):
        begin = path[number * _MOMENTS // _PARTS]
        counts.append(int(_carried(layer, begin, condition, jnp.asarray(start), jnp.asarray(end))[1]))
    whole = int(_carried(layer, z, condition, jnp.asarray(0.0), jnp.asarray(1.0))[1])
    steps = Bars(
        "solver-evaluations",
        "Where the equation is hard to solve",
        "time, from noise to data",
        "evaluations of the velocity",
        [f"{number / _PARTS:g} to {(number + 1) / _PARTS:g}" for number in range(_PARTS)],
        {"evaluations": np.array(counts, float)},
        caption=f"For {_EXAMPLES} draws together at a tolerance of {layer.tolerance:g}, each part of the way solved by "
        f"itself: more where the velocity changes fast. The whole way at once takes {whole}.",
    )
    return [*([_ways(np.asarray(jnp.stack(path)))] if layer.shape == (2,) else []), steps]


@eqx.filter_jit
def _carried(layer: Continuous, z: Array, given: Conditions, start: Array, end: Array) -> tuple[Array, Array]:
    found = layer.solved(z, given, start=start, end=end)
    return found.mapped.value, found.evaluations


def _ways(path: np.ndarray) -> Scatter:
    ends = path[1:, :_WAYS] - path[:-1, :_WAYS]
    return Scatter(
        "trajectories",
        "Ways from noise to data",
        "z1",
        "z2",
        {"noise": path[0], "arrived": path[-1]},
        arrows=(path[:-1, :_WAYS].reshape(-1, 2), ends.reshape(-1, 2)),
        caption=f"Solutions of the equation that begin at noise, {_WAYS} of them with an arrow for each sixteenth of "
        "the time. They may come close and never cross at the same time.",
    )


__all__ = ["pictures"]
