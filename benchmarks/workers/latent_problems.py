"""Data of the `latent` benchmark, the same for everybody: NumPy only."""

import numpy as np

ROWS, FEATURES = 100_000, 50
KEPT = 10
COMPONENTS = 10
ITERATIONS = 5
TIME, STATES = 100_000, 8


def rows(count: int = ROWS, features: int = FEATURES) -> np.ndarray:
    """Ten overlapping clouds with covariances of their own."""
    random = np.random.default_rng(0)
    centres = 2 * random.normal(size=(COMPONENTS, features))
    shapes = (
        np.eye(features)[None] + 0.3 * random.normal(size=(COMPONENTS, features, features)) / features**0.5
    )
    which = random.integers(COMPONENTS, size=count)
    noise = random.normal(size=(count, features))
    return np.einsum("nd,nde->ne", noise, shapes[which]) + centres[which]


def start(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and covariances to begin with."""
    random = np.random.default_rng(1)
    means = x[random.choice(len(x), COMPONENTS, replace=False)]
    whole = np.cov(x.T, bias=True)
    return np.full(COMPONENTS, 1 / COMPONENTS), means, np.stack([whole] * COMPONENTS)


def chain() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """First probabilities, transitions and means of a hidden chain with unit variances."""
    random = np.random.default_rng(2)
    transition = random.dirichlet(np.ones(STATES), size=STATES) * 0.2 + 0.8 * np.eye(STATES)
    first = np.full(STATES, 1 / STATES)
    return first, transition / transition.sum(axis=1, keepdims=True), 1.5 * np.arange(STATES), np.ones(STATES)


def observations(time: int = TIME) -> np.ndarray:
    """What such a chain emits."""
    random = np.random.default_rng(3)
    first, transition, means, _ = chain()
    uniform, noise = random.random(time), random.normal(size=time)
    state, states = int(random.choice(STATES, p=first)), np.empty(time, int)
    steps = transition.cumsum(axis=1)
    for t in range(time):
        states[t] = state
        state = min(int(np.searchsorted(steps[state], uniform[t])), STATES - 1)
    return means[states] + noise
