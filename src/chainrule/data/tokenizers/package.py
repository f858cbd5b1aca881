"""The `tokenizers` package where it is installed: it learns the same merges sooner, and reads every kind of its files.

Encoding with the tokenizers of this library does not go through it. Measured on 2.3 MB of prose, remembering the
chunks seen so far is two to three times as fast as the package, and the package turns names of special tokens in a
user's text into these tokens.
"""

import functools
import importlib.util
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, final

import numpy as np

from chainrule.core.errors import DataError
from chainrule.data.tokenizers.base import Ids, Tokenizer, bpe_model, document


@functools.cache
def installed() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec("tokenizers") is not None


def suits(text: str) -> bool:
    """Whether the package is there and sure to learn the same merges from this text.

    It is not sure to where a character is younger than the Unicode table of the running Python: the package might
    know it for a letter.
    """
    return installed() and not any(unicodedata.category(c) in ("Cn", "Cs") for c in set(text))


def learn(
    text: str,
    component: Mapping[str, Any] | None,
    first: Sequence[str],
    special: int,
    vocab: int,
    min_frequency: int,
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Tokens and merges as `merging.learn` gives them, `first` being `special` special tokens and the alphabet."""
    from tokenizers import Tokenizer as Package  # type: ignore[import-not-found, unused-ignore]
    from tokenizers.trainers import BpeTrainer  # type: ignore[import-not-found, unused-ignore]

    trainer = BpeTrainer(
        vocab_size=vocab,
        min_frequency=min_frequency,
        special_tokens=list(first[:special]),
        initial_alphabet=list(first[special:]),
        show_progress=False,
    )
    empty = document(bpe_model((), ()), component, None)
    package = Package.from_str(json.dumps(empty))
    package.train_from_iterator([text], trainer)
    model = json.loads(package.to_str())["model"]
    tokens = tuple(sorted(model["vocab"], key=model["vocab"].__getitem__))
    return tokens, tuple((left, right) for left, right in model["merges"])


@final
@dataclass(frozen=True)
class Packaged(Tokenizer):
    """A tokenizer of a kind that only the package knows, run by the package."""

    tokens: tuple[str, ...]
    source: str
    """The file."""

    @classmethod
    def build(cls, values: Mapping[str, Any]) -> "Packaged":
        """From the contents of a file."""
        source = json.dumps(values, sort_keys=True, ensure_ascii=False)
        vocab = _open(source).get_vocab(with_added_tokens=True)
        names = {number: token for token, number in vocab.items()}
        return cls(tuple(names.get(i, "") for i in range(max(names, default=-1) + 1)), source)

    def encode(self, text: str) -> Ids:
        """Token numbers, without those a post-processor would put around the text."""
        return np.array(_open(self.source).encode(text, add_special_tokens=False).ids, np.int32)

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The text, special tokens included."""
        text: str = _open(self.source).decode(self.check(ids), skip_special_tokens=False)
        return text

    def to_json(self) -> dict[str, Any]:
        """The file as it was."""
        values: dict[str, Any] = json.loads(self.source)
        return values


@functools.lru_cache(maxsize=8)
def _open(source: str) -> Any:
    from tokenizers import Tokenizer as Package  # type: ignore[import-not-found, unused-ignore]

    try:
        return Package.from_str(source)
    except Exception as error:  # the package raises nothing more specific
        raise DataError(f"the tokenizers package cannot read the tokenizer: {error}") from None


__all__ = ["Packaged", "installed", "learn", "suits"]
