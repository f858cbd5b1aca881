"""What a user may say about how a text is written, checked once."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, final

from chainrule.core.errors import ArgumentError, check_choice, suggest
from chainrule.data.tokenizers import Tokenizer
from chainrule.models.autoregressive.decoding.rules import Rules, rules

OVERFLOW = ("crop", "window", "error")


@final
@dataclass(frozen=True)
class Choices:
    """Options of `sample` and `stream`; the rules among them are those of `rules`, with symbols by their text."""

    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = 0.95
    min_p: float | None = None
    repetition: float = 1.0
    banned: str | tuple[str, ...] = ()
    stop: str | tuple[str, ...] = ()
    overflow: str = "crop"

    def __post_init__(self) -> None:
        check_choice("sample", "overflow", self.overflow, OVERFLOW)

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

    def rules(self, tokenizer: Tokenizer) -> Rules:
        """The rules for the symbols of a tokenizer."""
        names = (self.banned,) if isinstance(self.banned, str) else tuple(self.banned)
        return rules(
            len(tokenizer),
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
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


__all__ = ["OVERFLOW", "Choices"]
