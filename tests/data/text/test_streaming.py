"""Texts larger than memory: the tokens of the whole, from blocks; a file that is written once; memory that stays."""

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule import data
from chainrule.core.errors import ChainruleError
from chainrule.data.text import streaming, tokenizers
from chainrule.data.text.tokenizers import ByteBPE, SentencePiece
from chainrule.data.text.tokenizers.sentence_piece import BYTES

VERSE = "When shall we three meet again?\r\n In thunder,  lightning, or in rain — 'tis naïve 🙂\n\n\tEnter <|end|>\n"


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "BLOCK", 97)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "verse.txt"
    path.write_bytes(b"\xef\xbb\xbf" + (VERSE * 40).encode())
    return path


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    tokenizers.write(ByteBPE.train(VERSE * 3, vocab=300, special=["<|end|>"]), tmp_path / "bytes.json")
    return tmp_path / "bytes.json"


def all_tokens(found: data.Data) -> np.ndarray:
    return np.concatenate([part.arrays["tokens"] for part in (found.train, found.val, found.test)])


@pytest.mark.parametrize("allowed", [False, True])
def test_tokens_are_those_of_the_whole_text(
    text: Path, tokenizer: Path, small_blocks: None, allowed: bool
) -> None:
    found = data.load(text, stream=True, tokenizer=str(tokenizer), window=16, allow_special=allowed)
    own = tokenizers.read(tokenizer)
    expected = own.encode((VERSE * 40).replace("\r\n", "\n"), allow_special=allowed)
    np.testing.assert_array_equal(all_tokens(found), expected)
    assert (0 in expected.tolist()) is allowed
    assert sum(part.bytes for part in (found.train, found.val, found.test)) == text.stat().st_size  # type: ignore[attr-defined]
    letters = sum(part.characters for part in (found.train, found.val, found.test))  # type: ignore[attr-defined]
    assert letters == len((VERSE * 40).replace("\r\n", "\n"))
    passage = found.train.batch(np.array([3]))
    np.testing.assert_array_equal(passage.x[0], expected[3:20])


def test_a_tokenizer_is_learnt_from_the_training_text_and_the_file_is_written_once(
    text: Path, small_blocks: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"stream": True, "tokenizer": "byte-bpe", "vocab": 280, "window": 16}
    first = data.load(text, **options)
    assert len(first.schema.tokens) == 280
    assert first.train.mapped
    expected = all_tokens(first)
    monkeypatch.setattr(ByteBPE, "encode", None)
    again = data.load(text, **options)
    assert again.hash == first.hash
    np.testing.assert_array_equal(all_tokens(again), expected)
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (file,) = (tmp_path / "cache").rglob("tokens.bin")
    short = file.read_bytes()[:-2]
    file.unlink()  # what is mapped stays as it was
    file.write_bytes(short)
    np.testing.assert_array_equal(all_tokens(data.load(text, **options)), expected)
    text.write_bytes(text.read_bytes() + b"More.\n")
    assert data.load(text, **options).hash != first.hash


@pytest.mark.usefixtures("small_blocks")
def test_a_folder_is_read_in_blocks_as_its_files_are_in_one_piece(tmp_path: Path) -> None:
    folder = tmp_path / "books"
    folder.mkdir()
    parts = [VERSE * 9, "\ufeffmarked\r", VERSE * 3 + "no end", "x\n", "\r\nnaïve 🙂\n" * 30]
    for number, part in enumerate(parts):
        (folder / f"{number}.{'md' if number % 2 else 'txt'}").write_bytes(part.encode())
    tokenizers.write(ByteBPE.train(VERSE, vocab=300), tmp_path / "bytes.json")
    options: dict[str, Any] = {"tokenizer": str(tmp_path / "bytes.json"), "window": 8}
    whole, blocks = data.load(folder, **options), data.load(folder, stream=True, **options)
    texts = [
        tokenizers.of(one.schema).decode(np.concatenate([part.arrays["tokens"] for part in parts]))
        for one in (whole, blocks)
        for parts in [(one.train, one.val, one.test)]
    ]
    assert texts[0] == texts[1]
    assert data.load(**blocks.source).hash == blocks.hash
    (folder / "0.txt").write_bytes((VERSE * 9).replace("When", "when").encode())
    assert data.load(**blocks.source).hash != blocks.hash


