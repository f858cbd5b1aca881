"""New rows of a table become the features that the training rows became."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Data, load
from chainrule.data.inputs.protocol import Given, InputChunk, Inputs, Preparation
from chainrule.data.inputs.tables import inputs, reading_of

TRAINING = "size,colour,price\n" + "".join(
    f"{i},{('red', 'white')[i % 2]},{('dear', 'cheap')[i % 3 == 0]}\n" for i in range(30)
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    path = tmp_path_factory.mktemp("table") / "train.csv"
    path.write_text(TRAINING)
    return load(path)


@pytest.fixture
def prepared(data: Data) -> Preparation:
    return Preparation(data.schema, data.scaling, None, data.source, data.reading)


def read(given: Given, prepared: Preparation) -> InputChunk:
    (found,) = inputs(given, prepared).chunks(100)
    return found


def test_the_training_table_is_read_as_it_was(data: Data, prepared: Preparation) -> None:
    found = read(Path(data.source["name_or_path"]), prepared)
    seen = {tuple(row) for split in (data.train, data.val, data.test) for row in np.asarray(split.x).tolist()}
    assert {tuple(row) for row in found.x.tolist()} == seen
    assert found.targets is not None
    names = np.array(data.schema.classes)[found.targets.y]
    assert names.tolist() == [line.split(",")[2] for line in TRAINING.splitlines()[1:]]


def test_columns_go_by_name_and_the_target_need_not_be_there(
    data: Data, prepared: Preparation, tmp_path: Path
) -> None:
    (tmp_path / "new.csv").write_text("colour;size;shop\nwhite;3;a\nred;4;b\n")
    source = inputs(tmp_path / "new.csv", prepared)
    (found,) = source.chunks(100)
    raw = np.array([[3.0, 0, 1], [4.0, 1, 0]])
    assert found.x == pytest.approx(data.scaling.apply(raw), abs=1e-6)
    assert found.names == ["1", "2"]
    assert found.targets is None
    assert [note for note in source.notes if note] == ["columns not known from training: shop"]


def test_bad_rows_keep_their_position_and_say_why(prepared: Preparation, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(
        "size,colour,price\n1,red,dear\n2,blue,dear\n3\n,red,cheap\n5,white,free\n"
    )
    found = read(tmp_path / "new.csv", prepared)
    assert found.names == ["1", "2", "3", "4", "5"]
    assert found.rows.tolist() == [0, 4]
    assert {row: (bad.where, bad.kind) for row, bad in found.faults.items()} == {
        1: ("new.csv line 3", "unknown word"),
        2: ("new.csv line 4", "ragged row"),
        3: ("new.csv line 5", "missing value"),
    }
    assert found.targets is not None
    assert found.targets.known.tolist() == [True, False]  # nobody has heard of a class "free"


class Frame:
    """As little of a data frame as there can be."""

    def __init__(self, **columns: object) -> None:
        self._columns = columns

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def __getitem__(self, name: str) -> object:
        return self._columns[name]


def test_data_frames_and_arrays_are_read_like_files(prepared: Preparation, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("colour,size\nwhite,3\nred,4.5\n,5\n")
    expected = read(tmp_path / "new.csv", prepared)
    frame = read(Frame(size=np.array([3, 4.5, 5]), colour=["white", "red", None]), prepared)
    assert np.array_equal(frame.x, expected.x)
    assert frame.names == ["0", "1", "2"]
    assert {row: bad.reason for row, bad in frame.faults.items()} == {2: expected.faults[2].reason}
    assert np.array_equal(read(np.array([[3, 0, 1], [4.5, 1, 0]]), prepared).x, expected.x)
    with pytest.raises(
        ArgumentError, match=r"shape 1×5: the run was trained on examples of 3(?s:.*)size, colour=red"
    ):
        read(np.zeros((1, 5)), prepared)


def test_missing_numbers_of_an_array_are_filled_in_as_in_training(tmp_path: Path) -> None:
    rows = "".join(f"{i if i % 5 else ''},{i % 7},{'ab'[i % 2]}\n" for i in range(40))
    (tmp_path / "train.csv").write_text(f"x,y,class\n{rows}")
    data = load(tmp_path / "train.csv", missing="median")
    prepared = Preparation(data.schema, data.scaling, None, data.source, data.reading)
    (tmp_path / "new.csv").write_text("x,y\n,3\n2,3\n")
    expected = read(tmp_path / "new.csv", prepared)
    assert not expected.faults
    assert np.array_equal(read(np.array([[np.nan, 3], [2, 3]]), prepared).x, expected.x)


def test_a_run_without_a_plan_reads_its_table_again_or_goes_by_the_names_of_features(
    data: Data, prepared: Preparation, tmp_path: Path
) -> None:
    (tmp_path / "new.csv").write_text("colour,size\nwhite,3\nred,4\n")
    expected = read(tmp_path / "new.csv", prepared)

    def noted(source: Inputs) -> str:
        (found,) = source.chunks(100)
        assert np.array_equal(found.x, expected.x)
        return source.notes[0]

    again = replace(prepared, reading=None, reread=lambda: data.reading)
    assert "its training table was read again" in noted(inputs(tmp_path / "new.csv", again))
    gone = replace(prepared, reading=None)
    assert "they follow from their names" in noted(inputs(tmp_path / "new.csv", gone))
    assert reading_of(data.schema).features == data.schema.columns


def test_a_table_that_lacks_a_column_or_is_not_there_is_refused(
    prepared: Preparation, tmp_path: Path
) -> None:
    (tmp_path / "new.csv").write_text("colour,sise\nwhite,3\n")
    with pytest.raises(
        DataError, match=r"no column 'size' \(did you mean 'sise'\?\)|names of the training table"
    ):
        read(tmp_path / "new.csv", prepared)
    with pytest.raises(DataError, match="does not exist"):
        read(tmp_path / "old.csv", prepared)


def test_a_file_is_streamed_and_says_what_is_no_text(prepared: Preparation, tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_bytes(b'\xef\xbb\xbfsize,colour\r\n1,red\r\n2,wh\xffite\r\n3,"white"\r\n')
    found = read(path, prepared)
    assert found.rows.tolist() == [0, 2]
    assert found.faults[1].where == "new.csv line 3"
    assert found.faults[1].kind == "invalid UTF-8"
    for content, message in (
        (b"", "empty file"),
        (b"size,colour\n1,\0red\n", "a binary file"),
        ("size,colour\n".encode("utf-16"), "UTF-16 text; only UTF-8 is read"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            read(path, prepared)
    with pytest.raises(DataError, match="is no file"):
        read(Path("/dev/null"), prepared)


@pytest.mark.parametrize("words", [("True", "False"), ("true", "false"), ("1", "0")])
def test_truth_values_of_a_frame_are_what_the_training_table_calls_them(
    words: tuple[str, str], tmp_path: Path
) -> None:
    rows = "".join(f"{words[i % 2]},{i},{'ab'[i % 3 == 0]}\n" for i in range(40))
    (tmp_path / "train.csv").write_text(f"new,size,class\n{rows}")
    data = load(tmp_path / "train.csv")
    prepared = Preparation(data.schema, data.scaling, None, data.source, data.reading)
    (tmp_path / "new.csv").write_text(f"new,size\n{words[0]},3\n{words[1]},4\n")
    frame = read(Frame(size=[3, 4], new=np.array([True, False])), prepared)
    assert np.array_equal(frame.x, read(tmp_path / "new.csv", prepared).x)
    assert len(frame.x) == 2
