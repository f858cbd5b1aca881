"""The classifier that judges samples: dense for rows and grey images, convolutions for colour ones."""

import jax
import numpy as np
import pytest

from chainrule.nn import Conv
from chainrule.train.generation.reference_classifier import ReferenceClassifier, trained

SIDE = 12


def bars(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bars that lie or stand, anywhere, in any two colours: no pixel by itself tells the class."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, 2, n)
    at, back, front = draw.integers(2, SIDE - 2, n), draw.random((n, 3)), draw.random((n, 3))
    x = np.repeat(np.repeat(back[:, None, None], SIDE, axis=1), SIDE, axis=2)
    for i in range(n):
        where = (slice(at[i], at[i] + 1), slice(None)) if y[i] else (slice(None), slice(at[i], at[i] + 1))
        x[i][where] = front[i]
    return x.reshape(n, -1), y


@pytest.fixture(scope="module")
def judge() -> ReferenceClassifier:
    return trained(*bars(1000, 0), 2, shape=(SIDE, SIDE, 3), steps=250)


def test_colour_images_are_read_by_convolutions_which_see_shapes_in_any_colour(
    judge: ReferenceClassifier,
) -> None:
    assert all(isinstance(layer, Conv) for layer in judge.network.convolutions)
    x, y = bars(300, 1)
    assert judge.accuracy(x, y) > 0.9
    grey = ReferenceClassifier(x[:, ::3], 2, 8, jax.random.key(0), (SIDE, SIDE, 1))
    assert not grey.network.convolutions


def test_what_is_seen_has_unit_variance_and_does_not_depend_on_how_many_are_asked_about(
    judge: ReferenceClassifier,
) -> None:
    x = bars(1000, 0)[0]
    seen = judge.features(x)
    moving = seen.std(axis=0) > 1e-3  # units that never fire stay at zero
    np.testing.assert_allclose(seen[:, moving].std(axis=0), np.ones(moving.sum()), rtol=1e-3)
    np.testing.assert_allclose(judge.features(x[:3]), seen[:3], atol=1e-4)
    np.testing.assert_allclose(judge.probabilities(x).sum(axis=1), np.ones(len(x)), rtol=1e-5)
