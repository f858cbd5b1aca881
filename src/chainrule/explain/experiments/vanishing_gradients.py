"""Vanishing gradients in recurrent networks: the same sequence through a plain, an orthogonal and a gated one."""

from typing import final

import equinox as eqx
import jax
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Table
from chainrule.core.types import Key
from chainrule.explain.methods.gradient_reach import lag_norms, reach_pictures, spectrum, step_jacobians
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.nn import LSTM, RNN, Recurrent


@final
class VanishingSettings(Settings):
    """The networks and their sequences."""

    width: int = Field(64, ge=2, description="units")
    inputs: int = Field(8, ge=1, description="standard normal inputs of each step")
    lag: int = Field(50, ge=1, description="steps")
    seeds: int = Field(10, ge=1, description="draws of weights and inputs")
    seed: int = Field(0, ge=0, description="the first draw")


def plain(inputs: int, width: int, key: Key) -> Recurrent:
    """Everything uniform within ±1/√width."""
    return RNN(inputs, width, initializer="torch", key=key)


def orthogonal(inputs: int, width: int, key: Key) -> Recurrent:
    """The same with orthogonal recurrent weights."""
    return RNN(inputs, width, initializer="torch", recurrent_initializer="orthogonal", key=key)


def gated(inputs: int, width: int, key: Key) -> Recurrent:
    """A long short-term memory with the same weights, whose forget gate starts with a bias of 1."""
    layer = LSTM(inputs, width, initializer="torch", key=key)
    forget = slice(width, 2 * width)
    return eqx.tree_at(
        lambda one: (one.inward.bias, one.recurrent.bias),
        layer,
        (layer.inward.bias.at[forget].set(1.0), layer.recurrent.bias.at[forget].set(0.0)),  # type: ignore[union-attr]
    )


NETWORKS = {"plain": plain, "orthogonal": orthogonal, "LSTM": gated}


def run(settings: VanishingSettings, listener: Listener) -> Outcome:
    """Norms of the derivatives by lag, and the singular values of the last step."""
    norms: dict[str, np.ndarray] = {}
    spectra: dict[str, np.ndarray] = {}
    for name, build in NETWORKS.items():
        found = []
        for draw in range(settings.seed, settings.seed + settings.seeds):
            layer = build(settings.inputs, settings.width, random.key(draw, "weights"))
            x = jax.random.normal(random.key(draw, "inputs"), (1, settings.lag, settings.inputs))
            jacobians = step_jacobians(layer, x)
            found.append(lag_norms(jacobians)[0])
            spectra.setdefault(name, spectrum(jacobians))
        norms[name] = np.array(found)
        ends = norms[name][:, -1]
        listener(f"{name}: {ends.min():.2g} to {ends.max():.2g} after {settings.lag} steps")
    what = f"{settings.width} units, {settings.seeds} draws of weights and inputs"
    rows: list[list[str | float]] = [
        [name, *(float(f(one[:, -1])) for f in (np.min, np.median, np.max)), float(spectra[name][0])]
        for name, one in norms.items()
    ]
    names = ("smallest", "median", "largest", "step")
    return Outcome(
        [
            f"Over {settings.lag} steps the derivative of the state has a spectral norm of {row[2]:.2g} (median of "
            f"{settings.seeds} draws) in the network called {row[0]}."
            for row in rows
        ],
        reach_pictures(
            norms,
            spectra,
            name="vanishing",
            captions=(
                f"Median and range of {what}, before training.",
                f"Of the first draw. The LSTM has two states of {settings.width} units.",
            ),
        ),
        Table(
            "vanishing-table",
            f"Spectral norm over {settings.lag} steps",
            ["network", "smallest", "median", "largest", "largest singular value of the last step"],
            rows,
        ),
        {str(row[0]): dict(zip(names, row[1:], strict=True)) for row in rows},
    )


experiment = Experiment(
    "Vanishing gradients: what is left of a gradient many steps back, in plain, orthogonal and gated networks.",
    VanishingSettings,
    run,
    toy={"width": 8, "inputs": 3, "lag": 6, "seeds": 2},
    reference="Bengio, Simard and Frasconi, Learning long-term dependencies with gradient descent is difficult, 1994; "
    "Hochreiter and Schmidhuber, Long short-term memory, 1997",
)

__all__ = ["NETWORKS", "VanishingSettings", "experiment", "gated", "orthogonal", "plain", "run"]
