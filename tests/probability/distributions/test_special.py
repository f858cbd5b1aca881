"""Logarithms of the beta function and of counts, in both precisions."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
import scipy.stats

from chainrule.probability.distributions.special import log_beta, log_poisson

A = np.array([1e-3, 0.5, 3.0, 9.99, 10.0, 250.0, 1e4])
# SciPy is good to ten digits only here; these are from forty digits.
FAR = {
    1e-3: 6.89336337532538947,
    0.5: -6.33539021105743696,
    10.0: -125.353323099418772,
    1e6: -1386300.00336292112,
}


def test_the_logarithm_of_the_beta_function_has_all_digits() -> None:
    a, b = (one.ravel() for one in np.meshgrid(A, A))
    exact = scipy.special.betaln(a, b)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(log_beta)(a, b), exact, rtol=1e-11, atol=1e-13)
        far = jax.jit(log_beta)(np.array(list(FAR)), np.full(len(FAR), 1e6))
        np.testing.assert_allclose(far, list(FAR.values()), rtol=1e-14)
        slopes = jax.jit(jax.vmap(jax.grad(log_beta)))(jnp.asarray(a), jnp.asarray(b))
    np.testing.assert_allclose(
        slopes, scipy.special.digamma(a) - scipy.special.digamma(a + b), rtol=1e-7, atol=1e-10
    )
    single = jax.jit(log_beta)(a.astype(np.float32), b.astype(np.float32))
    np.testing.assert_allclose(single, exact, rtol=3e-6, atol=2e-6)


def test_counts_are_scored_without_cancellation() -> None:
    counts, rates = np.array([0.0, 9.0, 10.0, 980.0, 10_100.0]), np.array([1e-3, 9.0, 12.0, 1000.0, 10_000.0])
    exact = scipy.stats.poisson(rates).logpmf(counts)
    np.testing.assert_allclose(
        jax.jit(log_poisson)(counts.astype(np.float32), rates.astype(np.float32)), exact, atol=1e-4
    )
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(log_poisson)(counts, rates), exact, rtol=1e-11)
