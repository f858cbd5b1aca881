"""Cat world: a day in the life of a cat, small enough to solve by hand.

A hunting cat misses its meal, a hungry one hunts or asks for it, an affectionate one is stroked, and all of them end up
asleep. As a reward process the cat lives by itself; as a decision process somebody sits beside it, and whenever it is
relaxed talks to it (which confuses it) or strokes it (and it falls asleep). Which of the two is better depends on how
far ahead one looks: talking pays while gamma is below 0.938326.
"""

import numpy as np
from jaxtyping import Float

STATES = ("hunting", "hungry", "affectionate", "relaxed", "confused", "sleeping")
ACTIONS = ("talk", "stroke")
REWARDS = (-5.0, -2.0, 5.0, 2.0, 1.0, 0.0)
"""Of being in each state."""
FLIP = 0.938326
"""The discount above which stroking is the better thing to do."""
_MOVES = {
    "hunting": {"hunting": 0.8, "hungry": 0.2},
    "hungry": {"hunting": 0.5, "affectionate": 0.5},
    "affectionate": {"confused": 0.3, "relaxed": 0.5, "sleeping": 0.2},
    "relaxed": {"confused": 0.2, "sleeping": 0.8},
    "confused": {"hungry": 0.2, "relaxed": 0.8},
    "sleeping": {},
}


def rewards() -> Float[np.ndarray, "states"]:
    """The reward of each state."""
    return np.array(REWARDS)


def chain() -> Float[np.ndarray, "states states"]:
    """The cat by itself: probabilities of going from each state to each; sleeping, the end, leads nowhere.

    >>> chain()[STATES.index("hungry")].tolist()
    [0.5, 0.0, 0.5, 0.0, 0.0, 0.0]
    """
    return np.array([[_MOVES[here].get(there, 0.0) for there in STATES] for here in STATES])


def decisions() -> Float[np.ndarray, "states actions states"]:
    """The cat with company: in all states but one, both actions leave it to itself.

    >>> relaxed = decisions()[STATES.index("relaxed")]
    >>> [STATES[row.argmax()] for row in relaxed]
    ['confused', 'sleeping']
    """
    both = np.repeat(chain()[:, None], len(ACTIONS), axis=1)
    both[STATES.index("relaxed")] = [
        [float(there == after) for there in STATES] for after in ("confused", "sleeping")
    ]
    return both


__all__ = ["ACTIONS", "FLIP", "REWARDS", "STATES", "chain", "decisions", "rewards"]
