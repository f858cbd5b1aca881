"""Examples with the same input in two splits: noticed in every format, and kept on one side where that is wanted."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chainrule.core.errors import DataError
from chainrule.data import Data, check, from_arrays, load
from chainrule.data.loading.copies import HELD_OUT, LEFT_OUT, inputs
from chainrule.data.loading.scan import Contents

N = 40


def noted(data: Data) -> dict[str, int]:
    return dict(data.notes)


def leaks(data: Data) -> int:
    """Held-out examples that training has too, counted in the plainest way."""
    train = {row.tobytes() for row in np.asarray(data.train.x)}
    return sum(row.tobytes() in train for part in (data.val, data.test) for row in np.asarray(part.x))


def table(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 100, (N // 2, 3)).tolist()
    lines = [f"{a},{b},{c}.5,{'yes' if a > 50 else 'no'}" for a, b, c in [*rows, *rows]]
    file = folder / "table.csv"
    file.write_text("\n".join(["a,b,c,target", *lines]))
    return file


def pictures(folder: Path, *, labels: bool) -> Path:
    rng = np.random.default_rng(0)
    root, rows = folder / "pictures", ["file,label"]
    for i, pixels in enumerate(np.tile(rng.integers(0, 256, (N // 2, 6, 6), np.uint8), (2, 1, 1))):
        name = "cat" if i % 2 else "dog"
        file = root / (f"{i:02}.png" if labels else f"{name}/{i:02}.png")
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(file)
        rows.append(f"{i:02}.png,{name}")
    if labels:
        (root / "labels.csv").write_text("\n".join(rows))
    return root


SOURCES: dict[str, Callable[[Path], Data]] = {
    "table": lambda folder: load(table(folder)),
    "folder": lambda folder: load(pictures(folder, labels=False)),
    "labels": lambda folder: load(pictures(folder, labels=True), labels="labels.csv"),
    "arrays": lambda folder: from_arrays(np.tile(np.arange(N / 2), 2)[:, None] * [1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_held_out_copies_of_training_examples_are_counted_and_can_be_kept_together(
    kind: str, tmp_path: Path
) -> None:
    data = SOURCES[kind](tmp_path)
    assert leaks(data) > 0
    assert noted(data)[HELD_OUT] == leaks(data)
    if not data.source:
        return
    report = check(**data.source)
    (group,) = (group for group in report.problems if group.kind == HELD_OUT)
    assert report.ok
    assert group.count == leaks(data)
    assert "data.copies=together" in "\n".join(report.lines())
    mended = load(**{**data.source, "copies": "together"})
    assert leaks(mended) == 0
    assert HELD_OUT not in noted(mended)
    assert mended.hash == data.hash
    assert sum(map(len, (mended.train, mended.val, mended.test))) == N
    assert min(map(len, (mended.val, mended.test))) >= 2
    assert load(**mended.source).source == mended.source


def test_data_that_were_divided_before_are_divided_as_they_were() -> None:
    before = {"name_or_path": "digits", "seed": 0, "split": [0.8, 0.1, 0.1], "bad": "error"}
    assert np.array_equal(load(**before).test.arrays["x"], load("digits").test.arrays["x"])
    assert load("digits").notes == ()


def test_training_does_without_what_an_official_test_set_holds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3))
    test = np.concatenate([x[:4], rng.normal(size=(6, 3))])
    y = np.arange(30) % 2
    file = tmp_path / "parts.npz"
    np.savez(file, x_train=x, y_train=y, x_test=test, y_test=np.arange(10) % 2)
    data = load(file)
    assert noted(data)[HELD_OUT] == leaks(data) >= 3
    mended = load(file, copies="together")
    assert leaks(mended) == 0
    assert noted(mended)[LEFT_OUT] == 4
    assert len(mended.test) == 10
    assert len(mended.train) + len(mended.val) == 26


def test_documents_that_come_twice_are_noticed(tmp_path: Path) -> None:
    lines = [f"a document, number {i}, of some length" for i in range(30)]
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{line}\n\n" for line in [*lines, *lines[:2]]))
    assert noted(load(file, packing=True, window=16)) == {HELD_OUT: 2}
    with pytest.raises(DataError, match="copies=together: validation and test are the last pieces"):
        load(file, packing=True, window=16, copies="together")


def test_what_repeats_itself_in_time_is_no_copy(tmp_path: Path) -> None:
    data = from_arrays(np.tile([0.0, 1.0], 60)[:, None], series=4)
    assert data.notes == ()


def test_inputs_are_told_apart_by_every_bit() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (3000, 11)).astype(np.float32)
    found = inputs(Contents("table", rows))
    _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    assert np.array_equal(found, first[number])
    swapped = np.concatenate([rows, rows[:, ::-1]])
    assert len(np.unique(inputs(Contents("table", swapped)))) == len(np.unique(swapped, axis=0))


def test_labels_that_a_single_example_has_or_lacks_are_noted(tmp_path: Path) -> None:
    labels = np.zeros((N, 3), int)
    labels[: N // 2, 0], labels[3, 1], labels[4:, 2], labels[:3, 2] = 1, 1, 1, 1
    file = tmp_path / "labels.npz"
    np.savez(file, x=np.random.default_rng(0).normal(size=(N, 3)), y=labels)
    (rare,) = (group for group in check(file).problems if group.effect == "note")
    assert [problem.detail for problem in rare.items] == [
        "a single example has label 'label 1'",
        "a single example lacks label 'label 2'",
    ]
