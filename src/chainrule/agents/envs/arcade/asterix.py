"""Asterix on a grid of 10 x 10: collect gold, avoid enemies, which come faster and faster (rules of MinAtar)."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Bool
from pydantic import Field

from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.finite import drawn
from chainrule.agents.envs.pixels import SIZE, PixelGame, spot, spots
from chainrule.core.types import Array, Int, Key

_LANES = 8


class AsterixParams(NamedTuple):
    """Numbers of the world."""

    spawning: Annotated[int, Field(ge=1, description="steps from one thing to the next, at first")] = 10
    moving: Annotated[int, Field(ge=1, description="steps from one of their moves to the next, at first")] = 5
    ramp: Annotated[int, Field(ge=1, description="steps after which it becomes faster")] = 100
    gold: Annotated[float, Field(ge=0, le=1, description="share of things that are gold")] = 1 / 3
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 2500


class AsterixState(NamedTuple):
    """Where one is; of each lane the thing on it; clocks; steps so far."""

    row: Int[Array, ""]
    column: Int[Array, ""]
    there: Bool[Array, "lanes"]
    columns: Int[Array, "lanes"]
    rightwards: Bool[Array, "lanes"]
    gold: Bool[Array, "lanes"]
    spawn_in: Int[Array, ""]
    move_in: Int[Array, ""]
    t: Int[Array, ""]


@final
class Asterix(PixelGame[AsterixState]):
    """Stay or move; 1 for every gold, and the end with an enemy; a lane holds one thing at a time."""

    params: AsterixParams = AsterixParams()

    @property
    def kinds(self) -> dict[str, str]:
        return {"trail": "axis", "gold": "5", "enemy": "mark", "hero": "1"}

    @property
    def actions(self) -> tuple[str, ...]:
        return ("stay", "left", "up", "right", "down")

    def opened(self, key: Key, params: AsterixParams) -> AsterixState:
        del key
        middle, none = jnp.full((), SIZE // 2, jnp.int32), jnp.zeros(_LANES, bool)
        spawning, moving = _clocks(jnp.zeros((), jnp.int32), params)
        zero = jnp.zeros((), jnp.int32)
        return AsterixState(
            middle, middle, none, jnp.zeros(_LANES, jnp.int32), none, none, spawning, moving, zero
        )

    def played(
        self, key: Key, state: AsterixState, action: Array, params: AsterixParams
    ) -> tuple[AsterixState, Array, Array]:
        spawning, moving = _clocks(state.t, params)
        state = _spawned(key, state, params, spawning)
        column = jnp.clip(state.column + (action == 3) - (action == 1), 0, SIZE - 1).astype(jnp.int32)
        row = jnp.clip(state.row + (action == 4) - (action == 2), 1, _LANES).astype(jnp.int32)
        lanes = jnp.arange(1, _LANES + 1)
        here = lanes == row
        met = state.there & here & (state.columns == column)
        moves = state.move_in == 0
        columns = state.columns + jnp.where(moves, jnp.where(state.rightwards, 1, -1), 0)
        inside = (columns >= 0) & (columns < SIZE)
        met |= state.there & here & (columns == column)
        earned, dead = (met & state.gold).any(), (met & ~state.gold).any()
        after = AsterixState(
            row,
            column,
            state.there & inside & ~met,
            columns.astype(jnp.int32),
            state.rightwards,
            state.gold,
            state.spawn_in,
            jnp.where(moves, moving - 1, state.move_in - 1),
            state.t,
        )
        return after, earned.astype(jnp.float32), dead

    def planes(self, state: AsterixState) -> Sequence[Array]:
        lanes = jnp.arange(1, _LANES + 1)
        behind = state.columns - jnp.where(state.rightwards, 1, -1)
        return (
            spots(lanes, behind, state.there),
            spots(lanes, state.columns, state.there & state.gold),
            spots(lanes, state.columns, state.there & ~state.gold),
            spot(state.row, state.column),
        )


def _clocks(t: Array, params: AsterixParams) -> tuple[Array, Array]:
    """Steps from one thing to the next, and from one move to the next: each becomes shorter at every other ramp."""
    level = t // params.ramp
    spawning = jnp.maximum(params.spawning - level, 1)
    moving = jnp.maximum(params.moving - level // 2, 1)
    return spawning.astype(jnp.int32), moving.astype(jnp.int32)


def _spawned(key: Key, state: AsterixState, params: AsterixParams, spawning: Array) -> AsterixState:
    """With one more thing on a free lane, where it is time for one and a lane is free."""
    lane_key, way_key, gold_key = jax.random.split(key, 3)
    due = state.spawn_in == 0
    free = (~state.there).astype(jnp.float32)
    new = due & (jnp.arange(_LANES) == drawn(lane_key, free)) & ~state.there
    right = jax.random.bernoulli(way_key)
    gold = jax.random.uniform(gold_key) < params.gold
    return state._replace(
        there=state.there | new,
        columns=jnp.where(new, jnp.where(right, 0, SIZE - 1), state.columns).astype(jnp.int32),
        rightwards=jnp.where(new, right, state.rightwards),
        gold=jnp.where(new, gold, state.gold),
        spawn_in=jnp.where(due, spawning - 1, state.spawn_in - 1),
    )


ENTRY = EnvironmentEntry(
    Asterix,
    "collect gold and avoid enemies, on 10 x 10 pixels",
    "Young and Tian (2019), MinAtar",
    random_return=0.5,
)

__all__ = ["ENTRY", "Asterix", "AsterixParams", "AsterixState"]
