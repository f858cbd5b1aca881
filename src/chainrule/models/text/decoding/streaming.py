"""Streaming: one text, token by token.

One compiled step for every token, the same arithmetic as the compiled loop of `write`; between two steps the reader
of the stream may stop, and nothing further is computed.
"""

import time
from collections.abc import Iterator

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.text.tokenizers.tokenizer import Tokenizer
from chainrule.models.protocol import DecodingState, StreamedToken
from chainrule.models.protocol.decoding.rules import Rules
from chainrule.models.protocol.decoding.sampling import Advance, draw, mark
from chainrule.models.text.decoding.detokenizing import Detokenizer

_ALTERNATIVES = 5


def stream(
    advance: Advance,
    state: DecodingState,
    logits: Float[Array, "1 vocabulary"],
    key: Key,
    rules: Rules,
    *,
    length: int,
    tokenizer: Tokenizer,
    reader: Detokenizer,
    seen: Bool[Array, "1 vocabulary"] | None = None,
) -> Iterator[StreamedToken]:
    """Up to `length` tokens of a single row, each as soon as it is drawn; ends where the reader meets a stop."""
    began = time.perf_counter()
    shown = _draw(logits, seen, key, state.position, rules)
    for i in range(length):
        token = int(shown[0][0])
        text = reader.read(token)
        last = reader.stopped or i == length - 1
        yield StreamedToken(
            token,
            text + reader.rest() if last else text,
            float(shown[1][0]),
            _named(tokenizer, *shown[2:]),
            max(i, 1) / max(time.perf_counter() - began, 1e-9),
        )
        if last:
            return
        seen = mark(seen, shown[0])
        if i == 1:  # the first steps were spent on compiling
            began = time.perf_counter()
        shown, state = _step(advance, state, shown[0], seen, key, rules)


def _named(
    tokenizer: Tokenizer, p: Float[Array, "1 alternatives"], ids: Int[Array, "1 alternatives"]
) -> tuple[tuple[str, float], ...]:
    texts = tokenizer.pieces(np.asarray(ids[0]))
    return tuple(zip(texts, np.asarray(p[0], np.float64).tolist(), strict=True))


@eqx.filter_jit
def _draw(
    logits: Array, seen: Array | None, key: Key, position: Array, rules: Rules
) -> tuple[Array, Array, Array, Array]:
    token, log_prob = draw(logits, seen, key, position, rules)
    most = min(_ALTERNATIVES, logits.shape[-1])
    return token, log_prob, *jax.lax.top_k(jax.nn.softmax(logits.astype(log_prob.dtype), axis=-1), most)


@eqx.filter_jit
def _step(
    advance: Advance, state: DecodingState, token: Array, seen: Array | None, key: Key, rules: Rules
) -> tuple[tuple[Array, Array, Array, Array], DecodingState]:
    logits, state = advance(state, token[:, None])
    return _draw(logits[:, -1], seen, key, state.position, rules), state


__all__ = ["stream"]
