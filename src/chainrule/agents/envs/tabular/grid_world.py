"""Grid world: a map of one's own with walls, goals and traps, written as text.

One character a cell: `S` a start (several: each is as likely), `.` free, `#` a wall, `G` a goal, `X` a trap. The
map that comes with it is that of Russell and Norvig's book, where the best policy earns 0.705.
"""

import functools
from pathlib import Path
from typing import Annotated, NamedTuple, final

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
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float

_KNOWN = "S.#GX"


def _text(layout: str) -> str:
    """The map itself, also where a file that holds it is named: one that changes later changes no environment."""
    if "\n" in layout or not set(layout) - {*_KNOWN, "/", " "}:
        return layout
    file = Path(layout).expanduser()
    if not file.is_file():
        raise ArgumentError(
            f"layout={layout!r}: neither a map nor a file", remedy=f"a map is made of {' '.join(_KNOWN)}"
        )
    return file.read_text(encoding="utf-8")


_NAMES = ("up", "right", "down", "left")
_COLORS = {"#": "soft", "G": "3", "X": "mark", "S": "folded"}


class GridWorldParams(NamedTuple):
    """Rewards, and how slippery the ground is."""

    step: Annotated[float, Field(description="reward of every move")] = -0.04
    goal: Annotated[float, Field(description="reward of reaching a goal, beside that of the move")] = 1.0
    trap: Annotated[float, Field(description="reward of falling into a trap, beside that of the move")] = -1.0
    slip: Annotated[float, Field(ge=0, le=1, description="share of moves that go to either side instead")] = (
        0.2
    )
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 100


@final
class GridWorld(FiniteEnvironment, HasDrawing, HasPlane):
    """Up, right, down, left; goals and traps end an episode, walls and the edge keep one where one is.

    >>> env = GridWorld("S.G/.#X")
    >>> env.states, env.state_name(5)
    (6, 'row 2, column 3')
    """

    layout: Annotated[
        str, Field(description="rows on lines of their own or divided by /, or a file of them")
    ] = eqx.field(static=True, converter=_text, default="...G/.#.X/S...")
    params: GridWorldParams = GridWorldParams()

    def __check_init__(self) -> None:
        cells = _cells(self.layout)
        if "S" not in cells:
            raise ArgumentError("layout: the map has no start", remedy="mark one or more cells with S")

    @property
    def states(self) -> int:
        return int(_cells(self.layout).size)

    @property
    def actions(self) -> int:
        return len(_NAMES)

    def start(self, params: GridWorldParams) -> Array:
        del params
        starts = (_cells(self.layout) == "S").ravel()
        return jnp.asarray(starts / starts.sum(), jnp.float32)

    def outcomes(self, number: Array, action: Array, params: GridWorldParams) -> Outcomes:
        cells = _cells(self.layout)
        goal, trap, wall = (jnp.asarray((cells == character).ravel()) for character in "GX#")
        over = goal | trap
        there = jnp.asarray(moves(cells, (UP, RIGHT, DOWN, LEFT), "#"))[number, sideways(action)]
        # Nothing follows an end, and nobody is inside a wall: such states lead to themselves and end at once.
        left = over[number] | wall[number]
        successor = jnp.where(left, number, there)
        arrived = params.step + params.goal * goal[successor] + params.trap * trap[successor]
        reward = jnp.where(left, 0.0, arrived)
        return Outcomes(slipping(params.slip), successor, reward, over[successor] | left)

    def state_name(self, number: int) -> str:
        row, column = divmod(number, _cells(self.layout).shape[1])
        return f"row {row + 1}, column {column + 1}"

    def action_name(self, action: int) -> str:
        return _NAMES[action]

    def render(self, state: FiniteState, params: GridWorldParams | None = None) -> Drawing:
        del params
        return drawn_walker(_cells(self.layout), _COLORS, int(state.number), "a walker on a grid")

    def plane(self) -> StatePlane:
        return grid_plane(_cells(self.layout), "#GX", "↑→↓←")

    def coordinates(self, states: FiniteState) -> Float[np.ndarray, "n 2"]:
        return grid_coordinates(_cells(self.layout), np.asarray(states.number))


@functools.lru_cache(maxsize=64)
def _cells(layout: str) -> Cells:
    rows = [row.strip() for row in layout.strip().replace("/", "\n").splitlines()]
    return read_cells(rows, _KNOWN, "layout")


ENTRY = EnvironmentEntry(
    GridWorld,
    "a map of one's own with walls, goals and traps",
    "Russell and Norvig (2020), Artificial Intelligence: A Modern Approach, chapter 17",
    random_return=-1.5532,
    optimal_return=0.70531,
)

__all__ = ["ENTRY", "GridWorld", "GridWorldParams"]
