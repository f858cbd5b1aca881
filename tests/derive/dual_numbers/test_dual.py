"""Dual numbers: the laws of their arithmetic, the functions they know, and nesting without confusion."""

import math
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given

import chainrule as cr
from chainrule.core.errors import ArgumentError
from chainrule.derive.dual_numbers import elementary
from chainrule.derive.dual_numbers.dual import Dual, primal_of

derivative, hyperdual, lift = cr.derive.derivative, cr.derive.hyperdual, cr.derive.lift
numbers = st.floats(-4.0, 4.0).map(lambda x: round(x, 3))
pairs = st.tuples(numbers, numbers)
quadruples = st.tuples(pairs, pairs)


def deep(x: Any) -> Any:
    """A dual of duals from pairs of pairs. (Made in the test: what runs inside a strategy must not use randomness.)"""
    return Dual(deep(x[0]), deep(x[1])) if isinstance(x, tuple) else x


def parts(x: Any) -> list[float]:
    return [*parts(x.primal), *parts(x.tangent)] if isinstance(x, Dual) else [float(x)]


def same(x: Any, y: Any) -> None:
    np.testing.assert_allclose(parts(x), parts(y), rtol=1e-9, atol=1e-9)


def test_the_product_of_the_book() -> None:
    product = cr.derive.Dual(2.0, 3.0) * cr.derive.Dual(4.0, 5.0)
    assert (product.primal, product.tangent) == (8.0, 22.0)
    quotient = Dual(2.0, 3.0) / Dual(4.0, 5.0)
    assert (quotient.primal, quotient.tangent) == (0.5, (3 * 4 - 2 * 5) / 16)


@given(a=pairs, b=pairs, c=pairs)
def test_dual_numbers_are_a_commutative_ring(a: Any, b: Any, c: Any) -> None:
    a, b, c = map(deep, (a, b, c))
    same((a + b) + c, a + (b + c))
    same(a + b, b + a)
    same((a * b) * c, a * (b * c))
    same(a * b, b * a)
    same(a * (b + c), a * b + a * c)
    same(a + 0, a)
    same(a * 1, a)
    same(a - a, Dual(0.0, 0.0))
    same(a - b, a + (-b))
    same(+a, a)


@given(a=quadruples, b=quadruples, c=quadruples)
def test_so_are_duals_of_duals(a: Any, b: Any, c: Any) -> None:
    a, b, c = map(deep, (a, b, c))
    same((a * b) * c, a * (b * c))
    same(a * b, b * a)
    same(a * (b + c), a * b + a * c)


@given(t=numbers)
def test_epsilon_squares_to_nothing(t: float) -> None:
    same(Dual(0.0, t) * Dual(0.0, t), Dual(0.0, 0.0))


@given(a=pairs, b=pairs)
def test_division_undoes_multiplication(a: Any, b: Any) -> None:
    a, b = map(deep, (a, b))
    assume(abs(b.primal) > 0.1)
    same(a * b / b, a)
    same(1.0 / b * b, Dual(1.0, 0.0))
    same(b / 2.0, 0.5 * b)


@given(a=pairs, n=st.integers(0, 5))
def test_powers_are_repeated_products(a: Any, n: int) -> None:
    a = deep(a)
    product: Any = Dual(1.0, 0.0)
    for _ in range(n):
        product = product * a
    same(a**n, product)


@given(x=numbers, c=numbers)
def test_mixing_with_numbers_from_either_side(x: float, c: float) -> None:
    a = Dual(x, 1.0)
    for left, right in ((a + c, c + a), (a * c, c * a), (a - c, -(c - a))):
        same(left, right)
    for other in (np.float64(c), np.asarray(c), jnp.asarray(c)):
        same(other * a, a * c)
        same(other - a, c - a)
        same(other + a, a + c)
        if abs(x) > 0.1:
            same(other / a, Dual(c / x, -c / x**2))


UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
    name: (getattr(np, name), getattr(jnp, name), at)
    for name, at in {
        "exp": 0.3, "log": 1.7, "sin": 0.4, "cos": 0.4, "tan": 0.5, "sinh": 0.6, "cosh": 0.6, "tanh": 0.7,
        "arctan": 0.8, "arcsin": 0.3, "arccos": 0.3, "sqrt": 2.0, "square": 1.5, "absolute": -1.5, "negative": 2.0,
        "log1p": 0.4, "expm1": 0.2, "sign": -2.0, "exp2": 0.3, "log2": 1.7, "log10": 1.7, "cbrt": 1.2, "arcsinh": 0.4,
        "arccosh": 1.6, "arctanh": 0.3, "reciprocal": 1.4, "deg2rad": 0.5, "rad2deg": 0.5, "radians": 0.5,
        "degrees": 0.5, "fabs": -0.5, "floor": 1.3, "ceil": 1.3, "trunc": -1.3, "rint": 1.3, "positive": 0.7,
    }.items()
}  # fmt: skip


