from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Data, check, excerpt, load
from chainrule.data.readers.text import encode
from tests.data import corpus


def text_of(data: Data) -> str:
    splits = (data.train, data.val, data.test)
    return "".join(data.schema.tokens[i] for split in splits for i in split.arrays["tokens"])


def test_a_text_comes_back_from_its_three_splits_in_order(tmp_path: Path) -> None:
    text = "The quick brown fox jumps over the lazy dog.\n" * 20
    data = load(corpus.write(tmp_path / "fox.txt", text.encode()), window=16)
    assert text_of(data) == text
    assert [len(s.arrays["tokens"]) for s in (data.train, data.val, data.test)] == [810, 45, 45]
    assert data.schema.shape == (17,)
    assert data.train.x.dtype == np.int32
    assert excerpt(data, 9) == "The quick"
    assert data.source == {
        "name_or_path": str(tmp_path / "fox.txt"),
        "seed": 0,
        "split": [0.9, 0.05, 0.05],
        "bad": "error",
        "window": 16,
        "tokenizer": "character",
        "vocab": None,
        "lower": False,
        "packing": False,
        "allow_special": False,
        "special": [],
        "streams": 0,
        "stream": False,
    }


def test_line_ends_become_new_lines_and_a_byte_order_mark_is_left_out_and_reported(tmp_path: Path) -> None:
    path = corpus.write(tmp_path / "dos.txt", b"\xef\xbb\xbfone\r\ntwo\rthree\nfour" * 1 + b"!" * 50)
    data = load(path, window=2, split=(0.5, 0.25, 0.25))
    assert text_of(data) == "one\ntwo\nthree\nfour" + "!" * 50
    report = check(path, window=2, split=(0.5, 0.25, 0.25))
    assert report.ok
    assert [(g.kind, g.effect, g.first) for g in report.problems] == [("byte order mark", "note", "dos.txt")]


def test_invalid_bytes_are_reported_with_their_offset_and_skip_leaves_out_their_lines(tmp_path: Path) -> None:
    path = corpus.write(
        tmp_path / "latin.txt", b"\xef\xbb\xbfgood\r\nsch\xf6n\r\ngood\nna\xefve\n" + b"end\n" * 30
    )
    report = check(path)
    bad = report.problems[0]
    assert (bad.kind, bad.count, bad.first) == ("invalid UTF-8", 2, "latin.txt line 2")
    assert [problem.detail for problem in bad.items] == ["byte 12", "byte 23"]
    assert path.read_bytes()[12] == 0xF6
    assert (report.total, report.usable) == (34, 32)
    with pytest.raises(
        DataError,
        match=r"2 of 34 lines cannot be read; first: latin.txt line 2 \(invalid UTF-8: byte 12.*\n.*skip.*\n.*iconv",
    ):
        load(path, window=2)
    assert text_of(load(path, window=2, bad="skip")) == "good\ngood\n" + "end\n" * 30


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty file"),
        ("wide".encode("utf-16"), "UTF-16 text; only UTF-8 is read\n.*iconv -f UTF-16"),
        ("wide".encode("utf-32"), "UTF-32 text"),
        (b"abc\0def", "a binary file .first zero byte: byte 3."),
        (b"\xff\n\xfe\n", "no text is left\n.*2 of 2 lines.*\n.*Latin-1, .*iconv -f LATIN1"),
    ],
)
def test_what_is_not_utf8_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=f"(?s){message}"):
        load(corpus.write(tmp_path / "odd.txt", content), bad="skip")


def test_a_text_shorter_than_its_windows_is_refused_with_one_that_fits(tmp_path: Path) -> None:
    path = corpus.write(tmp_path / "short.txt", b"x" * 1000)
    with pytest.raises(
        DataError, match=r"window=128 predicts that many characters .* in val \(50\), test \(50\)\n.*=49"
    ):
        load(path, window=128)
    assert len(load(path, window=49).val) == 1
    with pytest.raises(ArgumentError, match="window=1: window must be a whole number of at least 2"):
        load(path, window=1)


@pytest.mark.parametrize(
    ("count", "window", "parts"), [(3000, 128, 150), (1000, 49, 50), (43, 8, 9), (15, 2, 3)]
)
def test_a_short_text_has_windows_that_fit_unless_told(
    tmp_path: Path, count: int, window: int, parts: int
) -> None:
    data = load(corpus.write(tmp_path / "short.txt", b"abc" * (count // 3) + b"x" * (count % 3)))
    assert data.schema.shape == (window + 1,)
    assert len(data.val.arrays["tokens"]) == len(data.test.arrays["tokens"]) == parts
    assert data.source["window"] == window
    assert [kind for kind, _ in data.notes] == (["short text"] if window < 128 else [])
    assert len(check(data.source["name_or_path"]).problems) == len(data.notes)
    again = load(**data.source)
    assert (again.hash, again.schema, again.notes) == (data.hash, data.schema, data.notes)


def test_a_text_of_a_few_characters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"the text is too short: (?s:.*)give a longer text"):
        load(corpus.write(tmp_path / "tiny.txt", b"hello\n"))
    assert not check(tmp_path / "tiny.txt").ok


def test_any_file_of_utf8_text_is_a_text_whatever_its_name(tmp_path: Path) -> None:
    assert load(corpus.write(tmp_path / "poem", "äöü\n".encode() * 1000)).schema.tokens == (
        "\n",
        "ä",
        "ö",
        "ü",
    )


def test_the_hash_belongs_to_the_text_and_not_to_the_file(tmp_path: Path) -> None:
    one = corpus.write(tmp_path / "one.txt", b"abc\n" * 1000)
    two = corpus.write(tmp_path / "two.md", b"abc\r\n" * 1000)
    other = corpus.write(tmp_path / "other.txt", b"abc\n" * 999 + b"abb\n")
    assert load(one).hash == load(two).hash
    assert load(one).hash != load(other).hash


@given(st.text(min_size=1))
def test_encoding_is_undone_by_looking_symbols_up(text: str) -> None:
    if any(0xD800 <= ord(c) < 0xE000 for c in text):
        return
    numbers, tokens = encode(text)
    assert "".join(tokens[i] for i in numbers) == text
    assert list(tokens) == sorted(set(text))
