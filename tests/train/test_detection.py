"""Detections of a trained run for new images: a row for each box, in pixels of the file, and scores of known boxes."""

import csv
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from chainrule import data, models
from chainrule.data import Batch
from chainrule.data.loading.others import load_other
from chainrule.train import Run, augmentation, fit, scores
from chainrule.train.config import Augment
from chainrule.train.scores.detection import detection

MOST = 4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A detector that has learnt nothing and says something all the same."""
    loaded = data.load("shapes", n=30)
    toy = {**models.entry("detector").toy, "most": MOST, "least": 0.0}
    folder = tmp_path_factory.mktemp("runs") / "shapes"
    training = {"steps": 1, "batch": 4, "log_every": 1, "eval_every": 1, "save_every": 1}
    return fit(models.build("detector", loaded, **toy), loaded, run=folder, **training)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two images of another size with boxes, and one that cannot be read."""
    folder = tmp_path_factory.mktemp("photos")
    for name, size in (("a.png", (128, 64)), ("b.png", (32, 32))):
        pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
        Image.fromarray(pixels).save(folder / name)
    (folder / "c.png").write_bytes(b"nothing")
    rows = ["file,x0,y0,x1,y1,class", "a.png,0,0,128,64,star", "b.png,4,4,8,8,moon"]
    (folder / "boxes.csv").write_text("\n".join(rows))
    return folder


def test_every_box_has_a_row_in_pixels_of_its_file(run: Run, photos: Path, tmp_path: Path) -> None:
    written = run.write_predictions(photos, tmp_path)
    with written.path.open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["name", "prediction", "probability", "x0", "y0", "x1", "y1"]
    assert [row["name"] for row in rows] == ["a.png"] * MOST + ["b.png"] * MOST + ["c.png"]
    assert not any(value for name, value in rows[-1].items() if name != "name")
    assert written.total == 3
    boxes = np.array([[float(row[edge]) for edge in ("x0", "y0", "x1", "y1")] for row in rows[:-1]])
    wide, small = boxes[:MOST], boxes[MOST:]
    assert wide[:, 2].max() > 64  # the image was halved, and is given back whole
    assert small.max() <= 32
    assert {row["prediction"] for row in rows[:-1]} <= set(run.schema.classes)
    assert [one.name for one in written.problems] == ["c.png"]


def test_scores_are_those_of_images_whose_classes_the_run_knows(run: Run, photos: Path) -> None:
    found = run.predict(photos)
    assert {"map50", "map", "ap50.star"} <= found.metrics.keys()
    assert any("targets of 1 images are not known" in note for note in found.notes)
    alone = run.predict(photos / "b.png")
    assert set(alone.names) == {"b.png"}
    assert not alone.metrics


def test_images_of_pillow_and_arrays_are_taken_too(run: Run, photos: Path) -> None:
    found = run.predict([Image.open(photos / "a.png"), np.zeros((64, 64, 3), np.uint8)])
    assert found.names == ("0",) * MOST + ("1",) * MOST


def test_other_images_with_boxes_are_scored_as_a_whole(run: Run, photos: Path, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes((photos / name).read_bytes())
    (tmp_path / "boxes.csv").write_text(
        "file,x0,y0,x1,y1,class\na.png,0,0,128,64,star\nb.png,4,4,8,8,circle\n"
    )
    other = load_other(tmp_path, run.preparation)
    assert other.test.arrays["x"].shape == (2, 64, 64, 3)
    assert other.test.arrays["y"][0, 0].tolist() == [0, 16, 64, 48, 3]
    assert other.test.arrays["y"][1, 0].tolist() == [8, 8, 16, 16, 0]
    assert {"map50", "ap50.star", "ap50.circle"} <= scores.score(run.model, other).keys()


def test_perfect_detections_score_one_and_classes_without_objects_are_left_out() -> None:
    objects = np.array([[[1.0, 1, 9, 9, 0], [0, 0, 0, 0, -1]]])
    detected = np.array([[[1.0, 1, 9, 9, 0.9, 0], [0, 0, 0, 0, 0, -1]]])
    found = detection(detected, objects, ["cat", "dog"])
    assert found["map50"].value == found["map"].value == 1
    assert "ap50.dog" not in found


def test_the_score_of_a_run_names_every_class(run: Run) -> None:
    found = scores.score(run.model, run.data)
    assert {"map50", "map75", "map"} <= found.keys()
    assert found["map50"].value <= 1


def test_boxes_move_with_the_images_of_training(run: Run) -> None:
    x, y = np.zeros((16, 64, 64, 3), np.float32), np.zeros((16, 2, 5), np.float32)
    x[:, 20:30, 12:40] = 1.0
    y[:, 0], y[:, 1, 4] = (12, 20, 40, 30, 3), -1
    settings = Augment(flip=True, crop=5)
    augmentation.check(settings, run.data.train, run.model)
    found = augmentation.augmented(
        Batch(jnp.asarray(x), jnp.asarray(y)), jax.random.key(0), settings, run.model
    )
    assert not np.array_equal(found.y[:, 0], y[:, 0])
    for image, boxes in zip(np.asarray(found.x), np.asarray(found.y), strict=True):
        rows, columns = np.nonzero(image[..., 0])
        assert boxes[0].tolist() == [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1, 3]
        assert boxes[1, 4] == -1


def test_a_box_that_has_left_its_image_is_no_target(run: Run) -> None:
    x, y = np.zeros((8, 64, 64, 3), np.float32), np.zeros((8, 1, 5), np.float32)
    y[:, 0] = (0, 0, 4, 4, 1)
    found = augmentation.augmented(
        Batch(jnp.asarray(x), jnp.asarray(y)), jax.random.key(0), Augment(crop=20), run.model
    )
    sides = (found.y[:, 0, 2:4] - found.y[:, 0, :2]).min(axis=-1)
    assert np.array_equal(found.y[:, 0, 4] == -1, sides < 2)
    assert (found.y[:, 0, 4] == -1).any()
