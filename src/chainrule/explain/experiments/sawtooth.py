"""Depth against width on the sawtooth: shallow and deep networks with the same number of weights."""

import math
from collections.abc import Callable
from typing import Annotated, Any, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random, tree
from chainrule.core.pictures import Lines, Table
from chainrule.explain.methods.fitting import fit_network
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.nn.constructions import Network, mlp, separation, tent
from chainrule.nn.constructions.regions import count_on_line


@final
class SawtoothSettings(Settings):
    """The sawtooth and the networks."""

    teeth: int = Field(4, ge=1, le=8, description="compositions of the tent map: 2^teeth pieces")
    parameters: int = Field(200, ge=20, description="weights of each network, about")
    depths: tuple[Annotated[int, Field(ge=1, le=20)], ...] = Field(
        (1, 2, 3), min_length=1, description="hidden layers tried"
    )
    steps: int = Field(4000, ge=1, description="steps of training")
    lr: float = Field(1e-2, gt=0, description="first learning rate of Adam")
    seeds: int = Field(2, ge=1, le=20, description="starts of each; the best counts")


def run(settings: SawtoothSettings, listener: Listener) -> Outcome:
    """Train networks of one size and different depth on the sawtooth."""
    x = jnp.linspace(0, 1, 513)[:, None]
    y = tent(settings.teeth)(x)

    def loss(network: Network) -> jax.Array:
        return jnp.square(network(2 * x - 1) - y).mean()

    at = np.asarray(x)[:, 0]
    rows: list[list[Any]] = []
    curves = {"sawtooth": (at, np.asarray(y)[:, 0])}
    for hidden in settings.depths:
        best = _best(settings, hidden, loss)
        said = best(2 * x - 1)
        pieces = count_on_line(best, [0.0], [1.0], (-1.0, 1.0))
        rows.append([hidden, best.width, tree.size(best), float(jnp.abs(said - y).mean()), pieces])
        label = f"{hidden} hidden layer{'s' if hidden > 1 else ''}"
        curves[label] = (at, np.asarray(said)[:, 0])
        listener(f"{label} of {best.width} units: mean absolute error {rows[-1][3]:.4f}, {pieces} pieces")
    teeth, theorem, names = settings.teeth, separation(2), list(curves)
    errors = np.array([row[3] for row in rows])
    heads = ["hidden layers", "width", "parameters", "mean error", "pieces"]
    keys = ("hidden", "width", "parameters", "l1_error", "pieces")
    return Outcome(
        [
            f"{2**teeth} pieces, exact from {2 * teeth} units in {teeth} hidden layers; one hidden layer needs "
            f"{2**teeth - 1} units.",
            f"Trained, mean absolute error: {', '.join(f'{r[3]:.4f} at {r[0]} × {r[1]} units' for r in rows)}.",
            f"And there is no way around: T composed {theorem.compositions} times ({theorem.nodes} nodes) stays at a "
            f"mean distance of at least 1/32 from every network of {theorem.shallow_layers} layers and "
            f"{theorem.shallow_nodes} nodes.",
        ],
        [
            Lines(
                "sawtooth",
                "The sawtooth and what two networks make of it",
                "x",
                "y",
                {name: curves[name] for name in dict.fromkeys([names[0], names[1], names[-1]])},
            ),
            Lines(
                "sawtooth-error",
                "Error by depth, at the same number of weights",
                "hidden layers",
                "mean absolute error",
                {"error": (np.array(settings.depths, dtype=float), errors)},
                log_y=True,
            ),
        ],
        Table("sawtooth-table", "Trained networks", heads, rows),
        {name: dict(zip(keys, row, strict=True)) for name, row in zip(names[1:], rows, strict=True)},
    )


def _best(settings: SawtoothSettings, hidden: int, loss: Callable[[Network], jax.Array]) -> Network:
    """The best of several starts at this depth."""
    sizes = [1, *[_width(settings.parameters, hidden)] * hidden, 1]
    fitted = [
        fit_network(
            mlp(sizes, key=random.key(seed, f"depth {hidden}")), loss, steps=settings.steps, lr=settings.lr
        )
        for seed in range(settings.seeds)
    ]
    return min(fitted, key=lambda network: float(loss(network)))


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
