"""Control branches: samples at rising strength, their agreement with the control, and the gates over training."""

import math
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import progress, random
from chainrule.core.pictures import Lines, Picture, Table
from chainrule.core.types import Array, Key
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import NonNegative, Outcome, Probe, Settings
from chainrule.models.protocol import HasControl, Model
from chainrule.networks.pictures.images import controlled
from chainrule.train import Run

_SHOWN = 8


@final
class ControlSettings(Settings):
    """The pictures to follow."""

    n: int = Field(100, ge=2, description="held-out examples to follow")
    strengths: tuple[NonNegative, ...] = Field(
        (0.0, 0.5, 1.0, 1.5), min_length=1, description="how much the branch adds, rising"
    )
    seed: int = Field(0, ge=0, description="noise all samples start from")


def examine(run: Run, data: Data, settings: ControlSettings) -> Outcome:
    """Follow the same pictures from the same noise with every strength."""
    model = run.model
    assert isinstance(model, HasControl)
    part, said = data.held_out()
    batch = part.batch(np.arange(min(settings.n, len(part))))
    x, y = jnp.asarray(batch.x), None if batch.y is None else jnp.asarray(batch.y)
    controls, key = model.extract(x), random.key(settings.seed, "probe")
    drawn, agreement = {}, {}
    for number, strength in enumerate(settings.strengths):
        progress.update(f"strength {strength:g}", number, len(settings.strengths))
        found = _followed(model, key, controls, y, jnp.asarray(strength))
        drawn[f"strength {strength:g}"] = found[:_SHOWN]
        agreement[strength] = np.asarray(model.agreement(found, controls), np.float64)
    means = {strength: float(values.mean()) for strength, values in agreement.items()}
    errors = {strength: float(v.std() / math.sqrt(len(v))) for strength, v in agreement.items()}
    best = max(means, key=lambda strength: means[strength])
    rows: list[list[str | float | int]] = [[f"{s:g}", means[s], errors[s]] for s in means]
    return Outcome(
        [
            f"Samples follow the {model.extracted} of {len(x)} held-out examples best with strength {best:g}: "
            f"the correlation is {means[best]:.3f} ± {errors[best]:.3f}"
            + (f", and {means[0.0]:.3f} ± {errors[0.0]:.3f} without the branch." if 0.0 in means else "."),
            *said,
        ],
        [controlled("control", x[:_SHOWN], controls[:_SHOWN], drawn), *_curves(run, means, errors)],
        Table("control", "How well samples follow", ["strength", "correlation", "standard error"], rows),
        {
            "strength": list(means),
            "agreement": list(means.values()),
            "error": list(errors.values()),
            "n": len(x),
        },
    )


@eqx.filter_jit
def _followed(model: HasControl, key: Key, controls: Array, y: Array | None, strength: Array) -> jax.Array:
    return model.followed(key, controls, y, strength)


def _curves(run: Run, means: dict[float, float], errors: dict[float, float]) -> list[Picture]:
    """Agreement over strength, and the gates over training."""
    strengths = np.asarray(list(means))
    middle, wide = np.asarray(list(means.values())), np.asarray(list(errors.values()))
    found: list[Picture] = [
        Lines(
            "control-strength",
            "How well samples follow",
            "strength of the branch",
            "correlation with the control",
            {"samples": (strengths, middle, middle - wide, middle + wide)},
            caption="The band is one standard error.",
        )
    ]
    gates = {}
    for name in (name for name in run.metrics if name.startswith("gate_")):
        steps, values = run.curve(name)
        gates[name.replace("_", " ")] = np.append(0, steps), np.append(0.0, values)
    if gates:
        found.append(
            Lines(
                "control-gates",
                "How far the zero convolutions have come",
                "step",
                "length of their weights",
                gates,
                caption="They start at zero, where the branch adds nothing.",
            )
        )
    return found


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, HasControl)


probe = Probe(
    "Samples of a control branch at rising strength, and how its gates have opened.",
    "a control model",
    _applies,
    examine,
    ControlSettings,
    toy={"n": 2, "strengths": (1.0,)},
)

__all__ = ["ControlSettings", "examine", "probe"]
