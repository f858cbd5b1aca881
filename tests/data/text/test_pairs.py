"""Pairs of texts: from files and tasks to rows with an end mark, and back."""

import datetime
import json
from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.core.pictures import Table
from chainrule.data import Data, Schema, check, excerpt, load, preview
from chainrule.data.loading.copies import HELD_OUT
from chainrule.data.text import pairs, tokenizers
from tests.data import corpus

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def lines(count: int = 12) -> bytes:
    return "".join(f'{word} "{i}"\tle {i} è {word[::-1]}\n' for i, word in enumerate(WORDS[:count])).encode()


def texts(data: Data) -> set[tuple[str, str]]:
    schema = data.schema
    return {
        (pairs.source_text(schema, x), pairs.target_text(schema, y))
        for split in (data.train, data.val, data.test)
        for x, y in zip(*split.batch(np.arange(len(split)))[:2], strict=True)
    }


@pytest.mark.parametrize("tokenizer", ["character", "word", "bpe", "byte-bpe"])
def test_every_pair_of_a_file_comes_back_as_it_was(tmp_path: Path, tokenizer: str) -> None:
    path = corpus.write(tmp_path / "pairs.tsv", lines())
    data = load(path, tokenizer=tokenizer)
    expected = {tuple(line.split("\t")) for line in lines().decode().splitlines()}
    if tokenizer != "word":  # where words that are rare in training are unknown
        assert texts(data) == expected
    assert (data.schema.kind, data.schema.target) == ("text", "text")
    assert tokenizers.of(data.schema).tokens == data.schema.tokens
    assert tokenizers.of_target(data.schema).tokens == data.schema.target_tokens
    x, y = data.train.batch([0, 1])[:2]
    assert (x.dtype, y.dtype) == (np.int32, np.int32)
    assert (x.shape[1:], y.shape[1:]) == (data.schema.shape, data.schema.target_shape)
    assert Schema.from_json(json.loads(json.dumps(data.schema.to_json()))) == data.schema
    assert load(**json.loads(json.dumps(data.source))).hash == data.hash


def test_rows_end_in_the_number_after_the_vocabulary_and_are_filled_up_with_it(tmp_path: Path) -> None:
    data = load(corpus.write(tmp_path / "pairs.tsv", lines()))
    for split in (data.train, data.val, data.test):
        x, y = split.batch(np.arange(len(split)))[:2]
        for rows, tokens in ((x, data.schema.tokens), (y, data.schema.target_tokens)):
            for row in rows:
                (ends,) = np.nonzero(row == len(tokens))
                assert len(ends) >= 1
                assert (row[: ends[0]] < len(tokens)).all()
                assert (row[ends[0] :] == len(tokens)).all()


def test_a_learnt_tokenizer_sees_the_training_pairs_alone(tmp_path: Path) -> None:
    data = load(corpus.write(tmp_path / "pairs.tsv", lines()), tokenizer="byte-bpe", vocab=300)
    training = [pairs.source_text(data.schema, row) for row in data.train.x]
    again = tokenizers.train("byte-bpe", "\n".join(training), 300)
    assert again.canonical == tokenizers.of(data.schema).canonical


def test_the_columns_can_be_swapped_and_named(tmp_path: Path) -> None:
    plain = load(corpus.write(tmp_path / "a.tsv", lines()))
    other = load(corpus.write(tmp_path / "b.tsv", b"english\tfrench\n" + lines()), swap=True, header=True)
    assert texts(other) == {(y, x) for x, y in texts(plain)}


def test_a_first_line_with_a_class_of_its_own_may_name_the_columns(tmp_path: Path) -> None:
    labelled = "".join(f"{word}\t{'ab'[i % 2]}\n" for i, word in enumerate(WORDS)).encode()
    path = corpus.write(tmp_path / "named.tsv", b"text\tkind\n" + labelled)
    assert (
        "  named.tsv line 1 (no other text has the class 'kind'; if the line names the columns: data.header=true)"
        in check(path, target="class").lines()
    )
    assert not check(path, target="class", header=True).problems


def test_two_columns_are_a_table_where_words_repeat_and_pairs_where_they_do_not(tmp_path: Path) -> None:
    table = "".join(f"{i / 7:.3f}\t{'red' if i % 2 else 'blue'}\n" for i in range(30)).encode()
    assert load(corpus.write(tmp_path / "table.tsv", table)).schema.kind == "table"
    numbers = "".join(f"{i}\t{2 * i + 0.5}\n" for i in range(30)).encode()
    assert load(corpus.write(tmp_path / "numbers.tsv", b"x\ty\n" + numbers)).schema.kind == "table"
    sums = "".join(f"{i}+{i}\t{2 * i}\n" for i in range(30)).encode()
    assert load(corpus.write(tmp_path / "sums.tsv", sums)).schema.target == "text"
    three = "".join(f"{i}\t{word}\t{i % 2}\n" for i, word in enumerate(WORDS)).encode()
    assert load(corpus.write(tmp_path / "three.tsv", three), drop=1).schema.kind == "table"


