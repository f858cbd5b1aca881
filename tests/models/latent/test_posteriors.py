"""Families of posteriors against SciPy, and against codes drawn from them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from chainrule.models.latent.families import posterior
from chainrule.models.latent.posteriors import FlowPosterior, Gaussian, Posterior

KEY = jax.random.key(0)
SIZE = 3
DRAWS = 20_000


def bent(key: jax.Array) -> FlowPosterior:
    """A flow whose layers do something."""
    flow = FlowPosterior(SIZE, layers=3, width=4, context=2, key=key)
    return jax.tree.map(lambda leaf: leaf + 0.3 * jnp.ones_like(leaf) if eqx.is_array(leaf) else leaf, flow)


def parameters(family: Posterior) -> jax.Array:
    return jnp.asarray(0.5 * np.random.default_rng(0).normal(size=family.parameter_count), jnp.float32)


@pytest.mark.parametrize("name", ["diagonal", "full", "flow"])
def test_densities_and_divergences_are_those_of_the_codes_that_are_drawn(name: str) -> None:
    family: Posterior = bent(KEY) if name == "flow" else posterior(name, SIZE, KEY)
    own = parameters(family)
    prior = Gaussian(jnp.asarray([0.5, 0.0, -0.5]), jnp.asarray([0.2, 0.0, -0.2]))

    @jax.jit
    def drawn(noise: jax.Array) -> tuple[jax.Array, ...]:
        several = jnp.broadcast_to(own[None], (len(noise), len(own)))
        priors = Gaussian(*(jnp.broadcast_to(part[None], noise.shape) for part in prior))
        z = family.draw(several, noise)
        slope = jax.jacfwd(lambda one: family.draw(own, one))(noise[0])
        divergence = family.divergence(several, priors, z).sum(axis=-1)
        return z, family.log_prob(several, z), slope, divergence, priors.log_prob(z).sum(axis=-1)

    noise = np.random.default_rng(1).normal(size=(DRAWS, SIZE)).astype(np.float32)
    z, log_prob, slope, divergence, log_prior = (np.asarray(a, np.float64) for a in drawn(jnp.asarray(noise)))
    # By the change of variables: the density of the noise over the volume it is spread to.
    expected = -0.5 * (noise[0] ** 2 + np.log(2 * np.pi)).sum() - np.linalg.slogdet(slope)[1]
    assert log_prob[0] == pytest.approx(expected, abs=1e-4)
    sampled = log_prob - log_prior
    error = sampled.std() / np.sqrt(DRAWS)
    assert divergence.mean() == pytest.approx(sampled.mean(), abs=4 * error + 1e-4)
    moments = family.moments(own[None], KEY)
    slack = 4 * z.std(axis=0) / np.sqrt(64 if name == "flow" else DRAWS)
    np.testing.assert_array_less(np.abs(np.asarray(moments.mean[0]) - z.mean(axis=0)), slack)
    deviation = np.exp(np.asarray(moments.log_variance[0]) / 2)
    np.testing.assert_array_less(np.abs(deviation - z.std(axis=0)), 2 * slack)
    if name != "flow":
        gaussian = multivariate_normal(z.mean(axis=0), np.cov(z.T))
        np.testing.assert_allclose(log_prob[:10], gaussian.logpdf(z[:10]), atol=0.05)


def test_training_begins_with_the_gaussian() -> None:
    flow = posterior("flow", SIZE, KEY)
    own = parameters(flow)
    plain = posterior("diagonal", SIZE, KEY)
    noise = jnp.asarray([0.3, -1.0, 2.0])
    np.testing.assert_allclose(flow.draw(own, noise), plain.draw(own[: 2 * SIZE], noise), rtol=1e-6)
