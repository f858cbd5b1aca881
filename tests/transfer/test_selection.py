"""Selection of source rows and mixtures of sources: the right rows, with reasons, usable as data."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.data import from_arrays
from chainrule.kernels import median_kernel, mmd
from chainrule.transfer import GroupRobustLoss, label_shift, mix_sources, select
from chainrule.transfer.selection import METHODS

RNG = np.random.default_rng(0)
# Half of the source looks like the target, half does not.
SOURCE = np.concatenate([RNG.normal(0, 1, (60, 2)), RNG.normal(5, 1, (60, 2))])
TARGET = RNG.normal(5, 1, (50, 2))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_rows_like_the_target_are_chosen_with_a_reason_each(method: str) -> None:
    found = select(SOURCE, TARGET, 0.3, method)
    assert len(found.rows) == len(set(found.rows.tolist())) == len(found.reasons) == 36
    assert (found.rows >= 60).mean() > 0.95
    assert float(mmd(SOURCE[found.rows], TARGET)) < 0.5 * float(mmd(SOURCE, TARGET))


def test_herding_brings_the_mean_feature_closer_than_any_random_choice() -> None:
    found = select(SOURCE, TARGET, 0.1, "herding")
    chosen = float(mmd(SOURCE[found.rows], TARGET))
    random = [float(mmd(SOURCE[60 + RNG.permutation(60)[:12]], TARGET)) for _ in range(20)]
    assert chosen < min(random)


def test_selected_rows_are_data() -> None:
    data = from_arrays(SOURCE, np.arange(120) % 2, kind="points")
    found = select(data.train.x, TARGET, 0.25, "nearest")
    kept = found.applied(data)
    assert len(kept.train) == 24
    np.testing.assert_array_equal(kept.train.x, np.asarray(data.train.x)[np.sort(found.rows)])
    np.testing.assert_array_equal(kept.train.y, np.asarray(data.train.y)[np.sort(found.rows)])
    with pytest.raises(ArgumentError, match="were selected"):
        found.applied(kept)


def test_a_target_that_is_a_mixture_of_sources_gives_its_shares() -> None:
    centres = (-6.0, 0.0, 6.0)
    sources = [RNG.normal(c, 1, (150, 1)) for c in centres]
    target = np.concatenate([RNG.normal(c, 1, (n, 1)) for c, n in zip(centres, (150, 0, 50), strict=True)])
    found = mix_sources(sources, target)
    np.testing.assert_allclose(found.shares, [0.75, 0.0, 0.25], atol=0.05)
    assert abs(found.shares.sum() - 1) < 1e-12
    assert found.distance <= found.distances.min() + 1e-9
    assert found.distance <= found.uniform + 1e-9
    counted = found.weights([150, 150, 150])
    assert abs(np.concatenate(counted).mean() - 1) < 1e-9
    # No other mixture on a grid is closer.
    scale, pooled = float(median_kernel(np.concatenate(sources), target).scale), np.concatenate(sources)
    gram, cross, own = (
        np.exp(-((one - other.T) ** 2) / (2 * scale**2))
        for one, other in ((pooled, pooled), (pooled, target), (target, target))
    )
    for a in np.linspace(0, 1, 11):
        for b in np.linspace(0, 1 - a, 6):
            shares = np.repeat([a, b, 1 - a - b], 150) / 150
            square = shares @ gram @ shares - 2 * shares @ cross.mean(axis=1) + own.mean()
            assert np.sqrt(max(0.0, square)) >= found.distance - 1e-6


def test_the_worst_group_is_made_as_good_as_can_be() -> None:
    # Nine examples want 0, one wants 1: their mean is at 0.1, and the point that is as bad for both at 0.5.
    wanted, groups = jnp.array([0.0] * 9 + [1.0]), jnp.array([0] * 9 + [1])

    def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        at, robust = carry
        slope = jax.grad(lambda at: robust(jnp.square(at - wanted), groups)[0])(at)
        return (at - 0.05 * slope, robust(jnp.square(at - wanted), groups)[1]), None

    (at, robust), _ = jax.lax.scan(step, (jnp.zeros(()), GroupRobustLoss(2, rate=0.1)), None, length=2000)
    assert abs(float(at) - 0.5) < 0.02
    _, after = robust(jnp.zeros(3), jnp.zeros(3, int))  # a group that is not there keeps its weight
    np.testing.assert_allclose(after.weights, robust.weights, rtol=1e-6)


def test_shares_of_classes_are_told_from_answers_and_correct_them() -> None:
    random = np.random.default_rng(0)

    def answers(y: np.ndarray) -> np.ndarray:
        """Posteriors of N(±1, 1) under equal shares."""
        x = random.normal(2.0 * y - 1)
        return np.stack([1 / (1 + np.exp(2 * x)), 1 / (1 + np.exp(-2 * x))], axis=1)

    y, truth = random.integers(2, size=4000), (random.random(4000) < 0.8).astype(int)
    p, q = answers(y), answers(truth)
    found = label_shift(p, y, q)
    assert abs(found.target[1] - truth.mean()) < 3 * found.errors[1] < 0.1
    before, after = ((one.argmax(axis=1) == truth).mean() for one in (q, found.corrected(q)))
    assert after > before + 0.01
    np.testing.assert_allclose(found.weights @ found.source, 1.0)
    alone = label_shift(np.eye(2)[y], y, np.eye(2)[np.ones(50, int)])
    np.testing.assert_array_equal(alone.corrected([[1.0, 0.0]]), [[0.0, 1.0]])
    source = from_arrays(random.normal(size=(40, 2)), np.array(["a", "b"])[np.arange(40) % 2])
    weighed = found.applied(source).train
    np.testing.assert_allclose(weighed.arrays["weight"], found.weights[np.asarray(source.train.y)], rtol=1e-6)
    for given, message in (
        ((p, y, q[:, :1]), "has shape"),
        ((p - 1, y, q), "no probabilities"),
        ((p, np.zeros_like(y), q), "no source example is of class 1"),
        ((np.full_like(p, 0.5), y, q), "hardly tell the classes apart"),
    ):
        with pytest.raises(ArgumentError, match=message):
            label_shift(*given)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ArgumentError, match="a share above 0"):
        select(SOURCE, TARGET, 0.0)
    with pytest.raises(ArgumentError, match="method must be"):
        select(SOURCE, TARGET, 0.5, "best")
    with pytest.raises(ArgumentError, match="give one or more"):
        mix_sources([], TARGET)
    with pytest.raises(ArgumentError, match="groups holds 2"):
        GroupRobustLoss(2)(jnp.zeros(2), jnp.array([0, 2]))