def test_bad_lines_are_named_and_left_out_only_when_told(tmp_path: Path) -> None:
    bad = b"no tab here\n\tonly the right side\nbad \xff\tbytes\n" + b"x" * 300 + b"\tlong\n" + lines(1)
    path = corpus.write(tmp_path / "pairs.tsv", lines() + bad)
    report = check(path)
    assert {group.kind: group.count for group in report.problems} == {
        "not a pair": 1,
        "missing text": 1,
        "invalid UTF-8": 1,
        "too long": 1,
        "the same pair again": 1,
        HELD_OUT: 1,
    }
    assert (report.total, report.usable) == (17, 13)
    with pytest.raises(DataError, match=r"4 of 17 pairs cannot be read; first: pairs\.tsv line 13"):
        load(path)
    assert len(load(path, bad="skip").skipped) == 4
    assert len(load(path, bad="skip", longest=300).skipped) == 3


@pytest.mark.parametrize("name", ["copy", "reverse", "dates"])
def test_tasks_do_what_they_say(name: str) -> None:
    data = load(name, n=500, seed=3)
    found = texts(data)
    assert len(found) > 450
    for source, target in found:
        if name == "dates":
            date = datetime.date.fromisoformat(target)
            assert str(date.year) in source
            assert date.strftime("%b") in source
            assert str(date.day) in source.replace(str(date.year), "")
            assert "day" not in source or source.startswith(date.strftime("%A, "))
        else:
            assert target == (source if name == "copy" else source[::-1])
            assert len(source) == 12
    assert load(name, n=500, seed=4).hash != data.hash


def test_a_melody_follows_its_chords() -> None:
    notes = {
        name: tone
        for tone, name in enumerate(["C", "C#", "D", "Eb", "E", "F", "F#", "G", "Ab", "A", "Bb", "B"])
    }
    found = texts(load("melody", n=300, length=8))
    assert len(found) > 250
    for source, target in found:
        chords, tones = source.split(), target.split()
        assert (len(chords), len(tones)) == (8, 24)
        heights = [notes[tone[:-1]] + 12 * int(tone[-1]) for tone in tones]
        for bar, chord in enumerate(chords):
            root = notes[chord.removesuffix("dim").removesuffix("m")]
            minor, low = chord.endswith("m"), chord.endswith("dim")
            members = {(root + step) % 12 for step in (0, 3 if minor else 4, 6 if low else 7)}
            played = heights[3 * bar : 3 * bar + 3]
            assert {tone % 12 for tone in played} == members
            before = heights[3 * bar - 1] if bar else notes["F#"] + 12 * 4
            assert played == sorted(played, reverse=before >= notes["G"] + 12 * 4)
            assert abs(played[0] - before) <= 3, "it leads on by a small step"
    by_source = dict(found)
    assert len(by_source) == len(found), "the same chords have the same melody"


def test_tasks_may_have_texts_of_several_lengths() -> None:
    found = texts(load("reverse", n=200, length=5, shortest=2))
    assert {len(source) for source, _ in found} == {2, 3, 4, 5}
    with pytest.raises(ArgumentError, match="shortest=7: it must not be longer than length=5"):
        load("reverse", length=5, shortest=7)


def test_pairs_are_shown_side_by_side() -> None:
    data = load("reverse", n=100)
    (picture,) = preview(data)
    assert isinstance(picture, Table)
    assert len(picture.rows) == 10
    assert all(source[::-1] == target for source, target in picture.rows)
    assert data.describe() == "100 pairs of texts, 10 to 10 symbols, train 80 % / val 10 % / test 10 %"
    with pytest.raises(ArgumentError, match="only a text by itself"):
        excerpt(data)


def test_a_text_to_translate_becomes_a_row_unless_it_is_too_long() -> None:
    data = load("reverse", n=100, length=4)
    assert pairs.encode(data.schema, "120").tolist() == [1, 2, 0, 10, 10]
    with pytest.raises(ArgumentError, match="the text has 5 tokens; the model was made for 4 at most"):
        pairs.encode(data.schema, "12012")
    with pytest.raises(ArgumentError, match="does not know: 'x'"):
        pairs.encode(data.schema, "1x")
