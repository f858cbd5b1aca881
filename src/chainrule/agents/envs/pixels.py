"""Games on a small grid of pixels: what is seen is a stack of planes, one for each kind of thing."""

import abc
from collections.abc import Sequence
from typing import Any, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.agents.envs.base import Environment, HasDrawing, TimeStep
from chainrule.agents.envs.drawing import Drawing, Rectangle, Shape
from chainrule.agents.envs.spaces import Box, Discrete
from chainrule.core.types import Array, Float, Int, Key, Tree

SIZE = 10
"""Rows and columns of most of these games."""
_CELL = 16
GameState = TypeVar("GameState")


class PixelGame(Environment[GameState], HasDrawing):
    """A game whose state, a NamedTuple, counts its steps as `t`; episodes are cut off after `params.limit` of them."""

    @property
    @abc.abstractmethod
    def kinds(self) -> dict[str, str]:
        """The kinds of things in the order of their planes, and the colour of each; later ones lie on top."""

    @property
    @abc.abstractmethod
    def actions(self) -> tuple[str, ...]:
        """What can be done."""

    @property
    def shape(self) -> tuple[int, int]:
        """Default: rows and columns."""
        return (SIZE, SIZE)

    @abc.abstractmethod
    def opened(self, key: Key, params: Tree) -> GameState:
        """The state in which a game begins."""

    @abc.abstractmethod
    def played(
        self, key: Key, state: GameState, action: Array, params: Tree
    ) -> tuple[GameState, Array, Array]:
        """The next state, the reward, and whether the game has ended."""

    @abc.abstractmethod
    def planes(self, state: GameState) -> Sequence[Bool[Array, "rows columns"]]:
        """Where each kind of thing is."""

    @final
    def action_name(self, action: int) -> str:
        """An action in words."""
        return self.actions[action]

    @property
    @final
    def observation_space(self) -> Box:
        return Box(0, 1, (*self.shape, len(self.kinds)))

    @property
    @final
    def action_space(self) -> Discrete:
        return Discrete(len(self.actions))

    @final
    def begin(self, key: Key, params: Tree) -> tuple[GameState, Array]:
        state = self.opened(key, params)
        return state, self._seen(state)

    @final
    def advance(self, key: Key, state: Any, action: Array, params: Tree) -> TimeStep:
        after, reward, terminated = self.played(key, state, action, params)
        moved: Any = after
        moved = moved._replace(t=state.t + 1)
        truncated = (moved.t >= params.limit) & ~terminated
        return TimeStep(moved, self._seen(moved), reward.astype(jnp.float32), terminated, truncated, {})

    @final
    def render(self, state: GameState, params: Tree = None) -> Drawing:
        del params
        seen = np.asarray(_planes(self, state)) > 0
        rows, columns = self.shape
        shapes: list[Shape] = [Rectangle(0, 0, _CELL * columns, _CELL * rows, "grid")]
        for plane, color in zip(np.moveaxis(seen, -1, 0), self.kinds.values(), strict=True):
            shapes += [
                Rectangle(_CELL * int(column) + 1, _CELL * int(row) + 1, _CELL - 2, _CELL - 2, color, 2)
                for row, column in np.argwhere(plane)
            ]
        return Drawing(_CELL * columns, _CELL * rows, tuple(shapes), type(self).__name__)

    @final
    def _seen(self, state: GameState) -> Float[Array, "rows columns kinds"]:
        return jnp.stack(self.planes(state), -1).astype(jnp.float32)


@eqx.filter_jit
def _planes(game: PixelGame[Any], state: Any) -> Array:
    return jnp.stack(game.planes(state), -1)


def spot(
    row: Array | int, column: Array | int, on: Array | bool = True, shape: tuple[int, int] = (SIZE, SIZE)
) -> Bool[Array, "rows columns"]:
    """A plane with one thing on it; nothing where it is not there or lies outside."""
    rows, columns = (jnp.arange(size) for size in shape)
    return (rows == row)[:, None] & (columns == column)[None, :] & on


def spots(
    rows: Int[Array, "n"], columns: Int[Array, "n"], on: Bool[Array, "n"]
) -> Bool[Array, "rows columns"]:
    """A plane with several things on it."""
    return jax.vmap(spot)(rows, columns, on).any(0)


__all__ = ["SIZE", "GameState", "PixelGame", "spot", "spots"]
