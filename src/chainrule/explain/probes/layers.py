"""What flows through the layers of a trained model: sizes of activations and gradients, dead and silent units."""

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.pictures import Bars, Lines, Table
from chainrule.data.base import Data, Schema
from chainrule.explain import taps
from chainrule.explain.base import NoSettings, Outcome, Probe
from chainrule.models.base import HasParts, Model
from chainrule.train import Run

_EXAMPLES = 256
_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def look(run: Run, data: Data, settings: NoSettings) -> Outcome:
    """Watch every affine layer on a batch of training examples."""
    del settings
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(min(_EXAMPLES, len(data.train)))))
    key = random.key(run.settings.seed, "probe")
    flows = taps.gradients(run.model, lambda model: model.loss(batch, key)[0])
    rows: list[list[str | float]] = []
    for name, (flow, slope) in flows.items():
        entering = np.asarray(flow.input).reshape(-1, flow.input.shape[-1])
        leaving = np.asarray(flow.output, dtype=np.float64)
        rows.append(
            [
                name,
                float(np.square(entering).mean()),
                float(np.square(leaving).mean()),
                float(jnp.square(slope).mean()),
                float((entering == 0).all(axis=0).mean()),
            ]
        )
    numbers = np.arange(1, len(rows) + 1, dtype=float)
    spread = np.array([np.quantile(np.asarray(flow.output), _LEVELS) for flow, _ in flows.values()])
    silent = max(rows, key=lambda row: float(row[4]))
    return Outcome(
        [
            f"{len(rows)} layers; the mean square of their outputs lies between "
            f"{min(float(r[2]) for r in rows):.3g} and "
            f"{max(float(r[2]) for r in rows):.3g}.",
            f"{100 * float(silent[4]):.1f} % of the inputs of {silent[0]} are zero for all of {len(batch.x)} "
            "examples."
            if float(silent[4])
            else f"Every input of every layer is non-zero for some of {len(batch.x)} examples.",
        ],
        [
            Lines(
                "layers-outputs",
                "Outputs by layer",
                "layer",
                "output",
                {
                    "5 to 95 %": (numbers, spread[:, 2], spread[:, 0], spread[:, 4]),
                    "25 to 75 %": (numbers, spread[:, 2], spread[:, 1], spread[:, 3]),
                },
                caption=f"Median and bands over {len(batch.x)} training examples, before any nonlinearity.",
            ),
            Bars(
                "layers-silent",
                "Inputs that are always zero",
                "layer",
                "share",
                [str(row[0]) for row in rows],
                {"share": np.array([float(row[4]) for row in rows])},
                caption="A hidden unit whose output never leaves zero is dead; a pixel that is never lit counts too.",
            ),
        ],
        Table(
            "layers-table",
            "Mean squares",
            ["layer", "inputs", "outputs", "gradients of outputs", "inputs always zero"],
            rows,
        ),
        {
            str(row[0]): dict(zip(("inputs", "outputs", "gradients", "silent"), row[1:], strict=True))
            for row in rows
        },
    )


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return not isinstance(model, HasParts) and bool(taps.layers(model))


probe = Probe(
    "Activations and gradients layer by layer, and units that are always zero.",
    "dense layers or convolutions, and one loss",
    _applies,
    look,
)

__all__ = ["look", "probe"]
