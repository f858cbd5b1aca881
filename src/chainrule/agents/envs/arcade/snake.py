"""Snake: eat, and grow, without running into the wall or into oneself.

Each cell holds for how many more steps it is covered, so that a move is one subtraction however long the snake.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.finite import drawn
from chainrule.agents.envs.grids import DOWN, LEFT, RIGHT, UP
from chainrule.agents.envs.pixels import SIZE, PixelGame, spot
from chainrule.core.types import Array, Int, Key

_WAYS = np.array([UP, RIGHT, DOWN, LEFT], np.int32)


class SnakeParams(NamedTuple):
    """Numbers of the world."""

    food: Annotated[float, Field(description="reward of eating")] = 1.0
    death: Annotated[float, Field(description="reward of running into something")] = 0.0
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 1000


class SnakeState(NamedTuple):
    """For how many more steps each cell is covered; head, way, length, food; steps so far."""

    body: Int[Array, "rows columns"]
    head: Int[Array, "2"]
    way: Int[Array, ""]
    length: Int[Array, ""]
    food: Int[Array, "2"]
    t: Int[Array, ""]


@final
class Snake(PixelGame[SnakeState]):
    """Up, right, down or left, where turning back is going on; it begins with a length of 3 in the middle."""

    size: Annotated[int, Field(ge=5, le=1000, description="rows and columns")] = eqx.field(
        static=True, default=SIZE
    )
    params: SnakeParams = SnakeParams()

    @property
    def kinds(self) -> dict[str, str]:
        return {"body": "3", "tail": "8", "food": "2", "head": "1"}

    @property
    def actions(self) -> tuple[str, ...]:
        return ("up", "right", "down", "left")

    @property
    def shape(self) -> tuple[int, int]:
        return (self.size, self.size)

    def opened(self, key: Key, params: SnakeParams) -> SnakeState:
        del params
        middle = self.size // 2
        body = np.zeros(self.shape, np.int32)
        body[middle, middle - 2 : middle + 1] = [1, 2, 3]
        return SnakeState(
            jnp.asarray(body),
            jnp.full(2, middle, jnp.int32),
            jnp.ones((), jnp.int32),
            jnp.full((), 3, jnp.int32),
            self._free(key, jnp.asarray(body)),
            jnp.zeros((), jnp.int32),
        )

    def played(
        self, key: Key, state: SnakeState, action: Array, params: SnakeParams
    ) -> tuple[SnakeState, Array, Array]:
        way = jnp.where((action + 2) % 4 == state.way, state.way, action).astype(jnp.int32)
        head = state.head + jnp.asarray(_WAYS)[way]
        inside = ((head >= 0) & (head < self.size)).all()
        eats = (head == state.food).all()
        # The tail moves on before the head arrives, unless the snake has just grown.
        body = jnp.where(eats, state.body, jnp.maximum(state.body - 1, 0))
        at = spot(head[0], head[1], shape=self.shape)
        dead = ~inside | (at & (body > 0)).any()
        length = state.length + eats
        body = jnp.where(at, length, body)
        full = length >= self.size**2
        food = jnp.where(eats, self._free(key, body), state.food)
        reward = jnp.where(dead, params.death, jnp.where(eats, params.food, 0.0))
        return SnakeState(body, head, way, length, food, state.t), reward, dead | full

    def planes(self, state: SnakeState) -> Sequence[Array]:
        return (
            state.body > 0,
            state.body == 1,
            spot(state.food[0], state.food[1], shape=self.shape),
            spot(state.head[0], state.head[1], shape=self.shape),
        )

    def _free(self, key: Key, body: Array) -> Array:
        """A cell that is not covered; where there is none, the first."""
        free = (body == 0).astype(jnp.float32).ravel()
        cell = jnp.minimum(drawn(key, free), self.size**2 - 1)
        return jnp.stack(jnp.divmod(cell, self.size)).astype(jnp.int32)


ENTRY = EnvironmentEntry(
    Snake,
    "eat and grow without running into the wall or into oneself",
    "after the arcade game Blockade (Gremlin, 1976)",
    random_return=0.15,
    optimal_return=97.0,
)

__all__ = ["ENTRY", "Snake", "SnakeParams", "SnakeState"]
