"""Maps: values, policies and visits over the two coordinates of an environment that has them (`HasPlane`)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.planes import HasPlane, StatePlane
from chainrule.agents.envs.spaces import Discrete
from chainrule.agents.envs.wrappers import NormalizeObservation, OneHot, Wrapper, innermost
from chainrule.agents.envs.wrappers.base import Unseen, unwrapped
from chainrule.agents.evaluation.recording import Recording
from chainrule.agents.learning.base import Decision, Policy
from chainrule.core.pictures import Heatmap, Picture, Scatter
from chainrule.core.types import Array

_CONTOURS = 5


def maps(
    policy: Policy,
    env: Environment[Any],
    recordings: Mapping[str, Recording],
    explored: Mapping[str, Recording] | None = None,
) -> list[Picture]:
    """What an agent expects and does at every point of the plane, with the ways of recorded episodes.

    Where it comes is shown by the episodes in which it `explored`, if there are any, else by those. There are no maps
    where the environment has no such plane, or what is seen is not known from a point of it alone.
    """
    world = unwrapped(env)
    if not isinstance(world, HasPlane):
        return []
    plane = world.plane()
    seen = _shown(
        env, jnp.asarray(plane.observations).reshape(plane.inside.size, *plane.observations.shape[2:])
    )
    if seen is None or seen.shape[1:] != env.observation_space.shape:
        return []
    decided = jax.tree.map(np.asarray, _decided(policy, seen))
    shape = plane.inside.shape
    values = np.where(plane.inside, decided.value.reshape(shape), np.nan)
    paths = {name: _coordinates(recording) for name, recording in recordings.items()}
    been = [_coordinates(recording) for recording in (explored or recordings).values()]
    where = visits(plane, been, "Where it comes while exploring" if explored else "Where the episodes went")
    if plane.cells:
        return [_cells(plane, decided, values, env), where]
    found: list[Picture] = [_policy(plane, decided, env), where]
    if np.isfinite(values).any():
        found.insert(0, _surface(plane, values, paths))
    return found


def _shown(env: Environment[Any], observations: Array) -> Array | None:
    """What wrappers make of observations; None where that takes more than one of them."""
    if not isinstance(env, Wrapper):
        return observations
    inside = _shown(env.env, observations)
    if inside is None or isinstance(env, Unseen):
        return inside
    if isinstance(env, OneHot) and inside.ndim == 1:
        return jax.nn.one_hot(inside, env.observation_space.shape[0])
    if isinstance(env, NormalizeObservation) and env.moments is not None:
        moments = env.moments
        return jax.vmap(lambda one: env.normalized(one, moments))(inside)
    return None


def visits(plane: StatePlane, paths: Iterable[np.ndarray], title: str = "Where the episodes went") -> Heatmap:
    """How often episodes, given by the coordinates of their states, came near each point."""
    counts = np.zeros(plane.inside.shape)
    for path in paths:
        columns, rows = (
            np.abs(path[:, axis, None] - points).argmin(axis=1)
            for axis, points in enumerate((plane.x, plane.y))
        )
        np.add.at(counts, (rows, columns), 1)
    return Heatmap("visits", title, plane.x_label, plane.y_label, *_upright(plane, counts))


def _cells(plane: StatePlane, decided: Decision, values: np.ndarray, env: Environment[Any]) -> Heatmap:
    """Values of cells in colour, and which way the agent goes from each."""
    greedy = decided.action.reshape(plane.inside.shape)
    words: Sequence[Sequence[str]] = ()
    if plane.arrows and isinstance(env.action_space, Discrete):
        words = [
            [plane.arrows[int(a)] if inside else "" for a, inside in zip(*row, strict=True)]
            for row in zip(greedy, plane.inside, strict=True)
        ]
    shown, rows, columns = _upright(plane, values)
    return Heatmap(
        "value-map",
        "Values, and the way taken",
        plane.x_label,
        plane.y_label,
        shown,
        rows,
        columns,
        diverging=bool((shown < 0).any() and (shown > 0).any()),
        words=words,
    )


def _surface(plane: StatePlane, values: np.ndarray, paths: Mapping[str, np.ndarray]) -> Scatter:
    """Values as a surface with its heights, and the ways of episodes over it."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    levels = [float(level) for level in np.linspace(low, high, _CONTOURS + 2)[1:-1]]
    return Scatter(
        "value-map",
        "What the agent expects",
        plane.x_label,
        plane.y_label,
        {name: path for name, path in paths.items() if len(path)},
        field=values,
        extent=_extent(plane),
        contours=[(level, f"{level:.3g}") for level in levels],
        joined=True,
        caption="Contours: the value of a state, as the agent estimates it. Lines: recorded episodes.",
    )


def _policy(plane: StatePlane, decided: Decision, env: Environment[Any]) -> Scatter:
    """What the agent does at every point: a colour for each of finitely many actions, else for how much."""
    across, up = np.meshgrid(plane.x, plane.y)
    points = np.stack([across, up], -1).reshape(-1, 2)
    title, labels = "What the agent does", (plane.x_label, plane.y_label)
    space = env.action_space
    if isinstance(space, Discrete):
        groups = {f"action {a}": points[decided.action == a] for a in range(space.n)}
        return Scatter(
            "policy-map", title, *labels, {name: found for name, found in groups.items() if len(found)}
        )
    first = np.asarray(decided.action).reshape(len(points), -1)[:, 0]
    return Scatter("policy-map", title, *labels, {"action": points}, shades=(first, "action"))


def _upright(plane: StatePlane, values: np.ndarray) -> tuple[np.ndarray, list[str], list[str]]:
    """A matrix over the plane with the names of its rows and columns, rows downwards as matrices are drawn."""
    rows, columns = ([f"{point:.3g}" for point in points] for points in (plane.y, plane.x))
    return (values, rows, columns) if plane.cells else (values[::-1], rows[::-1], columns)


def _extent(plane: StatePlane) -> tuple[float, float, float, float]:
    return float(plane.x[0]), float(plane.x[-1]), float(plane.y[0]), float(plane.y[-1])


def _coordinates(recording: Recording) -> np.ndarray:
    world, states = innermost(recording.env, recording.states)
    return world.coordinates(states) if isinstance(world, HasPlane) else np.zeros((0, 2))


@eqx.filter_jit
def _decided(policy: Policy, observations: Array) -> Decision:
    """What the policy does, at the beginning of an episode, at every point."""
    key = jax.random.key(0)  # of no consequence where it does the best it knows

    def one(observation: Array) -> Decision:
        return policy.act(key, observation, policy.start(), greedy=True)._replace(memory=())

    return jax.vmap(one)(observations)


__all__ = ["maps", "visits"]
