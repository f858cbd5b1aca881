"""Information in infinitely wide networks: what outputs know about input, class and training data, over training time.

Over initialisations, outputs are Gaussian at every time of training, so that all three are exact: no bins, no noise and
no estimator.
"""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Picture, Scatter, Table
from chainrule.explain.methods.two_classes import two_classes
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.information.gaussian_outputs import dataset_information, output_information
from chainrule.kernels.infinite.architectures import Dense
from chainrule.kernels.infinite.spectrum import max_learning_rate
from chainrule.kernels.infinite.training import gradient_descent

_LATER = 1.01
"""How much more than the least a loss has to be in the end for the least to be worth a mark."""
_ROUNDING = 1e-9
"""Added to variances, as a share of the largest: outputs at points that are alike have none of their own."""


@final
class InfiniteInformationSettings(Settings):
    """Networks, data and training."""

    depth: int = Field(2, ge=1, le=10, description="hidden layers")
    activation: str = Field("relu", description="nonlinearity of hidden layers: relu, erf, tanh, gelu, ...")
    data: str = Field("digits", description="data with classes")
    classes: tuple[str, str] = Field(("3", "8"), description="two of its classes, with targets -1 and 1")
    points: int = Field(60, ge=2, le=1000, description="training examples")
    new: int = Field(30, ge=2, le=1000, description="test examples: the inputs")
    steps: float = Field(1e4, gt=0, description="training time, in steps at half the largest stable rate")
    moments: int = Field(40, ge=2, le=500, description="times that are looked at")
    noise: float = Field(0.1, ge=0, description="deviation of the noise of training targets")
    seed: int = Field(0, ge=0, description="choice of examples")


def run(settings: InfiniteInformationSettings, listener: Listener) -> Outcome:
    """The laws of outputs at every time, and what follows from them."""
    examples = two_classes(settings.data, settings.classes, settings.points, settings.new, settings.seed)
    network = Dense(settings.depth, settings.activation)
    rate = max_learning_rate(np.asarray(network.ntk(examples.x))) / 2
    times = np.concatenate([[0.0], np.geomspace(0.1, settings.steps, settings.moments - 1)])
    prior = np.asarray(network.nngp(examples.x), np.float64) + settings.noise**2 * np.eye(len(examples.y))
    listener(f"{len(times)} times, {settings.points} training examples, {settings.new} inputs")

    def predicted(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = gradient_descent(network.ntk, network.nngp, examples.x, y, times, learning_rate=rate)
        mean, covariance = found(examples.x_new)
        return mean, covariance

    mean, covariance = predicted(examples.y)
    responses, _ = predicted(np.eye(len(examples.y)))
    variances = np.diagonal(covariance, axis1=1, axis2=2)
    least = _ROUNDING * float(variances.max())
    outputs = [
        output_information(m, np.maximum(v, least), examples.y_new)
        for m, v in zip(mean, variances, strict=True)
    ]
    about_input = np.array([one.about_input for one in outputs])
    about_target = np.array([one.about_target for one in outputs])
    about_data = np.array(
        [
            np.mean(
                [
                    dataset_information(a[i : i + 1], max(v[i], least) * np.eye(1), prior)
                    for i in range(len(examples.y_new))
                ]
            )
            for a, v in zip(responses, variances, strict=True)
        ]
    )
    loss = np.mean(np.square(mean - examples.y_new[None]) + variances, axis=1) / 2
    return _outcome(times, about_input, about_target, about_data, loss)


def _outcome(
    times: np.ndarray,
    about_input: np.ndarray,
    about_target: np.ndarray,
    about_data: np.ndarray,
    loss: np.ndarray,
) -> Outcome:
    at, best = times + times[1], int(loss.argmin())
    kept = about_data[best]
    series: dict[str, tuple[np.ndarray, ...]] = {
        "I(X; Z)": (at, about_input),
        "I(Z; Y)": (at, about_target),
        "I(Z; D)": (at, about_data),
    }
    end = len(times) - 1
    return Outcome(
        [
            f"Untrained outputs say {about_input[0]:.2f} bits about the input and {about_data[0]:.2f} about the "
            f"training targets; after {times[end]:,.3g} steps {about_input[end]:.3g} and {about_data[end]:.3g}, and "
            f"{about_target[end]:.3g} bits about the class.",
            f"The mean loss of a test example is least, {loss[best]:.3g}, after {times[best]:,.3g} steps, where an "
            f"output holds {kept:.3g} bits about the training targets.",
            "All of it is exact for one output of an ensemble of infinitely wide networks: inputs are the test "
            "examples, training targets are taken to be draws of the network's own prior with noise.",
        ],
        _pictures(at, at[best] if loss[-1] > _LATER * loss[best] else None, series, loss),
        _table(times, about_input, about_target, about_data, loss),
        {
            "unit": "bits",
            "times": times.tolist(),
            "about_input": about_input.tolist(),
            "about_target": about_target.tolist(),
            "about_data": about_data.tolist(),
            "loss": loss.tolist(),
        },
    )


def _pictures(
    at: np.ndarray, best: float | None, series: dict[str, tuple[np.ndarray, ...]], loss: np.ndarray
) -> list[Picture]:
    return [
        Lines(
            "infinite-information",
            "What an output knows, over training",
            "steps",
            "bits",
            series,
            log_x=True,
            marks=() if best is None else ((float(best), "least test loss"),),
            caption="About the input (X), about its class (Y), and about the training targets (D).",
        ),
        Scatter(
            "infinite-information-plane",
            "The information plane of infinitely wide networks",
            "I(X; Z) in bits, exact",
            "I(Z; Y) in bits, exact",
            {"over training": np.stack([series["I(X; Z)"][1], series["I(Z; Y)"][1]], axis=1)},
            joined=True,
            caption="From the untrained ensemble at the lower left.",
        ),
        Lines(
            "infinite-information-loss",
            "Loss of test examples",
            "steps",
            "mean of half the squared error",
            {"test": (at, loss)},
            log_x=True,
        ),
    ]


def _table(times: np.ndarray, *columns: np.ndarray) -> Table:
    rows = [
        [float(f"{times[i]:.3g}"), *(float(values[i]) for values in columns)]
        for i in np.unique(np.linspace(0, len(times) - 1, 10).round().astype(int))
    ]
    heads = ["steps", "I(X; Z)", "I(Z; Y)", "I(Z; D)", "test loss"]
    return Table("infinite-information-table", "Bits, and loss", heads, rows)


experiment = Experiment(
    "Information in infinitely wide networks: about input, class and training data, exact at every time of training.",
    InfiniteInformationSettings,
    run,
    toy={"depth": 1, "points": 4, "new": 4, "moments": 3, "steps": 100.0},
    reference="Shwartz-Ziv and Alemi, Information in infinite ensembles of infinitely-wide neural networks, 2020",
)

__all__ = ["InfiniteInformationSettings", "experiment", "run"]
