"""Importance-weighted bounds on a model whose evidence is known: z ~ N(0, 1), x | z ~ N(z, 1), x = 2."""

import math
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.probability import Categorical, Normal
from chainrule.probability.variational import (
    annealed_evidence,
    chunked_log_weights,
    doubly_reparametrized_bound,
    estimate_evidence,
    importance_bound,
)

EVIDENCE = -1.0 - 0.5 * math.log(4 * math.pi)  # log N(2; 0, 2)


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def log_normal(x: jax.Array, mean: jax.Array | float, scale: jax.Array | float) -> jax.Array:
    return -0.5 * jnp.square((x - mean) / scale) - jnp.log(scale) - 0.5 * math.log(2 * math.pi)


def log_joint(z: jax.Array) -> jax.Array:
    return log_normal(z, 0.0, 1.0) + log_normal(z, 2.0, 1.0)


def weights_from_prior(key: jax.Array, n: int) -> jax.Array:
    return log_normal(jax.random.normal(key, (n,)), 2.0, 1.0)


def test_the_bound_rises_with_the_number_of_draws_to_the_evidence() -> None:
    sizes, repeats = (1, 2, 5, 10, 50), 60_000
    expected = {1: -3.418939, 2: -2.757, 5: -2.421, 10: -2.334, 50: -2.278}
    draws = np.random.default_rng(0).normal(size=(50, repeats))
    weights = -0.5 * (draws - 2) ** 2 - 0.5 * math.log(2 * math.pi)
    found = {k: np.asarray(importance_bound(jnp.asarray(weights[:k]))) for k in sizes}
    for k in sizes:
        error = found[k].std() / math.sqrt(repeats)
        assert found[k].mean() == pytest.approx(expected[k], abs=4 * error + 1e-3), k
    means = [found[k].mean() for k in sizes]
    assert means == sorted(means)
    assert means[-1] < EVIDENCE == pytest.approx(-2.265512, abs=1e-6)


@eqx.filter_jit
def gradients(phi: jax.Array, k: int, repeats: int) -> tuple[jax.Array, jax.Array]:
    """Plain and doubly reparametrised gradients in the mean and log-scale of q, one for each repeat."""
    noise = jax.random.normal(jax.random.key(1), (repeats, k))

    def plain(phi: jax.Array, noise: jax.Array) -> jax.Array:
        z = phi[0] + jnp.exp(phi[1]) * noise
        return importance_bound(log_joint(z) - log_normal(z, phi[0], jnp.exp(phi[1])))

    def doubly(phi: jax.Array, noise: jax.Array) -> jax.Array:
        still = jax.lax.stop_gradient(phi)
        z = phi[0] + jnp.exp(phi[1]) * noise
        return doubly_reparametrized_bound(
            lambda z: log_joint(z) - log_normal(z, still[0], jnp.exp(still[1])), z
        )

    return tuple(jax.vmap(jax.grad(one), (None, 0))(phi, noise) for one in (plain, doubly))


@pytest.mark.parametrize("k", [1, 8])
def test_both_gradients_have_one_mean_and_the_doubly_reparametrised_less_noise(k: int) -> None:
    plain, doubly = map(np.asarray, gradients(jnp.array([0.4, -0.2]), k, 20_000))
    error = (plain - doubly).std(axis=0) / math.sqrt(len(plain))
    assert (np.abs((plain - doubly).mean(axis=0)) < 4 * error).all()
    assert (doubly.var(axis=0) < plain.var(axis=0)).all()


def test_at_the_posterior_the_doubly_reparametrised_gradient_is_zero_for_every_draw() -> None:
    _, doubly = gradients(jnp.array([1.0, -0.5 * math.log(2)]), 8, 10)
    assert np.abs(doubly).max() < 1e-12