@pytest.mark.parametrize("name", list(UNARY))
def test_numpy_functions_carry_the_derivatives_jax_has(name: str) -> None:
    ours, theirs, at = UNARY[name]
    y = ours(Dual(at, 2.0))
    assert y.primal == pytest.approx(float(theirs(at)), rel=1e-12)
    assert y.tangent == pytest.approx(2 * float(jax.grad(theirs)(at)), rel=1e-12)
    assert derivative(derivative(ours))(at) == pytest.approx(float(jax.grad(jax.grad(theirs))(at)), rel=1e-11)
    through_jax = lift(theirs)(Dual(at, 2.0))
    assert float(through_jax.tangent) == pytest.approx(y.tangent, rel=1e-12)
    on_arrays = ours(Dual(jnp.full(3, at), jnp.full(3, 2.0)))
    np.testing.assert_allclose(on_arrays.tangent, np.full(3, y.tangent), rtol=1e-12)


BINARY = {
    "arctan2": (0.7, -1.2),
    "hypot": (0.7, -1.2),
    "logaddexp": (0.3, 1.1),
    "logaddexp2": (0.3, 1.1),
    "power": (1.3, 0.7),
    "float_power": (1.3, 0.7),
    "maximum": (1.3, 0.7),
    "fmin": (1.3, 0.7),
    "copysign": (1.3, -0.7),
    "remainder": (-1.3, 0.7),
    "fmod": (-1.3, 0.7),
    "floor_divide": (1.3, 0.7),
    "heaviside": (1.3, 0.7),
}


@pytest.mark.parametrize("name", BINARY)
def test_numpy_functions_of_two_arguments_do_too(name: str) -> None:
    at, ours, theirs = BINARY[name], getattr(np, name), getattr(jnp, name)
    expected = [float(jax.grad(theirs, n)(*at)) if name != "copysign" or n == 0 else 0.0 for n in (0, 1)]
    found = [
        ours(Dual(at[0], 1.0), at[1]),
        ours(at[0], Dual(at[1], 1.0)),
        ours(Dual(at[0], 2.0), Dual(at[1], 3.0)),
    ]
    assert all(y.primal == pytest.approx(float(theirs(*at)), rel=1e-12) for y in found)
    wanted = [*expected, 2 * expected[0] + 3 * expected[1]]
    assert [y.tangent for y in found] == pytest.approx(wanted, rel=1e-12)
    inside = jax.jit(lambda x, y: ours(x, y))(Dual(jnp.full(2, at[0]), 1.0), Dual(jnp.full(2, at[1]), 0.0))
    np.testing.assert_allclose(inside.tangent, np.full(2, expected[0]), rtol=1e-12)


@pytest.mark.parametrize("name", ["median", "nansum"])
def test_a_function_duals_do_not_know_says_what_to_use_instead(name: str) -> None:
    with pytest.raises(TypeError, match=rf"dual numbers do not know np\.{name}; use derive\.lift"):
        getattr(np, name)(Dual(1.0, 1.0))
    with pytest.raises(TypeError, match=r"np\.add of dual numbers takes no dtype: leave it out"):
        np.add(Dual(1.0, 1.0), 1.0, dtype=np.float32)


@given(x=numbers, t=numbers)
def test_the_chain_rule_holds(x: float, t: float) -> None:
    f = lambda x: np.sin(x * x) * np.exp(-x) + x / (1.0 + x * x)  # noqa: E731
    g = lambda x: jnp.sin(x * x) * jnp.exp(-x) + x / (1.0 + x * x)  # noqa: E731
    y = f(Dual(x, t))
    value, slope = jax.jvp(g, (x,), (t,))
    assert y.primal == pytest.approx(float(value), rel=1e-9, abs=1e-9)
    assert y.tangent == pytest.approx(float(slope), rel=1e-9, abs=1e-9)


