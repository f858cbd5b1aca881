"""The split of images into live part and noise, its losses, scores and starter data."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import chainrule as cr
from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Data, check, load
from chainrule.data.generated.spoofs import CLASSES, SPOOFS
from chainrule.train import Run, fit
from chainrule.train.scores.spoof import presentation_errors


@pytest.fixture(scope="module")
def spoofs() -> Data:
    return load("spoofs", n=60, size=16)


@pytest.fixture(scope="module")
def run(spoofs: Data, tmp_path_factory: pytest.TempPathFactory) -> Run:
    model = cr.models.build("spoof-detector", spoofs, width=4)
    return fit(
        model, spoofs, run=tmp_path_factory.mktemp("runs") / "spoofs", steps=20, batch=16, eval_every=20
    )


def test_the_loss_is_what_the_paper_adds_up(spoofs: Data) -> None:
    model = cr.models.build(
        "spoof-detector", spoofs, width=4, margin=0.3, noise_weight=2, recomposition_weight=3
    )
    batch = jax.tree.map(jnp.asarray, spoofs.train.batch(np.arange(12)))
    loss, metrics = eqx.filter_jit(lambda m, b: m.loss(b, jax.random.key(0)))(model, batch)
    live, noise = (np.asarray(part) for part in eqx.filter_jit(lambda m, x: m.split(x))(model, batch.x))
    amplitude = np.abs(noise).mean(axis=(1, 2, 3))
    y, x = np.asarray(batch.y), np.asarray(batch.x)
    wrong = np.where(y == 0, amplitude, np.maximum(0.3 - amplitude, 0)).mean()
    apart = np.abs(x - live - noise).mean()
    assert float(metrics["noise"]) == pytest.approx(wrong, rel=1e-4)
    assert float(metrics["recomposition"]) == pytest.approx(apart, rel=1e-4)
    assert float(loss) == pytest.approx(float(metrics["cross_entropy"]) + 2 * wrong + 3 * apart, rel=1e-4)
    score = eqx.filter_jit(lambda m, x: m.spoof_score(x))(model, batch.x)
    np.testing.assert_allclose(score, amplitude, rtol=1e-4)


def test_scores_have_the_errors_of_the_standard(run: Run) -> None:
    found = run.score("test")
    assert {"spoof_eer", "spoof_roc_auc", "apcer", "bpcer", "acer", "spoof_threshold"} <= found.keys()
    assert found["acer"].value == pytest.approx((found["apcer"].value + found["bpcer"].value) / 2)
    assert found["apcer"].value == max(
        value.value for name, value in found.items() if name.startswith("apcer.")
    )
    passed, refused = presentation_errors(
        np.array([0.1, 0.2, 0.9, 0.3, 0.7]), np.array([1, 1, 1, 0, 2]), 1, 0.25
    )
    assert passed == {0: 0.0, 2: 0.0}
    assert refused == pytest.approx(1 / 3)


def test_predictions_have_a_column_for_the_noise(run: Run) -> None:
    x = run.data.test.x
    found = run.predict(run.data.inverse(x))
    assert list(found.columns) == ["prediction", "probability", *CLASSES, "spoof_score"]
    expected = eqx.filter_jit(lambda m, x: m.spoof_score(x))(run.model, jnp.asarray(x))
    np.testing.assert_allclose(found["spoof_score"], expected, atol=1e-5)


def test_which_class_is_live_has_to_be_said() -> None:
    data = load("digits")
    with pytest.raises(ArgumentError, match=r"(?s)there is no such class.*live=0"):
        cr.models.build("spoof-detector", data)
    assert cr.models.build("spoof-detector", data, live="3", width=2).live_class == 3  # type: ignore[attr-defined]


def test_pictures_show_the_split(run: Run) -> None:
    names = [picture.name for picture in run.model.pictures(run.data, jax.random.key(0))]  # type: ignore[attr-defined]
    assert names == ["split", "score-histograms", "roc", "embedding-map"]


def test_spoofs_are_made_of_any_images_each_used_once(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    folder = tmp_path / "photos"
    folder.mkdir()
    for k in range(25):
        flat = np.full((20, 24, 3), 10 * k, np.uint8)
        Image.fromarray(flat).save(folder / f"{k}.png")
    (folder / "broken.png").write_bytes(b"nothing")
    report = check("spoofs", images=str(folder), size=16)
    assert "photos/broken.png" in str(report.problems)
    with pytest.raises(DataError):
        load("spoofs", images=str(folder), size=16)
    data = load("spoofs", images=str(folder), size=16, bad="skip")
    assert sum(map(len, (data.train, data.val, data.test))) == 25
    assert len(data.skipped) == 1
    assert load(**data.source).hash == data.hash
    with pytest.raises(ArgumentError, match="a folder of images that exists"):
        load("spoofs", images=str(tmp_path / "nowhere"))
    flat = np.full((16, 16, 3), 0.5)
    for name, spoof in SPOOFS.items():
        assert np.abs(spoof(noise, flat) - flat).mean() > 0.02, name
