"""Cross-attention to the words of a caption, as maps over the image at every noise level.

Every position of a few grids attends to every word. Weights are averaged over heads and layers, brought to the
size of the image, and shown as one map for each word at a few moments between noise and image.
"""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Images, Lines
from chainrule.core.types import Array
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text import captions, pairs, tokenizers
from chainrule.explain.probes.captions import is_caption_diffusion
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasTokenAttention, Model
from chainrule.train import Run

_MOMENTS = 5


@final
class CaptionAttentionSettings(Settings):
    """The caption, and the samples to watch."""

    text: str = Field("", description="a caption; one of the held-out images if none is given")
    n: int = Field(
        16, ge=1, le=256, description="samples that shares are averaged over; the first one is shown"
    )
    steps: int = Field(20, ge=2, description="steps of the sampler")
    guidance: float | None = Field(None, ge=0, description="weight of guidance; none: the model's usual one")
    seed: int = Field(0, ge=0, description="noise the samples start from")


def examine(run: Run, data: Data, settings: CaptionAttentionSettings) -> Outcome:
    """Draw samples of one caption and keep what every position attends to at every step."""
    model, schema = run.model, run.schema
    assert isinstance(model, HasTokenAttention)
    text = settings.text or captions.text(schema, data.examples("test").batch(np.arange(1)).y[0])
    row = captions.encode(schema, text)
    words = ["whole", *(piece.strip() for piece in pairs.pieces(tokenizers.of_target(schema), row))]
    key = random.key(settings.seed, "probe")
    walked = model.trajectory(
        key, settings.n, condition=text, steps=settings.steps, guidance=settings.guidance
    )
    condition = model.conditions(text, settings.n)
    maps = np.stack(
        [
            _mean(_attention(model, noisy, jnp.asarray(lam), condition), schema)
            for noisy, lam in zip(walked.noisy, walked.lams, strict=False)
        ]
    )[..., : len(words)]
    shares = maps.mean(axis=(1, 2, 3))
    favourite = int(shares.mean(axis=0)[1:].argmax()) + 1
    guesses = np.clip(np.asarray(model.to_model_units(walked.estimates)), 0, 1)
    return Outcome(
        [
            f"Of the words of {text!r}, {words[favourite]!r} is attended to most: it gets "
            f"{100 * shares[:, favourite].mean():.1f} % of the attention of all positions, steps, layers and heads "
            f"({settings.n} samples).",
        ],
        [
            _sheet(maps[:, 0], guesses[:, 0], walked.lams, words, text),
            Lines(
                "caption-attention-shares",
                "What is attended to on the way",
                "lam = log signal-to-noise ratio",
                "share of attention",
                {f"{i} {word}" if i else word: (walked.lams, shares[:, i]) for i, word in enumerate(words)},
                caption="Noise on the left, the finished image on the right.",
            ),
        ],
        None,
        {"words": words, "lam": walked.lams.tolist(), "shares": shares.tolist()},
    )


@eqx.filter_jit
def _attention(model: HasTokenAttention, noisy: Array, lam: Array, condition: Array) -> Sequence[Array]:
    return model.token_attention(noisy, lam, condition)


def _mean(found: Sequence[Array], schema: Schema) -> Float[np.ndarray, "n height width tokens"]:
    """Maps of all layers and heads as one, in the size of the image; what a network has padded is cut off."""
    height, width = schema.shape[:2]
    whole = []
    for layer in found:
        weights = np.asarray(layer).mean(axis=3)
        for axis, side in ((1, height), (2, width)):
            weights = np.repeat(weights, -(-side // weights.shape[axis]), axis=axis)
        whole.append(weights[:, :height, :width])
    return np.mean(whole, axis=0)


def _sheet(
    maps: Float[np.ndarray, "steps height width words"],
    guesses: Float[np.ndarray, "steps height width channels"],
    lams: Any,
    words: list[str],
    text: str,
) -> Images:
    """A row for each of a few moments: what the image is taken for by then, and a map for each word."""
    shown = np.linspace(0, len(maps) - 1, min(_MOMENTS, len(maps))).round().astype(int)
    low, high = (f(maps[shown], axis=(1, 2), keepdims=True) for f in (np.min, np.max))
    scaled = (maps[shown] - low) / np.maximum(high - low, 1e-9)
    grey = guesses[shown].mean(axis=3, keepdims=True)
    tiles = np.moveaxis(np.concatenate([grey, scaled], axis=3), 3, 1)[..., None]
    labels = [label for i in shown for label in (f"lam {lams[i]:.1f}", *words)]
    return Images(
        "caption-attention",
        f"Where the words of {text!r} are looked for",
        tiles.reshape(-1, *tiles.shape[2:]),
        labels,
        1 + len(words),
        "Left: what the image is taken for. Then a map for each word, from the least attention (black) to the most "
        "(white) of that map.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    if not is_caption_diffusion(model, schema):
        return False
    if not isinstance(model, HasTokenAttention):
        return False
    x, condition = jnp.zeros((1, *schema.shape)), jnp.zeros((1, *schema.target_shape), jnp.int32)
    return bool(eqx.filter_eval_shape(_attention, model, x, jnp.asarray(0.0), condition))


probe = Probe(
    "Where each word of a caption is looked for in the image, step by step.",
    "a diffusion model that attends to captions (denoiser=unet or dit)",
    _applies,
    examine,
    CaptionAttentionSettings,
    toy={"n": 2, "steps": 2},
)

__all__ = ["CaptionAttentionSettings", "examine", "probe"]
