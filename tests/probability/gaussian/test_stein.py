"""Stein's identity: it holds for normals, singular ones too, and tells others from them."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability import Laplace, MultivariateNormal, Normal
from chainrule.probability.gaussian import stein_residual


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def f(x: jax.Array) -> jax.Array:
    """Smooth, and different in every variable."""
    return jnp.sin(x[0]) * x[1] + x[1] ** 2


@pytest.mark.parametrize("covariance", [[[1.0, 0.4], [0.4, 0.5]], [[1.0, 0.5], [0.5, 0.25]]])
def test_both_sides_agree_for_normals(covariance) -> None:
    found = stein_residual(MultivariateNormal([0.3, -1.0], covariance), f, jax.random.key(0))
    assert (np.abs(found.left - found.right) < 4 * found.error).all()
    assert (np.abs(found.left) > 4 * found.error).any()  # and not because both are zero


def test_the_exact_value_lies_within_the_error() -> None:
    found = stein_residual(Normal(1.0, 2.0), lambda x: x**2, jax.random.key(1))
    assert float(found.right) == pytest.approx(8, abs=0.5)
    assert abs(float(found.left - found.right)) < 4 * float(found.error)


def test_what_is_not_normal_is_told_apart() -> None:
    found = stein_residual(Laplace(0.0, 1.0), lambda x: x**3, jax.random.key(0), samples=20_000)
    assert abs(float(found.left - found.right)) > 4 * float(found.error)  # 24 against 12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda key: stein_residual(Normal([0.0, 1.0], 1.0), lambda x: x, key), r"batch shape \(2,\)"),
        (lambda key: stein_residual(MultivariateNormal([0.0], [[1.0]]), lambda x: x, key), "one number"),
        (lambda key: stein_residual(Normal(0.0, 1.0), lambda x: x, key, samples=1), "at least 2"),
    ],
)
def test_what_has_no_residual_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call(jax.random.key(0))
