"""Confidence of a classifier along straight lines that leave its data."""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.all_outputs import all_outputs
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanPredict, Model
from chainrule.train import Run


@final
class FarFieldProbeSettings(Settings):
    """The rays."""

    rays: int = Field(8, ge=1, le=100, description="random directions")
    factor: float = Field(100.0, gt=1, description="how far, in multiples of the distance of the data")
    seed: int = Field(0, ge=0, description="directions")


def examine(run: Run, data: Data, settings: FarFieldProbeSettings) -> Outcome:
    """Start at the mean of the training examples and walk in random directions."""
    model = run.model
    assert isinstance(model, CanPredict)
    some = np.asarray(data.train.batch(np.arange(min(1000, len(data.train)))).x, dtype=np.float32)
    flat = some.reshape(len(some), -1)
    middle = flat.mean(axis=0)
    radius = float(np.median(np.linalg.norm(flat - middle[None, :], axis=1)))
    random = np.random.default_rng(settings.seed)
    directions = random.normal(size=(settings.rays, flat.shape[1])).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    t = np.geomspace(0.01, settings.factor, 80)
    points = middle[None, None, :] + radius * t[None, :, None].astype(np.float32) * directions[:, None, :]
    said = all_outputs(model.predict, points.reshape(-1, *some.shape[1:]))
    confidence = said.max(axis=-1).reshape(settings.rays, len(t))
    at_data = float(all_outputs(model.predict, some).max(axis=-1).mean())
    end = confidence[:, -1]
    return Outcome(
        [
            f"At {settings.factor:g} times the distance of the data the mean confidence is {end.mean():.3f} "
            f"({(end > 0.99).sum()} of {settings.rays} rays above 0.99); on the training examples it is "
            f"{at_data:.3f}.",
        ],
        [
            Lines(
                "far-field",
                "Confidence along rays that leave the data",
                "distance, in multiples of that of the data",
                "largest probability",
                {f"ray {i + 1}": (t, row) for i, row in enumerate(confidence)},
                log_x=True,
                marks=((1.0, "the data"),),
            )
        ],
        None,
        {"confidence_far": end.tolist(), "confidence_on_data": at_data, "radius": radius},
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanPredict) and targets.of(schema).one_class and not kinds.of(schema).has_tokens


probe = Probe(
    "Confidence along rays that leave the data.",
    "a classifier of points, tables, images or sequences",
    _applies,
    examine,
    FarFieldProbeSettings,
    toy={"rays": 2},
)

__all__ = ["FarFieldProbeSettings", "examine", "probe"]
