"""The cost of attention over the length of a sequence: operations and seconds, softmax and linear attention.

Attention is timed as a training program runs it: again and again in memory that is already there. Memory that has to be
asked for comes page by page, and for long sequences takes longer than the arithmetic.
"""

import time
from collections.abc import Callable
from typing import Any, final

import jax
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Table
from chainrule.core.types import Array
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Settings
from chainrule.nn.attention import EluPlusOne, RandomFeatures, attend, linear_attention

_IN_A_ROW = 4


@final
class AttentionCostSettings(Settings):
    """The size of a head and the lengths tried."""

    size: int = Field(64, ge=1, le=1024, description="entries of a query, key and value")
    softmax: tuple[Count, ...] = Field(
        (1024, 2048, 4096, 8192), min_length=2, description="lengths for softmax attention"
    )
    linear: tuple[Count, ...] = Field(
        (16384, 32768, 65536, 131072, 262144), min_length=2, description="lengths for attention by features"
    )
    draws: int = Field(64, ge=1, description="random features: how many draws")
    repeats: int = Field(
        3, ge=1, description="times that each length is run four times in a row; the median counts"
    )


def run(settings: AttentionCostSettings, listener: Listener) -> Outcome:
    """Compile, count and time one head at each length, and fit a power of the length to both."""
    size, draws = settings.size, settings.draws
    kinds: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
        "softmax": (lambda q, k, v: attend(q, k, v, path="plain"), settings.softmax),
        "linear": (lambda q, k, v: linear_attention(q, k, v, features=EluPlusOne()), settings.linear),
        "random features": (
            lambda q, k, v: linear_attention(q, k, v, features=RandomFeatures(draws)),
            settings.linear,
        ),
    }
    flops: dict[str, tuple[np.ndarray, ...]] = {}
    seconds: dict[str, tuple[np.ndarray, ...]] = {}
    rows: list[list[Any]] = []
    numbers = {}
    for name, (function, lengths) in kinds.items():
        measured = [_measured(function, n, size, settings.repeats) for n in lengths]
        n = np.array(lengths, dtype=float)
        counted, took = (np.array([one[i] for one in measured]) for i in range(2))
        flops[name], seconds[name] = (n, counted), (n, took)
        slopes = [_slope(n, counted), _slope(n, took)]
        rows.append([name, int(n[0]), int(n[-1]), *(round(slope, 3) for slope in slopes)])
        numbers[name] = {
            "n": list(lengths),
            "flops": counted.tolist(),
            "seconds": took.tolist(),
            "slope_flops": slopes[0],
            "slope_seconds": slopes[1],
        }
        listener(f"{name}: operations grow as n^{slopes[0]:.2f}, seconds as n^{slopes[1]:.2f}")
    return Outcome(
        [
            "Operations grow with the length to the power "
            + ", ".join(f"{row[3]:.2f} ({row[0]})" for row in rows)
            + "; seconds on this machine to the power "
            + ", ".join(f"{row[4]:.2f}" for row in rows)
            + ".",
            f"A head of size {size} has as many multiply-adds in its scores as in sums over features at about "
            f"n = {EluPlusOne().count(size)} (linear) and {RandomFeatures(draws).count(size)} (random features).",
        ],
        [
            _picture("attention-flops", "Operations by length", "floating-point operations", flops),
            _picture("attention-seconds", "Seconds by length", "seconds, median", seconds),
        ],
        Table(
            "attention-cost-table",
            "Fitted powers",
            ["attention", "n from", "n to", "operations", "seconds"],
            rows,
        ),
        numbers,
    )


def _measured(function: Callable[..., Any], n: int, size: int, repeats: int) -> tuple[float, float]:
    """Operations as the compiler counts them, and the median time of one of several runs in a row."""
    q, k, v = (jax.random.normal(jax.random.key(i), (1, 1, n, size)) for i in range(3))
    counted: Any = jax.jit(function).lower(q, k, v).compile().cost_analysis()

    @jax.jit
    def in_a_row(q: Array, k: Array, v: Array) -> Array:
        out: Array = jax.lax.fori_loop(0, _IN_A_ROW, lambda _, v: function(q, k, v), v)
        return out

    jax.block_until_ready(in_a_row(q, k, v))
    took = []
    for _ in range(repeats):
        before = time.perf_counter()
        jax.block_until_ready(in_a_row(q, k, v))
        took.append((time.perf_counter() - before) / _IN_A_ROW)
    return float(counted["flops"]), float(np.median(took))


def _slope(n: np.ndarray, y: np.ndarray) -> float:
    return float(np.polyfit(np.log(n), np.log(y), 1)[0])


def _picture(name: str, title: str, label: str, series: dict[str, tuple[np.ndarray, ...]]) -> Lines:
    return Lines(name, title, "length of the sequence", label, series, log_x=True, log_y=True)


experiment = Experiment(
    "What attention costs as sequences grow: softmax, linear and random features.",
    AttentionCostSettings,
    run,
    toy={"size": 8, "softmax": [128, 256], "linear": [256, 512], "draws": 8, "repeats": 1},
    reference="Katharopoulos et al., Transformers are RNNs, 2020, arXiv:2006.16236; Choromanski et al., Rethinking "
    "attention with Performers, 2021, arXiv:2009.14794",
)

__all__ = ["AttentionCostSettings", "experiment", "run"]
