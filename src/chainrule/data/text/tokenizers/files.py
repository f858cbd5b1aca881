"""Files of tokenizers: the JSON of the `tokenizers` package, read and written without that package.

Read are models that merge (BPE), behind no splitting, splitting at white space or into words, or bytes; the pieces of
Llama's and BERT's families; and the words of `Word`. Whatever else a file asks for changes the tokens, so nothing is
ignored: the package does it where it is installed, and otherwise the error names the part.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chainrule.core.errors import ArgumentError, ChainruleError, DataError
from chainrule.data.loading.walking import special
from chainrule.data.text.tokenizers import package, sentence_piece, word_piece
from chainrule.data.text.tokenizers.bpe import BPE, rule_of
from chainrule.data.text.tokenizers.byte_bpe import BYTES, ByteBPE
from chainrule.data.text.tokenizers.character import Character
from chainrule.data.text.tokenizers.sentence_piece import SentencePiece
from chainrule.data.text.tokenizers.splitting import LOSSY
from chainrule.data.text.tokenizers.tokenizer import Tokenizer, listed
from chainrule.data.text.tokenizers.word import Word
from chainrule.data.text.tokenizers.word_piece import WordPiece

_MAX_BYTES = 2**28
_FLAGS = ("single_word", "lstrip", "rstrip")


class _Unsupported(DataError):
    """The file asks for something that only the package does."""

    def __init__(self, part: str) -> None:
        super().__init__(
            f"the tokenizer needs {part}, which is not read without the tokenizers package",
            remedy="install it: pip install 'chainrule[text]'",
        )


def from_json(values: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer that a document describes.

    >>> from_json(Character(("a", "b")).to_json()).tokens
    ('a', 'b')
    >>> from_json({"model": {"type": "BPE", "vocab": {"a": 0, "b": 2}, "merges": []}})
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: vocab: token number 1 is missing or given twice
    """
    try:
        return _own(values)
    except _Unsupported:
        if package.installed():
            return package.Packaged.build(values)
        raise


def read_object(path: str | Path) -> dict[str, Any]:
    """The object in a JSON file of a tokenizer."""
    path = Path(path).expanduser()
    if what := special(path):
        raise DataError(f"{path} is {what}, not the file of a tokenizer")
    try:
        size = path.stat().st_size
        values = json.loads(path.read_bytes().decode()) if size <= _MAX_BYTES else None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path.name} is not a JSON file: {error}") from None
    if size > _MAX_BYTES:
        raise DataError(f"{path.name}: a tokenizer file of more than {_MAX_BYTES:,} bytes is not read")
    if not isinstance(values, dict):
        raise DataError(f"{path.name} is not the file of a tokenizer: it holds no JSON object")
    return values


def read(path: str | Path, *, any_length: bool = False) -> Tokenizer:
    """The tokenizer in a JSON file; `any_length` leaves out what the file says about cutting and padding texts."""
    path = Path(path).expanduser()
    values = read_object(path)
    if any_length:
        values = {**values, "truncation": None, "padding": None}
    try:
        return from_json(values)
    except ChainruleError as error:
        raise DataError(f"{path.name}: {error.message}", remedy=error.remedy) from None


def write(tokenizer: Tokenizer, path: str | Path) -> None:
    """Write a tokenizer as a JSON file, which `read` and the package read."""
    text = json.dumps(tokenizer.to_json(), ensure_ascii=False, indent=1)
    Path(path).expanduser().write_text(text + "\n", encoding="utf-8")


def _own(values: Mapping[str, Any]) -> Tokenizer:
    if sentence_piece.describes(values) or word_piece.describes(values):
        return _pieces(values)
    for part in ("truncation", "padding", "normalizer"):
        if values.get(part) is not None:
            raise _Unsupported(f"{part} {_kind(values[part])}".rstrip())
    if values.get("post_processor") is not None and _kind(values["post_processor"]) != "ByteLevel":
        raise _Unsupported(f"post_processor {_kind(values['post_processor'])}")
    model = _mapping(values.get("model"), "model")
    kind = model.get("type", "BPE" if "merges" in model else None)
    if kind not in ("BPE", "WordLevel"):
        raise _Unsupported(f"model {kind}")
    vocab = _vocab(model.get("vocab"))
    special = _special(values.get("added_tokens") or [])
    for token, i in special.items():
        if vocab.setdefault(token, i) != i:
            raise ArgumentError(
                f"added_tokens: {token!r} is number {i} here and {vocab[token]} in the vocabulary"
            )
    if kind == "WordLevel":
        return _word(values, model, vocab, special)
    _check_model(model)
    return _merging(
        values, listed(vocab), _merges(model.get("merges")), tuple(special), model.get("unk_token")
    )


