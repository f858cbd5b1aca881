"""Vision transformers, ConvNeXt and MobileNetV2: published sizes, weights of other libraries, use on other classes."""

# Long because the networks of torchvision are written out again, to be compared with.
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from chainrule import models
from chainrule.core import tree
from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Schema
from chainrule.models.supervised.vit.weights import resampled
from chainrule.networks.image_towers import PIXELS, standardised
from chainrule.nn.sequential import running_statistics

LARGE = Schema("image", (224, 224, 3), target="class", classes=tuple(map(str, range(1000))))
TINY = Schema("image", (16, 16, 3), target="class", classes=("a", "b", "c"))


def shaped(name: str, schema: Schema, **settings: Any) -> Any:
    """The model with shapes in place of arrays."""
    config = models.configure(name, **settings)
    return eqx.filter_eval_shape(models.entry(name).build, config, schema, jax.random.key(0))


@pytest.mark.parametrize(
    ("name", "settings", "count"),
    [
        ("vit", {"variant": "tiny"}, 5_717_416),
        ("vit", {"variant": "small"}, 22_050_664),
        ("vit", {"variant": "base"}, 86_567_656),
        ("vit", {"variant": "base", "patch": 32}, 88_224_232),
        ("vit", {"variant": "large"}, 304_326_632),
        ("convnext", {"variant": "tiny"}, 28_589_128),
        ("convnext", {"variant": "small"}, 50_223_688),
        ("convnext", {"variant": "base"}, 88_591_464),
        ("convnext", {"variant": "large"}, 197_767_336),
        ("mobilenet", {}, 3_504_872),
        ("mobilenet", {"scale": 0.5}, 1_968_680),
        ("mobilenet", {"scale": 1.4}, 6_108_776),
    ],
)
def test_networks_have_the_published_number_of_parameters(name: str, settings: dict, count: int) -> None:
    model = shaped(name, LARGE, **settings)
    sizes = [
        math.prod(leaf.shape) for leaf in jax.tree.leaves(model) if isinstance(leaf, jax.ShapeDtypeStruct)
    ]
    assert (
        sum(sizes) - sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(running_statistics(model)))
        == count
    )


# ---------------------------------------------------------------------- the same weights in PyTorch


