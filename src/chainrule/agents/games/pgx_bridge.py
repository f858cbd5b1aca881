"""Games of pgx (Koyama et al., 2023) under this package's protocol: `make("pgx:othello")`.

Those of two players, without chance and with nothing hidden: search sees all there is, which would be cheating in
others.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.agents.games.base import Game, Symmetry
from chainrule.core.errors import ArgumentError, CapabilityError, suggest
from chainrule.core.types import Array, Float, Int


class _Facts(NamedTuple):
    longest: int
    typical: float
    pieces: str = "X"
    """Letters of the first planes of an observation: own pieces, then as many planes of the other's; "" if unknown."""


PREFIX = "pgx:"
_GAMES = {
    "animal_shogi": _Facts(256, 10, ""),
    "chess": _Facts(1000, 10 / 0.3, "PNBRQK"),
    "connect_four": _Facts(42, 7),
    "gardner_chess": _Facts(256, 15, "PNBRQK"),
    "go_19x19": _Facts(722, 10 / 0.03),
    "go_9x9": _Facts(162, 75),
    "hex": _Facts(122, 90),
    "othello": _Facts(128, 10),
    "shogi": _Facts(1000, 10 / 0.15, ""),
    "tic_tac_toe": _Facts(9, 5),
}


def names() -> tuple[str, ...]:
    """Games that can be made where pgx is installed."""
    return tuple(PREFIX + name.replace("_", "-") for name in _GAMES)


@final
class PgxGame(Game[Any]):
    """A game of pgx; moves are called by their numbers."""

    kind: str = eqx.field(static=True)
    env: Any = eqx.field(static=True)
    first: int = eqx.field(static=True)
    """What pgx calls the player who moves first, which it draws by lot."""

    def __init__(self, name: str) -> None:
        self.kind = name.removeprefix(PREFIX).replace("-", "_")
        if self.kind not in _GAMES:
            shown = [each.removeprefix(PREFIX) for each in names()]
            raise ArgumentError(
                f"unknown game {name!r}{suggest(name, names())}",
                remedy="games of pgx without chance and secrets: " + ", ".join(shown),
            )
        try:
            import pgx
        except ImportError:
            raise CapabilityError(
                f"{name} needs pgx, which is not installed", remedy="pip install 'chainrule[games]'"
            ) from None
        self.env = pgx.make(self.kind)
        self.first = int(self.init().current_player)

    @property
    def name(self) -> str:
        return PREFIX + self.kind.replace("_", "-")

    @property
    def settings(self) -> dict[str, Any]:
        return {}

    @property
    def actions(self) -> int:
        return int(self.env.num_actions)

    @property
    def longest(self) -> int:
        return _GAMES[self.kind].longest

    @property
    def typical_moves(self) -> float:
        return _GAMES[self.kind].typical

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        height, width, planes = self.env.observation_shape
        return height, width, planes

    def init(self) -> Any:
        return self.env.init(jax.random.key(0))

    def advance(self, state: Any, action: Int[Array, ""]) -> Any:
        return self.env.step(state, action)

    def legal_mask(self, state: Any) -> Bool[Array, " actions"]:
        return state.legal_action_mask | self.terminated(state)

    def current_player(self, state: Any) -> Int[Array, ""]:
        return (state.current_player != self.first).astype(jnp.int32)

    def terminated(self, state: Any) -> Bool[Array, ""]:
        return state.terminated | state.truncated

    def rewards(self, state: Any) -> Float[Array, "2"]:
        # A state carries the rewards of the move that led to it; ended games are not stepped on.
        own = state.rewards.astype(jnp.float32)
        return own if self.first == 0 else own[::-1]

    def observe(self, state: Any, player: Int[Array, ""]) -> Float[Array, "height width planes"]:
        return self.env.observe(state, jnp.where(player == 0, self.first, 1 - self.first)).astype(jnp.float32)

    def symmetries(self) -> tuple[Symmetry, ...]:
        height, width, _ = self.observation_shape
        return (Symmetry(np.arange(height * width), np.arange(self.actions)),)

    def move_name(self, action: int) -> str:
        return str(action)

    def draw(self, state: Any) -> str:
        letters = _GAMES[self.kind].pieces
        if not letters:
            return f"{self.name}: {int(state.legal_action_mask.sum())} legal moves"
        planes = np.asarray(self.observe(state, jnp.zeros((), jnp.int32)))
        others = letters.lower() if len(letters) > 1 else "O"
        rows = []
        for row in planes[:, :, : 2 * len(letters)]:
            found = [(letters + others)[int(cell.argmax())] if cell.any() else "." for cell in row]
            rows.append(" ".join(found))
        return "\n".join(rows)


__all__ = ["PREFIX", "PgxGame", "names"]
