"""Order, noise and structure: chains on the map of information rate and predictive information rate.

Clockwork is known beforehand, noise is never known; in between, each step is news that says what comes next. A sequence
of one's own, or a tune, gets its point on the map and a profile over time.
"""

from typing import Any, NamedTuple, final

import jax
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Passage, Picture, Scatter, Table
from chainrule.core.quoting import plain
from chainrule.explain.methods.symbol_sequences import Symbols, symbols_of
from chainrule.explain.methods.written_tables import written_matrix
from chainrule.explain.protocol import Experiment, Listener, NonNegative, Outcome, Settings
from chainrule.information.chain_rates import (
    ChainInformation,
    chain_information,
    chain_of,
    information_profile,
    noisy_cycle,
)
from chainrule.probability import markov

_READ = 100_000
"""Symbols of a file that are read."""


@final
class ChainInformationSettings(Settings):
    """The chain in question, and those it is compared with."""

    data: str = Field("tune", description="a text file, shakespeare, or tune: the chain that suits it best")
    transition: str = Field(
        "", description="rows of a chain of your own instead: entries with commas, rows with semicolons"
    )
    pseudo_count: NonNegative = Field(0.01, description="added to every move that is counted")
    states: int = Field(8, ge=2, le=64, description="states of the cycle and of random chains")
    chains: int = Field(600, ge=0, le=20_000, description="random chains on the map")
    points: int = Field(201, ge=5, le=5000, description="amounts of noise between cycle and noise")
    shown: int = Field(120, ge=2, le=2000, description="moments of the profile")
    seed: int = Field(0, ge=0, description="of random chains and paths")


class _Studied(NamedTuple):
    """The chain in question with a path of it."""

    found: ChainInformation
    path: np.ndarray
    names: list[str]
    title: str
    between: str


def run(settings: ChainInformationSettings, listener: Listener) -> Outcome:
    """Place chains on the map."""
    studied = _studied(settings)
    noise = np.linspace(0, 1, settings.points)
    cycle = [chain_information(noisy_cycle(settings.states, share)) for share in noise]
    peak = int(np.argmax([one.predictive_information_rate for one in cycle]))
    listener(f"largest predictive information rate at noise {noise[peak]:.3f}")
    chains = [chain_information(one) for one in _random_chains(settings)]
    own = studied.found
    return Outcome(
        [
            f"{studied.title}: {own}.",
            f"The noisy cycle of {settings.states} states has its largest predictive information rate, "
            f"{cycle[peak].predictive_information_rate:.4f} bits, at noise {noise[peak]:.3f}: between clockwork "
            f"(information rate {cycle[0].information_rate:.4g}, predictive 0) and noise (both 0).",
        ],
        [_map(studied, cycle, chains), _sweep(noise, cycle, peak), *_profile(studied, settings.shown)],
        _table(studied, cycle, peak, noise),
        {
            "own": _numbers(own),
            "peak": {"noise": float(noise[peak]), **_numbers(cycle[peak])},
            "states": studied.names,
        },
    )


def _studied(settings: ChainInformationSettings) -> _Studied:
    if settings.transition:
        found = chain_information(written_matrix("transition", settings.transition))
        key = jax.random.key(settings.seed)
        path = np.asarray(markov.sample(key, found.stationary, found.transition, settings.shown - 1))
        return _Studied(found, path, [str(k) for k in range(len(found.stationary))], "The chain", " ")
    given: Symbols = symbols_of(settings.data, _READ)
    chain, names = chain_of(given.items, settings.pseudo_count)
    numbers = {name: number for number, name in enumerate(names)}
    path = np.array([numbers[item] for item in given.items[: settings.shown]])
    found = chain_information(chain.transition)
    title = f"The chain of {len(given.items):,} symbols of {given.name}"
    return _Studied(found, path, names, title, given.between)


def _random_chains(settings: ChainInformationSettings) -> list[np.ndarray]:
    """Rows from Dirichlet distributions, some nearly certain and some nearly uniform."""
    draws = np.random.default_rng(settings.seed)
    spread = 10 ** draws.uniform(-1.8, 0.5, settings.chains)
    found = []
    for one in spread:
        rows = draws.gamma(np.full((settings.states, settings.states), one)) + 1e-12
        found.append(rows / rows.sum(axis=1, keepdims=True))
    return found


