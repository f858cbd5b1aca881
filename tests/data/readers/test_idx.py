import gzip
from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import DataError
from chainrule.data import check, load
from chainrule.data.readers.cifar import CLASSES, FILES
from tests.data import corpus


@pytest.mark.parametrize("compress", [True, False])
def test_the_official_test_set_stays_and_validation_is_taken_from_training(
    tmp_path: Path, compress: bool
) -> None:
    images, labels = corpus.mnist_like(tmp_path / "set", compress=compress)
    data = load(tmp_path / "set")
    assert data.schema.shape == (4, 3, 1)
    assert [len(s) for s in (data.train, data.val, data.test)] == [53, 7, 20]
    assert np.array_equal(data.test.arrays["x"][..., 0], images[60:])
    assert np.array_equal(data.test.y, labels[60:])
    lookup = {image.tobytes(): label for image, label in zip(images[:60], labels[:60], strict=True)}
    for split in (data.train, data.val):
        assert [lookup.pop(x.tobytes()) for x in split.arrays["x"]] == split.y.tolist()
    assert not lookup


def test_packed_and_plain_files_are_the_same_data(tmp_path: Path) -> None:
    corpus.mnist_like(tmp_path / "a")
    corpus.mnist_like(tmp_path / "b", compress=False)
    assert load(tmp_path / "a").hash == load(tmp_path / "b").hash


def test_a_folder_without_an_official_test_set_is_divided_by_seed(tmp_path: Path) -> None:
    corpus.mnist_like(tmp_path / "set")
    for file in (tmp_path / "set").glob("t10k*"):
        file.unlink()
    data = load(tmp_path / "set")
    assert [len(s) for s in (data.train, data.val, data.test)] == [48, 6, 6]


def test_a_single_file_of_images_has_no_classes(tmp_path: Path) -> None:
    corpus.mnist_like(tmp_path / "set")
    data = load(tmp_path / "set" / "train-images-idx3-ubyte.gz")
    assert data.schema.target == "none"
    assert sum(len(s) for s in (data.train, data.val, data.test)) == 60


def damage(tmp_path: Path, name: str, change: object) -> Path:
    folder = tmp_path / "set"
    corpus.mnist_like(folder, compress=False)
    file = folder / name
    assert callable(change)
    file.write_bytes(change(file.read_bytes()))
    return folder


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("train-images-idx3-ubyte", lambda b: b[:-1], "declares 60×4×3 numbers but holds 719 bytes"),
        ("train-images-idx3-ubyte", lambda b: b + b"x", "declares 60×4×3 numbers but holds 721 bytes"),
        ("train-images-idx3-ubyte", lambda b: b[:9], "cut off within the header"),
        ("train-images-idx3-ubyte", lambda b: b"", "empty file"),
        ("train-images-idx3-ubyte", lambda b: b"PNG!" + b[4:], "wrong magic number"),
        ("train-images-idx3-ubyte", lambda b: b[:4] + b"\xff" * 12 + b[16:], "declares 4,294,967,295×"),
        ("train-images-idx3-ubyte", lambda b: gzip.compress(b)[:-20], "the compressed file is cut off"),
        ("train-images-idx3-ubyte", lambda b: gzip.compress(b)[:10] + b"\xff" * 50, "damaged gzip file"),
        ("train-labels-idx1-ubyte", lambda b: corpus.idx(np.arange(59)), "59 labels for 60 images"),
        ("train-labels-idx1-ubyte", lambda b: corpus.idx(np.zeros((60, 2))), "not labels"),
        ("train-images-idx3-ubyte", lambda b: corpus.idx(np.zeros(60)), "not 8-bit images"),
        ("t10k-images-idx3-ubyte", lambda b: corpus.idx(np.zeros((20, 5, 5))), "differ in size"),
        (
            "train-labels-idx1-ubyte",
            lambda b: corpus.idx(np.zeros(60)),
            "every training example is of class '0'",
        ),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(
    tmp_path: Path, name: str, change: object, message: str
) -> None:
    folder = damage(tmp_path, name, change)
    with pytest.raises(DataError, match=message):
        load(folder)
    report = check(folder)
    assert not report.ok
    assert report.problems[0].effect == "stop"
    assert report.lines()


def test_images_without_labels_are_refused(tmp_path: Path) -> None:
    corpus.mnist_like(tmp_path / "set")
    for file in (tmp_path / "set").glob("*labels*"):
        file.unlink()
    with pytest.raises(DataError, match=r"images without labels, or the reverse\n.*train-labels-idx1-ubyte"):
        load(tmp_path / "set")


@pytest.mark.parametrize("inside", ["", "cifar-10-batches-bin"])
def test_cifar_records_become_images_with_channels_last(tmp_path: Path, inside: str) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 3, 32, 32), dtype=np.uint8)
    labels = (np.arange(60) % 10).astype(np.uint8)
    for i, name in enumerate(FILES):
        rows = slice(10 * i, 10 * i + 10)
        records = np.concatenate([labels[rows, None], images[rows].reshape(10, -1)], axis=1)
        corpus.write(tmp_path / "cifar" / inside / name, records.tobytes())
    data = load(tmp_path / "cifar")
    assert data.schema.classes == CLASSES
    assert np.array_equal(data.test.arrays["x"], np.moveaxis(images[50:], 1, -1))
    assert np.array_equal(data.test.y, labels[50:])
    file = tmp_path / "cifar" / inside / FILES[2]
    content = file.read_bytes()
    corpus.write(file, content[:-1])
    with pytest.raises(DataError, match="30,729 bytes are not a whole number of records"):
        load(tmp_path / "cifar")
    corpus.write(file, b"\x0b" + content[1:])
    with pytest.raises(DataError, match="a label of 11; labels go from 0 to 9"):
        load(tmp_path / "cifar")
    file.unlink()
    with pytest.raises(DataError, match=r"data_batch_3\.bin missing"):
        load(tmp_path / "cifar")
