"""Seaquest on a grid of 10 x 10: save divers, shoot fish and submarines, come up for air in time (rules of MinAtar)."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, final

import jax
import jax.numpy as jnp
from jaxtyping import Bool
from pydantic import Field

from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.pixels import SIZE, PixelGame, spot, spots
from chainrule.core.types import Array, Int, Key

_ENEMIES, _DIVERS = 24, 8
"""At most so many at a time."""
_ABOARD = 6
"""Divers that a submarine holds."""
_DEEPEST = SIZE - 2


class SeaquestParams(NamedTuple):
    """Numbers of the world."""

    oxygen: Annotated[int, Field(ge=1, description="steps under water")] = 200
    spawning: Annotated[int, Field(ge=1, description="steps from one enemy to the next, at first")] = 20
    moving: Annotated[int, Field(ge=2, description="steps from one of their moves to the next, at first")] = 5
    shooting: Annotated[int, Field(ge=1, description="steps from one shot of a submarine to the next")] = 10
    reloading: Annotated[int, Field(ge=1, description="steps from one shot of one's own to the next")] = 5
    divers: Annotated[int, Field(ge=1, description="steps from one diver to the next")] = 30
    diving: Annotated[int, Field(ge=1, description="steps from one move of a diver to the next")] = 5
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 2500


class Swimmers(NamedTuple):
    """Enemies or divers: whether each is there, where, which way, whether it is a submarine, and its clocks."""

    there: Bool[Array, "n"]
    rows: Int[Array, "n"]
    columns: Int[Array, "n"]
    right: Bool[Array, "n"]
    submarine: Bool[Array, "n"]
    move_in: Int[Array, "n"]
    shoot_in: Int[Array, "n"]


class SeaquestState(NamedTuple):
    """One's submarine, shots of both sides (those to the left, those to the right), swimmers, clocks; steps so far."""

    row: Int[Array, ""]
    column: Int[Array, ""]
    right: Bool[Array, ""]
    oxygen: Int[Array, ""]
    gauge: Int[Array, ""]
    """The oxygen in tenths of what there is at most."""
    aboard: Int[Array, ""]
    surfaced: Bool[Array, ""]
    reload: Int[Array, ""]
    own: Bool[Array, "2 rows columns"]
    theirs: Bool[Array, "2 rows columns"]
    enemies: Swimmers
    divers: Swimmers
    enemy_in: Int[Array, ""]
    diver_in: Int[Array, ""]
    level: Int[Array, ""]
    t: Int[Array, ""]


