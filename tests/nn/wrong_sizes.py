"""Every constructor and function of `chainrule.nn` that takes a size, with sizes that are none; some with wrong shapes.

Run as a program, because the suite's own type checks would speak before the code does. Prints, as JSON, each call that
was accepted or that ended in anything but an `ArgumentError` that names the argument.
"""

import json
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule import nn
from chainrule.core.errors import ArgumentError
from chainrule.nn import attention, augment, constructions, detection, positions, segmentation, spectral

KEY = jax.random.key(0)
IMAGE = jnp.ones((8, 8, 4))

CALLS: list[tuple[Callable[..., Any], dict[str, Any], tuple[str, ...]]] = [
    (nn.Linear, {"inputs": 3, "outputs": 2, "key": KEY}, ("inputs", "outputs")),
    (
        nn.Conv,
        {
            "dimensions": 2,
            "inputs": 4,
            "outputs": 2,
            "kernel": 3,
            "stride": 1,
            "dilation": 1,
            "groups": 1,
            "key": KEY,
        },
        ("dimensions", "inputs", "outputs", "kernel", "stride", "dilation", "groups"),
    ),
    (
        nn.ConvTranspose,
        {
            "dimensions": 2,
            "inputs": 4,
            "outputs": 2,
            "kernel": 2,
            "stride": 2,
            "dilation": 1,
            "groups": 1,
            "key": KEY,
        },
        ("dimensions", "inputs", "outputs", "kernel", "stride", "dilation", "groups"),
    ),
    (nn.Embedding, {"tokens": 5, "features": 3, "key": KEY}, ("tokens", "features")),
    (nn.BatchNorm, {"features": 3}, ("features",)),
    (nn.GroupNorm, {"features": 4, "groups": 2, "dimensions": 1}, ("features", "groups")),
    (nn.LayerNorm, {"features": 3}, ("features",)),
    (nn.RMSNorm, {"features": 3}, ("features",)),
    (nn.norm, {"name": "batch", "features": 3}, ("features",)),
    (nn.RNN, {"inputs": 3, "hidden": 2, "key": KEY}, ("inputs", "hidden")),
    (nn.LSTM, {"inputs": 3, "hidden": 2, "key": KEY}, ("inputs", "hidden")),
    (nn.GRU, {"inputs": 3, "hidden": 2, "key": KEY}, ("inputs", "hidden")),
    (nn.Stack, {"inputs": 3, "hidden": 2, "depth": 1, "key": KEY}, ("inputs", "hidden", "depth")),
    (
        nn.ResidualBlock,
        {"inputs": 4, "outputs": 4, "stride": 1, "dimensions": 2, "key": KEY},
        ("inputs", "outputs", "stride", "dimensions"),
    ),
    (nn.Scattering, {"scales": 1, "angles": 2}, ("scales", "angles")),
    (
        nn.SelfAttention,
        {"width": 4, "heads": 2, "groups": 1, "window": 2, "key": KEY},
        ("width", "heads", "groups", "window"),
    ),
    (nn.TransformerBlock, {"width": 4, "heads": 2, "key": KEY}, ("width", "heads")),
    (
        attention.CrossAttention,
        {"width": 4, "heads": 2, "source": 3, "key": KEY},
        ("width", "heads", "source"),
    ),
    (positions.Learned, {"context": 5, "width": 4, "key": KEY}, ("context", "width")),
    (positions.Sinusoids, {"width": 4}, ("width",)),
    (constructions.GraphLayer, {"inputs": 3, "outputs": 2, "key": KEY}, ("inputs", "outputs")),
    (lambda sizes: constructions.mlp([2, sizes, 1], key=KEY), {"sizes": 3}, ("sizes",)),
    (lambda size: nn.max_pool(IMAGE, size), {"size": 2}, ("size",)),
    (lambda size: nn.average_pool(IMAGE, size, stride=1), {"size": 2}, ("size",)),
    (lambda stride: nn.max_pool(IMAGE, 2, stride=stride), {"stride": 2}, ("stride",)),
    (lambda sizes: nn.adaptive_max_pool(IMAGE, sizes), {"sizes": 2}, ("sizes",)),
    (lambda sizes: nn.adaptive_average_pool(IMAGE, sizes), {"sizes": 2}, ("sizes",)),
    (lambda stride: nn.blur_pool(IMAGE, stride), {"stride": 2}, ("stride",)),
    (lambda size: nn.max_pool_with_switches(IMAGE, size), {"size": 2}, ("size",)),
    (lambda scale: nn.pixel_shuffle(IMAGE, scale), {"scale": 2}, ("scale",)),
    (lambda scale: nn.upsample(IMAGE, scale), {"scale": 2}, ("scale",)),
    (lambda samples: nn.monte_carlo(lambda key: jnp.ones(2), KEY, samples), {"samples": 3}, ("samples",)),
    (lambda batch: augment.draw_moves(KEY, batch), {"batch": 3}, ("batch",)),
]
SHARES: list[tuple[Callable[..., Any], str]] = [
    (nn.Dropout, "p"),
    (nn.ChannelDropout, "p"),
    (nn.StochasticDepth, "p"),
]
MAP, BOXES, SPECTRUM = jnp.ones((8, 8, 3)), jnp.ones((2, 4)), jnp.ones((2, 9, 5), jnp.complex64)
MASK = jnp.ones((2, 4, 4), jnp.int32)
SHAPES: dict[str, tuple[Callable[[], Any], str]] = {
    "a plain map": (lambda: detection.roi_align(MAP[..., 0], BOXES), "roi_align: a map of shape"),
    "a batch of maps": (lambda: detection.roi_max_pool(MAP[None], BOXES), "roi_max_pool: a map of shape"),
    "one box": (lambda: detection.warp_regions(MAP, BOXES[0], (2, 2)), "boxes of shape (4,)"),
    "one number": (lambda: detection.roi_align(MAP, BOXES, 7), "size=(7, 7)"),  # type: ignore[arg-type]
    "one spectrum": (lambda: spectral.ideal_binary_mask(SPECTRUM[0]), "sources, bins, frames"),
    "one column": (lambda: spectral.ideal_ratio_mask(SPECTRUM[0, 0]), "sources, bins, frames"),
    "fewer frames": (lambda: spectral.apply_mask(SPECTRUM, SPECTRUM[0, :, 1:]), "apply_mask: an array"),
    "fewer bins": (lambda: spectral.ideal_complex_mask(SPECTRUM, SPECTRUM[0, 1:]), "beside a mixture"),
    "a number": (lambda: spectral.si_sdr(jnp.ones(()), jnp.ones(())), "no signal"),
    "one mask": (lambda: segmentation.border_weights(MASK[0]), "labels[None]"),
    "narrow masks": (
        lambda: segmentation.dice_loss(jnp.ones((2, 4, 4, 3)), MASK[:, 1:], MASK > 0),
        "dice_loss: logits of shape",
    ),
    "no classes": (
        lambda: segmentation.pixel_cross_entropy(jnp.ones((2, 4, 4)), MASK, MASK > 0),
        "pixel_cross_entropy: logits of shape",
    ),
    "flat energies": (lambda: segmentation.crf(MAP[..., 0], MAP), "crf: energies of shape"),
    "shares": (lambda: segmentation.agreement(np.ones((1, 2, 2)), np.ones((1, 2, 2), int), 2), "argmax"),
}
WRONG: tuple[Any, ...] = (0, -1, 2.5, 2.0, "3", None, True, np.float32(2))


