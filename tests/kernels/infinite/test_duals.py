"""Mean products of activations: quadrature on quadrants, Price's theorem, published numbers, equal points."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.kernels.infinite import (
    Activate,
    Bell,
    Dense,
    ErrorFunction,
    ExponentialActivation,
    MonteCarlo,
    PolynomialActivation,
    Quadrature,
    Rectifier,
    Sine,
)
from chainrule.kernels.infinite.dual import DualActivation
from chainrule.kernels.infinite.names import ACTIVATIONS, activation_of
from tests.tiers import tiers

A, K, B = (np.array(v) for v in ([1.0, 0.7, 2.0, 1.5], [0.6, -0.5, 0.0, 1.1], [1.0, 1.3, 0.4, 1.0]))
NAMED = {name: make() for name, make in ACTIVATIONS.items()}
OWN = {
    "slopes": Rectifier(-0.3, 2.0),
    "erf of its own": ErrorFunction(0.5, 0.6, 0.5),
    "sine of its own": Sine(1.3, 0.8, 0.4),
    "polynomial": PolynomialActivation(0.5, -1.0, 0.25, 0.1),
    "fourth power": PolynomialActivation.monomial(4),
    "exponential": ExponentialActivation(0.7, 0.5),
    "bell": Bell(1.2, 0.4),
}
EVERY: dict[str, DualActivation] = {**NAMED, **OWN}


def on_quadrants(function: object, a: float, k: float, b: float, nodes: int = 80) -> float:
    """`E[s(u) s(v)]` by Gauss-Legendre on the four quadrants, in each of which the integrand is smooth."""
    points, weights = np.polynomial.legendre.leggauss(nodes)

    def axis(variance: float) -> tuple[np.ndarray, np.ndarray]:
        reach = 9 * np.sqrt(variance) / 2
        return np.concatenate([reach * (points - 1), reach * (points + 1)]), np.tile(reach * weights, 2)

    (u, wu), (v, wv) = axis(a), axis(b)
    determinant = a * b - k * k
    square = (b * u[:, None] ** 2 - 2 * k * u[:, None] * v[None] + a * v[None] ** 2) / determinant
    density = np.exp(-square / 2) / (2 * np.pi * np.sqrt(determinant))
    s = np.asarray(function(jnp.asarray(u)))  # type: ignore[operator]
    t = np.asarray(function(jnp.asarray(v)))  # type: ignore[operator]
    return float((s * wu) @ density @ (t * wv))


@pytest.mark.parametrize("name", EVERY)
def test_mean_products_are_those_of_quadrature_on_quadrants(name: str) -> None:
    activation = EVERY[name]
    own, slopes = eqx.filter_jit(activation.dual)(*map(jnp.asarray, (A, K, B)))
    slope = jax.vmap(jax.grad(activation.value))
    for i, pair in enumerate(zip(A, K, B, strict=True)):
        np.testing.assert_allclose(own[i], on_quadrants(activation.value, *pair), rtol=2e-6, atol=1e-8)
        if name not in ("step", "sign"):  # their derivative is a spike, which gradient descent does not see
            np.testing.assert_allclose(slopes[i], on_quadrants(slope, *pair), rtol=2e-6, atol=1e-8)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("step", "sign")])
def test_the_derivative_in_the_covariance_is_the_mean_product_of_slopes(name: str) -> None:
    activation = EVERY[name]

    def total(k: jax.Array) -> tuple[jax.Array, jax.Array]:
        own, slopes = activation.dual(jnp.asarray(A), k, jnp.asarray(B))
        return own.sum(), slopes

    derivative, slopes = jax.grad(total, has_aux=True)(jnp.asarray(K))
    np.testing.assert_allclose(derivative, slopes, rtol=1e-7, atol=1e-9)


def test_published_numbers() -> None:
    one = jnp.ones(())

    def at(name: str) -> float:
        return float(NAMED[name].dual(one, jnp.asarray(0.6), one)[0])

    assert at("tanh") == pytest.approx(0.225222, abs=5e-7)
    assert at("erf") == pytest.approx(0.261980, abs=5e-7)
    assert at("relu") == pytest.approx(0.33877, abs=5e-6)
    constants = {name: float(Activate(name, normalized=True).constant()) for name in ("relu", "tanh", "erf")}
    assert constants == pytest.approx({"relu": 2.0, "tanh": 2.53618, "erf": 2.15258}, abs=5e-6)


def test_the_plain_product_rule_is_poor_for_kinks_and_closed_forms_are_used_instead() -> None:
    z, w = np.polynomial.hermite_e.hermegauss(20)
    w = w / w.sum()
    v = 0.6 * z[:, None] + 0.8 * z[None]
    product = np.maximum(z, 0) * w @ np.maximum(v, 0) @ w
    assert product == pytest.approx(0.34191, abs=5e-6)
    for given in ("relu", jax.nn.relu, Rectifier()):
        assert activation_of("Dense", given) == Rectifier()
    with pytest.warns(ChainruleWarning, match="kink"):
        activation_of("Dense", lambda x: jnp.maximum(x, 0))


@pytest.mark.parametrize("name", tiers(NAMED, slow=set(NAMED) - {"relu", "erf", "tanh"}))
def test_equal_points_and_the_origin_have_finite_values_and_derivatives(name: str) -> None:
    network = Dense(1, NAMED[name], scaled_inputs=True)
    x = jnp.array([[1.0, 0.0, 0.5], [1.0, 0.0, 0.5], [0.0, 0.0, 0.0]])

    @jax.jit
    def value_and_gradient(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.value_and_grad(lambda x: network.ntk(x, jax.lax.stop_gradient(x)).sum())(x)

    value, gradient = value_and_gradient(x)
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()


@pytest.mark.filterwarnings("ignore:Quadrature")
def test_expansions_give_positive_semi_definite_matrices_and_exact_variances() -> None:
    x = np.random.default_rng(0).normal(size=(30, 3))
    rough = Quadrature(jnp.tanh, terms=6)  # far too few: the matrix is still one of a kernel
    for kernel in Dense(2, rough).both(x):
        values = np.linalg.eigvalsh(kernel)
        assert values[0] > -1e-12 * values[-1]
    z, w = np.polynomial.hermite_e.hermegauss(120)
    for variance in (0.5, 1.7):
        exact = np.tanh(np.sqrt(variance) * z) ** 2 @ w / w.sum()
        np.testing.assert_allclose(rough.second_moment(jnp.asarray(variance)), exact, rtol=1e-8)


def test_expansions_of_saturated_units_lose_few_digits() -> None:
    a, k = jnp.asarray(25.0), jnp.asarray(23.75)
    own, slopes = NAMED["tanh"].dual(a, k, a)
    np.testing.assert_allclose(own, on_quadrants(np.tanh, 25.0, 23.75, 25.0, 200), rtol=1e-4)
    np.testing.assert_allclose(
        slopes, on_quadrants(lambda u: 1 - np.tanh(u) ** 2, 25.0, 23.75, 25.0, 200), rtol=0.01
    )


def test_draws_agree_with_the_closed_form_within_their_error() -> None:
    drawn = MonteCarlo(lambda x: jnp.maximum(x, 0), jax.random.key(0), draws=20_000)
    own, slopes = eqx.filter_jit(drawn.dual)(*map(jnp.asarray, (A, K, B)))
    exact, exact_slopes = Rectifier().dual(*map(jnp.asarray, (A, K, B)))
    np.testing.assert_allclose(own, exact, atol=4 * 2.0 / np.sqrt(20_000))
    np.testing.assert_allclose(slopes, exact_slopes, atol=4 * 0.5 / np.sqrt(20_000))
    turned, _ = eqx.filter_jit(drawn.dual)(*map(jnp.asarray, (B, K, A)))
    np.testing.assert_allclose(turned, own, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dense(2, "rely"), "did you mean 'relu'"),
        (lambda: Dense(2, 3), "a name, an activation or a function"),
        (lambda: Dense(-1), "depth"),
        (lambda: Dense(1, weight_std=-1.0), "weight_std is -1"),
        (lambda: Quadrature(jnp.tanh, terms=1), "terms"),
        (lambda: PolynomialActivation(), "coefficients"),
        (lambda: Bell(rate=0.0), "rate must be positive"),
    ],
)
def test_what_is_no_activation_is_named(make: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()  # type: ignore[operator]
