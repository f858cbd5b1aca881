"""Von Mises-Fisher distributions against Bessel functions of SciPy, numerical integrals and their own draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special

from chainrule.probability import von_mises_fisher as vmf

DRAW = np.random.default_rng(0)
CASES = [
    (2, 0.5),
    (2, 50.0),
    (3, 2.0),
    (3, 1000.0),
    (8, 0.1),
    (8, 20.0),
    (50, 50.0),
    (50, 20_000.0),
    (200, 3.0),
]
ANGLE = jax.jit(vmf.angle, static_argnums=1)


def mean_length(size: int, kappa: float) -> float:
    return special.ive(size / 2, kappa) / special.ive(size / 2 - 1, kappa)


def log_normaliser(size: int, kappa: float) -> float:
    """`log C` in `C exp(κ (cos t - 1))`, from the exponentially scaled Bessel function."""
    order = size / 2 - 1
    return order * np.log(kappa) - size / 2 * np.log(2 * np.pi) - np.log(special.ive(order, kappa))


@pytest.mark.parametrize(("size", "kappa"), CASES)
def test_moments_normalisers_and_divergences_are_those_of_bessel_functions(size: int, kappa: float) -> None:
    """In single precision, also where a Bessel function itself would overflow."""
    found = ANGLE(jnp.float32(kappa), size)
    length = mean_length(size, kappa)
    assert 1 - float(found.below) == pytest.approx(length, rel=2e-5, abs=2e-6)
    along = 1 - length**2 - (size - 1) * length / kappa
    assert float(found.variance) == pytest.approx(along, rel=2e-3, abs=1e-9)
    inner = -float(found.log_integral) - vmf.log_area(size - 1)
    expected = log_normaliser(size, kappa)
    assert inner == pytest.approx(expected, rel=1e-5, abs=2e-5)
    exact = expected - kappa * (1 - length) + vmf.log_area(size)
    kl = float(jax.jit(vmf.divergence_from_uniform, static_argnums=1)(jnp.float32(kappa), size))
    assert kl == pytest.approx(exact, rel=1e-4, abs=3e-5)


def test_the_divergence_is_the_integral_it_stands_for_and_its_slope_is_right() -> None:
    size, kappa = 5, 3.0

    def density(t: float) -> float:
        return float(np.exp(kappa * np.cos(t)) * np.sin(t) ** (size - 2))

    total = integrate.quad(density, 0, np.pi)[0]
    flat = integrate.quad(lambda t: np.sin(t) ** (size - 2), 0, np.pi)[0]
    exact = integrate.quad(
        lambda t: density(t) / total * (np.log(density(t) / total) - np.log(np.sin(t) ** (size - 2) / flat)),
        1e-9,
        np.pi,
    )[0]
    found = jax.jit(jax.value_and_grad(lambda k: vmf.divergence_from_uniform(k, size)))(jnp.float32(kappa))
    assert float(found[0]) == pytest.approx(exact, rel=1e-5)
    # d KL / d κ = κ Var(cos t)
    assert float(found[1]) == pytest.approx(kappa * float(ANGLE(jnp.float32(kappa), size).variance), rel=1e-4)


@pytest.mark.parametrize("size", [2, 3, 16])
def test_draws_have_length_one_the_right_moments_and_the_slope_of_their_mean(size: int) -> None:
    kappa, count = 6.0, 20_000
    mean = DRAW.normal(size=size)
    mean /= np.linalg.norm(mean)
    noise = jnp.asarray(DRAW.normal(size=(count, size)), jnp.float32)
    several = jnp.broadcast_to(jnp.asarray(mean, jnp.float32), (count, size))

    def along(kappa: jax.Array) -> tuple[jax.Array, jax.Array]:
        z = vmf.draw(several, jnp.broadcast_to(kappa, (count,)), noise)
        return (z @ jnp.asarray(mean, jnp.float32)).mean(), z

    (cosine, z), slope = jax.jit(jax.value_and_grad(along, has_aux=True))(jnp.float32(kappa))
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1, atol=1e-5)
    found = ANGLE(jnp.float32(kappa), size)
    spread = float(np.sqrt(found.variance / count))
    assert abs(float(cosine) - mean_length(size, kappa)) < 5 * spread + 1e-4
    np.testing.assert_allclose(np.asarray(z).mean(axis=0), mean_length(size, kappa) * mean, atol=0.02)
    # d E cos t / d κ is the variance of cos t, whichever way codes are drawn.
    assert float(slope) == pytest.approx(float(found.variance), rel=0.05)
    log_probs = np.asarray(jax.jit(vmf.log_prob)(several, jnp.full(count, kappa), z), np.float64)
    exact = float(vmf.divergence_from_uniform(jnp.float32(kappa), size))
    assert log_probs.mean() + vmf.log_area(size) == pytest.approx(
        exact, abs=5 * log_probs.std() / np.sqrt(count) + 1e-3
    )
