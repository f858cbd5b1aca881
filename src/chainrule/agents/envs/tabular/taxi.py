"""Taxi: fetch a passenger at one of four ranks and set him down at another (Dietterich, 2000)."""

import functools
from typing import Annotated, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from chainrule.agents.envs.base import HasDrawing
from chainrule.agents.envs.drawing import Circle, Drawing, Line, Rectangle, Shape, Text
from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.finite import FiniteEnvironment, FiniteState, Outcomes
from chainrule.agents.envs.grids import CELL
from chainrule.core.types import Array

_SIDE, _INSIDE = 5, 4
_RANKS = ((0, 0), (0, 4), (4, 0), (4, 3))
_RANK_NAMES = ("red", "green", "yellow", "blue")
_RANK_COLORS = ("mark", "8", "5", "1")
_WALLS = ((0, 1), (1, 1), (3, 0), (4, 0), (3, 2), (4, 2))
"""Cells with a wall on their right."""
_NAMES = ("down", "up", "right", "left", "pick up", "set down")


class TaxiParams(NamedTuple):
    """Numbers of the world."""

    step: Annotated[float, Field(description="reward of every action that is neither of the next two")] = -1.0
    delivered: Annotated[float, Field(description="reward of the passenger's arrival")] = 20.0
    refused: Annotated[
        float, Field(description="reward of picking up or setting down in the wrong cell")
    ] = -10.0
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 200


@final
class Taxi(FiniteEnvironment, HasDrawing):
    """500 states: cell of the taxi, where the passenger is (four ranks, or inside), where he wants to go.

    >>> Taxi().state_name(328)
    'taxi in row 4, column 2, passenger at yellow, to red'
    """

    params: TaxiParams = TaxiParams()

    @property
    def states(self) -> int:
        return _SIDE * _SIDE * (len(_RANKS) + 1) * len(_RANKS)

    @property
    def actions(self) -> int:
        return len(_NAMES)

    def start(self, params: TaxiParams) -> Float[Array, "states"]:
        """Any cell, any rank, and a destination other than that rank."""
        del params
        _, _, passenger, destination = _taken_apart(np.arange(self.states))
        possible = (passenger < _INSIDE) & (passenger != destination)
        return jnp.asarray(possible / possible.sum(), jnp.float32)

    def outcomes(self, number: Array, action: Array, params: TaxiParams) -> Outcomes:
        successors, kinds = _table()
        rewards = jnp.stack(
            [jnp.asarray(r, jnp.float32) for r in (params.step, params.refused, params.delivered)]
        )
        kind = jnp.asarray(kinds)[number, action]
        return Outcomes(
            jnp.ones(1), jnp.asarray(successors)[number, action][None], rewards[kind][None], (kind == 2)[None]
        )

    def state_name(self, number: int) -> str:
        row, column, passenger, destination = (int(part) for part in _taken_apart(np.array(number)))
        where = "inside" if passenger == _INSIDE else f"at {_RANK_NAMES[passenger]}"
        return f"taxi in row {row + 1}, column {column + 1}, passenger {where}, to {_RANK_NAMES[destination]}"

    def action_name(self, action: int) -> str:
        return _NAMES[action]

    def render(self, state: FiniteState, params: TaxiParams | None = None) -> Drawing:
        del params
        row, column, passenger, destination = (int(part) for part in _taken_apart(np.asarray(state.number)))
        shapes: list[Shape] = [
            Rectangle(CELL * x + 1, CELL * y + 1, CELL - 2, CELL - 2, "grid", 4)
            for y in range(_SIDE)
            for x in range(_SIDE)
        ]
        for rank, ((y, x), color) in enumerate(zip(_RANKS, _RANK_COLORS, strict=True)):
            shapes.append(Rectangle(CELL * x + 1, CELL * y + 1, CELL - 2, CELL - 2, color, 4, 0.35))
            if rank == destination:
                shapes.append(Text(CELL * (x + 0.5), CELL * (y + 0.5), "×", "ink", 22))
        shapes += [
            Line(((CELL * (x + 1), CELL * y), (CELL * (x + 1), CELL * (y + 1))), "ink", 3) for y, x in _WALLS
        ]
        shapes.append(Rectangle(CELL * column + 5, CELL * row + 9, CELL - 10, CELL - 18, "2", 4))
        y, x = (row, column) if passenger == _INSIDE else _RANKS[passenger]
        shapes.append(Circle(CELL * (x + 0.5), CELL * (y + 0.5), 5, "ink"))
        return Drawing(
            CELL * _SIDE, CELL * _SIDE, tuple(shapes), "a taxi, a passenger and where he wants to go"
        )


def _taken_apart(number: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Row, column, passenger, destination."""
    rest, destination = np.divmod(number, len(_RANKS))
    rest, passenger = np.divmod(rest, len(_RANKS) + 1)
    row, column = np.divmod(rest, _SIDE)
    return row, column, passenger, destination


@functools.cache
def _table() -> tuple[Int[np.ndarray, "states actions"], Int[np.ndarray, "states actions"]]:
    """Where every action leads, and what it is: 0 plain, 1 refused, 2 the end."""
    numbers = np.arange(_SIDE * _SIDE * (len(_RANKS) + 1) * len(_RANKS))
    row, column, passenger, destination = _taken_apart(numbers)
    wall = np.zeros((_SIDE, _SIDE + 1), bool)  # on the left of each cell, and of the edge
    wall[:, [0, -1]] = True
    for y, x in _WALLS:
        wall[y, x + 1] = True
    cells = [
        (np.minimum(row + 1, _SIDE - 1), column),
        (np.maximum(row - 1, 0), column),
        (row, np.where(wall[row, column + 1], column, column + 1)),
        (row, np.where(wall[row, column], column, column - 1)),
    ]
    ranks = np.array(_RANKS)
    at = (ranks == np.stack([row, column], -1)[:, None]).all(-1)  # states x ranks
    waiting = at[numbers, np.minimum(passenger, _INSIDE - 1)] & (passenger < _INSIDE)
    arrived = (passenger == _INSIDE) & at[numbers, destination]
    elsewhere = (passenger == _INSIDE) & at.any(1) & ~arrived
    taken = np.where(waiting, _INSIDE, passenger)
    left = np.where(arrived | elsewhere, at.argmax(1), passenger)

    def together(y: np.ndarray, x: np.ndarray, who: np.ndarray) -> np.ndarray:
        return ((y * _SIDE + x) * (len(_RANKS) + 1) + who) * len(_RANKS) + destination

    successors = [together(y, x, passenger) for y, x in cells]
    successors += [together(row, column, taken), together(row, column, left)]
    kinds = [np.zeros_like(numbers)] * 4 + [np.where(waiting, 0, 1)]
    kinds.append(np.where(arrived, 2, np.where(elsewhere, 0, 1)))
    return np.stack(successors, 1).astype(np.int32), np.stack(kinds, 1).astype(np.int32)


ENTRY = EnvironmentEntry(
    Taxi,
    "fetch a passenger at one of four ranks and set him down at another",
    "Dietterich (2000), Hierarchical reinforcement learning with the MAXQ value function decomposition",
    random_return=-771.1,
    optimal_return=7.93,
    threshold=8.0,
)

__all__ = ["ENTRY", "Taxi", "TaxiParams"]