@given(x=st.floats(0.1, 3.0), y=st.floats(-2.0, 2.0))
def test_powers_with_moving_exponents(x: float, y: float) -> None:
    found = Dual(x, 1.0) ** Dual(y, 10.0)
    by_base, by_exponent = jax.grad(jnp.power, (0, 1))(x, y)
    assert found.tangent == pytest.approx(float(by_base + 10 * by_exponent), rel=1e-9, abs=1e-9)
    assert (2.0 ** Dual(y, 1.0)).tangent == pytest.approx(2.0**y * math.log(2.0), rel=1e-12)
    assert np.power(Dual(x, 1.0), 2.5).tangent == pytest.approx(2.5 * x**1.5, rel=1e-12)


def test_powers_at_zero_and_of_negative_numbers() -> None:
    same(Dual(0.0, 1.0) ** 0, Dual(1.0, 0.0))
    same(Dual(0.0, 1.0) ** 1, Dual(0.0, 1.0))
    same(Dual(0.0, 1.0) ** 2, Dual(0.0, 0.0))
    same(Dual(-2.0, 1.0) ** 3, Dual(-8.0, 12.0))
    same(0.0 ** Dual(2.0, 1.0), Dual(0.0, 0.0))
    # An exponent that is a dual number but does not move is a constant like any other.
    same(Dual(-2.0, 1.0) ** Dual(2.0, 0.0), Dual(4.0, -4.0))
    same(Dual(-2.0, 0.0) ** Dual(3.0, 0.0), Dual(-8.0, 0.0))
    same(Dual(0.0, 1.0) ** Dual(2.0, 1.0), Dual(0.0, 0.0))
    same(Dual(0.0, 1.0) ** Dual(1.0, 0.0), Dual(0.0, 1.0))
    same(Dual(0.0, 1.0) ** Dual(1.0, 5.0), Dual(0.0, 1.0))
    same(Dual(0.0, 0.0) ** Dual(0.0, 0.0), Dual(1.0, 0.0))
    base = Dual(np.array([-2.0, 0.0, 3.0]), np.ones(3))
    found = base ** Dual(np.array([2.0, 2.0, 2.0]), np.array([0.0, 1.0, 1.0]))
    np.testing.assert_allclose(found.tangent, [-4.0, 0.0, 6.0 + 9.0 * math.log(3.0)], rtol=1e-14)
    inside = jax.jit(lambda x, y: x**y)(Dual(jnp.asarray(-2.0), 1.0), Dual(jnp.asarray(2.0), 0.0))
    assert float(inside.tangent) == -4.0


