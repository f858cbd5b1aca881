"""Catch: a ball falls, and a paddle below has to be where it lands (Mnih et al., 2014; Osband et al., 2020)."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.pixels import PixelGame, spot
from chainrule.core.types import Array, Int, Key


class CatchParams(NamedTuple):
    """Numbers of the world."""

    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 1000


class CatchState(NamedTuple):
    """Row and column of the ball, column of the paddle, steps so far."""

    row: Int[Array, ""]
    column: Int[Array, ""]
    paddle: Int[Array, ""]
    t: Int[Array, ""]


@final
class Catch(PixelGame[CatchState]):
    """Left, stay or right; the game ends when the ball is down: 1 if it was caught, -1 if not."""

    rows: Annotated[int, Field(ge=2, le=1000, description="how deep the ball falls")] = eqx.field(
        static=True, default=10
    )
    columns: Annotated[int, Field(ge=2, le=1000, description="how wide the world is")] = eqx.field(
        static=True, default=5
    )
    params: CatchParams = CatchParams()

    @property
    def kinds(self) -> dict[str, str]:
        return {"ball": "2", "paddle": "1"}

    @property
    def actions(self) -> tuple[str, ...]:
        return ("left", "stay", "right")

    @property
    def shape(self) -> tuple[int, int]:
        return (self.rows, self.columns)

    def opened(self, key: Key, params: CatchParams) -> CatchState:
        del params
        zero = jnp.zeros((), jnp.int32)
        column = jax.random.randint(key, (), 0, self.columns)
        return CatchState(zero, column, jnp.full((), self.columns // 2, jnp.int32), zero)

    def played(
        self, key: Key, state: CatchState, action: Array, params: CatchParams
    ) -> tuple[CatchState, Array, Array]:
        del key, params
        paddle = jnp.clip(state.paddle + action - 1, 0, self.columns - 1).astype(jnp.int32)
        row = state.row + 1
        down = row >= self.rows - 1
        reward = jnp.where(down, jnp.where(paddle == state.column, 1.0, -1.0), 0.0)
        return state._replace(row=row, paddle=paddle), reward, down

    def planes(self, state: CatchState) -> Sequence[Array]:
        return (
            spot(state.row, state.column, shape=self.shape),
            spot(self.rows - 1, state.paddle, shape=self.shape),
        )


ENTRY = EnvironmentEntry(
    Catch,
    "be where the ball lands",
    "Osband et al. (2020), Behaviour suite for reinforcement learning",
    random_return=-0.59,
    optimal_return=1.0,
)

__all__ = ["ENTRY", "Catch", "CatchParams", "CatchState"]