def test_the_gradient_of_the_model_is_the_plain_one_and_batches_stay_apart() -> None:
    z = np.random.default_rng(0).normal(size=(5, 3, 2))

    def of_weights(bound: object, theta: jax.Array, z: jax.Array) -> jax.Array:
        def weights(z: jax.Array) -> jax.Array:
            return -0.5 * jnp.square(z - theta).sum(axis=-1)

        found = bound(weights, z) if bound is doubly_reparametrized_bound else importance_bound(weights(z))
        return (found * jnp.array([1.0, 2.0, 0.0])).sum()

    @jax.jit
    def both(theta: jax.Array, z: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
        forms = (None, doubly_reparametrized_bound)
        return [jax.grad(lambda t, z, f=f: of_weights(f, t, z), (0, 1))(theta, z) for f in forms]

    (theta_plain, z_plain), (theta_doubly, z_doubly) = both(jnp.array(0.3), jnp.asarray(z))
    assert theta_doubly == pytest.approx(float(theta_plain), abs=1e-12)
    logs = -0.5 * np.square(z - 0.3).sum(axis=-1)
    shares = np.exp(logs) / np.exp(logs).sum(axis=0)
    np.testing.assert_allclose(z_doubly, np.asarray(z_plain) * shares[..., None], atol=1e-12)


def test_chunks_give_as_many_weights_as_asked_for() -> None:
    run = eqx.filter_jit(chunked_log_weights)
    found = run(weights_from_prior, jax.random.key(0), 25, 10)
    assert found.shape == (25,)
    assert len(np.unique(np.asarray(found))) == 25
    with pytest.raises(ArgumentError, match="samples must be a whole number"):
        chunked_log_weights(weights_from_prior, jax.random.key(0), 0, 10)


def test_many_draws_estimate_the_evidence_within_their_error() -> None:
    found = estimate_evidence(weights_from_prior, jax.random.key(3), samples=5000, chunk=500)
    assert abs(found.log_prob - EVIDENCE) < 4 * found.standard_error
    assert 0 < found.standard_error < 0.05
    text = str(found)
    assert "an upper bound on the NLL in expectation" in text
    assert "5,000 for each of 1 examples; mean effective sample size" in text


def test_memory_is_that_of_one_chunk() -> None:
    """The wide layer of a decoder is never there for all draws at once."""
    wide = jnp.ones((1, 4096))

    def weights(key: jax.Array, n: int) -> jax.Array:
        z = jax.random.normal(key, (n, 1))
        return jnp.tanh(z @ wide).sum(axis=-1)

    compiled = (
        jax.jit(lambda key: chunked_log_weights(weights, key, 5000, 10)).lower(jax.random.key(0)).compile()
    )
    assert compiled.memory_analysis().temp_size_in_bytes < 3 * 10 * 4096 * 8


def test_heavy_weights_are_warned_of_and_said_in_the_report() -> None:
    def narrow(key: jax.Array, n: int) -> jax.Array:
        z = 0.2 * jax.random.normal(key, (n, 3))
        return log_normal(z, 0.0, 1.0) - log_normal(z, 0.0, 0.2)

    with pytest.warns(ChainruleWarning, match="of 3 sets of weights"):
        found = estimate_evidence(narrow, jax.random.key(0), samples=1000)
    assert "warning    Pareto k is" in str(found)
    assert "examples   a standard error of" in str(found)


def test_annealing_agrees_with_the_evidence_where_plain_weights_do_not_reach() -> None:
    prior = Normal()

    def far(z: jax.Array) -> jax.Array:
        return log_normal(z, 0.0, 1.0) + log_normal(z, 6.0, 1.0)

    exact = -9.0 - 0.5 * math.log(4 * math.pi)
    found = annealed_evidence(far, prior, jax.random.key(0), step_size=0.4)
    assert abs(found.log_prob - exact) < 4 * found.standard_error
    assert found.standard_error < 0.2
    with pytest.raises(ArgumentError, match="one continuous distribution is needed"):
        annealed_evidence(far, Categorical([0.5, 0.5]), jax.random.key(0))
