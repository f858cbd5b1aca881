"""Frozen lake: cross the ice to the goal without falling into a hole, where two of three steps slip to the side."""

from typing import Annotated, Literal, NamedTuple, final

import equinox as eqx
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
    Cells,
    drawn_walker,
    moves,
    read_cells,
    sideways,
    slipping,
)
from chainrule.agents.envs.planes import HasPlane, StatePlane, grid_coordinates, grid_plane
from chainrule.core.types import Array, Float

_LAKES = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
}
_LIMITS = {"4x4": 100, "8x8": 200}
_NAMES = ("left", "down", "right", "up")
_COLORS = {"H": "ink", "G": "3", "S": "folded"}


class FrozenLakeParams(NamedTuple):
    """Numbers of the world."""

    slippery: Annotated[bool, Field(description="whether two of three steps slip to the side")] = True
    limit: Annotated[
        int, Field(ge=0, description="steps after which an episode is cut off; 0: 100 on 4x4, 200 on 8x8")
    ] = 0


@final
class FrozenLake(FiniteEnvironment, HasDrawing, HasPlane):
    """Left, down, right, up; reaching the goal is worth 1, everything else nothing."""

    size: Annotated[Literal["4x4", "8x8"], Field(description="of the lake")] = eqx.field(
        static=True, default="4x4"
    )
    params: FrozenLakeParams = FrozenLakeParams()

    @property
    def states(self) -> int:
        return int(self._cells.size)

    @property
    def actions(self) -> int:
        return len(_NAMES)

    @property
    def _cells(self) -> Cells:
        return read_cells(_LAKES[self.size], "SFHG", "lake")

    def limit(self, params: FrozenLakeParams) -> Array:
        return jnp.where(jnp.asarray(params.limit) == 0, _LIMITS[self.size], params.limit)

    def start(self, params: FrozenLakeParams) -> Array:
        del params
        return jnp.asarray(np.eye(self.states)[0], jnp.float32)

    def outcomes(self, number: Array, action: Array, params: FrozenLakeParams) -> Outcomes:
        cells = self._cells
        goal, hole = jnp.asarray((cells == "G").ravel()), jnp.asarray((cells == "H").ravel())
        left = (goal | hole)[number]
        there = jnp.asarray(moves(cells, (LEFT, DOWN, RIGHT, UP)))[number, sideways(action)]
        successor = jnp.where(left, number, there)
        reward = jnp.where(left, 0.0, goal[successor])
        return Outcomes(
            slipping(jnp.where(params.slippery, 2 / 3, 0.0)), successor, reward, (goal | hole)[successor]
        )

    def action_name(self, action: int) -> str:
        return _NAMES[action]

    def render(self, state: FiniteState, params: FrozenLakeParams | None = None) -> Drawing:
        del params
        return drawn_walker(self._cells, _COLORS, int(state.number), "a walker on a frozen lake")

    def plane(self) -> StatePlane:
        return grid_plane(self._cells, "HG", "←↓→↑")

    def coordinates(self, states: FiniteState) -> Float[np.ndarray, "n 2"]:
        return grid_coordinates(self._cells, np.asarray(states.number))


ENTRY = EnvironmentEntry(
    FrozenLake,
    "cross a slippery lake to the goal without falling into a hole",
    "Brockman et al. (2016), OpenAI Gym",
    random_return=0.01394,
    optimal_return=0.74419,
    threshold=0.7,
)

__all__ = ["ENTRY", "FrozenLake", "FrozenLakeParams"]
