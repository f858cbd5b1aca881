"""Descent and its relatives against the theorems, closed forms and each other."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain.methods import descent as d
from chainrule.explain.methods.stochastic import stochastic_descent

START = np.array([1.0, 1.0])
HESSIAN = np.diag([1.0, 100.0])


def bowl(x: jax.Array) -> jax.Array:
    return (x[0] ** 2 + 100 * x[1] ** 2) / 2


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_gradient_descent_keeps_all_three_bounds() -> None:
    path = d.descent(bowl, jnp.array(START), 0.01)
    assert path.values[-1] == pytest.approx(0.066990, abs=1e-6)
    assert path.bounds["convex"][-1] == pytest.approx(1.0)
    assert path.bounds["strongly convex"][-1] == pytest.approx(18.4846, abs=1e-4)
    assert path.smoothness == pytest.approx(100)
    assert path.convexity == pytest.approx(1)
    assert path.violated == {}
    np.testing.assert_allclose(path.minimizer, 0, atol=1e-6)
    np.testing.assert_allclose(path.points[1], [0.99, 0], atol=1e-12)


def test_nesterov_and_the_heavy_ball_are_faster() -> None:
    accelerated = d.nesterov(bowl, jnp.array(START), 0.01, minimizer=[0, 0])
    assert accelerated.values[-1] == pytest.approx(5.1435e-6, rel=1e-4)
    assert accelerated.bounds["convex, accelerated"][-1] == pytest.approx(0.0392, abs=1e-4)
    assert accelerated.violated == {}
    ball = d.momentum(bowl, jnp.array(START), 0.0330579, 0.669421, minimizer=[0, 0])
    assert ball.values[-1] == pytest.approx(6.2e-12, rel=0.02)


def test_the_average_form_of_momentum_is_the_sum_form_at_a_smaller_rate() -> None:
    average = d.momentum(bowl, jnp.array(START), 0.02, 0.8, 30, form="average", minimizer=[0, 0])
    total = d.momentum(bowl, jnp.array(START), 0.02 * 0.2, 0.8, 30, minimizer=[0, 0])
    np.testing.assert_allclose(average.points, total.points, atol=1e-12)
    ahead = d.momentum(bowl, jnp.array(START), 0.004, 0.8, 1, look_ahead=True, minimizer=[0, 0])
    np.testing.assert_allclose(ahead.points[1], START - 0.004 * 1.8 * HESSIAN @ START)


def test_a_step_that_is_too_long_breaks_the_bound_and_is_caught() -> None:
    path = d.descent(bowl, jnp.array(START), 0.0201, minimizer=[0, 0], smoothness=100.0, convexity=1.0)
    assert path.violated["convex"] > 0
    assert "descent lemma" not in path.violated  # it allows growth beyond 2/L


@pytest.mark.parametrize(("lr", "steps"), [(0.0206, 100), (0.0251, 100), (1.0, 200)])
def test_a_path_that_flies_off_breaks_the_bound_at_the_step_that_does(lr, steps) -> None:
    path = d.descent(bowl, jnp.array(START), lr, steps)  # nothing known: the minimum is searched for
    assert path.gaps[min(steps, 77)] > 1e4
    np.testing.assert_allclose(path.minimizer, 0, atol=1e-6)
    t = np.arange(1, steps + 1)
    with np.errstate(over="ignore"):
        gaps = ((1 - lr) ** (2 * t) + 100 * (1 - 100 * lr) ** (2 * t)) / 2
    assert path.violated["convex"] == 1 + int((gaps > 2 / (2 * lr * t) * (1 + 1e-6)).argmax())


def test_a_path_that_leaves_where_the_function_is_defined_breaks_the_bound_there() -> None:
    path = d.descent(lambda x: (x - jnp.log(x)).sum(), jnp.array([3.0]), 5.0, 3, minimizer=[1.0])
    assert path.points[1, 0] == pytest.approx(-1 / 3)
    assert path.is_finite.tolist() == [True, False, False, False]
    assert path.violated == {"descent lemma": 1, "convex": 1}
    with pytest.raises(ArgumentError, match=r"at the first point \[-1.0\] the function is nan"):
        d.descent(lambda x: jnp.log(x).sum(), [-1.0], 0.1)


def test_noisy_descent_that_flies_off_breaks_its_bound() -> None:
    path = stochastic_descent(
        lambda x: (x**4).sum(), jnp.ones(1), 3.0, 20, noise=0.1, minimizer=jnp.zeros(1), key=jax.random.key(0)
    )
    assert not np.isfinite(path.average_gaps[-1])
    assert path.is_violated


def test_a_list_of_numbers_is_a_point_too() -> None:
    given = d.descent(bowl, [1, 1], 0.01, 5, minimizer=[0, 0])
    np.testing.assert_array_equal(
        given.points, d.descent(bowl, jnp.array(START), 0.01, 5, minimizer=[0, 0]).points
    )
    assert d.curvature(bowl, [1, 1])[0] == pytest.approx(100)


def test_a_function_that_is_not_convex_breaks_the_bound_and_shows_its_curvature() -> None:
    def well(x: jax.Array) -> jax.Array:
        return (x[0] ** 2 - 1) ** 2 / 4 + 0.3 * x[0] + x[1] ** 2

    path = d.descent(well, jnp.array([1.2, 0.5]), 0.02, 400, minimizer=[-1.1254, 0.0])
    assert path.convexity < path.smoothness
    assert "convex" in path.violated


def test_ascent_is_descent_of_the_negative() -> None:
    up = d.descent(lambda x: 3 - bowl(x), jnp.array(START), 0.01, 20, maximize=True)
    down = d.descent(bowl, jnp.array(START), 0.01, 20)
    np.testing.assert_allclose(up.points, down.points)
    np.testing.assert_allclose(up.values, 3 - down.values)
    np.testing.assert_allclose(up.gaps, down.gaps, atol=1e-9)


def test_curvature_of_a_saddle() -> None:
    top, bottom = d.curvature(lambda x: x[0] ** 2 - 3 * x[1] ** 2, jnp.array([0.3, 0.2]))
    assert (top, bottom) == (pytest.approx(2), pytest.approx(-6))


def test_adagrad_moves_by_the_sum_of_inverse_roots() -> None:
    path, _, _ = d.adagrad(lambda x: x.sum(), jnp.zeros(1), 0.1, 100, minimizer=[-1.0])
    assert -path.points[-1, 0] == pytest.approx(0.1 * 18.5896, abs=1e-5)
    assert -path.points[-1, 0] <= 0.1 * 20


@pytest.mark.parametrize("full_matrix", [False, True], ids=["diagonal", "full matrix"])
def test_the_regret_of_adagrad_stays_below_its_bound(full_matrix) -> None:
    turned = jnp.array([[2.0, 1.5], [1.5, 3.0]])
    path, regret, bound = d.adagrad(
        lambda x: x @ turned @ x / 2,
        jnp.array([1.0, -2.0]),
        0.7,
        200,
        full_matrix=full_matrix,
        minimizer=[0, 0],
    )
    assert 0 < regret <= bound
    average = path.points[:-1].mean(axis=0)
    assert average @ np.asarray(turned) @ average / 2 <= bound / 200


def test_the_right_preconditioner_needs_one_step() -> None:
    path = d.preconditioned(bowl, jnp.array(START), jnp.array(HESSIAN), minimizer=[0, 0])
    assert path.values[-1] == pytest.approx(0, abs=1e-20)


def test_weight_decay_shrinks_along_eigendirections_and_descent_finds_it() -> None:
    found = d.decayed_minimizer([[1, 0], [0, 10]], [1, 1], 1.0)
    np.testing.assert_allclose(found, [0.5, 0.909091], atol=1e-6)
    h = jnp.diag(jnp.array([1.0, 10.0]))
    path = d.descent(lambda x: (x - 1) @ h @ (x - 1) / 2 + (x @ x) / 2, jnp.array([3.0, -2.0]), 0.09, 300)
    np.testing.assert_allclose(path.points[-1], found, atol=1e-9)
    np.testing.assert_allclose(path.minimizer, found, atol=1e-6)


def test_arguments_that_make_no_sense_are_refused() -> None:
    for call, message in (
        (lambda: d.descent(bowl, jnp.array(START), 0.0), "both must be positive"),
        (lambda: d.descent(bowl, jnp.array(START), 0.1, 0), "both must be positive"),
        (
            lambda: d.momentum(bowl, jnp.array(START), 0.1, 0.9, form="mean"),
            'form must be "sum" or "average"',
        ),
        (lambda: d.nesterov(bowl, jnp.array(START), 0.1, optimum=[0, 0]), "unknown argument 'optimum'"),
        (lambda: d.descent(bowl, [[1.0, 1.0]], 0.1), r"shape \(1, 2\) and type float64: it must be a vector"),
        (lambda: d.nesterov(bowl, [1j, 0], 0.1), "must be a vector of real numbers"),
        (lambda: d.preconditioned(bowl, START, HESSIAN[:1]), r"matrix of shape \(1, 2\)"),
        (lambda: d.adagrad(lambda x: x.sum(), jnp.zeros(501), 0.1, full_matrix=True), "501 entries"),
    ):
        with pytest.raises(ArgumentError, match=message):
            call()


def test_the_average_of_noisy_descent_keeps_its_bound_and_falls_with_the_root() -> None:
    gaps = []
    for steps in (100, 1600):
        found = stochastic_descent(
            lambda x: (x**2).sum() / 2,
            jnp.array([1.0, -1.0]),
            float(2**0.5 / (3 * steps**0.5)),
            steps,
            noise=2.0,
            minimizer=jnp.zeros(2),
            key=jax.random.key(0),
        )
        assert not found.is_violated
        gaps.append(found.bounds[-1])
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.1)  # sixteen times the steps
    with pytest.raises(ArgumentError, match="noise=-1"):
        stochastic_descent(
            lambda x: x.sum(), jnp.zeros(1), 0.1, 5, noise=-1.0, minimizer=jnp.zeros(1), key=jax.random.key(0)
        )
