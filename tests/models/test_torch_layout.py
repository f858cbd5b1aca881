"""Models that no library of PyTorch has, in its layouts: a twin loads them, answers alike, and they come back."""

import itertools
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.torch

from chainrule import data, models
from chainrule.core.errors import CapabilityError
from chainrule.models.protocol import Model

torch = pytest.importorskip("torch")


def moved(name: str, **settings: object) -> Model:
    """A model whose running averages and scales are no longer what they begin with."""
    model = models.build(name, data.load("digits"), **settings)
    noise = np.random.default_rng(0)
    return jax.tree.map(
        lambda a: a + 0.1 * noise.random(a.shape, np.float32) if eqx.is_inexact_array(a) else a, model
    )


class Block(torch.nn.Module):
    """A layer and its normaliser, under the names they have here."""

    def __init__(self, name: str, layer: torch.nn.Module, norm: torch.nn.Module) -> None:
        super().__init__()
        self.add_module(name, layer)
        self.norm = norm
        self.layer = [layer]

    def forward(self, x):
        return torch.relu(self.norm(self.layer[0](x)))


class MLPTwin(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = (64, 6, 6)
        self.blocks = torch.nn.ModuleList(
            Block("linear", torch.nn.Linear(a, b), torch.nn.BatchNorm1d(b))
            for a, b in itertools.pairwise(widths)
        )
        self.head = torch.nn.Linear(6, 10)

    def forward(self, x):
        x = x.flatten(1)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class CNNTwin(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = torch.nn.ModuleList(
            torch.nn.ModuleList(
                [Block("conv", torch.nn.Conv2d(a, b, 3, padding=1, bias=False), torch.nn.BatchNorm2d(b))]
            )
            for a, b in ((1, 4), (4, 8))
        )
        self.head = torch.nn.Linear(8, 10)

    def forward(self, x):
        for index, (block,) in enumerate(self.stages):
            x = block(torch.nn.functional.max_pool2d(x, 2) if index else x)
        return self.head(x.mean(dim=(2, 3)))


@pytest.mark.parametrize(
    ("name", "settings", "twin"),
    [
        ("mlp", {"width": 6, "depth": 3, "normalization": "batch"}, MLPTwin),
        ("cnn", {"width": 4, "stages": 2, "blocks": 1, "normalization": "batch"}, CNNTwin),
    ],
)
def test_a_twin_in_pytorch_loads_the_file_and_answers_alike(name, settings, twin, tmp_path: Path) -> None:
    model = moved(name, **settings)
    file = models.export_weights(model, tmp_path / "w.safetensors", layout="torch")
    other = twin().eval()
    kept = other.load_state_dict(safetensors.torch.load_file(file), strict=False)
    assert kept.unexpected_keys == []
    assert all(key.endswith("num_batches_tracked") for key in kept.missing_keys)
    x = np.random.default_rng(1).random((3, 8, 8, 1)).astype(np.float32)
    with torch.no_grad():
        found = other(torch.from_numpy(x).permute(0, 3, 1, 2))
    np.testing.assert_allclose(found.numpy(), model.logits(jnp.asarray(x)), atol=2e-5)  # type: ignore[attr-defined]
    again = models.import_weights(models.build(name, data.load("digits"), **settings), file).model
    for ours, theirs in zip(jax.tree.leaves(model), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_model_with_arrays_that_no_layer_has_is_refused(tmp_path: Path) -> None:
    made = models.build("ngram", data.load("shakespeare"), **models.entry("ngram").toy)
    with pytest.raises(CapabilityError, match=r"cannot be laid out for PyTorch: .*\n.*layout=chainrule"):
        models.export_weights(made, tmp_path / "w.safetensors", layout="torch")
