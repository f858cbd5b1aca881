"""Small chains with known answers."""

import numpy as np

HIDDEN = np.array(
    [
        [0, 0, 1 / 2, 0, 1 / 2],
        [1, 0, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [1 / 5] * 5,
        [0, 0, 0, 1, 0],
    ]
)
"""Five states of which only the class is seen: {0, 1, 2} or {3, 4}."""

TWO_ENDS = np.array(
    [
        [0.5, 0.5, 0, 0, 0],
        [0.25, 0.75, 0, 0, 0],
        [0, 0.3, 0.2, 0.5, 0],
        [0, 0, 0, 0, 1],
        [0, 0, 0, 1, 0],
    ]
)
"""A transient state between a class that mixes and one of period two."""


def random_chain(seed: int, states: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(states), size=states)
