"""Inpainting: part of held-out images hidden, filled in by codes that fit the rest, beside what was there.

Codes are found by descent from noise, no further away than agreeing with the known pixels asks for. Fillings differ
from each other as far as the known pixels leave it open, so that their mean is nearer to what was there than they are.
It is compared with the mean training image and with the training example that is nearest in the known pixels.
"""

from typing import Any, Literal, final

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float
from pydantic import Field

from chainrule.core import progress, random
from chainrule.core.pictures import Images, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import CanSample, HasAudit, Model, option_fields
from chainrule.train import Run

_COMPARED = 20_000
"""Training examples among which the nearest is looked for."""


@final
class InpaintingSettings(Settings):
    """What is hidden, and how it is filled."""

    images: int = Field(6, ge=1, le=50, description="held-out images")
    draws: int = Field(3, ge=1, le=20, description="fillings of each")
    hide: Literal["lower", "right", "middle", "random"] = Field(
        "lower", description="what is hidden: a half, the middle, or every second pixel at random"
    )
    steps: Count = Field(300, description="steps of descent over the codes")
    temperature: float = Field(1.0, ge=0, description="factor on the spread of the codes it begins with")
    seed: int = Field(0, ge=0, description="noise it begins with, and pixels hidden at random")


def examine(run: Run, data: Data, settings: InpaintingSettings) -> Outcome:
    """Hide pixels of held-out images, fill them several times, and compare with what was there."""
    model: Any = eqx.nn.inference_mode(run.model)
    part, said = data.held_out()
    x = np.asarray(part.batch(np.arange(min(settings.images, len(part)))).x, np.float32)
    train = np.asarray(data.train.batch(np.arange(min(_COMPARED, len(data.train)))).x, np.float32)
    known = known_pixels(x.shape[1:], settings.hide, settings.seed)
    key = random.key(settings.seed, "probe")
    filled = []
    for number, image in enumerate(x):
        progress.update("images", number, len(x))
        drawn = model.sample(
            random.at(key, number),
            settings.draws,
            inpaint=(image, known),
            inpaint_steps=settings.steps,
            temperature=settings.temperature,
        )
        filled.append(np.asarray(drawn))
    away = np.square(np.where(known, train[None] - x[:, None], 0)).sum(axis=(2, 3, 4)).argmin(axis=1)
    others = {
        "filled in": np.stack(filled),
        "mean of the fillings": np.stack(filled).mean(axis=1, keepdims=True),
        "nearest training example": train[away][:, None],
        "mean training image": np.broadcast_to(train.mean(axis=0), x.shape)[:, None],
    }
    errors = {name: _error(guess, x, known) for name, guess in others.items()}
    rows: list[list[str | float | int]] = [[name, error] for name, error in errors.items()]
    ours, middle, nearest, mean = errors.values()
    return Outcome(
        [
            f"Hidden pixels are {ours:.3f} off what was there (root mean square, black to white is 1), those of the "
            f"mean of the fillings {middle:.3f}; the training example nearest in the known pixels is {nearest:.3f} "
            f"off, the mean training image {mean:.3f}.",
            f"Of every image {1 - known.mean():.0%} is hidden; {settings.draws} fillings of each of {len(x)}.",
            *said,
        ],
        [_sheet(x, known, others)],
        Table("inpainting", "Error of hidden pixels", ["", "root mean square"], rows),
        {"hidden": float(1 - known.mean()), **{name.replace(" ", "_"): one for name, one in errors.items()}},
    )


def known_pixels(shape: tuple[int, ...], hide: str, seed: int) -> Bool[np.ndarray, "height width channels"]:
    """True where a pixel is known.

    >>> known_pixels((2, 2, 1), "lower", 0)[..., 0].tolist()
    [[True, True], [False, False]]
    """
    height, width, _ = shape
    known = np.ones(shape, bool)
    if hide == "lower":
        known[height // 2 :] = False
    elif hide == "right":
        known[:, width // 2 :] = False
    elif hide == "middle":
        known[height // 4 : -(height // 4) or None, width // 4 : -(width // 4) or None] = False
    else:
        known[np.random.default_rng(seed).random((height, width)) < 0.5] = False
    return known


def _error(
    guess: Float[np.ndarray, "images draws height width channels"],
    x: Float[np.ndarray, "images height width channels"],
    known: Bool[np.ndarray, "height width channels"],
) -> float:
    squares = np.square(guess - x[:, None])[:, :, ~known]
    return float(np.sqrt(squares.mean())) if squares.size else 0.0


def _sheet(x: np.ndarray, known: np.ndarray, others: dict[str, np.ndarray]) -> Images:
    filled, _, nearest, _ = others.values()
    columns = [x[:, None], np.where(known, x, 0.5)[:, None], filled, nearest]
    labels = ["example", "known", *["filled in"] * filled.shape[1], "nearest"]
    images = np.concatenate(columns, axis=1)
    return Images(
        "inpainting",
        "Hidden pixels filled in",
        np.clip(images.reshape(-1, *x.shape[1:]), 0, 1),
        [label if row == 0 else "" for row in range(len(x)) for label in labels],
        len(labels),
        "In every row a held-out image, what is known of it (the rest in grey), fillings from several noises, and the "
        "training example that is nearest in the known pixels.",
        aligned=True,
    )


def _applies(model: Model, schema: Schema) -> bool:
    if not isinstance(model, HasAudit) or not isinstance(model, CanSample):
        return False
    return kinds.of(schema).shows_pixels(schema) and "inpaint" in option_fields(model.sample_options())


probe = Probe(
    "Inpainting: hidden parts of images, filled in by codes that fit the rest.",
    "a flow of images",
    _applies,
    examine,
    InpaintingSettings,
    toy={"images": 1, "draws": 1, "steps": 2},
)

__all__ = ["InpaintingSettings", "examine", "known_pixels", "probe"]
