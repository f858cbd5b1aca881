"""Targets that are several labels, each there or not."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import DataError
from chainrule.data import load, preview


def photos(path: Path, n: int = 60) -> Path:
    noise = np.random.default_rng(0)
    rows = ["height,width,sea,sky,people"]
    for i in range(n):
        a, b = noise.normal(size=2)
        rows.append(f"{a:.4f},{b:.4f},{int(a > 0)},{int(b > 0)},{i % 2}")
    path.write_text("\n".join(rows) + "\n")
    return path


def test_several_columns_of_zeros_and_ones_are_labels_with_their_names(tmp_path: Path) -> None:
    data = load(photos(tmp_path / "photos.csv"), target=["sea", "sky", "people"])
    assert (data.schema.target, data.schema.target_shape) == ("labels", (3,))
    assert data.schema.classes == ("sea", "sky", "people")
    assert data.schema.columns == ("height", "width")
    x = data.inverse(data.train.x)
    np.testing.assert_array_equal(data.train.y[:, :2], x > 0)
    assert data.describe().startswith("60 points in 2 dimensions, 3 labels")
    assert load(**data.source).hash == data.hash


def test_several_columns_of_numbers_are_values_of_that_shape(tmp_path: Path) -> None:
    data = load(photos(tmp_path / "photos.csv"), target=["height", "width"])
    assert (data.schema.target, data.schema.target_shape) == ("value", (2,))
    assert data.schema.columns == ("sea", "sky", "people")


def test_an_array_of_zeros_and_ones_beside_images_is_labels(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    x, y = noise.integers(0, 256, (40, 4, 4), dtype=np.uint8), noise.integers(0, 2, (40, 3))
    np.savez(tmp_path / "tags.npz", x=x, y=y)
    data = load(tmp_path / "tags.npz")
    assert data.schema.target == "labels"
    assert data.schema.classes == ("label 0", "label 1", "label 2")
    assert data.train.y.dtype == np.uint8
    (picture,) = preview(data)
    words = {"label 0", "label 1", "label 2", ""}
    assert {word for label in picture.labels for word in label.split(", ")} <= words
    assert load(tmp_path / "tags.npz", target_as="value").schema.target == "value"


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (np.eye(40)[:, :2] * 0.5, {"target_as": "labels"}, "labels need every number to be 0 or 1"),
        (np.arange(40) % 2, {"target_as": "labels"}, "labels need several numbers for each example"),
        (np.stack([np.arange(40) % 2, np.ones(40)], axis=1), {}, "label 'label 1' is 1 for every example"),
        (np.eye(40)[:, :2], {"seed": 9}, "is 0 for every training example"),
        (np.where(np.arange(80).reshape(40, 2) > 3, 1.0, np.nan), {}, "2 of 40 examples cannot be read"),
    ],
)
def test_labels_that_cannot_be_learnt_are_refused(
    tmp_path: Path, y: np.ndarray, options: dict, message: str
) -> None:
    np.savez(tmp_path / "tags.npz", x=np.random.default_rng(0).normal(size=(40, 5)), y=y)
    with pytest.raises(DataError, match=message):
        load(tmp_path / "tags.npz", split=(0.5, 0.25, 0.25), **options)


def test_words_cannot_stand_among_several_targets(tmp_path: Path) -> None:
    (tmp_path / "pets.csv").write_text("size,tame,kind\n1.5,1,cat\n2.5,0,dog\n3.5,1,cat\n")
    with pytest.raises(DataError, match="the target 'kind' holds words; several targets must be numbers"):
        load(tmp_path / "pets.csv", target=["tame", "kind"])
