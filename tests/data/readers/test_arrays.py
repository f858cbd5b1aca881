from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import DataError
from chainrule.data import Data, check, from_arrays, load
from chainrule.data.loading import moments
from chainrule.data.readers import npy
from tests.data import corpus

RNG = np.random.default_rng(0)
POINTS = RNG.normal(3, 2, (40, 2)).astype(np.float32)


def saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def raw_of(data: Data) -> np.ndarray:
    """All examples in original units."""
    return data.inverse(np.concatenate([s.x for s in (data.train, data.val, data.test)]))


def assert_same_rows(found: np.ndarray, expected: np.ndarray, tolerance: float = 1e-5) -> None:
    flat, wanted = found.reshape(len(found), -1), expected.reshape(len(expected), -1).astype(np.float64)
    assert flat.shape == wanted.shape
    distance = np.abs(flat[:, None] - wanted[None]).max(axis=-1)
    assert np.all(np.sort(distance.argmin(axis=1)) == np.arange(len(flat)))
    assert distance.min(axis=1).max() <= tolerance


@pytest.mark.parametrize(
    ("array", "options", "kind", "shape", "levels"),
    [
        (POINTS, {}, "points", (2,), 0),
        (POINTS, {"kind": "table"}, "table", (2,), 0),
        (POINTS.astype(">f8"), {}, "points", (2,), 0),
        (np.asfortranarray(RNG.normal(size=(40, 5))), {}, "table", (5,), 0),
        (np.arange(40), {}, "table", (1,), 0),
        (RNG.integers(0, 256, (40, 4, 3), dtype=np.uint8), {}, "image", (4, 3, 1), 256),
        (RNG.integers(0, 2, (40, 4, 3, 3)).astype(bool), {}, "image", (4, 3, 3), 2),
        (RNG.integers(0, 17, (40, 4, 3)).astype(float), {"levels": 17}, "image", (4, 3, 1), 17),
        (RNG.random((40, 4, 3)), {}, "image", (4, 3, 1), 0),
        (RNG.normal(size=(40, 4, 3)), {"kind": "sequence"}, "sequence", (4, 3), 0),
    ],
)
def test_an_array_means_what_its_shape_says(
    tmp_path: Path,
    array: np.ndarray,
    options: dict[str, object],
    kind: str,
    shape: tuple[int, ...],
    levels: int,
) -> None:
    data = load(saved(tmp_path / "a.npy", array), **options)
    assert (data.schema.kind, data.schema.shape, data.schema.levels) == (kind, shape, levels)
    assert_same_rows(raw_of(data), array, tolerance=0 if levels else 1e-5)
    assert data.train.x.dtype == np.float32
    if kind == "image":
        assert 0 <= data.train.x.min() <= data.train.x.max() <= 1
    else:
        assert np.allclose(data.train.x.reshape(-1, shape[-1]).mean(axis=0), 0, atol=1e-5)


@pytest.mark.parametrize("names", [("x", "y"), ("images", "labels")])
def test_examples_and_targets_are_found_by_name(tmp_path: Path, names: tuple[str, str]) -> None:
    images, labels = RNG.integers(0, 256, (30, 4, 4), dtype=np.uint8), np.arange(30) % 3 + 5
    np.savez_compressed(tmp_path / "a.npz", **{names[0]: images, names[1]: labels, "more": np.zeros(3)})
    data = load(tmp_path / "a.npz")
    assert data.schema.classes == ("5", "6", "7")
    lookup = {image.tobytes(): label - 5 for image, label in zip(images, labels, strict=True)}
    for split in (data.train, data.val, data.test):
        assert [lookup[x.tobytes()] for x in split.arrays["x"]] == split.y.tolist()
    report = check(tmp_path / "a.npz")
    assert report.ok
    assert report.problems[0].first == "a.npz[more]"