def _at(*chains: ChainInformation) -> np.ndarray:
    return np.array([(one.information_rate, one.predictive_information_rate) for one in chains])


def _map(studied: _Studied, cycle: list[ChainInformation], chains: list[ChainInformation]) -> Scatter:
    groups = {"random chains": _at(*chains)} if chains else {}
    groups |= {"cycle with noise": _at(*cycle), "this chain": _at(studied.found)}
    ends = {"order": _at(cycle[0]), "noise": _at(cycle[-1])}
    words: dict[str, list[str]] = {"order": ["order"], "noise": ["noise"], "this chain": ["◆"]}
    return Scatter(
        "chain-map",
        "Order, noise and structure",
        "information rate in bits: past and present",
        "predictive information rate in bits: present and future",
        groups | ends,
        words=words,
        caption="Noise is below on the left, clockwork below on the right; structure is what rises above both.",
    )


def _sweep(noise: np.ndarray, cycle: list[ChainInformation], peak: int) -> Lines:
    parts = {
        "entropy rate": [one.entropy_rate for one in cycle],
        "information rate": [one.information_rate for one in cycle],
        "predictive information rate": [one.predictive_information_rate for one in cycle],
        "erasure entropy": [one.erasure_entropy for one in cycle],
    }
    return Lines(
        "chain-noise",
        "From clockwork to noise",
        "noise",
        "bits per step",
        {name: (noise, np.array(values)) for name, values in parts.items()},
        marks=[(float(noise[peak]), "most predictive")],
        caption="A cycle that goes anywhere with the probability below. Information rate, predictive information rate "
        "and erasure entropy sum to the entropy of a state.",
    )


def _profile(studied: _Studied, shown: int) -> list[Picture]:
    """Surprisal and predictive information over time, and the sequence shaded by what was news of use."""
    profile = information_profile(studied.found.transition, studied.path[:shown])
    time = np.arange(len(profile.surprisal))
    pieces = [plain(studied.names[state]) + studied.between for state in studied.path[:shown]]
    return [
        Lines(
            "chain-profile",
            "Along the sequence",
            "step",
            "bits",
            {"surprisal": (time, profile.surprisal), "predictive information": (time, profile.predictive)},
            caption="Surprisal: how unexpected a symbol was. Predictive information: how it changed what to expect.",
        ),
        Passage(
            "chain-passage",
            "News that matters",
            pieces,
            profile.predictive,
            "bits of predictive information",
            caption="The darker, the more a symbol changed what to expect next.",
        ),
    ]


def _numbers(found: ChainInformation) -> dict[str, float]:
    return {
        "entropy": found.entropy,
        "entropy_rate": found.entropy_rate,
        "information_rate": found.information_rate,
        "predictive_information_rate": found.predictive_information_rate,
        "erasure_entropy": found.erasure_entropy,
    }


def _table(studied: _Studied, cycle: list[ChainInformation], peak: int, noise: np.ndarray) -> Table:
    shown = {
        "this chain": studied.found,
        "cycle": cycle[0],
        f"cycle, noise {noise[peak]:.3f}": cycle[peak],
        "noise": cycle[-1],
    }
    rows: list[list[Any]] = [
        [name, *(float(f"{value:.5g}") for value in _numbers(one).values())] for name, one in shown.items()
    ]
    columns = ["chain", "entropy", "entropy rate", "information rate", "predictive", "erasure"]
    return Table("chain-rates", "Bits per step", columns, rows)


experiment = Experiment(
    "Order, noise and structure of chains, tunes and texts: information rate against predictive information rate.",
    ChainInformationSettings,
    run,
    toy={"chains": 5, "points": 5, "states": 3, "shown": 10},
    reference="Abdallah and Plumbley, Information dynamics, Connection Science, 2009",
)

__all__ = ["ChainInformationSettings", "experiment", "run"]
