"""Games of two players with full knowledge: pure functions of a state, for `jax.jit` and `jax.vmap`.

Players are 0, who moves first, and 1. What a game is worth is said at its end, for each of the two (+1, 0 or -1); a
move after the end changes nothing. `step` is for programs and must be given a legal action: they choose among those of
`legal_mask`, so that an illegal move never arises. `play` is for people: it checks, and says what is legal.
"""

import abc
import dataclasses
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int

State = TypeVar("State")
AnyArray: TypeAlias = Array | np.ndarray
"""On the device or on the host."""


@final
class Symmetry(NamedTuple):
    """A way of turning or mirroring the board that leaves the game as it is.

    Both are permutations: entry i of the result is entry `cells[i]` (or `actions[i]`) of what is turned.
    """

    cells: np.ndarray
    """Of the cells of the board, row by row."""
    actions: np.ndarray
    """Of the actions."""

    def turn_planes(
        self, planes: Float[AnyArray, "height width planes"]
    ) -> Float[AnyArray, "height width planes"]:
        """Turned planes of an observation, or any array over cells."""
        return planes.reshape(self.cells.size, -1)[self.cells].reshape(planes.shape)

    def turn_policy(self, policy: Float[AnyArray, "*batch actions"]) -> Float[AnyArray, "*batch actions"]:
        """Numbers of the actions, as they belong to the turned board."""
        return policy[..., self.actions]

    def turn_action(self, action: int) -> int:
        """What an action is called on the turned board."""
        return int(np.flatnonzero(self.actions == action)[0])


class Game(eqx.Module, Generic[State]):
    """The rules of a game; states are PyTrees of arrays."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """As `games.make` knows it, with its size where there are several."""

    @property
    @abc.abstractmethod
    def actions(self) -> int:
        """How many actions there are; which of them are legal depends on the state."""

    @property
    @abc.abstractmethod
    def observation_shape(self) -> tuple[int, int, int]:
        """Height, width and planes of what is seen."""

    @property
    @abc.abstractmethod
    def longest(self) -> int:
        """A bound on the number of moves of a game."""

    @property
    def settings(self) -> dict[str, Any]:
        """Default: what `games.make` is given beside the name to make the same game again, the fields."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    @property
    def typical_moves(self) -> float:
        """Default: how many moves are legal as a rule, in the middle of a game; all of them."""
        return self.actions

    @abc.abstractmethod
    def init(self) -> State:
        """The state a game begins with."""

    @abc.abstractmethod
    def advance(self, state: State, action: Int[Array, ""]) -> State:
        """What a legal action leads to, in a game that has not ended."""

    @abc.abstractmethod
    def legal_mask(self, state: State) -> Bool[Array, " actions"]:
        """Which actions are legal; all of them after the end, so that a choice among them is always defined."""

    @abc.abstractmethod
    def current_player(self, state: State) -> Int[Array, ""]:
        """Who is to move, 0 or 1; after the end, who would be."""

    @abc.abstractmethod
    def terminated(self, state: State) -> Bool[Array, ""]:
        """Whether the game has ended."""

    @abc.abstractmethod
    def rewards(self, state: State) -> Float[Array, "2"]:
        """What the game was worth to each player: 1 won, -1 lost, 0 drawn or not yet at its end."""

    @abc.abstractmethod
    def observe(self, state: State, player: Int[Array, ""]) -> Float[Array, "height width planes"]:
        """What a player sees: own things first, so that one network serves both."""

    @abc.abstractmethod
    def symmetries(self) -> tuple[Symmetry, ...]:
        """Ways of turning the board that change nothing, the identity first."""

    @abc.abstractmethod
    def move_name(self, action: int) -> str:
        """What people call an action."""

    @abc.abstractmethod
    def draw(self, state: State) -> str:
        """The board as text, for a terminal."""

    @final
    def step(self, state: State, action: Int[Array, ""]) -> State:
        """What a legal action leads to; after the end, the same state again."""
        after = self.advance(state, jnp.asarray(action, jnp.int32))
        over = self.terminated(state)
        return jax.tree.map(lambda old, new: jnp.where(over, old, new), state, after)

    @final
    def move_of(self, text: str) -> int:
        """The action that people call by a name, legal or not."""
        wanted = text.strip().lower()
        for action in range(self.actions):
            if self.move_name(action).lower() == wanted:
                return action
        known = ", ".join(self.move_name(action) for action in range(min(self.actions, 3)))
        raise ArgumentError(
            f"{text!r} is no move of {self.name}",
            remedy=f"moves are called {known} ... {self.move_name(self.actions - 1)}",
        )

    @final
    def play(self, state: State, move: str | int) -> State:
        """What a move by name or number leads to; a move that is not legal is refused, with those that are."""
        action = self.move_of(move) if isinstance(move, str) else int(move)
        if bool(self.terminated(state)):
            raise ArgumentError(f"play({move!r}): the game has ended", remedy="begin another: game.init()")
        legal = np.flatnonzero(self.legal_mask(state))
        if action not in legal:
            names = [self.move_name(int(each)) for each in legal]
            shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
            raise ArgumentError(f"play({move!r}): this move is not legal here", remedy=f"legal: {shown}")
        return _step(self, state, np.int32(action))


@eqx.filter_jit
def _step(game: Game[Any], state: Any, action: Any) -> Any:
    return game.step(state, action)


__all__ = ["Game", "State", "Symmetry"]
