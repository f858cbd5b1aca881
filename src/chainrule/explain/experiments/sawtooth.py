"""Depth against width on the sawtooth: shallow and deep networks with the same number of weights."""

import math
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random, tree
from chainrule.core.pictures import Lines, Table
from chainrule.explain.base import Experiment, Listener, Outcome, Settings
from chainrule.explain.fitting import fit_network
from chainrule.nn.constructions import Network, mlp, separation, tent
from chainrule.nn.constructions.regions import count_on_line


@final
class SawtoothSettings(Settings):
    """The sawtooth and the networks."""

    teeth: int = Field(4, ge=1, le=8, description="compositions of the tent map: 2^teeth pieces")
    parameters: int = Field(200, ge=20, description="weights of each network, about")
    depths: tuple[int, ...] = Field((1, 2, 3), min_length=1, description="hidden layers tried")
    steps: int = Field(4000, ge=1, description="steps of training")
    lr: float = Field(1e-2, gt=0, description="first learning rate of Adam")
    seeds: int = Field(2, ge=1, le=20, description="starts of each; the best counts")


def run(settings: SawtoothSettings, listener: Listener) -> Outcome:
    """Train networks of one size and different depth on the sawtooth."""
    x = jnp.linspace(0, 1, 513)[:, None]
    exact = tent(settings.teeth)
    y = exact(x)

    def loss(network: Network) -> jax.Array:
        return jnp.square(network(2 * x - 1) - y).mean()

    rows, curves, numbers = [], {"sawtooth": (np.asarray(x)[:, 0], np.asarray(y)[:, 0])}, {}
    for hidden in settings.depths:
        width = _width(settings.parameters, hidden)
        fitted = [
            fit_network(
                mlp([1, *[width] * hidden, 1], key=random.key(seed, f"depth {hidden}")),
                loss,
                steps=settings.steps,
                lr=settings.lr,
            )
            for seed in range(settings.seeds)
        ]
        best = min(fitted, key=lambda network: float(loss(network)))
        error = float(jnp.abs(best(2 * x - 1) - y).mean())
        pieces = count_on_line(best, [0.0], [1.0], (-1.0, 1.0))
        rows.append([hidden, width, tree.size(best), error, pieces])
        label = f"{hidden} hidden layer{'s' if hidden > 1 else ''}"
        curves[label] = (np.asarray(x)[:, 0], np.asarray(best(2 * x - 1))[:, 0])
        numbers[label] = {"width": width, "parameters": tree.size(best), "l1_error": error, "pieces": pieces}
        listener(f"{label} of {width} units: mean absolute error {error:.4f}, {pieces} pieces")
    theorem = separation(2)
    shown = {
        name: curves[name] for name in ["sawtooth", *list(curves)[1:2], *list(curves)[-1:]] if name in curves
    }
    return Outcome(
        [
            f"{2**settings.teeth} pieces, exact from {2 * settings.teeth} units in {settings.teeth} hidden "
            "layers; one hidden "
            f"layer needs {2**settings.teeth - 1}.",
            "Trained, mean absolute error: "
            + ", ".join(f"{row[3]:.4f} at {row[0]} hidden × {row[1]} units" for row in rows)
            + ".",
            f"And there is no way around: T composed {theorem.compositions} times ({theorem.nodes} nodes) stays "
            "at a mean "
            f"distance of at least 1/32 from every network of {theorem.shallow_layers} layers and "
            f"{theorem.shallow_nodes} nodes.",
        ],
        [
            Lines("sawtooth", "The sawtooth and what two networks make of it", "x", "y", shown),
            Lines(
                "sawtooth-error",
                "Error by depth, at the same number of weights",
                "hidden layers",
                "mean absolute error",
                {"error": (np.array([r[0] for r in rows], dtype=float), np.array([r[3] for r in rows]))},
                log_y=True,
            ),
        ],
        Table(
            "sawtooth-table",
            "Trained networks",
            ["hidden layers", "width", "parameters", "mean error", "pieces"],
            rows,
        ),
        numbers,
    )


def _width(parameters: int, hidden: int) -> int:
    """The width at which a network of one input and one output has about so many weights."""
    if hidden == 1:
        return max(2, round((parameters - 1) / 3))
    quadratic = hidden - 1
    linear = hidden + 2
    return max(
        2, round((-linear + math.sqrt(linear**2 + 4 * quadratic * (parameters - 1))) / (2 * quadratic))
    )


experiment = Experiment(
    "Depth against width: shallow and deep networks of the same size on a sawtooth.",
    SawtoothSettings,
    run,
    toy={"teeth": 2, "parameters": 30, "depths": [1, 2], "steps": 20, "seeds": 1},
    reference="Telgarsky, Benefits of depth in neural networks, 2016, arXiv:1602.04485",
)

__all__ = ["SawtoothSettings", "experiment", "run"]