def test_powers_nest_where_their_limits_are_zero() -> None:
    assert derivative(derivative(lambda x: x**2))(0.0) == 2.0
    assert derivative(derivative(lambda x: x ** Dual(2.0, 0.0)))(-3.0).primal == 2.0
    assert derivative(lambda y: derivative(lambda x: x**y)(0.0))(3.0) == 0.0
    assert derivative(lambda y: derivative(lambda x: x**y)(2.0))(0.0) == 0.5
    mixed = jax.grad(jax.grad(jnp.power, 0), 1)(1.7, 2.3)
    assert derivative(lambda y: derivative(lambda x: x**y)(1.7))(2.3) == pytest.approx(
        float(mixed), rel=1e-12
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Dual(0.0, 1.0) ** Dual(0.0, 1.0),
            "has no derivative at zero",
        ),
        (lambda: 0.0 ** Dual(0.0, 1.0), r"x\*\*y has no derivative at zero"),
        (lambda: Dual(-2.0, 1.0) ** Dual(2.0, 1.0), "moving exponent has no derivative where x is negative"),
        (lambda: Dual(0.0, 0.0) ** -1.0, r"x\*\*-1 is infinite at zero"),
        (lambda: np.arctan2(Dual(0.0, 1.0), 0.0), "arctan2 has no derivative at the origin"),
    ],
)
def test_powers_and_angles_without_a_derivative_say_so(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: Dual(1.0, 1.0) / Dual(0.0, 1.0),
        lambda: 1.0 / Dual(0.0, 1.0),
        lambda: Dual(Dual(1.0, 1.0), 1.0) / Dual(Dual(0.0, 1.0), 1.0),
        lambda: Dual(np.ones(2), np.ones(2)) / Dual(np.array([1.0, 0.0]), np.ones(2)),
        lambda: Dual(1.0, 1.0) / 0.0,
        lambda: np.float64(1.0) / Dual(0.0, 1.0),
    ],
)
def test_a_zero_real_part_has_no_inverse(call: Callable[[], Any]) -> None:
    with pytest.raises(ArgumentError, match="division by a dual number whose real part is zero"):
        call()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: np.sqrt(Dual(0.0, 1.0)), "sqrt"),
        (lambda: np.arcsin(Dual(1.0, 1.0)), "arcsin"),
        (lambda: Dual(0.0, 1.0) ** 0.5, "x**0.5"),
        (lambda: Dual(0.0, 1.0) ** -1, "x**-1"),
    ],
)
def test_a_vertical_tangent_is_refused(call: Callable[[], Any], name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert f"{name} has no derivative" in str(caught.value)


def test_the_classical_perturbation_confusion_is_none() -> None:
    assert derivative(lambda x: x * derivative(lambda y: x + y)(1.0))(1.0) == 1.0
    assert derivative(lambda x: x * derivative(lambda y: x * y)(2.0))(3.0) == 6.0
    inner = lambda x: derivative(lambda y: derivative(lambda z: x * y * z)(1.0))(1.0)  # noqa: E731
    assert derivative(lambda x: x * inner(x))(5.0) == 10.0


def test_closures_may_carry_duals_in_and_out() -> None:
    def outer(x: Any) -> Any:
        kept = []

        def remember(y: Any) -> Any:
            kept.append(x * y)
            return x * y * y

        slope = derivative(remember)(2.0)
        escaped = kept[0]  # still knows the inner ε, which means nothing out here
        return slope + 0 * primal_of(escaped, escaped.tag)

    assert derivative(outer)(3.0) == 4.0
    outside = Dual(10.0, 1.0)  # an ε of somebody else, lower than that of `derivative`
    same(derivative(lambda x: outside * x * x)(3.0), Dual(60.0, 6.0))
    above = Dual(10.0, 1.0, tag=10**9)  # and one that is higher
    same(derivative(lambda x: above * x * x)(3.0), Dual(60.0, 6.0))


def test_third_derivatives_nest() -> None:
    third = derivative(derivative(derivative(lambda x: x**4 + np.sin(x))))
    assert third(0.5) == pytest.approx(24 * 0.5 - math.cos(0.5), rel=1e-12)


def test_what_does_not_depend_on_the_point_has_slope_zero() -> None:
    assert derivative(lambda x: 3.0)(1.0) == 0.0
    assert derivative(lambda x: derivative(lambda y: x)(1.0))(1.0) == 0.0


def test_several_outputs_have_several_slopes() -> None:
    assert derivative(lambda x: {"a": x * x, "b": (x, 2.0)})(3.0) == {"a": 6.0, "b": (1.0, 0.0)}
    with pytest.raises(ArgumentError, match="derivative: the function returns function, not numbers"):
        derivative(lambda x: lambda y: x * y)(3.0)


@given(x=numbers, v=numbers, w=numbers)
def test_hyperdual_numbers_hold_four_derivatives(x: float, v: float, w: float) -> None:
    found = hyperdual(lambda x: np.exp(np.sin(x)) * x, x, v, w)
    f = lambda x: jnp.exp(jnp.sin(x)) * x  # noqa: E731
    slope, bend = float(jax.grad(f)(x)), float(jax.grad(jax.grad(f))(x))
    np.testing.assert_allclose(found, [float(f(x)), slope * v, slope * w, bend * v * w], rtol=1e-9, atol=1e-9)


def test_arrays_move_entry_by_entry() -> None:
    x = Dual(np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 1.0]))
    assert (x * x).sum().tangent == 8.0
    assert np.sum(x).tangent == 2.0
    assert x[0].tangent == 1.0
    assert [part.primal for part in x] == [1.0, 2.0, 3.0]
    assert [float(part.primal) for part in Dual(jnp.arange(3.0))] == [0.0, 1.0, 2.0]
    assert len(x) == 3
    A = np.arange(6.0).reshape(2, 3)
    assert (A @ x).tangent.tolist() == [2.0, 8.0]
    assert (x @ A.T).tangent.tolist() == [2.0, 8.0]
    assert (x @ x).tangent == 8.0
    assert derivative(np.sin)(np.zeros(3)).tolist() == [1.0, 1.0, 1.0]


