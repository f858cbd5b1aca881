"""Rules of decoding: from the logits of the next token to what may be drawn.

The rules act in a fixed order: bias and bans, repetition, temperature, top-k, top-p, min-p. Each sees what the one
before it left over. Numbers are arguments of the compiled step, so that moving a slider compiles nothing; a rule that
is not used costs nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int
from chainrule.models.protocol.options import SampleOptions, check_options


@final
class Rules(eqx.Module):
    """What is done to logits before a token is drawn; `rules` makes one from checked numbers."""

    greedy: bool = eqx.field(static=True)
    """Whether the likeliest token is taken: the limit of temperature zero."""
    bias: Float[Array, " vocabulary"] | None
    """Added to the logits; minus infinity bans a token."""
    repetition: Float[Array, ""] | None
    temperature: Float[Array, ""] | None
    top_k: Int[Array, ""] | None
    top_p: Float[Array, ""] | None
    min_p: Float[Array, ""] | None

    def apply(
        self, logits: Float[Array, "*batch vocabulary"], seen: Bool[Array, "*batch vocabulary"] | None = None
    ) -> Float[Array, "*batch vocabulary"]:
        """Normalised log-probabilities of the draw; what is cut has minus infinity."""
        scores = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
        if self.bias is not None:
            scores = scores + jnp.broadcast_to(self.bias, scores.shape)
        if self.repetition is not None and seen is not None:
            lowered = jnp.where(scores > 0, scores / self.repetition, scores * self.repetition)
            scores = jnp.where(seen, lowered, scores)
        if self.greedy:
            best = scores.argmax(axis=-1, keepdims=True)
            return jnp.where(
                jax.lax.broadcasted_iota(best.dtype, scores.shape, scores.ndim - 1) == best, 0.0, -jnp.inf
            )
        scores = scores - scores.max(axis=-1, keepdims=True)  # first, so that no temperature overflows
        if self.temperature is not None:
            scores = scores / self.temperature
        return jax.nn.log_softmax(jnp.where(self._kept(scores), scores, -jnp.inf), axis=-1)

    def _kept(self, scores: Float[Array, "*batch vocabulary"]) -> Bool[Array, "*batch vocabulary"]:
        if self.top_k is None and self.top_p is None and self.min_p is None:
            return jnp.ones(scores.shape, bool)
        size = scores.shape[-1]
        ranked, order = jax.lax.top_k(
            scores.reshape(-1, size), size
        )  # of equal scores the lower number is first
        kept = jnp.ones(ranked.shape, bool)
        if self.top_k is not None:
            kept &= (jnp.arange(size) < self.top_k)[None, :]
        p = jax.nn.softmax(jnp.where(kept, ranked, -jnp.inf), axis=-1)
        if (
            self.top_p is not None
        ):  # a token stays if those before it do not reach top_p; the first always does
            kept &= jnp.cumsum(p, axis=-1) - p < self.top_p
        if self.min_p is not None:
            kept &= p >= self.min_p * p[:, :1]
        rows = jnp.arange(len(kept))[:, None]
        return jnp.zeros_like(kept).at[rows, order].set(kept).reshape(scores.shape)


@final
class RuleOptions(SampleOptions):
    """How the next token is drawn."""

    temperature: float | None = Field(
        None, ge=0, description="makes p^(1/temperature); 0 takes the likeliest token"
    )
    top_k: int | None = Field(None, ge=1, description="keep this many of the likeliest tokens")
    top_p: float | None = Field(
        None,
        gt=0,
        le=1,
        description="keep the likeliest tokens that reach this probability together (Holtzman et al., 2020)",
    )
    min_p: float | None = Field(
        None, ge=0, le=1, description="keep tokens at least this fraction as likely as the likeliest"
    )

    def given(self) -> dict[str, Any]:
        """The rules that are used, by name."""
        return self.model_dump(exclude_none=True)


def rules(
    vocabulary: int,
    *,
    repetition: float = 1.0,
    bias: Mapping[int, float] | None = None,
    banned: Iterable[int] = (),
    **options: float | None,
) -> Rules:
    """Checked rules for a vocabulary of this size; options are those of `RuleOptions`.

    `repetition` above 1 makes tokens that came already less likely (Keskar et al., 2019); `bias` is added to the logits
    of single tokens and `banned` ones never come.

    >>> p = jnp.array([0.5, 0.25, 0.15, 0.1])
    >>> [round(float(q), 4) for q in jnp.exp(rules(4, top_p=0.6).apply(jnp.log(p)))]
    [0.6667, 0.3333, 0.0, 0.0]
    """
    found = check_options(RuleOptions, options)
    assert isinstance(found, RuleOptions)
    _within("repetition", repetition, repetition > 0, "above 0")
    offsets = dict(bias or {}) | dict.fromkeys(banned, -jnp.inf)
    for number in offsets:
        _within("bias or banned", number, 0 <= number < vocabulary, f"a token from 0 to {vocabulary - 1}")
        _within("bias", offsets[number], bool(offsets[number] < jnp.inf), "finite")
    if sum(value == -jnp.inf for value in offsets.values()) >= vocabulary:
        raise ArgumentError("banned: every token is banned", remedy="leave at least one")
    numbers = jnp.array(list(offsets), jnp.int32)
    temperature, top_k, top_p, min_p = found.temperature, found.top_k, found.top_p, found.min_p
    return Rules(
        greedy=temperature == 0,
        bias=jnp.zeros(vocabulary).at[numbers].set(jnp.array(list(offsets.values()))) if offsets else None,
        repetition=None if repetition == 1 else jnp.asarray(float(repetition)),
        temperature=None if temperature in (None, 0, 1) else jnp.asarray(temperature),
        top_k=None if top_k is None or top_k >= vocabulary else jnp.asarray(top_k),
        top_p=None if top_p in (None, 1) else jnp.asarray(top_p),
        min_p=None if min_p in (None, 0) else jnp.asarray(min_p),
    )


def _within(name: str, value: Any, fits: bool, wanted: str) -> None:
    if not fits:
        raise ArgumentError(f"{name}={value}: {name} must be {wanted}")


__all__ = ["RuleOptions", "Rules", "rules"]
