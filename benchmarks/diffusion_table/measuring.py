"""One row of the table: a model trained, drawn from with every sampler, and held against data it has not seen."""

import abc
import functools
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any, final

import jax
import numpy as np

from benchmarks.diffusion_table.combinations import Combination, walks
from chainrule import models
from chainrule.core.errors import ChainruleError, DivergedError
from chainrule.data import load
from chainrule.data.dataset import Data
from chainrule.models.diffusion.generative import Generative
from chainrule.train import fit
from chainrule.train.generation.drawing import as_rows
from chainrule.train.generation.real_examples import RealExamples, real_examples
from chainrule.train.generation.transport import HeldOutRows

NEVER = 10**9


class Measure(abc.ABC):
    """The distance of samples from data, and what it is for real examples."""

    @abc.abstractmethod
    def of_real(self) -> float:
        """That of real examples, which samples cannot be asked to beat."""

    @abc.abstractmethod
    def of(self, samples: np.ndarray) -> float:
        """That of samples in model units."""


@final
class SinkhornDivergence(Measure):
    """For points, from the held-out ones; of real: as many training points."""

    def __init__(self, data: Data) -> None:
        known = real_examples(data, data.test)
        self.points = HeldOutRows(known.train, known.held_out)

    def of_real(self) -> float:
        """The mean over several sets."""
        return float(np.mean(self.points.of_real(self.points.sinkhorn)))

    def of(self, samples: np.ndarray) -> float:
        """That of as many samples."""
        return self.points.sinkhorn(as_rows(samples))


@final
class KernelDistance(Measure):
    """For images, from the training examples, in the features of a classifier; of real: the held-out examples."""

    def __init__(self, data: Data) -> None:
        self.examples: RealExamples = real_examples(data)

    def of_real(self) -> float:
        """Zero on average; this is where chance has put it."""
        return self.examples.kernel_distance_of_held_out().value

    def of(self, samples: np.ndarray) -> float:
        """Unbiased, so below zero now and then."""
        return self.examples.kernel_distance(as_rows(samples)).value


@final
@dataclass(frozen=True)
class Problem:
    """Data, how samples of them are judged, and how long a model trains on them."""

    data: str
    measure: type[Measure]
    name: str
    """Of the distance."""
    limit: float
    """Distance up to which samples are good."""
    why: str
    """What the limit means."""
    n: int
    """Samples of each sampler."""
    steps: int = 2000
    options: dict[str, Any] = field(default_factory=dict)
    """Of the data."""
    network: dict[str, Any] = field(default_factory=dict)
    """Settings of every model beyond the combination."""
    training: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def loaded(self) -> Data:
        """The data themselves."""
        return load(self.data, **self.options)

    @functools.cached_property
    def judge(self) -> Measure:
        """The distance, ready to be measured."""
        return self.measure(self.loaded)


PROBLEMS = {
    "moons": Problem(
        "moons",
        SinkhornDivergence,
        "Sinkhorn divergence",
        0.05,
        "half of what normal points with the mean and covariance of the moons have (0.092)",
        n=1000,
        options={"n": 10_000},
    ),
    "digits": Problem(
        "digits",
        KernelDistance,
        "kernel distance",
        0.25,
        "between test digits with noise of 0.3 on every pixel (0.15) and those of five classes alone (0.39)",
        n=1000,
    ),
}


def row(combination: Combination, problem: Problem, seed: int = 0) -> dict[str, Any]:
    """Seconds of the processor, and the distance of every sampler; `None` where a walk is not finite."""
    began = time.process_time()
    found: dict[str, Any] = {"model": combination.model, **dict(combination.settings)}
    try:
        model = models.build(
            combination.model, problem.loaded, **dict(combination.settings), **problem.network
        )
    except ChainruleError as error:
        return {**found, "refused": str(error)}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run"
        settings = {"eval_every": NEVER, "save_every": NEVER, **problem.training}
        try:
            trained = fit(model, problem.loaded, run=path, steps=problem.steps, seed=seed, **settings).model
        except DivergedError as error:
            return {**found, "diverged": str(error), "distances": dict.fromkeys(walks())}
    assert isinstance(trained, Generative)
    found["training_cpu_seconds"] = round(time.process_time() - began, 1)
    distances: dict[str, float | None] = {}
    for name, options in walks().items():
        try:
            drawn = np.asarray(trained.sample(jax.random.key(seed), problem.n, **options))
        except DivergedError:
            distances[name] = None
        else:
            distances[name] = float(f"{problem.judge.of(drawn):.4g}")
    return {**found, "cpu_seconds": round(time.process_time() - began, 1), "distances": distances}


__all__ = ["PROBLEMS", "KernelDistance", "Measure", "Problem", "SinkhornDivergence", "row"]
