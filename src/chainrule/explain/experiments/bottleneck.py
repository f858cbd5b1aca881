"""The information bottleneck: what of y is kept in how few bits about x, how clusters split, what networks learn."""

import math
from typing import Any, Literal, NamedTuple, final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Heatmap, Lines, Picture, Scatter, Table
from chainrule.core.quoting import plain
from chainrule.explain.methods.noisy_codes import NoisyCodes, noisy_codes
from chainrule.explain.methods.symbol_sequences import symbols_of
from chainrule.explain.methods.written_tables import written_matrix
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Positive, Settings, Share
from chainrule.information.bottleneck_variants import predictive_table
from chainrule.information.bottlenecks import Bottleneck, BottleneckCurve, bottleneck_curve, first_split
from chainrule.information.channels import binary_symmetric, noisy_typewriter
from chainrule.information.entropies import entropy, mutual_information
from chainrule.information.tables import table

_READ = 100_000
_NAMED = 40
"""Values of x that are named beside heat maps."""
_MARKS = 6
"""Transitions that are marked; more could not be read."""
_LARGEST = 2**16
"""Entries of a table that networks are trained on, at most."""


@final
class BottleneckSettings(Settings):
    """The joint table, and values of beta."""

    source: Literal["typewriter", "flips", "text"] = Field(
        "typewriter", description="letters mistaken for neighbours, a bit that flips, or a text's next symbol"
    )
    letters: int = Field(64, ge=2, le=200, description="letters of the typewriter")
    width: int = Field(16, ge=1, le=99, description="neighbours on each side that a letter may come out as")
    include_self: bool = Field(False, description="whether a letter may come out right")
    circle: bool = Field(True, description="whether the last letter is a neighbour of the first")
    error: Share = Field(0.1, description="probability of a flip")
    data: str = Field("shakespeare", description="the text: a file, shakespeare or tune")
    window: int = Field(1, ge=1, le=6, description="symbols of the text that predict the next")
    matrix: str = Field(
        "",
        description="a joint table of your own, x down and y across: entries with commas, rows with semicolons",
    )
    betas: tuple[Positive, ...] = Field(
        (), description="values of beta; none: from below the first transition on"
    )
    count: int = Field(24, ge=2, le=200, description="how many of them where none are given")
    most: float = Field(
        12.0, gt=1, le=1000, description="largest beta then, in units of the first transition"
    )
    restarts: int = Field(4, ge=0, le=100, description="random starts at each beta")
    deterministic: bool = Field(True, description="compare with hard clusters")
    learned: int = Field(
        4,
        ge=0,
        le=20,
        description="networks with a noisy code, trained at as many of the values of beta and held against the curve, "
        "for tables of up to 65,536 entries; 0: none",
    )
    steps: Count = Field(1500, description="of their training")
    seed: int = Field(0, ge=0, description="of the starts, and of what is learned")


class _Source(NamedTuple):
    joint: np.ndarray
    names: list[str]
    title: str


class _Learned(NamedTuple):
    """Networks with a noisy code, each beside the best code at its beta."""

    points: list[Bottleneck]
    codes: NoisyCodes

    @property
    def lacking(self) -> np.ndarray:
        """Bits about y that each code lacks to the tangent of the curve at its beta, on which no code lies above."""
        betas = np.array([point.beta for point in self.points])
        best = np.array([point.objective for point in self.points])
        return np.asarray((self.codes.rates - best) / betas - self.codes.relevances)

    def numbers(self) -> dict[str, list[float]]:
        return {
            "beta": [point.beta for point in self.points],
            "rate": self.codes.rates.tolist(),
            "relevance": self.codes.relevances.tolist(),
            "rate_bound": self.codes.bounds.tolist(),
            "lacking": self.lacking.tolist(),
        }

    def finding(self) -> str:
        most = int(self.lacking.argmax())
        return (
            f"Networks with a noisy code, trained at {len(self.points)} of these betas, say at most "
            f"{max(float(self.lacking[most]), 0.0):.2g} bits less about y than what touches the curve there (at beta = "
            f"{self.points[most].beta:.4g})."
        )

    def picture(self, curve: BottleneckCurve) -> Lines:
        return Lines(
            "bottleneck-learned",
            "Learned codes and the curve",
            "I(X; Z) in bits",
            "I(Z; Y) in bits",
            {"bottleneck": (curve.rates, curve.relevances)},
            dots=(self.codes.rates, self.codes.relevances),
            caption="Dots: networks whose code is two noisy numbers, trained as the deep variational bottleneck is, at "
            "a price of 1 / beta. What they say is worked out from the table, not bounded.",
        )


