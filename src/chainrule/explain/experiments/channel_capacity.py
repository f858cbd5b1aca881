"""Channel capacity: bounds from both sides that close in on it, and the inputs that reach it."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Bars, Heatmap, Lines, Picture, Table
from chainrule.explain.methods.written_tables import written_matrix
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings, Share
from chainrule.information.channels import (
    Capacity,
    binary_symmetric,
    capacity,
    erasure,
    noisy_typewriter,
    z_channel,
)
from chainrule.information.entropies import mutual_information

_NAMED: Mapping[str, Callable[[float], np.ndarray]] = MappingProxyType(
    {"binary-symmetric": binary_symmetric, "z": z_channel, "erasure": erasure}
)
_DRAWN = 48
"""Inputs of a channel that is drawn as a heat map with names."""


@final
class ChannelCapacitySettings(Settings):
    """The channel, and how closely its capacity is to be known."""

    channel: Literal["z", "binary-symmetric", "erasure", "typewriter"] = Field(
        "z", description="textbook channel"
    )
    error: Share = Field(0.5, description="its probability of an error (or of a loss)")
    letters: int = Field(27, ge=2, le=500, description="letters of the typewriter, on a circle")
    width: int = Field(1, ge=1, le=249, description="neighbours on each side that a letter may come out as")
    include_self: bool = Field(True, description="whether a letter of the typewriter may come out right")
    matrix: str = Field(
        "",
        description="a channel of your own: a row for each input; entries with commas, rows with semicolons",
    )
    tol: float = Field(1e-9, ge=1e-12, le=1, description="bits that bounds may be apart")


def run(settings: ChannelCapacitySettings, listener: Listener) -> Outcome:
    """Find the capacity, with its proof."""
    matrix = _channel(settings)
    found = capacity(matrix, settings.tol)
    listener(str(found))
    uniform = mutual_information(matrix / len(matrix))
    named = settings.matrix == "" and settings.channel in _NAMED
    used = int((found.input > 1e-6).sum())
    pictures: list[Picture] = [*_convergence(found), *_inputs(matrix, found)]
    if named:
        pictures.append(_by_error(settings))
    state = "" if found.converged else ", which was not reached: the channel has inputs that hardly differ"
    return Outcome(
        [
            f"The capacity lies between {found.value:.9f} and {found.value + found.gap:.9f} bits, after "
            f"{found.iterations:,} iteration{'s' * (found.iterations > 1)} (tolerance {settings.tol:g}{state}).",
            f"{used} of {len(matrix)} inputs are used. Inputs with equal probabilities would get {uniform:.6f} bits "
            "through.",
        ],
        pictures,
        Table(
            "capacity-inputs",
            "Inputs that reach the capacity",
            ["input", "probability"],
            [[k, float(f"{chance:.6g}")] for k, chance in enumerate(found.input[:_DRAWN])],
        ),
        {
            "capacity": found.value,
            "gap": found.gap,
            "iterations": found.iterations,
            "converged": found.converged,
            "input": found.input.tolist(),
            "uniform": uniform,
        },
    )


def _channel(settings: ChannelCapacitySettings) -> np.ndarray:
    if settings.matrix:
        return written_matrix("matrix", settings.matrix)
    if settings.channel in _NAMED:
        return _NAMED[settings.channel](settings.error)
    return noisy_typewriter(settings.letters, settings.width, settings.include_self)


def _convergence(found: Capacity) -> list[Picture]:
    """How the bounds met, where they did not from the beginning, as those of a symmetric channel do."""
    if len(found.bounds) < 2:
        return []
    iteration = np.arange(1, len(found.bounds) + 1)
    gap = np.maximum(found.bounds[:, 1] - found.bounds[:, 0], 1e-16)
    drawn = Lines(
        "capacity-convergence",
        "Bounds close in on the capacity",
        "iteration",
        "bits",
        {
            "upper to lower bound": (iteration, gap),
            "lower bound to its end": (
                iteration,
                np.maximum(found.bounds[-1, 0] - found.bounds[:, 0], 1e-16),
            ),
        },
        log_y=True,
        log_x=len(iteration) > 200,
        caption="Whatever the iteration does, the capacity is between its two bounds.",
    )
    return [drawn]


def _inputs(matrix: np.ndarray, found: Capacity) -> list[Picture]:
    if len(matrix) > _DRAWN:
        return []
    names = [str(k) for k in range(len(matrix))]
    return [
        Heatmap(
            "capacity-channel",
            "The channel",
            "output",
            "input",
            matrix,
            rows=names,
            columns=[str(k) for k in range(matrix.shape[1])],
            numbers=matrix.size <= 64,
        ),
        Bars(
            "capacity-input",
            "Inputs that reach the capacity",
            "input",
            "probability",
            names,
            {"input": found.input},
        ),
    ]


def _by_error(settings: ChannelCapacitySettings) -> Lines:
    shares = np.linspace(0, 1, 51)
    values = {
        name: np.array([capacity(make(float(share)), 1e-6).value for share in shares])
        for name, make in _NAMED.items()
    }
    return Lines(
        "capacity-by-error",
        "Capacity by the probability of an error",
        "probability of an error or a loss",
        "capacity in bits",
        {name: (shares, curve) for name, curve in values.items()},
        marks=[(settings.error, "here")],
        caption="A symmetric channel that always errs says as much as one that never does; one that loses never lies.",
    )


experiment = Experiment(
    "The capacity of a channel of your own or a textbook one, proven from both sides, and the inputs that reach it.",
    ChannelCapacitySettings,
    run,
    toy={"channel": "typewriter", "letters": 5},
    reference="Blahut, Computation of channel capacity and rate-distortion functions, 1972; Arimoto, 1972",
)

__all__ = ["ChannelCapacitySettings", "experiment", "run"]
