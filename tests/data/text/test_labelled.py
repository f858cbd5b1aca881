"""Texts that each belong to a class: from a file, from the plays, and tasks that a word tells."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.data import check, load, preview
from chainrule.data.text.pairs import source_text
from chainrule.data.text.tokenizers import Character, write


def lines(n: int = 40) -> str:
    return "".join(f"text number {i}\t{'odd' if i % 2 else 'even'}\n" for i in range(n))


def test_the_second_column_can_be_a_class(tmp_path: Path) -> None:
    (tmp_path / "numbers.tsv").write_text(lines())
    data = load(tmp_path / "numbers.tsv", target="class")
    assert (data.schema.kind, data.schema.target, data.schema.classes) == ("text", "class", ("even", "odd"))
    assert data.describe().startswith("40 texts, ")
    batch = data.train.batch(np.arange(len(data.train)))
    for row, label in zip(batch.x, batch.y, strict=True):
        number = int(source_text(data.schema, row).split()[-1])
        assert label == number % 2
    assert load(**data.source).hash == data.hash
    assert preview(data)[0].columns == ["text", "class"]  # type: ignore[union-attr]


def test_texts_are_read_with_the_tokenizer_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "numbers.tsv").write_text(lines())
    letters = Character(tuple(sorted({*"0123456789 bemnrtux", *"and more"})))
    write(letters, tmp_path / "tokenizer.json")
    data = load(tmp_path / "numbers.tsv", target="class", tokenizer=str(tmp_path / "tokenizer.json"))
    assert data.schema.tokens == letters.tokens
    assert source_text(data.schema, data.train.x[0]).startswith("text number ")


def test_a_file_with_one_class_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "same.tsv").write_text("".join(f"text number {i}\tsame\n" for i in range(40)))
    assert not check(tmp_path / "same.tsv", target="class").ok
    with pytest.raises(ArgumentError, match="target must be"):
        load(tmp_path / "same.tsv", target="clas")


def test_speeches_come_from_two_plays_and_without_their_speakers() -> None:
    data = load("plays", longest=64)
    assert data.schema.classes == ("Julius Caesar", "Macbeth")
    texts = [source_text(data.schema, row) for row in data.train.x]
    assert max(map(len, texts)) == 64
    labels = {bool(label) for text, label in zip(texts, data.train.y, strict=True) if "Brutus" in text}
    assert labels == {False}
    assert not any(text.startswith(("MACBETH.", "BRUTUS.")) for text in texts)


def test_what_comes_out_depends_on_the_task_that_is_told() -> None:
    data = load("tasks", n=100, length=4)
    does = {
        "copy": str,
        "reverse": lambda digits: digits[::-1],
        "sort": lambda digits: "".join(sorted(digits)),
    }
    seen = set()
    target = Character(data.schema.target_tokens)
    for x, y in zip(data.train.x, data.train.y, strict=True):
        task, digits = source_text(data.schema, x).split()
        seen.add(task)
        assert target.decode(y[:4]) == does[task](digits)
    assert seen == set(does)
