"""Probabilities from decision values: the sigmoid against SciPy, coupling against what pairs were made of, parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from chainrule.kernels.support_vectors.calibration import coupled, pairs_of, sigmoid_of, votes
from chainrule.kernels.support_vectors.classification import folds_of

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("separable", [False, True])
def test_the_sigmoid_has_the_greatest_likelihood_of_targets_off_zero_and_one(separable: bool) -> None:
    d = RNG.normal(size=200)
    second = d > 0 if separable else RNG.uniform(size=200) < 1 / (1 + np.exp(-2 * d - 0.5))
    weights = RNG.uniform(0.5, 2, 200)
    above, below = weights[second].sum(), weights[~second].sum()
    target = np.where(second, (above + 1) / (above + 2), 1 / (below + 2))

    def loss(at: np.ndarray) -> float:
        z = at[0] * d + at[1]
        return float((weights * (target * np.logaddexp(0, z) + (1 - target) * np.logaddexp(0, -z))).sum())

    found = sigmoid_of(d, second, weights)
    theirs = scipy.optimize.minimize(loss, np.zeros(2), tol=1e-12)
    assert loss(found) == pytest.approx(theirs.fun, rel=1e-9)
    assert found[0] < 0  # larger decision values make the second class likelier


def test_pairs_that_agree_give_back_the_probabilities_they_were_made_of() -> None:
    p = RNG.dirichlet(np.ones(5), 20)
    pairs = pairs_of(5)
    second = p[:, pairs[:, 1]] / (p[:, pairs[:, 0]] + p[:, pairs[:, 1]])
    np.testing.assert_allclose(jax.jit(coupled, static_argnums=1)(jnp.asarray(second), 5), p, atol=1e-9)
    np.testing.assert_allclose(coupled(jnp.array([[0.3]]), 2), [[0.7, 0.3]])


def test_pairs_that_disagree_are_coupled_by_least_squares() -> None:
    second = RNG.uniform(0.05, 0.95, (8, 6))
    found = np.asarray(coupled(jnp.asarray(second), 4))
    pairs = pairs_of(4)
    for row, p in zip(second, found, strict=True):

        def lost(p: np.ndarray, row: np.ndarray = row) -> float:
            i, j = pairs.T
            return float(np.square(row * p[i] - (1 - row) * p[j]).sum())

        theirs = scipy.optimize.minimize(
            lost,
            np.full(4, 0.25),
            bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        assert lost(p) <= theirs.fun + 1e-9


def test_pairs_that_are_sure_give_finite_probabilities_and_derivatives_in_single_precision() -> None:
    second = jnp.asarray(RNG.integers(0, 2, (50, 45)), jnp.float32)
    found, tangent = jax.jvp(lambda s: coupled(s, 10), (second,), (jnp.ones_like(second),))
    assert np.isfinite(found).all()
    assert np.isfinite(tangent).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)


def test_votes_count_pairs() -> None:
    assert votes(np.array([[-1.0, -1.0, -1.0], [0.0, 1.0, 1.0]]), 3).tolist() == [[2, 1, 0], [0, 1, 2]]


def test_parts_hold_their_share_of_every_class() -> None:
    numbers = RNG.permutation(np.repeat([0, 1, 2], [50, 20, 7]))
    fold = folds_of(np.arange(3), numbers, 0)
    for part in range(5):
        assert np.bincount(numbers[fold == part], minlength=3).tolist()[:2] == [10, 4]
    assert set(fold[numbers == 2]) == set(range(5))
    np.testing.assert_array_equal(fold, folds_of(np.arange(3), numbers, 0))