def torch_vit(torch: Any, layers: int, heads: int, width: int, patch: int, count: int, outputs: int) -> Any:
    """With the modules, and so the names, of torchvision."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = (nn.LayerNorm(width, eps=1e-6) for _ in range(2))
            self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            y = self.ln_1(x)
            x = x + self.self_attention(y, y, y, need_weights=False)[0]
            return x + self.mlp(self.ln_2(x))

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pos_embedding = nn.Parameter(torch.randn(1, count, width))
            self.layers = nn.Sequential()
            for i in range(layers):
                self.layers.add_module(f"encoder_layer_{i}", Block())
            self.ln = nn.LayerNorm(width, eps=1e-6)

        def forward(self, x: Any) -> Any:
            return self.ln(self.layers(x + self.pos_embedding))

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv_proj = nn.Conv2d(3, width, patch, patch)
            self.class_token = nn.Parameter(torch.randn(1, 1, width))
            self.encoder = Encoder()
            self.heads = nn.Sequential()
            self.heads.add_module("head", nn.Linear(width, outputs))

        def forward(self, x: Any) -> Any:
            x = self.conv_proj(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
            return self.heads(self.encoder(x)[:, 0])

    return Whole()


def torch_convnext(
    torch: Any, depths: tuple[int, ...], widths: tuple[int, ...], stem: int, outputs: int
) -> Any:
    """With the modules, and so the names, of torchvision."""
    nn = torch.nn

    class Norm(nn.LayerNorm):
        def forward(self, x: Any) -> Any:
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class Turned(nn.Module):
        def __init__(self, *axes: int) -> None:
            super().__init__()
            self.axes = axes

        def forward(self, x: Any) -> Any:
            return x.permute(*self.axes)

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.block = nn.Sequential(
                nn.Conv2d(width, width, 7, padding=3, groups=width),
                Turned(0, 2, 3, 1),
                nn.LayerNorm(width, eps=1e-6),
                nn.Linear(width, 4 * width),
                nn.GELU(),
                nn.Linear(4 * width, width),
                Turned(0, 3, 1, 2),
            )
            self.layer_scale = nn.Parameter(torch.rand(width, 1, 1))

        def forward(self, x: Any) -> Any:
            return x + self.layer_scale * self.block(x)

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            parts = [nn.Sequential(nn.Conv2d(3, widths[0], stem, stem), Norm(widths[0], eps=1e-6))]
            for i, (depth, width) in enumerate(zip(depths, widths, strict=True)):
                if i:
                    before = widths[i - 1]
                    parts.append(nn.Sequential(Norm(before, eps=1e-6), nn.Conv2d(before, width, 2, 2)))
                parts.append(nn.Sequential(*(Block(width) for _ in range(depth))))
            self.features = nn.Sequential(*parts)
            last = widths[-1]
            self.classifier = nn.Sequential(Norm(last, eps=1e-6), nn.Flatten(1), nn.Linear(last, outputs))

        def forward(self, x: Any) -> Any:
            return self.classifier(self.features(x).mean(dim=(2, 3), keepdim=True))

    return Whole()


def torch_mobilenet(
    torch: Any, depths: tuple[int, ...], widths: tuple[int, ...], stem: int, features: int, outputs: int
) -> Any:
    """With the modules, and so the names, of torchvision."""
    nn = torch.nn

    def block(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(outputs)]

    class Inverted(nn.Module):
        def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
            super().__init__()
            inner = inputs * expansion
            widen = [nn.Sequential(*block(inputs, inner, 1), nn.ReLU6())] if expansion > 1 else []
            filters = nn.Sequential(*block(inner, inner, 3, stride, inner), nn.ReLU6())
            self.conv = nn.Sequential(*widen, filters, *block(inner, outputs, 1))
            self.skip = stride == 1 and inputs == outputs

        def forward(self, x: Any) -> Any:
            return x + self.conv(x) if self.skip else self.conv(x)

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            parts, channels = [nn.Sequential(*block(3, stem, 3, 2), nn.ReLU6())], stem
            for i, (depth, width) in enumerate(zip(depths, widths, strict=True)):
                for j in range(depth):
                    parts.append(Inverted(channels, width, 6 if i else 1, 2 if i and not j else 1))
                    channels = width
            self.features = nn.Sequential(*parts, nn.Sequential(*block(channels, features, 1), nn.ReLU6()))
            self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(features, outputs))

        def forward(self, x: Any) -> Any:
            return self.classifier(self.features(x).mean(dim=(2, 3)))

    made = Whole()
    for key, buffer in made.named_buffers():
        if key.endswith("running_mean"):
            buffer.normal_()
        elif key.endswith("running_var"):
            buffer.uniform_(0.5, 2.0)
    return made


SIZES: dict[str, dict[str, Any]] = {
    "vit": {"layers": 2, "heads": 1, "width": 64, "patch": 4},
    "convnext": {"depths": (1, 2), "widths": (4, 8), "stem": 2},
    "mobilenet": {"depths": (1, 2), "widths": (8, 12), "stem": 4, "features": 20, "halvings": 2},
}


def twin(name: str, torch: Any) -> Any:
    """PyTorch's network of that size for images of 16 pixels and 5 classes."""
    torch.manual_seed(0)
    if name == "vit":
        return torch_vit(torch, 2, 1, 64, 4, 17, 5)
    if name == "mobilenet":
        return torch_mobilenet(torch, (1, 2), (8, 12), 4, 20, 5)
    return torch_convnext(torch, (1, 2), (4, 8), 2, 5)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, oracle: Callable) -> dict[str, Any]:
    """For each network PyTorch's, and its weights in a file with the names of torchvision."""
    torch, folder = oracle("torch"), tmp_path_factory.mktemp("weights")
    made = {}
    for name in SIZES:
        theirs = twin(name, torch).eval()
        state = theirs.state_dict().items()
        stored = {key: value.numpy() for key, value in state if not key.endswith("num_batches_tracked")}
        path = folder / f"{name}.safetensors"
        safetensors.numpy.save_file(stored, path)
        made[name] = (theirs, stored, path)
    return made


