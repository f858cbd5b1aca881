"""Images with captions: how they are read from a folder, and the digits that are made with them."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import check, load, preview
from chainrule.data.dataset import Data
from chainrule.data.text import captions, tokenizers
from tests.data import corpus

COLOURS = ("red", "green")


def said(number: int) -> str:
    return f"a {COLOURS[number % 2]} square"


def folder_of(path: Path, n: int = 12) -> Path:
    for i in range(n):
        corpus.write(path / f"{i:02d}.png", corpus.packed(corpus.picture(i)))
    return path


def listed(path: Path, lines: list[str]) -> Path:
    corpus.write(folder_of(path) / "captions.csv", "\n".join(lines).encode())
    return path


def every_caption(data: Data) -> dict[bytes, str]:
    return {
        np.asarray(raw).astype(np.uint8).tobytes(): captions.text(data.schema, row)
        for split in (data.train, data.val, data.test)
        for raw, row in zip(data.inverse(split.x), split.y, strict=True)
    }


def test_captions_come_from_a_list_or_from_files_beside_the_images(tmp_path: Path) -> None:
    by_list = listed(tmp_path / "a", ["file,caption", *(f'{i:02d}.png,"{said(i)}"' for i in range(12))])
    beside = folder_of(tmp_path / "b")
    for i in range(12):
        corpus.write(beside / f"{i:02d}.txt", f"{said(i)}\n".encode())
    expected = {np.asarray(corpus.picture(i)).tobytes(): said(i) for i in range(12)}
    for folder in (by_list, beside):
        data = load(folder)
        assert (data.schema.kind, data.schema.target) == ("image", "text")
        assert every_caption(data) == expected
        assert load(**data.source).hash == data.hash
        assert preview(data)[0].labels[0] in expected.values()


def test_an_image_without_a_caption_is_named_and_can_be_left_out(tmp_path: Path) -> None:
    lines = [*(f"{i:02d}.png,{said(i)}" for i in range(10)), "10.png,  ", "99.png,a cat", "00.png,again"]
    folder = listed(tmp_path / "a", lines)
    with pytest.raises(DataError, match=r"2 of 12 images cannot be read; first: a/10.png \(no caption\)"):
        load(folder)
    assert len(every_caption(load(folder, bad="skip"))) == 10
    found = {group.kind: group.items[0] for group in check(folder).problems}
    assert found["no such image"].detail == "99.png"
    assert found["a second caption"].where == "captions.csv line 13"


@pytest.mark.parametrize(
    ("line", "message"),
    [("00.png", "cells instead of file,caption"), ("00.png,a,b", "cells instead of file,caption")],
)
def test_a_list_that_is_no_list_of_captions_is_refused(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(listed(tmp_path / "a", [line]))


def test_a_long_caption_is_a_problem_of_its_image(tmp_path: Path) -> None:
    lines = [f"{i:02d}.png,{said(i)}" for i in range(12)]
    folder = listed(tmp_path / "a", lines)
    with pytest.raises(DataError, match=r"caption too long: 14 characters; allow it: data.longest=14"):
        load(folder, longest=13)


@pytest.mark.parametrize("tokenizer", ["character", "byte-bpe"])
def test_captions_can_be_cut_by_any_tokenizer(tmp_path: Path, tokenizer: str) -> None:
    folder = listed(tmp_path / "a", [f"{i:02d}.png,{said(i)}" for i in range(12)])
    schema = load(folder, tokenizer=tokenizer).schema
    assert captions.text(schema, captions.encode(schema, "a  red\nsquare")) == "a red square"


@pytest.fixture(scope="module")
def digits() -> Data:
    return load("captioned-digits")


def test_captioned_digits_show_what_their_captions_say(digits: Data) -> None:
    plain = load("digits")
    known = {
        raw.tobytes(): plain.schema.classes[y]
        for split in (plain.train, plain.val, plain.test)
        for raw, y in zip(split.arrays["x"], split.y, strict=True)
    }
    words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    for raw, row in zip(digits.test.arrays["x"], digits.test.y, strict=True):
        caption = captions.text(digits.schema, row).split()
        two = caption[0] == "two"
        left = 4 if len(caption) == 2 and not two else 8 * (caption[-1] == "right")
        seen = [raw[:, left : left + 8]] + [raw[:, 8:]] * two
        digit = words[int(known[seen[0].tobytes()])]
        assert {known[part.tobytes()] for part in seen} == {known[seen[0].tobytes()]}
        assert caption[1] in ((f"{digit}s", f"{digit}es") if two else (digit,))
        assert raw.sum() == sum(int(part.sum()) for part in seen)


def test_no_digit_of_a_test_image_was_seen_in_training(digits: Data) -> None:
    halves = [
        {
            half.tobytes()
            for raw in split.arrays["x"]
            for half in (raw[:, :8], raw[:, 8:])
            if half[:, 2:6].any()
        }
        for split in (digits.train, digits.test)
    ]
    assert not halves[0] & halves[1]


def test_the_empty_caption_is_a_row_of_end_marks(digits: Data) -> None:
    row = captions.encode(digits.schema, "")
    assert (row == len(tokenizers.of_target(digits.schema))).all()
    assert captions.text(digits.schema, row) == ""


@pytest.mark.parametrize(
    ("caption", "message"),
    [("a tree", "did you mean 'three'"), ("a " * 6, "6 tokens; the longest in training has 5")],
)
def test_what_training_never_said_cannot_be_asked_for(digits: Data, caption: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        captions.encode(digits.schema, caption)
