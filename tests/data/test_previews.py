from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Bars, Images, Lines, Scatter, Table
from chainrule.data import excerpt, load, preview
from tests.data import corpus


def test_images_are_shown_between_zero_and_one_with_their_classes() -> None:
    (picture,) = preview(load("digits"))
    assert isinstance(picture, Images)
    assert picture.images.shape == (30, 8, 8, 1)
    assert (picture.images.min(), picture.images.max()) == (0, 1)
    assert set(picture.labels) == {str(i) for i in range(10)}


def test_points_are_shown_by_class_in_their_own_units() -> None:
    (picture,) = preview(load("rings", noise=0))
    assert isinstance(picture, Scatter)
    assert list(picture.groups) == ["inner", "middle", "outer"]
    assert np.allclose(np.linalg.norm(picture.groups["outer"], axis=1), 1.8, atol=1e-5)
    (plain,) = preview(load("checkerboard"))
    assert isinstance(plain, Scatter)
    assert list(plain.groups) == ["points"]


def test_tables_are_shown_in_their_own_units_with_their_targets(tmp_path: Path) -> None:
    (picture,) = preview(load(corpus.flowers(tmp_path / "flowers.csv"), drop="colour", kind="table"))
    assert isinstance(picture, Table)
    assert picture.columns == ["length", "weight", "class"]
    text = (tmp_path / "flowers.csv").read_text()
    for length, _, species in picture.rows:
        assert any(
            line.startswith(f"{length:.3f},") and line.endswith(str(species)) for line in text.splitlines()
        )
    (values,) = preview(load(tmp_path / "flowers.csv", target="weight"))
    assert isinstance(values, Table)
    assert values.columns[-1] == "value"


def test_texts_are_shown_by_their_symbols_and_an_excerpt() -> None:
    data = load("shakespeare")
    (picture,) = preview(data)
    assert isinstance(picture, Bars)
    assert picture.positions[0] == "␣"
    assert "\\n" in picture.positions
    assert excerpt(data, 12) == "FIRST WITCH."
    with pytest.raises(ArgumentError, match="only a text by itself has an excerpt"):
        excerpt(load("moons"))


def test_sequences_are_shown_as_curves(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.random.default_rng(0).normal(7, 3, (20, 5, 2)))
    (picture,) = preview(load(tmp_path / "s.npy", kind="sequence"))
    assert isinstance(picture, Lines)
    assert len(picture.series) == 8
