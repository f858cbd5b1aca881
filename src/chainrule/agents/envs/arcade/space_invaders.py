"""Space invaders on a grid of 10 x 10: shoot aliens before they land (rules of MinAtar)."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from pydantic import Field

from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.pixels import SIZE, PixelGame, spot
from chainrule.core.types import Array, Int, Key

_FLEET = np.zeros((SIZE, SIZE), bool)
_FLEET[0:4, 2:8] = True
_QUICKEST = 6


class SpaceInvadersParams(NamedTuple):
    """Numbers of the world."""

    moving: Annotated[
        int, Field(ge=1, description="steps from one move of the aliens to the next, at first")
    ] = 12
    shooting: Annotated[int, Field(ge=1, description="steps from one of their shots to the next")] = 10
    reloading: Annotated[int, Field(ge=1, description="steps from one shot of one's own to the next")] = 5
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 2500


class SpaceInvadersState(NamedTuple):
    """Column of the cannon; aliens, their way and shots of both sides; clocks, waves; steps so far."""

    column: Int[Array, ""]
    aliens: Bool[Array, "rows columns"]
    way: Int[Array, ""]
    own: Bool[Array, "rows columns"]
    theirs: Bool[Array, "rows columns"]
    move_in: Int[Array, ""]
    shoot_in: Int[Array, ""]
    reload: Int[Array, ""]
    wave: Int[Array, ""]
    t: Int[Array, ""]


@final
class SpaceInvaders(PixelGame[SpaceInvadersState]):
    """Stay, left, right or fire; 1 for every alien; a new, quicker wave comes when the last one is gone."""

    params: SpaceInvadersParams = SpaceInvadersParams()

    @property
    def kinds(self) -> dict[str, str]:
        return {
            "alien": "8",
            "alien that moves left": "8",
            "alien that moves right": "8",
            "own shot": "1",
            "alien's shot": "mark",
            "cannon": "1",
        }

    @property
    def actions(self) -> tuple[str, ...]:
        return ("stay", "left", "right", "fire")

    def opened(self, key: Key, params: SpaceInvadersParams) -> SpaceInvadersState:
        del key
        zero, none = jnp.zeros((), jnp.int32), jnp.zeros((SIZE, SIZE), bool)
        moving = jnp.asarray(params.moving, jnp.int32)
        shooting = jnp.asarray(params.shooting, jnp.int32)
        return SpaceInvadersState(
            zero + SIZE // 2, jnp.asarray(_FLEET), zero - 1, none, none, moving, shooting, zero, zero, zero
        )

    def played(
        self, key: Key, state: SpaceInvadersState, action: Array, params: SpaceInvadersParams
    ) -> tuple[SpaceInvadersState, Array, Array]:
        del key
        fires = (action == 3) & (state.reload == 0)
        column = jnp.clip(state.column + (action == 2) - (action == 1), 0, SIZE - 1).astype(jnp.int32)
        cannon = spot(SIZE - 1, column)
        own = _shifted(state.own | spot(SIZE - 1, state.column, fires), -1)
        theirs = _shifted(state.theirs, 1)
        dead = (theirs & cannon).any()
        aliens, way, landed = _marched(state.aliens, state.way, state.move_in == 0)
        dead |= landed | (aliens & cannon).any()
        shoots = state.shoot_in == 0
        theirs |= _shot(aliens, column) & shoots
        killed = aliens & own
        aliens, own = aliens & ~killed, own & ~killed
        interval = jnp.maximum(params.moving - state.wave, _QUICKEST)
        left = aliens.sum().astype(jnp.int32)
        gone = left == 0
        after = SpaceInvadersState(
            column,
            jnp.where(gone, _FLEET, aliens),
            way,
            own,
            theirs,
            # The fewer there are, the quicker they march.
            _again(state.move_in, jnp.minimum(left, interval)),
            _again(state.shoot_in, params.shooting),
            jnp.where(fires, params.reloading - 1, jnp.maximum(state.reload - 1, 0)).astype(jnp.int32),
            state.wave + gone,
            state.t,
        )
        return after, killed.sum().astype(jnp.float32), dead

    def planes(self, state: SpaceInvadersState) -> Sequence[Array]:
        return (
            state.aliens,
            state.aliens & (state.way < 0),
            state.aliens & (state.way > 0),
            state.own,
            state.theirs,
            spot(SIZE - 1, state.column),
        )


def _shifted(plane: Bool[Array, "rows columns"], down: int) -> Bool[Array, "rows columns"]:
    """Everything one row further; what leaves is gone."""
    empty = jnp.zeros((1, plane.shape[1]), bool)
    return jnp.concatenate([empty, plane[:-1]] if down > 0 else [plane[1:], empty])


def _marched(aliens: Array, way: Array, moves: Array) -> tuple[Array, Array, Array]:
    """Aliens one column further, or one row down where that would be outside; and whether they land."""
    edge = jnp.where(way < 0, aliens[:, 0].any(), aliens[:, -1].any())
    down, on = moves & edge, moves & ~edge
    landed = down & aliens[-1].any()
    lower = _shifted(aliens, 1)
    further = jnp.where(way < 0, jnp.roll(aliens, -1, 1), jnp.roll(aliens, 1, 1))
    moved = jnp.where(down, lower, jnp.where(on, further, aliens))
    return moved, jnp.where(down, -way, way), landed


def _again(clock: Array, interval: Array | int) -> Array:
    """A clock that has run down to 0 begins again, to do so once in every interval."""
    return jnp.where(clock == 0, jnp.maximum(interval - 1, 0), clock - 1).astype(jnp.int32)


def _shot(aliens: Array, column: Array) -> Array:
    """Where the alien nearest to the cannon, in columns and then in rows, is: its shot begins there."""
    rows, columns = jnp.mgrid[:SIZE, :SIZE]
    distance = jnp.where(aliens, jnp.abs(columns - column) * 2 * SIZE + (SIZE - rows), 10**6)
    nearest = distance.argmin()
    return spot(nearest // SIZE, nearest % SIZE, aliens.any())


ENTRY = EnvironmentEntry(
    SpaceInvaders,
    "shoot aliens before they land, on 10 x 10 pixels",
    "Young and Tian (2019), MinAtar",
    random_return=4.14,
)

__all__ = ["ENTRY", "SpaceInvaders", "SpaceInvadersParams", "SpaceInvadersState"]
