"""Training foretold: what infinitely wide networks do step by step, over what wide ones really do."""

from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines
from chainrule.explain.methods.two_classes import TwoClasses, two_classes
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.kernels.infinite.architectures import Dense
from chainrule.kernels.infinite.spectrum import max_learning_rate
from chainrule.kernels.infinite.training import TrainedPrediction, gradient_descent
from chainrule.kernels.widths import predicted, trained_networks

_RECORDS = 24
"""Moments of training that are shown."""
_SHOWN = 3
"""New points whose outputs are shown."""


@final
class TrainingPredictionSettings(Settings):
    """Networks, data and training."""

    width: int = Field(2048, ge=1, description="units of every hidden layer of the real networks")
    depth: int = Field(2, ge=1, le=10, description="hidden layers")
    activation: str = Field("relu", description="nonlinearity of hidden layers: relu, erf, tanh, gelu, ...")
    draws: int = Field(5, ge=1, le=1000, description="real networks")
    steps: int = Field(200, ge=1, description="steps of gradient descent on all examples")
    rate: float | None = Field(None, gt=0, description="learning rate; none: half the largest stable one")
    data: str = Field("digits", description="data with classes")
    classes: tuple[str, str] = Field(("3", "8"), description="two of its classes, with targets -1 and 1")
    points: int = Field(20, ge=2, le=500, description="training examples")
    new: int = Field(20, ge=2, le=500, description="test examples")
    seed: int = Field(0, ge=0, description="networks and choice of examples")


def run(settings: TrainingPredictionSettings, listener: Listener) -> Outcome:
    """Predict the training of an infinite ensemble, train wide networks, and put both on one plot."""
    examples = two_classes(settings.data, settings.classes, settings.points, settings.new, settings.seed)
    network = Dense(settings.depth, settings.activation)
    theta = np.asarray(network.ntk(examples.x))
    rate = settings.rate or max_learning_rate(theta) / 2
    marks = np.unique(np.concatenate([[0], np.geomspace(1, settings.steps, _RECORDS).round()])).astype(int)
    everything = np.concatenate([examples.x, examples.x_new])
    foretold = gradient_descent(
        network.ntk, network.nngp, examples.x, examples.y, marks, learning_rate=rate, discrete=True
    )(everything)
    listener(
        f"predicted {settings.steps} steps; training {settings.draws} networks of width {settings.width:,}"
    )
    real = trained_networks(
        network,
        settings.width,
        random.key(settings.seed, "networks"),
        examples.x,
        examples.y,
        examples.x_new,
        draws=settings.draws,
        steps=marks.tolist(),
        learning_rate=rate,
    )
    outputs = np.asarray(real.outputs, np.float64)
    single = predicted(network, examples.x, examples.y, examples.x_new, outputs[:, 0], settings.steps, rate)
    off = float(np.sqrt(np.square(outputs[:, -1] - single).mean()))
    moved = float(np.sqrt(np.square(outputs[:, -1] - outputs[:, 0]).mean()))
    deviation = np.sqrt(np.maximum(foretold.variance, 0.0))
    inside = float((np.abs(outputs - foretold.mean[None]) <= 2 * deviation[None] + 1e-9).mean())
    losses = _losses(marks, foretold, outputs, examples)
    final_real, final_foretold = losses["test, real"][1][-1], losses["test, predicted"][1][-1]
    kernels = [np.asarray(one, np.float64) for one in (real.before, real.after)]
    drift = float(np.mean([np.linalg.norm(b - a) / np.linalg.norm(a) for a, b in zip(*kernels, strict=True)]))
    return Outcome(
        [
            f"After {settings.steps} steps the mean loss of a test example is {final_real:.4g} for {settings.draws} "
            f"networks of width {settings.width:,} and {final_foretold:.4g} as predicted without training.",
            f"Outputs of the networks lie within two predicted standard deviations {inside:.1%} of the time.",
            f"From where it began, each network ends {off:.3g} off its own prediction, after moving by {moved:.3g} "
            f"(root mean squares); its tangent kernel moved by {drift:.2%}.",
        ],
        [
            _loss_picture(losses, settings),
            *_times_picture(theta, rate, marks, outputs, examples),
            *_output_pictures(marks, foretold, outputs, examples),
        ],
        None,
        {
            "steps": marks.tolist(),
            "rate": float(rate),
            "inside": inside,
            "off": off,
            "moved": moved,
            "drift": drift,
            "losses": {name: [part.tolist() for part in curve[1:]] for name, curve in losses.items()},
        },
    )


