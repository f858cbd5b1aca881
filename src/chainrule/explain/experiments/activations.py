"""A gallery of activation functions with their derivatives and gains."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.nn import activation, activations

_FLAT = ("sign", "step")


@final
class ActivationsSettings(Settings):
    """Which, and where."""

    names: tuple[str, ...] = Field((), description="activations; default: all")
    reach: float = Field(4.0, gt=0, description="drawn from -reach to reach")


def run(settings: ActivationsSettings, listener: Listener) -> Outcome:
    """Draw each activation and its derivative."""
    del listener
    names = settings.names or tuple(activations)
    x = jnp.linspace(-settings.reach, settings.reach, 401)
    at = np.asarray(x)
    pictures = []
    rows: list[list[str | float]] = []
    for name in names:
        function = activation(name)
        # Their derivative is zero wherever there is one, which is why nothing can be trained through them.
        slope = np.zeros_like(at) if name in _FLAT else np.asarray(jax.vmap(jax.grad(function))(x))
        curves = {"function": (at, np.asarray(function(x))), "derivative": (at, slope)}
        pictures.append(
            Lines(f"activation-{name}", name, "x", "", curves, caption=f"Gain {function.gain:.4g}.")
        )
        rows.append([name, function.gain, float(function(jnp.array(1.0))), float(slope.max())])
    return Outcome(
        [
            f"{len(names)} activations; the gain is the factor on the weights that keeps variance steady "
            "through depth."
        ],
        pictures,
        Table("activations-table", "Activations", ["name", "gain", "value at 1", "largest slope"], rows),
        {str(row[0]): {"gain": row[1], "at_1": row[2], "largest_slope": row[3]} for row in rows},
    )


experiment = Experiment(
    "Activation functions, their derivatives and their gains.",
    ActivationsSettings,
    run,
    toy={"names": ["relu", "tanh"]},
    reference="He et al., 2015, arXiv:1502.01852; Hendrycks and Gimpel, 2016, arXiv:1606.08415",
)

__all__ = ["ActivationsSettings", "experiment", "run"]