def test_a_number_beside_an_array_moves_all_of_it() -> None:
    moved = Dual(2.0, 1.0) + np.ones(3)
    assert moved.tangent.tolist() == [1.0, 1.0, 1.0]
    assert moved.sum().tangent == 3.0
    assert Dual(np.ones(2)).tangent.tolist() == [0.0, 0.0]
    assert Dual(np.ones((2, 3)), 1.0).sum().tangent == 6.0
    with pytest.raises(ArgumentError, match=r"the tangent has shape \(3,\), the primal \(2,\)"):
        Dual(np.ones(2), np.ones(3))
    with pytest.raises(ArgumentError, match=r"the tangent has shape \(3,\), the primal \(\)"):
        Dual(1.0, np.ones(3))


def test_comparisons_look_at_values() -> None:
    small, large = Dual(1.0, 9.0), Dual(2.0, -9.0)
    assert small < large
    assert large >= small
    assert small == 1.0
    assert small != large
    assert Dual(Dual(1.0, 5.0), 7.0) <= 1.0
    assert np.float64(1.0) == small
    assert np.less(small, 3.0)
    assert not Dual(0.0, 1.0)
    assert bool(small)
    assert derivative(lambda x: x * x if x > 0 else -x)(3.0) == 6.0
    assert derivative(lambda x: x * x if x > 0 else -x)(-3.0) == -1.0


def test_the_larger_of_two_keeps_its_derivative_and_a_tie_is_shared() -> None:
    assert np.maximum(Dual(2.0, 3.0), 1.0).tangent == 3.0
    assert np.maximum(0.0, Dual(-2.0, 3.0)).tangent == 0.0
    assert np.minimum(Dual(2.0, 3.0), Dual(1.0, 5.0)).tangent == 5.0
    assert np.maximum(Dual(0.0, 1.0), 0.0).tangent == 0.5
    assert derivative(derivative(lambda x: np.maximum(x * x, 1.0)))(3.0) == 2.0


def test_lifted_functions_nest_like_any_other() -> None:
    bessel = lift(lambda x: jax.scipy.special.i0(x))
    expected = float(jax.grad(jax.grad(jax.scipy.special.i0))(0.7))
    assert float(derivative(derivative(bessel))(0.7)) == pytest.approx(expected, rel=1e-12)
    both = lift(jnp.arctan2)
    slope = derivative(lambda x: both(x, 2.0) * both(1.0, x))(0.5)
    expected = float(jax.grad(lambda x: jnp.arctan2(x, 2.0) * jnp.arctan2(1.0, x))(0.5))
    assert float(slope) == pytest.approx(expected, rel=1e-12)
    confusion = derivative(lambda x: x * derivative(lambda y: lift(jnp.add)(x, y))(1.0))(1.0)
    assert float(confusion) == 1.0


def test_lifted_functions_may_return_several_things_and_plain_numbers_stay_plain() -> None:
    sign, logdet = lift(jnp.linalg.slogdet)(Dual(2 * np.eye(2), np.eye(2)))
    assert float(logdet.tangent) == pytest.approx(1.0, rel=1e-12)
    assert float(sign.tangent) == 0.0
    assert float(lift(jnp.sin)(0.0)) == 0.0


def test_dual_numbers_pass_through_jax_transformations() -> None:
    f = jax.jit(lambda d: d * d + elementary.exp(d))
    y = f(Dual(jnp.asarray(1.0), jnp.asarray(2.0)))
    assert isinstance(y, Dual)
    assert float(y.tangent) == pytest.approx(2 * (2 + math.e), rel=1e-12)
    assert float(jax.grad(lambda x: (Dual(x, 1.0) ** 3).tangent)(2.0)) == pytest.approx(12.0)
    batched = jax.vmap(lambda d: d * d)(Dual(jnp.arange(3.0), jnp.ones(3)))
    assert batched.tangent.tolist() == [0.0, 2.0, 4.0]


def test_a_dual_number_shows_its_parts() -> None:
    assert repr(Dual(1.0, 2.0)) == "Dual(1.0, 2.0)"
    assert repr(Dual(Dual(1.0, 2.0), 3.0)) == "Dual(Dual(1.0, 2.0), 3.0)"
    assert repr(Dual(jnp.asarray(1.0), jnp.asarray(2.0))) == "Dual(1.0, 2.0)"


