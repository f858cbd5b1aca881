"""Options of decoding: one schema for each thing that can be chosen, and all of them together, checked once."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.data.text.tokenizers.tokenizer import Tokenizer
from chainrule.models.protocol import OptionGroup, SampleOptions, read_options
from chainrule.models.text.decoding.beam import BeamOrder, BestFirst, GumbelTopK, Resampled
from chainrule.models.text.decoding.rules import RuleOptions, Rules, rules

_TEMPERATURE, _TOP_P = 0.8, 0.95
"""What single texts are drawn with unless told otherwise."""


@final
class TextOptions(SampleOptions):
    """Where a text begins and where it ends."""

    prompt: str | Sequence[str] = Field(
        "", description="the text to go on from, or one for each sample where the model can"
    )
    length: int | None = Field(
        None, ge=1, description="new tokens at most; default: as many as an example predicts"
    )
    stop: str | Sequence[str] = Field((), description="strings that end a text; they are not kept")
    overflow: Literal["crop", "window", "error"] = Field(
        "crop",
        description="past the context: crop reads the last tokens afresh for each new one, window slides (where the "
        "model can), error refuses",
    )

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings that end a text."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    def end_tokens(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """The tokens that are stop strings by themselves: where one comes there is no need to write on."""
        return tuple(
            i for i, text in enumerate(tokenizer.pieces(range(len(tokenizer)))) if text in self.stops
        )


@final
class TokenOptions(SampleOptions):
    """Tokens that are to come less often, or never."""

    repetition: float = Field(
        1.0, gt=0, description="above 1, tokens that came already are less likely (Keskar et al., 2019)"
    )
    banned: str | Sequence[str] = Field((), description="tokens that never come, by their text")

    def numbers(self, tokenizer: Tokenizer) -> list[int]:
        """The tokens that are banned."""
        names = (self.banned,) if isinstance(self.banned, str) else self.banned
        return [_number(tokenizer, name) for name in names]


@final
class BeamOptions(SampleOptions):
    """Beam search: several texts at once."""

    beams: int | None = Field(None, ge=1, description="texts that are kept at once while they are written")
    search: Literal["best", "gumbel", "survivors"] = Field(
        "best",
        description="which are kept: best, the likeliest; gumbel, distinct draws from the model (Kool et al., 2019); "
        "survivors, distinct draws anew at every step",
    )
    branch: int | None = Field(
        None, ge=1, description="likeliest tokens by which each is extended; default: all"
    )


class OrderOptions(SampleOptions, abc.ABC):
    """Options of one way of keeping beams."""

    @abc.abstractmethod
    def order(self, temperature: float | None) -> BeamOrder:
        """Which beams are kept."""

    @property
    def draws_prefixes(self) -> bool:
        """Default: temperature acts on the next token, not on whole prefixes."""
        return False


@final
class BestOptions(OrderOptions):
    """Options of the search for the likeliest texts."""

    length_penalty: float = Field(0.0, description="above 0 longer texts gain (Wu et al., 2016)")

    def order(self, temperature: float | None) -> BeamOrder:  # noqa: ARG002  # the rules have applied it
        """By log-probability, made comparable across lengths."""
        return BestFirst(jnp.asarray(self.length_penalty))


@final
class GumbelOptions(OrderOptions):
    """Options of stochastic beam search."""

    def order(self, temperature: float | None) -> BeamOrder:  # noqa: ARG002  # the rules have applied it
        """By perturbed log-probabilities."""
        return GumbelTopK()


@final
class SurvivorsOptions(OrderOptions):
    """Options of beams that are drawn anew at every step."""

    def order(self, temperature: float | None) -> BeamOrder:
        """By the tempered probability of whole prefixes."""
        if temperature is not None and temperature <= 0:
            raise ArgumentError(f"temperature={temperature}: survivors are drawn, it must be above 0")
        return Resampled(jnp.asarray(1.0 if temperature is None else temperature))

    @property
    def draws_prefixes(self) -> bool:
        """They are drawn by prefixes."""
        return True


ORDERS: dict[str, type[OrderOptions]] = {
    "best": BestOptions,
    "gumbel": GumbelOptions,
    "survivors": SurvivorsOptions,
}
GROUPS = (
    OptionGroup("text", "Where a text begins and ends.", TextOptions),
    OptionGroup("rules", "What may be drawn; temperature 0.8 and top_p 0.95 unless given.", RuleOptions),
    OptionGroup("tokens", "Tokens that come less often.", TokenOptions),
    OptionGroup("beams", "Several texts at once.", BeamOptions),
    *(
        OptionGroup(f"order-{name}", f"Beams that are kept by search={name}.", schema, ("search", name))
        for name, schema in ORDERS.items()
    ),
)


@final
@dataclass(frozen=True)
class Decoding:
    """How a text is to be written."""

    text: TextOptions
    draws: RuleOptions
    tokens: TokenOptions
    beam: BeamOptions
    order: OrderOptions

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> "Decoding":
        """Options by name, checked one by one and together."""
        found: dict[str, Any] = read_options(GROUPS, given)
        order = next(value for name, value in found.items() if name.startswith("order-"))
        self = cls(found["text"], found["rules"], found["tokens"], found["beams"], order)
        if self.beam.beams is None and (self.beam != BeamOptions() or order != BestOptions()):
            raise ArgumentError(
                "branch, length_penalty and search are about beams, and there are none", remedy="add beams=4"
            )
        if self.beam.beams is not None and self.tokens.repetition != 1:
            raise ArgumentError(
                f"repetition={self.tokens.repetition:g}: beams do not take it", remedy="leave it out"
            )
        return self

    def beam_order(self) -> BeamOrder:
        """Which beams are kept."""
        return self.order.order(self.draws.temperature)

    def rules(self, tokenizer: Tokenizer) -> Rules:
        """The rules for the tokens of a tokenizer."""
        numbers = self.draws.given()
        if self.beam.beams is None:
            numbers = {"temperature": _TEMPERATURE, "top_p": _TOP_P, **numbers}
        elif self.order.draws_prefixes:
            numbers.pop("temperature", None)
        return rules(
            len(tokenizer),
            repetition=self.tokens.repetition,
            banned=self.tokens.numbers(tokenizer),
            **numbers,
        )


def _number(tokenizer: Tokenizer, text: str) -> int:
    numbers = [tokenizer.vocab[text]] if text in tokenizer.vocab else tokenizer.encode(text).tolist()
    if len(numbers) != 1:
        raise ArgumentError(
            f"banned={text!r}: this is {len(numbers)} tokens of the vocabulary, not one",
            remedy="tokens of some data: chainrule data tokens",
        )
    return int(numbers[0])


__all__ = [
    "GROUPS",
    "ORDERS",
    "BeamOptions",
    "BestOptions",
    "Decoding",
    "GumbelOptions",
    "OrderOptions",
    "SurvivorsOptions",
    "TextOptions",
    "TokenOptions",
]
