"""Encoder-decoders: a source is read once, then its target is written token by token.

A model says how it reads a source and how it goes on from there; loss, exact likelihood, drawing and searching for
the best target follow. A target is written after a begin mark, which stands at the number after the end mark on the
way in and cannot be written, and stops with the end mark.
"""

import abc
from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import ArgumentError, spell
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.data import pairs, tokenizers
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    CanTranslate,
    DecodingState,
    HasAlignment,
    HasPictures,
    Metrics,
    OptionGroup,
    SampleOptions,
    read_options,
)
from chainrule.models.text import decoding
from chainrule.networks.pictures import tokens
from chainrule.nn import losses

_BEAMS = 4


@final
class SourceOptions(SampleOptions):
    """What is to be turned into another text."""

    prompt: str | Sequence[str] = Field("", description="the source, or one for each sample")
    allow_special: bool = Field(
        False,
        description="names of special tokens in the source become these tokens; otherwise they are text",
    )


@final
class TargetSearchOptions(SampleOptions):
    """Beam search for the likeliest targets."""

    beams: int | None = Field(None, ge=1, description="targets kept at once; default: 4, at least n")
    length_penalty: float = Field(0.0, description="above 0 longer targets gain (Wu et al., 2016)")


_GROUPS = (
    OptionGroup("source", "The text to turn into another.", SourceOptions),
    OptionGroup("search", "The likeliest targets, unless a rule asks for draws.", TargetSearchOptions),
    OptionGroup("rules", "How targets are drawn.", decoding.RuleOptions),
    OptionGroup("tokens", "Tokens of the target that come more or less often.", decoding.TokenOptions),
)


def within(ids: Int[Array, "batch time"], end: int) -> Bool[Array, "batch time"]:
    """Which entries of padded rows count: the tokens and the first end mark.

    >>> within(jnp.array([[0, 1, 2, 2]]), end=2)
    Array([[ True,  True,  True, False]], dtype=bool)
    """
    return jnp.cumsum(ids == end, axis=1) - (ids == end) == 0


def shifted(y: Int[Array, "batch time"], begin: int) -> Int[Array, "batch time"]:
    """What the decoder has read when it writes each token of `y`: the begin mark, then `y` without its last.

    >>> shifted(jnp.array([[0, 1, 2]]), begin=3)
    Array([[3, 0, 1]], dtype=int32)
    """
    first = jnp.full((y.shape[0], 1), begin, y.dtype)
    return jnp.concatenate([first, y[:, :-1]], axis=1)


