"""Certificates: exact intervals, radii of linear classifiers in closed form, bounds that hold, tight where known."""

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import chainrule as cr
from chainrule import data, models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.explain import probes
from chainrule.explain.methods.smoothing import ABSTAINS, lower_bound
from chainrule.nn.convolution.functions import convolve
from chainrule.train import fit

RNG = np.random.default_rng(0)
W = np.array([3.0, -4.0], np.float32)
X = RNG.normal(size=(12, 2)).astype(np.float32)


def linear(x: jax.Array) -> jax.Array:
    z = x @ jnp.asarray(W)
    return jnp.stack([-z, z], axis=-1)


def test_nine_tenths_of_the_noise_certify_two_thirds_of_its_size() -> None:
    assert float(cr.explain.certified_radius(0.5, 0.9)) == pytest.approx(0.640776, abs=1e-6)
    assert float(cr.explain.certified_radius(0.5, 0.5)) == 0
    for sigma, share, why in (
        (-0.5, 0.9, r"sigma=-0\.5"),
        (0.5, 1.5, r"probability=1\.5"),
        (0.5, np.nan, "nan"),
    ):
        with pytest.raises(ArgumentError, match=why):
            cr.explain.certified_radius(sigma, share)


@pytest.mark.parametrize(("k", "n"), [(0, 10), (7, 10), (10, 10), (990, 1000)])
def test_the_lower_bound_is_that_of_clopper_and_pearson(k: int, n: int) -> None:
    expected = scipy.stats.binomtest(k, n, alternative="greater").proportion_ci(0.99, method="exact").low
    assert float(lower_bound(k, n, 0.01)) == pytest.approx(expected, abs=1e-9)
    if k:  # the share at which so many successes, or more, have probability alpha
        assert scipy.stats.binom.sf(k - 1, n, expected) == pytest.approx(0.01, rel=1e-6)


def test_the_interval_covers_as_often_as_it_says() -> None:
    draws = np.random.default_rng(0).binomial(50, 0.8, size=20_000)
    assert (lower_bound(draws, 50, 0.1) > 0.8).mean() <= 0.1


def test_smoothing_a_linear_classifier_certifies_no_more_than_its_distance_to_the_border() -> None:
    sigma = 0.5
    found = cr.explain.certify(linear, X, sigma, draws=20_000, first_draws=50, alpha=0.01)
    distance = np.abs(X @ W) / np.linalg.norm(W)
    near = distance < 2 * sigma  # further away all draws agree, and more of them would be needed
    sure = found.classes != ABSTAINS
    assert (found.classes[sure] == (X @ W > 0)[sure]).all()
    assert (found.radius <= distance + 1e-6).all()
    np.testing.assert_allclose(found.radius[near & sure], distance[near & sure], atol=0.06)
    assert not found.radius[~sure].any()
    again = cr.explain.certify(linear, X, "1/2", draws=20_000, first_draws=50, alpha=0.01)
    np.testing.assert_array_equal(found.radius, again.radius)


def test_on_the_border_nothing_is_claimed() -> None:
    border = np.zeros((4, 2), np.float32)
    assert (cr.explain.certify(linear, border, 1.0, draws=200).classes == ABSTAINS).all()
    assert (cr.explain.smoothed_classes(linear, border, 1.0, draws=200, alpha=0.001) == ABSTAINS).all()
    said = cr.explain.smoothed_classes(linear, X * 10, 0.1, draws=50)
    np.testing.assert_array_equal(said, (X @ W > 0).astype(int))


def test_any_function_can_be_smoothed() -> None:
    plain: Any = lambda x: np.stack([-(np.asarray(x) @ W), np.asarray(x) @ W], axis=-1)  # noqa: E731
    found = cr.explain.certify(plain, X * 10, 0.1, draws=50, first_draws=10)
    np.testing.assert_array_equal(found.classes, (X @ W > 0).astype(int))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sigma": 0}, "sigma is the standard deviation"),
        ({"sigma": "much"}, "sigma is the standard deviation"),
        ({"sigma": 1.0, "alpha": 1.5}, "between 0 and 1"),
        ({"sigma": 1.0, "draws": 0}, "draws must be a whole number"),
    ],
)
def test_what_certifies_nothing_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        cr.explain.certify(linear, X, **settings)


# ---------------------------------------------------------------------- intervals and Lipschitz constants

A = RNG.normal(size=(2, 5)).astype(np.float32)
B = RNG.normal(size=(5, 3)).astype(np.float32)
KERNEL = RNG.normal(size=(3, 3, 1, 2)).astype(np.float32)


def small(x: jax.Array) -> jax.Array:
    return jax.nn.relu(x @ jnp.asarray(A)) @ jnp.asarray(B)


