"""Integrated gradients, DeepLIFT and Grad-CAM beside captum, on the same network in PyTorch."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import explain
from chainrule.nn import average_pool

RNG = np.random.default_rng(0)
X, START = (RNG.normal(size=(3, 8, 8, 2)).astype(np.float32) for _ in range(2))


class Pair(NamedTuple):
    """One network here and there."""

    torch: ModuleType
    attr: ModuleType
    theirs: Any
    ours: Callable[[jax.Array], jax.Array]


@pytest.fixture(scope="module")
def pair(oracle: Callable[[str], ModuleType]) -> Pair:
    torch, attr = oracle("torch"), oracle("captum.attr")
    torch.manual_seed(0)
    nn = torch.nn
    theirs = nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(4, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(20, 6), nn.Tanh(), nn.Linear(6, 3)),
    )
    weights = [parameter.detach().numpy() for parameter in theirs.parameters()]

    def convolve(x: jax.Array, number: int, padding: str) -> jax.Array:
        kernel = jnp.transpose(weights[number], (2, 3, 1, 0))
        found = jax.lax.conv_general_dilated(
            x, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return jax.nn.relu(found + weights[number + 1][None, None, None])

    def ours(x: jax.Array) -> jax.Array:
        h = convolve(average_pool(convolve(x, 0, "SAME"), 2), 2, "VALID")
        h = jnp.transpose(h, (0, 3, 1, 2)).reshape(len(x), 20)
        h = jnp.tanh(h @ weights[4].T + weights[5][None])
        return h @ weights[6].T + weights[7][None]

    return Pair(torch, attr, theirs, ours)


def tensor(pair: Pair, x: np.ndarray) -> Any:
    return pair.torch.tensor(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))


def array(found: Any) -> np.ndarray:
    return found.detach().numpy().transpose(0, 2, 3, 1)


def test_integrated_gradients(pair: Pair) -> None:
    ours = explain.integrated_gradients(pair.ours, X, START, 1, most=64)
    theirs = pair.attr.IntegratedGradients(pair.theirs).attribute(
        tensor(pair, X), tensor(pair, START), target=1, n_steps=64, method="gausslegendre"
    )
    np.testing.assert_allclose(ours.values, array(theirs), rtol=1e-4, atol=1e-6)
    assert np.abs(ours.values).max() > 1e-3


@pytest.mark.filterwarnings("ignore")
def test_deep_lift(pair: Pair) -> None:
    ours = explain.deep_lift(pair.ours, X, START, 1)
    theirs = pair.attr.DeepLift(pair.theirs).attribute(tensor(pair, X), tensor(pair, START), target=1)
    np.testing.assert_allclose(ours.values, array(theirs), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("layer", "theirs_layer"), [(0, 1), (1, 4), (-1, 4)])
def test_grad_cam(pair: Pair, layer: int, theirs_layer: int) -> None:
    target = [2, 0, 1]
    ours = explain.grad_cam(pair.ours, X, layer, np.array(target))
    found = pair.attr.LayerGradCam(pair.theirs, pair.theirs[theirs_layer]).attribute(
        tensor(pair, X), target=target, relu_attributions=True
    )
    theirs = np.asarray(
        jax.image.resize(found.detach().numpy()[:, 0], (3, 8, 8), "bilinear")
    )  # both to the size of the image in one way
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    assert np.abs(theirs).max() > 1e-3
