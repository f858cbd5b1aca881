"""Runs of an earlier version, whose settings and arrays had other names, go on working."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
import yaml

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError, CheckpointError
from chainrule.data import load, readers
from chainrule.models.supervised import mlp as registered
from chainrule.train import Run, checkpoints, config, fit, former, resume
from tests.trust.toys import go_on, mlp, points, train

INPUTS = jnp.array([[0.5, 0.5], [-0.5, 0.5], [2.0, -1.0]])
OLD_SETTINGS = {"units": "width"}
OLD_ARRAYS = {"hidden.*.dense": "blocks.*.linear", "hidden": "blocks"}


@pytest.fixture(scope="module")
def present(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as it is written today, with averaged weights and a frozen layer."""
    return train(tmp_path_factory.mktemp("runs") / "toy", ema=0.9, freeze=("blocks.0.linear.bias",)).path


@pytest.fixture
def old(present: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same run as a version with other names would have written it, and a registry that knows those names."""
    path = Path(shutil.copytree(present, tmp_path / "toy"))
    stored = yaml.safe_load((path / "config.yaml").read_text())
    stored["model"]["settings"]["units"] = stored["model"]["settings"].pop("width")
    stored["train"]["lots"] = stored["train"].pop("batch")
    stored["train"]["freeze"] = ["hidden.0.dense.bias"]
    (path / "config.yaml").write_text(yaml.safe_dump(stored))
    rename(path, lambda name: name.replace("blocks", "hidden").replace("linear", "dense"))
    renamed = dataclasses.replace(registered.entry, former_settings=OLD_SETTINGS, former_arrays=OLD_ARRAYS)
    monkeypatch.setattr(registered, "entry", renamed)
    monkeypatch.setitem(config.FORMER_SETTINGS, "lots", "batch")
    return path


def rename(run: Path, change: Callable[[str], str]) -> None:
    """Write every checkpoint again, with tensors under other names."""
    store = run / "checkpoints"
    for step in checkpoints.steps(store):
        checkpoint = checkpoints.path(store, step)
        journal = checkpoints.read_manifest(checkpoint)["journal"]
        tensors = safetensors.numpy.load_file(checkpoint / "state.safetensors")
        shutil.rmtree(checkpoint)
        checkpoints.save(store, {change(name): array for name, array in tensors.items()}, step, journal)


def test_it_opens_and_predicts_the_same(present: Path, old: Path) -> None:
    one, other = Run.open(old).model, Run.open(present).model
    np.testing.assert_array_equal(one.predict(INPUTS), other.predict(INPUTS))  # type: ignore[attr-defined]
    assert Run.open(old).config == {**Run.open(present).config}


def test_going_on_gives_the_same_numbers_and_writes_present_names(
    present: Path, old: Path, tmp_path: Path
) -> None:
    one = go_on(old, steps=16)
    other = go_on(Path(shutil.copytree(present, tmp_path / "other")), steps=16)
    for path in (one.path, other.path):
        assert "units" not in (path / "config.yaml").read_text()
        assert "lots" not in (path / "config.yaml").read_text()
    assert one.curve("loss")[1].tolist() == other.curve("loss")[1].tolist()
    manifests = [checkpoints.read_manifest(r.path / "checkpoints" / "step-00000016") for r in (one, other)]
    assert manifests[0]["sha256"] == manifests[1]["sha256"]


def test_another_run_can_begin_with_it(old: Path) -> None:
    source = Run.open(old).model
    begun = models.begin("mlp", source, points(), fresh=["head"])
    np.testing.assert_array_equal(begun.blocks[0].linear.weight, source.blocks[0].linear.weight)  # type: ignore[attr-defined]


def test_python_says_the_present_name(old: Path) -> None:
    with pytest.raises(ArgumentError, match=r"unknown setting 'units' \(did you mean 'width'\?\)"):
        mlp(units=3)
    with pytest.raises(ArgumentError, match=r"unknown setting 'lots' \(did you mean 'batch'\?\)"):
        config.TrainConfig.parse(lots=3)


def test_an_array_under_both_names_is_refused(old: Path) -> None:
    store = old / "checkpoints"
    checkpoint = checkpoints.path(store, checkpoints.steps(store)[-1])
    tensors = safetensors.numpy.load_file(checkpoint / "state.safetensors")
    tensors["model.blocks.0.linear.bias"] = tensors["model.hidden.0.dense.bias"]
    shutil.rmtree(checkpoint)
    step = checkpoints.steps(store)[-1]
    checkpoints.save(store, tensors, step + 1, {})
    with pytest.raises(CheckpointError, match="under its present name too"):
        Run.open(old).model_at(step + 1)


def test_a_run_of_what_is_another_model_today_opens_as_that_model(tmp_path: Path) -> None:
    """Denoising auto-encoders had a kind without noise once: the auto-encoder of today."""
    data = load("moons", n=100)
    model = models.build("autoencoder", data.schema, latent=1, width=4, depth=1, activation="silu")
    run = fit(model, data, run=tmp_path / "old", steps=2, batch=8)
    x = jnp.asarray(data.val.x)
    codes = Run.open(run.path).model.encode(x)  # type: ignore[attr-defined]
    stored = yaml.safe_load((run.path / "config.yaml").read_text())
    sizes = {"code": 1, "width": 4, "depth": 1}
    stored["model"] = {
        "name": "denoising-autoencoder",
        "settings": {"noise": "none", "sigma": 0.3, "tau": 0.2, **sizes},
    }
    (run.path / "config.yaml").write_text(yaml.safe_dump(stored))
    rename(run.path, lambda name: name.replace("coder.network.layers", "coder.layers"))
    found = Run.open(run.path)
    assert type(found.model).__name__ == "Autoencoder"
    np.testing.assert_array_equal(found.model.encode(x), codes)  # type: ignore[attr-defined]
    with pytest.raises(CapabilityError, match=r"is the model autoencoder today(.|\n)*chainrule train from="):
        resume(run.path, steps=4)
    assert models.begin("autoencoder", found.model, data).config == found.model.config  # type: ignore[attr-defined]


def test_a_setting_given_under_both_names_is_left_for_the_schema_to_refuse() -> None:
    assert former.settings({"a": 1, "b": 2}, {"a": "b"}) == {"a": 1, "b": 2}


def test_a_group_of_settings_can_be_renamed_and_a_setting_can_move_between_groups() -> None:
    stored = {"net": {"width": 8, "drop": 0.1}, "n": 1}
    assert former.settings(stored, {"net.drop": "noise.rate", "net": "network"}) == {
        "network": {"width": 8},
        "noise": {"rate": 0.1},
        "n": 1,
    }
    assert stored == {"net": {"width": 8, "drop": 0.1}, "n": 1}


@pytest.mark.parametrize(
    ("name", "table", "present"),
    [
        ("model.nobody", {"nobody": "null_embedding"}, "model.null_embedding"),
        ("model.nobodys", {"nobody": "null_embedding"}, "model.nobodys"),
        ("ema.a.inner.inner.weight", {"inner": ""}, "ema.a.weight"),
        ("model.blocks.0.inner.b", {"blocks.*.inner": "layers.*.network"}, "model.layers.0.network.b"),
        ("model.a.b", {"a.b": "b.a", "b.a": "c"}, "model.c"),
    ],
)
def test_former_segments_are_replaced(name: str, table: dict[str, str], present: str) -> None:
    assert former.array(name, table) == present


def test_tables_of_earlier_runs_are_read_as_they_were() -> None:
    stored = {"name_or_path": "a.csv", "header": None, "drop": [], "target_as": "auto"}
    assert former.load_call(stored) == {**stored, "notation": "plain"}
    present = {**stored, "notation": "auto"}
    assert former.load_call(present) == present
    assert former.load_call({"size": None})["convert"] is False
    assert "convert" not in former.load_call({"name_or_path": "shapes", "n": 30, "size": 64})
    every = [
        *readers._SUFFIXES.values(),
        readers.pairs.reader,
        readers.images.reader,
        readers.captioned.reader,
    ]
    for reader in (*every, readers.documents.folder_reader, readers.idx.reader, readers.cifar.reader):
        since = {"notation", "convert"} & reader.options.keys()
        former_call = {name: option.default for name, option in reader.options.items() if name not in since}
        assert former.load_call(former_call).keys() == reader.options.keys()
    assert former.load_call({"name_or_path": "digits"}) == {"name_or_path": "digits"}
    assert former.load_call({"name_or_path": "eight-gaussians"}) == {"name_or_path": "ring"}
    pairs = {"name_or_path": "a.tsv", "header": False, "swap": False}
    assert former.load_call(pairs) == pairs