def _learned(joint: np.ndarray, curve: BottleneckCurve, settings: BottleneckSettings) -> _Learned | None:
    """Networks at some of the betas at which there are clusters; none for tables that are large."""
    several = [point for point in curve.points if point.cardinality > 1]
    if not several or not settings.learned or joint.size > _LARGEST:
        return None
    chosen = np.unique(np.linspace(0, len(several) - 1, settings.learned).round().astype(int))
    points = [several[k] for k in chosen]
    betas = np.array([point.beta for point in points])
    return _Learned(points, noisy_codes(joint, betas, settings.steps, settings.seed))


def run(settings: BottleneckSettings, listener: Listener) -> Outcome:
    """Follow the bottleneck through all beta."""
    source = _source(settings)
    joint = source.joint
    first = bottleneck_curve(joint, [1.0], restarts=0).first_transition
    if not settings.betas and math.isinf(first):
        betas = np.geomspace(0.5, 10, settings.count)
    else:
        betas = np.array(settings.betas) if settings.betas else _spread(first_split(joint), settings)
    starts, seed = settings.restarts, settings.seed
    curve = bottleneck_curve(joint, betas.tolist(), restarts=starts, seed=seed, tol=1e-10, most=5000)
    listener(f"followed {len(curve.points)} values of beta")
    hard = None
    if settings.deterministic:
        hard = bottleneck_curve(joint, betas.tolist(), deterministic=True, restarts=starts, seed=seed)
    whole = mutual_information(joint)
    numbers: dict[str, Any] = {
        "beta": curve.betas.tolist(),
        "rate": curve.rates.tolist(),
        "relevance": curve.relevances.tolist(),
        "objective": [point.objective for point in curve.points],
        "clusters": curve.cardinalities.tolist(),
        "first_transition": first,
        "critical_betas": curve.critical_betas.tolist(),
        "mutual_information": whole,
        "entropy": entropy(joint.sum(axis=1)),
    }
    if hard is not None:
        numbers["hard"] = {"rate": hard.rates.tolist(), "relevance": hard.relevances.tolist()}
    learned = _learned(joint, curve, settings)
    if learned is not None:
        numbers["learned"] = learned.numbers()
        listener(f"trained {len(learned.points)} networks")
    return Outcome(
        _findings(source, curve, numbers) + ([] if learned is None else [learned.finding()]),
        [
            _curve(curve, hard, whole),
            *([] if learned is None else [learned.picture(curve)]),
            _bifurcations(joint, curve),
            _cardinality(curve),
            *_clusters(source, curve),
        ],
        _table(curve),
        numbers,
    )


def _source(settings: BottleneckSettings) -> _Source:
    if settings.matrix:
        joint = table("bottleneck", "matrix", written_matrix("matrix", settings.matrix))
        return _Source(joint, [str(k) for k in range(len(joint))], "The table")
    if settings.source == "flips":
        return _Source(binary_symmetric(settings.error) / 2, ["0", "1"], "A bit that flips")
    if settings.source == "text":
        given = symbols_of(settings.data, _READ)
        found = predictive_table(given.items, settings.window)
        names = [plain(given.between.join(map(str, one))).replace(" ", "␣") for one in found.windows]
        return _Source(found.joint, names, f"{given.name}: the next symbol after {settings.window}")
    channel = noisy_typewriter(settings.letters, settings.width, settings.include_self, settings.circle)
    names = [str(k) for k in range(settings.letters)]
    return _Source(channel / settings.letters, names, "The noisy typewriter")


def _spread(first: float, settings: BottleneckSettings) -> np.ndarray:
    """Values on both sides of where clusters become more, the closer to it the denser."""
    return first * (1 + np.concatenate([[-0.2], np.geomspace(0.02, settings.most - 1, settings.count - 1)]))


def _findings(source: _Source, curve: BottleneckCurve, numbers: dict[str, Any]) -> list[str]:
    last = curve.points[-1]
    spelled = ", ".join(f"{beta:.4g}" for beta in numbers["critical_betas"][:_MARKS])
    said = [
        f"{source.title}: x tells {numbers['mutual_information']:.6g} bits about y. One cluster is stable up to beta = "
        f"{numbers['first_transition']:.4f}"
        + (f"; clusters become more near beta = {spelled}." if spelled else "."),
        f"At beta = {last.beta:.4g}, {last.cardinality} clusters keep {last.relevance:.6g} of these bits in "
        f"{last.rate:.6g} of the {numbers['entropy']:.6g} bits of x.",
    ]
    slopes = _slopes(curve)
    if len(slopes):
        said.append(f"The slope of the curve is 1 / beta, on average within {100 * np.median(slopes):.2g} %.")
    if not all(point.converged for point in curve.points):
        said.append("Some points had not settled when steps ran out; they lie a little below the curve.")
    return said


def _slopes(curve: BottleneckCurve) -> np.ndarray:
    """Relative distance of finite differences from 1 / beta, where points differ."""
    rate, relevance = np.diff(curve.rates), np.diff(curve.relevances)
    moved = rate > 1e-4
    middle = np.sqrt(curve.betas[1:] * curve.betas[:-1])[moved]
    return np.asarray(np.abs(relevance[moved] / rate[moved] * middle - 1))


