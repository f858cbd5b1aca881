"""New texts as rows of the tokens of a run."""

from pathlib import Path

import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Scaling, Schema
from chainrule.data.inputs.protocol import Given, InputChunk, Preparation
from chainrule.data.inputs.texts import inputs

LETTERS = Preparation(
    Schema("text", (5,), "class", classes=("bad", "good"), tokens=("a", "b", "c")), Scaling()
)


def read(given: Given) -> InputChunk:
    (found,) = inputs(given, LETTERS).chunks(100)
    return found


def test_a_text_and_a_list_of_texts_are_rows_of_tokens() -> None:
    assert read("ab").x.tolist() == [[0, 1, 3, 3, 3]]
    assert read(["ab", "c"]).x.tolist() == [[0, 1, 3, 3, 3], [2, 3, 3, 3, 3]]


def test_a_file_has_a_text_on_every_line_and_names_them_by_it(tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("ab\n\nabz\nabcabc\n")
    found = read(tmp_path / "new.txt")
    assert (found.names, found.rows.tolist()) == (["1", "3", "4"], [0])
    assert [bad.where for bad in found.faults.values()] == ["new.txt line 3", "new.txt line 4"]
    assert "'z'" in found.faults[1].detail
    assert "6 tokens; the model was made for 4" in found.faults[2].detail
    assert read(str(tmp_path / "new.txt")).names == ["1", "3", "4"]


def test_targets_behind_tabs_in_objects_and_as_folders_are_known(tmp_path: Path) -> None:
    (tmp_path / "new.tsv").write_text("ab\tgood\nc\tbad\na\n")
    (tmp_path / "new.jsonl").write_text(
        '{"text": "ab", "label": "good"}\n{"text": "c", "label": "bad"}\n{"text": "a"}\n'
    )
    folder = tmp_path / "texts"
    for name, text in (("bad/1.txt", "c"), ("good/2.txt", "ab"), ("other.txt", "a")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for given, expected in (("new.tsv", [1, 0, -1]), ("new.jsonl", [1, 0, -1]), ("texts", [0, 1, -1])):
        found = read(tmp_path / given)
        assert found.targets is not None
        assert found.targets.y.tolist() == expected


def test_the_name_of_a_file_that_is_not_there_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        read("reviews.txt")
    with pytest.raises(ArgumentError, match="float is no text"):
        read(0.5)
    with pytest.raises(DataError, match="no texts"):
        read(tmp_path)
