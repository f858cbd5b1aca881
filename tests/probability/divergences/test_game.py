"""The game of generator and discriminator against numbers by hand, the identity with Jensen-Shannon, and SciPy."""

import math
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability import Categorical, Normal, Uniform, transport
from chainrule.probability import divergences as d
from chainrule.probability.divergences import game

P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
GRID = np.linspace(-16, 18, 4001)
NORMALS = scipy.stats.norm.pdf(GRID), scipy.stats.norm.pdf(GRID, 1, 2)


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_three_outcomes_have_the_known_discriminator_and_value() -> None:
    best = game.optimal_discriminator(P, Q)
    np.testing.assert_allclose(best, [5 / 7, 3 / 5, 1 / 4], atol=1e-12)
    assert float(game.value(P, Q)) == pytest.approx(-1.2051627, abs=1e-7)
    assert float(game.jensen_shannon(P, Q)) == pytest.approx(0.0905658, abs=1e-7)
    assert float(game.value(P, Q)) == pytest.approx(2 * float(d.js(P, Q)) - 2 * math.log(2), abs=1e-12)
    assert float(game.value(P, Q, best)) == pytest.approx(float(game.value(P, Q)), abs=1e-12)


def test_every_other_discriminator_has_less() -> None:
    random = np.random.default_rng(0)
    others = np.clip(np.array([5 / 7, 3 / 5, 1 / 4]) + random.normal(scale=0.1, size=(100, 3)), 1e-3, 0.999)
    values = np.asarray(jax.jit(lambda other: game.value(P, Q, other))(others))
    assert (values < float(game.value(P, Q))).all()
    slopes = jax.grad(lambda given: game.value(P, Q, given))(game.optimal_discriminator(P, Q))
    np.testing.assert_allclose(slopes, 0, atol=1e-12)


def test_equal_laws_leave_the_discriminator_undecided() -> None:
    np.testing.assert_allclose(game.optimal_discriminator(P, P), 0.5)
    assert float(game.value(P, P)) == pytest.approx(-2 * math.log(2), abs=1e-15)


def test_smoothed_labels_shrink_the_optimum() -> None:
    best = game.optimal_discriminator(P, Q, real_target=0.9)
    np.testing.assert_allclose(best, [9 / 14, 0.54, 0.225], atol=1e-12)
    slopes = jax.grad(lambda given: game.value(P, Q, given, real_target=0.9))(best)
    np.testing.assert_allclose(slopes, 0, atol=1e-12)
    both = game.value(Categorical(P), Categorical(Q), real_target=0.9), game.value(P, Q, real_target=0.9)
    assert float(both[0]) == pytest.approx(float(both[1]), abs=1e-12)


def test_densities_on_a_grid_and_distributions_agree() -> None:
    p, q = Normal(0.0, 1.0), Normal(1.0, 2.0)
    assert float(game.jensen_shannon(*NORMALS, at=GRID)) == pytest.approx(0.1281750, abs=1e-7)
    on_grid, exact = game.value(*NORMALS, at=GRID), game.value(p, q)
    assert float(on_grid) == pytest.approx(float(exact), abs=1e-9)
    assert float(exact) == pytest.approx(2 * 0.12817500 - 2 * math.log(2), abs=1e-7)
    best = game.optimal_discriminator(p, q, at=GRID)
    np.testing.assert_allclose(best, game.optimal_discriminator(*NORMALS, at=GRID), atol=1e-12)
    half = game.value(p, q, lambda x: jnp.full_like(x, 0.5), at=GRID)
    assert float(half) == pytest.approx(-2 * math.log(2), abs=1e-9)
    assert float(game.value(p, q, np.asarray(best), at=GRID)) == pytest.approx(float(exact), abs=1e-9)


def test_the_value_is_minus_twice_the_balanced_cross_entropy() -> None:
    decisions = np.array([0.6, 0.5, 0.3])
    labels, chances = np.array([1.0, 0.0]), np.stack([P, Q]) / 2
    entropy = -(
        chances * (labels[:, None] * np.log(decisions) + (1 - labels[:, None]) * np.log1p(-decisions))
    )
    assert float(game.value(P, Q, decisions)) == pytest.approx(-2 * entropy.sum(), abs=1e-12)


