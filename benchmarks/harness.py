"""Alternating rounds: the same work done by several contestants in turn, so that noise hits all of them alike.

A contestant is prepared once (compiled, and asked for a result that must agree with everybody else's) and then timed
in short turns. Every round gives each contestant one turn; ratios are taken within a round and summarised over rounds,
because on a shared machine times drift from minute to minute and ratios do not.
"""

import abc
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from benchmarks.quiet import Watch

THREADS = 2
"""For everybody."""


class BenchmarkError(Exception):
    """A benchmark cannot be run, or its contestants do not do the same work."""


@final
@dataclass(frozen=True)
class Prepared:
    """What a contestant says before it is timed."""

    result: Sequence[float]
    """Numbers that everybody who does the same work must arrive at."""
    compile_seconds: float
    versions: dict[str, str] = field(default_factory=dict)


class Contestant(abc.ABC):
    """Somebody who can do the work."""

    name: str

    @abc.abstractmethod
    def prepare(self) -> Prepared:
        """Compile, and compute the result that is compared."""

    @abc.abstractmethod
    def turn(self) -> float:
        """Seconds for one unit of work, in a steady state."""

    def processes(self) -> Sequence[int]:
        """Processes of its own that work during a turn."""
        return ()

    def close(self) -> None:
        """Let go of whatever it holds."""
        return


@final
class Local(Contestant):
    """A contestant in this process, made of two functions."""

    def __init__(self, name: str, prepare: Callable[[], Prepared], turn: Callable[[], float]) -> None:
        self.name = name
        self._prepare = prepare
        self._turn = turn

    def prepare(self) -> Prepared:
        """Call the first function."""
        return self._prepare()

    def turn(self) -> float:
        """Call the second function."""
        return self._turn()


@final
@dataclass(frozen=True)
class Summary:
    """Median and interquartile range of several numbers."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Summary":
        """Summary of at least two numbers."""
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)

    @property
    def spread(self) -> float:
        """Width of the interquartile range."""
        return self.high - self.low


@final
@dataclass(frozen=True)
class Times:
    """One contestant's part of a case."""

    name: str
    compile_seconds: float
    seconds: tuple[float, ...]
    """Per unit of work, one number a round."""

    @property
    def summary(self) -> Summary:
        """Median and spread over the rounds."""
        return Summary.of(self.seconds)


def ratio(ours: Times, theirs: Times) -> Summary:
    """Our time over theirs, round by round."""
    return Summary.of([a / b for a, b in zip(ours.seconds, theirs.seconds, strict=True)])


def against(case: "Case", goal: float) -> list[str]:
    """A line for every peer: our time over theirs, and whether that is at most the goal."""
    shares = {theirs.name: ratio(case.ours, theirs).median for theirs in case.times[1:]}
    return [
        f"{case.label}: time over {name} {share:.3g}, target at most {goal:g}: {'met' if share <= goal else 'MISSED'}"
        for name, share in shares.items()
    ]


def verdict(found: Summary) -> str:
    """A ratio in a word: a difference smaller than the spread is a tie."""
    if abs(found.median - 1) <= found.spread:
        return "tie"
    return "faster" if found.median < 1 else "slower"


@final
@dataclass(frozen=True)
class Case:
    """One workload, done by everybody. The first contestant is ours."""

    label: str
    times: tuple[Times, ...]
    disturbed: int
    """Turns during which other processes used the machine although they were repeated."""

    @property
    def ours(self) -> Times:
        """Our own times."""
        return self.times[0]

    @property
    def best_peer(self) -> Times | None:
        """The peer with the smallest median."""
        return min(self.times[1:], key=lambda t: t.summary.median, default=None)


def measure(
    label: str, contestants: Sequence[Contestant], *, rounds: int, tolerance: float, watch: Watch
) -> tuple[Case, dict[str, str]]:
    """Prepare everybody, check that they agree, and let them take turns; also the versions of what they use."""
    try:
        prepared = [contestant.prepare() for contestant in contestants]
        for contestant, other in zip(contestants[1:], prepared[1:], strict=True):
            agree(label, contestants[0].name, prepared[0], contestant.name, other, tolerance)
        watch.track([pid for contestant in contestants for pid in contestant.processes()])
        seconds: list[list[float]] = [[] for _ in contestants]
        disturbed = 0
        for number in range(rounds):
            # Everybody goes first equally often.
            for i in range(len(contestants)):
                which = (i + number) % len(contestants)
                taken, calm = watch.take(contestants[which].turn)
                seconds[which].append(taken)
                disturbed += not calm
    finally:
        for contestant in contestants:
            contestant.close()
    times = tuple(
        Times(c.name, p.compile_seconds, tuple(s))
        for c, p, s in zip(contestants, prepared, seconds, strict=True)
    )
    versions = {name: version for p in prepared for name, version in p.versions.items()}
    return Case(label, times, disturbed), versions


def agree(label: str, one: str, a: Prepared, other: str, b: Prepared, tolerance: float) -> None:
    """Raise unless two contestants arrived at the same numbers."""
    if len(a.result) != len(b.result) or not a.result:
        raise BenchmarkError(f"{label}: {one} gives {len(a.result)} numbers, {other} {len(b.result)}")
    for step, (x, y) in enumerate(zip(a.result, b.result, strict=True)):
        if not math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance * 1e-3):
            raise BenchmarkError(
                f"{label}: {one} and {other} do not do the same work: number {step} is {x:g} and {y:g}"
            )


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The p for which cost ~ size**p fits best (least squares in logarithms)."""
    return statistics.linear_regression([math.log(s) for s in sizes], [math.log(c) for c in costs]).slope


@final
@dataclass(frozen=True)
class Growth:
    """How a cost grows with a size."""

    quantity: str
    """What grows, e.g. "seconds per step"."""
    size: str
    """What it grows with, e.g. "width"."""
    sizes: tuple[float, ...]
    values: tuple[float, ...]
    expected: tuple[float, ...]
    """Operation or byte counts at the same sizes: their exponent is the expected one."""

    @property
    def measured_exponent(self) -> float:
        """Exponent of the measured values."""
        return exponent(self.sizes, self.values)

    @property
    def expected_exponent(self) -> float:
        """Exponent of the counts."""
        return exponent(self.sizes, self.expected)


@final
@dataclass(frozen=True)
class Report:
    """Everything one benchmark found."""

    cases: tuple[Case, ...]
    growth: tuple[Growth, ...] = ()
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)


@final
@dataclass(frozen=True)
class Options:
    """What the command line asks for."""

    rounds: int
    peers: tuple[str, ...] | None
    """Names of the peers to measure; `None` means all."""
    watch: Watch
    smoke: bool = False
    """Toy sizes, to see that a benchmark runs; its numbers mean nothing."""
    case: str | None = None
    """The one case to measure; `None` means all."""

    def chosen(self, available: Sequence[str]) -> list[str]:
        """The peers to measure among those a benchmark has."""
        wanted = available if self.peers is None else self.peers
        for name in wanted:
            if name not in available:
                raise BenchmarkError(
                    f"unknown peer {name!r}; this benchmark has: {', '.join(available) or 'none'}"
                )
        return list(wanted)


__all__ = [
    "THREADS",
    "BenchmarkError",
    "Case",
    "Contestant",
    "Growth",
    "Local",
    "Options",
    "Prepared",
    "Report",
    "Summary",
    "Times",
    "agree",
    "exponent",
    "measure",
    "ratio",
    "verdict",
]
