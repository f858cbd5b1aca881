"""Chain: a small reward now, or a large one at the far end of a chain that one slips back from (Strens, 2000)."""

from typing import Annotated, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents.envs.base import HasDrawing
from chainrule.agents.envs.drawing import Circle, Drawing, Line, Shape, Text
from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.finite import FiniteEnvironment, FiniteState, Outcomes
from chainrule.core.types import Array

_NAMES = ("forwards", "back")
_GAP = 44


class ChainParams(NamedTuple):
    """Numbers of the world."""

    slip: Annotated[float, Field(ge=0, le=1, description="how likely the other action is taken")] = 0.2
    small: Annotated[float, Field(description="reward of going back to the start")] = 2.0
    large: Annotated[float, Field(description="reward of going forwards at the far end")] = 10.0
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 1000


@final
class ChainWalk(FiniteEnvironment, HasDrawing):
    """Forwards by one, or back to the start; it never ends by itself."""

    length: Annotated[int, Field(ge=2, le=10_000, description="states of the chain")] = eqx.field(
        static=True, default=5
    )
    params: ChainParams = ChainParams()

    @property
    def states(self) -> int:
        return self.length

    @property
    def actions(self) -> int:
        return len(_NAMES)

    def start(self, params: ChainParams) -> Array:
        del params
        return jnp.asarray(np.eye(1, self.length)[0], jnp.float32)

    def outcomes(self, number: Array, action: Array, params: ChainParams) -> Outcomes:
        last = number == self.length - 1
        slip = jnp.asarray(params.slip, jnp.float32)
        forwards = jnp.where(action == 0, 1 - slip, slip)
        return Outcomes(
            jnp.stack([forwards, 1 - forwards]),
            jnp.stack([jnp.minimum(number + 1, self.length - 1), jnp.zeros_like(number)]),
            jnp.stack([jnp.where(last, params.large, 0.0), jnp.asarray(params.small, jnp.float32)]),
            jnp.zeros(2, bool),
        )

    def action_name(self, action: int) -> str:
        return _NAMES[action]

    def render(self, state: FiniteState, params: ChainParams | None = None) -> Drawing:
        del params
        shown = min(self.length, 24)
        # Of a long chain, the part around the state.
        first = int(np.clip(int(state.number) - shown // 2, 0, self.length - shown))
        middles = [_GAP * (offset + 0.5) for offset in range(shown)]
        shapes: list[Shape] = [Line(((middles[0], 30), (middles[-1], 30)), "axis", 2)]
        for offset, middle in enumerate(middles):
            here = first + offset == int(state.number)
            shapes.append(Circle(middle, 30, 14, "1" if here else "grid"))
            shapes.append(Text(middle, 30, str(first + offset), "paper" if here else "soft"))
        return Drawing(_GAP * shown, 60, tuple(shapes), "a chain of states")


ENTRY = EnvironmentEntry(
    ChainWalk,
    "a small reward now, or a large one at the far end of a chain",
    "Strens (2000), A Bayesian framework for reinforcement learning",
    random_return=1311.3,
    optimal_return=3665.8,
)

__all__ = ["ENTRY", "ChainParams", "ChainWalk"]
