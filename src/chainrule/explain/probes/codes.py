"""DDIM inversion: the noise behind an example, its reconstruction, and interpolation between two."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Images, Lines, Picture
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import CanInvert, Model
from chainrule.probability.interpolation import between
from chainrule.train import Run

_SHOWN = 8
_WAY = 9


@final
class CodesSettings(Settings):
    """The walks up and down."""

    steps: tuple[Count, ...] = Field((10, 20, 40, 80), min_length=1, description="steps of the walks")
    n: int = Field(32, ge=2, description="held-out examples")


def examine(run: Run, data: Data, settings: CodesSettings) -> Outcome:
    """Encode held-out examples by DDIM walked upwards, decode them, and decode what lies between two."""
    model = run.model
    assert isinstance(model, CanInvert)
    part, said = data.held_out()
    batch = part.batch(np.arange(min(settings.n, len(part))))
    x = model.to_network_units(jnp.asarray(batch.x, jnp.float32))
    condition = jnp.asarray(batch.y) if model.classes else None
    errors, codes, back = [], x, x
    for steps in settings.steps:
        codes = model.invert(x, steps, condition)
        back = model.regenerate(codes, steps, condition)
        apart = np.asarray(back - x).reshape(len(x), -1)
        errors.append(float(np.linalg.norm(apart, axis=1).mean()))
    size = float(np.linalg.norm(np.asarray(x).reshape(len(x), -1), axis=1).mean())
    counts = np.asarray(settings.steps)
    pictures: list[Picture] = [
        Lines(
            "round-trip",
            "Up to the code and down again",
            "steps",
            "mean distance from the example",
            {"held-out examples": (counts, np.asarray(errors))},
            log_x=True,
            log_y=True,
            caption=f"Examples themselves have length {size:.3g}.",
        )
    ]
    if kinds.of(run.schema).shows_pixels(run.schema):
        # Three standard deviations of the noise from black to white.
        rows = jnp.concatenate([x[:_SHOWN], codes[:_SHOWN] / 3, back[:_SHOWN]])
        pictures.append(Images("codes", "Examples, their codes, and back", _pixels(model, rows), (), _SHOWN))
        classes = np.asarray(batch.y) if condition is not None else np.arange(len(x))
        pictures.append(_interpolated(model, x, classes, settings.steps[-1]))
    return Outcome(
        [
            f"In {counts[-1]} steps an example comes back {errors[-1]:.3g} away ({100 * errors[-1] / size:.1f} % of "
            f"its length), in {counts[0]} steps {errors[0]:.3g}.",
            *said,
        ],
        pictures,
        None,
        {"steps": counts.tolist(), "error": errors, "length": size},
    )


def _pixels(model: CanInvert, x: jax.Array) -> np.ndarray:
    return np.clip(np.asarray(model.to_model_units(x)), 0, 1)


def _interpolated(model: CanInvert, x: jax.Array, classes: np.ndarray, steps: int) -> Picture:
    """What lies between the codes of two examples, of different classes where there are classes."""
    other = int(np.argmax(classes != classes[0]))
    ends = model.invert(x[np.array([0, other])], steps)
    strip = model.regenerate(between(ends[0], ends[1], _WAY), steps)
    return Images(
        "interpolation",
        "Between two codes",
        _pixels(model, strip),
        (),
        _WAY,
        "Codes on the great circle between those of two held-out examples, decoded without a class.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, CanInvert)


probe = Probe(
    "Codes of examples: the error of the round trip, and what lies between two codes.",
    "a diffusion model",
    _applies,
    examine,
    CodesSettings,
    toy={"n": 2, "steps": (2,)},
)

__all__ = ["CodesSettings", "examine", "probe"]
