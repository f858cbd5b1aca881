"""Masks of a trained run for new images: PNG files in the size of each, rows of the table, scores of known masks."""

import csv
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from chainrule import data, models
from chainrule.core.errors import CapabilityError, DataError
from chainrule.data import Batch, Scaling, Schema
from chainrule.data.generated.shapes import CLASSES, scene
from chainrule.data.inputs.protocol import Preparation
from chainrule.data.inputs.scenes import beside
from chainrule.data.loading.others import load_other
from chainrule.data.placement import Placement
from chainrule.train import Run, augmentation, fit, scores
from chainrule.train.config import Augment
from chainrule.train.segmenting import restored, tiled

SIDE = 32
TRAINING = {"steps": 2, "batch": 4, "log_every": 1, "eval_every": 1, "save_every": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A segmenter that has learnt next to nothing."""
    loaded = data.load("shape-masks", n=30, size=SIDE)
    toy = models.entry("segmenter").toy
    folder = tmp_path_factory.mktemp("runs") / "shape-masks"
    return fit(models.build("segmenter", loaded, **toy), loaded, run=folder, **TRAINING)


def written_scene(folder: Path, name: str, size: int, **values: int) -> np.ndarray:
    """An image with its mask; `values` put other numbers in the place of classes."""
    one = scene(np.random.default_rng(0), size, 3)
    mask = one.mask.copy()
    for old, new in values.items():
        mask[mask == int(old[1:])] = new
    for part in ("images", "masks"):
        (folder / part).mkdir(exist_ok=True)
    Image.fromarray(one.image).save(folder / "images" / f"{name}.png")
    Image.fromarray(mask).save(folder / "masks" / f"{name}.png")
    return mask


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of three sizes with masks, one of them of a class that there is none of, and one that cannot be read."""
    folder = tmp_path_factory.mktemp("photos")
    for name, size in (("large", 50), ("same", SIDE), ("small", 20)):
        written_scene(folder, name, size)
    mask = np.full((SIDE, SIDE), 9, np.uint8)
    mask[0] = 7
    Image.fromarray(np.zeros((SIDE, SIDE, 3), np.uint8)).save(folder / "images" / "strange.png")
    Image.fromarray(mask).save(folder / "masks" / "strange.png")
    (folder / "images" / "torn.png").write_bytes(b"nothing")
    return folder


def test_every_image_has_a_mask_of_its_own_size_and_a_row(run: Run, photos: Path, tmp_path: Path) -> None:
    written = run.write_predictions(photos, tmp_path)
    with written.path.open() as file:
        rows = {Path(row["name"]).stem: row for row in csv.DictReader(file)}
    assert list(rows) == ["large", "same", "small", "strange", "torn"]
    shares = [f"share {name}" for name in ("ground", *CLASSES)]
    assert list(rows["large"]) == ["name", "prediction", "probability", *shares, "mask"]
    for name, size in (("large", 50), ("same", SIDE), ("small", 20)):
        with Image.open(tmp_path / rows[name]["mask"]) as image:
            assert image.size == (size, size)
            assert image.mode == "P"
            mask = np.asarray(image)
        found = [(mask == k).mean() for k in range(5)]
        np.testing.assert_allclose([float(rows[name][share]) for share in shares], found, atol=1e-6)
        there = [k for k in range(1, 5) if found[k]]
        assert rows[name]["prediction"] == ", ".join(CLASSES[k - 1] for k in there)
    assert not any(value for key, value in rows["torn"].items() if key != "name")
    assert [Path(one.name).stem for one in written.problems] == ["torn"]
    assert (tmp_path / "classes.txt").read_text().split() == ["ground", *CLASSES]


def test_written_masks_are_data_again(run: Run, photos: Path, tmp_path: Path) -> None:
    run.write_predictions(sorted((photos / "images").glob("*e.png")), tmp_path)
    (tmp_path / "images").mkdir()
    for name in ("large", "same"):
        (tmp_path / "images" / f"{name}.png").write_bytes((photos / "images" / f"{name}.png").read_bytes())
    other = load_other(tmp_path, run.preparation)
    assert other.test.arrays["y"].shape == (2, SIDE, SIDE)


def test_known_masks_give_scores_and_strange_ones_are_named_with_their_values(run: Run, photos: Path) -> None:
    found = run.predict(photos)
    assert {"miou", "dice", "pixel_accuracy", "iou.ground"} <= found.metrics.keys()
    said = " ".join(found.notes)
    assert "strange.png" in said
    assert "it holds 7, 9; the classes of the run are 0, 1, 2, 3, 4" in said
    assert "1 images are larger than the 32×32 of training" in said
    sizes = [50**2, SIDE**2, 20**2]
    support = sum(
        found.metrics[f"support.{name}"].value
        for name in ("ground", *CLASSES)
        if f"support.{name}" in found.metrics
    )
    assert support == sum(sizes)


def test_a_mask_of_another_size_than_its_image_is_named(run: Run, photos: Path, tmp_path: Path) -> None:
    written_scene(tmp_path, "a", 20)
    Image.fromarray(np.zeros((10, 12), np.uint8)).save(tmp_path / "masks" / "a.png")
    found = run.predict(tmp_path)
    assert not found.metrics
    assert "the mask has 12×10 pixels, the image 20×20" in " ".join(found.notes)


def test_the_list_of_classes_beside_new_masks_says_what_their_values_are(run: Run, tmp_path: Path) -> None:
    mask = written_scene(tmp_path, "a", SIDE)
    Image.fromarray(np.array([1, 0, 2, 3, 4], np.uint8)[mask]).save(tmp_path / "masks" / "a.png")
    (tmp_path / "classes.txt").write_text("\n".join((CLASSES[0], "ground", *CLASSES[1:])))
    found = run.predict(tmp_path).metrics
    assert found["support.ground"].value == (mask == 0).sum() != (mask == 1).sum()
    (tmp_path / "classes.txt").write_text("sun\nmoon")
    assert "classes.txt names no class of the run" in " ".join(run.predict(tmp_path).notes)


def test_masks_of_classes_called_by_other_numbers_are_scored(tmp_path: Path) -> None:
    written = written_scene(tmp_path, "a", SIDE)
    (tmp_path / "classes.txt").write_text("9\n3\n40\n2\n7")
    size = SIDE, SIDE
    schema = Schema("image", (*size, 3), "mask", size, ("9", "3", "40", "2", "7"), levels=256)
    files = sorted(tmp_path.rglob("*.png"))
    (known,) = beside(tmp_path, files, files[:1], Preparation(schema, Scaling(0.0, 1 / 255)))
    np.testing.assert_array_equal(known(size, Placement(), size), written)
    (tmp_path / "classes.txt").unlink()
    values = np.array([9, 3, 40, 2, 7], np.uint8)[written]
    Image.fromarray(values).save(tmp_path / "masks" / "a.png")
    (known,) = beside(tmp_path, files, files[:1], Preparation(schema, Scaling(0.0, 1 / 255)))
    np.testing.assert_array_equal(known(size, Placement(), size), written)


def test_images_as_a_whole_are_scaled_and_their_masks_scaled_back(run: Run, photos: Path) -> None:
    large = photos / "images" / "large.png"
    whole, tiles = run.predict([large], tiled=False), run.predict([large], tiled=True)
    assert len(whole) == len(tiles) == 1
    assert whole["share ground"] != tiles["share ground"]
    assert not any("tiles" in note for note in whole.notes)


def test_arrays_and_images_of_pillow_are_taken_too(run: Run, photos: Path) -> None:
    x = run.data.inverse(run.data.test.batch(np.arange(2)).x)
    found = run.predict(x)
    expected = np.asarray(run.model.predict(jnp.asarray(run.data.test.batch(np.arange(2)).x)))
    np.testing.assert_allclose(
        found["share ground"], (expected.argmax(axis=-1) == 0).mean(axis=(1, 2)), atol=1e-6
    )
    assert len(run.predict(Image.open(photos / "images" / "small.png"))) == 1


def test_tiles_of_a_model_that_sees_one_pixel_are_the_whole(run: Run) -> None:
    x = np.random.default_rng(0).random((37, 70, 3)).astype(np.float32)
    found = tiled(lambda model, x: x, run.model, x, (16, 24))
    np.testing.assert_allclose(found, x, atol=1e-6)
    small = x[:5, :7]
    np.testing.assert_allclose(tiled(lambda model, x: x, run.model, small, (16, 24)), small, atol=1e-6)


def test_what_lies_on_a_canvas_comes_back_in_its_size() -> None:
    p = np.zeros((16, 16, 2), np.float32)
    p[4:12, :, 0] = 1.0
    at = Placement(0.5, 0, 4)
    found = restored(p, at, (16, 32))
    assert found.shape == (16, 32, 2)
    assert (found[..., 0] == 1).all()


def test_refinement_is_asked_for_by_name(run: Run, photos: Path) -> None:
    plain, fine = run.predict(photos), run.predict(photos, crf=True)
    assert not np.array_equal(plain["probability"], fine["probability"], equal_nan=True)
    assert run.score(n=2, crf=True)["miou"].value >= 0


def test_other_models_have_nothing_to_refine(tmp_path: Path) -> None:
    loaded = data.load("digits")
    model = models.build("mlp", loaded, **models.entry("mlp").toy)
    other = fit(model, loaded, run=tmp_path / "run", steps=1, batch=8)
    with pytest.raises(CapabilityError, match="crf: run gives pixels no class"):
        other.predict(np.zeros((1, 8, 8, 1)), crf=True)
    with pytest.raises(CapabilityError, match="tiled"):
        other.predict(np.zeros((1, 8, 8, 1)), tiled=False)
    with pytest.raises(CapabilityError, match="crf=true"):
        other.score(crf=True)


def test_other_images_with_masks_are_scored_by_the_names_of_their_classes(run: Run, tmp_path: Path) -> None:
    mask = written_scene(tmp_path, "a", SIDE)
    (tmp_path / "classes.txt").write_text("\n".join(("ground", *CLASSES)))
    other = load_other(tmp_path, run.preparation)
    np.testing.assert_array_equal(other.test.arrays["y"][0], mask)
    assert scores.score(run.model, other)["support.ground"].value == (mask == 0).sum()
    (tmp_path / "classes.txt").write_text("ground\nmoon\ncircle\nstar\ntriangle")
    with pytest.raises(DataError):
        load_other(tmp_path, run.preparation)


def test_the_score_of_a_run_names_every_class_and_is_watched(run: Run, tmp_path: Path) -> None:
    found = scores.score(run.model, run.data)
    assert {"miou", "dice", "pixel_accuracy", "iou.ground", "loss"} <= found.keys()
    again = fit(
        models.build("segmenter", run.data, **models.entry("segmenter").toy),
        run.data,
        run=tmp_path / "run",
        best="miou",
        **TRAINING,
    )
    assert 0 <= again.status["best"]["miou"] <= 1


def test_masks_move_with_the_images_of_training(run: Run) -> None:
    x, y = np.zeros((8, SIDE, SIDE, 3), np.float32), np.zeros((8, SIDE, SIDE), np.uint8)
    x[:, 6:16, 8:20], y[:, 6:16, 8:20] = 1.0, 3
    settings = Augment(flip=True, crop=5)
    augmentation.check(settings, run.data.train, run.model)
    found = augmentation.augmented(
        Batch(jnp.asarray(x), jnp.asarray(y)), jax.random.key(0), settings, run.model
    )
    assert not np.array_equal(found.y, y)
    assert np.array_equal(np.asarray(found.x)[..., 0] > 0.5, np.asarray(found.y) == 3)
