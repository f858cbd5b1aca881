"""Labels of images in a list: classes, several labels, values, and files that only one side knows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Data, check, load
from tests.data import corpus

COUNT = 24


@pytest.fixture(name="photos")
def _photos(tmp_path: Path) -> Path:
    for i in range(COUNT):
        name = f"more/{i:02d}.png" if i % 4 == 0 else f"{i:02d}.png"
        corpus.write(tmp_path / "photos" / name, corpus.packed(corpus.picture(i, size=(4, 4), mode="L")))
    return tmp_path / "photos"


def listed(path: Path, head: str, row: str, **more: Any) -> Path:
    def line(i: int) -> str:
        file = f"more/{i:02d}.png" if i % 4 == 0 else f"{i:02d}.png"
        return row.format(file=file, bare=file[:-4], i=i, pet=("cat", "dog", "owl")[i % 3], odd=i % 2, **more)

    return corpus.write(path, "\n".join([head, *(line(i) for i in range(COUNT))]).encode())


def by_first_pixel(data: Data, photos: Path) -> dict[int, Any]:
    """The target of each image, by its number."""
    firsts = {tuple(np.asarray(corpus.picture(i, size=(4, 4), mode="L")).ravel()): i for i in range(COUNT)}
    found = {}
    for split in (data.train, data.val, data.test):
        for x, y in zip(split.arrays["x"], split.y, strict=True):
            found[firsts[tuple(x.ravel())]] = y
    return found


@pytest.mark.parametrize("where", ["in", "beside", "path"])
def test_classes_come_from_a_list_in_the_folder_beside_it_or_anywhere(
    photos: Path, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = {"in": photos, "beside": tmp_path, "path": tmp_path / "deep"}[where]
    listed(folder / "labels.csv", "file,label", "{file},{pet}")
    monkeypatch.chdir(tmp_path)
    data = load(photos, labels="deep/labels.csv" if where == "path" else "labels.csv")
    assert data.schema.classes == ("cat", "dog", "owl")
    assert {i: int(y) for i, y in by_first_pixel(data, photos).items()} == {i: i % 3 for i in range(COUNT)}
    monkeypatch.chdir("/")
    assert load(**data.source).hash == data.hash
    assert not check(photos, labels=str(folder / "labels.csv")).problems
    assert load(photos, labels="labels.csv", target="none").schema.target == "none"


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("image,odd,third", "photos/{file},{odd},{i}"),
        ("id,tags", '{bare},"odd|{pet}"'),
        ("file;tags", "{file};{pet}|odd"),
    ],
)
def test_several_labels_and_values(photos: Path, head: str, row: str) -> None:
    listed(photos / "labels.csv", head, row)
    options = {"target": "odd"} if "third" in head else {"target_as": "labels"}
    if "tags" in head:
        text = (photos / "labels.csv").read_text().splitlines()
        (photos / "labels.csv").write_text("\n".join([text[0], text[1].replace("odd", ""), *text[2:]]))
    data = load(photos, labels="labels.csv", **options)
    found = by_first_pixel(data, photos)
    if "tags" in head:
        assert data.schema.classes == ("cat", "dog", "odd", "owl")
        assert found[1].tolist() == [0, 1, 1, 0]
        assert found[0].tolist() == [1, 0, 0, 0]
    else:
        assert data.schema.classes == ("0", "1")
        both = load(photos, labels="labels.csv")
        assert both.schema.target_shape == (2,)
        assert both.target_scaling is not None


def test_numbers_are_values(photos: Path) -> None:
    listed(photos / "age.csv", "file,age", "{file},{i}.5")
    data = load(photos, labels="age.csv")
    assert data.schema.target == "value"
    assert data.target_scaling is not None
    found = by_first_pixel(data, photos)
    assert float(data.target_scaling.inverse(np.float64(found[7]))) == pytest.approx(7.5, abs=1e-4)


def test_files_that_only_one_side_knows_are_named(photos: Path) -> None:
    path = listed(photos / "labels.csv", "file,label", "{file},{pet}")
    text = path.read_text().replace("01.png,dog", "01.png,").replace("02.png,owl", "gone.png,owl")
    path.write_text(text + "\n03.png,dog")
    problems = {
        (group.kind, group.effect): group.items[0] for group in check(photos, labels="labels.csv").problems
    }
    assert {key: problem.where for key, problem in problems.items()} == {
        ("no label", "skip"): "photos/01.png",
        ("no such image", "note"): "labels.csv line 4",
        ("a second label", "note"): "labels.csv line 26",
    }
    with pytest.raises(
        DataError, match=r"2 of 24 images cannot be read; first: photos/01.png \(no label: labels.csv"
    ):
        load(photos, labels="labels.csv")
    assert len(load(photos, labels="labels.csv", bad="skip").skipped) == 2


def test_a_list_that_cannot_be_used_says_why(photos: Path) -> None:
    with pytest.raises(DataError, match=r"labels=none.csv does not exist\n.*looked for: .*photos/none.csv"):
        load(photos, labels="none.csv")
    corpus.write(photos / "other.csv", b"file,label\nx.png,cat\ny.png,dog")
    with pytest.raises(DataError, match=r"none of its 2 rows names an image of photos\n.*paths like 01.png"):
        load(photos, labels="other.csv")
    listed(photos / "labels.csv", "file,label", "{file},{pet}")
    with pytest.raises(ArgumentError, match=r"no such column \(did you mean 'label'\?\)"):
        load(photos, labels="labels.csv", target="labl")
    with pytest.raises(ArgumentError, match=r"must be \"folder\" or \"none\"\n.*data.labels=FILE.csv"):
        load(photos, target="label")
    listed(photos / "words.csv", "file,a,b", "{file},{pet},{odd}")
    with pytest.raises(DataError, match=r"column 'a' holds words.*\n.*data.target=a"):
        load(photos, labels="words.csv")
