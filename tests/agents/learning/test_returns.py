"""Kinds of returns: losses and their gradients by hand, distributions on atoms, quantiles."""

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.learning.returns import CategoricalReturns, ExpectedReturns, QuantileReturns, Returns

NOISE = np.random.default_rng(0)
REWARDS, DISCOUNTS = NOISE.normal(size=5), np.array([0.9, 0.0, 0.9, 0.81, 0.9])


def judged(returns: Returns, predicted: np.ndarray, following: np.ndarray) -> list[np.ndarray]:
    """Losses, errors, and gradients of summed losses by predictions and by what follows."""

    def losses(predicted: jax.Array, following: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        found = returns.judged(
            predicted, following, jnp.asarray(REWARDS, jnp.float32), jnp.asarray(DISCOUNTS, jnp.float32)
        )
        return found.losses.sum(), found

    arguments = (jnp.asarray(predicted, jnp.float32), jnp.asarray(following, jnp.float32))
    (_, found), slopes = jax.jit(jax.value_and_grad(losses, argnums=(0, 1), has_aux=True))(*arguments)
    return [np.asarray(x) for x in (*found, *slopes)]


def test_the_gradient_of_half_the_squared_error_is_minus_the_error() -> None:
    predicted, following = NOISE.normal(size=(5, 1)), NOISE.normal(size=(5, 1))
    losses, errors, by_prediction, by_target = judged(ExpectedReturns(), predicted, following)
    wanted = REWARDS + DISCOUNTS * following[:, 0] - predicted[:, 0]
    np.testing.assert_allclose(errors, wanted, rtol=1e-5)
    np.testing.assert_allclose(losses, 0.5 * wanted**2, rtol=1e-5)
    np.testing.assert_allclose(by_prediction[:, 0], -wanted, rtol=1e-5)
    assert (by_target == 0).all()


def test_large_errors_pull_no_harder_than_errors_of_one_where_robust() -> None:
    predicted, following = 5 * NOISE.normal(size=(5, 1)), NOISE.normal(size=(5, 1))
    _, errors, by_prediction, _ = judged(ExpectedReturns(robust=True), predicted, following)
    assert np.abs(errors).max() > 1
    np.testing.assert_allclose(by_prediction[:, 0], -np.clip(errors, -1, 1), rtol=1e-5)


def projected_by_hand(atoms: np.ndarray, mass: np.ndarray, reward: float, discount: float) -> np.ndarray:
    """Mass of every moved atom to the neighbours below and above, in proportion to nearness."""
    out, apart = np.zeros(len(atoms)), atoms[1] - atoms[0]
    for atom, m in zip(atoms, mass, strict=True):
        at = (np.clip(reward + discount * atom, atoms[0], atoms[-1]) - atoms[0]) / apart
        below, above = int(np.floor(at)), int(np.ceil(at))
        if below == above:
            out[below] += m
        else:
            out[below] += m * (above - at)
            out[above] += m * (at - below)
    return out


def test_distributions_are_moved_and_put_back_on_the_atoms() -> None:
    returns = CategoricalReturns(-2.0, 4.0, 7)
    atoms, mass = np.linspace(-2, 4, 7), NOISE.dirichlet(np.ones(7), 5)
    got = jax.jit(returns.projected)(*(jnp.asarray(x, jnp.float32) for x in (mass, REWARDS, DISCOUNTS)))
    wanted = [projected_by_hand(atoms, *row) for row in zip(mass, REWARDS, DISCOUNTS, strict=True)]
    np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_categorical_losses_are_cross_entropies_whose_target_is_fixed() -> None:
    returns = CategoricalReturns(-30.0, 30.0, 61)
    predicted, following = NOISE.normal(size=(5, 61)), NOISE.normal(size=(5, 61))
    _, errors, by_prediction, by_target = judged(returns, predicted, following)
    softmax = np.exp(predicted) / np.exp(predicted).sum(1, keepdims=True)
    then = np.exp(following) / np.exp(following).sum(1, keepdims=True)
    target = np.stack(
        [
            projected_by_hand(np.linspace(-30, 30, 61), *row)
            for row in zip(then, REWARDS, DISCOUNTS, strict=True)
        ]
    )
    np.testing.assert_allclose(by_prediction, softmax - target, atol=1e-5)
    assert (by_target == 0).all()
    # The ends of the support are out of reach of most of the mass, so that hardly any mean is lost.
    means = REWARDS + DISCOUNTS * (then @ np.linspace(-30, 30, 61)) - softmax @ np.linspace(-30, 30, 61)
    np.testing.assert_allclose(errors, means, atol=0.5)


def test_quantile_losses_are_those_of_every_pair() -> None:
    returns = QuantileReturns(3)
    predicted, following = 2 * NOISE.normal(size=(5, 3)), NOISE.normal(size=(5, 3))
    losses, errors, _, by_target = judged(returns, predicted, following)
    for row in range(5):
        target = REWARDS[row] + DISCOUNTS[row] * following[row]
        total = 0.0
        for i, level in enumerate((1 / 6, 3 / 6, 5 / 6)):
            for y in target:
                u = y - predicted[row, i]
                rounded = 0.5 * u * u if abs(u) <= 1 else abs(u) - 0.5
                total += abs(level - (u < 0)) * rounded / 3
        np.testing.assert_allclose(losses[row], total, rtol=1e-5)
        np.testing.assert_allclose(errors[row], target.mean() - predicted[row].mean(), rtol=1e-4, atol=1e-6)
    assert (by_target == 0).all()
