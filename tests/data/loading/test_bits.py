"""Images with fewer bits than they came with."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.core.errors import DataError
from chainrule.data import check, from_arrays, load
from chainrule.data.inputs.images import inputs
from chainrule.data.inputs.protocol import Preparation
from chainrule.data.loading.others import load_other

CLOTHES = "fashion-mnist-subset"


def test_the_highest_bits_are_kept_and_count_levels_of_their_own() -> None:
    whole, five = load(CLOTHES), load(CLOTHES, bits=5)
    assert (five.schema.levels, whole.schema.levels) == (32, 256)
    np.testing.assert_array_equal(five.train.arrays["x"], whole.train.arrays["x"] // 8)
    np.testing.assert_allclose(five.train.x.max(), 1)
    assert load(**five.source).hash == five.hash != whole.hash
    # a uniform density over 32 levels
    nothing = -five.scaling.log_volume(five.schema.dimensions)
    uniform = nothing - five.schema.dimensions * np.log(32.0)
    assert five.bits_per_dim(uniform) == pytest.approx(5)


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("digits", {"bits": 4}, "17 levels, which is no whole number of bits"),
        (CLOTHES, {"bits": 8}, "8 bits already"),
        (CLOTHES, {"bits": 3, "binarize": "threshold"}, "zeros and ones have one bit"),
    ],
)
def test_what_has_no_bits_to_drop_is_refused(source: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words) as refused:
        load(source, **options)
    assert "leave data.bits out" in str(refused.value)
    assert not check(source, **options).ok


def test_fractions_and_tables_keep_their_numbers() -> None:
    with pytest.raises(DataError, match="hold fractions"):
        from_arrays(np.random.default_rng(0).random((20, 4, 4)), bits=3)
    with pytest.raises(DataError, match="table data keep their numbers"):
        from_arrays(np.arange(60.0).reshape(20, 3), bits=3)


def test_new_images_and_other_sources_lose_the_same_bits(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    x = draw.integers(0, 256, (30, 4, 4), np.uint8)
    np.savez(tmp_path / "one.npz", x=x)
    data = load(tmp_path / "one.npz", bits=3)
    prepared = Preparation(data.schema, data.scaling, None, dict(data.source))
    for given in (x, x / 255):
        (chunk,) = inputs(given, prepared).chunks(100)
        np.testing.assert_allclose(chunk.x[..., 0], (x // 32) / 7, rtol=1e-6)
    other = load_other(tmp_path / "one.npz", prepared)
    np.testing.assert_allclose(other.test.x[..., 0], (x // 32) / 7, rtol=1e-6)
