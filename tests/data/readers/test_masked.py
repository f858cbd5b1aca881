"""Folders of images with masks: what is read, and what is found wrong before anything trains."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chainrule.core.errors import DataError
from chainrule.data import check, load, targets
from chainrule.data.loading import sources
from chainrule.data.loading.assembly import schema_of
from chainrule.data.loading.load import read_contents
from chainrule.data.loading.scan import Contents
from chainrule.data.targets.mask import IGNORE

SIZE = (10, 14)
"""Height and width."""


def contents(folder: Path, bad: str = "error", **options: object) -> Contents:
    """What a folder holds, before it is divided."""
    source = sources.find(folder)
    return read_contents(source, source.resolve(options), 0, bad)


def folder_of(folder: Path, masks: Sequence[np.ndarray], names: str = "", parts: Sequence[str] = ()) -> Path:
    for number, mask in enumerate(masks):
        above = folder / parts[number] if parts else folder
        for kind in ("images", "masks"):
            (above / kind).mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (*SIZE, 3), np.uint8)
        Image.fromarray(pixels).save(above / "images" / f"{number}.jpg")
        Image.fromarray(mask).save(above / "masks" / f"{number}.png")
    if names:
        (folder / "classes.txt").write_text(names)
    return folder


def mask(*values: int) -> np.ndarray:
    """Stripes of some values."""
    return np.repeat(np.array(values, np.uint8), -(-SIZE[1] // len(values)))[None, : SIZE[1]].repeat(
        SIZE[0], 0
    )


def test_masks_are_read_with_the_names_of_their_classes(tmp_path: Path) -> None:
    data = contents(folder_of(tmp_path / "road", [mask(0, 1), mask(2, 0), mask(1, 2)], "ground\ncar\nman\n"))
    assert data.classes == ("ground", "car", "man")
    assert data.target == "mask"
    assert data.y.shape[1:] == SIZE
    found = sorted(map(np.ndarray.tolist, data.y))
    assert found == sorted(map(np.ndarray.tolist, [mask(0, 1), mask(2, 0), mask(1, 2)]))
    assert data.y.dtype == np.uint8


def test_values_are_the_names_where_there_is_no_list(tmp_path: Path) -> None:
    data = contents(folder_of(tmp_path / "cells", [mask(0, 255), mask(255, 0)]))
    assert data.classes == ("0", "255")
    assert set(np.unique(data.y)) == {0, 1}


def test_numbers_of_a_palette_are_the_classes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "road", [mask(0, 1), mask(1, 0)])
    image = Image.fromarray(mask(0, 1, 0)).convert("P")
    image.putpalette([0, 0, 0, 255, 0, 0])
    image.save(folder / "masks" / "0.png")
    data = contents(folder)
    assert data.classes == ("0", "1")


def test_values_that_no_class_has_are_shown_and_can_be_ignored(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "road", [mask(0, 1), mask(0, 7, 255), mask(1, 0)], "ground\ncar\n")
    report = check(folder)
    (group,) = [group for group in report.problems if group.effect == "skip"]
    assert group.kind == "value without a class"
    assert "1.png holds 7, 255; 2 classes are named" in group.items[0].detail
    with pytest.raises(DataError, match="holds 7, 255"):
        contents(folder)
    Image.fromarray(mask(0, 1, 255)).save(folder / "masks" / "1.png")
    (group,) = [group for group in check(folder).problems if group.effect == "skip"]
    assert "data.ignore=255" in group.items[0].remedy
    data = contents(folder, ignore=255)
    assert (data.y == IGNORE).sum() == (mask(0, 1, 255) == 255).sum()


def test_missing_masks_and_wrong_sizes_are_found(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "road", [mask(0, 1)] * 4)
    (folder / "masks" / "1.png").unlink()
    (folder / "images" / "3.jpg").unlink()
    Image.fromarray(mask(0, 1)[1:]).save(folder / "masks" / "2.png")
    report = check(folder)
    kinds = {group.kind: (group.effect, group.items[0].detail) for group in report.problems}
    assert kinds["missing mask"][0] == "skip"
    assert kinds["missing image"][0] == "note"
    assert kinds["wrong size"] == ("skip", "the mask has 14×9 pixels, the image 14×10")
    assert (report.total, report.usable) == (3, 1)


@pytest.mark.parametrize(
    "write",
    [
        lambda file: Image.fromarray(np.zeros((*SIZE, 3), np.uint8)).save(file),
        lambda file: file.write_bytes(b"nothing of the kind"),
    ],
)
def test_masks_that_are_none_are_found(write: object, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "road", [mask(0, 1)] * 2)
    write(folder / "masks" / "1.png")  # type: ignore[operator]
    (group,) = [group for group in check(folder).problems if group.effect == "skip"]
    assert group.kind == "bad mask"


def test_masks_with_too_many_values_are_no_classes(tmp_path: Path) -> None:
    noise = np.arange(SIZE[0] * SIZE[1], dtype=np.uint8).reshape(SIZE)
    with pytest.raises(DataError, match="140 different values"):
        contents(folder_of(tmp_path / "road", [noise, noise]))


def test_a_size_keeps_images_whole_and_what_is_added_counts_for_none(tmp_path: Path) -> None:
    data = contents(folder_of(tmp_path / "road", [mask(0, 1), mask(1, 0)]), size=14)
    assert data.x.shape[1:] == (14, 14, 3)
    y = data.y
    assert (y[:, :2] == IGNORE).all()
    assert (y[:, 2:12] != IGNORE).all()


def test_folders_that_divide_images_are_kept(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "road", [mask(0, 1)] * 3, parts=("train", "val", "test"))
    data = load(folder)
    assert [len(data.train), len(data.val), len(data.test)] == [1, 1, 1]


def test_images_alone_can_be_had(tmp_path: Path) -> None:
    data = contents(folder_of(tmp_path / "road", [mask(0, 1)] * 3), target="none")
    assert data.target == "none"
    assert len(data) == 3


def test_classes_of_other_masks_go_by_their_names(tmp_path: Path) -> None:
    ours = contents(folder_of(tmp_path / "road", [mask(0, 1)] * 2, "ground\ncar\n"))
    target = targets.of(ours)
    other = Contents("image", np.zeros((1, *SIZE, 3)), mask(0, 1)[None], "mask", classes=("car", "ground"))
    (said,) = target.said(other, np.arange(1), schema_of(ours))
    assert np.array_equal(said, mask(1, 0))
    strange = Contents("image", np.zeros((1, *SIZE, 3)), mask(0, 1)[None], "mask", classes=("car", "moon"))
    assert list(target.said(strange, np.arange(1), schema_of(ours))) == [None]
