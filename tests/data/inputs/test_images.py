"""New images, whatever they come in, become what the training images were."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Scaling, Schema
from chainrule.data.inputs.images import inputs
from chainrule.data.inputs.protocol import Given, InputChunk, Preparation

BYTES = Preparation(
    Schema("image", (4, 4, 1), "class", classes=("cat", "dog"), levels=256), Scaling(0.0, 1 / 255)
)
SIXTEEN = Preparation(Schema("image", (4, 4, 1), "class", classes=("0",), levels=17), Scaling(0.0, 1 / 16))
COLOUR = Preparation(Schema("image", (4, 4, 3), levels=256), Scaling(0.0, 1 / 255))
GREY = np.arange(16, dtype=np.uint8).reshape(4, 4) * 17


def read(given: Given, prepared: Preparation = BYTES, size: int = 100) -> list[InputChunk]:
    return list(inputs(given, prepared).chunks(size))


def one(given: Given, prepared: Preparation = BYTES) -> np.ndarray:
    (found,) = read(given, prepared)
    return np.asarray(found.x)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes, an image outside of both and two that cannot be read."""
    for name in ("dog/b.png", "cat/a.png", "bird/c.png", "cat/deep/d.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(GREY).save(tmp_path / name)
    (tmp_path / "cat/broken.jpg").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "notes.txt").write_text("not an image")
    return tmp_path


def test_a_folder_is_read_in_order_with_targets_by_the_names_of_folders(folder: Path) -> None:
    (found,) = read(folder)
    assert found.names == ["bird/c.png", "cat/a.png", "cat/broken.jpg", "cat/deep/d.png", "dog/b.png"]
    assert found.rows.tolist() == [0, 1, 3, 4]
    assert [(bad.where, bad.kind) for bad in found.faults.values()] == [("cat/broken.jpg", "truncated")]
    assert found.targets is not None
    assert found.targets.known.tolist() == [False, True, True, True]
    assert found.targets.y[1:].tolist() == [0, 0, 1]


def test_chunks_are_the_whole_in_pieces(folder: Path) -> None:
    found = read(folder, size=2)
    assert [name for part in found for name in part.names] == list(read(folder)[0].names)
    assert np.array_equal(np.concatenate([part.x for part in found]), one(folder))


def test_every_way_to_give_an_image_is_the_same(folder: Path) -> None:
    file = folder / "dog/b.png"
    expected = GREY[None, ..., None] / 255
    for given in (
        *(file, str(file), [file], Image.open(file), [Image.open(file)]),
        *(GREY, GREY[..., None], GREY[None], [GREY], GREY / 255),
    ):
        assert one(given) == pytest.approx(expected, abs=2e-3)
    assert one(file) == pytest.approx(expected, abs=1e-6)


def test_images_of_files_take_on_the_levels_of_the_training_images() -> None:
    image = Image.fromarray(GREY)
    assert one(image, SIXTEEN)[0, ..., 0] == pytest.approx(np.rint(GREY / 255 * 16) / 16)
    binary = Preparation(Schema("image", (4, 4, 1), levels=2), Scaling())
    assert set(one(image, binary).ravel().tolist()) == {0.0, 1.0}
    fractions = Preparation(Schema("image", (4, 4, 1)), Scaling())
    assert one(image, fractions)[0, ..., 0] == pytest.approx(GREY / 255)


def test_arrays_are_in_the_units_of_the_data_and_fractions_are_parts_of_white() -> None:
    sixteenths = np.arange(16.0).reshape(4, 4)
    assert one(sixteenths, SIXTEEN)[0, ..., 0] == pytest.approx(sixteenths / 16)
    assert one(sixteenths / 16, SIXTEEN)[0, ..., 0] == pytest.approx(sixteenths / 16)
    dark_and_bright = np.stack([np.ones((4, 4)), 16 * np.ones((4, 4))])
    chunks = list(inputs(dark_and_bright, SIXTEEN).chunks(1))  # what is a fraction is decided for all of them
    assert [float(part.x.max()) for part in chunks] == [1 / 16, 1.0]


def test_size_and_colours_become_those_of_training() -> None:
    red = np.zeros((9, 7, 3), np.uint8)
    red[..., 0] = 255
    assert one(Image.fromarray(red), COLOUR).shape == (1, 4, 4, 3)
    assert one(Image.fromarray(red))[0, 0, 0, 0] == pytest.approx(76 / 255)  # ITU-R 601 luma
    assert np.ptp(one(Image.fromarray(GREY), COLOUR), axis=-1).max() == 0


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"shape 5×5: the run was trained on examples of 4×4×1"):
        read(np.zeros((5, 5)))
    with pytest.raises(ArgumentError, match="object is no input"):
        read(object())
    (tmp_path / "a.txt").write_text("text")
    with pytest.raises(DataError, match="there are no images in this folder"):
        read(tmp_path)
    (found,) = read(tmp_path / "a.txt")
    assert [bad.kind for bad in found.faults.values()] == ["not an image"]
    assert len(found.x) == 0


def test_arrays_of_a_file_bring_their_targets(tmp_path: Path) -> None:
    np.savez(tmp_path / "new.npz", images=np.stack([GREY, GREY]), labels=np.array(["dog", "horse"]))
    (found,) = read(tmp_path / "new.npz")
    assert found.names == ["0", "1"]
    assert found.targets is not None
    assert found.targets.y.tolist() == [1, -1]
    assert found.targets.known.tolist() == [True, False]


def test_numbers_that_are_none_are_named() -> None:
    bad = np.stack([GREY, GREY]).astype(float)
    bad[1, 0, 0] = np.nan
    (found,) = read(bad)
    assert found.rows.tolist() == [0]
    assert [problem.where for problem in found.faults.values()] == ["row 1"]


def test_a_list_of_labels_in_the_folder_says_what_images_are(tmp_path: Path) -> None:
    for name in "abc":
        Image.fromarray(GREY).save(tmp_path / f"{name}.png")
    (tmp_path / "labels.csv").write_text("file,animal\na.png,dog\nc.png,cat\n")
    listed = replace(BYTES, options={"labels": "labels.csv"})
    (found,) = read(tmp_path, listed)
    assert found.targets is not None
    assert found.targets.y.tolist() == [1, -1, 0]
    assert read(tmp_path)[0].targets is None
    (tmp_path / "labels.csv").write_text("file,animals\na.png,red|round\nb.png,red\nc.png,round\n")
    tags = Schema("image", (4, 4, 1), "labels", (3,), classes=("big", "red", "round"), levels=256)
    (found,) = read(tmp_path, replace(listed, schema=tags))
    assert found.targets is not None
    assert found.targets.y.tolist() == [[0, 1, 1], [0, 1, 0], [0, 0, 1]]
