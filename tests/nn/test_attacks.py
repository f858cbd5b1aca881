"""Attacks against their closed forms on linear models, and against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.attacks import fgsm, pgd

W = np.random.default_rng(0).normal(size=6).astype(np.float32)
X = np.random.default_rng(1).uniform(0.2, 0.8, size=(5, 6)).astype(np.float32)


def margin(x: jax.Array) -> jax.Array:
    return x @ jnp.asarray(W)


def loss(x: jax.Array) -> jax.Array:
    return jax.nn.softplus(-margin(x)).sum()  # logistic loss of the class with a positive margin


def test_one_signed_step_moves_the_margin_of_a_linear_model_by_eps_times_the_sum_of_its_weights() -> None:
    change = margin(fgsm(loss, jnp.asarray(X), 0.1)) - margin(jnp.asarray(X))
    np.testing.assert_allclose(change, -0.1 * np.abs(W).sum(), rtol=1e-4)
    wanted = margin(fgsm(loss, jnp.asarray(X), 0.1, targeted=True)) - margin(jnp.asarray(X))
    np.testing.assert_allclose(wanted, 0.1 * np.abs(W).sum(), rtol=1e-4)


def test_one_projected_step_of_full_size_is_the_signed_step() -> None:
    one = pgd(loss, jnp.asarray(X), 0.1, steps=1, step=0.1)
    np.testing.assert_allclose(one, fgsm(loss, jnp.asarray(X), 0.1), rtol=1e-6)


def test_projected_steps_stay_in_the_ball_and_in_the_bounds_and_do_no_worse() -> None:
    x = jnp.asarray(X)
    bent = lambda x: jnp.sin(3 * margin(x)).sum()  # noqa: E731
    for norm in ("inf", "2"):
        found = pgd(bent, x, 0.3, norm=norm, key=jax.random.key(0), bounds=(0.0, 1.0))
        change = np.asarray(found) - X
        size = np.abs(change).max() if norm == "inf" else np.sqrt((change**2).sum(axis=1)).max()
        assert size <= 0.3 + 1e-6
        assert found.min() >= 0
        assert found.max() <= 1
    assert bent(pgd(bent, x, 0.3)) >= bent(fgsm(bent, x, 0.3)) - 1e-5


def test_the_two_norm_attack_on_a_linear_model_goes_straight_against_the_weights() -> None:
    found = pgd(lambda x: -margin(x).sum(), jnp.asarray(X), 0.5, norm="2")
    np.testing.assert_allclose(found - X, np.tile(-0.5 * W / np.linalg.norm(W), (5, 1)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("eps", "bounds", "message"),
    [(-0.1, None, "must not be negative"), (1.5, (0.0, 1.0), "no change can be larger than 1")],
)
def test_changes_that_cannot_be_are_refused(
    eps: float, bounds: tuple[float, float] | None, message: str
) -> None:
    for attack in (fgsm, pgd):
        with pytest.raises(ArgumentError, match=message):
            attack(loss, jnp.asarray(X), eps, bounds=bounds)
    pgd(loss, jnp.asarray(X), 2.4, bounds=(0.0, 1.0), norm="2", steps=1)  # six entries may move by one each
    with pytest.raises(ArgumentError, match=r"the 6 entries of an example .* larger than 2.449"):
        pgd(loss, jnp.asarray(X), 2.5, bounds=(0.0, 1.0), norm="2")
    with pytest.raises(ArgumentError, match="at least one step"):
        pgd(loss, jnp.asarray(X), 0.1, steps=0)