@final
class Seaquest(PixelGame[SeaquestState]):
    """Stay, move or fire; 1 for every enemy shot, up to 10 for coming up with six divers.

    Every way up but the first takes a diver; without one, without air, and with anything that hits, it is the end.
    """

    params: SeaquestParams = SeaquestParams()

    @property
    def kinds(self) -> dict[str, str]:
        return {
            "trail": "axis",
            "air": "6",
            "divers aboard": "5",
            "diver": "5",
            "fish": "mark",
            "enemy submarine": "9",
            "own shot": "1",
            "enemy's shot": "mark",
            "stern": "10",
            "bow": "1",
        }

    @property
    def actions(self) -> tuple[str, ...]:
        return ("stay", "left", "up", "right", "down", "fire")

    def opened(self, key: Key, params: SeaquestParams) -> SeaquestState:
        del key
        zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        shots = jnp.zeros((2, SIZE, SIZE), bool)
        return SeaquestState(
            zero,
            zero + SIZE // 2,
            no,
            jnp.asarray(params.oxygen, jnp.int32),
            zero + SIZE,
            zero,
            ~no,
            zero,
            shots,
            shots,
            _nobody(_ENEMIES),
            _nobody(_DIVERS),
            jnp.asarray(params.spawning, jnp.int32),
            jnp.asarray(params.divers, jnp.int32),
            zero,
            zero,
        )

    def played(
        self, key: Key, state: SeaquestState, action: Array, params: SeaquestParams
    ) -> tuple[SeaquestState, Array, Array]:
        moving = jnp.maximum(params.moving - state.level // 2, 2)
        state = _spawned(key, state, params, moving)
        state = _steered(state, action, params)
        state, earned = _shooting(state)
        state = _picked_up(state, params)
        state, dead = _attacked(state, params, moving)
        state, gained, drowned = _breathed(state, params)
        return state, earned + gained, dead | drowned

    def planes(self, state: SeaquestState) -> Sequence[Array]:
        enemies, divers = state.enemies, state.divers
        behind = enemies.columns - jnp.where(enemies.right, 1, -1)
        columns = jnp.arange(SIZE)
        gauge = (jnp.arange(SIZE) == SIZE - 1)[:, None]
        return (
            spots(enemies.rows, behind, enemies.there),
            gauge & (columns < state.gauge)[None],
            gauge & ((columns >= SIZE - 1 - state.aboard) & (columns < SIZE - 1))[None],
            spots(divers.rows, divers.columns, divers.there),
            spots(enemies.rows, enemies.columns, enemies.there & ~enemies.submarine),
            spots(enemies.rows, enemies.columns, enemies.there & enemies.submarine),
            state.own.any(0),
            state.theirs.any(0),
            spot(state.row, state.column + jnp.where(state.right, -1, 1)),
            spot(state.row, state.column),
        )


def _nobody(count: int) -> Swimmers:
    none, zero = jnp.zeros(count, bool), jnp.zeros(count, jnp.int32)
    return Swimmers(none, zero, zero, none, none, zero, zero)


def _spawned(key: Key, state: SeaquestState, params: SeaquestParams, moving: Array) -> SeaquestState:
    """With an enemy or a diver more, where it is time for one."""
    enemy_key, diver_key, kind_key = jax.random.split(key, 3)
    spawning = jnp.maximum(params.spawning - state.level, 1)
    enemy_due, diver_due = state.enemy_in == 0, state.diver_in == 0
    submarine = jax.random.uniform(kind_key) < 1 / 3
    enemies = _joined(enemy_key, state.enemies, enemy_due, submarine, moving, params.shooting)
    never = jnp.zeros((), bool)
    divers = _joined(diver_key, state.divers, diver_due, never, jnp.asarray(params.diving), 0)
    return state._replace(
        enemies=enemies,
        divers=divers,
        enemy_in=jnp.where(enemy_due, spawning - 1, state.enemy_in - 1).astype(jnp.int32),
        diver_in=jnp.where(diver_due, params.divers - 1, state.diver_in - 1).astype(jnp.int32),
    )


def _joined(
    key: Key, others: Swimmers, due: Array, submarine: Array, moving: Array, shooting: Array | int
) -> Swimmers:
    """One more comes in from either side, unless somebody comes towards it in its row."""
    row_key, way_key = jax.random.split(key)
    row = jax.random.randint(row_key, (), 1, _DEEPEST + 1)
    right = jax.random.bernoulli(way_key)
    blocked = (others.there & (others.rows == row) & (others.right != right)).any()
    free = ~others.there
    new = due & ~blocked & free & (jnp.cumsum(free) == 1)

    def chosen(value: Array | int, before: Array) -> Array:
        return jnp.where(new, value, before).astype(before.dtype)

    return Swimmers(
        others.there | new,
        chosen(row, others.rows),
        chosen(jnp.where(right, 0, SIZE - 1), others.columns),
        chosen(right, others.right),
        chosen(submarine, others.submarine),
        chosen(moving - 1, others.move_in),
        chosen(shooting, others.shoot_in),
    )


def _steered(state: SeaquestState, action: Array, params: SeaquestParams) -> SeaquestState:
    fires = (action == 5) & (state.reload == 0)
    left, right = action == 1, action == 3
    sides = jnp.stack([~state.right, state.right])[:, None, None]
    column = jnp.clip(state.column + right - left, 0, SIZE - 1)
    row = jnp.clip(state.row + (action == 4) - (action == 2), 0, _DEEPEST)
    return state._replace(
        own=state.own | (sides & spot(state.row, state.column, fires)[None]),
        reload=jnp.where(fires, params.reloading - 1, jnp.maximum(state.reload - 1, 0)).astype(jnp.int32),
        column=column.astype(jnp.int32),
        row=row.astype(jnp.int32),
        right=jnp.where(left | right, right, state.right),
    )


def _flown(shots: Bool[Array, "2 rows columns"]) -> Bool[Array, "2 rows columns"]:
    """Shots to the left and to the right, one column further; what leaves is gone."""
    empty = jnp.zeros((SIZE, 1), bool)
    to_left = jnp.concatenate([shots[0, :, 1:], empty], 1)
    to_right = jnp.concatenate([empty, shots[1, :, :-1]], 1)
    return jnp.stack([to_left, to_right])


def _shooting(state: SeaquestState) -> tuple[SeaquestState, Array]:
    """Shots of one's own fly on; enemies they meet are gone, each worth 1."""
    own, enemies = _flown(state.own), state.enemies
    hit = enemies.there & own.any(0)[enemies.rows, jnp.clip(enemies.columns, 0, SIZE - 1)]
    own &= ~spots(enemies.rows, enemies.columns, hit)[None]
    return state._replace(own=own, enemies=enemies._replace(there=enemies.there & ~hit)), hit.sum()


def _swum(swimmers: Swimmers, moving: Array | int) -> Swimmers:
    """Everybody whose time it is, one column further; who leaves is gone."""
    moves = swimmers.move_in == 0
    columns = swimmers.columns + jnp.where(moves, jnp.where(swimmers.right, 1, -1), 0)
    return swimmers._replace(
        there=swimmers.there & (columns >= 0) & (columns < SIZE),
        columns=columns.astype(jnp.int32),
        move_in=jnp.where(moves, moving - 1, swimmers.move_in - 1).astype(jnp.int32),
    )


def _met(state: SeaquestState, swimmers: Swimmers) -> Bool[Array, "n"]:
    return swimmers.there & (swimmers.rows == state.row) & (swimmers.columns == state.column)


def _picked_up(state: SeaquestState, params: SeaquestParams) -> SeaquestState:
    """Divers come aboard before and after they move, as long as there is room."""
    aboard, divers = state.aboard, state.divers
    for swims in (False, True):
        divers = _swum(divers, params.diving) if swims else divers
        met = _met(state, divers) & (jnp.cumsum(_met(state, divers)) <= _ABOARD - aboard)
        aboard, divers = aboard + met.sum(), divers._replace(there=divers.there & ~met)
    return state._replace(aboard=aboard.astype(jnp.int32), divers=divers)


def _attacked(state: SeaquestState, params: SeaquestParams, moving: Array) -> tuple[SeaquestState, Array]:
    """Enemies swim and shoot; whether any of them, or a shot, hits."""
    dead = _met(state, state.enemies).any()
    enemies = _swum(state.enemies, moving)
    dead |= _met(state, enemies).any()
    shoots = enemies.there & enemies.submarine & (enemies.shoot_in == 0)
    clocks = jnp.where(enemies.shoot_in == 0, params.shooting - 1, enemies.shoot_in - 1).astype(jnp.int32)
    here = spot(state.row, state.column)
    flown = _flown(state.theirs)
    new = jnp.stack(
        [spots(enemies.rows, enemies.columns, shoots & way) for way in (~enemies.right, enemies.right)]
    )
    theirs = flown | new
    dead |= (theirs.any(0) & here).any()
    return state._replace(enemies=enemies._replace(shoot_in=clocks), theirs=theirs), dead


def _breathed(state: SeaquestState, params: SeaquestParams) -> tuple[SeaquestState, Array, Array]:
    """Air is used under water and taken in above it, where divers are set down."""
    under = state.row > 0
    up = ~under & ~state.surfaced
    full = state.aboard >= _ABOARD
    gained = jnp.where(up & full, state.oxygen * 10 // params.oxygen, 0)
    drowned = (under & (state.oxygen <= 0)) | (up & (state.aboard == 0))
    aboard = jnp.where(up, jnp.where(full, 0, state.aboard - 1), state.aboard)
    oxygen = jnp.where(up, params.oxygen, state.oxygen - under)
    oxygen = jnp.maximum(oxygen, 0).astype(jnp.int32)
    after = state._replace(
        oxygen=oxygen,
        gauge=(oxygen * SIZE // params.oxygen).astype(jnp.int32),
        aboard=jnp.maximum(aboard, 0).astype(jnp.int32),
        surfaced=~under,
        level=state.level + up,
    )
    return after, gained, drowned


ENTRY = EnvironmentEntry(
    Seaquest,
    "save divers, shoot fish and submarines, and come up for air, on 10 x 10 pixels",
    "Young and Tian (2019), MinAtar",
    random_return=0.09,
)

__all__ = ["ENTRY", "Seaquest", "SeaquestParams", "SeaquestState", "Swimmers"]
