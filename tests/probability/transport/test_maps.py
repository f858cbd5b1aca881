"""Uses of a plan: maps, points on the way, labels, colours, barycentres, permutations, pairs."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from chainrule.core.errors import ArgumentError, DivergedError
from chainrule.probability.transport import (
    SoftPermutation,
    barycentric_map,
    batch_pairs,
    cost_matrix,
    displacement,
    draw_pairs,
    exact,
    fixed_barycenter,
    free_barycenter,
    hard_permutation,
    monge,
    soft_permutation,
    top_matches,
    transfer_colors,
    transfer_labels,
    wasserstein,
)

DRAW = np.random.default_rng(0)
X, Y = DRAW.normal(size=(9, 2)), DRAW.normal(size=(9, 2)) + 3
LINE = np.arange(8.0)[:, None]
APART = (LINE - LINE.T) ** 2
MIXED = DRAW.dirichlet(np.ones(8), 2)


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


# ---------------------------------------------------------------------- Monge


def test_equal_clouds_have_a_map_that_is_the_best_assignment() -> None:
    costs = np.asarray(cost_matrix(X, Y))
    rows, columns = scipy.optimize.linear_sum_assignment(costs)
    found = monge(X, Y)
    np.testing.assert_array_equal(found.targets, columns)
    assert float(found.cost) == pytest.approx(costs[rows, columns].mean())


def test_weights_that_fit_have_a_map_even_where_the_best_plan_splits() -> None:
    # Point 0 would rather split between both targets; the only maps send it to one of them as a whole.
    x, y = [[0.0], [10.0], [-10.0]], [[-1.0], [1.0]]
    found = monge(x, y, [0.5, 0.25, 0.25], [0.5, 0.5])
    assert sorted(np.bincount(np.asarray(found.targets), [0.5, 0.25, 0.25])) == [0.5, 0.5]
    assert float(found.cost) > float(exact([0.5, 0.25, 0.25], [0.5, 0.5], cost_matrix(x, y)).cost)
    free = monge([[0.0], [1.0], [9.0]], [[1.0], [8.0]], [0.25, 0.25, 0.5], [0.5, 0.5])
    assert free.targets.tolist() == [0, 0, 1]


def test_a_point_that_must_split_is_named_and_the_remedy_works() -> None:
    with pytest.raises(
        ArgumentError, match="no map exists: point 0 of x, with mass 1, has to split"
    ) as error:
        monge([[0.0]], [[-1.0], [1.0]])
    assert "exact(a, b, cost_matrix(x, y)).plan" in str(error.value)
    plan = exact([1.0], [0.5, 0.5], cost_matrix([[0.0]], [[-1.0], [1.0]])).plan
    assert barycentric_map(plan, [[-1.0], [1.0]]).tolist() == [[0.0]]
    with pytest.raises(ArgumentError, match="no map exists: point"):
        monge(X[:3], Y[:2], [0.4, 0.3, 0.3], [0.5, 0.5])
    light = DRAW.dirichlet(np.ones(60) * 50)  # lighter than every target, all of them
    with pytest.raises(ArgumentError, match="hard to tell: point"):
        monge(DRAW.normal(size=(60, 1)), DRAW.normal(size=(40, 1)), light)


# ---------------------------------------------------------------------- uses of a plan


def test_mass_on_its_way_has_both_clouds_for_ends_and_distances_in_proportion() -> None:
    even = np.full(9, 1 / 9)
    plan = exact(even, even, cost_matrix(X, Y))
    start, half, end = (displacement(X, Y, plan.entries, t) for t in (0.0, 0.25, 1.0))
    assert float(wasserstein(start.points, X, 2, start.weights, even)) == pytest.approx(0, abs=1e-6)
    assert float(wasserstein(end.points, Y, 2, end.weights, even)) == pytest.approx(0, abs=1e-6)
    whole = float(wasserstein(X, Y, 2))
    assert float(wasserstein(X, half.points, 2, even, half.weights)) == pytest.approx(whole / 4, abs=1e-9)
    assert displacement(X, Y, plan.plan, 0.5).points.shape == (81, 2)


def test_the_barycentric_map_of_a_permutation_is_the_permutation() -> None:
    even = np.full(9, 1 / 9)
    plan = exact(even, even, cost_matrix(X, Y)).plan
    np.testing.assert_allclose(barycentric_map(plan, Y), Y[np.asarray(monge(X, Y).targets)], atol=1e-12)
    np.testing.assert_array_equal(top_matches(plan).columns[:, 0], monge(X, Y).targets)
    np.testing.assert_allclose(top_matches(plan, 2).shares, np.tile([1.0, 0.0], (9, 1)), atol=1e-12)


def test_labels_follow_the_mass() -> None:
    x, y = np.array([[0.0], [0.2], [5.0]]), np.array([[0.1], [5.5]])
    plan = exact([0.25, 0.25, 0.5], [0.4, 0.6], cost_matrix(x, y)).plan
    found = np.asarray(transfer_labels(plan, [0, 0, 1], 2))
    np.testing.assert_allclose(found, [[1, 0], [0.1 / 0.6, 0.5 / 0.6]], atol=1e-12)


def test_colours_move_to_the_other_palette_and_order_of_shades_stays() -> None:
    shades = np.linspace(0, 1, 400).reshape(20, 20, 1)
    image = np.concatenate([shades, 0.5 * shades, 0 * shades], axis=-1)
    reference = np.concatenate([0 * shades, 0.2 + 0.3 * shades, 0.5 + 0.5 * shades], axis=-1)
    found = transfer_colors(image, reference, colors=16)
    assert found.image.shape == image.shape
    np.testing.assert_allclose(found.image.mean(axis=(0, 1)), reference.mean(axis=(0, 1)), atol=0.02)
    np.testing.assert_allclose(found.image.std(axis=(0, 1)), reference.std(axis=(0, 1)), atol=0.02)
    rises = np.diff(found.image[..., 2].ravel())
    assert rises.min() > -1e-2, "a darker shade became the lighter one"
    assert found.shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(transfer_colors(image, image, colors=400).image, image, atol=1e-6)


# ---------------------------------------------------------------------- barycentres


def test_the_barycentre_on_the_line_averages_quantiles_exactly_and_with_entropy() -> None:
    first, second = np.eye(8)[1], np.array([0, 0, 0, 0, 0, 0.5, 0, 0.5])
    found = fixed_barycenter([first, second], APART)
    np.testing.assert_allclose(found.weights, [0, 0, 0, 0.5, 0.5, 0, 0, 0], atol=1e-9)
    leaning = fixed_barycenter([first, np.eye(8)[5]], APART, [0.75, 0.25])
    np.testing.assert_allclose(leaning.weights, np.eye(8)[2], atol=1e-9)
    blurred = fixed_barycenter([first, second], APART, eps=0.5)
    assert blurred.converged
    assert float(blurred.weights.sum()) == pytest.approx(1)
    np.testing.assert_allclose(blurred.weights, found.weights, atol=0.25)
    near = fixed_barycenter([first, second], APART, eps=0.05)
    np.testing.assert_allclose(near.weights, found.weights, atol=0.01)


def test_sums_that_are_not_one_are_refused_with_what_helps() -> None:
    counts = np.array([[1.0, 0, 0, 0, 0, 0, 0, 1.0], [0, 0, 3.0, 0, 0, 0, 0, 0]])
    with pytest.raises(ArgumentError, match="row 0 sums to 2") as refused:
        fixed_barycenter(counts, APART)
    assert "divide each histogram by its sum" in str(refused.value)
    assert fixed_barycenter(counts / counts.sum(axis=1, keepdims=True), APART).converged
    with pytest.raises(ArgumentError, match=r"shares sums to 3[^\n]*\n *divide shares by their sum"):
        fixed_barycenter(counts / [[2.0], [3.0]], APART, [1.0, 2.0])


def test_points_move_to_the_middle_of_clouds_and_never_farther_from_them() -> None:
    found = free_barycenter([X, X + 4.0], X[:9] * 0.1)
    assert found.converged
    assert (np.diff(found.costs) < 1e-9).all()
    # A cloud and its shifted copy have the cloud shifted by half between them.
    assert float(wasserstein(found.points, X + 2.0, 2)) == pytest.approx(0, abs=1e-6)
    weighted = free_barycenter([X[:2], Y[:3]], X[:2], [[0.5, 0.5], [0.2, 0.3, 0.5]], [0.9, 0.1])
    assert weighted.costs[-1] <= weighted.costs[0]
    assert not free_barycenter([X, Y], X[:4], rounds=1).converged


# ---------------------------------------------------------------------- permutations and pairs


def test_soft_permutations_cool_to_the_best_assignment() -> None:
    logits = 5 * DRAW.normal(size=(3, 5, 5))
    soft = np.asarray(soft_permutation(logits, 5.0))
    np.testing.assert_allclose(soft.sum(axis=-1), 1, atol=1e-6)
    np.testing.assert_allclose(soft.sum(axis=-2), 1, atol=1e-12)
    hard = np.asarray(hard_permutation(logits))
    assert (hard.sum(axis=-1) == 1).all()
    assert (hard.sum(axis=-2) == 1).all()
    np.testing.assert_allclose(soft_permutation(logits, 0.02, iterations=2000), hard, atol=1e-2)
    for one, matrix in zip(hard, logits, strict=True):
        rows, columns = scipy.optimize.linear_sum_assignment(-matrix)
        assert (one * matrix).sum() == pytest.approx(matrix[rows, columns].sum())


def test_the_layer_draws_with_a_key_learns_through_it_and_is_hard_at_evaluation() -> None:
    layer, logits = SoftPermutation(0.5), jnp.asarray(DRAW.normal(size=(4, 4)))
    one, two = (layer(logits, jax.random.key(i)) for i in (0, 1))
    assert not np.allclose(one, two)
    np.testing.assert_array_equal(layer(logits, hard=True), hard_permutation(logits))
    target = jnp.eye(4)
    slope = jax.jit(jax.grad(lambda z: jnp.square(layer(z) - target).sum()))
    ends = [float(jnp.square(layer(logits + s * 1e-6 * np.eye(4)) - target).sum()) for s in (1, -1)]
    assert float(jnp.trace(slope(logits))) == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)


def test_pairs_come_with_the_probabilities_of_the_plan() -> None:
    plan = DRAW.dirichlet(np.ones(12)).reshape(3, 4)
    found = jax.jit(draw_pairs, static_argnums=2)(jax.random.key(0), plan, 20_000)
    counts = np.zeros((3, 4))
    np.add.at(counts, (np.asarray(found.first), np.asarray(found.second)), 1 / 20_000)
    assert np.abs(counts - plan).max() < 4 * np.sqrt(0.25 / 20_000)
    even = np.full(9, 1 / 9)
    each = draw_pairs(jax.random.key(1), exact(even, even, cost_matrix(X, Y)).plan)
    np.testing.assert_array_equal(each.second, monge(X, Y).targets)
    np.testing.assert_array_equal(batch_pairs(jax.random.key(1), X, Y).second, monge(X, Y).targets)
    loose = jax.jit(lambda key: batch_pairs(key, X, Y, 1e3, count=4000))(jax.random.key(2))
    assert np.bincount(np.asarray(loose.second), minlength=9).min() > 300, "next to independent"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: barycentric_map([[1.0], [0.0]], [[0.0]]), ArgumentError, r"mass of each row\[1\] is 0"),
        (lambda: barycentric_map([[1.0]], [[0.0], [1.0]]), ArgumentError, "a row for each column"),
        (lambda: displacement(X, Y, np.ones((2, 2)), 0.5), ArgumentError, r"plan of shape \(2, 2\)"),
        (lambda: displacement(X, Y, np.ones((9, 9)), 1.5), ArgumentError, "between 0 and 1"),
        (lambda: top_matches(np.ones((2, 2)), 3), ArgumentError, "2 columns"),
        (lambda: transfer_labels(np.ones((2, 2)), [0, 2], 2), ArgumentError, "numbered 0 to 1"),
        (lambda: transfer_colors(np.ones((2, 2, 3)), np.ones((2, 2, 1))), ArgumentError, "3 channels"),
        (
            lambda: transfer_colors(np.full((2, 2, 3), 255.0), np.ones((2, 2, 3))),
            ArgumentError,
            "bytes / 255",
        ),
        (lambda: fixed_barycenter([[0.5, 0.4]], np.ones((2, 2))), ArgumentError, "sums to 0.9"),
        (lambda: fixed_barycenter(MIXED, APART, eps=1e-4), DivergedError, "larger eps, or none"),
        (lambda: fixed_barycenter(np.eye(500), np.ones((500, 500))), ArgumentError, "use entropy: eps=0.01"),
        (lambda: free_barycenter([], X), ArgumentError, "no clouds"),
        (lambda: soft_permutation(np.ones((2, 3))), ArgumentError, "square matrix"),
        (lambda: soft_permutation(np.eye(2), 0.0), ArgumentError, "hard_permutation"),
        (lambda: soft_permutation(np.eye(2), 1e-320), ArgumentError, r"larger tau, or its limit"),
        (lambda: draw_pairs(jax.random.key(0), np.zeros((2, 2)), 3), ArgumentError, "mass of the plan is 0"),
        (lambda: jax.jit(hard_permutation)(np.eye(2)), ArgumentError, "soft_permutation with a low tau"),
        (lambda: draw_pairs(jax.random.key(0), [[1.0], [0.0]]), ArgumentError, r"mass of each row\[1\]"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
