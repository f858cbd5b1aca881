"""Every layer against PyTorch in double precision: values, gradients of the input and of every parameter."""

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import nn
from chainrule.nn import losses

KEY = jax.random.key(0)
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def torch(oracle: Callable[[str], ModuleType]) -> ModuleType:
    return oracle("torch")


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def randomised(layer: Any) -> Any:
    """The layer with noise on every parameter, so that no bias or scale is trivial."""
    arrays, rest = eqx.partition(layer, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(arrays)
    noisy = [jnp.asarray(np.asarray(leaf) + 0.3 * draw(*leaf.shape, seed=i)) for i, leaf in enumerate(leaves)]
    return eqx.combine(jax.tree.unflatten(tree, noisy), rest)


def first(a: np.ndarray) -> np.ndarray:
    """Channels first."""
    return np.moveaxis(a, -1, 1)


def last(a: Any) -> np.ndarray:
    """Channels last."""
    return np.moveaxis(a.detach().numpy(), 1, -1)


def kernel(weight: Any) -> np.ndarray:
    """(*kernel, a, b) to PyTorch's (b, a, *kernel)."""
    return np.moveaxis(np.asarray(weight), (-1, -2), (0, 1))


@eqx.filter_jit
def derivatives(layer: Any, x: Any, seed: Any) -> tuple[Any, Any, Any]:
    """The value, and the gradients of parameters and input."""
    out, back = eqx.filter_vjp(lambda layer, x: layer(x), layer, x)
    return out, *back(seed)


def agree(
    torch: ModuleType,
    layer: Any,
    x: np.ndarray,
    theirs: Callable[[Any, Sequence[Any]], Any],
    parameters: Sequence[tuple[Callable[[Any], Any], Callable[[Any], np.ndarray]]],
    *,
    channels_first: bool = False,
) -> None:
    """Value, input gradient and the gradient of every parameter, against the same function in PyTorch."""
    to, fro = (first, last) if channels_first else (lambda a: a, lambda a: a.detach().numpy())
    t = torch.tensor(to(x), requires_grad=True)
    weights = [torch.tensor(np.array(turn(where(layer))), requires_grad=True) for where, turn in parameters]
    value = theirs(t, weights)
    seed = draw(*fro(value).shape, seed=9)
    out, grads, dx = derivatives(layer, jnp.asarray(x), jnp.asarray(seed))
    value.backward(torch.tensor(np.ascontiguousarray(to(seed))))
    np.testing.assert_allclose(out, fro(value), **TOLERANCE)
    np.testing.assert_allclose(dx, fro(t.grad), **TOLERANCE)
    for (where, turn), weight in zip(parameters, weights, strict=True):
        np.testing.assert_allclose(turn(where(grads)), weight.grad.numpy(), **TOLERANCE)


WEIGHT_AND_BIAS = [(lambda one: one.weight, kernel), (lambda one: one.bias, np.asarray)]
SCALE_AND_SHIFT = [(lambda one: one.scale, np.asarray), (lambda one: one.shift, np.asarray)]

CONVOLUTIONS = {
    "plain": (2, 3, 4, 3, {"padding": 1}),
    "stride": (2, 2, 3, (3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    "dilation": (2, 2, 3, 3, {"stride": 2, "padding": 2, "dilation": 2}),
    "groups": (2, 4, 6, 3, {"padding": 1, "groups": 2}),
    "signal": (1, 2, 3, 4, {"stride": 2, "padding": 1}),
    "volume": (3, 2, 2, 2, {"padding": 1}),
    "circular": (2, 2, 3, 3, {"padding": 1, "padding_mode": "circular"}),
    "reflect": (2, 2, 3, 3, {"padding": 1, "padding_mode": "reflect"}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, torch: ModuleType) -> None:
    dimensions, inputs, outputs, size, options = CONVOLUTIONS[name]
    layer = randomised(nn.Conv(dimensions, inputs, outputs, size, key=KEY, **options))
    functional = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}[dimensions]
    mode = options.get("padding_mode", "zeros")
    plain = {k: v for k, v in options.items() if k != "padding_mode"}

    def theirs(x: Any, weights: Sequence[Any]) -> Any:
        if mode == "zeros":
            return functional(x, *weights, **plain)
        padded = torch.nn.functional.pad(x, [1] * 2 * dimensions, mode=mode)
        return functional(padded, *weights)

    x = draw(2, *(7, 6, 5)[:dimensions], inputs)
    agree(torch, layer, x, theirs, WEIGHT_AND_BIAS, channels_first=True)


@pytest.mark.filterwarnings("ignore:.*checkerboards")
@pytest.mark.parametrize(
    ("inputs", "outputs", "size", "options"),
    [
        (3, 2, 2, {"stride": 2, "padding": 0}),
        (2, 3, 3, {"stride": 2, "padding": 1, "output_padding": 1}),
        (4, 2, 4, {"stride": 3, "padding": 1, "groups": 2}),
        (2, 2, 3, {"stride": 2, "padding": 2, "dilation": 2, "output_padding": 1}),
    ],
)
def test_transposed_convolutions(
    inputs: int, outputs: int, size: int, options: dict[str, int], torch: ModuleType
) -> None:
    layer = randomised(nn.ConvTranspose(2, inputs, outputs, size, key=KEY, **options))
    agree(
        torch,
        layer,
        draw(2, 4, 5, inputs),
        lambda x, weights: torch.nn.functional.conv_transpose2d(x, *weights, **options),
        WEIGHT_AND_BIAS,
        channels_first=True,
    )


def pools(torch: ModuleType) -> dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
    f = torch.nn.functional
    return {
        "max, side by side": (lambda x: nn.max_pool(x, 2), lambda x: f.max_pool2d(x, 2)),
        "max, overlapping": (
            lambda x: nn.max_pool(x, 3, stride=2, padding=1),
            lambda x: f.max_pool2d(x, 3, stride=2, padding=1),
        ),
        "average, side by side": (lambda x: nn.average_pool(x, 2), lambda x: f.avg_pool2d(x, 2)),
        "average with padding": (
            lambda x: nn.average_pool(x, 3, stride=2, padding=1),
            lambda x: f.avg_pool2d(x, 3, stride=2, padding=1),
        ),
        "average without padding": (
            lambda x: nn.average_pool(x, 3, stride=2, padding=1, count_padding=False),
            lambda x: f.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False),
        ),
        "adaptive average": (
            lambda x: nn.adaptive_average_pool(x, (3, 2)),
            lambda x: f.adaptive_avg_pool2d(x, (3, 2)),
        ),
        "adaptive max": (lambda x: nn.adaptive_max_pool(x, 3), lambda x: f.adaptive_max_pool2d(x, 3)),
        "nearest": (lambda x: nn.upsample(x, 2), lambda x: f.interpolate(x, scale_factor=2, mode="nearest")),
        "bilinear": (
            lambda x: nn.upsample(x, 3, method="bilinear"),
            lambda x: f.interpolate(x, scale_factor=3, mode="bilinear", align_corners=False),
        ),
        "shuffle": (lambda x: nn.pixel_shuffle(x, 2), lambda x: f.pixel_shuffle(x, 2)),
        "unpooling": (
            lambda x: nn.unpool(*nn.max_pool_with_switches(x, 2)),
            lambda x: f.max_unpool2d(*f.max_pool2d(x, 2, return_indices=True), 2),
        ),
    }


def test_pooling_and_resizing(torch: ModuleType) -> None:
    x = draw(2, 8, 6, 4)
    for ours, theirs in pools(torch).values():
        agree(torch, ours, x, lambda x, _, theirs=theirs: theirs(x), [], channels_first=True)


def test_normalisers(torch: ModuleType) -> None:
    f = torch.nn.functional
    group = randomised(nn.GroupNorm(6, groups=3))
    x = draw(2, 4, 5, 6)
    agree(torch, group, x, lambda x, w: f.group_norm(x, 3, *w), SCALE_AND_SHIFT, channels_first=True)
    instance = randomised(nn.norm("instance", 6, 2))
    agree(
        torch,
        instance,
        x,
        lambda x, w: f.instance_norm(x, None, None, *w),
        SCALE_AND_SHIFT,
        channels_first=True,
    )
    layer = randomised(nn.LayerNorm(6))
    agree(torch, layer, x, lambda x, w: f.layer_norm(x, (6,), *w), SCALE_AND_SHIFT)
    rms = randomised(nn.RMSNorm(6))
    agree(torch, rms, x, lambda x, w: f.rms_norm(x, (6,), w[0], eps=1e-5), SCALE_AND_SHIFT[:1])


def test_batch_norm_with_pytorch_s_running_variance(torch: ModuleType) -> None:
    layer, x = nn.BatchNorm(3, unbiased=True), draw(4, 5, 5, 3)
    theirs = torch.nn.BatchNorm2d(3, dtype=torch.float64)
    out, moved = eqx.filter_jit(layer.advance)(jnp.asarray(x))
    np.testing.assert_allclose(out, last(theirs(torch.tensor(first(x)))), **TOLERANCE)
    np.testing.assert_allclose(moved.mean, theirs.running_mean.numpy(), **TOLERANCE)
    np.testing.assert_allclose(moved.var, theirs.running_var.numpy(), **TOLERANCE)


RECURRENT = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name: str, torch: ModuleType) -> None:
    layer = randomised(RECURRENT[name](3, 4, key=KEY))
    module = getattr(torch.nn, name)(3, 4, batch_first=True, dtype=torch.float64)
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")

    def theirs(x: Any, weights: Sequence[Any]) -> Any:
        return torch.func.functional_call(module, dict(zip(names, weights, strict=True)), (x,))[0]

    parameters = [
        (lambda one: one.inward.weight, lambda w: np.asarray(w).T),
        (lambda one: one.recurrent.weight, lambda w: np.asarray(w).T),
        (lambda one: one.inward.bias, np.asarray),
        (lambda one: one.recurrent.bias, np.asarray),
    ]
    outputs = eqx.Partial(lambda layer, x: layer(x)[0], layer)
    reached = [(lambda one, where=where: where(one.args[0]), turn) for where, turn in parameters]
    agree(torch, outputs, draw(2, 5, 3), theirs, reached)


@pytest.mark.parametrize("causal", [False, True])
def test_self_attention(causal: bool, torch: ModuleType) -> None:
    layer = randomised(nn.SelfAttention(8, heads=2, causal=causal, key=KEY))
    mask = torch.triu(torch.full((5, 5), float("-inf"), dtype=torch.float64), diagonal=1) if causal else None

    def theirs(x: Any, weights: Sequence[Any]) -> Any:
        w_in, b_in, w_out, b_out = weights
        return torch.nn.functional.multi_head_attention_forward(
            *(x.transpose(0, 1),) * 3, 8, 2, w_in, b_in, None, None, False, 0.0, w_out, b_out, attn_mask=mask
        )[0].transpose(0, 1)

    parameters = [
        (lambda one: one.inward.weight, lambda w: np.asarray(w).T),
        (lambda one: one.inward.bias, np.asarray),
        (lambda one: one.outward.weight, lambda w: np.asarray(w).T),
        (lambda one: one.outward.bias, np.asarray),
    ]
    agree(torch, layer, draw(3, 5, 8), theirs, parameters)


def test_losses(torch: ModuleType) -> None:
    f = torch.nn.functional
    logits, other = 3 * draw(6, 4), draw(6, 4, seed=1)
    labels, weights = np.arange(6) % 4, np.array([0.5, 1.0, 2.0, 3.0])
    soft = np.abs(other) / np.abs(other).sum(axis=1, keepdims=True)
    ours = jnp.asarray(logits)
    t = {"logits": torch.tensor(logits), "other": torch.tensor(other), "labels": torch.tensor(labels)}
    for a, b in (
        (
            losses.cross_entropy(ours, jnp.asarray(soft)),
            f.cross_entropy(t["logits"], torch.tensor(soft), reduction="none"),
        ),
        (
            losses.cross_entropy(
                ours, jnp.asarray(labels), smoothing=0.2, class_weights=jnp.asarray(weights), reduction="mean"
            ),
            f.cross_entropy(t["logits"], t["labels"], weight=torch.tensor(weights), label_smoothing=0.2),
        ),
        (
            losses.binary_cross_entropy(ours, jnp.asarray(soft), reduction="sum"),
            f.binary_cross_entropy_with_logits(t["logits"], torch.tensor(soft), reduction="sum"),
        ),
        (
            losses.absolute_error(ours, jnp.asarray(other), reduction="mean"),
            f.l1_loss(t["logits"], t["other"]),
        ),
        (
            losses.squared_error(ours, jnp.asarray(other), reduction="mean"),
            f.mse_loss(t["logits"], t["other"]),
        ),
        (
            losses.squared_error(ours, jnp.asarray(other), reduction="mean_of_sums"),
            f.mse_loss(t["logits"], t["other"], reduction="sum") / 6,
        ),
        (
            losses.huber(ours, jnp.asarray(other), delta=0.7, reduction="mean"),
            f.huber_loss(t["logits"], t["other"], delta=0.7),
        ),
    ):
        np.testing.assert_allclose(a, b.numpy(), **TOLERANCE)
