"""Language models as functions of vectors: log-probabilities of the next token by the vectors of the text's tokens.

Tokens are numbers of a table and have no derivative. Their vectors have: what the first layer reads is replaced under
its name (`nn.hooks`), so that every gradient method works on the vectors; the sum over a token's vector is the token's.
"""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Int
from chainrule.explain.methods.activations import watched_run
from chainrule.models.protocol import HasTokenStream


@final
class NextToken(eqx.Module):
    """Log-probability of tokens after a text, as a function of the vectors of the text's tokens."""

    model: HasTokenStream
    tokens: Int[Array, " time"]
    position: int = eqx.field(static=True)
    """Where the logits are read."""

    def __call__(self, vectors: Float[Array, "batch time width"]) -> Float[Array, "batch vocabulary"]:
        """Log-probabilities of every token, the vectors taken in the stead of the text's own."""
        name = self.model.residual_stream().embedding
        text = jnp.broadcast_to(self.tokens[None], (len(vectors), len(self.tokens)))
        logits, _ = watched_run(
            lambda: self.model.stream_logits(text), {name: lambda own, _: vectors.astype(own.dtype)}, ()
        )
        return jax.nn.log_softmax(logits[:, self.position], axis=-1)

    def vectors_of(self, tokens: Int[np.ndarray, "batch time"]) -> Float[np.ndarray, "batch time width"]:
        """The vectors of the tokens of some texts, as the model has them."""
        return np.asarray(_vectors(self.model, jnp.asarray(tokens)))


@eqx.filter_jit
def _vectors(model: HasTokenStream, tokens: Int[Array, "batch time"]) -> Float[Array, "batch time width"]:
    name = model.residual_stream().embedding
    _, found = watched_run(lambda: model.stream_logits(tokens), {}, (name,))
    return found.values[0]


def next_token(model: HasTokenStream, tokens: Sequence[int] | np.ndarray, position: int = -1) -> NextToken:
    """The function of a language model for a text, read at one of its positions."""
    return NextToken(eqx.nn.inference_mode(model), jnp.asarray(np.asarray(tokens)), position)


__all__ = ["NextToken", "next_token"]
