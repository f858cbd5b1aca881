"""Text data in tokens: learnt from training alone, one after the other, with what it takes to count per byte."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Data, Windows, check, excerpt, load, preview
from chainrule.data.text import tokenizers
from chainrule.train import folder
from tests.data import corpus

LINES = "The quick brown fox jumps over the lazy dog, ähem.\n"


def text_of(data: Data) -> str:
    tokenizer = tokenizers.of(data.schema)
    return "".join(tokenizer.decode(s.arrays["tokens"]) for s in (data.train, data.val, data.test))


@pytest.fixture
def fox(tmp_path: Path) -> Path:
    return corpus.write(tmp_path / "fox.txt", (LINES * 60).encode())


@pytest.mark.parametrize("kind", ["word", "bpe", "byte-bpe"])
def test_a_text_comes_back_from_its_tokens(fox: Path, kind: str) -> None:
    data = load(fox, tokenizer=kind, vocab=300, window=4)
    assert text_of(data) == LINES * 60
    assert data.schema.shape == (5,)
    assert len(data.schema.tokens) <= 300
    assert data.train.x.dtype == np.int32
    assert data.train.arrays["tokens"].dtype.itemsize <= 2
    assert "tokens" in data.describe()
    assert excerpt(data, 9) == "The quick"
    assert preview(data)
    assert load(**data.source).hash == data.hash
    assert data.hash != load(fox, window=4).hash


def test_names_of_special_tokens_become_tokens_on_request_alone(tmp_path: Path) -> None:
    path = corpus.write(tmp_path / "marked.txt", ("one<|end|>two\n" * 60).encode())
    file = tmp_path / "bytes.json"
    tokenizers.write(tokenizers.ByteBPE.train("", vocab=257, special=["<|end|>"]), file)
    plain = load(path, tokenizer=str(file), window=4)
    marked = load(path, tokenizer=str(file), window=4, allow_special=True)
    assert (plain.train.arrays["tokens"] != 0).all()
    assert (marked.train.arrays["tokens"] == 0).sum() > 40
    assert plain.hash != marked.hash
    assert load(**marked.source).hash == marked.hash


def test_the_pieces_of_a_text_do_not_depend_on_its_tokens(fox: Path) -> None:
    characters, tokens = load(fox, window=4), load(fox, tokenizer="bpe", vocab=60, window=4)
    for name in ("train", "val", "test"):
        one, other = characters.split(name), tokens.split(name)
        assert isinstance(one, Windows)
        assert isinstance(other, Windows)
        assert one.bytes == other.bytes
        text = tokenizers.of(tokens.schema).decode(other.arrays["tokens"])
        assert text == tokenizers.of(characters.schema).decode(one.arrays["tokens"])
        assert len(text.encode()) == one.bytes


def test_bits_per_byte_do_not_depend_on_the_vocabulary(fox: Path) -> None:
    # A model that gives every byte of the text the same probability 1/2 has one bit per byte in any tokens.
    for kind in ("character", "bpe", "byte-bpe"):
        split = load(fox, tokenizer=kind, window=4).train
        assert isinstance(split, Windows)
        nats_per_token = split.bytes * math.log(2) / len(split.arrays["tokens"])
        assert nats_per_token / math.log(2) / split.bytes_per_token == pytest.approx(1.0)


def test_merges_are_learnt_from_the_training_piece_alone(tmp_path: Path) -> None:
    path = corpus.write(tmp_path / "two.txt", b"abab " * 180 + b"xyxyz" * 20)
    data = load(path, tokenizer="bpe", vocab=8, window=2)
    assert set("abxyz ") < set(data.schema.tokens)  # every character has a token
    assert not any(len(token) > 1 and "x" in token for token in data.schema.tokens)


def test_a_tokenizer_from_a_file_is_used_as_it_is(fox: Path, tmp_path: Path) -> None:
    tokenizer = tokenizers.train("byte-bpe", "some other text, some other words", 270)
    tokenizers.write(tokenizer, tmp_path / "mine.json")
    data = load(fox, tokenizer=str(tmp_path / "mine.json"), window=8)
    assert tokenizers.of(data.schema) == tokenizer
    assert text_of(data) == LINES * 60
    assert data.source["tokenizer"] == str(tmp_path / "mine.json")
    with pytest.raises(ArgumentError, match=r"vocab=9: the tokenizer of mine.json has its own"):
        load(fox, tokenizer=str(tmp_path / "mine.json"), vocab=9)


def test_options_that_cannot_be_used_are_named(fox: Path) -> None:
    with pytest.raises(ArgumentError, match=r'tokenizer=.bpf.: tokenizer must be "character", "word", "bpe"'):
        load(fox, tokenizer="bpf")
    with pytest.raises(ArgumentError, match=r"tokenizer must be .* the path of a tokenizer's .json file"):
        load(fox, tokenizer="absent.json")
    with pytest.raises(ArgumentError, match="vocab=9: a character tokenizer"):
        load(fox, vocab=9)
    with pytest.raises(DataError, match=r"window=128 predicts that many tokens (?s:.)*use data.window="):
        load(fox, tokenizer="byte-bpe", vocab=400, window=128)


def test_the_tokenizer_is_kept_with_a_run(fox: Path, tmp_path: Path) -> None:
    data = load(fox, tokenizer="byte-bpe", vocab=300, window=8)
    folder.write_data(tmp_path, data)
    stored = folder.read_data(tmp_path)["schema"]
    assert stored == data.schema
    assert tokenizers.of(stored).decode(data.train.arrays["tokens"]).startswith(LINES)
    written = json.loads((tmp_path / "data.json").read_text())["schema"]["tokenizer"]
    assert written["model"]["type"] == "BPE"


def test_a_folder_of_texts_is_one_text_in_the_order_of_paths(tmp_path: Path) -> None:
    root = tmp_path / "books"
    corpus.write(root / "b.md", b"second\r\n" * 20)
    corpus.write(root / "a.txt", b"first\n" * 20 + b"end")
    corpus.write(root / "c" / "d.txt", b"third" * 20)
    corpus.write(root / "notes.pdf", b"%PDF")
    data = load(root, window=2)
    assert text_of(data) == "first\n" * 20 + "end\n" + "second\n" * 20 + "third" * 20 + "\n"
    corpus.write(root / "bad.txt", b"sch\xf6n")
    corpus.write(root / "empty.txt", b"")
    report = check(root, window=2)
    assert [(g.kind, g.first) for g in report.problems] == [
        ("invalid UTF-8", "books/bad.txt"),
        ("empty", "books/empty.txt"),
    ]
    assert (report.total, report.usable) == (5, 3)
    with pytest.raises(DataError, match="2 of 5 files cannot be read"):
        load(root, window=2)
    assert load(root, window=2, bad="skip").hash == data.hash


def test_the_limit_of_bytes_holds_for_a_folder_as_a_whole(tmp_path: Path) -> None:
    for name in ("a", "b"):
        corpus.write(tmp_path / "books" / f"{name}.txt", b"x" * 600)
    with pytest.raises(DataError, match=r"books/b.txt: more than max_bytes=400"):
        load(tmp_path / "books", window=2, max_bytes=1000)


def test_lines_of_json_give_their_texts(tmp_path: Path) -> None:
    rows = [{"text": f"story {i}\nover\r\ntwo lines", "id": i} for i in range(30)]
    lines = [json.dumps(row) for row in rows]
    path = corpus.write(tmp_path / "stories.jsonl", "\n".join([*lines, ""]).encode())
    data = load(path, window=2)
    assert text_of(data) == "".join(f"story {i}\nover\ntwo lines\n" for i in range(30))
    odd = ["{", "[1]", '{"text": 3}', '{"text": "\\ud800"}', "[" * 100_000]
    path = corpus.write(tmp_path / "odd.jsonl", "\n".join([*lines, *odd]).encode() + b'\n{"text": "\xff"}')
    report = check(path, window=2)
    assert {(g.kind, g.count) for g in report.problems} == {
        ("not JSON", 2),
        ("no text", 2),
        ("not text", 1),
        ("invalid UTF-8", 1),
    }
    assert (report.total, report.usable) == (36, 30)
    assert load(path, window=2, bad="skip").hash == data.hash
    with pytest.raises(DataError, match="no text is left"):
        load(path, window=2, bad="skip", field="story")


def test_the_standard_input_is_a_text() -> None:
    command = [
        sys.executable,
        "-m",
        "chainrule",
        "data",
        "tokens",
        "-",
        "tokenizer=byte-bpe",
        "vocab=270",
        "--json",
    ]
    done = subprocess.run(command, input=LINES * 20, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["data"] == "stdin"
    assert "".join(found["sample"]).startswith("The quick brown")
    assert len(found["merges"]) == 14