@pytest.mark.parametrize("gap", [0.1, 1.0, 30.0])
def test_laws_with_nothing_in_common_have_log_two_at_every_gap(gap) -> None:
    p, q = Uniform(0.0, 1.0), Uniform(1.0 + gap, 2.0 + gap)
    assert float(game.jensen_shannon(p, q)) == pytest.approx(math.log(2), abs=1e-9)
    assert float(game.value(p, q)) == pytest.approx(0, abs=1e-9)
    points = np.arange(5.0)
    assert float(transport.wasserstein_1d(points, points + gap)) == pytest.approx(gap, abs=1e-12)
    assert float(d.js([1.0, 0.0], [0.0, 1.0])) == pytest.approx(math.log(2), abs=1e-15)


def test_a_sure_discriminator_leaves_the_saturating_gradient_nothing() -> None:
    saturating, other = map(float, game.generator_slopes(-8.0))
    assert saturating == pytest.approx(3.353501e-4, rel=1e-6)
    assert other == pytest.approx(0.9996646, abs=1e-7)
    assert other / saturating == pytest.approx(2980.958, rel=1e-6)
    # What automatic differentiation of both losses gives.
    assert abs(float(jax.grad(lambda a: -jax.nn.softplus(a))(-8.0))) == pytest.approx(saturating, rel=1e-12)
    assert abs(float(jax.grad(lambda a: jax.nn.softplus(-a))(-8.0))) == pytest.approx(other, rel=1e-12)


def test_a_shifting_generator_stays_below_the_bound_on_its_gradient() -> None:
    """G = theta + z, whose Jacobian is 1; discriminators within eps of a perfect one, value and slope, on all fakes."""
    eps = 0.01
    bound = float(game.gradient_bound(eps))
    assert bound == pytest.approx(1.02030e-4, rel=1e-5)
    z = np.random.default_rng(0).normal(size=1000)

    @jax.jit
    def square(theta: jax.Array, height: jax.Array, rate: jax.Array) -> jax.Array:
        def loss(theta: jax.Array) -> jax.Array:
            decisions = eps * (1 + height * jnp.sin(rate * (theta + z))) / 2
            return jnp.log1p(-decisions).mean()

        return jnp.square(jax.grad(loss)(theta))

    squares = [float(square(0.3, height, rate)) for height in (0.0, 0.5, 1.0) for rate in (0.1, 1.0, 2.0)]
    assert max(squares) <= bound
    # D = eps everywhere but rising at the steepest slope allowed, for which the bound is all but reached.
    steep = jax.grad(lambda theta: jnp.log1p(-(eps + eps * theta)))(0.0)
    assert float(steep) ** 2 == pytest.approx(bound, rel=1e-12)
    assert math.isinf(float(game.gradient_bound(1.0)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: game.value(P, [0.2, 0.2, 0.5]), r"q sums to 0\.9 instead of 1\n.*normalize=True"),
        (lambda: game.optimal_discriminator([0.5, 0.3, 0.3], Q), r"p sums to 1\.1 instead of 1"),
        (
            lambda: game.jensen_shannon(NORMALS[0] * 2, NORMALS[1], at=GRID),
            r"p integrates to 2 over the grid instead of 1\n.*normalize=True",
        ),
        (lambda: game.value(NORMALS[0], -NORMALS[1], at=GRID), "q holds -0.199.*not negative"),
        (lambda: game.value(*NORMALS, at=GRID[:7]), r"p\): shape \(4001,\), for a grid of 7"),
        (lambda: game.value(*NORMALS, at=GRID[::-1]), "increasing positions"),
        (lambda: game.value(P, Q, [0.5, 0.5, 1.5]), r"discriminator\[2\] is 1\.5"),
        (lambda: game.value(P, Q, [0.5, 0.5]), r"of shape \(2,\)"),
        (lambda: game.value(P, Q, real_target=0.0), "real_target=0.0"),
        (lambda: game.value(Normal(0.0, 1.0), P), "two distributions, or two arrays"),
        (lambda: game.optimal_discriminator(Normal(0.0, 1.0), Normal(1.0, 1.0)), "say where"),
        (lambda: game.value(Normal(0.0, 1.0), Normal(1.0, 1.0), lambda x: x), "on a grid"),
        (lambda: game.value(P, Q, lambda x: x), "at=x"),
    ],
)
def test_what_is_no_game_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_densities_are_checked_inside_compiled_functions_too() -> None:
    with pytest.raises(Exception, match="p is no density on the grid"):
        eqx.filter_jit(lambda p: game.value(p, NORMALS[1], at=GRID))(jnp.asarray(NORMALS[0] * 2))
