"""Pictures of a hidden Markov model: states over a series, what each emits, how they follow each other."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from chainrule.core.pictures import Heatmap, Lines, Picture
from chainrule.models.text.hmm.emission import StateEmission
from chainrule.probability import HiddenMarkov, markov

_STEPS = 400


def all_of(
    hidden: HiddenMarkov, emission: StateEmission, x: Float[np.ndarray, "one time features"]
) -> Sequence[Picture]:
    """Every picture; `x` is one held-out series, of which the first steps are shown."""
    series = x[0, :_STEPS]
    y = np.asarray(emission.read(series[None]))[0]
    return [
        path(hidden, emission, series, y),
        posterior(hidden, y),
        emissions(emission),
        transitions(hidden),
        lengths_of_stay(hidden),
    ]


def path(hidden: HiddenMarkov, emission: StateEmission, series: np.ndarray, y: np.ndarray) -> Picture:
    """A series and the middle of what its most likely states emit."""
    states = np.asarray(hidden.viterbi(y))
    middle = emission.quantiles(np.eye(hidden.states)[states][None], (0.05, 0.5, 0.95))[:, 0, :, 0]
    time = np.arange(len(states))
    return Lines(
        "states",
        "A held-out series and its most likely states",
        "step",
        "first number of the series, model units",
        {
            "series": (time, series[:, 0]),
            "most likely state, 90 % of what it emits": (time, middle[1], middle[0], middle[2]),
        },
        caption=f"Most likely path of states: {len(np.unique(states))} of {hidden.states} states, "
        f"{int((np.diff(states) != 0).sum())} changes.",
    )


def posterior(hidden: HiddenMarkov, y: np.ndarray) -> Picture:
    """The probability of each state at each step."""
    return Heatmap(
        "posterior",
        "Probability of each state",
        "step",
        "state",
        np.asarray(hidden.posterior(y)).T,
        rows=[str(k) for k in range(hidden.states)],
        caption="Of the same series, given all of it.",
    )


def emissions(emission: StateEmission) -> Picture:
    """What each state emits."""
    at, values = emission.curves()
    series = {f"state {k}": (at, row) for k, row in enumerate(values)}
    return Lines(
        "emissions", "What each state emits", "first number of a step", "probability or density", series
    )


def transitions(hidden: HiddenMarkov) -> Picture:
    """The matrix of transition probabilities."""
    names = [str(k) for k in range(hidden.states)]
    return Heatmap(
        "transitions",
        "Probability of going from state to state",
        "to",
        "from",
        np.asarray(hidden.transition, np.float64),
        rows=names,
        columns=names,
        numbers=hidden.states <= 12,
    )


def lengths_of_stay(hidden: HiddenMarkov) -> Picture:
    """How long each state lasts, and how much of the time the chain is in it."""
    stay = np.diagonal(np.asarray(hidden.transition, np.float64))
    time = np.arange(1, 41)
    basis = markov.stationary_basis(hidden.transition)
    shares = (
        f"Share of the time in the long run: {', '.join(f'{p:.2g}' for p in basis[0])}."
        if len(basis) == 1
        else f"The states fall into {len(basis)} closed classes."
    )
    return Lines(
        "stays",
        "How long a state lasts",
        "steps",
        "probability of lasting longer",
        {f"state {k}": (time, p**time) for k, p in enumerate(stay)},
        caption=shares,
    )


__all__ = ["all_of", "emissions", "lengths_of_stay", "path", "posterior", "transitions"]
