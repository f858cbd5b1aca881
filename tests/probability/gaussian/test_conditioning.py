"""Conditionals of normal variables by every route: blocks, masks, precisions, low-rank updates, quadrature."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability import gaussian as g

MEAN = np.array([1.0, 2.0, 3.0])
COVARIANCE = np.array([[2.0, 0.6, 0.3], [0.6, 1.0, 0.2], [0.3, 0.2, 1.5]])
SINGULAR = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_two_of_three_known_variables_leave_the_worked_mean_and_variance() -> None:
    mean, covariance = g.condition(MEAN, COVARIANCE, observed={1: 2.5, 2: 2.0})
    assert float(mean[0]) == pytest.approx(1.164384, abs=1e-6)
    assert float(covariance[0, 0]) == pytest.approx(1.617808, abs=1e-6)
    x = np.linspace(-20, 20, 4001)
    rows = np.stack([x, np.full_like(x, 2.5), np.full_like(x, 2.0)], axis=1)
    density = scipy.stats.multivariate_normal(MEAN, COVARIANCE).pdf(rows)
    quadrature = (density * x).sum() / density.sum()
    assert float(mean[0]) == pytest.approx(quadrature, abs=1e-10)
    assert float(covariance[0, 0]) == pytest.approx(
        (density * (x - quadrature) ** 2).sum() / density.sum(), abs=1e-9
    )


def test_any_index_set_in_any_order_gives_the_block_formula() -> None:
    random = np.random.default_rng(0)
    factor = random.normal(size=(6, 6))
    mean, covariance = random.normal(size=6), factor @ factor.T + np.eye(6)
    known, free = [4, -6, 2], [1, 3, 5]
    values = random.normal(size=3)
    found = g.condition(mean, covariance, dict(zip(known, values, strict=True)))
    gain = covariance[np.ix_(free, known)] @ np.linalg.inv(covariance[np.ix_(known, known)])
    np.testing.assert_allclose(found.mean, mean[free] + gain @ (values - mean[known]))
    np.testing.assert_allclose(
        found.covariance, covariance[np.ix_(free, free)] - gain @ covariance[np.ix_(known, free)]
    )
    nothing = g.condition(mean, covariance, {})
    np.testing.assert_array_equal(nothing.covariance, covariance)
    everything = g.condition(mean, covariance, dict(enumerate(values.repeat(2))))
    assert everything.mean.shape == (0,)


def test_conditioning_can_be_compiled_mapped_and_differentiated() -> None:
    def predicted(y: jax.Array) -> jax.Array:
        return g.condition(MEAN, COVARIANCE, {1: y, 2: 2.0}).mean[0]

    points = np.array([0.0, 2.5])
    slopes = jax.jit(jax.vmap(jax.grad(predicted)))(points)
    slope = (COVARIANCE[0, 1:] @ np.linalg.inv(COVARIANCE[1:, 1:]))[0]
    np.testing.assert_allclose(slopes, slope)


def test_missing_entries_are_filled_with_conditional_means() -> None:
    rows = np.array([[np.nan, 2.5, 2.0], [0.5, np.nan, np.nan], [1.0, 2.0, 4.0], [np.nan] * 3])
    values, left = jax.jit(g.impute)(MEAN, COVARIANCE, rows)
    assert float(values[0, 0]) == pytest.approx(1.164384, abs=1e-6)
    assert float(left[0, 0, 0]) == pytest.approx(1.617808, abs=1e-6)
    two = g.condition(MEAN, COVARIANCE, {0: 0.5})
    np.testing.assert_allclose(values[1], [0.5, *two.mean])
    np.testing.assert_allclose(left[1][1:, 1:], two.covariance)
    np.testing.assert_array_equal(values[2], rows[2])
    assert (np.asarray(left[2]) == 0).all()
    np.testing.assert_allclose(values[3], MEAN)
    np.testing.assert_allclose(left[3], COVARIANCE)
    np.testing.assert_allclose(g.impute(MEAN, COVARIANCE, rows[1]).values, values[1])


def test_the_information_form_gives_the_same_conditional() -> None:
    information = g.to_information(MEAN, COVARIANCE)
    np.testing.assert_allclose(information.precision, np.linalg.inv(COVARIANCE))
    back = g.from_information(*information)
    np.testing.assert_allclose(back.mean, MEAN)
    np.testing.assert_allclose(back.covariance, COVARIANCE)
    found = g.from_information(*g.condition_information(*information, {2: 2.0}))
    wanted = g.condition(MEAN, COVARIANCE, {2: 2.0})
    np.testing.assert_allclose(found.mean, wanted.mean)
    np.testing.assert_allclose(found.covariance, wanted.covariance)


def test_a_low_rank_update_is_bayes_rule_for_linear_models() -> None:
    matrix, noise, y = (
        np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]]),
        np.diag([0.5, 2.0]),
        np.array([1.0, 0.5]),
    )
    found = g.low_rank_update(MEAN, COVARIANCE, matrix, noise, y)
    precisions = jnp.linalg.inv(COVARIANCE), jnp.linalg.inv(noise)
    mean, covariance = g.linear_posterior(
        jnp.asarray(MEAN), precisions[0], jnp.asarray(matrix), jnp.zeros(2), precisions[1], jnp.asarray(y)
    )
    np.testing.assert_allclose(found.mean, mean)
    np.testing.assert_allclose(found.covariance, covariance)
    exact = g.low_rank_update(MEAN, COVARIANCE, np.eye(3)[1:], np.zeros((2, 2)), [2.5, 2.0])
    assert float(exact.mean[0]) == pytest.approx(1.164384, abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: g.condition(MEAN, COVARIANCE, {3: 0.0}), "no variable 3 among 3"),
        (lambda: g.condition(MEAN, COVARIANCE, {0: 0.0, -3: 0.0}), "named twice"),
        (lambda: g.condition(MEAN, COVARIANCE, {0: math.nan}), "variable 0 is not finite\n.*leave out"),
        (lambda: g.condition(MEAN, COVARIANCE, {0: [1.0, 2.0]}), "jax.vmap"),
        (
            lambda: g.condition(MEAN, SINGULAR, {0: 1.0, 1: 1.0}),
            "condition: the covariance is singular.*eigenvalue",
        ),
        (lambda: g.impute(MEAN, COVARIANCE, [1.0, np.nan]), "variables come last"),
        (lambda: g.impute(MEAN, COVARIANCE, [1.0, np.nan, np.inf]), "missing entries are NaN"),
        (lambda: g.to_information(MEAN, SINGULAR), "to_information: .* singular"),
        (
            lambda: g.from_information(MEAN, -np.eye(3)),
            r"from_information\(precision\): smallest eigenvalue -1",
        ),
        (
            lambda: g.low_rank_update(MEAN, COVARIANCE, np.eye(3), np.eye(2), [0.0, 0.0]),
            "with k observations",
        ),
    ],
)
def test_what_cannot_be_conditioned_on_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_singular_observations_are_refused_inside_compiled_code() -> None:
    with pytest.raises(Exception, match="covariance is singular"):
        jax.block_until_ready(jax.jit(lambda c: g.condition(MEAN, c, {0: 1.0, 1: 1.0}))(SINGULAR))


def test_numbers_inside_compiled_code_are_checked_and_used_as_outside() -> None:
    covariance, rows = jnp.array([[2.0, 0.5], [0.5, 1.0]]), jnp.array([[jnp.nan, 3.0], [0.0, 0.0]])

    def filled(x: jax.Array) -> jax.Array:
        return x + g.impute(jnp.zeros(2), covariance, rows).values

    expected = filled(jnp.zeros((2, 2)))
    np.testing.assert_allclose(jax.jit(filled)(jnp.zeros((2, 2))), expected, rtol=1e-6)
    carried, _ = jax.lax.scan(lambda x, _: (filled(x), None), jnp.zeros((2, 2)), length=2)
    np.testing.assert_allclose(carried, 2 * expected, rtol=1e-6)
    infinite, missing = jnp.array([jnp.inf, 0.0]), jnp.array([0.0, jnp.nan])
    with pytest.raises(ArgumentError, match="an entry is infinite"):
        jax.jit(lambda x: x + g.impute(jnp.zeros(2), covariance, infinite).values)(jnp.zeros(2))
    with pytest.raises(ArgumentError, match="entry 1 is nan"):
        jax.jit(lambda x: x + g.impute(missing, covariance, missing).values)(jnp.zeros(2))
