"""An environment whose every number is known before it is acted in, and policies to act in it."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.agents.envs.base import Environment, HasDrawing, HasLegalActions, TimeStep
from chainrule.agents.envs.drawing import Drawing, Rectangle
from chainrule.agents.envs.spaces import Box, Discrete
from chainrule.agents.learning.base import Decision, Policy
from chainrule.core.types import Array, Int, Key, Tree


class CountdownState(NamedTuple):
    """How many steps the episode will have, and how many it has had."""

    length: Int[Array, ""]
    t: Int[Array, ""]


@final
class Countdown(Environment[CountdownState], HasDrawing, HasLegalActions):
    """Episodes of 1 to `longest` steps with rewards 1, 2, 3, ...; those of even length end, the others are cut off.

    The legal action of step t is t mod 3; the others give a reward of -1000.
    """

    longest: int = eqx.field(static=True, default=9)
    params: tuple[()] = ()

    @property
    def observation_space(self) -> Box:
        return Box(0, 1000, (2,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def begin(self, key: Key, params: Any) -> tuple[CountdownState, Array]:
        del params
        length = jax.random.randint(key, (), 1, self.longest + 1)
        state = CountdownState(length, jnp.zeros((), jnp.int32))
        return state, _seen(state)

    def advance(self, key: Key, state: CountdownState, action: Array, params: Any) -> TimeStep:
        del key, params
        after = CountdownState(state.length, state.t + 1)
        over, even = after.t >= state.length, state.length % 2 == 0
        reward = jnp.where(action == state.t % 3, after.t.astype(jnp.float32), -1000.0)
        return TimeStep(after, _seen(after), reward, over & even, over & ~even, {})

    def legal(self, state: CountdownState) -> Array:
        return jnp.arange(3) == state.t % 3

    def render(self, state: CountdownState, params: Any = None) -> Drawing:
        del params
        return Drawing(120, 20, [Rectangle(0, 0, 10 * int(state.t), 20, "1")], "a bar that grows")


def _seen(state: CountdownState) -> Array:
    return jnp.stack([state.length, state.t]).astype(jnp.float32)


@final
class Remembering(Policy):
    """Counts its steps in its memory, and does what is right only where the count is."""

    value: float = 0.0

    def start(self) -> Tree:
        return jnp.zeros((), jnp.int32)

    def act(
        self, key: Key, observation: Array, memory: Tree, *, greedy: bool, legal: Array | None = None
    ) -> Decision:
        del key, greedy, legal
        wanted = jax.nn.softmax(10.0 * jax.nn.one_hot(memory % 3, 3))
        left = observation[0] - observation[1]
        return Decision(memory % 3, memory + 1, self.value + left, wanted)


__all__ = ["Countdown", "CountdownState", "Remembering"]
