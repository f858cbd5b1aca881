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

    def encode(self, text: str, *, allow_special: bool = False) -> Ids:
        """Token numbers, without those a post-processor would put around the text: `start` is the one in front."""
        found = _open(self.source, allow_special).encode(text, add_special_tokens=False)
        return np.array(found.ids, np.int32)

    @functools.cached_property
    def start(self) -> int | None:
        """The token that the post-processor puts in front of every text."""
        number = first_token(json.loads(self.source).get("post_processor"))
        return number if number is not None and 0 <= number < len(self) else None

    @functools.cached_property
    def special(self) -> tuple[str, ...]:  # type: ignore[override]  # the file says it, and is read once
        """Tokens that the file adds as special ones."""
        added = json.loads(self.source).get("added_tokens") or []
        return tuple(token["content"] for token in added if token.get("special"))

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The text, special tokens included."""
        text: str = _open(self.source).decode(self.check(ids), skip_special_tokens=False)
        return text

    def to_json(self) -> dict[str, Any]:
        """The file as it was."""
        values: dict[str, Any] = json.loads(self.source)
        return values


def first_token(processor: Any) -> int | None:
    """The number of the token that the post-processor of a file puts in front of a text.

    >>> first_token({"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]})
    1
    """
    if not isinstance(processor, dict):
        return None
    kind = processor.get("type")
    try:
        if kind == "Sequence":
            return next(filter(lambda i: i is not None, map(first_token, processor["processors"])), None)
        if kind == "TemplateProcessing":
            first = processor["single"][0].get("SpecialToken")
            number = None if first is None else processor["special_tokens"][first["id"]]["ids"][0]
        else:
            number = processor["cls"][1] if kind in ("BertProcessing", "RobertaProcessing") else None
    except (KeyError, IndexError, TypeError, AttributeError):
        raise DataError(f"post_processor {kind}: it does not say what stands in front of a text") from None
    return number if type(number) is int else None


@functools.lru_cache(maxsize=8)
def _open(source: str, allow_special: bool = False) -> Any:
    from tokenizers import Tokenizer as Package  # type: ignore[import-not-found, unused-ignore]

    try:
        found = Package.from_str(source)
    except Exception as error:  # the package raises nothing more specific
        raise DataError(f"the tokenizers package cannot read the tokenizer: {error}") from None
    found.encode_special_tokens = not allow_special  # its word for reading their names as text
    return found


__all__ = ["Packaged", "installed"]
