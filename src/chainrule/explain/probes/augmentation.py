"""Augmented images: what training makes of some of its examples, as a sheet to look at."""

from collections.abc import Sequence
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Images, Mark
from chainrule.data import kinds, targets
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import Model
from chainrule.train import Run, augmentation
from chainrule.train.config import Augment


@final
class AugmentationSettings(Settings):
    """What is shown, and how images are changed."""

    examples: int = Field(6, ge=2, le=64, description="training images, one in each row")
    copies: int = Field(8, ge=1, le=32, description="how often each is changed")
    augment: Augment = Field(default_factory=Augment)
    """Changes to try, e.g. augment.rand_augment=2; if none are given, those of the run."""
    seed: int = Field(0, ge=0, description="of the examples and the changes")


def examine(run: Run, data: Data, settings: AugmentationSettings) -> Outcome:
    """Training images and what the settings make of them, in steps of a seed of its own."""
    chosen = run.settings.augment if settings.augment == Augment() else settings.augment
    if chosen == Augment():
        raise ArgumentError(
            f"{run.id} was trained on images as they are",
            remedy="say what to try: augment.flip=true augment.resized_crop=0.5 augment.rand_augment=2",
        )
    augmentation.check(chosen, data.train, run.model)
    count = min(settings.examples, len(data.train))
    numbers = np.random.default_rng(settings.seed).choice(len(data.train), count, replace=False)
    batch = data.train.batch(np.sort(numbers))
    target = targets.of(data.schema)
    given = target.given
    x, y = jnp.asarray(batch.x), jnp.asarray(batch.y) if given else None
    keys = jax.random.split(random.key(settings.seed, "augmentation"), settings.copies)
    changed = jax.jit(jax.vmap(lambda key: augmentation.augmented(Batch(x, y), key, chosen, run.model)))(keys)
    images = np.concatenate([np.asarray(x)[None], np.asarray(changed.x)])
    change = np.abs(images[1:] - images[:1]).mean(axis=(2, 3, 4))
    said = ", ".join(f"{name}={_short(value)}" for name, value in _different(chosen).items())
    labels = _labels(data.schema, batch.y, changed, settings.copies) if given else []
    pixels = images.swapaxes(0, 1).reshape(-1, *x.shape[1:]).clip(0, 1)
    marks: Sequence[Sequence[Mark]] = ()
    if target.has_boxes or target.has_mask:
        every = np.concatenate([np.asarray(y)[None], np.asarray(changed.y)]).swapaxes(0, 1)
        pixels, marks = target.marked(data.schema, pixels, every.reshape(-1, *every.shape[2:]))
    sheet = Images(
        "augmentation",
        "Training images and what augmentation makes of them",
        pixels,
        labels,
        columns=settings.copies + 1,
        aligned=True,
        marks=marks,
        caption=f"The first of each row is the image itself; below mixed ones stands what was mixed in. {said}.",
    )
    return Outcome(
        [
            f"{said}: pixels change by {change.mean():.3f} of the way from black to white on average "
            f"({count} images, {settings.copies} times each)."
        ],
        [sheet],
        None,
        {"change": change.mean(axis=0).tolist(), "settings": _different(chosen)},
    )


def _different(settings: Augment) -> dict[str, float]:
    """The settings that change anything."""
    default = Augment().model_dump()
    found = {name: value for name, value in settings.model_dump().items() if value != default[name]}
    return {**found, **({"magnitude": settings.magnitude} if settings.rand_augment else {})}


def _short(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"


def _labels(schema: Schema, y: np.ndarray, changed: Batch, copies: int) -> list[str]:
    """The target of every image in the first column; of mixed ones the share and target of what was mixed in."""
    names = targets.of(schema).captions(schema, np.asarray(y))
    rows = [[name, *[""] * copies] for name in names]
    if len(changed.apart()) > 1:
        (_, _), (shares, others) = changed.apart()
        for copy in range(copies):
            second = targets.of(schema).captions(schema, np.asarray(others.y[copy]))
            for row, name in zip(rows, second, strict=True):
                row[copy + 1] = f"{float(shares[copy]):.0%} {name}"
    return [label for row in rows for label in row]


def _applies(model: Model, schema: Schema) -> bool:
    del model
    return kinds.of(schema).spatial and kinds.of(schema).shows_pixels(schema)


probe = Probe(
    "Training images beside what augmentation makes of them.",
    "images in grey or colour",
    _applies,
    examine,
    AugmentationSettings,
    toy={"examples": 2, "copies": 2, "augment": {"flip": True, "resized_crop": 0.5}},
)

__all__ = ["AugmentationSettings", "examine", "probe"]
