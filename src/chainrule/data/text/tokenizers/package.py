"""Tokenizers of kinds that only the `tokenizers` package knows, run by the package where it is installed.

The tokenizers of this library do not go through it: it gives the same merges and numbers, but on 10 MB of text it
learns no sooner than the code here, which counts each chunk once, and it encodes no faster than the code here, which
remembers the chunks it has seen.
"""

import functools
import importlib.util
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex, final

import numpy as np

from chainrule.core.errors import DataError
from chainrule.data.text.tokenizers.tokenizer import Ids, Tokenizer


@functools.cache
def installed() -> bool:
    """Whether the package is there."""
    return importlib.util.find_spec("tokenizers") is not None


@final
@dataclass(frozen=True, repr=False)
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


__all__ = ["Packaged", "installed"]
