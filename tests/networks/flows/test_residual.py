"""Residual layers: the determinant, its estimate, the inverse by iteration, and what a contraction promises."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.networks.flows.contraction import Contraction
from chainrule.networks.flows.residual import ContractiveResidual, log_det, log_det_estimate

KEY = jax.random.key(0)


def _matrix(norm: float, size: int = 4) -> np.ndarray:
    a = np.random.default_rng(0).normal(size=(size, size))
    return norm * a / np.linalg.norm(a, 2)


def test_the_determinant_of_a_linear_map_and_its_estimate_agree_with_linear_algebra() -> None:
    """The mean of 100,000 estimates is within three standard errors, and so is that of their gradients."""
    a = _matrix(0.5)
    expected = np.linalg.slogdet(np.eye(4) + a)[1]
    x = jnp.ones((1, 4))

    def volume(a: jax.Array, key: jax.Array) -> jax.Array:
        return log_det_estimate(lambda x: x @ a, x, key)[0]

    keys = jax.random.split(KEY, 100_000)
    drawn = jax.jit(jax.vmap(jax.value_and_grad(volume), in_axes=(None, 0)))(jnp.asarray(a), keys)
    found, slopes = (np.asarray(one, np.float64) for one in drawn)
    exact, slope = jax.jit(jax.value_and_grad(lambda a: log_det(lambda x: x @ a, x)[0]))(jnp.asarray(a))
    assert float(exact) == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(slope, np.linalg.inv(np.eye(4) + a).T, atol=1e-5)
    error = found.std() / math.sqrt(len(found))
    assert abs(found.mean() - expected) < 3 * error
    errors = slopes.std(axis=0) / math.sqrt(len(found))
    assert (np.abs(slopes.mean(axis=0) - slope) < 4 * errors).all()


def test_the_inverse_is_found_by_iteration_and_has_the_implicit_derivative() -> None:
    with jax.enable_x64(True):
        layer = ContractiveResidual((3,), Contraction((3,), width=8, depth=1, bound=0.9, key=KEY))
        z = jnp.asarray(np.random.default_rng(1).normal(size=(2, 3)))

        @eqx.filter_jit
        def both(layer: ContractiveResidual, z: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
            x = layer.forward(z).value
            forth = jax.jacrev(lambda z: layer.forward(z).value)(z)
            back = jax.jacfwd(lambda x: layer.inverse(x).value)(x)
            return layer.inverse(x).value, forth.reshape(6, 6), back.reshape(6, 6)

        again, forth, back = both(layer, z)
        np.testing.assert_allclose(again, z, atol=1e-10)
        np.testing.assert_allclose(forth @ back, np.eye(6), atol=1e-8)


@pytest.mark.parametrize("shape", [(5,), (4, 4, 2)])
def test_a_network_brings_points_closer_by_its_bound_however_large_its_weights_are(
    shape: tuple[int, ...],
) -> None:
    g = Contraction(shape, width=8, depth=2, bound=0.8, key=KEY)
    large = eqx.tree_at(lambda g: [layer.weight for layer in g.layers], g, replace_fn=lambda w: 5 * w)

    @eqx.filter_jit
    def stretched(g: Contraction, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        near, far = (jnp.linalg.norm((a - b).reshape(len(a), -1), axis=1) for a, b in ((g(x), g(y)), (x, y)))
        return g.lipschitz(), (near / far).max()

    draw = np.random.default_rng(0)
    x = jnp.asarray(draw.normal(size=(256, *shape)), jnp.float32)
    y = x + 0.01 * jnp.asarray(draw.normal(size=(256, *shape)), jnp.float32)
    constant, seen = stretched(large, x, y)
    assert 0.75 < float(constant) < 0.81
    assert float(seen) < float(constant)


def test_training_follows_the_norm_and_stops_where_a_layer_is_no_contraction() -> None:
    layer = ContractiveResidual((2,), Contraction((2,), width=8, depth=1, bound=0.9, key=KEY), name="block 3")
    x = jnp.ones((4, 2))

    @eqx.filter_jit
    def step(layer: ContractiveResidual) -> tuple[jax.Array, ContractiveResidual]:
        mapped, moved = layer.trained_inverse(x, None, KEY)
        return mapped.value, moved

    turned = eqx.tree_at(
        lambda layer: layer.network.layers[0].weight, layer, replace_fn=lambda w: w + 0.05 * jnp.sign(w)
    )
    _, moved = step(turned)
    before, after = (np.asarray(one.network.estimates[0].followed.right) for one in (turned, moved))
    assert not np.array_equal(before, after)
    # Weights along directions that the estimates know nothing of, far above the bound.
    lost = eqx.tree_at(
        lambda layer: [norm.followed.right for norm in layer.network.estimates],
        eqx.tree_at(
            lambda layer: [one.weight for one in layer.network.layers], layer, replace_fn=lambda w: 3 * w
        ),
        replace_fn=lambda vector: vector * 0.3,
    )
    with pytest.raises(Exception, match="block 3 stretches distances by 1 or more"):
        jax.block_until_ready(step(lost)[0])
    with pytest.raises(ArgumentError, match="only with less than 1 there is an inverse"):
        Contraction((2,), width=8, depth=1, bound=1.0, key=KEY)
