"""Breakout on a grid of 10 x 10: keep the ball in play and break all bricks (rules of MinAtar)."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from pydantic import Field

from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.pixels import SIZE, PixelGame, spot
from chainrule.core.types import Array, Int, Key

_WALL = np.zeros((SIZE, SIZE), bool)
_WALL[1:4] = True


class BreakoutParams(NamedTuple):
    """Numbers of the world."""

    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 2500


class BreakoutState(NamedTuple):
    """Ball, where it was before, its direction (down and right are positive), paddle, bricks; steps so far."""

    ball: Int[Array, "2"]
    before: Int[Array, "2"]
    way: Int[Array, "2"]
    paddle: Int[Array, ""]
    bricks: Bool[Array, "rows columns"]
    struck: Bool[Array, ""]
    """Whether a brick was broken by the last step: the ball passes those behind it."""
    t: Int[Array, ""]


@final
class Breakout(PixelGame[BreakoutState]):
    """Stay, left or right; 1 for every brick, and the end when the ball is lost; a wall that is gone comes back."""

    params: BreakoutParams = BreakoutParams()

    @property
    def kinds(self) -> dict[str, str]:
        return {"brick": "2", "trail": "axis", "ball": "ink", "paddle": "1"}

    @property
    def actions(self) -> tuple[str, ...]:
        return ("stay", "left", "right")

    def opened(self, key: Key, params: BreakoutParams) -> BreakoutState:
        del params
        right = jax.random.bernoulli(key).astype(jnp.int32)
        ball = jnp.stack([jnp.full((), 3, jnp.int32), right * (SIZE - 1)])
        way = jnp.stack([jnp.ones((), jnp.int32), 1 - 2 * right])
        zero = jnp.zeros((), jnp.int32)
        return BreakoutState(ball, ball, way, zero + 4, jnp.asarray(_WALL), jnp.zeros((), bool), zero)

    def played(
        self, key: Key, state: BreakoutState, action: Array, params: BreakoutParams
    ) -> tuple[BreakoutState, Array, Array]:
        del key, params
        paddle = jnp.clip(state.paddle + (action == 2) - (action == 1), 0, SIZE - 1).astype(jnp.int32)
        row, column = state.ball + state.way
        sideways = (column < 0) | (column >= SIZE)
        column = jnp.clip(column, 0, SIZE - 1)
        right = jnp.where(sideways, -state.way[1], state.way[1])
        above = row < 0
        row = jnp.maximum(row, 0)
        hit = ~above & state.bricks[jnp.minimum(row, SIZE - 1), column]
        broken = hit & ~state.struck
        bricks = state.bricks & ~spot(row, column, broken)
        low = ~above & ~hit & (row == SIZE - 1)
        bricks = jnp.where(low & ~bricks.any(), _WALL, bricks)
        # Met from above the ball bounces, met at its edge it goes back where it came from.
        straight = low & (state.ball[1] == paddle)
        edge = low & ~straight & (column == paddle)
        turned = above | broken | straight | edge
        down = jnp.where(turned, -state.way[0], state.way[0])
        right = jnp.where(edge, -right, right)
        row = jnp.where(broken | straight | edge, state.ball[0], row)
        after = BreakoutState(
            jnp.stack([row, column]), state.ball, jnp.stack([down, right]), paddle, bricks, hit, state.t
        )
        return after, broken.astype(jnp.float32), low & ~straight & ~edge

    def planes(self, state: BreakoutState) -> Sequence[Array]:
        return (
            state.bricks,
            spot(state.before[0], state.before[1]),
            spot(state.ball[0], state.ball[1]),
            spot(SIZE - 1, state.paddle),
        )


ENTRY = EnvironmentEntry(
    Breakout,
    "keep the ball in play and break all bricks, on 10 x 10 pixels",
    "Young and Tian (2019), MinAtar",
    random_return=0.42,
)

__all__ = ["ENTRY", "Breakout", "BreakoutParams", "BreakoutState"]
