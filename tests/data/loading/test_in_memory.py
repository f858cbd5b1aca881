from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import from_arrays, load

RNG = np.random.default_rng(0)
POINTS = RNG.normal(3, 2, (40, 2)).astype(np.float32)
IMAGES = RNG.integers(0, 256, (40, 4, 4), dtype=np.uint8)
WORDS = ["cat", "dog"] * 20


@pytest.mark.parametrize(
    ("x", "y", "options"),
    [
        (POINTS, None, {}),
        (POINTS, POINTS[:, 0], {"seed": 3, "split": (0.5, 0.25, 0.25)}),
        (IMAGES, WORDS, {"binarize": "threshold"}),
        (POINTS[:, :, None], None, {"kind": "sequence"}),
    ],
)
def test_arrays_are_what_a_file_of_them_is(x: Any, y: Any, options: dict[str, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "file.npz", **({"x": x} if y is None else {"x": x, "y": y}))
    read, held = load(tmp_path / "file.npz", **options), from_arrays(x, y, name="file", **options)
    assert (held.hash, held.schema, held.describe()) == (read.hash, read.schema, read.describe())
    np.testing.assert_array_equal(held.train.x, read.train.x)
    assert held.source == {}


def test_arrays_on_a_device_are_taken_and_later_changes_are_not_seen() -> None:
    x = RNG.uniform(size=(40, 4, 4)).astype(np.float32)
    data = from_arrays(x)
    assert from_arrays(jnp.asarray(x)).hash == data.hash
    before = data.train.x.copy()
    x[:] = 0
    np.testing.assert_array_equal(data.train.x, before)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (POINTS[0, 0], None, r"from_arrays\(x=...\): shape \(\), type float32"),
        (POINTS[:0], None, r"shape \(0, 2\)"),
        (POINTS.astype(np.complex64), None, "type complex64"),
        (POINTS, np.array([None] * 40), r"from_arrays\(y=...\): .* type object"),
    ],
)
def test_what_is_no_array_of_examples_is_refused(x: Any, y: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        from_arrays(x, y)


def test_bad_rows_are_told_and_can_be_left_out() -> None:
    x = POINTS.copy()
    x[7] = np.nan
    with pytest.raises(DataError, match=r"1 of 40 examples cannot be read; first: arrays row 7 .NaN"):
        from_arrays(x)
    assert from_arrays(x, bad="skip").skipped == (("arrays row 7", "NaN or infinite"),)
    with pytest.raises(DataError, match="39 targets for 40 examples"):
        from_arrays(POINTS, WORDS[:39])


def test_bad_examples_are_counted_without_a_command_that_cannot_know_them() -> None:
    x = np.ones((10, 3))
    x[3, 1] = np.nan
    with pytest.raises(DataError, match=r"1 of 10 examples cannot be read") as caught:
        from_arrays(x)
    assert "data check" not in caught.value.remedy