FIVE = Schema("image", (16, 16, 3), target="class", classes=tuple("abcde"), levels=256)


@pytest.mark.parametrize("name", list(SIZES))
def test_published_weights_give_the_logits_of_pytorch(
    name: str, files: Mapping[str, Any], oracle: Callable, tmp_path: Path
) -> None:
    """Sized by the file, with the normalisation of colours that the weights expect; and back unchanged."""
    torch = oracle("torch")
    theirs, stored, path = files[name]
    ours: Any = models.with_weights(name, path, FIVE).model
    assert ours.config.pixels == "imagenet"
    assert {key: value for key, value in ours.config.model_dump().items() if key in SIZES[name]} == SIZES[
        name
    ]
    x = np.random.default_rng(0).uniform(size=(3, 16, 16, 3)).astype(np.float32)
    mean, deviation = (np.array(numbers, np.float32) for numbers in PIXELS["imagenet"])
    expected = theirs(torch.tensor(((x - mean) / deviation).transpose(0, 3, 1, 2))).detach().numpy()
    np.testing.assert_allclose(eqx.filter_jit(ours.logits)(x), expected, rtol=1e-4, atol=1e-4)

    back = safetensors.numpy.load_file(models.export_weights(ours, tmp_path / "back.safetensors"))
    assert back.keys() == stored.keys()
    for key, value in stored.items():
        np.testing.assert_array_equal(back[key], value)

    # The other libraries' names for the same arrays: a file is recognised by them.
    for layout in models.entry(name).layouts:
        file = models.export_weights(ours, tmp_path / f"{layout}.safetensors", layout=layout)
        again: Any = models.with_weights(name, file, FIVE, pixels="imagenet").model
        assert tree.names(eqx.filter(again, eqx.is_array)) == tree.names(eqx.filter(ours, eqx.is_array))
        for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(again), strict=True):
            np.testing.assert_array_equal(one, other)


