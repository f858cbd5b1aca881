"""Gradient norms over time lags in the recurrent layers of a trained run."""

from typing import final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Table
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.gradient_reach import lag_norms, reach_pictures, spectrum, step_jacobians
from chainrule.explain.methods.prompts import passages
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasRecurrence, Model
from chainrule.train import Run


@final
class LagSettings(Settings):
    """What is looked at."""

    text: str = Field("", description="of a model of text: a text to read; validation sequences if not given")
    lag: int = Field(50, ge=1, description="steps back, at most")
    passages: int = Field(8, ge=1, description="validation sequences")


def examine(run: Run, data: Data, settings: LagSettings) -> Outcome:
    """Spectral norms of products of step Jacobians, layer by layer."""
    model = run.model
    assert isinstance(model, HasRecurrence)
    sequences, said = passages(data, settings.text, settings.passages)
    x = jnp.asarray(sequences)[:, : settings.lag]
    norms: dict[str, np.ndarray] = {}
    spectra: dict[str, np.ndarray] = {}
    for number, (layer, inputs) in enumerate(model.recurrence(x), start=1):
        jacobians = step_jacobians(layer, inputs)
        norms[f"layer {number}"], spectra[f"layer {number}"] = lag_norms(jacobians), spectrum(jacobians)
    reached = x.shape[1]
    rows: list[list[str | float]] = [
        [name, float(np.median(one[:, -1])), _half(one), float(spectra[name][0])]
        for name, one in norms.items()
    ]
    return Outcome(
        [
            f"In {row[0]} the derivative over {reached} steps has a spectral norm of {row[1]:.2g}; it is below a half "
            f"{f'from {row[2]} steps on' if row[2] else 'nowhere'}."
            for row in rows
        ],
        reach_pictures(
            norms,
            spectra,
            name="gradient",
            captions=(
                f"Median and range over {said} at step {run.step:,}.",
                "Root mean square over sequences, the largest first.",
            ),
        ),
        Table(
            "gradient-lag-table",
            "Reach of gradients",
            [
                "layer",
                f"norm over {reached} steps",
                "below a half from",
                "largest singular value of the last step",
            ],
            rows,
        ),
        {str(row[0]): {"norm": row[1], "half": row[2], "step": row[3], "lag": reached} for row in rows},
    )


def _half(norms: np.ndarray) -> int:
    """The first lag from which on the median stays below a half; 0 if there is none."""
    above = np.flatnonzero(np.median(norms, axis=0) >= 0.5)
    first = int(above[-1]) + 2 if len(above) else 1
    return first if first <= norms.shape[1] else 0


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, HasRecurrence)


probe = Probe(
    "How much of a gradient is left many steps back, layer by layer, and the singular values of the last step.",
    "a model with recurrent layers",
    _applies,
    examine,
    LagSettings,
    toy={"lag": 4, "passages": 2},
)

__all__ = ["LagSettings", "examine", "probe"]
