"""Checkpoints of every release load for ever; what cannot be read is refused by name, with the way out."""

import json
import shutil
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from chainrule.core.errors import ArgumentError, CheckpointError
from chainrule.train import Run, checkpoints
from tests.trust.toys import go_on, mlp, newest, points

GOLDEN = Path(__file__).parents[1] / "reference" / "run-format-1"


def rewrite(checkpoint: Path, **changes: Any) -> None:
    """Change fields of a manifest (None removes one) the way somebody who knows the digest would."""
    file = checkpoint / "manifest.json"
    manifest = {n: v for n, v in (json.loads(file.read_text()) | changes).items() if v is not None}
    if "digest" not in changes:
        manifest["digest"] = checkpoints._digest(manifest)
    file.write_text(json.dumps(manifest))


def test_a_run_of_the_first_format_still_predicts_what_it_predicted() -> None:
    expected = json.loads((GOLDEN / "expected.json").read_text())
    run = Run.open(GOLDEN)
    assert run.step == expected["step"]
    predicted = run.model.predict(jnp.array(expected["inputs"]))  # type: ignore[attr-defined]
    np.testing.assert_allclose(predicted, expected["predicted"], rtol=1e-5)


def test_a_run_of_the_first_format_shows_its_history() -> None:
    run = Run.open(GOLDEN)
    assert run.status["status"] == "done"
    assert run.status["best"] == {"loss": pytest.approx(run.curve("loss", "val")[1].min()), "step": 12}
    assert run.curve("loss", "val")[0].tolist() == [4, 8, 12]
    assert run.schema.classes == ("odd", "even")


def test_a_run_of_the_first_format_can_be_gone_on_with(tmp_path: Path) -> None:
    run = go_on(Path(shutil.copytree(GOLDEN, tmp_path / "old")), steps=16)
    assert run.status["status"] == "done"
    assert run.checkpoints[-1] == 16


def test_a_checkpoint_of_an_optimiser_that_is_no_more_still_predicts(run: Path) -> None:
    """Optimisers change from version to version; going on may then be refused, using the model not."""
    tensors = safetensors.numpy.load_file(newest(run) / "state.safetensors")
    renamed = {name.replace("optimizers.model.", "optimizers.model.old."): a for name, a in tensors.items()}
    assert renamed.keys() != tensors.keys()
    shutil.rmtree(newest(run))
    checkpoints.save(run / "checkpoints", renamed, 12, {"best": {}})
    assert Run.open(run).model_at(12).predict(jnp.zeros((1, 2))).shape == (1, 2)  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError, match=r"it has no tensor 'optimizers\.model\.") as error:
        go_on(run, steps=16)
    assert "the version of Chainrule in the run's env.json" in error.value.remedy


@pytest.mark.parametrize("version", [0, 2, 99, "1", True, None, [1]])
@pytest.mark.parametrize("digest", ["its own", None], ids=["with digest", "without digest"])
def test_an_unknown_format_is_refused_by_name_with_the_way_out(run: Path, version: Any, digest: Any) -> None:
    file = newest(run) / "manifest.json"
    manifest = json.loads(file.read_text()) | {"format": version}
    del manifest["digest"]
    if digest:
        manifest["digest"] = checkpoints._digest(manifest)
    file.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=r"step-00000012 has format .* reads format 1") as error:
        _ = Run.open(run).model
    assert "env.json" in error.value.remedy
    assert not isinstance(error.value, checkpoints.DamagedError)
    with pytest.raises(CheckpointError, match="has format"):  # not passed over for an older one
        go_on(run)


@pytest.mark.parametrize("field", ["step", "sha256", "bytes", "tensors", "journal", "digest"])
def test_a_manifest_without_one_of_its_fields_is_damaged(run: Path, field: str) -> None:
    rewrite(newest(run), **{field: None})
    with pytest.raises(checkpoints.DamagedError, match="step-00000012"):
        _ = Run.open(run).model


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"width": 5},
            r"tensor 'model\.blocks\.0\.linear\.weight' is float32\[2, 4\], the model has float32\[2, 5\]",
        ),
        ({"depth": 3}, r"it has no tensor 'model\.blocks\.1\.linear\.weight'"),
        ({"depth": 1}, r"it has a tensor 'model\.blocks\.0\.linear\.\w+' that the model does not have"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused_naming_the_tensor(
    run: Path, settings: dict[str, int], says: str
) -> None:
    with pytest.raises(CheckpointError, match=f"does not belong to this model: {says}"):
        _ = Run.open(run, model=mlp(**settings)).model


@pytest.mark.parametrize(
    ("like", "says"),
    [
        (
            {"w": np.zeros((2, 3), np.float16)},
            r"tensor 'w' is float32\[2, 3\], the model has float16\[2, 3\]",
        ),
        (
            {"w": np.zeros((3, 2), np.float32)},
            r"tensor 'w' is float32\[2, 3\], the model has float32\[3, 2\]",
        ),
        ({"w": np.zeros(6, np.float32)}, r"tensor 'w' is float32\[2, 3\], the model has float32\[6\]"),
        ({"v": np.zeros((2, 3), np.float32)}, "it has no tensor 'v'"),
        ({}, "it has a tensor 'w' that the model does not have"),
    ],
)
def test_a_wrong_shape_type_or_name_is_refused_naming_the_tensor(
    tmp_path: Path, like: Any, says: str
) -> None:
    made = checkpoints.save(tmp_path, {"w": np.zeros((2, 3), np.float32)}, 1, {})
    with pytest.raises(CheckpointError, match=says):
        checkpoints.load(made, like)


def test_settings_that_do_not_fit_the_checkpoint_leave_the_run_as_it_was(run: Path) -> None:
    before = (run / "config.yaml").read_bytes()
    shutil.rmtree(newest(run))
    with pytest.raises(ArgumentError, match=r"ema=0\.5: toy cannot change this on the way"):
        go_on(run, ema=0.5)
    assert (run / "config.yaml").read_bytes() == before
    assert go_on(run).status["status"] == "done"


def test_new_settings_that_fit_are_kept(run: Path) -> None:
    go_on(run, data=points(), steps=16, optimizer={"lr": 0.01})
    settings = Run.open(run).settings
    assert (settings.steps, settings.optimizer.lr, settings.batch) == (16, 0.01, 8)