THEIRS: dict[tuple[str, str], dict[str, tuple[int, ...]]] = {
    ("vit", "timm"): {
        "cls_token": (1, 1, 64),
        "pos_embed": (1, 17, 64),
        "patch_embed.proj.weight": (64, 3, 4, 4),
        "patch_embed.proj.bias": (64,),
        "blocks.1.norm1.weight": (64,),
        "blocks.1.attn.qkv.weight": (192, 64),
        "blocks.1.attn.proj.bias": (64,),
        "blocks.1.norm2.bias": (64,),
        "blocks.1.mlp.fc1.weight": (256, 64),
        "blocks.1.mlp.fc2.weight": (64, 256),
        "norm.weight": (64,),
        "head.weight": (5, 64),
    },
    ("convnext", "timm"): {
        "stem.0.weight": (4, 3, 2, 2),
        "stem.1.weight": (4,),
        "stages.0.blocks.0.conv_dw.weight": (4, 1, 7, 7),
        "stages.1.downsample.0.weight": (4,),
        "stages.1.downsample.1.weight": (8, 4, 2, 2),
        "stages.1.blocks.1.norm.weight": (8,),
        "stages.1.blocks.1.mlp.fc1.weight": (32, 8),
        "stages.1.blocks.1.mlp.fc2.bias": (8,),
        "stages.1.blocks.1.gamma": (8,),
        "head.norm.weight": (8,),
        "head.fc.weight": (5, 8),
    },
    ("mobilenet", "timm"): {
        "conv_stem.weight": (4, 3, 3, 3),
        "bn1.running_var": (4,),
        "blocks.0.0.conv_dw.weight": (4, 1, 3, 3),
        "blocks.0.0.conv_pw.weight": (8, 4, 1, 1),
        "blocks.0.0.bn2.weight": (8,),
        "blocks.1.1.conv_pw.weight": (72, 12, 1, 1),
        "blocks.1.1.conv_dw.weight": (72, 1, 3, 3),
        "blocks.1.1.conv_pwl.weight": (12, 72, 1, 1),
        "blocks.1.1.bn3.running_mean": (12,),
        "conv_head.weight": (20, 12, 1, 1),
        "bn2.bias": (20,),
        "classifier.weight": (5, 20),
    },
    ("vit", "transformers"): {
        "vit.embeddings.cls_token": (1, 1, 64),
        "vit.embeddings.position_embeddings": (1, 17, 64),
        "vit.embeddings.patch_embeddings.projection.weight": (64, 3, 4, 4),
        "vit.encoder.layer.1.attention.attention.key.weight": (64, 64),
        "vit.encoder.layer.1.attention.attention.value.bias": (64,),
        "vit.encoder.layer.1.attention.output.dense.weight": (64, 64),
        "vit.encoder.layer.1.intermediate.dense.weight": (256, 64),
        "vit.encoder.layer.1.output.dense.bias": (64,),
        "vit.encoder.layer.1.layernorm_before.weight": (64,),
        "vit.encoder.layer.1.layernorm_after.weight": (64,),
        "vit.layernorm.bias": (64,),
        "classifier.weight": (5, 64),
    },
    ("convnext", "transformers"): {
        "convnext.embeddings.patch_embeddings.weight": (4, 3, 2, 2),
        "convnext.embeddings.layernorm.weight": (4,),
        "convnext.encoder.stages.1.downsampling_layer.1.weight": (8, 4, 2, 2),
        "convnext.encoder.stages.1.layers.1.dwconv.weight": (8, 1, 7, 7),
        "convnext.encoder.stages.1.layers.1.layernorm.bias": (8,),
        "convnext.encoder.stages.1.layers.1.pwconv1.weight": (32, 8),
        "convnext.encoder.stages.1.layers.1.pwconv2.bias": (8,),
        "convnext.encoder.stages.1.layers.1.layer_scale_parameter": (8,),
        "convnext.layernorm.weight": (8,),
        "classifier.weight": (5, 8),
    },
}
"""Some names and shapes of files of other libraries."""


@pytest.mark.parametrize(("name", "layout"), list(THEIRS))
def test_files_of_other_libraries_have_their_names_and_shapes(
    name: str, layout: str, files: Mapping[str, Any], tmp_path: Path
) -> None:
    ours = models.with_weights(name, files[name][2], FIVE).model
    path = models.export_weights(ours, tmp_path / "theirs.safetensors", layout=layout)
    written = safetensors.numpy.load_file(path)
    assert {key: written[key].shape for key in THEIRS[name, layout]} == THEIRS[name, layout]
    expected = {"vit": "half", "convnext": "imagenet", "mobilenet": "imagenet"}
    assert models.entry(name).published(tree_shapes(written))["pixels"] == expected[name]  # type: ignore[misc]


def tree_shapes(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}


@pytest.mark.parametrize(
    ("name", "variant"),
    [("vit", "small"), ("convnext", "base"), ("resnet", 50), ("vgg", 16), ("mobilenet", 1.4)],
)
def test_a_published_variant_is_recognised_by_the_shapes_in_its_file(name: str, variant: Any) -> None:
    setting = {int: "depth", float: "scale"}.get(type(variant), "variant")
    model, entry = shaped(name, LARGE, **{setting: variant}), models.entry(name)
    assert entry.torch_names is not None
    assert entry.published is not None
    for names in (entry.torch_names, *entry.layouts.values()):
        stored = models.interchange.stored_shapes(model, names(model))
        assert entry.published(stored)[setting] == variant


