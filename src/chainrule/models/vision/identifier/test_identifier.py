"""Identities: what is divided, learnt, found in a gallery, and turned to the front."""

from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import chainrule as cr
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.data import Batch, Data, check, load
from chainrule.data.targets.identity import numbers_of
from chainrule.models.vision.identifier.model import Pose
from chainrule.train import Run, fit
from chainrule.train.identifying import NOBODY, of_run

TINY = {"width": 4, "stages": 2, "features": 8, "hidden": 4, "scale": 8.0}


@pytest.fixture(scope="module")
def heads() -> Data:
    return load("heads", identities=30, n=5, size=16)


@pytest.fixture(scope="module")
def run(heads: Data, tmp_path_factory: pytest.TempPathFactory) -> Run:
    model = cr.models.build("identifier", heads, **TINY)
    return fit(model, heads, run=tmp_path_factory.mktemp("runs") / "heads", steps=20, batch=32, eval_every=20)


def batch_of(data: Data, split: str = "train", n: int = 12) -> Batch:
    return jax.tree.map(jnp.asarray, data.split(split).batch(np.arange(n)))


def test_no_identity_is_in_two_splits_and_those_of_training_come_first(heads: Data) -> None:
    parts = [set(numbers_of(split.y).tolist()) for split in (heads.train, heads.val, heads.test)]
    assert [len(part) for part in parts] == [24, 3, 3]
    assert set.union(*parts) == set(range(30))
    assert parts[0] == set(range(len(heads.schema.classes)))
    assert load(**heads.source).hash == heads.hash


def people(folder: Path, data: Data, known: int = 6, images: int = 3) -> Path:
    """Images of some identities in a folder for each."""
    rows = [np.flatnonzero(numbers_of(data.train.y) == k)[:images] for k in range(known)]
    for k, own in enumerate(rows):
        for row in own.tolist():
            path = folder / f"who {k}" / f"{row}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(data.train.arrays["x"][row]).save(path)
    return folder


def test_folders_and_lists_are_identities_when_one_says_so(heads: Data, tmp_path: Path) -> None:
    folder = people(tmp_path / "people", heads)
    data = load(folder, target_as="identity")
    assert (data.schema.target, data.schema.target_shape) == ("identity", ())
    assert load(folder).schema.target == "class"
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.png"))
    lines = ["file,who,degrees", *(f"{name},{10 + i // 3},{5 * i}" for i, name in enumerate(files))]
    (folder / "list.csv").write_text("\n".join(lines))
    listed = load(folder, labels="list.csv", target_as="identity")
    assert listed.schema.target_shape == (2,)
    assert set(listed.schema.classes) < {str(10 + k) for k in range(6)}
    alone = load(folder, labels="list.csv", target="who", target_as="identity")
    assert alone.schema.target_shape == ()
    wide = [f"{line},{'x' if i else 'more'}" for i, line in enumerate(lines)]
    (folder / "list.csv").write_text("\n".join(wide))
    with pytest.raises(DataError, match="identities need one column"):
        load(folder, labels="list.csv", target_as="identity")
    two = check(people(tmp_path / "two", heads, known=2), target_as="identity")
    assert "2 identities: training, validation and test need at least one each" in str(two.problems)


def test_for_new_identities_the_loss_is_that_of_pairs(heads: Data) -> None:
    model = cr.models.build("identifier", heads, **TINY)
    call = eqx.filter_jit(lambda model, batch: model.loss(batch, jax.random.key(0)))
    batch = batch_of(heads, "val")
    loss, metrics = call(model, batch)
    assert float(loss) == pytest.approx(float(metrics["pairs"]) + 0 * float(metrics["pose"]))
    own, parts = call(model, batch_of(heads))
    assert abs(float(own) - float(parts["pairs"])) > 0.1
    # An example of an unknown identity among known ones costs nothing.
    mixed = batch_of(heads)
    y = np.array(mixed.y)
    y[0, 0] = 29
    one = jax.tree.map(lambda leaf: leaf[1:], mixed)
    assert float(call(model, mixed._replace(y=jnp.asarray(y)))[0]) == pytest.approx(
        float(call(model, one)[0]), rel=0.2
    )