def both(f: Callable[[Any], Any], x: np.ndarray, v: np.ndarray) -> None:
    """A function of NumPy on duals of NumPy's and of JAX's arrays, also compiled, against JAX."""
    through_jax = lambda z: f(jnp, z)  # noqa: E731
    value, slope = jax.jvp(through_jax, (jnp.asarray(x),), (jnp.asarray(v),))
    on_jax = Dual(jnp.asarray(x), jnp.asarray(v))
    for found in (f(np, Dual(x, v)), f(np, on_jax), jax.jit(lambda d: f(np, d))(on_jax)):
        assert isinstance(found, Dual)
        assert isinstance(found.primal, np.ndarray | np.generic | jax.Array | float)
        np.testing.assert_allclose(found.primal, value, rtol=1e-12)
        np.testing.assert_allclose(found.tangent, slope, rtol=1e-12, atol=1e-15)
    bend = jax.jvp(lambda z: jax.jvp(through_jax, (z,), (jnp.asarray(v),))[1], (x,), (jnp.asarray(v),))[1]
    nested = f(np, Dual(Dual(x, v, 1), Dual(v, np.zeros_like(v), 1), 2))
    np.testing.assert_allclose(nested.tangent.tangent, bend, rtol=1e-12, atol=1e-12)


ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda np, x: np.where(x > 0.5, x * x, 3.0),
    "stack": lambda np, x: np.stack([x, x * x, 0.0 * x], axis=1),
    "stack of entries": lambda np, x: np.stack([x[0] * x[1], x[2]]),
    "concatenate": lambda np, x: np.concatenate([x, np.ones_like(x), x * x]),
    "hstack": lambda np, x: np.hstack([x, x**2]),
    "reshape": lambda np, x: np.reshape(x * x, (2, 3)).T.sum(0),
    "roll": lambda np, x: np.roll(x, 1) * x,
    "take": lambda np, x: np.take(x, np.asarray([0, 0, 3])) * x[2],
    "diff": lambda np, x: np.diff(x**2),
    "cumsum": lambda np, x: np.cumsum(x * x),
    "mean": lambda np, x: np.mean(x**3),
    "sum": lambda np, x: np.sum(np.reshape(x**3, (3, 2)), axis=0, keepdims=True),
    "prod": lambda np, x: np.prod(x),
    "cumprod": lambda np, x: np.cumprod(x),
    "max": lambda np, x: np.max(np.reshape(x * x, (3, 2)), axis=1),
    "sort": lambda np, x: np.sort(x * x),
    "clip": lambda np, x: np.clip(x * x, 0.1, 1.0),
    "dot": lambda np, x: np.dot(x, x * x),
    "outer": lambda np, x: np.outer(x, x),
    "einsum": lambda np, x: np.einsum("i,j,i->j", x, x, x),
    "pad": lambda np, x: np.pad(x * x, (1, 2)),
    "round": lambda np, x: np.round(10.0 * x, 1) * x,
    "norm": lambda np, x: np.linalg.norm(np.reshape(x, (3, 2)), axis=1) * np.linalg.norm(x),
    "split": lambda np, x: np.split(x * x, 2)[1],
    "vecdot": lambda np, x: np.vecdot(np.reshape(x, (3, 2)), np.reshape(x * x, (3, 2))),
    "matvec": lambda np, x: np.matvec(np.reshape(x, (3, 2)), x[:2] * x[0]),
    "vecmat": lambda np, x: np.vecmat(x[:3], np.reshape(x * x, (3, 2))),
    "vdot": lambda np, x: np.vdot(x, x * x),
    "var": lambda np, x: np.var(np.reshape(x, (3, 2)), axis=0) + np.std(x, ddof=1),
    "average": lambda np, x: np.average(x * x, weights=np.arange(6.0)),
    "trapezoid": lambda np, x: np.trapezoid(x * x, dx=0.1),
    "gradient": lambda np, x: np.gradient(x * x),
    "ptp": lambda np, x: np.ptp(x * x),
    "append": lambda np, x: np.append(x, x * x),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_numpys_array_functions_make_dual_arrays(name: str) -> None:
    rng = np.random.default_rng(0)
    both(ARRAYS[name], rng.uniform(0.2, 1.5, 6), rng.standard_normal(6))


