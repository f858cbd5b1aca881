"""Values of a `config.json` of Hugging Face's transformers, each checked, and the errors that name them."""

from collections.abc import Mapping
from typing import Any

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.text.tokenizers import Tokenizer

_ENDS = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "[SEP]")


def refuse(name: str, value: Any, why: str) -> DataError:
    """The error for a value that no setting of ours means."""
    return DataError(f"config.json: {name}={value!r} is not supported: {why}")


def check(config: Mapping[str, Any], name: str, expected: Any, *, why: str = "") -> None:
    """Refuse any value but the one that the model computes with; one that is not there is taken for it."""
    value = config.get(name)
    if value is not None and value != expected:
        raise refuse(name, value, why or f"this model computes with {name}={expected!r}")


def whole(config: Mapping[str, Any], name: str) -> int | None:
    """A positive whole number; nothing where none is given."""
    value = config.get(name)
    if value is not None and (type(value) is not int or value < 1):
        raise DataError(f"config.json: {name}={value!r} is not a positive whole number")
    return value


def number(config: Mapping[str, Any], name: str, default: float) -> float:
    """A positive number."""
    value = config.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise DataError(f"config.json: {name}={value!r} is not a positive number")
    return float(value)


def text(config: Mapping[str, Any], name: str, default: str) -> str:
    """A name."""
    value = config.get(name, default)
    if not isinstance(value, str):
        raise DataError(f"config.json: {name}={value!r} is not a name")
    return value


def yes(config: Mapping[str, Any], name: str, default: bool) -> bool:
    """True or false."""
    value = config.get(name, default)
    if not isinstance(value, bool):
        raise DataError(f"config.json: {name}={value!r} is neither true nor false")
    return value


def agree(one: Mapping[str, Any], whose: str, other: Mapping[str, Any], others: str) -> None:
    """Raise where two sources say different things of one setting.

    >>> agree({"layers": 2, "heads": 4}, "config.json", {"layers": 3}, "the arrays")
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: config.json says layers=2, the arrays layers=3
           one of the two is not of this model: use the files as they were published together
    """
    odd = [name for name in one if name in other and one[name] != other[name]]
    if odd:
        said = ", ".join(f"{name}={one[name]}" for name in odd)
        held = ", ".join(f"{name}={other[name]}" for name in odd)
        raise ArgumentError(
            f"{whose} says {said}, {others} {held}",
            remedy="one of the two is not of this model: use the files as they were published together",
        )


def end_token(tokenizer: Tokenizer) -> int | None:
    """The token that ends a text, where the vocabulary has one under a usual name."""
    return next((tokenizer.vocab[name] for name in _ENDS if name in tokenizer.vocab), None)


__all__ = ["agree", "check", "end_token", "number", "refuse", "text", "whole", "yes"]
