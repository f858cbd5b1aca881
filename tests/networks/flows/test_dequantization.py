"""Bits per dimension of levels: known densities, a tighter bound with more noise, and layers that change nothing."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from chainrule import data
from chainrule.core.errors import ArgumentError
from chainrule.data.schema import Schema
from chainrule.networks import units
from chainrule.networks.flows.dequantization import LogitOfLevels, dequantized_bound
from chainrule.networks.flows.elementwise import ScaleShift

KEY = jax.random.key(0)


def bits(schema: Schema, log_prob: jax.Array) -> np.ndarray:
    """Of a density in the units of the model, in which neighbouring levels lie 1 / (levels - 1) apart."""
    nats = np.log(schema.levels - 1) - np.asarray(log_prob, np.float64) / schema.dimensions
    return nats / np.log(2)


@pytest.mark.parametrize(("levels", "expected"), [(256, 8.0), (2, 1.0)])
def test_a_uniform_density_costs_the_logarithm_of_the_levels(levels: int, expected: float) -> None:
    schema = Schema("image", (4, 4, 1), levels=levels)
    width = levels / (levels - 1)  # of the interval that noise fills
    flat = jnp.full(3, -16 * np.log(width))
    np.testing.assert_allclose(bits(schema, flat), expected, rtol=1e-6)


def test_bits_of_the_score_are_those_of_the_formula() -> None:
    digits = data.load("digits")
    log_prob = np.array([3.0, -7.0])
    np.testing.assert_allclose(
        digits.bits_per_dim(log_prob), bits(digits.schema, jnp.asarray(log_prob)), rtol=1e-6
    )


@pytest.mark.parametrize("scale", [0.15, 0.5])
def test_noise_gives_a_bound_of_the_mass_of_a_level_and_more_draws_a_tighter_one(scale: float) -> None:
    """In one dimension, against the mass of every level by quadrature."""
    schema = Schema("image", (1, 1, 1), levels=4)
    density = norm(0.4, scale)
    edges = (np.arange(5) - 0.5) / 3
    masses = [quad(density.pdf, low, high)[0] for low, high in itertools.pairwise(edges)]
    exact = -np.log2(masses)
    x = jnp.asarray(np.repeat(np.arange(4) / 3, 4096).reshape(-1, 1, 1, 1), jnp.float32)

    def log_prob(x: jax.Array) -> jax.Array:
        return jax.scipy.stats.norm.logpdf(x.reshape(-1), 0.4, scale)

    one, many = (
        bits(schema, jax.jit(lambda x, k=k: dequantized_bound(log_prob, schema, x, KEY, k))(x))
        .reshape(4, -1)
        .mean(axis=1)
        for k in (1, 64)
    )
    assert (exact < one).all()
    assert (exact - 0.01 < many).all()
    assert ((many - exact) < 0.2 * (one - exact) + 0.01).all()


def test_a_density_that_is_constant_on_levels_has_the_mass_of_a_level_whatever_the_noise() -> None:
    schema = Schema("image", (1, 1, 1), levels=4)
    masses = np.array([0.1, 0.2, 0.3, 0.4])
    x = jnp.asarray((np.arange(4) / 3).reshape(4, 1, 1, 1), jnp.float32)
    level = jnp.clip(jnp.floor(units.dequantized(schema, x, KEY) * 3 + 0.5), 0, 3).astype(int)
    log_prob = jnp.log(jnp.asarray(masses))[level.reshape(-1)] + np.log(3.0)
    np.testing.assert_allclose(bits(schema, log_prob), -np.log2(masses), rtol=1e-5)


def test_the_same_density_behind_a_logit_or_a_scale_costs_the_same() -> None:
    """A uniform density is a logistic one behind the logit, and one of another width behind a scale."""
    schema = Schema("image", (2, 2, 1), levels=16)
    x = jnp.asarray(np.random.default_rng(0).integers(0, 16, (8, 2, 2, 1)) / 15, jnp.float32)
    noisy = units.dequantized(schema, x, KEY)
    width = 16 / 15
    flat = -4 * np.log(width)
    # The logit with a margin maps the interval onto a stretch of the logistic density, of this mass.
    logit = LogitOfLevels(schema.shape, 16, margin=0.05)
    z, log_det = eqx.filter_jit(logit.inverse)(noisy)
    slopes = jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z) - np.log(0.9)
    np.testing.assert_allclose(log_det + slopes.reshape(8, -1).sum(axis=1), flat, atol=1e-4)
    scaled = ScaleShift(schema.shape, log_scale=1.5, shift=-0.3)
    _, log_det = eqx.filter_jit(scaled.inverse)(noisy)
    np.testing.assert_allclose(log_det - 4 * np.log(width / np.exp(1.5)), flat, atol=1e-4)


def test_what_lies_beyond_the_levels_has_no_density() -> None:
    logit = LogitOfLevels((2,), 4, margin=0.01)
    volumes = np.asarray(logit.inverse(jnp.asarray([[0.5, 0.5], [0.5, 2.0], [-9.0, 0.5]])).log_det)
    assert np.isfinite(volumes[0])
    assert (volumes[1:] == -np.inf).all()


def test_margins_that_leave_nothing_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"a margin lies between 0 and 0\.5"):
        LogitOfLevels((2,), 256, margin=0.5)
