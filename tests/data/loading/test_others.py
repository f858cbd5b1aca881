"""Other data for a trained model: nothing of them is fitted, and classes go by their names."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Data, load
from chainrule.data.inputs.protocol import Preparation
from chainrule.data.loading.others import load_other
from chainrule.data.text import tokenizers


def like(data: Data) -> Preparation:
    return Preparation(data.schema, data.scaling, data.target_scaling, data.source, data.reading)


def table(path: Path, rows: range, classes: str = "ab") -> Path:
    lines = [f"{i},{3 * i + 1},{classes[i % len(classes)]}" for i in rows]
    path.write_text("\n".join(["x,y,class", *lines]) + "\n")
    return path


def test_rows_are_scaled_as_in_training_and_classes_keep_their_numbers(tmp_path: Path) -> None:
    data = load(table(tmp_path / "train.csv", range(40)))
    other = load_other(table(tmp_path / "new.csv", range(100, 120), "ba"), like(data))
    assert len(other.test) == 20
    assert len(other.train) == len(other.val) == 0
    raw = np.stack([np.arange(100, 120), 3 * np.arange(100, 120) + 1], axis=1)
    assert np.asarray(other.test.x) == pytest.approx(data.scaling.apply(raw.astype(float)), rel=1e-5)
    assert np.asarray(other.test.y).tolist() == [1, 0] * 10
    alone = load_other(
        table(tmp_path / "b.csv", range(5), "b"), like(data)
    )  # one class is enough to be judged by
    assert np.asarray(alone.test.y).tolist() == [1] * 5


def test_a_class_that_training_did_not_have_is_an_error(tmp_path: Path) -> None:
    data = load(table(tmp_path / "train.csv", range(40)))
    with pytest.raises(
        DataError, match=r"targets of 10 of 30 examples are not known(?s:.*)'c'(?s:.*)it knows: a, b"
    ):
        load_other(table(tmp_path / "new.csv", range(30), "abc"), like(data))
    (tmp_path / "bare.csv").write_text("x,y\n1,2\n")
    with pytest.raises(DataError, match="no targets, which this run was trained with"):
        load_other(tmp_path / "bare.csv", like(data))
    assert load_other(tmp_path / "bare.csv", like(data), needs_targets=False).test.y is None


def test_bad_rows_stop_or_are_left_out_as_told(tmp_path: Path) -> None:
    data = load(table(tmp_path / "train.csv", range(40)))
    path = table(tmp_path / "new.csv", range(6))
    path.write_text(path.read_text() + "seven,8,a\n")
    with pytest.raises(DataError, match=r"1 of 7 rows cannot be used; first: new.csv line 8"):
        load_other(path, like(data))
    assert len(load_other(path, like(data), bad="skip").test) == 6
    with pytest.raises(
        ArgumentError, match=r"data\.drop: columns are read as those of the training table were"
    ):
        load_other(path, like(data), drop="x")


@pytest.mark.parametrize("values", [1, 2])
def test_values_are_scaled_as_in_training(tmp_path: Path, values: int) -> None:
    noise = np.random.default_rng(0)
    np.savez(tmp_path / "train.npz", x=noise.normal(size=(40, 3)), y=10 + 5 * noise.normal(size=(40, values)))
    y = noise.normal(size=(6, values))
    np.savez(tmp_path / "bare.npz", x=noise.normal(size=(6, 3)))
    np.savez(tmp_path / "new.npz", x=noise.normal(size=(6, 3)), y=y)
    data = load(tmp_path / "train.npz")
    other = load_other(tmp_path / "new.npz", like(data))
    assert data.target_scaling is not None
    expected = data.target_scaling.apply(y if values > 1 else y[:, 0])
    assert np.asarray(other.test.y) == pytest.approx(expected, rel=1e-5)
    assert load_other(tmp_path / "bare.npz", like(data), needs_targets=False).test.y is None
    with pytest.raises(DataError, match="no targets"):
        load_other(tmp_path / "bare.npz", like(data))


def test_bad_files_are_said_to_be_left_out_of_scoring(tmp_path: Path) -> None:
    for i in range(12):
        file = tmp_path / "photos" / "ab"[i % 2] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((4, 4), i, np.uint8)).save(file)
    data = load(tmp_path / "photos")
    file.write_bytes(b"no image")
    with pytest.raises(DataError, match=r"1 of 12 images cannot be read.*\n.*scoring would use 11\."):
        load_other(tmp_path / "photos", like(data))
    assert len(load_other(tmp_path / "photos", like(data), bad="skip").test) == 11


def test_images_take_on_size_levels_and_channels_and_the_official_test_part_counts(tmp_path: Path) -> None:
    grey = (np.arange(64, dtype=np.uint8) * 4).reshape(8, 8)
    for part, name in (("train", "1/a"), ("train", "0/a"), ("test", "1/b")):
        file = tmp_path / "new" / part / f"{name}.png"
        file.parent.mkdir(parents=True)
        Image.fromarray(np.stack([grey] * 3, axis=2)).resize((16, 16), 0).save(file)
    data = load("digits")
    other = load_other(tmp_path / "new", like(data))
    assert np.asarray(other.test.y).tolist() == [1]
    assert np.asarray(other.test.x)[0, ..., 0] == pytest.approx(np.rint(grey / 255 * 16) / 16, abs=0.07)


def test_texts_are_read_with_the_tokens_of_training(tmp_path: Path) -> None:
    text = "the cat sat on the mat and the dog ate it all up. " * 20
    (tmp_path / "train.txt").write_text(text)
    data = load(tmp_path / "train.txt", tokenizer="byte-bpe", vocab=280, window=8)
    (tmp_path / "new.txt").write_text("a hat on a cat, and it ate the mat up. " * 3)
    other = load_other(tmp_path / "new.txt", like(data))
    tokens = tokenizers.of(data.schema).encode((tmp_path / "new.txt").read_text())
    assert np.array_equal(other.test.arrays["tokens"], tokens)
    assert other.test.x.shape[1] == 9
    (tmp_path / "short.txt").write_text("a")
    with pytest.raises(DataError, match="1 tokens; the first is given, so that none is left"):
        load_other(tmp_path / "short.txt", like(data))


def test_pairs_of_texts_are_read_with_the_tokens_of_training(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("".join(f"{'ab' * i}\t{'cd' * i}\n" for i in range(1, 12)))
    (tmp_path / "new.tsv").write_text("ba\tdc\nab\tcc\nbb\tdd\n")
    data = load(tmp_path / "train.tsv")
    other = load_other(tmp_path / "new.tsv", like(data))
    end = len(data.schema.tokens)
    assert other.test.x[:, :3].tolist() == [[1, 0, end], [0, 1, end], [1, 1, end]]
    assert other.test.y[:, :3].tolist() == [[1, 0, end], [0, 0, end], [1, 1, end]]