def _pieces(values: Mapping[str, Any]) -> Tokenizer:
    model = values["model"]
    vocab, special = _vocab(model.get("vocab")), _special(values.get("added_tokens") or [])
    if word_piece.describes(values):
        lowercase = bool(values["normalizer"]["lowercase"])
        return WordPiece(listed(vocab), tuple(special), str(model.get("unk_token")), lowercase)
    return SentencePiece(listed(vocab), _merges(model.get("merges")), tuple(special))


def _merging(
    values: Mapping[str, Any],
    tokens: tuple[str, ...],
    merges: tuple[tuple[str, str], ...],
    special: tuple[str, ...],
    unknown: str | None,
) -> Tokenizer:
    splitter: Any = values.get("pre_tokenizer")
    decoder: Any = values.get("decoder")
    if _kind(splitter) == "ByteLevel":
        if splitter.get("add_prefix_space", True):
            raise _Unsupported("pre_tokenizer ByteLevel with add_prefix_space")
        if not splitter.get("use_regex", True):
            raise _Unsupported("pre_tokenizer ByteLevel without use_regex")
        if _kind(decoder) != "ByteLevel":
            raise _Unsupported(f"decoder {_kind(decoder) or 'null'} after pre_tokenizer ByteLevel")
        if unknown is not None and not set(BYTES) <= set(tokens):
            raise _Unsupported("unk_token for bytes without a token")
        return ByteBPE(tokens, merges, special)
    rule = rule_of(splitter)
    if rule is None:
        raise _Unsupported(f"pre_tokenizer {_kind(splitter)}")
    if decoder is not None and (rule in LOSSY or decoder != {"type": "Fuse"}):
        raise _Unsupported(f"decoder {_kind(decoder)}")
    plain = rule == "none" and not merges and not special and unknown is None
    if plain and all(len(token) == 1 for token in tokens):
        return Character(tokens)
    return BPE(tokens, merges, rule, special, unknown)


def _word(
    values: Mapping[str, Any], model: Mapping[str, Any], vocab: dict[str, int], special: Mapping[str, int]
) -> Tokenizer:
    splitter, decoder, unknown = values.get("pre_tokenizer"), values.get("decoder"), model.get("unk_token")
    if rule_of(splitter) != "words":
        raise _Unsupported(f"pre_tokenizer {_kind(splitter) or 'null'} before model WordLevel")
    if decoder != {"type": "Fuse"}:
        raise _Unsupported(f"decoder {_kind(decoder) or 'null'}")
    if not isinstance(unknown, str):
        raise ArgumentError(f"unk_token={unknown!r}: a model of words needs the name of its unknown token")
    return Word(listed(vocab), unknown, tuple(special))


def _check_model(model: Mapping[str, Any]) -> None:
    """Everything in a model that would change the tokens is named."""
    for part in (
        "dropout",
        "continuing_subword_prefix",
        "end_of_word_suffix",
        "byte_fallback",
        "ignore_merges",
    ):
        if model.get(part):
            raise _Unsupported(f"model BPE with {part}")
    if model.get("unk_token") is not None and not isinstance(model["unk_token"], str):
        raise ArgumentError(f"unk_token={model['unk_token']!r}: it must be the name of a token")
    if model.get("unk_token") is not None and model.get("fuse_unk"):
        raise _Unsupported("model BPE with fuse_unk")


def _vocab(values: Any) -> dict[str, int]:
    found = _mapping(values, "vocab")
    odd = next((token for token, i in found.items() if type(i) is not int), None)
    if odd is not None:
        raise ArgumentError(f"vocab: the number of {odd!r} is {found[odd]!r}")
    return dict(found)


def _merges(values: Any) -> tuple[tuple[str, str], ...]:
    """Merges as pairs, written either as pairs or as two tokens with a space between them."""
    if not isinstance(values, list):
        raise ArgumentError("merges: a list is needed")
    pairs = [value.split(" ") if isinstance(value, str) else value for value in values]
    for rank, pair in enumerate(pairs):
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
            raise ArgumentError(f"merge {rank}: {values[rank]!r} is not two tokens")
    return tuple((left, right) for left, right in pairs)


def _special(values: Any) -> dict[str, int]:
    if not isinstance(values, list):
        raise ArgumentError("added_tokens: a list is needed")
    found = {}
    for value in values:
        added = _mapping(value, "added_tokens")
        token, i = added.get("content"), added.get("id")
        if not isinstance(token, str) or not token or type(i) is not int:
            raise ArgumentError(f"added_tokens: {dict(added)!r} has no content or no number")
        flags = [flag for flag in _FLAGS if added.get(flag)]
        if flags or not added.get("special"):
            raise _Unsupported(f"added token {token!r} with {flags[0] if flags else 'special=false'}")
        found[token] = i
    return dict(sorted(found.items(), key=lambda pair: pair[1]))


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ArgumentError(f"{what}: an object is needed, found {type(value).__name__}")
    return value


def _kind(part: Any) -> str:
    return str(part.get("type", "")) if isinstance(part, dict) else ""


__all__ = ["from_json", "read", "read_object", "write"]
