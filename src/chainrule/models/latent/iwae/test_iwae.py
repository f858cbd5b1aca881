"""The importance-weighted bound of a linear model, whose likelihood is known, and the gradient of its encoder."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.data import Batch, Schema
from chainrule.models.latent.iwae import IWAE

KEYS = jax.random.split(jax.random.key(0), 400)
X = np.array([[2.0, -1.0], [0.5, 0.3]], np.float32)
BATCH = Batch(jnp.asarray(X))


def linear(k: int, gradient: str = "doubly-reparametrized") -> IWAE:
    """z ~ N(0, 1), x | z ~ N((z, 0), 1), and q(z|x) = N(0, 1) for all examples: far from the posterior."""
    settings = {"latent": 1, "depth": 0, "scale": "fixed", "sigma": 1.0, "k": k, "gradient": gradient}
    model = models.build("iwae", Schema("points", (2,)), **settings)
    assert isinstance(model, IWAE)
    return eqx.tree_at(
        lambda m: (m.networks.encoder.network.layers[0].weight, m.networks.decoder.network.layers[0].weight),
        model,
        (jnp.zeros((2, 1)), jnp.asarray([[1.0, 0.0]])),
    )


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))


def test_the_bound_grows_with_the_codes_towards_the_likelihood() -> None:
    exact = -0.5 * (X[:, 0] ** 2 / 2 + np.log(2 * np.pi * 2) + X[:, 1] ** 2 + np.log(2 * np.pi))
    before, bounds = -np.inf, []
    for k in (1, 5, 50):
        losses = eqx.filter_jit(lambda model, keys: jax.vmap(lambda key: model.loss(BATCH, key)[0])(keys))
        found, error = mean_and_error(-np.asarray(losses(linear(k), KEYS)))
        assert found > before
        bounds.append((float(found), float(error)))
        before = found
    assert before < exact.mean() + 4 * bounds[-1][1]
    assert before > exact.mean() - 0.1
    # With one code it is the bound of the variational auto-encoder: E log p(x|z), the divergence being zero.
    plain = (-0.5 * (X**2).sum(axis=1) - 0.5 - np.log(2 * np.pi)).mean()
    assert bounds[0][0] == pytest.approx(plain, abs=4 * bounds[0][1])


def test_both_gradients_of_the_encoder_are_the_same_on_average_and_one_is_less_noisy() -> None:
    spreads = []
    means = []
    for gradient in ("plain", "doubly-reparametrized"):
        model = linear(20, gradient)

        def slope(key: jax.Array, model: IWAE = model) -> jax.Array:
            grads = eqx.filter_grad(lambda m: m.loss(BATCH, key)[0])(model)
            return jnp.concatenate(
                [grads.networks.encoder.network.layers[0].weight.ravel(), grads.networks.spread]
            )

        found = np.asarray(eqx.filter_jit(jax.vmap(slope))(KEYS))
        mean, error = mean_and_error(found)
        means.append(mean)
        spreads.append(error)
    np.testing.assert_array_less(np.abs(means[0] - means[1]), 4 * np.hypot(*spreads) + 1e-4)
    assert spreads[1].sum() < spreads[0].sum()