def test_numbers_and_duals_of_several_levels_are_joined() -> None:
    joined = np.stack([Dual(1.0, 2.0), 3.0, np.float64(4.0)])
    assert isinstance(joined, Dual)
    assert joined.primal.tolist() == [1.0, 3.0, 4.0]
    assert joined.tangent.tolist() == [2.0, 0.0, 0.0]
    slope = derivative(lambda x: np.stack([x, derivative(lambda y: x * y * y)(3.0)]).sum())(2.0)
    assert slope == 7.0
    assert np.max(Dual(np.ones(3), np.array([1.0, 2.0, 6.0]))).tangent == 3.0
    assert np.where(Dual(1.0, 1.0) > 0, Dual(1.0, 5.0), 2.0).tangent == 5.0
    assert np.zeros_like(Dual(np.ones(2), 1.0)).tolist() == [0.0, 0.0]
    assert np.linalg.norm(Dual(np.zeros(2), np.ones(2))).tangent == 0.0
    same(7.0 // Dual(2.0, 1.0), Dual(3.0, 0.0))
    same(Dual(7.0, 1.0) % 2.0, Dual(1.0, 1.0))
    same(7.0 % Dual(2.0, 1.0), Dual(1.0, -3.0))


def test_arrays_of_objects_are_refused() -> None:
    for make in (lambda: np.array([Dual(1.0, 1.0), 2.0]), lambda: np.asarray(Dual(np.ones(2), 1.0))):
        with pytest.raises(TypeError, match=r"its derivative would be lost; join several with np\.stack"):
            make()


@pytest.mark.parametrize(
    "ufunc", [f for f in vars(np).values() if isinstance(f, np.ufunc)], ids=lambda ufunc: ufunc.__name__
)
def test_every_function_of_numpy_has_a_rule_or_a_reason(ufunc: Any) -> None:
    """Derivatives against differences, for all that takes floating-point numbers."""
    point = np.array([0.3, 0.7]) if ufunc is not np.arccosh else np.array([1.3, 1.7])
    fixed = [np.array([2, 3])] if ufunc is np.ldexp else [np.array([0.6, 1.9])] * (ufunc.nin - 1)
    matrix = np.array([[0.3, 0.7], [0.2, 0.9]])
    if ufunc.__name__ in ("vecmat", "matmul"):
        fixed = [matrix]
    if ufunc.__name__ in ("matvec", "matmul"):
        point = matrix
    if "e" not in "".join(ufunc.types) and "d" not in "".join(ufunc.types):
        with pytest.raises(TypeError, match="takes whole numbers"):
            ufunc(*[Dual(point, 1.0)] * ufunc.nin)
        return
    step = 1e-6
    found = ufunc(Dual(point, np.ones_like(point)), *fixed)
    above, below = ufunc(point + step, *fixed), ufunc(point - step, *fixed)
    parts = [found, above, below] if ufunc.nout > 1 else [[found], [above], [below]]
    for one, high, low in zip(*parts, strict=True):
        if isinstance(one, Dual):
            np.testing.assert_allclose(one.primal, (high + low) / 2, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(one.tangent, (high - low) / (2 * step), rtol=1e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(one, high)


def test_sinc_has_all_derivatives_also_at_zero_and_far_out() -> None:
    second = derivative(derivative(np.sinc))
    fourth = derivative(derivative(second))
    assert second(0.0) == pytest.approx(-(math.pi**2) / 3, rel=1e-14)
    assert fourth(0.0) == pytest.approx(math.pi**4 / 5, rel=1e-14)
    for x in (1e-9, 0.3, 0.63, 0.64, 2.0, 40.5):
        u = math.pi * x
        exact = math.pi**2 * (-math.sin(u) / u - 2 * math.cos(u) / u**2 + 2 * math.sin(u) / u**3)
        assert second(x) == pytest.approx(exact if x > 1e-3 else -(math.pi**2) / 3, rel=1e-11)


def test_reductions_are_sums_and_options_are_named() -> None:
    x = Dual(np.array([1.0, 2.0, 4.0]), np.ones(3))
    same(np.add.reduce(x), Dual(7.0, 3.0))
    same(np.multiply.reduce(x), Dual(8.0, 14.0))
    assert np.add.accumulate(x).tangent.tolist() == [1.0, 2.0, 3.0]
    same(np.maximum.reduce(x), Dual(4.0, 1.0))
    with pytest.raises(TypeError, match=r"do not know np\.add\.outer"):
        np.add.outer(x, x)
    with pytest.raises(TypeError, match=r"np\.sin of dual numbers takes no where: leave it out"):
        np.sin(x, where=np.array([True, False, True]))
    with pytest.raises(TypeError, match="the exponent is a whole number"):
        np.ldexp(1.0, Dual(2.0, 1.0))