def main() -> None:
    """Try everything."""
    warnings.simplefilter("ignore")
    found = []
    for make, right, names in CALLS:
        for name in names:
            whole = {**right, name: np.int64(right[name])}
            if outcome := tried(make, whole):
                found.append(f"refuses NumPy's: {shown(make, name, whole[name])}: {outcome}")
            for value in WRONG:
                if value is None and name in ("groups", "window", "source", "stride"):
                    continue  # stands for what follows from the rest
                outcome = tried(make, {**right, name: value})
                if not outcome.startswith("ArgumentError") or name not in outcome:
                    found.append(f"{shown(make, name, value)}: {outcome or 'accepted'}")
    for make, name in SHARES:
        for value in (-0.1, 1.5, "0.5", None, float("nan")):
            outcome = tried(make, {name: value})
            if not outcome.startswith("ArgumentError") or name not in outcome:
                found.append(f"{shown(make, name, value)}: {outcome or 'accepted'}")
    for name, (make, words) in SHAPES.items():
        outcome = tried(make, {})
        if not outcome.startswith("ArgumentError") or words not in outcome:
            found.append(f"{name}: {outcome or 'accepted'}")
    print(json.dumps(found))


def tried(make: Callable[..., Any], arguments: dict[str, Any]) -> str:
    """What was raised, in words; nothing where nothing was."""
    try:
        make(**arguments)
    except ArgumentError as error:
        return f"ArgumentError {error}"
    except Exception as error:  # whatever a user would see
        return f"{type(error).__name__} {str(error)[:100]}"
    return ""


def shown(make: Callable[..., Any], name: str, value: Any) -> str:
    """The call, shortly."""
    return f"{make.__name__}({name}={value!r})"


if __name__ == "__main__":
    main()
