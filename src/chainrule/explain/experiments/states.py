"""A perceptron step by step: every state between input and loss, both layouts, and layers that collapse into one."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Bars, Table
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Settings
from chainrule.nn.activations import ActivationName
from chainrule.nn.constructions import collapse, mlp, states
from chainrule.nn.constructions.network import from_columns, to_columns

_SHOWN = 8


@final
class StatesSettings(Settings):
    """The network and what goes in."""

    sizes: tuple[Count, ...] = Field(
        (3, 4, 4, 2), min_length=2, max_length=20, description="units of each layer"
    )
    activation: ActivationName = Field("relu", description="between the layers; identity lets them collapse")
    x: tuple[float, ...] = Field((), description="input; drawn at random unless given")
    y: tuple[float, ...] = Field((), description="target; drawn at random unless given")
    seed: int = Field(0, ge=0, description="weights, input and target")


def run(settings: StatesSettings, listener: Listener) -> Outcome:
    """Follow one example through the network, and see what is left of it when affine layers are merged."""
    del listener
    network = mlp(list(settings.sizes), settings.activation, key=random.key(settings.seed, "weights"))
    x = _given("x", settings.x, settings.sizes[0], settings.seed)
    y = _given("y", settings.y, settings.sizes[-1], settings.seed + 1)
    found = {name: np.asarray(value) for name, value in states(network, x, y).items()}
    merged = collapse(network)
    columns = from_columns(
        to_columns(network), [settings.activation] * (len(settings.sizes) - 2) + ["identity"]
    )
    out, collapsed, turned = (np.asarray(jax.jit(one.__call__)(x)) for one in (network, merged, columns))
    rows = [
        [name, "×".join(map(str, value.shape)) or "number", _written(value)] for name, value in found.items()
    ]
    sizes = {name: float(np.sqrt(np.mean(np.square(value)))) for name, value in found.items()}
    return Outcome(
        [
            f"{network}.",
            f"Rows: S = S W + b; columns: S = W S + b with the transposed matrices, which gives the same up to "
            f"{float(np.abs(out - turned).max()):.1e}.",
            f"Affine layers with nothing between them merge into one (A2 A1, A2 b1 + b2): {len(network.layers)} layers "
            f"become {len(merged.layers)}, and the output moves by {float(np.abs(out - collapsed).max()):.1e}"
            + (
                "."
                if len(merged.layers) < len(network.layers)
                else "; a nonlinearity keeps them apart (activation=identity does not)."
            ),
        ],
        [
            Bars(
                "states-size",
                "Size of every state",
                "state",
                "root mean square",
                list(sizes),
                {"size": np.array(list(sizes.values()))},
            )
        ],
        Table("states-table", "States from input to loss", ["state", "shape", "values"], rows),
        {
            **{
                "states": {name: value.tolist() for name, value in found.items()},
                "layers": len(network.layers),
            },
            **{"collapsed_layers": len(merged.layers), "deviation": float(np.abs(out - collapsed).max())},
        },
    )


def _given(name: str, values: tuple[float, ...], size: int, seed: int) -> jax.Array:
    if values and len(values) != size:
        raise ArgumentError(
            f"states({name}): {len(values)} numbers for {size} units", remedy="sizes=3,4,2 x=1,0,-1"
        )
    chosen = values or tuple(np.random.default_rng(seed).normal(size=size).tolist())
    return jnp.asarray(chosen, jnp.float32)[None]


def _written(value: np.ndarray) -> str:
    flat = value.ravel()
    return ", ".join(f"{one:.4g}" for one in flat[:_SHOWN]) + (", ..." if len(flat) > _SHOWN else "")


experiment = Experiment(
    "A perceptron step by step: every state between input and loss, and affine layers that collapse into one.",
    StatesSettings,
    run,
    toy={},
    reference="Rumelhart, Hinton and Williams, Nature 323, 1986",
)

__all__ = ["StatesSettings", "experiment", "run"]
