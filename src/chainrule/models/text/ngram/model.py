"""A log-linear n-gram model: one table of logits for the last token, one for the last two, and so on, added up.

Each order contributes what the shorter ones leave unexplained, and an order that has never met a context contributes
nothing: backing off comes by itself. The loss is convex in the tables. Counting, the classical way to an n-gram, needs
the whole text at once and rules of thumb for what was never seen; the tables are trained like any other model instead
(Rosenfeld, 1996), and the validation text says when to stop.
"""

from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt32
from pydantic import Field

from chainrule.core.pictures import Bars, Picture
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config, DecodingState, HasPictures
from chainrule.models.text.language_model import LanguageModel
from chainrule.models.text.token_history import TokenHistory
from chainrule.nn.embedding import check_tokens

_SHOWN = 512


@final
class NgramConfig(Config):
    """Settings of the n-gram model."""

    order: int = Field(
        5, ge=1, le=16, description="tokens of an n-gram: one is predicted from those before it"
    )
    contexts: int = Field(
        2**14,
        ge=1,
        description="rows of each table; more different contexts than that share rows, by a hash",
    )


@final
class Ngram(LanguageModel, HasPictures):
    """`logits(w | ... b a) = t0[w] + t1[a, w] + t2[b a, w] + ...`."""

    tables: tuple[Float[Array, "contexts tokens"], ...]
    """By the length of the context, from none at all."""
    config: NgramConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)
    context: None = eqx.field(static=True)

    def __init__(self, config: NgramConfig, schema: Schema, key: Key) -> None:
        del key  # it begins with all tokens equally likely
        tokens = len(schema.tokens)
        # One more than there are tokens: before the first one stands nothing.
        sizes = [min((tokens + 1) ** length, config.contexts) for length in range(config.order)]
        self.tables = tuple(jnp.zeros((size, tokens)) for size in sizes)
        self.config = config
        self.schema = schema
        self.context = None

    def logits(
        self,
        x: Int[Array, "batch time"],
        key: Key | None = None,  # noqa: ARG002  # nothing is dropped
    ) -> Float[Array, "batch time vocabulary"]:
        """Logits of the token after each position; NaN after a number that is that of no token."""
        check_tokens(x, len(self.schema.tokens))
        nothing = jnp.full((len(x), self.config.order), len(self.schema.tokens), x.dtype)
        return self._known(x, self._added(jnp.concatenate([nothing, x], axis=1)))

    def start(self, batch: int, room: int) -> DecodingState:
        """Nothing read yet."""
        return TokenHistory.blank(batch, room)

    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], DecodingState]:
        """Look the last tokens up."""
        check_tokens(tokens, len(self.schema.tokens))
        assert isinstance(state, TokenHistory), "the state comes from start"
        before = state.last(self.config.order, missing=len(self.schema.tokens))
        found = self._added(jnp.concatenate([before, tokens], axis=1))
        return self._known(tokens, found), state.read(tokens)

    def _known(
        self, x: Int[Array, "batch time"], logits: Float[Array, "batch time vocabulary"]
    ) -> Float[Array, "batch time vocabulary"]:
        """The logits, but NaN from the first number that is that of no token on: a hash would find a row for it too."""
        strange = (x < 0) | (x >= len(self.schema.tokens))
        return jnp.where(jnp.cumsum(strange, axis=1)[:, :, None] > 0, jnp.nan, logits)

    def _added(self, x: Int[Array, "batch tokens"]) -> Float[Array, "batch time vocabulary"]:
        """The sum over the tables at each position but the first `order`."""
        order = self.config.order
        lengths = range(len(self.tables))
        each = [self.tables[length][self._rows(x, length)][:, order:] for length in lengths]
        return sum(each[1:], start=each[0])

    def _rows(self, x: Int[Array, "batch tokens"], length: int) -> Int[Array, "batch tokens"]:
        """The row of the context of this length that ends at each position."""
        base, size = len(self.schema.tokens) + 1, len(self.tables[length])
        exact = base**length <= size
        number = jnp.zeros(x.shape, jnp.uint32)
        for back in range(length):
            token = jnp.pad(x, ((0, 0), (back, 0)))[:, : x.shape[1]].astype(jnp.uint32)
            number = number * jnp.uint32(base) + token if exact else _mixed(number, token)
        return number.astype(jnp.int32) if exact else (number % jnp.uint32(size)).astype(jnp.int32)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """How much each order adds to the prediction of held-out text."""
        del key
        passages = jnp.asarray(data.val.batch(np.arange(min(len(data.val), _SHOWN))).x)
        nats = []
        for length in range(self.config.order):
            shorter = tuple(
                table if i <= length else jnp.zeros_like(table) for i, table in enumerate(self.tables)
            )
            model = eqx.tree_at(lambda model: model.tables, self, shorter)
            nats.append(float(_nats(model, passages)))
        return [
            Bars(
                "orders",
                "What longer contexts add",
                "tokens looked back on",
                "nats per token on validation text",
                [str(length) for length in range(self.config.order)],
                {"with tables up to this length": np.array(nats)},
            )
        ]


@eqx.filter_jit
def _nats(model: Ngram, x: Int[Array, "batch tokens"]) -> Float[Array, ""]:
    return model.surprisal(x).mean()


def _mixed(
    number: UInt32[Array, "batch tokens"], token: UInt32[Array, "batch tokens"]
) -> UInt32[Array, "batch tokens"]:
    """A hash with one more token in it: the step of FNV-1a (Fowler, Noll and Vo) on whole words, then mixed."""
    number = (number ^ (token + jnp.uint32(1))) * jnp.uint32(0x01000193)
    number = (number ^ (number >> 15)) * jnp.uint32(0x85EBCA6B)
    return number ^ (number >> 13)


__all__ = ["Ngram", "NgramConfig"]