def _losses(
    marks: np.ndarray, foretold: TrainedPrediction, outputs: np.ndarray, examples: TwoClasses
) -> dict[str, tuple[np.ndarray, ...]]:
    """Mean losses of training and test examples: as predicted with two standard deviations, and of real networks."""
    found: dict[str, tuple[np.ndarray, ...]] = {}
    count = len(examples.y)
    for name, part, y in (
        ("training", slice(0, count), examples.y),
        ("test", slice(count, None), examples.y_new),
    ):
        gap, spread = foretold.mean[:, part] - y[None], foretold.covariance[:, part, part]
        size = 2 * len(y)
        mean = (np.square(gap).sum(axis=1) + np.einsum("tii->t", spread)) / size
        # The variance of a sum of squares of Gaussians.
        turns = 2 * np.einsum("tij,tji->t", spread, spread) + 4 * np.einsum("ti,tij,tj->t", gap, spread, gap)
        width = 2 * np.sqrt(np.maximum(turns, 0.0)) / size
        real = np.square(outputs[:, :, part] - y[None, None]).sum(axis=2) / size
        found[f"{name}, predicted"] = (marks, mean, np.maximum(mean - width, 0.0), mean + width)
        found[f"{name}, real"] = (marks, real.mean(axis=0), real.min(axis=0), real.max(axis=0))
    return found


def _loss_picture(losses: dict[str, tuple[np.ndarray, ...]], settings: TrainingPredictionSettings) -> Lines:
    return Lines(
        "training-prediction-loss",
        f"Training predicted, and of networks {settings.width:,} wide",
        "steps + 1",
        "mean of half the squared error",
        {name: (curve[0] + 1.0, *curve[1:]) for name, curve in losses.items()},
        log_x=True,
        caption="Bands: two standard deviations over initialisations as predicted; least and largest of the networks.",
    )


def _times_picture(
    theta: np.ndarray, rate: float, marks: np.ndarray, outputs: np.ndarray, examples: TwoClasses
) -> list[Lines]:
    """When what is missing along each eigenvector of the kernel has fallen to 1/e: as predicted, and of networks."""
    values, vectors = np.linalg.eigh(theta.astype(np.float64))
    missing = (outputs[:, :, : len(examples.y)] - examples.y[None, None]) @ vectors
    sizes = np.sqrt(np.square(missing).mean(axis=0))
    found = [learning_time(marks, size) for size in sizes.T]
    known = (values > 0) & (rate * values < 1)
    taken = known & np.isfinite(found)
    if not known.any():
        return []
    steps = -1 / np.log1p(-rate * values[known])
    return [
        Lines(
            "training-prediction-times",
            "Eigenvalue of the tangent kernel and time to learn",
            "eigenvalue",
            "steps until 1/e of the error along the eigenvector is left",
            {"predicted": (values[known], steps)},
            log_x=True,
            log_y=True,
            dots=(values[taken], np.asarray(found)[taken]),
            caption="Dots: real networks, of those eigenvectors whose errors fell as far within the steps. What has a "
            "large eigenvalue is learnt first.",
        )
    ]


def learning_time(steps: np.ndarray, sizes: np.ndarray) -> float:
    """The step at which a size has fallen to 1/e of the first, between records on a logarithmic scale; inf: never.

    >>> round(learning_time(np.array([0, 10, 20]), np.exp(-np.array([0.0, 0.5, 1.5]))), 6)
    15.0
    """
    logs = np.log(np.maximum(sizes, 1e-300) / max(float(sizes[0]), 1e-300))
    below = np.flatnonzero(logs <= -1)
    if not len(below):
        return float("inf")
    after = int(below[0])
    before = after - 1
    share = (-1 - logs[before]) / (logs[after] - logs[before])
    return float(steps[before] + share * (steps[after] - steps[before]))


def _output_pictures(
    marks: np.ndarray, foretold: TrainedPrediction, outputs: np.ndarray, examples: TwoClasses
) -> list[Any]:
    """Outputs at a few new points over the predicted band."""
    count, pictures = len(examples.y), []
    for number in range(min(_SHOWN, len(examples.y_new))):
        point = count + number
        mean = foretold.mean[:, point]
        width = 2 * np.sqrt(np.maximum(foretold.variance[:, point], 0.0))
        curves: dict[str, tuple[np.ndarray, ...]] = {
            "predicted": (marks + 1.0, mean, mean - width, mean + width)
        }
        for draw, one in enumerate(outputs[:, :, point], start=1):
            curves[f"network {draw}"] = (marks + 1.0, one)
        pictures.append(
            Lines(
                f"training-prediction-output-{number + 1}",
                f"Output at test example {number + 1}, whose target is {examples.y_new[number]:.0f}",
                "steps + 1",
                "output",
                curves,
                log_x=True,
                caption="Band: two standard deviations over initialisations.",
            )
        )
    return pictures


experiment = Experiment(
    "Training of wide networks as the limit predicts it, mean and band, over what real networks do.",
    TrainingPredictionSettings,
    run,
    toy={"width": 16, "depth": 1, "draws": 2, "steps": 4, "points": 4, "new": 2},
    reference="Lee et al., Wide neural networks of any depth evolve as linear models under gradient descent, 2019, "
    "arXiv:1902.06720",
)

__all__ = ["TrainingPredictionSettings", "experiment", "run"]
