"""Do two variables depend on each other, in whatever way? HSIC among shuffled pairs, beside correlation.

On made-up pairs, or on a data set of yours: every column of its inputs against the target.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from pydantic import Field
from scipy import stats

from chainrule import data as sources
from chainrule.core import random
from chainrule.core.errors import DataError
from chainrule.core.pictures import Bars, Lines, Scatter, Table
from chainrule.data import kinds, targets
from chainrule.explain.protocol import Experiment, Listener, NonNegative, Outcome, Settings
from chainrule.kernels import Kernel, Linear
from chainrule.kernels.density import KernelDensity
from chainrule.kernels.hypothesis_tests import MOST, Tested, independence_test
from chainrule.kernels.independence import default_kernel, hsic

_LEVEL = 0.05
_DOTS = 2000
_RANKED = 30
"""Columns of a data set that are drawn."""
_PARTS = (8, 4, 2, 1)
"""Of all pairs, for the curve of power."""


@final
class IndependenceSettings(Settings):
    """The pairs and the test."""

    data: str | None = Field(
        None, description="name or path of data with a target: every column against it; none: made-up pairs"
    )
    load: dict[str, Any] = Field(
        default_factory=dict, description="options of the data, e.g. load.target=price"
    )
    relation: Literal["line", "parabola", "circle", "waves", "spread", "none"] = Field(
        "circle", description="made-up pairs: how y depends on x; spread: by its variance alone"
    )
    noise: NonNegative = Field(0.3, description="made-up pairs: standard deviation of what is added to y")
    n: int = Field(200, ge=48, le=1_000_000, description="pairs, at most")
    estimate: Literal["auto", "biased", "unbiased", "features"] = Field(
        "auto",
        description="of HSIC; features: by random features, for any number of pairs; auto: unbiased, and features for "
        f"more than {MOST:,} pairs",
    )
    permutations: int = Field(1000, ge=19, le=100_000, description="shuffles of the pairs")
    repeats: int = Field(
        40, ge=2, le=10_000, description="made-up pairs: sets for every point of the power curve"
    )
    seed: int = Field(0, ge=0, description="pairs and shuffles")


def run(settings: IndependenceSettings, listener: Listener) -> Outcome:
    """Test one relation in several ways, or all columns of a data set in one."""
    return _of_data(settings, listener) if settings.data else _of_relation(settings, listener)


def _estimate(settings: IndependenceSettings, n: int) -> str:
    if settings.estimate != "auto":
        return settings.estimate
    return "unbiased" if n <= MOST else "features"


# ---------------------------------------------------------------------- made-up pairs

Pair = Float[np.ndarray, " n"]
_RELATIONS: Mapping[str, Callable[[Pair, Pair], tuple[Pair, Pair]]] = {
    "line": lambda t, z: (t, t),
    "parabola": lambda t, z: (t, 2 * t**2 - 1),
    "circle": lambda t, z: (np.cos(np.pi * t), np.sin(np.pi * t)),
    "waves": lambda t, z: (t, np.sin(3 * np.pi * t)),
    "spread": lambda t, z: (t, np.abs(t) * z),
    "none": lambda t, z: (t, z),
}
"""From numbers that are even on [-1, 1] and normal ones to x and y without noise."""


def pairs(relation: str, n: int, noise: float, random_: np.random.Generator) -> tuple[Pair, Pair]:
    """So many pairs of a relation.

    >>> x, y = pairs("parabola", 5, 0.0, np.random.default_rng(0))
    >>> bool(np.allclose(y, 2 * x**2 - 1))
    True
    """
    x, y = _RELATIONS[relation](random_.uniform(-1, 1, n), random_.normal(size=n))
    return x, y + noise * random_.normal(size=n)


def _of_relation(settings: IndependenceSettings, listener: Listener) -> Outcome:
    x, y = pairs(settings.relation, settings.n, settings.noise, np.random.default_rng(settings.seed))
    main = _estimate(settings, len(x))
    tests: dict[str, tuple[float, float]] = {}
    found = _tested(settings, x, y, main, 0)
    ways = [main] if len(x) > MOST else ["unbiased", "biased", "features"]
    for number, way in enumerate(ways):
        one = found if way == main else _tested(settings, x, y, way, 1 + number)
        tests[f"HSIC, {way}"] = one.statistic, one.p_value
        listener(f"HSIC, {way}: p = {one.p_value:.3g}")
    if len(x) <= MOST:
        near = independence_test(x, y, method="gamma")
        tests["HSIC, gamma approximation"] = near.statistic, near.p_value
    pearson = stats.pearsonr(x, y)
    tests["correlation"] = float(pearson.statistic), float(pearson.pvalue)
    sizes, powers = _power(
        settings, default_kernel(jnp.asarray(x)[:, None]), default_kernel(jnp.asarray(y)[:, None])
    )
    verdict = "depend on each other" if found.p_value <= _LEVEL else "cannot be told from independent ones"
    seen = "sees it, too" if pearson.pvalue <= _LEVEL else "does not see it"
    said = f"correlation {pearson.statistic:.2f}, p = {pearson.pvalue:.3g}"
    return Outcome(
        [
            f"{len(x):,} pairs ({settings.relation}, noise {settings.noise:g}): HSIC {found.statistic:.3g}, p = "
            f"{found.p_value:.3g}; at the level {_LEVEL:g} x and y {verdict}."
            + (f" Correlation {seen}: {said}." if found.p_value <= _LEVEL else f" As for {said}."),
            f"Of {settings.repeats} sets of {sizes[-1]:,} pairs HSIC finds {powers['HSIC'][-1]:.0%} dependent, "
            f"correlation {powers['correlation'][-1]:.0%}; of shuffled pairs HSIC {powers['HSIC, shuffled'][-1]:.0%}, "
            f"where the test promises {_LEVEL:.0%}.",
        ],
        [_scatter(x, y, settings), _null(found, main), _curve(sizes, powers, settings)],
        Table(
            "independence-table",
            "The same pairs by every test",
            ["test", "statistic", "p"],
            [[name, float(f"{value:.4g}"), float(f"{p:.4g}")] for name, (value, p) in tests.items()],
        ),
        {
            "tests": {name: {"statistic": value, "p": p} for name, (value, p) in tests.items()},
            "power": {"pairs": sizes, **{name: list(share) for name, share in powers.items()}},
        },
    )


def _tested(
    settings: IndependenceSettings, x: Any, y: Any, estimate: str, number: int, **options: Any
) -> Tested:
    key = jax.random.fold_in(random.key(settings.seed, "shuffles"), number)
    return independence_test(
        x, y, estimate=estimate, **{"permutations": settings.permutations, "key": key, **options}
    )


def _power(
    settings: IndependenceSettings, kernel_x: Kernel, kernel_y: Kernel
) -> tuple[list[int], dict[str, list[float]]]:
    """The share of sets that are found dependent, by how many pairs there are, and of shuffled ones."""
    few = {"permutations": 99, "kernel_x": kernel_x, "kernel_y": kernel_y}
    sizes = [min(settings.n, 1000) // part for part in _PARTS]
    shares: dict[str, list[float]] = {"HSIC": [], "correlation": [], "HSIC, shuffled": []}
    for size in sizes:
        hits = np.zeros((settings.repeats, 3), bool)
        for number in range(settings.repeats):
            drawn = np.random.default_rng([settings.seed, number, size])
            x, y = pairs(settings.relation, size, settings.noise, drawn)
            apart = drawn.permutation(y)
            hits[number] = (
                _tested(settings, x, y, "unbiased", number, **few).p_value <= _LEVEL,
                stats.pearsonr(x, y).pvalue <= _LEVEL,
                _tested(settings, x, apart, "unbiased", number, **few).p_value <= _LEVEL,
            )
        for name, share in zip(shares, hits.mean(axis=0), strict=True):
            shares[name].append(float(share))
    return sizes, shares


def _scatter(x: Pair, y: Pair, settings: IndependenceSettings) -> Scatter:
    shown = np.stack([x, y], axis=1)[:_DOTS]
    return Scatter("independence-pairs", f"Pairs: {settings.relation}", "x", "y", {"pairs": shown})


def _null(found: Tested, estimate: str) -> Lines:
    low, high = min(found.null.min(), found.statistic), max(found.null.max(), found.statistic)
    grid = np.linspace(low - 0.1 * (high - low), high + 0.1 * (high - low), 200)
    density = np.exp(KernelDensity("silverman").fit(found.null).log_prob(grid))
    return Lines(
        "independence-null",
        "The statistic among those of shuffled pairs",
        f"HSIC, {estimate}",
        "density",
        {f"{len(found.null)} shuffles": (grid, density)},
        marks=[(found.statistic, "the data")],
        caption="The p-value is the share of shuffles right of the mark, the data counted among them.",
    )


def _curve(sizes: list[int], powers: dict[str, list[float]], settings: IndependenceSettings) -> Lines:
    at = np.array(sizes, float)
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for name, values in powers.items():
        share = np.array(values)
        error = np.sqrt(share * (1 - share) / settings.repeats)
        series[name] = (at, share, share - error, share + error)
    return Lines(
        "independence-power",
        "How often dependence is found",
        "pairs",
        f"share of tests with p <= {_LEVEL:g}",
        {**series, "promised without dependence": (at, np.full(len(at), _LEVEL))},
        log_x=True,
        caption=f"{settings.repeats} sets for every number of pairs; bands are standard errors.",
    )


# ---------------------------------------------------------------------- data of one's own


def _of_data(settings: IndependenceSettings, listener: Listener) -> Outcome:
    assert settings.data is not None, "asked before"
    found = sources.load(settings.data, **settings.load)
    listener(f"{found.name}: {found.describe()}")
    target = targets.of(found.schema)
    if not kinds.of(found.schema).comparable or not (target.has_values or target.one_class):
        raise DataError(
            f"{found.name}: inputs of numbers and a target of values or classes are needed",
            remedy="give a table with load.target=COLUMN, or images with classes",
        )
    columns, x, y, kernel = _variables(found, settings)
    estimate = _estimate(settings, len(x))
    rows = _ranked(settings, columns, x, y, kernel, estimate)
    # Of so many tests some are below the level by chance: the least p-values are compared with it by their number.
    sure = _after_all(np.array([float(row[2]) for row in rows]))
    together = _tested(settings, x, y, estimate, x.shape[1], kernel_y=kernel)
    names = [str(row[0]) for row, kept in zip(rows, sure, strict=True) if kept]
    hidden = [str(row[0]) for row, kept in zip(rows, sure, strict=True) if kept and float(row[3]) > _LEVEL]
    return Outcome(
        [
            f"All {x.shape[1]} inputs together and the target of {found.name}, {len(x):,} examples: HSIC "
            f"{together.statistic:.3g}, p = {together.p_value:.3g}.",
            f"{len(names)} of {x.shape[1]} inputs depend on the target by themselves at the level {_LEVEL:g} for all "
            f"tests together (Holm)" + (f", first {', '.join(names[:5])}." if names else "."),
            (
                f"Of these, correlation does not see {', '.join(hidden[:5])}."
                if hidden
                else "Correlation sees all of these."
            )
            if names
            else f"A p-value is at least 1/{settings.permutations + 1}: more permutations can tell more.",
        ],
        [_bars(rows)],
        Table(
            "independence-inputs",
            "Inputs by how sure it is that the target depends on them",
            ["input", "alignment", "p", "p of correlation"],
            [[row[0], *(float(f"{value:.4g}") for value in row[1:])] for row in rows[:_RANKED]],
            caption="Alignment is HSIC over the root of that of each with itself, from 0 to 1.",
        ),
        {
            "together": {"statistic": together.statistic, "p": together.p_value},
            "inputs": {
                str(row[0]): dict(zip(("alignment", "p", "correlation_p"), row[1:], strict=True))
                for row in rows
            },
            "dependent": names,
        },
    )


def _variables(
    found: sources.Data, settings: IndependenceSettings
) -> tuple[Sequence[str], np.ndarray, np.ndarray, Kernel | None]:
    """Names of the inputs, inputs and targets as rows, and the kernel of targets where it is not the usual one."""
    chosen = np.random.default_rng(settings.seed).permutation(len(found.train))[: settings.n]
    batch, schema = found.train.batch(chosen), found.schema
    x = np.asarray(batch.x, np.float64).reshape(len(chosen), -1)
    named = len(schema.columns) == x.shape[1]
    columns = schema.columns if named else tuple(f"input {i}" for i in range(x.shape[1]))
    if targets.of(schema).one_class:
        # Whether two classes are the same is the inner product of their ones and zeros.
        return columns, x, np.eye(len(schema.classes))[np.asarray(batch.y)], Linear()
    return columns, x, np.asarray(batch.y, np.float64).reshape(len(x), -1), None


def _ranked(
    settings: IndependenceSettings,
    columns: Sequence[str],
    x: np.ndarray,
    y: np.ndarray,
    kernel: Kernel | None,
    estimate: str,
) -> list[list[str | float | int]]:
    """Every input by itself, the one that it is surest of first: name, alignment, p-value, that of correlation."""
    rows: list[list[str | float | int]] = []
    for column, name in enumerate(columns):
        values = x[:, column]
        test = _tested(settings, values, y, estimate, column, kernel_y=kernel)
        rows.append([name, _alignment(values, y, kernel, estimate), test.p_value, _correlation(values, y)])
    return sorted(rows, key=lambda row: (float(row[2]), -float(row[1])))


def _alignment(x: Any, y: Any, kernel: Kernel | None, estimate: str) -> float:
    """HSIC over the root of that of each variable with itself."""
    way = "features" if estimate == "features" else "biased"
    both = float(hsic(x, y, None, kernel, way))
    own = float(hsic(x, x, None, None, way)) * float(hsic(y, y, kernel, kernel, way))
    return both / own**0.5 if own > 0 else 0.0


def _correlation(x: Any, y: np.ndarray) -> float:
    """The p-value of the largest correlation with a column of the target, for all of them together (Bonferroni)."""
    known = [column for column in y.T if np.ptp(column) > 0] if np.ptp(x) > 0 else []
    return min([1.0, *(len(known) * float(stats.pearsonr(x, column).pvalue) for column in known)])


def _after_all(p: Float[np.ndarray, " tests"]) -> np.ndarray:
    """Which of rising p-values are small beside all others: Holm's steps, up to the first that fails.

    >>> _after_all(np.array([0.01, 0.02, 0.04, 0.5])).tolist()
    [True, False, False, False]
    """
    kept: np.ndarray = np.cumprod(p <= _LEVEL / np.arange(len(p), 0, -1)).astype(bool)
    return kept


def _bars(rows: list[list[str | float | int]]) -> Bars:
    best = rows[:_RANKED]
    return Bars(
        "independence-columns",
        "How strongly the target depends on each input",
        "input",
        "alignment of the kernels",
        [str(row[0]) for row in best],
        {"alignment": np.array([float(row[1]) for row in best])},
        caption="Those that it is surest of first.",
    )


experiment = Experiment(
    "Independence test by HSIC: any dependence of two variables among shuffled pairs, beside correlation.",
    IndependenceSettings,
    run,
    toy={"n": 48, "permutations": 19, "repeats": 2},
    reference="Gretton et al., A kernel statistical test of independence, NeurIPS 2008; Holm, A simple sequentially "
    "rejective multiple test procedure, 1979",
)

__all__ = ["IndependenceSettings", "experiment", "pairs", "run"]
