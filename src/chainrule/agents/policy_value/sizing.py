"""Sizes of policy-value networks: settings that algorithms share, and what suits a board."""

from typing import Annotated, Any, Literal, TypeAlias

import equinox as eqx
import jax
from pydantic import Field

from chainrule.agents.games.base import Game
from chainrule.agents.policy_value.network import DenseBoardNetwork, PolicyValueNetwork, ResidualTower
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key

SMALL_BOARD = 16
"""Up to that many cells, dense layers serve as well as convolutions, at a small part of the cost."""
MIDDLE_BOARD = 64
"""Up to that many cells, a tower is 3 x 64; beyond, 6 x 128."""

BodySetting: TypeAlias = Annotated[
    Literal["auto", "residual", "dense"],
    Field(description="body of the network (auto: dense for boards of up to 16 cells)"),
]
BlocksSetting: TypeAlias = Annotated[
    int,
    Field(ge=0, le=80, description="residual blocks, or hidden layers of a dense body; 0: by the board"),
]
WidthSetting: TypeAlias = Annotated[
    int, Field(ge=0, le=4096, description="channels, or units of a dense layer; 0: by the board")
]


def network_for(game: Game[Any], body: BodySetting, blocks: int, width: int, key: Key) -> PolicyValueNetwork:
    """A network for the boards of a game.

    The published towers of Go are 20 or 40 x 256; without a size it is 3 x 64 for small games and 6 x 128 for larger.
    """
    shape, actions = game.observation_shape, game.actions
    cells = shape[0] * shape[1]
    if body == "dense" or (body == "auto" and cells <= SMALL_BOARD):
        return DenseBoardNetwork(shape, actions, depth=blocks or 2, width=width or 256, key=key)
    small = cells <= MIDDLE_BOARD
    blocks, width = blocks or (3 if small else 6), width or (64 if small else 128)
    return ResidualTower(shape, actions, blocks=blocks, width=width, key=key)


def structure(network: PolicyValueNetwork) -> PolicyValueNetwork:
    """A network of shapes without its arrays: what stays the same while the arrays are trained."""

    def emptied(leaf: Any) -> Any:
        return None if _has_shape(leaf) else leaf

    like: PolicyValueNetwork = jax.tree.map(emptied, network)
    return like


def check_alike(wanted: PolicyValueNetwork, given: PolicyValueNetwork) -> None:
    """Refuse a network of another kind or size than the settings say."""
    shapes = [
        [leaf.shape for leaf in jax.tree.leaves(eqx.filter(one, _has_shape))] for one in (wanted, given)
    ]
    if type(wanted) is not type(given) or shapes[0] != shapes[1]:
        raise ArgumentError(
            "the network to begin with has another size than these settings",
            remedy="use its settings of network, blocks and width, on the same game",
        )


def check_game(algorithm: str, env: Any) -> Game[Any]:
    """The game, or an error that says what can be learnt instead."""
    if not isinstance(env, Game):
        raise ArgumentError(
            f"{algorithm} learns games of two, and {type(env).__name__} is none",
            remedy="name a game: env=tic-tac-toe, or learn this environment with ppo",
        )
    return env


def _has_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct | jax.Array)


__all__ = [
    "MIDDLE_BOARD",
    "SMALL_BOARD",
    "BlocksSetting",
    "BodySetting",
    "WidthSetting",
    "check_alike",
    "check_game",
    "network_for",
    "structure",
]