def test_words_are_classes_and_vectors_are_values(tmp_path: Path) -> None:
    np.savez(tmp_path / "words.npz", x=POINTS, y=np.array(["dog", "cat"] * 20))
    assert load(tmp_path / "words.npz").schema.classes == ("cat", "dog")
    vectors = RNG.normal(5, 3, (40, 2))
    np.savez(tmp_path / "vectors.npz", x=POINTS, y=vectors)
    data = load(tmp_path / "vectors.npz")
    assert (data.schema.target, data.schema.target_shape) == ("value", (2,))
    assert np.allclose(data.train.y.mean(axis=0), 0, atol=1e-5)
    assert data.target_scaling is not None
    values = np.concatenate([data.target_scaling.inverse(s.y) for s in (data.train, data.val, data.test)])
    assert_same_rows(values, vectors)


def test_labels_are_classes_however_many_there_are(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=POINTS, labels=np.arange(40) // 2 * 3)
    np.savez(tmp_path / "b.npz", x=POINTS, y=np.arange(40) % 25)
    assert load(tmp_path / "a.npz").schema.target == "class"
    assert load(tmp_path / "b.npz").schema.target == "value"
    assert load(tmp_path / "b.npz", target_as="class").schema.target == "class"


@pytest.mark.parametrize("style", ["{what}_{part}", "{part}_{what}"])
def test_an_official_test_set_stays_the_test_set(tmp_path: Path, style: str) -> None:
    arrays = {}
    for part, rows in (("train", slice(0, 30)), ("test", slice(30, 40))):
        arrays[style.format(what="x", part=part)] = POINTS[rows]
        arrays[style.format(what="y", part=part)] = np.arange(40)[rows] % 2
    np.savez(tmp_path / "a.npz", **arrays)
    data = load(tmp_path / "a.npz")
    assert np.allclose(data.inverse(data.test.x), POINTS[30:], atol=1e-5)
    assert len(data.val) == 3
    np.savez(tmp_path / "b.npz", **arrays, x_val=POINTS[:4] + 1, y_val=np.arange(4) % 2)
    assert np.allclose((b := load(tmp_path / "b.npz")).inverse(b.val.x), POINTS[:4] + 1, atol=1e-5)


def test_rows_that_are_not_finite_are_found_and_left_out(tmp_path: Path) -> None:
    array = POINTS.astype(np.float64)
    array[3, 0], array[17, 1], array[20, 0] = np.nan, np.inf, 1e300
    path = saved(tmp_path / "holes.npy", array)
    report = check(path)
    assert [(g.kind, g.count, g.first) for g in report.problems] == [
        ("NaN or infinite", 3, "holes.npy row 3")
    ]
    with pytest.raises(DataError, match=r"3 of 40 examples cannot be read; first: holes.npy row 3"):
        load(path)
    data = load(path, bad="skip")
    assert_same_rows(raw_of(data), np.delete(POINTS, [3, 17, 20], axis=0))
    np.savez(tmp_path / "targets.npz", x=POINTS, y=np.where(np.arange(40) == 5, np.nan, np.arange(40)))
    assert check(tmp_path / "targets.npz").problems[0].first == "targets.npz[x] row 5"


def test_a_large_array_stays_on_disk_and_gives_the_same_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = POINTS.copy()
    array[7] = np.nan
    path = saved(tmp_path / "large.npy", array)
    small = load(path, bad="skip")
    monkeypatch.setattr(npy, "MAP_BYTES", 100)
    monkeypatch.setattr(moments, "CHUNK_BYTES", 50)
    large = load(path, bad="skip")
    assert isinstance(large.train.arrays["x"], np.memmap)
    assert large.hash == small.hash
    for a, b in zip((small.train, small.val, small.test), (large.train, large.val, large.test), strict=True):
        assert len(a) == len(b)
        assert np.allclose(a.x, b.x, atol=1e-6)
    holes = RNG.random((20, 3, 3))
    holes[4] = np.inf
    assert len(load(saved(tmp_path / "holes.npy", holes), bad="skip").skipped) == 1
    images = saved(tmp_path / "images.npy", RNG.integers(0, 256, (40, 4, 3), dtype=np.uint8))
    assert isinstance(load(images).train.arrays["x"], np.memmap)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": POINTS, "y": np.arange(39)}, "39 targets for 40 examples"),
        ({"weights": POINTS}, r"cannot tell examples and targets apart in: a.npz\[weights\]\n.*x_train"),
        ({"x_test": POINTS}, "cannot tell examples"),
        ({"x": POINTS, "images": POINTS}, "'x' and 'images' mean the same"),
        ({"x_train": POINTS, "y_train": np.arange(40), "x_test": POINTS}, "some parts have targets"),
        ({"x_train": POINTS, "x_test": POINTS[:, :1]}, "differ in shape"),
        ({"x": np.array(["a", "b"])}, "the examples are words"),
        ({"x": np.zeros((3, 4, 5, 6, 7))}, "3×4×5×6×7 numbers are not any known kind of data"),
        ({"x": np.zeros((9, 3, 32, 32), np.uint8)}, "channels come last"),
        (
            {"x": np.zeros((9, 8, 8)) + 255},
            "images hold values from 255 to 255 of type float64\n.*data.levels=256",
        ),
        ({"x": np.zeros((9, 8, 8), np.int64)}, "unknown levels|data.levels=2"),
        ({"x": POINTS, "labels": RNG.random(40)}, "classes must be whole numbers"),
        ({"x": POINTS, "y": np.zeros(40)}, "every training example is of class '0'"),
        ({"x": np.full((5, 2), np.nan)}, "every example holds a value that is not finite"),
        ({"x": np.zeros((0, 2))}, "holds no examples"),
        ({"x": np.zeros((4, 2), complex)}, "something other than plain numbers or words"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused_with_the_reason(
    tmp_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=f"(?s){message}"):
        load(tmp_path / "a.npz")


def test_an_array_of_python_objects_is_never_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="it is not opened"):
        load(tmp_path / "objects.npy")
    corpus.write(tmp_path / "model.pkl", b"\x80\x04N.")
    with pytest.raises(DataError, match="a pickle, which can run code and is never opened"):
        load(tmp_path / "model.pkl")


@pytest.mark.parametrize("cut", [0, 5, 9, 11, 60, 200])
def test_an_array_cut_off_anywhere_is_refused(tmp_path: Path, cut: int) -> None:
    path = saved(tmp_path / "a.npy", POINTS)
    corpus.write(path, path.read_bytes()[:cut])
    with pytest.raises(DataError, match=r"a\.npy: (empty file|not a NumPy|the header|declares)"):
        load(path)


def test_levels_must_cover_the_values(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npy", np.full((9, 4, 4), 17, np.uint8))
    with pytest.raises(DataError, match="levels=17 means whole numbers up to 16; found values from 17 to 17"):
        load(path, levels=17)


def test_rows_of_vectors_and_images_beside_the_examples_are_values() -> None:
    pixels = RNG.random((40, 4, 4)).astype(np.float32)
    for y, shape in ((pixels, (4, 4, 1)), (pixels[..., None], (4, 4, 1)), (pixels[:, :2], (2, 4))):
        data = from_arrays(pixels, y)
        assert (data.schema.target, data.schema.target_shape) == ("value", shape)
        assert np.allclose(data.train.y.mean(), 0, atol=1e-5)
    bytes_ = RNG.integers(0, 3, (40, 4, 4, 1)).astype(np.uint8)
    assert from_arrays(pixels, bytes_).schema.target == "value"  # three values do not make an image a class


def test_vectors_of_nan_pad_a_row_and_other_nan_are_refused() -> None:
    rows = RNG.normal(3, 2, (40, 3, 2))
    rows[::2, 2] = np.nan
    data = from_arrays(POINTS, rows)
    assert np.allclose(np.nanmean(data.train.y, axis=(0, 1)), 0, atol=1e-5)
    assert data.target_scaling is not None
    back = np.concatenate([data.target_scaling.inverse(s.y) for s in (data.train, data.val, data.test)])
    assert np.isnan(back).sum() == np.isnan(rows).sum()
    rows[0, 0, 0] = np.nan
    with pytest.raises(DataError, match="NaN or infinite"):
        from_arrays(POINTS, rows)


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ((40, 2, 2, 2, 2), {}, "targets of shape"),
        ((40, 2, 3), {"target_as": "class"}, "one class per example"),
    ],
)
def test_targets_of_other_shapes_are_refused(y: tuple[int, ...], options: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_arrays(POINTS, np.ones(y), **options)
