"""Codes of language models: each token by its probability given those before it, read with the model's own memory."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float
from chainrule.information.compression.direct import SymbolDistributions, TextCode
from chainrule.information.compression.distributions import CategoricalSymbols
from chainrule.models.protocol import DecodingState

if TYPE_CHECKING:
    from chainrule.models.text.language_model import LanguageModel


def text_code(model: "LanguageModel") -> TextCode:
    """The code of a language model."""
    context = model.context or model.schema.shape[0]
    return TextCode(
        model.schema, eqx.filter(model, eqx.is_array), lambda rows: _distributions(model, rows), context
    )


def _distributions(model: "LanguageModel", rows: int) -> SymbolDistributions:
    """Token after token; where the context is full, the second half of it is read afresh and takes its place.

    The first token of a text has no other before it: all are alike, unless every text begins with the same one.
    """
    vocabulary, room = len(model.schema.tokens), model.context or model.schema.shape[0]
    half, start = max(1, room // 2), model.tokenizer.start
    history: list[np.ndarray] = []
    state, read = model.start(rows, room), 0
    if start is None:
        shares = jnp.full((rows, vocabulary), 1 / vocabulary)
    else:
        history.append(np.full(rows, start, np.int32))
        shares, state, read = *_read(model, state, jnp.asarray(history[-1][:, None])), 1
    while True:
        symbols = yield CategoricalSymbols(np.asarray(shares))
        history = [*history[1 - half :], symbols] if half > 1 else [symbols]
        if model.context is not None and read == room:
            state, read, new = model.start(rows, room), 0, np.stack(history, axis=1)
        else:
            new = symbols[:, None]
        shares, state = _read(model, state, jnp.asarray(new.astype(np.int32)))
        read += new.shape[1]


@eqx.filter_jit
def _read(
    model: "LanguageModel", state: DecodingState, tokens: Array
) -> tuple[Float[Array, "rows vocabulary"], DecodingState]:
    logits, state = model.advance(state, tokens)
    return jax.nn.softmax(logits[:, -1].astype(jnp.float32)), state


__all__ = ["text_code"]
