"""Residual layers: the determinant, its estimate, the inverse by iteration, and what a contraction promises."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.networks.flows.contraction import Contraction, largest_stretch
from chainrule.networks.flows.residual import ContractiveResidual, log_det, log_det_estimate
from chainrule.nn import Conv

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
    exact, slope = jax.jit(jax.value_and_grad(lambda a: log_det(lambda x, condition: x @ a, x)[0]))(
        jnp.asarray(a)
    )
    assert float(exact) == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(slope, np.linalg.inv(np.eye(4) + a).T, atol=1e-5)
    error = found.std() / math.sqrt(len(found))
    assert abs(found.mean() - expected) < 3 * error
    errors = slopes.std(axis=0) / math.sqrt(len(found))
    assert (np.abs(slopes.mean(axis=0) - slope) < 4 * errors).all()


@pytest.mark.parametrize("shape", [(3,), (2, 2, 1)])
def test_every_event_has_the_volume_that_its_own_condition_gives_it(shape: tuple[int, ...]) -> None:
    layer = ContractiveResidual(shape, Contraction(shape, width=8, depth=1, bound=0.9, features=2, key=KEY))
    draw = np.random.default_rng(3)
    x, given = (jnp.asarray(draw.normal(size=(4, *one)), jnp.float32) for one in (shape, (2,)))
    inverse = eqx.filter_jit(lambda x, given: layer.inverse(x, given))
    together = inverse(x, given)
    alone = [inverse(x[i : i + 1], given[i : i + 1]).log_det[0] for i in range(4)]
    np.testing.assert_allclose(together.log_det, alone, atol=1e-6)
    assert np.ptp(inverse(jnp.broadcast_to(x[:1], x.shape), given).log_det) > 1e-4
    back = eqx.filter_jit(lambda z, given: layer.forward(z, given))(together.value, given)
    np.testing.assert_allclose(back.value, x, atol=1e-5)
    np.testing.assert_allclose(back.log_det, -together.log_det, atol=1e-5)


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


@pytest.mark.parametrize("shape", [(5,), (4, 3, 2)])
def test_a_network_brings_points_closer_by_its_bound_however_large_its_weights_are(
    shape: tuple[int, ...],
) -> None:
    g = Contraction(shape, width=8, depth=2, bound=0.8, key=KEY)
    large = eqx.tree_at(lambda g: [layer.weight for layer in g.layers], g, replace_fn=lambda w: 5 * w)
    small = eqx.tree_at(lambda g: [layer.weight for layer in g.layers], g, replace_fn=lambda w: 0.05 * w)

    @eqx.filter_jit
    def stretched(g: Contraction, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        near, far = (jnp.linalg.norm((a - b).reshape(len(a), -1), axis=1) for a, b in ((g(x), g(y)), (x, y)))
        return g.lipschitz(), (near / far).max()

    draw = np.random.default_rng(0)
    x = jnp.asarray(draw.normal(size=(256, *shape)), jnp.float32)
    y = x + 0.01 * jnp.asarray(draw.normal(size=(256, *shape)), jnp.float32)
    constant, seen = stretched(large, x, y)
    assert float(constant) == pytest.approx(0.8, abs=1e-5)
    assert float(seen) < float(constant)
    assert float(stretched(small, x, y)[0]) < 0.1  # what is below the bound stays as it is
    with pytest.raises(ArgumentError, match="only with less than 1 there is an inverse"):
        Contraction(shape, width=8, depth=1, bound=1.0, key=KEY)


def test_what_stands_for_a_norm_is_never_less_and_hardly_more() -> None:
    """Of matrices against the largest singular value, of convolutions against that of the whole linear map."""
    draw = np.random.default_rng(0)
    for shape in ((64, 64), (3, 40), (40, 3)):
        weight = draw.normal(size=shape).astype(np.float32)
        found, norm = float(largest_stretch(jnp.asarray(weight))), np.linalg.norm(weight, 2)
        assert norm * (1 - 1e-5) <= found <= 1.02 * norm
    kernel = jnp.asarray(draw.normal(size=(3, 3, 2, 4)), jnp.float32)
    layer = eqx.tree_at(lambda layer: layer.weight, Conv(2, 2, 4, 3, bias=False, key=KEY), kernel)
    matrix = jax.jacfwd(lambda x: layer(x.reshape(6, 5, 2)).reshape(-1))(jnp.zeros(60))
    found, norm = float(largest_stretch(kernel, (6, 5))), np.linalg.norm(np.asarray(matrix), 2)
    assert norm <= found <= 1.15 * norm