@pytest.mark.parametrize("loss", ["softmax", "triplet"])
def test_every_loss_has_gradients(heads: Data, loss: str) -> None:
    model = cr.models.build("identifier", heads, **TINY, objective=loss)
    assert model.config.margin == (0.2 if loss == "triplet" else 0.5)  # type: ignore[attr-defined]
    slope = eqx.filter_jit(eqx.filter_grad(lambda model, batch: model.loss(batch, jax.random.key(0))[0]))
    found = slope(model, batch_of(heads, n=40)).encoder.entry.weight
    assert np.isfinite(found).all()
    assert np.asarray(found).any()


def test_the_residual_is_nothing_at_the_front_and_all_of_it_at_the_side() -> None:
    pose = Pose(6, 5, jax.random.key(0))
    f = jax.random.normal(jax.random.key(1), (3, 6))
    whole = pose.frontal(f, jnp.ones(3)) - f
    moved = pose.frontal(f, jnp.array([0.0, 0.5, 1.0])) - f
    np.testing.assert_allclose(moved, whole * np.array([[0.0], [0.5], [1.0]]), atol=1e-6)


def test_frontal_vectors_are_remembered_by_identity(heads: Data, run: Run) -> None:
    fronts = np.asarray(run.model.fronts)  # type: ignore[attr-defined]
    assert np.abs(fronts).sum(axis=1).astype(bool).mean() > 0.5
    few = cr.models.build("identifier", heads, **{**TINY, "scale": 3.0}).config
    assert (few.scale, few.margin) == (3.0, 0.2)  # type: ignore[attr-defined]
    still = cr.models.build("identifier", heads, **{**TINY, "pose": False})
    assert still.pose is None  # type: ignore[attr-defined]
    plain = replace(heads.schema, target_shape=())
    with pytest.raises(ArgumentError, match="do not say how far anything is turned"):
        cr.models.build("identifier", plain, **TINY, pose=True)


def test_scores_are_of_identities_that_training_has_not_seen(run: Run) -> None:
    found = run.score("test")
    assert found["new_identities"].value == 3
    assert {"eer", "roc_auc", "rank_1", "tar_at_far_1e-1", "loss"} <= found.keys()
    assert "tar_at_far_1e-3" not in found, "75 impostors cannot tell a thousandth"
    assert found["eer"].unit == "of 30 pairs of one identity and 75 of two"


def test_new_images_are_looked_for_in_a_gallery(heads: Data, run: Run, tmp_path: Path) -> None:
    gallery, inbox = people(tmp_path / "gallery", heads, images=1), people(tmp_path / "inbox", heads)
    (inbox / "who 0" / "broken.png").write_bytes(b"no image")
    with pytest.raises(CapabilityError, match=r"(?s)needs some to compare with.*gallery=FOLDER"):
        run.predict(inbox)
    found = run.predict(inbox, gallery=gallery)
    assert list(found.columns) == ["prediction", "cosine", "nearest"]
    assert [one.name for one in found.problems] == ["who 0/broken.png"]
    # An image that is in the gallery itself has a cosine of one with it.
    first = [i for i, name in enumerate(found.names) if (gallery / name).exists()]
    assert found["cosine"][first] == pytest.approx(1, abs=1e-4)
    assert [found["nearest"][i] for i in first] == [found.names[i].split("/")[0] for i in first]
    cut = of_run(run)
    assert ((found["cosine"] >= cut.value) == (found["prediction"] != NOBODY))[found["nearest"] != ""].all()
    assert (run.path / "verification.json").exists()
    assert 0 <= found.metrics["rank_1"].value <= 1
    assert any(f"{NOBODY} below a cosine of" in note for note in found.notes)
    with pytest.raises(ArgumentError, match="there is no such folder"):
        run.predict(inbox, gallery=tmp_path / "nowhere")


def test_other_models_have_no_gallery(tmp_path: Path) -> None:
    data = load("moons", n=40)
    other = fit(cr.models.build("mlp", data, width=4, depth=1), data, run=tmp_path / "moons", steps=1)
    with pytest.raises(CapabilityError, match="compares no identities"):
        other.predict(np.zeros((1, 2)), gallery=tmp_path)


def test_pictures_show_the_map_the_scores_and_the_worst_pairs(heads: Data, run: Run) -> None:
    names = [picture.name for picture in run.model.pictures(heads, jax.random.key(0))]  # type: ignore[attr-defined]
    assert names == ["embedding-map", "score-histograms", "roc", "worst-pairs"]
