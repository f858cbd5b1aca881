"""Files with tabs: what was assumed of their two columns is said, and how to change it."""

from pathlib import Path

import pytest

from chainrule.data import check, load

LINES = ["good film\tpos", "bad film\tneg", "so so\tneg", "liked it\tpos"] * 12


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "few.tsv"
    path.write_text("\n".join(["text\tlabel", *LINES]))
    return path


def test_a_few_sentences_with_classes_are_a_table_and_on_request_texts(few: Path) -> None:
    found = check(few)
    assert [one for one in found.problems if one.kind == "read as a table"]
    assert "data.kind=text" in str(found)
    assert load(few).schema.kind == "table"
    texts = load(few, kind="text")
    assert (texts.schema.kind, texts.schema.classes) == ("text", ("neg", "pos"))
    assert sum(len(texts.split(name)) for name in ("train", "val", "test")) == len(LINES)
    assert not [one for one in check(few, kind="table").problems if one.kind == "read as a table"]


def test_single_words_are_a_table_without_a_remark(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("\n".join(["colour\tkind", *["red\ta", "blue\tb"] * 10]))
    assert not [one for one in check(path).problems if one.kind == "read as a table"]


def test_texts_with_a_few_others_beside_them_may_have_classes(tmp_path: Path) -> None:
    path = tmp_path / "many.tsv"
    path.write_text("\n".join(f"text number {i}\t{('pos', 'neg')[i % 2]}" for i in range(40)))
    found = check(path)
    assert [one for one in found.problems if "second column" in one.kind]
    assert "data.target=class" in str(found)
    assert not [one for one in check(path, target="class").problems if "second column" in one.kind]
