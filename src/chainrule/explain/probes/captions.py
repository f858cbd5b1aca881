"""Agreement of samples with their captions, by a classifier trained on real images and their captions.

The captions of training are the classes of the judge, a small classifier made for the occasion. How often it recognises
the caption of held-out images stands beside how often it recognises the one that samples were conditioned on.
"""

from typing import final

import numpy as np
from jaxtyping import Int
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Images, Lines, Table
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.data.text import captions
from chainrule.explain.protocol import NonNegative, Outcome, Probe, Settings
from chainrule.models.protocol import HasDenoiser, Model
from chainrule.train import Run
from chainrule.train.generation.reference_classifier import trained

_MOST = 10_000
"""Training images the judge sees."""
_OFTEN = 10
"""A caption is judged if so many training images have it."""
_SHOWN = 40


@final
class CaptionSettings(Settings):
    """The samples to judge."""

    n: int = Field(400, ge=10, description="samples for each weight, of all captions in turn")
    weights: tuple[NonNegative, ...] = Field((1.0, 2.0), description="weights of guidance", min_length=1)
    steps: int = Field(50, ge=1, description="steps of the sampler")
    seed: int = Field(0, ge=0, description="noise the samples start from, the same for all weights")


def examine(run: Run, data: Data, settings: CaptionSettings) -> Outcome:
    """Judge held-out images and samples alike."""
    model = run.model
    assert isinstance(model, HasDenoiser)
    known = _frequent(data.train)
    train, train_y = _named(data.train, known)
    real, real_y = _named(data.examples("test"), known)
    judge = trained(train, train_y, len(known))
    wanted = np.arange(settings.n) % len(known)
    shares, right = [], np.zeros(settings.n, bool)
    for weight in settings.weights:
        drawn = np.asarray(
            model.sample(
                random.key(settings.seed, "probe"),
                settings.n,
                condition=known[wanted],
                guidance=weight,
                steps=settings.steps,
            )
        )
        right = judge.probabilities(drawn.reshape(len(drawn), -1).astype(np.float64)).argmax(axis=1) == wanted
        shares.append(float(right.mean()))
    held_out = judge.accuracy(real, real_y)
    names = [captions.text(run.schema, row) for row in known]
    best = int(np.argmax(shares))
    labels = [names[i] + ("" if ok else "\n(not seen)") for i, ok in zip(wanted, right, strict=True)]
    counts = np.bincount(wanted, minlength=len(names))
    each = np.bincount(wanted, right, minlength=len(names)) / np.maximum(counts, 1)
    worst = [int(i) for i in np.argsort(each, kind="stable") if counts[i]]
    return Outcome(
        [
            f"The judge recognises the caption of {100 * shares[best]:.1f} % of {settings.n} samples at guidance "
            f"{settings.weights[best]:g}, and of {100 * held_out:.1f} % of {len(real)} held-out images "
            f"({len(names)} captions).",
        ],
        [
            Images(
                "captions-samples",
                f"Samples at guidance {settings.weights[-1]:g}, and their captions",
                np.clip(drawn[:_SHOWN], 0, 1),
                labels[:_SHOWN],
                8,
            ),
            Lines(
                "captions-guidance",
                "Captions recognised",
                "weight of guidance",
                "share of samples",
                {"samples": (np.asarray(settings.weights), np.asarray(shares))},
                caption=f"Of held-out images the judge recognises {held_out:.3f}.",
            ),
        ],
        Table(
            "captions-each",
            f"By caption, at guidance {settings.weights[-1]:g}",
            ["caption", "samples", "recognised"],
            [[names[i], int(counts[i]), float(each[i])] for i in worst],
        ),
        {"weights": list(settings.weights), "recognised": shares, "held_out": held_out},
    )


def _frequent(split: Split) -> Int[np.ndarray, "captions length"]:
    """The captions that come often enough to be learnt."""
    found, counts = np.unique(split.arrays["y"], axis=0, return_counts=True)
    often = found[counts >= _OFTEN]
    if len(often) < 2:
        raise CapabilityError(
            f"fewer than two captions are those of {_OFTEN} training images or more: a judge cannot learn them",
            remedy="look at the samples: chainrule sample RUN text=...",
        )
    return np.asarray(often)


def _named(split: Split, known: Int[np.ndarray, "captions length"]) -> tuple[np.ndarray, np.ndarray]:
    """Images as rows with the index of their caption among those known; others are left out."""
    batch = split.batch(np.arange(min(_MOST, len(split))))
    index = {row.tobytes(): i for i, row in enumerate(known)}
    found = np.array([index.get(np.asarray(row, known.dtype).tobytes(), -1) for row in batch.y])
    x = np.asarray(batch.x, np.float64).reshape(len(found), -1)
    return x[found >= 0], found[found >= 0]


def is_caption_diffusion(model: Model, schema: Schema) -> bool:
    """Whether the model denoises its way from captions to images."""
    conditional = isinstance(model, HasDenoiser) and model.conditional
    return conditional and kinds.of(schema).spatial and targets.of(schema).has_tokens


probe = Probe(
    "How many samples show what their caption says, says a classifier of real images.",
    "a diffusion model of images with captions",
    is_caption_diffusion,
    examine,
    CaptionSettings,
    toy={"n": 10, "weights": (1.0,), "steps": 2},
)

__all__ = ["CaptionSettings", "examine", "is_caption_diffusion", "probe"]
