"""Networks that become wider beside their limit: Gaussian outputs, a tangent kernel that stays, training foretold."""

import dataclasses
from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.explain.methods.two_classes import two_classes
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Settings
from chainrule.kernels.infinite.architectures import Dense
from chainrule.kernels.widths import WidthResult, width_study

_MEASURES = {
    "covariance_error": "covariance, off the limit",
    "kurtosis": "excess kurtosis",
    "kernel_error": "mean NTK, off the limit",
    "kernel_spread": "NTK, spread of draws",
    "drift": "NTK, moved by training",
    "distance": "training, off its prediction",
}
"""What is measured, and what it is called in pictures."""


@final
class WideNetworksSettings(Settings):
    """Networks, data and training."""

    widths: tuple[Count, ...] = Field(
        (16, 64, 256, 1024), min_length=2, description="units of every hidden layer"
    )
    depth: int = Field(2, ge=1, le=10, description="hidden layers")
    activation: str = Field("relu", description="nonlinearity of hidden layers: relu, erf, tanh, gelu, ...")
    draws: int = Field(10, ge=2, le=1000, description="networks of each width")
    steps: int = Field(100, ge=1, description="steps of gradient descent on all examples")
    rate: float | None = Field(None, gt=0, description="learning rate; none: half the largest stable one")
    data: str = Field("digits", description="data with classes")
    classes: tuple[str, str] = Field(("3", "8"), description="two of its classes, with targets -1 and 1")
    points: int = Field(12, ge=2, le=500, description="training examples")
    new: int = Field(12, ge=2, le=500, description="test examples")
    seed: int = Field(0, ge=0, description="networks and choice of examples")


def run(settings: WideNetworksSettings, listener: Listener) -> Outcome:
    """Draw and train networks of every width, and set them beside the two kernels of infinite width."""
    examples = two_classes(settings.data, settings.classes, settings.points, settings.new, settings.seed)
    network = Dense(settings.depth, settings.activation)
    found: list[WidthResult] = []
    for width in settings.widths:
        found += width_study(
            network,
            examples.x,
            examples.y,
            examples.x_new,
            widths=[width],
            draws=settings.draws,
            steps=settings.steps,
            learning_rate=settings.rate,
            key=random.key(settings.seed, f"width {width}"),
        )
        last = found[-1]
        listener(
            f"width {width}: kernels spread by {last.kernel_spread:.3g}, move by {last.drift:.3g}, "
            f"outputs are {last.distance:.3g} off"
        )
    return _outcome(settings, found)


def _outcome(settings: WideNetworksSettings, found: list[WidthResult]) -> Outcome:
    """What was found, with the powers of the width that it falls with."""
    widths = np.array(settings.widths, float)
    measured = {name: np.array([getattr(one, name) for one in found]) for name in _MEASURES}
    powers = {name: _power(widths, values) for name, values in measured.items()}
    curves = {label: (widths, measured[name]) for name, label in _MEASURES.items()}
    rows: list[list[Any]] = [
        [label, *(float(f"{v:.4g}") for v in measured[name]), round(powers[name], 2)]
        for name, label in _MEASURES.items()
    ]
    wide = found[-1]
    return Outcome(
        [
            f"At width {wide.width:,} the covariance of outputs is {wide.covariance_error:.2%} off its limit and their "
            f"excess kurtosis {wide.kurtosis:.3g}; tangent kernels of single networks spread by "
            f"{wide.kernel_spread:.2%} around their mean, which is {wide.kernel_error:.2%} off.",
            f"{settings.steps} steps of training move the tangent kernel by {wide.drift:.2%}, and trained outputs are "
            f"{wide.distance:.3g} off what the limit predicts from where they began.",
            f"From width {settings.widths[0]:,} on, the spread falls with the width to the power "
            f"{powers['kernel_spread']:.2f} (theory: -0.5), kurtosis {powers['kurtosis']:.2f} (theory: -1), the "
            f"movement of the kernel {powers['drift']:.2f}.",
        ],
        [
            Lines(
                "wide-networks",
                "Networks of finite width beside the limit",
                "width",
                "relative, or as it is",
                curves,
                log_x=True,
                log_y=True,
                caption=f"{settings.draws} networks of each width with {settings.depth} hidden layers "
                f"({settings.activation}), {settings.points} examples of {settings.data}, classes "
                f"{settings.classes[0]} and {settings.classes[1]}.",
            )
        ],
        Table(
            "wide-networks-table",
            "By width",
            ["measure", *(f"{w:,}" for w in settings.widths), "power"],
            rows,
        ),
        {"widths": [dataclasses.asdict(one) for one in found], "powers": powers},
    )


def _power(widths: np.ndarray, values: np.ndarray) -> float:
    """The slope on logarithmic axes."""
    return float(np.polyfit(np.log(widths), np.log(np.maximum(values, 1e-12)), 1)[0])


experiment = Experiment(
    "Networks that become wider: Gaussian outputs, a tangent kernel that stays, training as the limit predicts.",
    WideNetworksSettings,
    run,
    toy={"widths": [4, 16], "depth": 1, "draws": 3, "steps": 3, "points": 4, "new": 2},
    reference="Lee et al., Wide neural networks of any depth evolve as linear models under gradient descent, 2019, "
    "arXiv:1902.06720",
)

__all__ = ["WideNetworksSettings", "experiment", "run"]
