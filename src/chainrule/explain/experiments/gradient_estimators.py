"""Estimators of one gradient side by side: of a mean square, and of bounds with a Gaussian code and one of classes."""

import math
from typing import final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Bars, Table
from chainrule.core.types import Array
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability import Categorical, Normal
from chainrule.probability.variational import (
    ElboProblem,
    EstimatorComparison,
    ExpectationProblem,
    GumbelSoftmax,
    ScoreFunction,
    StraightThrough,
    compare_estimators,
)


@final
class EstimatorSettings(Settings):
    """The guide, and how much is drawn from it."""

    mean: float = Field(1.0, ge=-10, le=10, description="mean of the Gaussian guide")
    scale: float = Field(1.0, gt=0, le=10, description="its standard deviation")
    temperature: float = Field(0.5, gt=0, le=10, description="temperature of the relaxed draws of classes")
    samples: int = Field(10, ge=2, le=1000, description="draws for a gradient")
    repeats: int = Field(4000, ge=10, description="gradients of each estimator")
    seed: int = Field(0, ge=0, description="the draws")


def run(settings: EstimatorSettings, listener: Listener) -> Outcome:
    """Three problems whose exact gradients are known, every estimator that suits each."""
    del listener
    found = {
        "the mean of z²": _mean_square(settings),
        "the ELBO of a Gaussian code": _gaussian(settings),
        "the ELBO of a code of classes": _classes(settings),
    }
    rows: list[list[str | float | int]] = [
        [
            problem,
            row.label,
            _norm(row.bias),
            _norm(row.bias_error),
            float(row.variance.sum()),
            row.operations,
        ]
        for problem, comparison in found.items()
        for row in comparison.rows
    ]
    variance = {
        problem: {row.label: float(row.variance.sum()) for row in comparison.rows}
        for problem, comparison in found.items()
    }
    square, classes = variance["the mean of z²"], found["the ELBO of a code of classes"]
    bias = {row.label: _norm(row.bias) for row in classes.rows}
    errors = {row.label: row.bias_error for row in classes.rows}
    relaxed, baseline = GumbelSoftmax(settings.temperature).label, ScoreFunction().label
    return Outcome(
        [
            f"For the mean of z² one draw has variance {square['pathwise']:.3g} by its path and "
            f"{square['score function']:.3g} by its score, {square['score function, baseline']:.3g} with a baseline.",
            f"Relaxed classes at temperature {settings.temperature:g} are off by {bias[relaxed]:.2g} on average, which "
            "no number of draws makes up for; the score function with a baseline by "
            f"{bias[baseline]:.2g} ± {_norm(errors[baseline]):.2g}.",
        ],
        [_bars(number, problem, comparison) for number, (problem, comparison) in enumerate(found.items())],
        Table(
            "gradient-estimators",
            "Bias, variance and cost",
            ["gradient of", "estimator", "bias", "its error", "variance of a draw", "operations"],
            rows,
            caption=f"{settings.samples} draws for a gradient, {settings.repeats:,} gradients of each estimator.",
        ),
        {"variance": variance, "bias": bias},
    )


def _mean_square(settings: EstimatorSettings) -> EstimatorComparison:
    problem = ExpectationProblem(lambda mu: Normal(mu, settings.scale), jnp.square)
    return compare_estimators(
        problem,
        jnp.asarray(settings.mean),
        random.key(settings.seed, "mean square"),
        samples=settings.samples,
        repeats=settings.repeats,
        exact=jnp.asarray(2 * settings.mean),
    )


def _gaussian(settings: EstimatorSettings) -> EstimatorComparison:
    """z ~ N(0, 1), x | z ~ N(z, 1), x = 2: the bound is `-(2 - m)²/2 - m²/2 - s² + log s` and numbers."""

    def log_joint(z: Array) -> Array:
        return Normal().log_prob(z) + Normal(z, 1.0).log_prob(2.0)

    mean, scale = settings.mean, settings.scale
    return compare_estimators(
        ElboProblem(lambda phi: Normal(phi[0], jnp.exp(phi[1])), log_joint, Normal()),
        jnp.array([mean, math.log(scale)]),
        random.key(settings.seed, "gaussian"),
        samples=settings.samples,
        repeats=settings.repeats,
        exact=jnp.array([2 - 2 * mean, 1 - 2 * scale**2]),
    )


def _classes(settings: EstimatorSettings) -> EstimatorComparison:
    """Four classes, each with a location of its own, and a Gaussian around it."""
    locations = jnp.array([-1.0, 0.0, 1.0, 3.0])
    prior = Categorical(np.full(4, 0.25))

    def log_joint(z: Array) -> Array:
        return -math.log(4) * z.sum() + Normal((z * locations).sum(), 1.0).log_prob(2.0)

    return compare_estimators(
        ElboProblem(lambda logits: Categorical(logits=logits), log_joint, prior),
        jnp.array([0.0, 0.2, 0.5, -0.2]),
        random.key(settings.seed, "classes"),
        estimators=[
            ScoreFunction(baseline=False),
            ScoreFunction(),
            GumbelSoftmax(settings.temperature),
            StraightThrough(settings.temperature),
        ],
        samples=settings.samples,
        repeats=settings.repeats,
    )


def _bars(number: int, problem: str, comparison: EstimatorComparison) -> Bars:
    return Bars(
        f"gradient-estimators-{number + 1}",
        f"Gradient of {problem}",
        "",
        f"squared error of a gradient from {comparison.samples} draws",
        [row.label for row in comparison.rows],
        {
            "variance": np.array([row.variance.sum() for row in comparison.rows]) / comparison.samples,
            "squared bias": np.array([np.square(row.bias).sum() for row in comparison.rows]),
        },
        caption="More draws divide the variance by their number and leave the squared bias as it is.",
    )


def _norm(values: np.ndarray) -> float:
    return float(np.linalg.norm(values))


experiment = Experiment(
    "Estimators of one gradient compared: pathwise, Gaussian identities, score function, relaxed classes.",
    EstimatorSettings,
    run,
    toy={"repeats": 50, "samples": 2},
    reference="Mohamed, Rosca, Figurnov and Mnih, Monte Carlo gradient estimation in machine learning, JMLR 2020",
)

__all__ = ["EstimatorSettings", "experiment", "run"]