def test_positions_are_resampled_for_images_of_another_size(files: Mapping[str, Any]) -> None:
    found = models.with_weights("vit", files["vit"][2], FIVE, size=24)
    ours: Any = found.model
    assert found.adapted == ("encoder.pos_embedding",)
    assert ours.positions.weight.shape == (37, 64)
    stored = files["vit"][1]["encoder.pos_embedding"]
    np.testing.assert_array_equal(ours.positions.weight[0], stored[0, 0])
    # A plane stays a plane, away from the edges; the same size is left alone.
    row, column = np.mgrid[:6, :6]
    plane = np.concatenate([[[0.0]], (2 * row + column).reshape(-1, 1)]).astype(np.float32)[None]
    new = resampled(plane, (1, 145, 1))
    assert new is not None
    row, column = (np.mgrid[:12, :12] + 0.5) / 2 - 0.5
    inner = new[0, 1:].reshape(12, 12)[3:-3, 3:-3]
    np.testing.assert_allclose(inner, (2 * row + column)[3:-3, 3:-3], atol=1e-4)
    assert resampled(plane, (1, 146, 1)) is None
    assert models.with_weights("vit", files["vit"][2], FIVE).adapted == ()


# ---------------------------------------------------------------------- other classes


@pytest.mark.parametrize("name", [*SIZES, "vgg", pytest.param("resnet", marks=pytest.mark.slow)])
def test_a_new_head_leaves_the_rest_as_published(name: str, files: Mapping[str, Any], tmp_path: Path) -> None:
    if name in files:
        path = files[name][2]
    else:
        small = {"resnet": {"depth": 18, "width": 2}, "vgg": {"scale": 1 / 64}}[name]
        path = models.export_weights(models.build(name, FIVE, seed=3, **small), tmp_path / "w.safetensors")
        safetensors.numpy.save_file(safetensors.numpy.load_file(path), path)  # as another program writes it
    whole: Any = models.with_weights(name, path, FIVE).model
    found = models.with_weights(name, path, TINY, head="new")
    ours: Any = found.model
    assert (found.missing, found.misshapen, found.unused) == ((), (), ())
    head = models.entry(name).head
    for key, array in tree.named_leaves(eqx.filter(ours, eqx.is_array)):
        same = dict(tree.named_leaves(eqx.filter(whole, eqx.is_array)))[key]
        assert (array.shape == same.shape and np.array_equal(array, same)) != key.startswith(head), key
    assert ours.config.pixels == "imagenet"
    assert jax.eval_shape(ours.logits, np.zeros((2, *TINY.shape), np.float32)).shape == (2, 3)
    with pytest.raises(ArgumentError, match=r"instead of \(3.*\n.*3 outputs for your data: head=new"):
        models.with_weights(name, path, TINY)


def test_pixels_are_standardised_as_published_and_grey_becomes_three_equal_colours() -> None:
    x = jnp.asarray(np.random.default_rng(0).uniform(size=(1, 2, 2, 3)), jnp.float32)
    np.testing.assert_allclose(standardised(x, "half"), 2 * x - 1, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(standardised(x, "none"), x)
    grey = x[..., :1]
    np.testing.assert_array_equal(
        standardised(grey, "imagenet"), standardised(jnp.repeat(grey, 3, axis=3), "imagenet")
    )
    one = Schema("image", (16, 16, 1), target="class", classes=("a", "b", "c"))
    assert shaped("resnet", one, depth=18, pixels="imagenet").stem.conv.weight.shape == (7, 7, 3, 64)
    four = Schema("image", (16, 16, 4), target="class", classes=("a", "b", "c"))
    with pytest.raises(ArgumentError, match="mean of three colours cannot be taken out of 4 channels"):
        models.build("resnet", four, pixels="imagenet")


def test_a_file_of_our_own_is_sized_by_what_it_says(tmp_path: Path) -> None:
    model = models.build("resnet", FIVE, depth=8, width=2)
    found: Any = models.with_weights(
        "resnet", models.export_weights(model, tmp_path / "w.safetensors"), TINY, head="new"
    )
    assert (found.model.config.depth, found.model.config.pixels) == (8, "none")
    plain = models.export_weights(model, tmp_path / "w.safetensors", layout="chainrule")
    with pytest.raises(ArgumentError, match=r"(?s)not those of PyTorch's libraries\n.*fresh=head"):
        models.with_weights("resnet", plain, TINY, head="new")


def test_files_of_other_networks_are_refused(files: Mapping[str, Any]) -> None:
    for name, file in (
        ("vit", "convnext"),
        ("convnext", "vit"),
        ("resnet", "vit"),
        ("vgg", "vit"),
        ("alexnet", "vit"),
    ):
        with pytest.raises(DataError, match="the file holds no"):
            models.with_weights(name, files[file][2], TINY)
    model = models.with_weights("vit", files["vit"][2], FIVE).model
    with pytest.raises(ArgumentError, match=r"fresh=haed: no layer .*did you mean 'head'"):
        models.import_weights(model, files["vit"][2], fresh=["haed"])


# ---------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("side", "patch"), [(8, 2), (16, 2), (28, 4), (32, 4), (64, 8), (96, 12), (224, 16), (384, 16)]
)
def test_patches_suit_the_images(side: int, patch: int) -> None:
    assert shaped("vit", Schema("image", (side, side, 1), target="value", target_shape=(1,))).patch == patch


