"""Models of texts as functions of vectors: log-probabilities of a token, or logits, by the vectors of a text's tokens.

Tokens are numbers of a table and have no derivative. Their vectors have: what the first layer reads is replaced under
its name (`nn.hooks`), so that every gradient method works on the vectors; the sum over a token's vector is the token's.
"""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Int
from chainrule.explain.methods.activations import watched_run
from chainrule.models.protocol import HasLogits, HasTokenStream
from chainrule.networks.transformer import TokenTransformer

_VECTORS = "embedding"
"""What the body of a model reads."""


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


@final
class TextOutputs(eqx.Module):
    """Logits of a text, as a function of the vectors at its positions; for models with a `body` that reads."""

    model: Any
    tokens: Int[Array, " time"]
    """With the mark of its end."""

    def __call__(self, vectors: Float[Array, "batch positions width"]) -> Float[Array, "batch outputs"]:
        """The outputs, the vectors taken in the stead of the text's own."""
        text = jnp.broadcast_to(self.tokens[None], (len(vectors), len(self.tokens)))
        replaced = {_VECTORS: lambda own, _: vectors.astype(own.dtype)}
        found: Array = watched_run(lambda: self.model.logits(text), replaced, ())[0]
        return found

    def vectors_of(self, tokens: Int[np.ndarray, "batch time"]) -> Float[np.ndarray, "batch positions width"]:
        """The vectors at the positions of some texts, as the model has them."""
        return np.asarray(_body_vectors(self.model, jnp.asarray(tokens)))


@eqx.filter_jit
def _body_vectors(model: Any, tokens: Int[Array, "batch time"]) -> Float[Array, "batch positions width"]:
    return watched_run(lambda: model.logits(tokens), {}, (_VECTORS,))[1].values[0]


def reads_by_body(model: Any) -> bool:
    """Whether a model tells something of texts by a transformer that is its body."""
    return isinstance(model, HasLogits) and isinstance(getattr(model, "body", None), TokenTransformer)


def text_outputs(model: Any, tokens: Sequence[int] | np.ndarray) -> TextOutputs:
    """The function of a model with a body for a text with its end."""
    return TextOutputs(eqx.nn.inference_mode(model), jnp.asarray(np.asarray(tokens)))


def next_token(model: HasTokenStream, tokens: Sequence[int] | np.ndarray, position: int = -1) -> NextToken:
    """The function of a language model for a text, read at one of its positions."""
    return NextToken(eqx.nn.inference_mode(model), jnp.asarray(np.asarray(tokens)), position)


__all__ = ["NextToken", "TextOutputs", "next_token", "reads_by_body", "text_outputs"]
