"""What a user may say about how a text is written, checked once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, final

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, check_choice, suggest
from chainrule.data.text.tokenizers.base import Tokenizer
from chainrule.models.text.decoding.beam import Best, Gumbel, Order, Survivors
from chainrule.models.text.decoding.rules import Rules, rules

OVERFLOW = ("crop", "window", "error")
SEARCHES = ("best", "gumbel", "survivors")


@final
@dataclass(frozen=True)
class Choices:
    """Options of `sample` and `stream`; the rules among them are those of `rules`, with symbols by their text."""

    temperature: float | None = None
    """0.8 for single texts, 1 for beams unless given."""
    top_k: int | None = None
    top_p: float | None = None
    """0.95 for single texts, 1 for beams unless given."""
    min_p: float | None = None
    repetition: float = 1.0
    banned: str | Sequence[str] = ()
    stop: str | Sequence[str] = ()
    overflow: str = "crop"
    beams: int | None = None
    search: str = "best"
    branch: int | None = None
    length_penalty: float = 0.0

    def __post_init__(self) -> None:
        check_choice("sample", "overflow", self.overflow, OVERFLOW)
        check_choice("sample", "search", self.search, SEARCHES)
        for name in ("beams", "branch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgumentError(f"{name}={value}: {name} must be at least 1")
        if self.beams is None and (self.branch, self.length_penalty, self.search) != (None, 0.0, "best"):
            raise ArgumentError(
                "branch, length_penalty and search are about beams, and there are none", remedy="add beams=4"
            )
        if self.beams is not None and self.repetition != 1:
            raise ArgumentError(f"repetition={self.repetition}: beams do not take it", remedy="leave it out")

    @classmethod
    def of(cls, where: str, options: Mapping[str, Any]) -> "Choices":
        """Choices by name; a name that is none of them is an error."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                hint = suggest(name, known)
                raise ArgumentError(
                    f"{where}: unknown option {name!r}{hint}", remedy=f"options: {', '.join(known)}"
                )
        return cls(**options)

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings that end a text."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    def ends(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """The symbols that are stop strings by themselves: where one comes there is no need to write on."""
        return tuple(
            i for i, text in enumerate(tokenizer.pieces(range(len(tokenizer)))) if text in self.stops
        )

    def order(self) -> Order:
        """Which beams are kept."""
        if self.search == "best":
            return Best(jnp.asarray(float(self.length_penalty)))
        if self.search == "gumbel":
            return Gumbel()
        if self.temperature is not None and self.temperature <= 0:
            raise ArgumentError(f"temperature={self.temperature}: survivors are drawn, it must be above 0")
        return Survivors(jnp.asarray(1.0 if self.temperature is None else float(self.temperature)))

    def rules(self, tokenizer: Tokenizer) -> Rules:
        """The rules for the symbols of a tokenizer."""
        names = (self.banned,) if isinstance(self.banned, str) else tuple(self.banned)
        temperature, top_p = (0.8, 0.95) if self.beams is None else (1.0, 1.0)
        temperature = temperature if self.temperature is None else self.temperature
        # Survivors are drawn by the tempered probability of whole prefixes, not symbol by symbol.
        whole = self.beams is not None and self.search == "survivors"
        return rules(
            len(tokenizer),
            temperature=1.0 if whole else temperature,
            top_k=self.top_k,
            top_p=top_p if self.top_p is None else self.top_p,
            min_p=self.min_p,
            repetition=self.repetition,
            banned=[_number(tokenizer, name) for name in names],
        )


def _number(tokenizer: Tokenizer, text: str) -> int:
    numbers = [tokenizer.vocab[text]] if text in tokenizer.vocab else tokenizer.encode(text).tolist()
    if len(numbers) != 1:
        raise ArgumentError(
            f"banned={text!r}: this is {len(numbers)} symbols of the vocabulary, not one",
            remedy="symbols of some data: chainrule data tokens",
        )
    return int(numbers[0])


__all__ = ["OVERFLOW", "SEARCHES", "Choices"]
