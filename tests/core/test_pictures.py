"""Pictures are plain frozen records that need no plotting library."""

import dataclasses
import typing

import numpy as np
import pytest

from chainrule.core import pictures


def test_every_picture_has_a_name_a_title_and_a_caption() -> None:
    kinds = typing.get_args(pictures.Picture)
    assert {kind.__name__ for kind in kinds} == set(pictures.__all__) - {"Picture", "Footnote", "Mark"}
    for kind in kinds:
        assert {"name", "title", "caption"} <= {field.name for field in dataclasses.fields(kind)}


def test_a_picture_cannot_be_changed_after_it_was_made() -> None:
    picture = pictures.Lines("loss", "Loss", "step", "nats", {"train": (np.arange(3), np.ones(3))})
    with pytest.raises(dataclasses.FrozenInstanceError):
        picture.title = "Other"  # type: ignore[misc]


def test_optional_parts_are_off_by_default() -> None:
    table = pictures.Table("scores", "Scores", ["model", "bits"])
    assert table.rows == ()
    scatter = pictures.Scatter("plane", "Plane", "x", "y", {"data": np.zeros((3, 2))})
    assert scatter.field is None
    assert scatter.arrows is None
