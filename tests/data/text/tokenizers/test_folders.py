"""Tokenizers in folders of transformers, in every set of files; what stands before texts; names of special tokens."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from chainrule.core.errors import DataError
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers import ByteBPE, Tokenizer, WordPiece
from chainrule.data.text.tokenizers.folders import with_start
from chainrule.data.text.tokenizers.sentence_piece import BYTES

PROSE = "the king's horse, the queen's house <|end|> naïve 🙂"
BYTE_PAIRS = ByteBPE.train(PROSE * 4, vocab=290, special=["<|end|>"])
TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [0], "tokens": ["<|end|>"]}},
}


def put(folder: Path, **files: Any) -> Path:
    for name, contents in files.items():
        file = folder / name.replace("__", ".")
        file.write_text(contents if isinstance(contents, str) else json.dumps(contents), encoding="utf-8")
    return folder


def test_a_vocabulary_with_merges_gives_the_numbers_of_the_whole_file(tmp_path: Path) -> None:
    merges = "#version: 0.2\n" + "\n".join(" ".join(pair) for pair in BYTE_PAIRS.merges) + "\n"
    special = {"eos_token": {"content": "<|end|>"}}
    put(tmp_path, vocab__json=dict(BYTE_PAIRS.vocab), merges__txt=merges, special_tokens_map__json=special)
    found = tokenizers.read_folder(tmp_path)
    assert found == BYTE_PAIRS
    tokenizers.write(BYTE_PAIRS, tmp_path / "tokenizer.json")
    assert tokenizers.read_folder(tmp_path) == BYTE_PAIRS
    (tmp_path / "tokenizer.json").unlink()
    put(tmp_path, merges__txt="#version: 0.2\na b c\n")
    with pytest.raises(DataError, match=r"merges\.txt: 'a b c' is not two tokens"):
        tokenizers.read_folder(tmp_path)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(DataError, match=r"vocab\.json is there, merges\.txt is not"):
        tokenizers.read_folder(tmp_path)


def test_word_pieces_are_read_line_by_line(tmp_path: Path) -> None:
    tokens = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "king", "##s", "the", "King")
    put(tmp_path, vocab__txt="\n".join(tokens) + "\n", tokenizer_config__json={"do_lower_case": False})
    found = tokenizers.read_folder(tmp_path)
    assert isinstance(found, WordPiece)
    assert (found.tokens, found.lowercase) == (tokens, False)
    assert found.encode("the Kings [MASK]").tolist()[:3] == [7, 8, 6]
    assert found.encode("the [MASK]", allow_special=True).tolist() == [7, 4]


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def vocabulary(pieces: list[tuple[str, float, int]], *, kind: int = 2, fallback: int = 1) -> bytes:
    """A file of SentencePiece, as its format describes it."""
    held = b"".join(
        field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + field(3, of))
        for text, score, of in pieces
    )
    normalizer = field(1, b"identity") + field(3, 1) + field(4, 0) + field(5, 1)
    return held + field(2, field(3, kind) + field(35, fallback)) + field(3, normalizer)


def test_a_vocabulary_of_sentence_piece_is_read_field_by_field(tmp_path: Path) -> None:
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), *((byte, 0.0, 6) for byte in BYTES)]
    pieces += [("▁a", -1.0, 1), ("▁", -2.0, 1), ("a", -3.0, 1), ("b", -4.0, 1)]
    file = tmp_path / "tokenizer.model"
    file.write_bytes(vocabulary(pieces))
    found = tokenizers.read_folder(tmp_path)
    assert [found.tokens[i] for i in found.encode("a b!")] == ["▁a", "▁", "b", "<0x21>"]
    assert (found.start, found.decode(found.encode("a b!"))) == (1, "a b!")
    for raw, message in (
        (vocabulary(pieces, kind=1), "is not of Llama's kind; that has a model of merges"),
        (vocabulary(pieces, fallback=0), "that has bytes for unknown characters"),
        (vocabulary([*pieces, ("<user>", 0.0, 4)]), "'<user>' is a token defined by the user"),
        (b"PK\x03\x04 no vocabulary", "is not a vocabulary of SentencePiece"),
    ):
        file.write_bytes(raw)
        with pytest.raises(DataError, match=message):
            tokenizers.read_folder(tmp_path)


def test_a_folder_without_a_tokenizer_says_which_files_would_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no tokenizer") as error:
        tokenizers.read_folder(tmp_path)
    assert "vocab.json with merges.txt" in error.value.remedy


def packaged(oracle: Callable[[str], ModuleType], **parts: Any) -> Tokenizer:
    """A tokenizer that only the package runs: a space goes before a text."""
    oracle("tokenizers")
    values = {**BYTE_PAIRS.to_json(), **parts}
    values["pre_tokenizer"] = {**values["pre_tokenizer"], "add_prefix_space": True}
    found = tokenizers.from_json(values)
    assert isinstance(found, tokenizers.Packaged)
    return found


def test_what_a_post_processor_puts_first_is_kept(oracle: Callable[[str], ModuleType]) -> None:
    found = packaged(oracle, post_processor=TEMPLATE)
    assert found.start == BYTE_PAIRS.vocab["<|end|>"]
    later = {**TEMPLATE, "single": TEMPLATE["single"][::-1]}
    assert packaged(oracle, post_processor=later).start is None
    inside = {"type": "Sequence", "processors": [{"type": "ByteLevel"}, TEMPLATE]}
    assert tokenizers.package.first_token(inside) == 0
    assert packaged(oracle).start is None


def test_names_of_special_tokens_are_text_unless_asked_for(oracle: Callable[[str], ModuleType]) -> None:
    end = BYTE_PAIRS.vocab["<|end|>"]
    for tokenizer in (BYTE_PAIRS, packaged(oracle)):
        assert end not in tokenizer.encode(PROSE).tolist()
        assert tokenizer.decode(tokenizer.encode(PROSE)).strip() == PROSE
        assert end in tokenizer.encode(PROSE, allow_special=True).tolist()


def test_a_first_token_is_written_where_the_package_puts_it(oracle: Callable[[str], ModuleType]) -> None:
    package = oracle("tokenizers")
    llama = tokenizers.SentencePiece.scored(("<unk>", "<s>", *BYTES, "▁", "a"), [0.0] * 260, ["<s>"])
    there = package.Tokenizer.from_str(json.dumps(with_start(llama)))
    assert there.encode("a").ids == [llama.start, *llama.encode("a").tolist()]
