"""Cliff walking: the shortest way leads along a cliff, and who falls begins again at the start (Sutton and Barto)."""

from typing import Annotated, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents.envs.base import HasDrawing
from chainrule.agents.envs.drawing import Drawing
from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.finite import FiniteEnvironment, FiniteState, Outcomes
from chainrule.agents.envs.grids import (
    DOWN,
    LEFT,
    RIGHT,
    UP,
    drawn_walker,
    moves,
    read_cells,
    sideways,
    slipping,
)
from chainrule.agents.envs.planes import HasPlane, StatePlane, grid_coordinates, grid_plane
from chainrule.core.types import Array, Float

_CELLS = read_cells(("............",) * 3 + ("SCCCCCCCCCCG",), "S.CG", "cliff")
_START = int(np.argmax(_CELLS.ravel() == "S"))
_NAMES = ("up", "right", "down", "left")
_COLORS = {"C": "mark", "G": "3", "S": "folded"}


class CliffWalkingParams(NamedTuple):
    """Numbers of the world."""

    slippery: Annotated[bool, Field(description="whether two of three steps slip to the side")] = False
    step: Annotated[float, Field(description="reward of every move")] = -1.0
    fall: Annotated[float, Field(description="reward of stepping over the cliff")] = -100.0
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 1000


@final
class CliffWalking(FiniteEnvironment, HasDrawing, HasPlane):
    """Up, right, down, left; every move costs 1, and a fall 100."""

    params: CliffWalkingParams = CliffWalkingParams()

    @property
    def states(self) -> int:
        return int(_CELLS.size)

    @property
    def actions(self) -> int:
        return len(_NAMES)

    def start(self, params: CliffWalkingParams) -> Array:
        del params
        return jnp.asarray(np.eye(self.states)[_START], jnp.float32)

    def outcomes(self, number: Array, action: Array, params: CliffWalkingParams) -> Outcomes:
        cliff, goal = jnp.asarray((_CELLS == "C").ravel()), jnp.asarray((_CELLS == "G").ravel())
        there = jnp.asarray(moves(_CELLS, (UP, RIGHT, DOWN, LEFT)))[number, sideways(action)]
        # The goal leads to itself; cells of the cliff are never stood on, and lead back to the start.
        fallen, arrived = cliff[there] | cliff[number], goal[number]
        successor = jnp.where(arrived, number, jnp.where(fallen, _START, there))
        reward = jnp.where(arrived, 0.0, jnp.where(fallen, params.fall, params.step))
        return Outcomes(slipping(jnp.where(params.slippery, 2 / 3, 0.0)), successor, reward, goal[successor])

    def action_name(self, action: int) -> str:
        return _NAMES[action]

    def render(self, state: FiniteState, params: CliffWalkingParams | None = None) -> Drawing:
        del params
        return drawn_walker(_CELLS, _COLORS, int(state.number), "a walker beside a cliff")

    def plane(self) -> StatePlane:
        return grid_plane(_CELLS, "CG", "↑→↓←")

    def coordinates(self, states: FiniteState) -> Float[np.ndarray, "n 2"]:
        return grid_coordinates(_CELLS, np.asarray(states.number))


ENTRY = EnvironmentEntry(
    CliffWalking,
    "walk from start to goal beside a cliff",
    "Sutton and Barto (2018), Reinforcement Learning: An Introduction, example 6.6",
    random_return=-9512.1,
    optimal_return=-13.0,
)

__all__ = ["ENTRY", "CliffWalking", "CliffWalkingParams"]