def mixed(x: jax.Array) -> jax.Array:
    """Activations, products, quotients, powers and pools."""
    h = jnp.tanh(x @ jnp.asarray(A))
    g = jax.nn.sigmoid(h) * h - jnp.abs(h) / 2 + h**3
    return jnp.stack([g.max(axis=-1), g.mean(axis=-1), -jnp.square(g).sum(axis=-1)], axis=-1) / 3


def convolutional(x: jax.Array) -> jax.Array:
    h = jax.nn.relu(
        convolve(x, jnp.asarray(KERNEL), stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1))
    )
    h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return h.mean(axis=(1, 2)) @ jnp.asarray(B[:2])


CASES = [(small, (2,)), (mixed, (2,)), (convolutional, (6, 6, 1))]


@pytest.mark.parametrize(("f", "shape"), CASES)
def test_no_point_of_the_cube_leaves_the_interval(f: Any, shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(3, *shape)).astype(np.float32)
    low, high = (np.asarray(end) for end in cr.explain.interval_bounds(f, x, 0.2))
    points = x[None] + draw.choice([-0.2, 0.2, 0.0, 0.1], size=(300, *x.shape)).astype(np.float32)
    out = np.asarray(f(jnp.asarray(points.reshape(-1, *shape)))).reshape(300, 3, -1)
    assert (out >= low - 1e-4).all()
    assert (out <= high + 1e-4).all()
    exact = np.asarray(f(jnp.asarray(x)))
    for end in cr.explain.interval_bounds(f, x, 0.0):
        np.testing.assert_allclose(end, exact, rtol=1e-3, atol=1e-4)


def test_intervals_prove_a_linear_classifier_up_to_its_distance() -> None:
    predicted = (X @ W > 0).astype(np.int32)
    # The logits are -z and z: the least of one meets the largest of the other where z can be zero.
    distance = np.abs(X @ W) / np.abs(W).sum()
    for eps in (0.05, 0.2):
        found = cr.explain.interval_certified(linear, X, predicted, eps)
        np.testing.assert_array_equal(found, distance > eps)
    assert not cr.explain.interval_certified(linear, X, 1 - predicted, 0.01).any()


@pytest.mark.parametrize(("f", "shape"), [CASES[0], CASES[2]])
def test_no_two_points_are_further_apart_than_the_slope_allows(f: Any, shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(0)
    one, other = (draw.normal(size=(200, *shape)).astype(np.float32) for _ in range(2))
    bound = cr.explain.lipschitz_bound(f, one)
    moved = np.linalg.norm(np.asarray(f(jnp.asarray(one)) - f(jnp.asarray(other))), axis=-1)
    length = np.linalg.norm((one - other).reshape(200, -1), axis=-1)
    assert (moved <= bound * length * (1 + 1e-5)).all()


def test_slopes_of_matrices_are_their_largest_singular_values() -> None:
    expected = np.linalg.norm(A, 2) * np.linalg.norm(B, 2)
    assert cr.explain.lipschitz_bound(small, X) == pytest.approx(expected, rel=1e-5)
    ranked = np.sort(np.asarray(small(jnp.asarray(X))), axis=-1)
    radius = (ranked[:, -1] - ranked[:, -2]) / (math.sqrt(2) * expected)
    np.testing.assert_allclose(cr.explain.lipschitz_radius(small, X), radius, rtol=1e-4)


def test_operations_without_a_rule_are_named() -> None:
    odd = lambda x: jnp.linalg.inv(jnp.eye(2)[None] + x[:, :, None] * x[:, None, :])[:, 0]  # noqa: E731
    with pytest.raises(CapabilityError, match="nothing is known of the operation"):
        cr.explain.interval_bounds(odd, X, 0.1)
    with pytest.raises(CapabilityError, match="nothing is known of the operation"):
        cr.explain.lipschitz_bound(lambda x: x * x, X)


def test_the_probe_draws_certified_accuracy_that_falls_with_the_radius(tmp_path: Path) -> None:
    moons = data.load("moons", n=200)
    run = fit(
        models.build("mlp", moons, width=8, depth=1, dropout=0.0),
        moons,
        run=tmp_path / "run",
        steps=100,
        batch=32,
        optimizer={"lr": 0.02},
        log_every=50,
        eval_every=100,
    )
    outcome = probes.examine("certificate", run, sigma=("1/10", 0.5), examples=15, draws=100, first_draws=20)
    assert outcome.numbers["sigma"] == [0.1, 0.5]
    drawn: Any = outcome.pictures[0]
    for _, accuracy in drawn.series.values():
        assert (np.diff(accuracy) <= 0).all()
    assert (
        outcome.numbers["largest radius"][0]
        <= 0.1 * cr.explain.certified_radius(1.0, 0.001 ** (1 / 100)) + 1e-9
    )
    assert outcome.numbers["proven"] == sorted(outcome.numbers["proven"], reverse=True)
    assert "wrong with probability 0.001 at most" in outcome.findings[1]
