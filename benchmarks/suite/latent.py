"""PCA, mixtures, hidden Markov models and variational auto-encoders beside scikit-learn, hmmlearn and PyTorch.

The first three work in double precision on the same arrays. PCA keeps 10 axes of 100,000 rows of 50 features; the
mixture takes five steps of EM with ten full covariances from a given start; the hidden Markov model smooths 100,000
observations. The auto-encoder, 784-256-(16, 16) and back on zeros and ones, takes a training step by Adam: ours is
the steady state of `fit`, PyTorch's a bare loop; rate and distortion of the first batch without noise must agree. The
memory of scoring examples by 5,000 codes is that of the compiled program.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Case, Contestant, Growth, Local, Options, Prepared, Report, measure, ratio
from benchmarks.peer import Peer
from benchmarks.vae_step import vae_step
from benchmarks.workers import latent_problems as problems
from benchmarks.workers.protocol import steady
from chainrule.probability import HiddenMarkov, Normal
from chainrule.probability.linear import principal_components
from chainrule.probability.mixtures import MixtureParameters, em_step

PEERS = ("scikit-learn", "hmmlearn", "torch", "torch-compile")
SIZES = (12_500, 25_000, 50_000, 100_000)


def run(options: Options) -> Report:
    """Measure everything."""
    peers = options.chosen(PEERS)
    cases: list[Case] = []
    versions: dict[str, str] = {}
    steps = f"mixture of {problems.COMPONENTS}, {problems.ITERATIONS} steps of EM"
    for label, ours, result, peer, task in (
        (f"PCA, {problems.ROWS:,} x {problems.FEATURES}", pca(), _variances, "scikit-learn", "pca"),
        (steps, mixture(), _likelihood, "scikit-learn", "mixture"),
        (f"forward-backward, T = {problems.TIME:,}", hidden(), _posterior, "hmmlearn", "hidden"),
    ):
        theirs: list[Contestant] = [Peer(peer, "latent_peers", {"task": task})] if peer in peers else []
        made, found = measure(
            label, [_local(ours, result), *theirs], rounds=options.rounds, tolerance=1e-6, watch=options.watch
        )
        cases.append(made)
        versions.update(found)
    made, found, notes = vae_step(options, [name for name in peers if name.startswith("torch")])
    cases.append(made)
    versions.update(found)
    return Report(tuple(cases), growth(options.rounds), (*_targets(cases), *notes), versions)


def pca(count: int = problems.ROWS) -> Callable[[], Any]:
    """Axes and variances."""
    x = problems.rows(count)
    return lambda: principal_components(x, problems.KEPT)


def mixture(count: int = problems.ROWS) -> Callable[[], Any]:
    """A few steps of EM."""
    x = problems.rows(count)
    start = MixtureParameters(*problems.start(x))

    def work() -> float:
        parameters, value = start, 0.0
        for _ in range(problems.ITERATIONS):
            parameters, value = em_step(parameters, x, "full")
        return value

    return work


def hidden(count: int = problems.TIME) -> Callable[[], Any]:
    """Probabilities of states given all observations, and the likelihood."""
    first, transition, means, variances = problems.chain()
    model = HiddenMarkov(first, transition, Normal(means, np.sqrt(variances)))
    y = problems.observations(count)
    return lambda: (model.log_prob(y), np.asarray(model.posterior(y)))


def _variances(found: Any) -> list[float]:
    return [float(v) for v in found.variances]


def _likelihood(found: Any) -> list[float]:
    return [float(found)]


def _posterior(found: Any) -> list[float]:
    return [float(found[0]), *(float(p) for p in found[1][::10_000].ravel())]


def _local(work: Callable[[], Any], result: Callable[[Any], list[float]]) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        found = work()
        return Prepared(result(found), time.perf_counter() - began)

    return Local("chainrule", prepare, lambda: _seconds(work))


def _seconds(work: Callable[[], Any]) -> float:
    return steady(lambda count: [work() for _ in range(count)], 1)


def growth(rounds: int) -> tuple[Growth, ...]:
    """Seconds by the number of rows or observations."""
    found = []
    for what, made in (("PCA", pca), ("EM", mixture), ("forward-backward", hidden)):
        seconds = []
        for size in SIZES:
            work = made(size)
            work()
            seconds.append(float(np.median([_seconds(work) for _ in range(min(rounds, 3))])))
        sizes = tuple(float(size) for size in SIZES)
        found.append(Growth(f"seconds of {what}", "rows", sizes, tuple(seconds), sizes))
    return tuple(found)


def _targets(cases: list[Case]) -> list[str]:
    lines = []
    for case in cases:
        for theirs in case.times[1:]:
            share = ratio(case.ours, theirs).median
            lines.append(
                f"{case.label}: time over {theirs.name} {share:.3g}, target at most 1: "
                f"{'met' if share <= 1 else 'MISSED'}"
            )
    return lines
