"""Principal components against closed forms, each other's methods and scikit-learn's conventions."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability.linear import principal_angles, principal_components
from chainrule.probability.linear.principal_components import METHODS

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(300, 6)) @ RANDOM.normal(size=(6, 6)) + RANDOM.normal(size=6)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_the_same_axes_and_loses_the_variances_left_out(method: str) -> None:
    found = principal_components(ROWS, 2, method=method)  # type: ignore[arg-type]
    covariance = np.cov(ROWS.T, bias=True)
    values, vectors = np.linalg.eigh(covariance)
    np.testing.assert_allclose(found.variances, values[::-1][:2], rtol=1e-9)
    np.testing.assert_allclose(np.abs(found.axes @ vectors[:, ::-1][:, :2]), np.eye(2), atol=1e-8)
    assert (np.take_along_axis(found.axes, np.abs(found.axes).argmax(1)[:, None], 1) > 0).all()
    back = found.inverse(found.transform(ROWS))
    assert np.square(back - ROWS).sum(axis=1).mean() == pytest.approx(values[:4].sum(), rel=1e-9)
    assert found.error == pytest.approx(values[:4].sum(), rel=1e-9)
    white = found.transform(ROWS, whiten=True)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(2), atol=1e-9)
    np.testing.assert_allclose(found.inverse(white, whiten=True), back, atol=1e-9)


def test_three_drinks_need_two_components() -> None:
    """Espresso, water, milk, foam, chocolate, cream, ice cream, whiskey: three points lie in a plane."""
    drinks = np.array([[1, 1, 0, 0, 0, 0, 0, 0], [1, 0, 1, 1, 0, 0, 0, 0], [1, 0, 1, 1, 1, 0, 0, 0]], float)
    assert principal_components(drinks, 2).error == pytest.approx(0, abs=1e-12)


def test_rows_that_come_later_change_the_axes_as_if_they_had_been_there() -> None:
    found = principal_components(ROWS[:100])
    for start in (100, 200):
        found = found.updated(ROWS[start : start + 100])
    whole = principal_components(ROWS)
    np.testing.assert_allclose(found.variances, whole.variances, rtol=1e-9)
    np.testing.assert_allclose(found.axes, whole.axes, atol=1e-7)
    np.testing.assert_allclose(found.mean, whole.mean)
    assert found.total == pytest.approx(whole.total)


def test_angles_between_subspaces_are_exact_even_when_small() -> None:
    tilt = 1e-7
    a, b = np.eye(3)[:2], np.array([[1.0, 0.0, 0.0], [0.0, np.cos(tilt), np.sin(tilt)]])
    np.testing.assert_allclose(principal_angles(a, b), [0, tilt], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(principal_angles(np.eye(3)[:1], np.eye(3)[1:2]), [np.pi / 2])


def test_what_cannot_be_is_refused_with_what_can() -> None:
    with pytest.raises(ArgumentError, match=r"k=7.*from 1 to 6 components[\s\S]*use k=6"):
        principal_components(ROWS, 7)
    with pytest.raises(ArgumentError, match=r"x\[1, 0\] is nan[\s\S]*fit_factors"):
        principal_components(np.array([[0.0, 1.0], [np.nan, 1.0]]))
    flat = principal_components(np.array([[0.0, 1.0], [1.0, 1.0]]))
    with pytest.raises(ArgumentError, match=r"component 2 has no variance[\s\S]*keep 1 components"):
        flat.transform(np.ones((1, 2)), whiten=True)


def test_a_large_mean_and_an_order_of_the_rows_cost_no_digits():
    draw = np.random.default_rng(3)
    x = draw.normal(size=(20_000, 4)) * [1.0, 0.5, 0.2, 0.1]
    x = x[np.argsort(x[:, 0])]  # the first rows have another mean than all
    expected = np.linalg.eigvalsh(np.cov((x - x.mean(axis=0)).T, bias=True))[::-1]
    found = principal_components(x + 1e6, method="covariance")
    np.testing.assert_allclose(found.variances, expected, rtol=1e-7)
    np.testing.assert_allclose(found.mean, x.mean(axis=0) + 1e6, rtol=1e-14)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_named_in_every_method(wrong):
    x = np.random.default_rng(0).normal(size=(30, 3))
    x[17, 2] = wrong
    x[20, 2] = np.inf
    for method in ("covariance", "svd", "randomised"):
        with pytest.raises(ArgumentError, match=r"x\[17, 2\] is "):
            principal_components(x, 2, method=method)
