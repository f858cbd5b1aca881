"""Files with tabs: what was assumed of their two columns is said, and how to change it."""

from pathlib import Path

import pytest

from chainrule.core.errors import ArgumentError
from chainrule.data import check, load
from chainrule.data.loading.others import load_other
from chainrule.data.text import pairs
from tests.data.loading.test_others import like

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


PAIRS = ["good morning\tguten Morgen", "good night\tgute Nacht", "thank you\tdanke sehr"] * 12


@pytest.fixture
def repeated(tmp_path: Path) -> Path:
    path = tmp_path / "repeated.tsv"
    path.write_text("\n".join(PAIRS))
    return path


def test_pairs_whose_sentences_come_again_are_pairs_on_request(repeated: Path) -> None:
    assert "if both do, as pairs: data.kind=text data.target=text" in str(check(repeated))
    found = load(repeated, kind="text", target="text")
    assert (found.schema.kind, found.schema.target) == ("text", "text")
    assert sum(len(found.split(name)) for name in ("train", "val", "test")) == len(PAIRS)
    assert pairs.source_text(found.schema, found.train.x[0]) in {line.split("\t")[0] for line in PAIRS}
    assert load(**found.source).hash == found.hash
    swapped = load(repeated, kind="text", target="text", swap=True)
    assert swapped.schema.tokens == found.schema.target_tokens


def test_a_second_column_of_sentences_taken_for_classes_is_remarked_on(repeated: Path) -> None:
    assert load(repeated, kind="text").schema.target == "class"
    assert "if they are texts: data.target=text" in str(check(repeated, kind="text"))
    assert "data.target=text" not in str(check(repeated, kind="text", target="class"))
    with pytest.raises(
        ArgumentError, match=r"target='third': with kind=text the second column is the target"
    ):
        load(repeated, kind="text", target="third")


def test_a_file_of_pairs_takes_the_kind_it_has(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(f"text number {i}\tText Nummer {i}" for i in range(20)))
    assert load(path, kind="text").hash == load(path).hash
    with pytest.raises(ArgumentError, match=r"kind='table': kind must be 'text'.*save it as \.csv"):
        load(path, kind="table")


def test_other_pairs_are_read_as_those_of_training(repeated: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    lines = {
        f"{one} {i}\t{other} {i}" for i in range(9) for one, other in (line.split("\t") for line in PAIRS)
    }
    path.write_text("\n".join(sorted(lines)))
    assert len(load_other(repeated, like(load(path))).test) == len(PAIRS)
