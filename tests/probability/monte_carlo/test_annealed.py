"""Annealed importance sampling: moves that keep a density, weights whose mean is its normalisation."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability.monte_carlo import (
    AnnealedDraws,
    annealed_importance_sampling,
    hamiltonian_move,
    weight_report,
)


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_a_move_keeps_a_density_that_is_not_gaussian() -> None:
    """Logistic draws stay logistic, also with steps so long that many are refused."""
    draws = np.random.default_rng(0).logistic(size=20_000)
    move = hamiltonian_move(3.0, 3)

    @jax.jit
    def moved(z: jax.Array) -> jax.Array:
        keys = jax.random.split(jax.random.key(0), len(z))
        return jax.vmap(lambda key, z: move(key, z, jax.scipy.stats.logistic.logpdf))(keys, z)

    after = np.asarray(moved(jnp.asarray(draws)))
    assert 0.05 < (after == draws).mean() < 0.9
    expected = [math.log(3), 0.0, -math.log(3)]  # quartiles
    assert np.quantile(after, [0.75, 0.5, 0.25]) == pytest.approx(expected, abs=0.06)
    assert after.var() == pytest.approx(math.pi**2 / 3, rel=0.05)


def test_the_mean_weight_is_the_normalisation_of_two_far_modes() -> None:
    """exp(-2 (|z| - 3)²), doubled in height on one side: plain weights from N(0, 1) hardly reach it."""
    chains = 400
    start = np.random.default_rng(1).normal(size=chains)

    def target(z: jax.Array) -> jax.Array:
        return -2 * jnp.square(jnp.abs(z) - 3) + jnp.where(z > 0, math.log(2), 0.0)

    @jax.jit
    def run(start: jax.Array) -> AnnealedDraws:
        return annealed_importance_sampling(
            start, jax.scipy.stats.norm.logpdf, target, hamiltonian_move(0.2, 5), jax.random.key(0), steps=100
        )

    ends = run(jnp.asarray(start))
    report = weight_report(np.asarray(ends.log_weights))
    # Three times the integral of one mode, of which hardly anything lies on the other side of zero.
    assert abs(report.log_mean - math.log(3 * math.sqrt(math.pi / 2))) < 4 * report.standard_error
    assert report.standard_error < 0.1
    assert np.abs(np.abs(np.asarray(ends.z)) - 3).mean() < 0.6


def test_steps_that_cannot_be_taken_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"step_size=-1\): it must be above zero"):
        hamiltonian_move(-1)
    with pytest.raises(ArgumentError, match="steps must be a whole number of at least 1"):
        annealed_importance_sampling(
            jnp.zeros(2), jnp.sin, jnp.sin, hamiltonian_move(), jax.random.key(0), steps=0
        )
