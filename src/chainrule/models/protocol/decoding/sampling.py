"""Ancestral sampling of tokens: a single compiled step, and a whole text as one compiled loop.

A draw depends on the key, on the position of the token, on how many rows before it go on from the same prompt, and on
nothing else: the same seed gives the same text alone or in any batch, streamed or not, with a cache or without (up to
rounding, which may tip a draw that is nearly even). The decoders know a model only by its `advance`, so models that
continue something else than text use them as well.
"""

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Int, Key
from chainrule.models.protocol.decoding.rules import Rules
from chainrule.models.protocol.text import DecodingState

Advance: TypeAlias = Callable[
    [DecodingState, Int[Array, "batch time"]], tuple[Float[Array, "batch time vocabulary"], DecodingState]
]
"""Read tokens: logits of the next token after each, and the state. Bound methods of a model compile once."""
END = -1
"""Stands in place of tokens after the end of a row."""


@final
class GeneratedTokens(eqx.Module):
    """Tokens that were drawn, and the log-probability that the model gave each."""

    tokens: Int[Array, "batch length"]
    """`END` from the end of a row on; the token that stopped it is not kept."""
    log_probs: Float[Array, "batch length"]
    """Log-probability of each token under the model, before any rule; zero after the end."""


@final
class RowDraws(eqx.Module):
    """Which draws each row gets: those it would have if nothing but its own prompt had been asked for."""

    numbers: Int[Array, " batch"]
    """How many rows before it go on from the same prompt."""
    padding: Int[Array, " batch"]
    """How many of the tokens that were read stand before its prompt."""

    @classmethod
    def of_one(cls, batch: int) -> Self:
        """Those of rows that all go on from one prompt."""
        return cls(jnp.arange(batch), jnp.zeros(batch, jnp.int32))

    @classmethod
    def of_each(cls, prompts: Sequence[str], padding: Int[Array, " batch"] | None = None) -> Self:
        """Those of rows with a prompt each.

        >>> RowDraws.of_each(["a", "b", "a"]).numbers.tolist()
        [0, 0, 1]
        """
        numbers = [prompts[:row].count(prompt) for row, prompt in enumerate(prompts)]
        return cls(jnp.array(numbers), jnp.zeros(len(prompts), jnp.int32) if padding is None else padding)


def draw(
    logits: Float[Array, "batch vocabulary"],
    seen: Bool[Array, "batch vocabulary"] | None,
    key: Key,
    position: Int[Array, ""],
    rules: Rules,
    rows: RowDraws | None = None,
) -> tuple[Int[Array, " batch"], Float[Array, " batch"]]:
    """One token for each row, and its log-probability under the model; all go on from one prompt unless `rows` say."""
    allowed = rules.apply(logits, seen)
    rows = RowDraws.of_one(len(logits)) if rows is None else rows

    def noise(number: Array, padding: Array) -> Array:
        own = jax.random.fold_in(jax.random.fold_in(key, number), position - padding)
        return jax.random.gumbel(own, logits.shape[-1:], allowed.dtype)

    noisy = allowed + jax.vmap(noise)(rows.numbers, rows.padding)
    token = noisy.argmax(axis=-1).astype(jnp.int32)
    log_probs = jax.nn.log_softmax(logits.astype(allowed.dtype), axis=-1)
    return token, jnp.take_along_axis(log_probs, token[:, None], axis=-1)[:, 0]


def mark(
    seen: Bool[Array, "batch vocabulary"] | None, tokens: Int[Array, " batch"]
) -> Bool[Array, "batch vocabulary"] | None:
    """The tokens that came, with one more for each row."""
    return None if seen is None else seen.at[jnp.arange(len(tokens)), tokens].set(True)


@eqx.filter_jit
def present(tokens: Int[Array, "rows time"], n: int, vocabulary: int) -> Bool[Array, "n vocabulary"]:
    """The tokens that occur in a beginning, for each of `n` rows that share it or have one each."""
    rows = jnp.arange(len(tokens))[:, None]
    return jnp.broadcast_to(
        jnp.zeros((len(tokens), vocabulary), bool).at[rows, tokens].set(True), (n, vocabulary)
    )


@eqx.filter_jit
def write(
    advance: Advance,
    state: DecodingState,
    logits: Float[Array, "batch vocabulary"],
    key: Key,
    rules: Rules,
    *,
    length: int,
    stop: Sequence[int] = (),
    seen: Bool[Array, "batch vocabulary"] | None = None,
    rows: RowDraws | None = None,
) -> GeneratedTokens:
    """Draw up to `length` tokens for each row, compiled as one loop that ends when every row has ended.

    `state` is the state after the beginning and `logits` are those of the first token to draw. A row ends with a
    token of `stop`. `seen` marks tokens that came already, for the repetition rule; `rows` say which draws each row
    gets where they do not all go on from one prompt.
    """
    ends = jnp.array(stop, jnp.int32)
    batch = len(logits)

    def put(
        written: GeneratedTokens, i: Array, done: Array, token: Array, log_prob: Array
    ) -> tuple[GeneratedTokens, Array]:
        done = done | (token[:, None] == ends[None, :]).any(axis=1)
        tokens = written.tokens.at[:, i].set(jnp.where(done, END, token))
        log_probs = written.log_probs.at[:, i].set(jnp.where(done, 0.0, log_prob))
        return GeneratedTokens(tokens, log_probs), done

    def unfinished(carry: tuple[Any, ...]) -> Array:
        i, *_, done, _ = carry
        return (i < length) & ~done.all()

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        i, token, state, seen, done, written = carry
        logits, state = advance(state, token[:, None])
        token, log_prob = draw(logits[:, -1], seen, key, state.position, rules, rows)
        written, done = put(written, i, done, token, log_prob)
        return i + 1, token, state, mark(seen, token), done, written

    token, log_prob = draw(logits, seen, key, state.position, rules, rows)
    blank = GeneratedTokens(
        jnp.full((batch, length), END, jnp.int32), jnp.zeros((batch, length), log_prob.dtype)
    )
    written, done = put(blank, jnp.zeros((), jnp.int32), jnp.zeros(batch, bool), token, log_prob)
    start = (jnp.ones((), jnp.int32), token, state, mark(seen, token), done, written)
    result: GeneratedTokens = jax.lax.while_loop(unfinished, body, start)[-1]
    return result


__all__ = ["END", "Advance", "GeneratedTokens", "RowDraws", "draw", "mark", "present", "write"]
