"""Folders that transformers wrote give its logits; what a folder says, what is assumed, and what contradicts itself."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.schema import Schema

FIVE = Schema("image", (8, 8, 3), "class", (), classes=tuple("abcde"))
CONFIG = {
    "model_type": "vit",
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "image_size": 8,
    "patch_size": 4,
    "layer_norm_eps": 1e-3,
}
PIXELS = {"do_normalize": True, "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
X = np.random.default_rng(0).random((3, 8, 8, 3), np.float32)


@eqx.filter_jit
def logits(model: Any, x: Any) -> Any:
    return eqx.nn.inference_mode(model).outputs(x, jax.random.key(0))[0]


@pytest.fixture(scope="module")
def built() -> Any:
    sizes = {"layers": 2, "heads": 3, "width": 24, "hidden": 40, "patch": 4}
    return models.build("vit", FIVE, norm_eps=1e-3, pixels="imagenet", **sizes)


@pytest.fixture
def folder(built: Any, tmp_path: Path) -> Callable[..., Path]:
    """A folder with the weights under the names of transformers, and what is said beside them."""

    def write(said: Mapping[str, Any] | None = None, pixels: Mapping[str, Any] | None = None) -> Path:
        import safetensors.numpy

        file = tmp_path / "model.safetensors"
        models.export_weights(built, file, layout="transformers")
        # Without the head in which a file of ours says everything itself.
        safetensors.numpy.save_file(safetensors.numpy.load_file(file), file)
        for name, values in (("config.json", said), ("preprocessor_config.json", pixels)):
            if values is not None:
                (tmp_path / name).write_text(json.dumps(values))
        return tmp_path

    return write


def test_a_folder_is_read_whole(built: Any, folder: Callable[..., Path]) -> None:
    path = folder(CONFIG, PIXELS)
    found = models.read_published("vit", path)
    assert found.said["heads"] == 3
    assert found.said["pixels"] == "imagenet"
    assert not found.assumed
    ours = models.with_weights("vit", path, FIVE).model
    np.testing.assert_allclose(logits(ours, X), logits(built, X), atol=1e-6)


def test_heads_that_nothing_says_have_to_be_given(folder: Callable[..., Path]) -> None:
    path = folder()
    with pytest.raises(ArgumentError, match="nothing beside the weights says heads") as error:
        models.with_weights("vit", path, FIVE)
    assert "heads=NUMBER" in error.value.remedy
    found = models.read_published("vit", path, heads=3)
    assert found.assumed == {"pixels": "half"}
    assert found.settings["heads"] == 3


def test_heads_of_64_are_assumed_and_said() -> None:
    shapes = {
        "vit.embeddings.patch_embeddings.projection.weight": (128, 3, 4, 4),
        "vit.embeddings.position_embeddings": (1, 5, 128),
        "vit.encoder.layer.0.layernorm_before.weight": (128,),
    }
    published = models.entry("vit").published
    assert published is not None
    assert published(shapes)["heads"] == 2


@pytest.mark.parametrize(
    ("changed", "given", "message"),
    [
        ({"num_hidden_layers": 3}, {}, "config.json says layers=3, the arrays layers=2"),
        ({}, {"heads": 4}, "what you gave says heads=4, config.json heads=3"),
        ({"model_type": "swin"}, {}, "a model of type 'swin'; vit reads vit"),
        ({"hidden_act": "relu"}, {}, "hidden_act='relu' is not supported"),
        ({"qkv_bias": False}, {}, "qkv_bias=False is not supported"),
    ],
)
def test_what_contradicts_the_arrays_or_has_no_setting_is_refused(
    folder: Callable[..., Path], changed: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    with pytest.raises((ArgumentError, DataError), match=message):
        models.read_published("vit", folder({**CONFIG, **changed}), **given)


def test_other_colours_are_refused_and_none_are_read(folder: Callable[..., Path]) -> None:
    assert models.published_settings("vit", folder(CONFIG, {"do_normalize": False}))["pixels"] == "none"
    with pytest.raises(DataError, match=r"image_mean=\[0.1"):
        models.read_published("vit", folder(CONFIG, {"image_mean": [0.1] * 3, "image_std": [1.0] * 3}))


def test_a_folder_of_transformers_gives_equal_logits(
    oracle: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    torch: Any = oracle("torch")
    transformers: Any = oracle("transformers")
    torch.manual_seed(0)
    described = transformers.ViTConfig(**CONFIG, num_labels=5, initializer_range=0.3)
    reference = transformers.ViTForImageClassification(described).eval()
    reference.save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(PIXELS))
    mean, deviation = (np.array(PIXELS[name], np.float32) for name in ("image_mean", "image_std"))
    with torch.no_grad():
        expected = reference(torch.tensor(np.moveaxis((X - mean) / deviation, -1, 1))).logits.numpy()
    ours = models.with_weights("vit", tmp_path, FIVE).model
    np.testing.assert_allclose(logits(ours, X), expected, atol=1e-5)
