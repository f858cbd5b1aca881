"""The tokenizer in a folder of Hugging Face's transformers, in whichever files it comes.

`tokenizer.json` says everything. Earlier files say less, and the class of their reader said the rest: `vocab.json` with
`merges.txt` is GPT-2's byte pair encoding, `vocab.txt` BERT's word pieces, `tokenizer.model` a vocabulary of
SentencePiece with the score of every piece.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chainrule.core.errors import DataError
from chainrule.data.text.tokenizers import sentence_piece_files
from chainrule.data.text.tokenizers.byte_bpe import COMPONENT
from chainrule.data.text.tokenizers.files import from_json, read, read_object
from chainrule.data.text.tokenizers.tokenizer import Tokenizer, bpe_model, document
from chainrule.data.text.tokenizers.word_piece import WordPiece

WHOLE = "tokenizer.json"
CONFIG = "tokenizer_config.json"
_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def holds(folder: Path) -> bool:
    """Whether a folder has the files of a tokenizer."""
    single = (WHOLE, "vocab.json", "vocab.txt", "tokenizer.model")
    return any((folder / name).is_file() for name in single)


def read_folder(folder: str | Path) -> Tokenizer:
    """The tokenizer of a folder; what it says about cutting and padding texts is left to the model."""
    folder = Path(folder).expanduser()
    if (folder / WHOLE).is_file():
        return read(folder / WHOLE, any_length=True)
    said = read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    if (folder / "vocab.json").is_file():
        return _bytes(folder, said)
    if (folder / "vocab.txt").is_file():
        return _words(folder, said)
    if (folder / "tokenizer.model").is_file():
        return sentence_piece_files.read(folder / "tokenizer.model")
    raise DataError(
        f"{folder} holds no tokenizer",
        remedy="read are tokenizer.json; vocab.json with merges.txt; vocab.txt; tokenizer.model. "
        "Or name a file: tokenizer=FILE",
    )


def _bytes(folder: Path, said: Mapping[str, Any]) -> Tokenizer:
    """GPT-2's: tokens by number, and merges, a pair on each line after the first."""
    if not (folder / "merges.txt").is_file():
        raise DataError(f"{folder}: vocab.json is there, merges.txt is not", remedy="both belong together")
    if said.get("add_prefix_space"):
        raise DataError(
            f"{folder / CONFIG}: add_prefix_space=true is not read from vocab.json and merges.txt"
        )
    vocab = read_object(folder / "vocab.json")
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    odd = next((pair for pair in pairs if len(pair) != 2), None)
    if odd is not None:
        raise DataError(f"merges.txt: {' '.join(odd)!r} is not two tokens")
    special = {token: vocab[token] for token in _special(folder, said) if token in vocab}
    whole = document(bpe_model((), ()), COMPONENT, COMPONENT, special)
    whole["model"] |= {"vocab": vocab, "merges": [list(pair) for pair in pairs]}
    return from_json(whole)


def _words(folder: Path, said: Mapping[str, Any]) -> Tokenizer:
    """BERT's: one piece on each line."""
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    tokens = tuple(line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines))
    special = tuple(token for token in _special(folder, said) if token in tokens)
    return WordPiece(tokens, special, lowercase=bool(said.get("do_lower_case", True)))


def _special(folder: Path, said: Mapping[str, Any]) -> list[str]:
    """Names of special tokens, from whichever file lists them, or the usual ones."""
    listed = dict(said)
    if (folder / "special_tokens_map.json").is_file():
        listed |= read_object(folder / "special_tokens_map.json")
    found = [listed[name] for name in _NAMES if listed.get(name)]
    texts = [one["content"] if isinstance(one, dict) and "content" in one else one for one in found]
    usual = ("<|endoftext|>", "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    return list(dict.fromkeys(text for text in (*texts, *usual) if isinstance(text, str)))


def padded(tokenizer: Tokenizer, size: int) -> Tokenizer:
    """The tokenizer with tokens that stand for nothing, up to `size`: models round the size of their vocabulary up.

    >>> from chainrule.data.text.tokenizers.byte_bpe import ByteBPE
    >>> larger = padded(ByteBPE.train("", vocab=256), 260)
    >>> len(larger), larger.tokens[-1], larger.encode("a b").tolist()
    (260, '<unused 259>', [64, 220, 65])
    """
    return extended(tokenizer, [f"<unused {number}>" for number in range(len(tokenizer), size)])


def extended(tokenizer: Tokenizer, names: Sequence[str]) -> Tokenizer:
    """The tokenizer with further special tokens, which get the next numbers; a token that is there keeps its own.

    >>> from chainrule.data.text.tokenizers.character import Character
    >>> extended(Character(("a", "b")), ["<user>"]).encode("ab<user>", allow_special=True).tolist()
    [0, 1, 2]
    """
    wanted = [name for name in dict.fromkeys(names) if name not in tokenizer.special]
    if not wanted:
        return tokenizer
    values = json.loads(tokenizer.canonical)
    unused = itertools.count(len(tokenizer))
    new = {name: tokenizer.vocab[name] if name in tokenizer.vocab else next(unused) for name in wanted}
    listed = values.get("added_tokens") or []
    values["added_tokens"] = [*listed, *document({}, None, None, new)["added_tokens"]]
    if isinstance(
        values["model"]["vocab"], dict
    ):  # of models with scores it is a list, and holds no added tokens
        values["model"]["vocab"] |= new
    return from_json(values)


def with_start(tokenizer: Tokenizer) -> dict[str, Any]:
    """The file of a tokenizer in which a post-processor puts its first token, where it has one, in front of a text."""
    values: dict[str, Any] = json.loads(tokenizer.canonical)
    if tokenizer.start is None or values.get("post_processor") is not None:
        return values
    name = tokenizer.tokens[tokenizer.start]
    first, one, two = (
        {"SpecialToken": {"id": name, "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"Sequence": {"id": "B", "type_id": 1}},
    )
    values["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [first, one],
        "pair": [first, one, first, two],
        "special_tokens": {name: {"id": name, "ids": [tokenizer.start], "tokens": [name]}},
    }
    return values


__all__ = ["CONFIG", "WHOLE", "extended", "holds", "padded", "read_folder", "with_start"]
