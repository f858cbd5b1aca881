"""Published image classifiers on images of one's own: a file of weights, a new head, training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from PIL import Image

from chainrule import models
from chainrule.data.schema import Schema
from chainrule.train import Run

from .conftest import Command

FIVE = Schema("image", (16, 16, 3), target="class", classes=tuple("vwxyz"))


@pytest.fixture
def photos(cli: Command) -> Any:
    """A small network of another program, and images of several sizes in the folders of two classes."""
    noise = np.random.default_rng(0)
    for name, light in (("dark", 60), ("light", 190)):
        Path("photos", name).mkdir(parents=True)
        for i in range(10):
            pixels = light + noise.integers(-50, 50, size=(16 + i % 3, 18, 3))
            Image.fromarray(pixels.astype(np.uint8)).save(Path("photos", name, f"{i}.png"))
    model = models.build("convnext", FIVE, seed=4, depths=(1,), widths=(4,), stem=4)
    arrays = safetensors.numpy.load_file(models.export_weights(model, "ours.safetensors"))
    safetensors.numpy.save_file(arrays, "small.safetensors")
    return model


IMPORT = ["import", "convnext", "small.safetensors", "data=photos", "data.size=16", "head=new", "run=begun"]


def test_a_new_head_is_trained_on_published_weights(cli: Command, photos: Any, unreported: None) -> None:
    shown = cli(*IMPORT).out
    assert "16×16, (pixels - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)" in shown
    assert "new, 2 outputs: dark, light" in shown
    assert "chainrule train from=begun recipe=finetune" in shown
    assert "arrays taken" in shown
    begun: Any = Run.open("runs/begun").model
    np.testing.assert_array_equal(begun.stem.weight, photos.stem.weight)
    assert begun.head.weight.shape == (4, 2)
    (frozen,) = [line.split("freeze=")[1] for line in shown.splitlines() if "freeze=" in line]
    words = ["from=begun", "recipe=finetune", f"freeze={frozen}", "epochs=1", "batch=8", "run=trained"]
    assert cli("train", *words, "--json").code == 0
    run = Run.open("runs/trained")
    trained: Any = run.model
    np.testing.assert_array_equal(trained.stem.weight, photos.stem.weight)
    assert not np.array_equal(trained.head.weight, begun.head.weight)
    # What the weights expect of images stays with the run, and so do size, classes and the recipe.
    assert run.config["model"]["settings"]["pixels"] == "imagenet"
    assert run.config["data"]["size"] == [16, 16]
    assert run.config["train"]["augment"]["resized_crop"] == 0.5
    assert run.schema.classes == ("dark", "light")
    assert "accuracy" in cli("score", "trained", "--json").last["metrics"]
    plain = cli("train", "from=begun", "batch=8", "steps=2", "--dry-run")
    assert "head     it learns alone for 1,000 steps" in plain.out
    assert cli("train", "from=begun", "batch=8", "steps=2", "head_first=3", "run=both", "--json").code == 0
    both: Any = Run.open("runs/both").model_at(0)
    np.testing.assert_array_equal(both.stem.weight, photos.stem.weight)
    assert not np.array_equal(both.head.weight, begun.head.weight)
    words = ["examples=2", "copies=2", "augment.mixup=0.5"]
    assert "mixup=0.5: pixels change by" in cli("probe", "trained", "augmentation", *words).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["convnext", "small.safetensors", "data=photos", "data.size=16"], "(2, 4)"),
        (["resnet", "small.safetensors", "data=photos", "head=new"], "the file holds no residual network"),
        (["mlp", "small.safetensors", "head=new"], "mlp has no head of published weights"),
        (["convnext", "small.safetensors", "head=gone"], 'head must be "kept" or "new"'),
    ],
)
def test_what_does_not_fit_is_told_with_what_to_do(
    cli: Command, photos: Any, words: list[str], message: str
) -> None:
    result = cli("import", *words)
    assert result.code
    assert message in result.err
    assert not list(Path("runs").glob("*")) if Path("runs").exists() else True


def test_images_that_are_no_files_are_resized_by_the_model(cli: Command, photos: Any) -> None:
    assert cli("import", "convnext", "small.safetensors", "data=digits", "head=new", "run=grey").code == 0
    model: Any = Run.open("runs/grey").model
    assert model.config.size == 224
    assert model.head.weight.shape == (4, 10)


def test_a_recipe_that_says_what_the_model_is_does_not_go_with_a_run_to_begin_with(
    cli: Command, photos: Any
) -> None:
    assert cli(*IMPORT).code == 0
    assert "both say what the model is" in cli("train", "from=begun", "recipe=photos").err


def test_arrays_that_do_not_fit_are_listed_and_on_request_left_out(cli: Command, photos: Any) -> None:
    arrays = safetensors.numpy.load_file("small.safetensors")
    (last,) = [name for name in arrays if arrays[name].shape == (5,)]  # the bias of the head
    gone = min(arrays)
    odd = {name: array for name, array in arrays.items() if name != gone}
    odd |= {last: np.zeros(7, np.float32), "extra.weight": np.zeros(2, np.float32)}
    safetensors.numpy.save_file(odd, "odd.safetensors")
    words = ["import", "convnext", "odd.safetensors", "data=photos", "data.size=16", "run=odd"]
    refused = cli(*words)
    assert refused.code
    expected = (f"1 missing: {gone}", "2 misshapen", "1 unused: extra.weight")
    assert all(word in refused.err for word in expected), refused.err
    report = cli(*words, "head=new", "strict=false", "--json").last["weights"]
    assert (report["missing"], report["misshapen"], report["unused"]) == ([gone], [], ["extra.weight"])
    assert len(report["loaded"]) == len(arrays) - 3
    assert "must be" in cli(*words[:-1], "strict=maybe").err
