"""Texts longer than a model's context: before every token the last `context` tokens are read afresh.

This is the receding horizon: each token is drawn from what the model says about the `context` tokens before it, and
nothing else. It costs a full pass for every token past the context. Dropping the oldest entries of a cache would be
cheaper but is another model: deeper layers would still carry what the dropped tokens told them.
"""

from typing import Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Int
from chainrule.models.protocol import CanContinue, DecodingState


@final
class ContextWindow(DecodingState):
    """The state of a model with the last tokens it read, so that they can be read again."""

    position: Int[Array, ""]
    inner: DecodingState
    last: Int[Array, "batch context"]
    """The newest tokens, the newest last; rubbish on the left until there are enough."""

    def fork(self, rows: Int[Array, " rows"]) -> Self:
        """The state of these rows."""
        return type(self)(self.position, self.inner.fork(rows), self.last[rows])

    def rewind(self, position: int | Int[Array, ""]) -> Self:
        """Refused: what was dropped cannot come back."""
        raise CapabilityError(
            f"rewind({position}): a text that outgrows the context cannot be taken back token by token",
            remedy='write it again from its beginning, or keep within the context with overflow="error"',
        )


@final
class RereadContext(eqx.Module):
    """`advance` for texts of any length, made of a model that reads no more than `context` tokens."""

    model: CanContinue
    context: int = eqx.field(static=True)

    def start(self, state: DecodingState, tokens: Int[Array, "batch time"]) -> ContextWindow:
        """The state of a model that has just read `tokens`, at most as many as its context holds."""
        room = self.context - tokens.shape[1]
        return ContextWindow(state.position, state, jnp.pad(tokens, ((0, 0), (room, 0))))

    def __call__(
        self, state: DecodingState, tokens: Int[Array, "batch 1"]
    ) -> tuple[Float[Array, "batch 1 vocabulary"], DecodingState]:
        """Read one token."""
        assert isinstance(state, ContextWindow), "the state comes from start"
        last = jnp.concatenate([state.last[:, 1:], tokens], axis=1)

        def further(inner: DecodingState) -> tuple[Array, DecodingState]:
            return self.model.advance(inner, tokens)

        def again(_: DecodingState) -> tuple[Array, DecodingState]:
            logits, inner = self.model.advance(self.model.start(len(tokens), self.context), last)
            return logits[:, -1:], inner

        logits, inner = jax.lax.cond(state.position < self.context, further, again, state.inner)
        return logits, ContextWindow(state.position + 1, inner, last)


__all__ = ["ContextWindow", "RereadContext"]
