"""Samples of every kind of data become a picture that suits them."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models, train
from chainrule.core.pictures import Images, Lines, Scatter, Table
from chainrule.data import Data, Rows, Scaling, Schema, kinds
from chainrule.models.protocol import CanSample
from chainrule.report import draw
from chainrule.report.gallery import prediction_pictures
from chainrule.report.samples import classes_to_show
from tests.report.conftest import Everything

LETTERS = tuple("ab\n<")


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (Schema("image", (4, 4, 1), levels=17), Images),
        (Schema("image", (4, 4, 3)), Images),
        (Schema("image", (4, 4, 2)), Table),
        (Schema("points", (2,)), Scatter),
        (Schema("points", (1,)), Table),
        (Schema("table", (3,), columns=("a", "b", "c")), Table),
        (Schema("text", (6,), tokens=LETTERS), Table),
        (Schema("sequence", (7, 2)), Lines),
    ],
    ids=lambda value: f"{value.kind}{value.shape}" if isinstance(value, Schema) else value.__name__,
)
def test_every_kind_of_data_has_its_picture(schema: Schema, kind: type[Any]) -> None:
    drawn = np.random.default_rng(0).integers(0, 4, (5, *schema.shape))
    picture = kinds.of(schema).picture(schema, drawn)
    assert isinstance(picture, kind)
    assert draw(picture).startswith("<svg")


def test_text_is_read_back_from_its_symbols() -> None:
    schema = Schema("text", (4,), tokens=LETTERS)
    picture = kinds.of(schema).picture(schema, np.array([[0, 1, 2, 3]]))
    assert isinstance(picture, Table)
    assert picture.rows == [["ab\n<"]]


def test_pixels_are_scaled_by_their_levels() -> None:
    schema = Schema("image", (1, 2, 1), levels=17)
    picture = kinds.of(schema).picture(schema, np.array([[[[0.0], [16.0]]]]))
    assert isinstance(picture, Images)
    np.testing.assert_array_equal(picture.images.ravel(), [0, 1])


def test_points_stand_beside_the_data_and_by_their_class() -> None:
    schema = Schema("points", (2,), target="class", classes=("a", "b"))
    drawn = np.arange(8.0).reshape(4, 2)
    picture = kinds.of(schema).picture(schema, drawn, ["a", "b", "a", "b"], real=np.zeros((3, 2)))
    assert isinstance(picture, Scatter)
    assert {name: len(points) for name, points in picture.groups.items()} == {"data": 3, "a": 2, "b": 2}


@pytest.mark.parametrize(("classes", "each"), [(3, 33), (10, 10), (180, 1)])
def test_conditional_models_show_every_class_in_turn(classes: int, each: int) -> None:
    schema = Schema("image", (2, 2, 1), target="class", classes=tuple(map(str, range(classes))))
    n = kinds.of(schema).sample_count
    chosen = classes_to_show(Everything(jnp.zeros((classes, 4)), schema), schema, n)
    assert chosen is not None
    assert len(chosen) == min(n, each * classes)
    np.testing.assert_array_equal(chosen[:3], [0, 1, 2])


@pytest.mark.parametrize("conditional", [True, False])
def test_a_diffusion_model_shows_its_classes_only_if_it_learned_them(conditional: bool) -> None:
    schema = Schema("points", (2,), target="class", classes=("a", "b"))
    model = models.build("diffusion", schema, width=4, depth=1, conditional=conditional)
    assert isinstance(model, CanSample)
    assert (classes_to_show(model, schema, 4) is not None) == conditional


def test_values_are_shown_in_the_units_of_the_data(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)).astype(np.float32)
    y = (100 + 10 * x[:, 0]).astype(np.float32)
    to_model = Scaling(100.0, 0.1)
    schema = Schema("table", (3,), target="value", columns=("a", "b", "c"))
    parts = [
        Rows({"x": x[i], "y": y[i]}, Scaling(), to_model) for i in (slice(24), slice(24, 32), slice(32, 40))
    ]
    data = Data("line", schema, *parts, Scaling(), to_model, "0" * 64, {})
    run = train.fit(models.build("mlp", data, width=4), data, run=tmp_path / "run", steps=2, batch=8)
    scatter, residuals = prediction_pictures(run)
    assert isinstance(scatter, Scatter)
    (points,) = scatter.groups.values()
    np.testing.assert_allclose(points[:, 0], y[32:], rtol=1e-6)
    np.testing.assert_allclose(
        np.square(points[:, 1] - points[:, 0]).mean() ** 0.5, run.score()["rmse"].value, rtol=1e-5
    )
    assert residuals.title == "Residuals"