class EncoderDecoder(CanTranslate, HasAlignment, HasPictures):
    """A model of targets given sources."""

    schema: eqx.AbstractVar[Schema]

    @abc.abstractmethod
    def logits(
        self, x: Int[Array, "batch source"], y: Int[Array, "batch target"], key: Key | None = None
    ) -> Float[Array, "batch target vocabulary"]:
        """Logits of every token of the targets given those before it; a key switches on what training draws."""

    @abc.abstractmethod
    def start(self, x: Int[Array, "batch source"]) -> DecodingState:
        """What is known of the sources before anything is written; they are read here and never again."""

    @abc.abstractmethod
    def advance(
        self, state: DecodingState, tokens: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch time vocabulary"], DecodingState]:
        """Read target tokens, the begin mark first: logits of the token after each, and the state after the last."""

    @property
    def source_end(self) -> int:
        """The number that ends a source."""
        return len(self.schema.tokens)

    @property
    def end(self) -> int:
        """The number that ends a target."""
        return len(self.schema.target_tokens)

    @property
    def begin(self) -> int:
        """The number read before a target is written."""
        return self.end + 1

    def surprisal(
        self, x: Int[Array, "batch source"], y: Int[Array, "batch target"], key: Key | None = None
    ) -> Float[Array, "batch target"]:
        """Minus the log-probability of each target token in nats, the end mark included; zero after it."""
        return jnp.where(within(y, self.end), losses.cross_entropy(self.logits(x, y, key), y), 0.0)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean nats per target token, and the share of tokens that are the likeliest given those before them."""
        logits, counted = self.logits(batch.x, batch.y, key), within(batch.y, self.end)
        nats = losses.cross_entropy(logits, batch.y)
        right = logits.argmax(axis=-1) == batch.y
        total = counted.sum()
        return (nats * counted).sum() / total, {"accuracy": (right & counted).sum() / total}

    def log_prob_given(
        self, y: Int[Array, "batch target"], x: Int[Array, "batch source"]
    ) -> Float[Array, " batch"]:
        """Natural logarithm of the probability of each target, its end included, given its source."""
        return -self.surprisal(x, y).sum(axis=1)

    def translate(self, x: Int[Array, "batch source"], *, beams: int = 1) -> Int[Array, "batch target"]:
        """The target each source most likely becomes: the best that a beam of this width finds, greedily for 1."""
        state, logits = _begun(self, x)
        if beams > 1:
            return self._searched(state, logits, beams, 0.0, decoding.rules(self.begin)).tokens[:, 0]
        return self._drawn(state, logits, jax.random.key(0), decoding.rules(self.begin, temperature=0))

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """The source, and how its targets are found: by a search, or drawn under rules."""
        return _GROUPS

    def sample(self, key: Key, n: int, **options: Any) -> Int[Array, "n target"]:
        """The `n` likeliest targets of the text `prompt`, best first, or `n` draws.

        They are searched for with `beams` (at least 4) unless `temperature` or another rule of `decoding.rules` asks
        for draws; `length_penalty` favours longer ones, `repetition`, `banned` and `bias` are about single tokens of
        the target. A sequence of `n` prompts gives each row a source of its own, and each row is what it would be with
        that source alone. Rows are filled up with the end mark.
        """
        found: dict[str, Any] = read_options(_GROUPS, options)
        prompt, beams, given = found["source"].prompt, found["search"].beams, found["rules"].given()
        prompts = [prompt] * n if isinstance(prompt, str) else list(prompt)
        if len(prompts) != n:
            raise ArgumentError(
                f"prompt: {len(prompts)} prompts for n={n} targets",
                remedy=f"use n={len(prompts)}, or a single prompt",
            )
        rules = decoding.rules(
            self.begin, **found["tokens"].rules(tokenizers.of_target(self.schema)), **given
        )
        sources = list(dict.fromkeys(prompts))
        allowed = found["source"].allow_special
        given_rows = [pairs.encode(self.schema, one, allow_special=allowed) for one in sources]
        state, logits = _begun(self, jnp.asarray(np.stack(given_rows)))
        which, rows = jnp.array([sources.index(one) for one in prompts]), decoding.RowDraws.of_each(prompts)
        if not given:
            most = 1 + int(rows.numbers.max())
            penalty, kept = found["search"].length_penalty, max(most, _BEAMS if beams is None else beams)
            best = self._searched(state, logits, kept, penalty, rules)
            # There may be fewer targets than asked for; the best stands in for those that are missing.
            there = jnp.isfinite(best.log_probs[which, rows.numbers])
            return best.tokens[which, jnp.where(there, rows.numbers, 0)]
        if beams is not None:
            raise ArgumentError(
                f"beams={beams}: beams search for the likeliest targets, {spell(given)} draws them",
                remedy="leave one of them out",
            )
        return self._drawn(state.fork(which), logits[which], key, rules, rows)

    def _drawn(
        self,
        state: DecodingState,
        logits: Array,
        key: Key,
        rules: decoding.Rules,
        rows: decoding.RowDraws | None = None,
    ) -> Array:
        seen = self._nothing_seen(logits, rules)
        found = decoding.write(
            *(self.advance, state, logits, key, rules),
            length=self._most,
            stop=(self.end,),
            seen=seen,
            rows=rows,
        )
        return self._closed(found.tokens)

    def _nothing_seen(self, logits: Array, rules: decoding.Rules) -> Bool[Array, "batch vocabulary"] | None:
        """What came before a target is begun, where it matters: nothing."""
        return None if rules.repetition is None else jnp.zeros(logits.shape, bool)

    def _searched(
        self, state: DecodingState, logits: Array, beams: int, penalty: float, rules: decoding.Rules
    ) -> decoding.Beams:
        found = decoding.search(
            self.advance,
            state,
            logits,
            jax.random.key(0),
            rules,
            decoding.BestFirst(jnp.asarray(penalty)),
            length=self._most,
            beams=beams,
            stop=(self.end,),
            seen=self._nothing_seen(logits, rules),
        )
        return eqx.tree_at(lambda beams: beams.tokens, found, self._closed(found.tokens))

    @property
    def _most(self) -> int:
        """How many tokens are written at most; a target that goes on is cut off there."""
        return self.schema.target_shape[0] - 1

    def _closed(self, tokens: Int[Array, "*rows most"]) -> Int[Array, "*rows target"]:
        """Rows with an end mark."""
        marked = jnp.where(tokens == decoding.END, self.end, tokens)
        last = jnp.full((*tokens.shape[:-1], 1), self.end, marked.dtype)
        return jnp.concatenate([marked, last], axis=-1)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Where it looks while it writes a held-out example."""
        del key
        if not self.alignment_names():
            return []
        part = next(split for split in (data.test, data.val, data.train) if len(split))
        x, y = (jnp.asarray(side) for side in part.batch(np.arange(1))[:2])
        weights = np.asarray(_alignment(self, x, y))[0].mean(axis=0)
        count = len(self.alignment_names())
        what = "attention of the decoder" if count == 1 else f"mean over {count} heads of all layers"
        return [tokens.alignment(self.schema, weights, np.asarray(x[0]), np.asarray(y[0]), what)]


@eqx.filter_jit
def _alignment(model: EncoderDecoder, x: Array, y: Array) -> Array:
    return model.alignment(x, y)


@eqx.filter_jit
def _begun(
    model: EncoderDecoder, x: Int[Array, "batch source"]
) -> tuple[DecodingState, Float[Array, "batch vocabulary"]]:
    begin = jnp.full((x.shape[0], 1), model.begin, jnp.int32)
    logits, state = model.advance(model.start(x), begin)
    return state, logits[:, -1]


__all__ = ["EncoderDecoder", "shifted", "within"]
