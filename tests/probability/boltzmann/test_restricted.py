"""Restricted Boltzmann machines against sums over both layers, quadrature, and differences of the exact likelihood."""

import itertools
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability import boltzmann
from chainrule.probability.boltzmann import BinaryRBM, GaussianRBM

NOISE = np.random.default_rng(1)
W, B, C = NOISE.normal(size=(6, 4)), NOISE.normal(size=6), NOISE.normal(size=4)
V = np.array(list(itertools.product((0.0, 1.0), repeat=6)))
H = np.array(list(itertools.product((0.0, 1.0), repeat=4)))
DATA = V[NOISE.integers(0, 64, 50)]


def joint() -> np.ndarray:
    """exp(-E(v, h)) of all pairs of states."""
    return np.exp((V @ B)[:, None] + (H @ C)[None, :] + V @ W @ H.T)


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def calls(machine: eqx.Module, name: str, *given: np.ndarray) -> np.ndarray:
    """A method of a machine on NumPy arrays."""
    return np.asarray(eqx.filter_jit(lambda m, *x: getattr(m, name)(*x))(machine, *map(jnp.asarray, given)))


@pytest.fixture(scope="module")
def machine(_double_precision: None) -> BinaryRBM:
    return BinaryRBM(jnp.asarray(W), jnp.asarray(B), jnp.asarray(C))


@pytest.fixture(scope="module")
def gaussian(_double_precision: None) -> GaussianRBM:
    weights = jnp.asarray([[0.8, -0.5, 1.2], [-0.3, 0.9, 0.4]])
    return GaussianRBM(weights, jnp.array([0.2, -0.4]), jnp.array([0.1, -0.7, 0.3]), jnp.array([-0.4, 0.2]))