def test_images_that_cannot_be_read_are_refused_with_a_remedy_that_works() -> None:
    prime = Schema("image", (97, 97, 3), target="class", classes=("a", "b"))
    with pytest.raises(ArgumentError, match=r"97×97 .*\n.*size=96"):
        models.build("vit", prime)
    assert shaped("vit", prime, size=96).patch == 12
    with pytest.raises(ArgumentError, match=r"4 stages need images of at least 32.*\n.*size=32"):
        models.build("convnext", TINY, variant="tiny", stem=4)
    assert shaped("convnext", TINY, variant="tiny", stem=4, size=32).stem.stride == (4, 4)
    with pytest.raises(ArgumentError, match=r"do not name the same stages"):
        models.build("convnext", TINY, depths=(1, 1))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("vit", {"layers": 2, "heads": 2, "width": 8, "patch": 8}),
        ("convnext", {"depths": (2,), "widths": (4,), "layer_scale": 1.0}),
        ("resnet", {"depth": 8, "width": 2, "zero_start": False}),
    ],
)
def test_stochastic_depth_leaves_blocks_out_only_while_training(name: str, settings: dict) -> None:
    model: Any = models.build(name, TINY, stochastic_depth=0.5, **settings)
    plain: Any = models.build(name, TINY, **settings)
    x = np.random.default_rng(0).uniform(size=(8, 16, 16, 3)).astype(np.float32)

    @eqx.filter_jit
    def both(model: Any, plain: Any, x: Any, keys: Any) -> tuple:
        training = jax.vmap(lambda key: model.outputs(x, key)[0])(keys)
        return training, model.logits(x), plain.logits(x)

    keys = jnp.stack([jax.random.key(seed) for seed in (0, 1, 0)])
    (one, other, same), predicted, expected = both(model, plain, x, keys)
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)
    np.testing.assert_array_equal(predicted, expected)


@pytest.mark.parametrize(
    ("side", "halvings", "strides"),
    [
        (224, None, [2, 1, 2, 2, 2, 1, 2, 1]),
        (32, None, [1, 1, 1, 2, 2, 1, 2, 1]),
        (8, 2, [1, 1, 1, 1, 2, 1, 2, 1]),
    ],
)
def test_the_first_halvings_of_small_images_are_left_out(
    side: int, halvings: int | None, strides: list[int]
) -> None:
    schema = Schema("image", (side, side, 3), target="class", classes=("a", "b"))
    model = shaped("mobilenet", schema, depths=(1,) * 7, halvings=halvings)
    found = [model.stem, *(block.layers[-2] for block in model.blocks)]
    assert [one.conv.stride[0] for one in found] == strides
    with pytest.raises(ArgumentError, match=r"halvings=3 is the most"):
        models.build("mobilenet", Schema("image", (8, 8, 3), target="value", target_shape=(1,)), halvings=4)
    with pytest.raises(ArgumentError, match="do not name the same stages"):
        models.build("mobilenet", TINY, depths=(1, 1))
