"""Cat world as an environment: sit beside a cat, and talk to it or stroke it whenever it is relaxed."""

from typing import Annotated, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents.envs.base import HasDrawing
from chainrule.agents.envs.drawing import Drawing, Rectangle, Shape, Text
from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.finite import FiniteEnvironment, FiniteState, Outcomes
from chainrule.agents.mdp import cat_world
from chainrule.core.types import Array

_ROW = 26


class CatWorldParams(NamedTuple):
    """Numbers of the world."""

    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 1000


@final
class CatWorld(FiniteEnvironment, HasDrawing):
    """Talk or stroke; a state's reward is received on leaving it, and falling asleep is the end.

    >>> CatWorld().state_name(1), CatWorld().action_name(0)
    ('hungry', 'talk')
    """

    params: CatWorldParams = CatWorldParams()

    @property
    def states(self) -> int:
        return len(cat_world.STATES)

    @property
    def actions(self) -> int:
        return len(cat_world.ACTIONS)

    def start(self, params: CatWorldParams) -> Array:
        """Any state but the last, all of them as likely."""
        del params
        awake = self.states - 1
        return jnp.asarray([1 / awake] * awake + [0.0], jnp.float32)

    def outcomes(self, number: Array, action: Array, params: CatWorldParams) -> Outcomes:
        del params
        asleep = self.states - 1
        moves = cat_world.decisions()
        moves[asleep, :, asleep] = 1.0  # a sleeping cat sleeps on
        successor = jnp.arange(self.states)
        reward = jnp.broadcast_to(jnp.asarray(cat_world.rewards(), jnp.float32)[number], successor.shape)
        return Outcomes(
            jnp.asarray(moves, jnp.float32)[number, action], successor, reward, successor == asleep
        )

    def state_name(self, number: int) -> str:
        return cat_world.STATES[number]

    def action_name(self, action: int) -> str:
        return cat_world.ACTIONS[action]

    def render(self, state: FiniteState, params: CatWorldParams | None = None) -> Drawing:
        del params
        here = int(np.asarray(state.number))
        shapes: list[Shape] = []
        for row, (name, reward) in enumerate(zip(cat_world.STATES, cat_world.REWARDS, strict=True)):
            shapes.append(Rectangle(4, _ROW * row + 3, 152, _ROW - 4, "1" if row == here else "grid", 6))
            words = f"{name}  {reward:+g}" if reward else name
            shapes.append(Text(80, _ROW * (row + 0.5) + 1, words, "paper" if row == here else "soft"))
        return Drawing(160, _ROW * len(cat_world.STATES) + 2, tuple(shapes), "what the cat is up to")


ENTRY = EnvironmentEntry(
    CatWorld,
    "sit beside a cat, and talk to it or stroke it whenever it is relaxed",
    "a worked example of this project",
    random_return=-15.17,
    optimal_return=-13.41,
)

__all__ = ["ENTRY", "CatWorld", "CatWorldParams"]
