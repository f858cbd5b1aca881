"""Masked image modelling: hidden patches, what fills them, and the error over the share that is hidden."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.core.types import Array
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanFill, Model
from chainrule.networks.pictures.images import filled
from chainrule.train import Run

_MOST = 512
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


@final
class FillingSettings(Settings):
    """What is hidden."""

    images: int = Field(10, ge=1, le=50, description="held-out images that are shown")
    hide: float = Field(0.5, gt=0, lt=1, description="share of their patches that is hidden")
    seed: int = Field(0, ge=0, description="which patches are hidden, and what is drawn there")


def examine(run: Run, data: Data, settings: FillingSettings) -> Outcome:
    """Hide patches of held-out images at random and compare what is expected there with what was there."""
    model = eqx.nn.inference_mode(run.model)
    assert isinstance(model, CanFill)
    part, said = data.held_out()
    x = jnp.asarray(part.batch(np.arange(min(_MOST, len(part)))).x)
    known = data.train.batch(np.arange(min(8 * _MOST, len(data.train)))).x
    average = jnp.broadcast_to(jnp.asarray(known.mean(axis=0))[None], x.shape)
    for_gaps, for_filling = jax.random.split(random.key(settings.seed, "probe"))
    expected = eqx.filter_jit(lambda model, x, gaps: model.expected(x, gaps))
    errors: dict[str, list[float]] = {"expected pixels": [], "mean training image": []}
    for share in _SHARES:
        gaps = model.random_gaps(for_gaps, len(x), share)
        errors["expected pixels"].append(_error(model, expected(model, x, gaps), x, gaps))
        errors["mean training image"].append(_error(model, average, x, gaps))
    shares = np.array(_SHARES)
    own, plain = (np.array(values) for values in errors.values())
    middle = _SHARES.index(0.5)
    shown = x[: settings.images]
    gaps = model.random_gaps(for_gaps, len(shown), settings.hide)
    rows: list[list[str | float | int]] = [
        [f"{s:.0%}", float(a), float(b)] for s, a, b in zip(shares, own, plain, strict=True)
    ]
    return Outcome(
        [
            f"With half of the patches hidden, hidden pixels are {own[middle]:.3f} off what is expected of them (root "
            f"mean square, black to white is 1); the mean training image is {plain[middle]:.3f} off.",
            f"With a tenth hidden it is {own[0]:.3f}, with nine tenths {own[-1]:.3f}; training hid "
            f"{model.hidden_share:.0%} ({len(x)} held-out images).",
            *said,
        ],
        [
            filled(
                shown,
                np.asarray(model.gap_pixels(gaps)),
                expected(model, shown, gaps),
                model.fill(shown, gaps, for_filling),
            ),
            Lines(
                "filling-error",
                "How far off hidden pixels are",
                "share of the patches that is hidden",
                "root mean square error",
                {name: (shares, np.array(values)) for name, values in errors.items()},
                caption="Black to white is 1. The same positions are hidden for both.",
            ),
        ],
        Table("filling", "Error of hidden pixels", ["hidden", *errors], rows),
        {"shares": list(_SHARES), "error": own.tolist(), "error_of_mean_image": plain.tolist()},
    )


def _error(model: CanFill, guessed: Array, x: Array, gaps: Array) -> float:
    """Root mean square over the pixels of gaps."""
    squares, hidden = jnp.square(guessed - x).mean(axis=-1), model.gap_pixels(gaps)
    return float(jnp.sqrt((squares * hidden).sum() / hidden.sum()))


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanFill) and schema.shape[-1] in (1, 3)


probe = Probe(
    "Hidden patches of images, what fills them, and how far off that is.",
    "an encoder of images, such as bert",
    _applies,
    examine,
    FillingSettings,
    toy={"images": 2},
)

__all__ = ["FillingSettings", "examine", "probe"]
