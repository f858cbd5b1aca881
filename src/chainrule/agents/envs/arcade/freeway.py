"""Freeway on a grid of 10 x 10: cross eight lanes without being run over (rules of MinAtar)."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, final

import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.pixels import SIZE, PixelGame, spot, spots
from chainrule.core.types import Array, Int, Key

_LANES = 8
_COLUMN = 4
_SLOWEST = 5


class FreewayParams(NamedTuple):
    """Numbers of the world."""

    rest: Annotated[int, Field(ge=1, description="steps from one move to the next")] = 3
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 2500


class FreewayState(NamedTuple):
    """Columns of cars, their paces (negative to the left), steps to their moves; one's row and rest; steps so far."""

    cars: Int[Array, "lanes"]
    paces: Int[Array, "lanes"]
    waits: Int[Array, "lanes"]
    row: Int[Array, ""]
    rest: Int[Array, ""]
    t: Int[Array, ""]


@final
class Freeway(PixelGame[FreewayState]):
    """Stay, up or down; 1 for every crossing, after which cars are new; a hit puts one back to the start."""

    params: FreewayParams = FreewayParams()

    @property
    def kinds(self) -> dict[str, str]:
        trails = {f"behind a car of pace {pace}": "axis" for pace in range(1, _SLOWEST + 1)}
        return {**trails, "car": "2", "chicken": "1"}

    @property
    def actions(self) -> tuple[str, ...]:
        return ("stay", "up", "down")

    def opened(self, key: Key, params: FreewayParams) -> FreewayState:
        del params
        paces = _paces(key)
        # Cars begin at the end that they drive away from.
        cars = jnp.where(paces > 0, 0, SIZE - 1).astype(jnp.int32)
        zero = jnp.zeros((), jnp.int32)
        return FreewayState(cars, paces, jnp.abs(paces), zero + SIZE - 1, zero, zero)

    def played(
        self, key: Key, state: FreewayState, action: Array, params: FreewayParams
    ) -> tuple[FreewayState, Array, Array]:
        free = state.rest == 0
        up, down = free & (action == 1), free & (action == 2)
        rest = jnp.where(up | down, params.rest - 1, jnp.maximum(state.rest - 1, 0)).astype(jnp.int32)
        row = jnp.clip(state.row - up + down, 0, SIZE - 1).astype(jnp.int32)
        across = row == 0
        row = jnp.where(across, SIZE - 1, row)
        paces = jnp.where(across, _paces(key), state.paces)
        waits = jnp.where(across, jnp.abs(paces), state.waits)
        # Hit by a car before or after it moves.
        lanes = jnp.arange(1, _LANES + 1)
        hit = ((lanes == row) & (state.cars == _COLUMN)).any()
        row = jnp.where(hit, SIZE - 1, row)
        moves = waits == 0
        cars = jnp.where(moves, (state.cars + jnp.sign(paces)) % SIZE, state.cars)
        waits = jnp.where(moves, jnp.abs(paces), waits - 1)
        hit = (moves & (lanes == row) & (cars == _COLUMN)).any()
        row = jnp.where(hit, SIZE - 1, row).astype(jnp.int32)
        after = FreewayState(cars, paces, waits, row, rest, state.t)
        return after, across.astype(jnp.float32), jnp.zeros((), bool)

    def planes(self, state: FreewayState) -> Sequence[Array]:
        lanes = jnp.arange(1, _LANES + 1)
        behind = (state.cars - jnp.sign(state.paces)) % SIZE
        pace = jnp.abs(state.paces)
        trails = [spots(lanes, behind, pace == speed) for speed in range(1, _SLOWEST + 1)]
        cars = spots(lanes, state.cars, jnp.ones(_LANES, bool))
        return (*trails, cars, spot(state.row, _COLUMN))


def _paces(key: Key) -> Int[Array, "lanes"]:
    pace_key, way_key = jax.random.split(key)
    pace = jax.random.randint(pace_key, (_LANES,), 1, _SLOWEST + 1)
    return jnp.where(jax.random.bernoulli(way_key, shape=(_LANES,)), pace, -pace).astype(jnp.int32)


ENTRY = EnvironmentEntry(
    Freeway,
    "cross eight lanes of cars as often as possible, on 10 x 10 pixels",
    "Young and Tian (2019), MinAtar",
    random_return=0.37,
)

__all__ = ["ENTRY", "Freeway", "FreewayParams", "FreewayState"]
