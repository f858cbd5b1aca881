"""A game in progress between people and programs: moves by name, taking back, hints, and who is to move.

Nothing here reads or prints: a command line and a page both drive it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents import games
from chainrule.agents.arena.opponents import Opponent, playouts
from chainrule.agents.arena.records import GameRecord
from chainrule.agents.games.base import Game
from chainrule.agents.tree_search.engine import Trees
from chainrule.agents.tree_search.fast import EvaluateBatch, search_batch
from chainrule.core import random
from chainrule.core.errors import ArgumentError


@final
class Hint(NamedTuple):
    """What a search thinks of a position."""

    move: str
    """The one it would play."""
    visits: dict[str, int]
    """How often it looked at each move, the most first; moves it never looked at are left out."""
    value: float
    """For who is to move: 1 a sure win, -1 a sure loss."""
    variation: tuple[str, ...]
    """How it thinks the game goes on."""


@final
class Session:
    """A game in progress.

    >>> session = Session("tic-tac-toe")
    >>> session.move("b2")
    >>> session.move("a1")
    >>> session.take_back()
    >>> session.moves, session.to_move
    (('b2',), 1)
    """

    def __init__(
        self,
        game: str | Game[Any],
        settings: Mapping[str, Any] | None = None,
        *,
        evaluate: EvaluateBatch | None = None,
        simulations: int = 200,
        seed: int = 0,
        players: tuple[str, str] = ("", ""),
    ) -> None:
        """A new game, by name and settings or as it is; `evaluate` is what hints are searched with, else playouts."""
        self.game = games.make(game, **(settings or {})) if isinstance(game, str) else game
        self.players = players
        self._evaluate = playouts(self.game) if evaluate is None else evaluate
        self._simulations = simulations
        self._key = random.key(seed)
        self._states = [self.game.init()]
        self._actions: list[int] = []
        self._resigned: int | None = None

    @property
    def state(self) -> Any:
        """The position on the board."""
        return self._states[-1]

    @property
    def to_move(self) -> int:
        """Who is to move: 0 or 1."""
        return int(self.game.current_player(self.state))

    @property
    def moves(self) -> tuple[str, ...]:
        """By name."""
        return tuple(self.game.move_name(action) for action in self._actions)

    @property
    def legal(self) -> tuple[str, ...]:
        """Names of the moves that can be made now."""
        if self.over:
            return ()
        return tuple(
            self.game.move_name(int(each)) for each in np.flatnonzero(self.game.legal_mask(self.state))
        )

    @property
    def over(self) -> bool:
        """Whether the game has ended, on the board or by resignation."""
        return self._resigned is not None or bool(self.game.terminated(self.state))

    @property
    def result(self) -> float | None:
        """For who moved first: 1, 0 or -1; None while the game goes on."""
        if self._resigned is not None:
            return 1.0 if self._resigned == 1 else -1.0
        return float(self.game.rewards(self.state)[0]) if self.over else None

    @property
    def board(self) -> str:
        """As text."""
        return self.game.draw(self.state)

    def move(self, move: str | int) -> None:
        """Make a move, by name or number; one that is not legal is refused, with those that are."""
        if self._resigned is not None:
            raise ArgumentError("the game has ended by resignation", remedy="take back, or begin another")
        after = self.game.play(self.state, move)
        self._actions.append(self.game.move_of(move) if isinstance(move, str) else int(move))
        self._states.append(after)

    def reply(self, opponent: Opponent) -> str:
        """Let a program make the next move; its name."""
        if self.over:
            raise ArgumentError("the game has ended", remedy="begin another")
        key = jax.random.fold_in(self._key, len(self._actions))
        action = int(_choose(opponent, key, _alone(self.state))[0])
        self.move(action)
        return self.game.move_name(action)

    def take_back(self, count: int = 1) -> None:
        """Undo the last moves; a resignation goes with them."""
        if not 1 <= count <= len(self._actions):
            raise ArgumentError(f"take_back({count}): {len(self._actions)} moves have been made")
        del self._actions[-count:], self._states[-count:]
        self._resigned = None

    def resign(self) -> None:
        """Give up, for who is to move."""
        if self.over:
            raise ArgumentError("the game has ended", remedy="begin another")
        self._resigned = self.to_move

    def hint(self, back: int = 0) -> Hint:
        """What a search of the position finds, or of the one some moves ago: what a move answered."""
        if not 0 <= back <= len(self._actions):
            raise ArgumentError(f"hint(back={back}): {len(self._actions)} moves have been made")
        if self.over and not back:
            raise ArgumentError("the game has ended: there is nothing to look for")
        state = _alone(self._states[-1 - back])
        visits, value, trees = jax.device_get(_look(self.game, self._evaluate, self._simulations, state))
        order = [int(action) for action in np.argsort(-visits, kind="stable") if visits[action]]
        counted = {self.game.move_name(action): int(visits[action]) for action in order}
        variation = tuple(self.game.move_name(action) for action in _variation(trees))
        return Hint(variation[0], counted, float(value), variation)

    def record(self) -> GameRecord:
        """The game so far."""
        return GameRecord(self.game.name, self.game.settings, self.moves, self.result, self.players)


def _alone(state: Any) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x)[None], state)


@eqx.filter_jit
def _choose(opponent: Opponent, key: Any, states: Any) -> Any:
    return opponent.choose(key, states)


@eqx.filter_jit
def _look(game: Game[Any], evaluate: EvaluateBatch, simulations: int, states: Any) -> Any:
    found = search_batch(game, states, evaluate, simulations=simulations, temperature=0.0)
    trees = found.trees._replace(states=())
    return found.visits[0], found.value[0], trees


def _variation(trees: Trees) -> list[int]:
    """The most visited moves, from the root of the first tree on."""
    moves, node = [], 0
    while trees.visits[0, node].any():
        moves.append(int(trees.visits[0, node].argmax()))
        node = int(trees.children[0, node, moves[-1]])
    return moves


__all__ = ["Hint", "Session"]