def exact_gradient() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data minus model statistics, by enumeration of both layers."""
    p = joint() / joint().sum()
    on = 1 / (1 + np.exp(-(C + DATA @ W)))
    couplings = DATA.T @ on / len(DATA) - np.einsum("vh,vi,hj->ij", p, V, H)
    return couplings, DATA.mean(axis=0) - p.sum(axis=1) @ V, on.mean(axis=0) - p.sum(axis=0) @ H


def test_either_layer_can_be_summed_out(machine: BinaryRBM) -> None:
    pairs = np.stack([calls(machine, "energy", V, np.broadcast_to(h, (64, 4))) for h in H], axis=1)
    np.testing.assert_allclose(np.exp(-pairs), joint(), rtol=1e-12)
    np.testing.assert_allclose(np.exp(-calls(machine, "free_energy", V)), joint().sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(np.exp(calls(machine, "log_mass", H)), joint().sum(axis=0), rtol=1e-12)
    assert float(machine.log_partition()) == pytest.approx(np.log(joint().sum()), rel=1e-13)
    turned = BinaryRBM(
        machine.weights.T, machine.hidden_bias, machine.visible_bias
    )  # fewer visible than hidden
    assert float(turned.log_partition()) == pytest.approx(np.log(joint().sum()), rel=1e-13)
    np.testing.assert_allclose(
        machine.log_prob(V), np.log(joint().sum(axis=1) / joint().sum()), rtol=1e-10, atol=1e-12
    )


def test_conditionals_are_those_of_the_joint_distribution(machine: BinaryRBM) -> None:
    p = joint()
    np.testing.assert_allclose(
        1 / (1 + np.exp(-calls(machine, "hidden_logits", V))),
        p @ H / p.sum(axis=1, keepdims=True),
        rtol=1e-11,
    )
    np.testing.assert_allclose(
        calls(machine, "visible_mean", H), (p.T @ V) / p.sum(axis=0)[:, None], rtol=1e-11
    )
    visible, pseudo = p.sum(axis=1), calls(machine, "pseudo_log_likelihood", V)
    for unit in range(6):
        flipped = V.copy()
        flipped[:, unit] = 1 - flipped[:, unit]
        other = visible[(flipped @ 2 ** np.arange(5, -1, -1)).astype(int)]
        np.testing.assert_allclose(pseudo[:, unit], np.log(visible / (visible + other)), rtol=1e-9)


def test_the_likelihood_gradient_is_data_minus_model_statistics(machine: BinaryRBM) -> None:
    slope = eqx.filter_jit(eqx.filter_grad(lambda m: m.log_prob(DATA).mean()))(machine)
    found = slope.weights, slope.visible_bias, slope.hidden_bias
    for one, other in zip(found, exact_gradient(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)


def test_annealed_log_partition_is_within_three_standard_errors(machine: BinaryRBM) -> None:
    exact = np.log(joint().sum())
    for base in (None, np.zeros(6)):
        found = boltzmann.annealed_log_partition(machine, jax.random.key(3), base=base, chains=400, steps=200)
        assert abs(found.value - exact) < 3 * found.standard_error
        assert 0 < found.standard_error < 0.1


def test_annealed_weights_of_independent_units_are_all_alike() -> None:
    machine = BinaryRBM(jnp.zeros((3, 2)), jnp.array([0.5, -1.0, 2.0]), jnp.zeros(2))
    found = boltzmann.annealed_log_partition(machine, jax.random.key(0), chains=50, steps=5)
    assert found.value == pytest.approx(float(machine.log_partition()), rel=1e-12)
    assert found.standard_error < 1e-12


def test_contrastive_divergence_approaches_the_gradient_with_the_number_of_sweeps(machine: BinaryRBM) -> None:
    """In expectation, without noise: the distribution of the chain after k sweeps from the data, by its matrices."""
    p = joint()
    up, down = p / p.sum(axis=1, keepdims=True), (p / p.sum(axis=0, keepdims=True)).T
    reached = np.zeros(64)
    np.add.at(reached, (DATA @ 2 ** np.arange(5, -1, -1)).astype(int), 1 / len(DATA))
    gap, slope = (
        [],
        eqx.filter_jit(eqx.filter_grad(lambda m, share: (share * m.free_energy(jnp.asarray(V))).sum())),
    )
    of_data = np.asarray(slope(machine, reached).weights)
    for _ in range(30):
        reached = reached @ up @ down
        found = -(of_data - np.asarray(slope(machine, reached).weights))
        gap.append(np.abs(found - exact_gradient()[0]).max())
    assert gap[0] > 0.01
    assert gap[0] > 2 * gap[4] > 4 * gap[9] > 8 * gap[19], gap
    assert gap[-1] < 1e-3


def test_the_chain_that_is_drawn_is_the_one_of_the_matrices(machine: BinaryRBM) -> None:
    count, sweeps = 20_000, 2
    start = np.tile(DATA[:1], (count, 1))

    @eqx.filter_jit
    def ends(machine: BinaryRBM, key: jax.Array) -> jax.Array:
        first, rest = jax.random.split(key)
        return machine.chain(rest, machine.draw_hidden(first, jnp.asarray(start)), sweeps)[0]

    found = np.asarray(ends(machine, jax.random.key(5))).mean(axis=0)
    p = joint()
    up, down = p / p.sum(axis=1, keepdims=True), (p / p.sum(axis=0, keepdims=True)).T
    begun = np.zeros(64)
    begun[int(DATA[0] @ 2 ** np.arange(5, -1, -1))] = 1
    expected = begun @ up @ down @ up @ down @ V
    np.testing.assert_allclose(found, expected, atol=5 * 0.5 / np.sqrt(count))


def test_the_contrastive_loss_has_the_exact_gradient_with_exact_draws(machine: BinaryRBM) -> None:
    """Every state of the model as often as it is likely, by weights that are whole numbers after rounding."""
    counts = np.rint(joint().sum(axis=1) / joint().sum() * 200_000).astype(int)
    draws = np.repeat(V, counts, axis=0)
    slope = eqx.filter_jit(eqx.filter_grad(boltzmann.contrastive_loss))(
        machine, jnp.asarray(DATA), jnp.asarray(draws)
    )
    for one, other in zip(
        (slope.weights, slope.visible_bias, slope.hidden_bias), exact_gradient(), strict=True
    ):
        np.testing.assert_allclose(-np.asarray(one), other, atol=1e-3)


def test_gaussian_units_are_a_mixture_with_one_component_for_each_hidden_state(gaussian: GaussianRBM) -> None:
    h = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    scale, means = np.exp(gaussian.log_scale), calls(gaussian, "visible_mean", h)
    share = np.exp(calls(gaussian, "log_mass", h) - float(gaussian.log_partition()))
    assert share.sum() == pytest.approx(1)
    axis = np.linspace(-12, 12, 401)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(np.asarray(gaussian.log_prob(grid)))
    assert density.sum() * (axis[1] - axis[0]) ** 2 == pytest.approx(1, abs=1e-9)
    z = (grid[:, None] - means[None]) / scale
    mixture = np.exp(-0.5 * (z**2).sum(axis=2)) @ share / (2 * np.pi * scale.prod())
    np.testing.assert_allclose(density, mixture, rtol=1e-9, atol=1e-300)
    pairs = -calls(gaussian, "energy", np.tile(grid[:1], (8, 1)), h)
    assert float(calls(gaussian, "free_energy", grid[:1])[0]) == pytest.approx(
        -np.log(np.exp(pairs).sum()), rel=1e-12
    )


def test_annealed_log_partition_of_gaussian_units_and_their_draws(gaussian: GaussianRBM) -> None:
    found = boltzmann.annealed_log_partition(
        gaussian, jax.random.key(2), base=np.zeros(2), chains=400, steps=200
    )
    assert abs(found.value - float(gaussian.log_partition())) < 3 * found.standard_error
    assert found.standard_error < 0.1
    h = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    share = np.exp(calls(gaussian, "log_mass", h) - float(gaussian.log_partition()))
    ends = eqx.filter_jit(lambda m, key: m.chain(key, jnp.zeros((20_000, 3)), 100)[0])(
        gaussian, jax.random.key(4)
    )
    np.testing.assert_allclose(np.mean(ends, axis=0), share @ calls(gaussian, "visible_mean", h), atol=0.06)


def test_the_hyvarinen_score_is_made_of_derivatives_of_the_free_energy(gaussian: GaussianRBM) -> None:
    v = NOISE.normal(size=(5, 2))

    def one(v: jax.Array) -> tuple[jax.Array, jax.Array]:
        slope = -jax.grad(lambda v: gaussian.free_energy(v[None])[0])(v)
        curvature = -jnp.diag(jax.hessian(lambda v: gaussian.free_energy(v[None])[0])(v))
        return jnp.square(slope) / 2, curvature

    half_square, curvature = jax.jit(jax.vmap(one))(v)
    np.testing.assert_allclose(gaussian.hyvarinen_score(jnp.asarray(v)), half_square + curvature, rtol=1e-10)


def test_a_temperature_divides_the_energy(machine: BinaryRBM) -> None:
    count, t = 20_000, 2.0
    ends = eqx.filter_jit(lambda m, key: m.chain(key, jnp.zeros((count, 4)), 30, t)[0])(
        machine, jax.random.key(6)
    )
    weights = (joint() ** (1 / t)).sum(axis=1)
    np.testing.assert_allclose(
        np.mean(ends, axis=0), weights / weights.sum() @ V, atol=5 * 0.5 / np.sqrt(count)
    )


def test_two_large_layers_are_refused_with_what_helps() -> None:
    large = BinaryRBM(jnp.zeros((30, 21)), jnp.zeros(30), jnp.zeros(21))
    assert not large.countable
    with pytest.raises(ArgumentError, match=r"21 units have 2\^21 states") as error:
        large.log_partition()
    assert "annealed_log_partition" in str(error.value)
    with pytest.raises(ArgumentError, match="zeros and ones"):
        BinaryRBM(jnp.zeros((2, 1)), jnp.zeros(2), jnp.zeros(1)).log_prob(np.array([[0.2, 1.0]]))