def test_a_file_of_a_folder_that_is_no_text_is_left_out_where_that_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text(VERSE * 40)
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
    options: dict[str, Any] = {"tokenizer": "byte-bpe", "vocab": 300, "window": 8, "stream": True}
    with pytest.raises(ChainruleError, match=r"bad\.txt"):
        data.load(tmp_path, **options)
    assert [where for where, _ in data.load(tmp_path, bad="skip", **options).skipped] == [
        f"{tmp_path.name}/bad.txt"
    ]


def test_memory_does_not_grow_with_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "BLOCK", 2**13)
    monkeypatch.setattr(streaming, "LEARNT", 2**15)
    peaks = []
    for name, times in (("short", 400), ("long", 4000)):
        path = tmp_path / f"{name}.txt"
        path.write_text(VERSE * times)
        tracemalloc.start()
        found = data.load(path, stream=True, tokenizer="byte-bpe", vocab=280, window=64)
        for start in range(0, len(found.train), len(found.train) // 20):
            found.train.batch(np.arange(start, min(start + 8, len(found.train))))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    budget = 2**16
    assert path.stat().st_size > 6 * budget
    assert peaks[1] < peaks[0] + budget, peaks


def test_what_cannot_be_read_in_blocks_is_refused(text: Path, tmp_path: Path, small_blocks: None) -> None:
    def refused(message: str, path: Path = text, **options: Any) -> None:
        with pytest.raises(ChainruleError, match=message):
            data.load(path, **{"stream": True, "window": 16, "tokenizer": "byte-bpe", **options})

    refused("tokenizer=character: it would have to see the whole text first", tokenizer="character")
    refused("packing=true", packing=True)
    llama = SentencePiece.scored(("<unk>", *BYTES, "▁"), [0.0] * 258)
    tokenizers.write(llama, tmp_path / "llama.json")
    refused("reads a text as one, and not in pieces", tokenizer=str(tmp_path / "llama.json"))
    odd = tmp_path / "odd.txt"
    for raw, message in (
        (b"one\xff two\n" * 40, "invalid UTF-8 at about byte 3"),
        (b"one\0two" * 40, "a binary file"),
        (b"\xff\xfeo\0n\0", "UTF-16 text"),
        (b"x" * 200 * streaming.BLOCK, "without a single white space"),
        (b"", "empty file"),
    ):
        odd.write_bytes(raw)
        refused(message, odd)
    (tmp_path / "lines.jsonl").write_text(json.dumps({"text": VERSE}))
    refused("unknown option 'stream'", tmp_path / "lines.jsonl")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text(VERSE)
    refused("stream=true and packing=true", tmp_path / "folder", packing=True)


TRAINED = """
import json, sys
from pathlib import Path
import chainrule as cr
found = cr.data.load(sys.argv[1], stream=True, tokenizer="byte-bpe", vocab=300, window=32)
status = Path("/proc/self/status").read_text().splitlines()
loaded = next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
model = cr.models.build("gpt", found, layers=1, heads=1, width=8)
cr.fit(model, found, steps=40, batch=256, run=sys.argv[2], schedule={"name": "constant"})
maps, mapped = Path("/proc/self/smaps").read_text().splitlines(), 0
for number, line in enumerate(maps):
    if line.endswith("tokens.bin"):
        mapped += next(int(one.split()[1]) for one in maps[number:] if one.startswith("Rss:")) * 1024
print(json.dumps([loaded, mapped]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not say what is mapped")
def test_neither_preparing_nor_training_holds_more_of_a_longer_text(tmp_path: Path) -> None:
    """Peaks of whole processes; what compiling takes varies by more than the texts, so it is left out."""
    found = []
    for name, size in (("short", 2**21), ("long", 2**25)):
        path = tmp_path / f"{name}.txt"
        path.write_text(VERSE * (size // len(VERSE.encode())))
        words = [sys.executable, "-c", TRAINED, str(path), str(tmp_path / name)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=dict(os.environ))
        found.append(json.loads(done.stdout.splitlines()[-1]))
    (short, _), (long, mapped) = found
    assert long - short < 2**24, found  # the texts differ by 30 MiB
    assert mapped < 2**22, found  # of a file of tokens of 31 MiB
