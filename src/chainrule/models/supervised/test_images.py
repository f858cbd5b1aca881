"""Image classifiers: published sizes, the weights of PyTorch's libraries, and what their settings do."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from chainrule import models
from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Batch, Schema
from chainrule.models.supervised.alexnet.model import normalized_responses
from chainrule.nn import BatchNorm
from chainrule.nn.residual import padded
from tests.contracts import checks

LARGE = Schema("image", (224, 224, 3), target="class", classes=tuple(map(str, range(1000))))
SMALL = Schema("image", (32, 32, 3), target="class", classes=tuple("abcdefghij"))
TINY = Schema("image", (8, 8, 2), target="class", classes=("a", "b", "c"))


def parameters(name: str, schema: Schema, **settings: Any) -> int:
    """Number of trained numbers, without making any."""
    config = models.configure(name, **settings)
    model = eqx.filter_eval_shape(models.entry(name).build, config, schema, jax.random.key(0))
    shaped = eqx.filter(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    nodes = jax.tree.leaves(shaped, is_leaf=lambda node: isinstance(node, BatchNorm))
    running = [node.mean for node in nodes if isinstance(node, BatchNorm)]  # and as many variances
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shaped)) - 2 * sum(
        m.shape[0] for m in running
    )


@pytest.mark.parametrize(
    ("name", "settings", "count"),
    [
        ("alexnet", {}, 61_640_936),
        ("alexnet", {"variant": "torchvision"}, 61_100_840),
        ("alexnet", {"variant": "original"}, 60_965_224),
        ("vgg", {"depth": 11, "normalization": "none"}, 132_863_336),
        ("vgg", {"depth": 13, "normalization": "none"}, 133_047_848),
        ("vgg", {"depth": 16, "normalization": "none"}, 138_357_544),
        ("vgg", {"depth": 19, "normalization": "none"}, 143_667_240),
        ("resnet", {"depth": 18}, 11_689_512),
        ("resnet", {"depth": 34}, 21_797_672),
        ("resnet", {"depth": 50}, 25_557_032),
        ("resnet", {"depth": 101}, 44_549_160),
        ("resnet", {"depth": 152}, 60_192_808),
    ],
)
def test_networks_have_the_published_number_of_parameters(name: str, settings: dict, count: int) -> None:
    assert parameters(name, LARGE, **settings) == count


def test_the_small_residual_network_has_its_published_number_of_parameters() -> None:
    assert parameters("resnet", SMALL, depth=20) == 269_722
    assert parameters("resnet", SMALL, depth=20, skip=False) == 269_722  # these shortcuts have no weights
    assert parameters("resnet", SMALL, depth=20, shortcut="projection") > 269_722


def batch(schema: Schema, n: int = 4) -> Batch:
    x = np.random.default_rng(3).uniform(size=(n, *schema.shape))
    return Batch(jnp.asarray(x, jnp.float32), jnp.asarray(np.arange(n) % len(schema.classes), jnp.int32))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("cnn", {"width": 3, "stages": 3, "normalization": "layer", "activation": "gelu", "kernel": 5}),
        ("resnet", {"depth": 8, "width": 2, "preactivation": True}),
        ("resnet", {"depth": 8, "width": 2, "skip": False}),
        pytest.param("alexnet", {"variant": "original", "scale": 1 / 64}, marks=pytest.mark.slow),
    ],
)
def test_variants_keep_the_promises_of_the_loss(name: str, settings: dict) -> None:
    model, examples = models.build(name, TINY, **settings), batch(TINY)
    checks.check_state(model, examples)
    checks.check_predict(model, examples, TINY)


def test_a_residual_network_begins_as_its_shortcuts() -> None:
    """With the last scale of every block at zero, blocks hand on what they get: only the stem is seen."""
    model: Any = eqx.nn.inference_mode(models.build("resnet", TINY, depth=8, width=2))

    @eqx.filter_jit
    def both(model: Any, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        h, _ = model.stem(x, jax.random.key(0))
        h = padded(padded(h, 2, 2, 4), 2, 2, 8)
        return model.logits(x), model.head(h.mean(axis=(1, 2)))

    np.testing.assert_allclose(*both(model, batch(TINY).x), rtol=1e-5, atol=1e-6)


def test_responses_are_divided_by_those_of_neighbouring_channels() -> None:
    x = np.random.default_rng(0).normal(size=(1, 1, 1, 7)).astype(np.float32)
    expected = [
        x[0, 0, 0, c] / (2 + 1e-4 * (x[..., max(0, c - 2) : c + 3] ** 2).sum()) ** 0.75 for c in range(7)
    ]
    np.testing.assert_allclose(normalized_responses(jnp.asarray(x))[0, 0, 0], expected, rtol=1e-6)


def test_images_that_are_too_small_are_refused_or_resized() -> None:
    with pytest.raises(ArgumentError, match=r"cannot be halved 4 times\n.*stages=4 is the most"):
        models.build("cnn", TINY, stages=5)
    with pytest.raises(ArgumentError, match=r"vgg\(size=16\).*at least 32 pixels"):
        models.build("vgg", TINY, size=16, scale=0.01)
    model: Any = models.build("vgg", TINY, scale=0.01)
    assert model.size == 32
    assert models.build("vgg", SMALL, scale=0.01).size == 0


# ---------------------------------------------------------------------- the same weights in PyTorch


def torch_alexnet(nn: Any, widths: list[int], hidden: int, outputs: int) -> Any:
    a, b, c, d, e = widths
    pool = lambda: nn.MaxPool2d(3, 2)  # noqa: E731
    features = nn.Sequential(
        *(nn.Conv2d(2, a, 11, 4, 2), nn.ReLU(), pool(), nn.Conv2d(a, b, 5, 1, 2), nn.ReLU(), pool()),
        *(nn.Conv2d(b, c, 3, 1, 1), nn.ReLU(), nn.Conv2d(c, d, 3, 1, 1), nn.ReLU()),
        *(nn.Conv2d(d, e, 3, 1, 1), nn.ReLU(), pool()),
    )
    classifier = nn.Sequential(
        *(nn.Dropout(), nn.Linear(36 * e, hidden), nn.ReLU(), nn.Dropout(), nn.Linear(hidden, hidden)),
        *(nn.ReLU(), nn.Linear(hidden, outputs)),
    )
    return whole(nn, features, classifier, 6)


def torch_vgg(nn: Any, counts: tuple[int, ...], widths: list[int], hidden: int, outputs: int) -> Any:
    layers, channels = [], 2
    for count, width in zip(counts, widths, strict=True):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    classifier = nn.Sequential(
        *(nn.Linear(49 * channels, hidden), nn.ReLU(), nn.Dropout(), nn.Linear(hidden, hidden), nn.ReLU()),
        *(nn.Dropout(), nn.Linear(hidden, outputs)),
    )
    return whole(nn, nn.Sequential(*layers), classifier, 7)


def whole(nn: Any, features: Any, classifier: Any, grid: int) -> Any:
    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features, self.classifier = features, classifier
            self.pool = nn.AdaptiveAvgPool2d(grid)

        def forward(self, x: Any) -> Any:
            return self.classifier(self.pool(self.features(x)).flatten(1))

    return Whole()


def torch_resnet(torch: Any, model: Any) -> Any:
    """Bottlenecks or basic blocks, whichever the model has, with the names of torchvision."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, block: Any) -> None:
            super().__init__()
            self.count = len(block.convolutions)
            for i, conv in enumerate(block.convolutions):
                size, stride = conv.kernel[0], conv.stride[0]
                made = nn.Conv2d(conv.inputs, conv.outputs, size, stride, size // 2, bias=False)
                setattr(self, f"conv{i + 1}", made)
                setattr(self, f"bn{i + 1}", nn.BatchNorm2d(conv.outputs))
            self.downsample = None
            if block.projection is not None:
                conv = block.projection
                made = nn.Conv2d(conv.inputs, conv.outputs, 1, conv.stride[0], bias=False)
                self.downsample = nn.Sequential(made, nn.BatchNorm2d(conv.outputs))

        def forward(self, x: Any) -> Any:
            y = x
            for i in range(1, self.count + 1):
                y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
                y = torch.relu(y) if i < self.count else y
            return torch.relu(y + (x if self.downsample is None else self.downsample(x)))

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            stem = model.stem.conv
            self.conv1 = nn.Conv2d(stem.inputs, stem.outputs, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(stem.outputs)
            for i, stage in enumerate(model.stages):
                setattr(self, f"layer{i + 1}", nn.Sequential(*map(Block, stage)))
            self.fc = nn.Linear(model.head.weight.shape[0], model.head.weight.shape[1])

        def forward(self, x: Any) -> Any:
            x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
            for i in range(1, 5):
                x = getattr(self, f"layer{i}")(x)
            return self.fc(x.mean(dim=(2, 3)))

    return Whole()


def built(name: str, torch: Any) -> tuple[Any, Any]:
    """Our network and PyTorch's, small."""
    if name == "alexnet":
        ours: Any = models.build("alexnet", TINY, scale=1 / 32)
        widths = [layer.conv.outputs for layer in ours.convolutions]
        return ours, torch_alexnet(torch.nn, widths, 128, 3)
    if name == "vgg":
        ours = models.build("vgg", TINY, scale=1 / 32, depth=13)
        widths = [block[0].conv.outputs for block in ours.blocks]
        return ours, torch_vgg(torch.nn, (2, 2, 2, 2, 2), widths, 128, 3)
    ours = models.build("resnet", TINY, width=4, depth=int(name.removeprefix("resnet")))
    return ours, torch_resnet(torch, ours)


@pytest.mark.parametrize(
    "name", ["alexnet", "vgg", "resnet18", pytest.param("resnet50", marks=pytest.mark.slow)]
)
def test_imported_weights_give_the_logits_of_pytorch_and_go_back_unchanged(
    name: str, oracle: Callable, tmp_path: Path
) -> None:
    torch = oracle("torch")
    torch.manual_seed(0)
    ours, theirs = built(name, torch)
    for key, buffer in theirs.named_buffers():
        if key.endswith("running_mean"):
            buffer.normal_()
        elif key.endswith("running_var"):
            buffer.uniform_(0.5, 2.0)
    stored = {key: value.numpy() for key, value in theirs.state_dict().items()}
    safetensors.numpy.save_file(stored, tmp_path / "theirs.safetensors")
    imported = models.import_weights(ours, tmp_path / "theirs.safetensors")
    size = getattr(ours, "size", 0) or 40
    x = np.random.default_rng(0).normal(size=(3, size, size, 2)).astype(np.float32)
    expected = theirs.eval()(torch.tensor(x.transpose(0, 3, 1, 2))).detach().numpy()
    np.testing.assert_allclose(eqx.filter_jit(imported.model.logits)(x), expected, rtol=1e-4, atol=1e-4)

    path = models.export_weights(imported.model, tmp_path / "back.safetensors")
    back = safetensors.numpy.load_file(path)
    for key, value in stored.items():
        if not key.endswith("num_batches_tracked"):
            np.testing.assert_array_equal(back[key], value)


# ---------------------------------------------------------------------- files that do not fit


@pytest.fixture
def small() -> Any:
    return models.build("resnet", TINY, depth=8, width=2)


def test_files_that_do_not_fit_are_refused_with_what_is_wrong(small: Any, tmp_path: Path) -> None:
    path = models.export_weights(small, tmp_path / "w.safetensors")
    arrays = safetensors.numpy.load_file(path)
    arrays["fc.weight"] = np.zeros((5, 8), np.float32)
    arrays["extra"] = np.zeros(1, np.float32)
    del arrays["bn1.weight"]
    safetensors.numpy.save_file(arrays, path)
    with pytest.raises(ArgumentError) as error:
        models.import_weights(small, path)
    for part in ("1 missing: bn1.weight", "fc.weight is (5, 8) instead of (3, 8)", "1 unused: extra"):
        assert part in str(error.value)
    found = models.import_weights(small, path, strict=False)
    assert found.missing == ("bn1.weight",)
    assert found.unused == ("extra",)
    np.testing.assert_array_equal(found.model.head.weight, small.head.weight)
    np.testing.assert_array_equal(found.model.head.bias, small.head.bias)


def test_other_files_and_unknown_layers_are_refused(small: Any, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"\x80\x04not safe")
    with pytest.raises(DataError, match="not a safetensors file"):
        models.import_weights(small, tmp_path / "w.safetensors")
    with pytest.raises(DataError, match="is not a file"):
        models.import_weights(small, tmp_path / "none.safetensors")
    with pytest.raises(ArgumentError, match=r"no layer 'haed' \(did you mean 'head'\?\)"):
        models.export_weights(small, tmp_path / "w.safetensors", names={"haed": "fc"})
    with pytest.raises(ArgumentError, match=r"must end in \.safetensors"):
        models.export_weights(small, tmp_path / "w.pt")


def test_a_table_of_names_serves_any_model(tmp_path: Path) -> None:
    model: Any = models.build("mlp", TINY, width=3, depth=2)
    names = {"blocks.0.linear": "0", "head": "2"}
    path = models.export_weights(model, tmp_path / "w.safetensors", names=names)
    assert safetensors.numpy.load_file(path)["0.weight"].shape == (3, 128)
    other = models.build("mlp", TINY, width=3, depth=2, seed=1)
    found: Any = models.import_weights(other, path, names=names).model
    for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(a, b)
