"""Options of decoding: one schema for each thing that can be chosen, and all of them together, checked once."""

import abc
import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.data.text.tokenizers.tokenizer import Tokenizer
from chainrule.models.protocol import OptionGroup, SampleOptions, read_options
from chainrule.models.protocol.decoding.beam import BeamOrder, BestFirst, GumbelTopK, Resampled
from chainrule.models.protocol.decoding.rules import RuleOptions, Rules, rules

_TEMPERATURE, _TOP_P = 0.8, 0.95
"""What single texts are drawn with unless told otherwise."""


@final
class TextOptions(SampleOptions):
    """Where a text begins and where it ends."""

    prompt: str | Sequence[str] = Field(
        "", description="the text to go on from, or one for each sample where the model can"
    )
    allow_special: bool = Field(
        False,
        description="names of special tokens in the prompt become these tokens; otherwise they are text",
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
        return tuple(map(str, _listed(self.stop)))

    def end_tokens(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """The tokens that are stop strings by themselves: where one comes there is no need to write on."""
        return tuple(
            i for i, text in enumerate(tokenizer.pieces(range(len(tokenizer)))) if text in self.stops
        )


def _listed(given: str | int | Sequence[str | int]) -> tuple[str | int, ...]:
    """One or several; several may be written as a JSON list, which is how the command line gives them.

    >>> _listed("a"), _listed('["a", ","]'), _listed("[")
    (('a',), ('a', ','), ('[',))
    """
    if isinstance(given, str) and given.startswith("[") and given.endswith("]"):
        with contextlib.suppress(ValueError):  # brackets that are no list are a text
            found = json.loads(given)
            if all(isinstance(one, str | int) for one in found):
                return tuple(found)
    return (given,) if isinstance(given, str | int) else tuple(given)


@final
class TokenOptions(SampleOptions):
    """Tokens that are to come more or less often, or never; by their text, or by their number as in #12."""

    repetition: float = Field(
        1.0, gt=0, description="above 1, tokens that came already are less likely (Keskar et al., 2019)"
    )
    banned: str | int | Sequence[str | int] = Field(
        (), description='tokens that never come, by their text or number: one, or a list such as ["a", "#12"]'
    )
    bias: str | Mapping[str | int, float] = Field(
        "",
        description="numbers added to the logits of tokens, by their text or number: the=2,#12=-1.5; tokens with a "
        'comma or = in them: {",": -1}',
    )

    def rules(self, tokenizer: Tokenizer) -> dict[str, Any]:
        """The arguments of `rules` that they are."""
        bias: dict[int, float] = {}
        for name, value in _entries(self.bias):
            number = _number(tokenizer, "bias", name)
            if number in bias:
                raise ArgumentError(f"bias: token {name!r} is given twice", remedy="give it once")
            bias[number] = value
        banned = [_number(tokenizer, "banned", name) for name in _listed(self.banned)]
        return {"repetition": self.repetition, "bias": bias, "banned": banned}


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
    OptionGroup("tokens", "Tokens that come more or less often.", TokenOptions),
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
        return rules(len(tokenizer), **self.tokens.rules(tokenizer), **numbers)


def _entries(given: str | Mapping[str | int, float]) -> list[tuple[str | int, float]]:
    """Tokens and what is added to their logits.

    >>> _entries("the=2, a=-1"), _entries('{",": 1}'), _entries({3: 0.5})
    ([('the', 2.0), (' a', -1.0)], [(',', 1.0)], [(3, 0.5)])
    """
    if not isinstance(given, str):
        return list(given.items())
    try:
        if given.startswith("{"):
            found = [(name, float(value)) for name, value in json.loads(given).items()]
        else:
            parts = [part.rpartition("=") for part in given.split(",") if part]
            found = [(name, float(value)) for name, _, value in parts]
        if not all(name and math.isfinite(value) for name, value in found):
            raise ValueError
        return [*found]
    except (ValueError, TypeError):
        raise ArgumentError(
            f"bias={given}: bias must be tokens with a number each",
            remedy='for example bias="the=2,#12=-1.5", or bias=\'{",": -1}\' for tokens with a comma or = in them',
        ) from None


def _number(tokenizer: Tokenizer, option: str, name: str | int) -> int:
    """The number of a token, by its text or as it is, which is written #12 where it has to be text."""
    if isinstance(name, int):
        return name
    if name in tokenizer.vocab:
        return tokenizer.vocab[name]
    if name.startswith("#") and name[1:].isdecimal():
        return int(name[1:])
    numbers = tokenizer.encode(name).tolist()
    if len(numbers) != 1:
        raise ArgumentError(
            f"{option}={name!r}: this is {len(numbers)} tokens of the vocabulary, not one",
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