def _curve(curve: BottleneckCurve, hard: BottleneckCurve | None, whole: float) -> Lines:
    ends = np.array([0.0, max(float(curve.rates.max()), whole)])
    series: dict[str, tuple[np.ndarray, ...]] = {
        "bottleneck": (curve.rates, curve.relevances),
        "I(X; Y)": (ends, np.full(2, whole)),
        "I(Z; Y) = I(X; Z)": (np.array([0.0, whole]), np.array([0.0, whole])),
    }
    if hard is not None:
        order = np.argsort(hard.rates)
        series["hard clusters"] = (hard.rates[order], hard.relevances[order])
    return Lines(
        "bottleneck-curve",
        "What few bits about x keep of y",
        "I(X; Z) in bits",
        "I(Z; Y) in bits",
        series,
        dots=(curve.rates, curve.relevances),
        caption="No code of x lies above the curve. Its slope is 1 / beta.",
    )


def _bifurcations(joint: np.ndarray, curve: BottleneckCurve) -> Scatter:
    """Clusters by what most distinguishes them: the direction in which one cluster first becomes unstable."""
    mass_x, mass_y = joint.sum(axis=1), joint.sum(axis=0)
    likely = mass_y > 0
    scaled = joint[mass_x > 0][:, likely] / np.sqrt(np.outer(mass_x[mass_x > 0], mass_y[likely]))
    direction = np.linalg.svd(scaled)[2]
    telling = direction[min(1, len(direction) - 1)] / np.sqrt(mass_y[likely])
    dots = np.array(
        [
            (math.log2(point.beta), float(row[likely] @ telling))
            for point in curve.points
            for row in point.decoder
        ]
    )
    inputs = joint[mass_x > 0][:, likely] / mass_x[mass_x > 0][:, None] @ telling
    end = math.log2(curve.betas[-1]) + 0.3
    return Scatter(
        "bottleneck-bifurcations",
        "Clusters split as beta grows",
        "log2 of beta",
        "y as clusters expect it",
        {"clusters": dots, "x themselves": np.column_stack([np.full(len(inputs), end), inputs])},
        caption="Each dot is a cluster at one beta: p(y given z) along the direction in which clusters first split. On "
        "the right: every x as a cluster of its own.",
    )


def _cardinality(curve: BottleneckCurve) -> Lines:
    soft = np.array([point.effective_cardinality for point in curve.points])
    return Lines(
        "bottleneck-cardinality",
        "Numbers of clusters",
        "beta",
        "clusters",
        {"different clusters": (curve.betas, curve.cardinalities), "2^H(Z)": (curve.betas, soft)},
        log_x=True,
        marks=[(float(beta), f"{beta:.3g}") for beta in curve.critical_betas[:_MARKS]],
        caption="Marks: where clusters become more.",
    )


def _clusters(source: _Source, curve: BottleneckCurve) -> list[Picture]:
    """p(z given x) soon after the first split, halfway, and at the end."""
    several = [k for k, point in enumerate(curve.points) if point.cardinality > 1]
    if not several:
        return []
    chosen = sorted({several[0], several[len(several) // 2], several[-1]})
    return [_heat(source, curve.points[k], rank) for rank, k in enumerate(chosen, start=1)]


def _heat(source: _Source, point: Bottleneck, rank: int) -> Heatmap:
    # Clusters in the order of the x they hold, so that neighbours stand together.
    weights = point.encoder * source.joint.sum(axis=1)[:, None]
    order = np.argsort(weights.argmax(axis=0), kind="stable")
    return Heatmap(
        f"bottleneck-clusters-{rank}",
        f"Clusters at beta = {point.beta:.3g}",
        "x",
        "cluster",
        point.encoder[:, order].T,
        columns=source.names if len(source.names) <= _NAMED else (),
        caption=f"p(z given x): {point.cardinality} clusters, {point.rate:.4g} bits about x, {point.relevance:.4g} "
        "about y.",
    )


def _table(curve: BottleneckCurve) -> Table:
    rows: list[list[Any]] = [
        [float(f"{p.beta:.5g}"), round(p.rate, 6), round(p.relevance, 6), p.cardinality] for p in curve.points
    ]
    return Table(
        "bottleneck-points", "Points of the curve, in bits", ["beta", "I(X; Z)", "I(Z; Y)", "clusters"], rows
    )


experiment = Experiment(
    "The information bottleneck of a noisy typewriter, a text or a table of your own: curve, clusters, transitions.",
    BottleneckSettings,
    run,
    toy={"letters": 6, "width": 1, "count": 3, "restarts": 1, "learned": 2, "steps": 5},
    reference="Tishby, Pereira and Bialek, The information bottleneck method, 1999",
)

__all__ = ["BottleneckSettings", "experiment", "run"]
