"""Around the bottleneck: the identity behind it, the past as x and the next symbol as y, a price for telling x badly.

References: Bialek, Nemenman and Tishby, Predictability, complexity and learning, Neural Computation, 2001; Tishby,
Pereira and Bialek, The information bottleneck method, 1999.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.information.bottleneck_steps import BottleneckProblem, identity, perturbed, random_starts
from chainrule.information.entropies import shared
from chainrule.information.samples import symbol_numbers
from chainrule.information.tables import rows, table
from chainrule.information.units import scale, takes_base

_MOST_WINDOWS = 4096


@final
@dataclass(frozen=True)
class BottleneckIdentity:
    """Three ways to say what of y is lost when z is kept instead of x; they are equal."""

    unit: str
    divergence: float
    """E KL(p(y given x), p(y given z)): how wrong predictions from z are."""
    conditional: float
    """I(X; Y given Z)."""
    lost: float
    """I(X; Y) - I(Z; Y)."""


@takes_base
def bottleneck_identity(joint: Any, encoder: Any, unit: str = "bits") -> BottleneckIdentity:
    """What predictions of y lose when p(z given x) takes the place of x; nothing is lost by z = x.

    >>> found = bottleneck_identity([[0.45, 0.05], [0.05, 0.45]], [[1.0], [1.0]])
    >>> round(found.divergence, 6), round(found.conditional, 6), round(found.lost, 6)
    (0.531004, 0.531004, 0.531004)
    """
    where = "bottleneck_identity"
    factor = scale(unit, where)
    values, codes = table(where, "joint", joint, 2), rows(where, "encoder", encoder)
    if len(codes) != len(values):
        raise ArgumentError(
            f"{where}(encoder): has {len(codes)} rows, the joint table {len(values)}: one for each x is needed"
        )
    # z is made from x alone, so that p(x, y, z) = p(x, y) p(z given x).
    triple = values[:, :, None] * codes[:, None, :]
    with_z = triple.sum(axis=0)
    of_x = values / np.maximum(values.sum(axis=1), 1e-300)[:, None]
    of_z = with_z / np.maximum(with_z.sum(axis=0), 1e-300)
    likely = triple > 0
    ratio = np.broadcast_to(of_x[:, :, None], triple.shape)[likely]
    ratio = ratio / np.broadcast_to(of_z[None], triple.shape)[likely]
    return BottleneckIdentity(
        unit,
        float((triple[likely] * np.log(ratio)).sum()) * factor,
        shared(triple, (0,), (1,), (2,)) * factor,
        (shared(values) - shared(with_z)) * factor,
    )


class PredictiveTable(NamedTuple):
    """How often each symbol follows each window of symbols, as a joint table for the bottleneck."""

    joint: np.ndarray
    """p(window, next symbol)."""
    windows: list[tuple[Any, ...]]
    symbols: list[Any]


def predictive_table(sequence: Any, window: int = 1) -> PredictiveTable:
    """The past `window` symbols as x and the next symbol as y, counted along a sequence: x of a predictive bottleneck.

    >>> found = predictive_table("abababac", 1)
    >>> found.windows, (found.joint * 7).round().tolist()
    ([('a',), ('b',)], [[0.0, 3.0, 1.0], [3.0, 0.0, 0.0]])
    """
    where = "predictive_table"
    numbers, symbols = symbol_numbers(where, sequence)
    window = whole(where, "window", window)
    if len(numbers) <= window:
        raise ArgumentError(
            f"{where}(window={window}): a sequence of {len(numbers)} has no window and a next symbol"
        )
    pasts = np.lib.stride_tricks.sliding_window_view(numbers, window)[:-1]
    distinct, rows_of = np.unique(pasts, axis=0, return_inverse=True)
    if len(distinct) > _MOST_WINDOWS:
        raise ArgumentError(
            f"{where}(window={window}): {len(distinct):,} different windows are more than {_MOST_WINDOWS:,}",
            remedy="use a shorter window, or fewer different symbols",
        )
    joint = np.zeros((len(distinct), len(symbols)))
    np.add.at(joint, (rows_of.reshape(-1), numbers[window:]), 1.0)
    named = [tuple(symbols[number] for number in row) for row in distinct.tolist()]
    return PredictiveTable(joint / joint.sum(), named, symbols)


@final
@dataclass(frozen=True, eq=False)
class ThreeTermBottleneck:
    """Clusters that weigh bits, relevance and distortion."""

    rate: float
    """I(X; Z)."""
    relevance: float
    """I(Z; Y)."""
    distortion: float
    """E d(X, xhat(Z)), where xhat(z) is the best single answer for the cluster."""
    objective: float
    """a I(X; Z) - b I(Z; Y) + c E d, the information in the unit."""
    unit: str
    encoder: np.ndarray
    """p(z given x)."""
    converged: bool


@takes_base
def three_term_bottleneck(
    joint: Any,
    d: Any,
    a: float = 1.0,
    b: float = 1.0,
    c: float = 1.0,
    *,
    clusters: int | None = None,
    restarts: int = 10,
    seed: int = 0,
    tol: float = 1e-11,
    most: int = 20_000,
    unit: str = "bits",
) -> ThreeTermBottleneck:
    """Minimise a I(X; Z) - b I(Z; Y) + c E d(X, xhat(Z)), the information in nats; `d[x, answer]` is a distortion.

    With c = 0 it is the bottleneck at beta = b / a, with b = 0 rate-distortion with slope c / a.

    >>> flips = [[0, 1], [1, 0]]
    >>> found = three_term_bottleneck([[0.45, 0.05], [0.05, 0.45]], flips, a=1, b=0, c=np.log(9))
    >>> round(found.rate, 6), round(found.distortion, 6)
    (0.531004, 0.1)
    """
    where = "three_term_bottleneck"
    factor = scale(unit, where)
    if not a > 0 or not b >= 0 or not c >= 0 or not np.isfinite([a, b, c]).all():
        raise ArgumentError(
            f"{where}(a={a}, b={b}, c={c}): weights are finite, a positive, b and c not negative"
        )
    values = table(where, "joint", joint, 2)
    cost = np.asarray(d, np.float64)
    if cost.ndim != 2 or len(cost) != len(values) or not cost.shape[1] or not np.isfinite(cost).all():
        raise ArgumentError(
            f"{where}(d): needs finite rows, one for each of the {len(values)} x; shape {cost.shape}"
        )
    if (cost < 0).any():
        raise ArgumentError(f"{where}(d): a distortion is never negative")
    mass = values.sum(axis=1)
    possible = mass > 0
    problem = BottleneckProblem(mass[possible], values[possible] / mass[possible][:, None], cost[possible])
    inputs = int(possible.sum())
    count = inputs if clusters is None else whole(where, "clusters", clusters)
    restarts, seed = whole(where, "restarts", restarts, least=0), whole(where, "seed", seed, least=0)
    draws = np.random.default_rng(seed)
    apart = identity(inputs, count)
    starts = [apart, perturbed(apart, draws), np.eye(count)[np.zeros(inputs, int)][None]]
    starts += [random_starts(restarts, inputs, count, draws)] if restarts else []
    state = problem.solve(np.concatenate(starts), b / a, c / a, tol=tol, most=most)
    best = int(np.argmin(problem.objective(state.encoder, b / a, c / a)))
    encoder = np.zeros((len(values), count))
    encoder[possible] = state.encoder[best]
    rate, relevance, distortion = (float(one[best]) for one in (state.rate, state.relevance, state.cost))
    return ThreeTermBottleneck(
        rate * factor,
        relevance * factor,
        distortion,
        a * rate * factor - b * relevance * factor + c * distortion,
        unit,
        encoder,
        bool(state.converged[best]),
    )


__all__ = [
    "BottleneckIdentity",
    "PredictiveTable",
    "ThreeTermBottleneck",
    "bottleneck_identity",
    "predictive_table",
    "three_term_bottleneck",
]
