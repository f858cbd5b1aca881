"""A Markov chain: its graph, its distribution over time, how fast it forgets, what is seen of it through classes."""

from typing import final

import jax
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Heatmap, Lines, Picture, Scatter, Table
from chainrule.explain.methods.written_tables import written_matrix
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability import markov

EXAMPLE = "0,0,1/2,0,1/2; 1,0,0,0,0; 0,1,0,0,0; 1/5,1/5,1/5,1/5,1/5; 0,0,0,1,0"
"""Five states whose classes {0, 1, 2} and {3, 4} remember more than the last one seen."""


@final
class MarkovChainSettings(Settings):
    """The chain, and what is done with it."""

    transition: str = Field(
        EXAMPLE,
        description="rows of transition probabilities: entries with commas, rows with semicolons, 1/3 is a number",
    )
    classes: str = Field(
        "",
        description="a label for each state, with commas, to see only that: a,a,b; default: 0,0,0,1,1 of the example",
    )
    start: int = Field(0, ge=0, description="state at time 0")
    steps: int = Field(30, ge=1, le=10_000, description="steps in time")
    paths: int = Field(12, ge=1, le=200, description="paths that are drawn")
    seed: int = Field(0, ge=0, description="of the paths")


def run(settings: MarkovChainSettings, listener: Listener) -> Outcome:
    """Solve the chain and draw it."""
    del listener
    chain = markov.transition_matrix("markov-chain", written_matrix("transition", settings.transition))
    found = markov.classes(chain)
    basis = markov.stationary_basis(chain)
    over_time = np.asarray(markov.distributions(settings.start, chain, settings.steps))
    paths = markov.sample(
        jax.random.key(settings.seed), settings.start, chain, settings.steps, (settings.paths,)
    )
    names = [str(state) for state in range(len(chain))]
    pictures: list[Picture] = [
        _graph(chain),
        Heatmap(
            "chain-matrix",
            "Transition probabilities",
            "to",
            "from",
            chain,
            rows=names,
            columns=names,
            numbers=len(chain) <= 12,
        ),
        _ribbon(over_time),
        Heatmap(
            "chain-paths",
            "Paths",
            "step",
            "path",
            np.asarray(paths, float),
            caption="The shade is the number of the state.",
        ),
    ]
    spelled = "; ".join(
        f"{{{', '.join(map(str, one.states))}}} {'closed' if one.is_closed else 'transient'}, period {one.period}"
        for one in found
    )
    findings = [f"Communicating classes: {spelled}."]
    numbers: dict[str, object] = {
        "stationary": basis.tolist(),
        "classes": [list(one.states) for one in found],
    }
    if len(basis) == 1:
        curve = markov.mixing(settings.start, chain, settings.steps)
        numbers["distance_at_the_end"] = float(curve[-1])
        findings.append(
            f"Stationary distribution: {', '.join(f'{p:.4g}' for p in basis[0])}; after {settings.steps} steps from "
            f"state {settings.start} the distance from it is {curve[-1]:.3g}."
        )
        findings.append(_reversible(chain))
        pictures.append(_mixing(curve))
    else:
        findings.append(
            f"{len(basis)} closed classes: as many stationary distributions, and all their mixtures."
        )
    table, lumped, said = _seen(settings, chain)
    return Outcome([*findings, *said], [*pictures, *lumped], table, numbers)


def _seen(settings: MarkovChainSettings, chain: np.ndarray) -> tuple[Table | None, list[Picture], list[str]]:
    """What is seen where only a label of each state is: a chain, or histories that prove it is none."""
    text = settings.classes or ("0,0,0,1,1" if settings.transition == EXAMPLE else "")
    if not text:
        return None, [], []
    labels = [label.strip() for label in text.split(",")]
    found = markov.is_lumpable(chain, labels)
    if found.witness is None:
        picture = Heatmap(
            "chain-lumped",
            "The chain of classes",
            "to",
            "from",
            np.asarray(found.transition),
            rows=list(found.symbols),
            columns=list(found.symbols),
            numbers=True,
        )
        return None, [picture], ["The classes are a Markov chain, whatever the start."]
    witness = found.witness
    assert witness is not None  # is_lumpable gives one with every refusal
    rows = [
        [" ".join(map(str, history)), witness.next, p]
        for history, p in zip(witness.histories, witness.probabilities, strict=True)
    ]
    table = Table(
        "chain-witness", "Same last symbol, different future", ["history", "next", "probability"], rows
    )
    return table, [], [f"The classes are no Markov chain: {witness}."]


def _reversible(chain: np.ndarray) -> str:
    found = markov.is_reversible(chain)
    if found.witness is None or found.flows is None:
        return "In equilibrium it looks the same in both directions of time."
    (i, j), (there, back) = found.witness, found.flows
    return (
        f"It is not reversible: in equilibrium it goes from {i} to {j} with probability {there:.4g}, back with "
        f"{back:.4g}."
    )


def _graph(chain: np.ndarray) -> Scatter:
    """States on a circle; arrows between two states run side by side."""
    angle = np.pi / 2 - 2 * np.pi * np.arange(len(chain)) / len(chain)
    at = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    i, j = np.nonzero((chain > 0) & ~np.eye(len(chain), dtype=bool))
    step = at[j] - at[i]
    aside = 0.03 * np.stack([step[:, 1], -step[:, 0]], axis=1)
    words = [
        f"{state} ({chain[state, state]:.2g})" if chain[state, state] > 0 else str(state)
        for state in range(len(chain))
    ]
    return Scatter(
        "chain-graph",
        "Transition graph",
        "",
        "",
        {"state": at},
        arrows=(at[i] + 0.15 * step + aside, 0.7 * step) if len(i) else None,
        words={"state": words},
        caption="Arrows: moves that are possible. In brackets: the probability of staying.",
    )


def _ribbon(over_time: np.ndarray) -> Lines:
    """The distribution over time, the states stacked from 0 to 1."""
    time = np.arange(len(over_time))
    top = np.cumsum(over_time, axis=1)
    low = top - over_time
    series = {
        f"state {k}": (time, (low[:, k] + top[:, k]) / 2, low[:, k], top[:, k])
        for k in range(over_time.shape[1])
    }
    return Lines(
        "chain-distribution",
        "Distribution over time",
        "step",
        "probability, stacked",
        series,
        caption="The width of a ribbon is the probability of its state.",
    )


def _mixing(curve: np.ndarray) -> Lines:
    shown = np.where(curve > 1e-16, curve, np.nan)
    return Lines(
        "chain-mixing",
        "Distance from the stationary distribution",
        "step",
        "total variation",
        {"from the start": (np.arange(len(curve)), shown)},
        log_y=True,
    )


experiment = Experiment(
    "A Markov chain of your own: graph, distribution over time, mixing, paths, and what classes of states remember.",
    MarkovChainSettings,
    run,
    toy={"steps": 5, "paths": 2},
    reference="Norris, Markov Chains, 1997; Kemeny and Snell, Finite Markov Chains, 1960",
)

__all__ = ["EXAMPLE", "MarkovChainSettings", "experiment", "run"]
