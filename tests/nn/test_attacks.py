"""Attacks against their closed forms on linear models, and against each other."""

from typing import Any

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from chainrule.core.errors import ArgumentError
from chainrule.nn.attacks import NORMS, automatic, climb, fgsm, pgd, smallest, square
from chainrule.nn.attacks.automatic import stretches

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
    with pytest.raises(ArgumentError, match="steps must be a whole number of at least 1"):
        pgd(loss, jnp.asarray(X), 0.1, steps=0)


def bent(x: jax.Array) -> jax.Array:
    """A loss with many hills, one number for each example."""
    return jnp.sin(7 * margin(x)) + 0.1 * margin(x)


@pytest.mark.parametrize("norm", ["inf", "2"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("targeted", [False, True])
def test_every_combination_stays_in_the_ball_and_restarts_never_do_worse(
    norm: str, momentum: float, targeted: bool
) -> None:
    settings: dict[str, Any] = {
        "norm": norm,
        "momentum": momentum,
        "targeted": targeted,
        "bounds": (0.0, 1.0),
        "steps": 5,
    }
    x, key = jnp.asarray(X), jax.random.key(0)
    found = [
        np.asarray(jax.jit(lambda x, n=n: pgd(bent, x, 0.25, key=key, restarts=n, **settings))(x))
        for n in (1, 4)
    ]
    for moved in found:
        change = moved - X
        size = np.abs(change).max(axis=1) if norm == "inf" else np.sqrt((change**2).sum(axis=1))
        assert (size <= 0.25 + 1e-6).all()
        assert moved.min() >= 0
        assert moved.max() <= 1
    sign = -1 if targeted else 1
    several = jax.random.split(key, 4)
    first = pgd(bent, x, 0.25, key=several[0], **settings)
    assert (sign * bent(jnp.asarray(found[1])) >= sign * bent(first) - 1e-5).all()


def test_momentum_adds_gradients_of_mean_size_one() -> None:
    # Two steps by hand: g1 = slope / mean |slope|, then 0.5 g1 + g2; only signs of the sum count.
    x = jnp.asarray(X)
    slope = jax.grad(lambda x: bent(x).sum())
    g1 = np.asarray(slope(x))
    average = g1 / np.abs(g1).mean(axis=1, keepdims=True)
    at = X + np.clip(0.2 * np.sign(average), -0.3, 0.3)
    g2 = np.asarray(slope(jnp.asarray(at)))
    average = 0.5 * average + g2 / np.abs(g2).mean(axis=1, keepdims=True)
    expected = X + np.clip(at + 0.2 * np.sign(average) - X, -0.3, 0.3)
    found = pgd(bent, x, 0.3, steps=2, step=0.2, momentum=0.5)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("norm", ["inf", "2"])
def test_starts_are_spread_over_the_whole_ball(norm: str) -> None:
    drawn = np.asarray(NORMS[norm].drawn(jax.random.key(0), jnp.zeros((4000, 3))))
    size = np.asarray(NORMS[norm].size(jnp.asarray(drawn))).ravel()
    assert size.max() <= 1 + 1e-6
    np.testing.assert_allclose((size < 0.5).mean(), 0.5**3, atol=0.02)  # share of the volume
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.03)
    corner = np.asarray(NORMS[norm].extreme(jax.random.key(1), jnp.zeros((50, 3))))
    np.testing.assert_allclose(NORMS[norm].size(jnp.asarray(corner)), 1, rtol=1e-5)


def test_a_gradient_of_any_size_has_a_direction() -> None:
    for scale in (1e-30, 1.0, 1e30):
        way = NORMS["2"].steepest(jnp.asarray([[3.0, -4.0]]) * scale)
        np.testing.assert_allclose(way, [[0.6, -0.8]], rtol=1e-5)
    assert not np.asarray(NORMS["2"].steepest(jnp.zeros((1, 2)))).any()


@pytest.mark.parametrize("norm", ["inf", "2"])
def test_steps_of_their_own_length_find_the_optimum_of_a_linear_loss_and_hills_that_fixed_ones_miss(
    norm: str,
) -> None:
    x, key = jnp.asarray(X), jax.random.key(0)
    best = {"inf": 0.3 * np.abs(W).sum(), "2": 0.3 * np.linalg.norm(W)}[norm]
    linear = automatic(lambda x: margin(x), x, 0.3, 20, norm=norm, key=key)
    np.testing.assert_allclose(linear.ahead - margin(x), best, rtol=1e-3)
    np.testing.assert_allclose(margin(linear.x), linear.ahead, rtol=1e-5)
    found = jax.jit(lambda x: automatic(bent, x, 0.3, 40, norm=norm, key=key))(x)
    fixed = pgd(bent, x, 0.3, steps=40, norm=norm, key=key)
    assert (found.ahead >= bent(fixed) - 1e-3).all()
    assert (np.asarray(NORMS[norm].size(found.x - x)) <= 0.3 + 1e-6).all()


def test_lengths_of_stretches_add_up_to_their_ends() -> None:
    for steps in (1, 7, 100):
        found = stretches(steps)
        assert found.sum() <= steps
        assert (np.cumsum(found)[found > 0] == np.flatnonzero(found) + 1).all()
    assert np.flatnonzero(stretches(100))[:4].tolist() == [21, 40, 56, 69]  # 22, 41, 57 and 70 of 100


@pytest.mark.parametrize("norm", ["inf", "2"])
@pytest.mark.parametrize("shape", [(6,), (3, 2, 1), (2, 3)])
def test_squares_stay_in_the_ball_and_never_lower_the_loss(norm: str, shape: tuple[int, ...]) -> None:
    x = jnp.asarray(X.reshape(5, *shape))
    loss = lambda x: margin(x.reshape(len(x), -1))  # noqa: E731
    few, many = (
        jax.jit(lambda x, n=n: square(loss, x, 0.2, n, jax.random.key(0), norm=norm, bounds=(0.0, 1.0)))(x)
        for n in (1, 200)
    )
    assert (np.asarray(NORMS[norm].size(many.x - x)) <= 0.2 + 1e-6).all()
    assert many.x.min() >= 0
    assert many.x.max() <= 1
    assert (many.ahead >= few.ahead).mean() > 0.7
    assert (many.ahead > loss(x)).all()
    if norm == "inf" and len(shape) == 1:  # every sign by itself: the optimum is found
        np.testing.assert_allclose(many.ahead - loss(x), 0.2 * np.abs(W).sum(), rtol=1e-4)


@pytest.mark.parametrize("norm", ["inf", "2"])
def test_the_smallest_change_of_a_linear_classifier_is_its_margin_over_the_dual_norm(norm: str) -> None:
    x = jnp.asarray(X)
    side = np.sign(np.asarray(margin(x)))

    def behind(x: jax.Array) -> jax.Array:
        return -jnp.asarray(side) * margin(x)

    def attack(eps: jax.Array, key: jax.Array) -> jax.Array:
        return climb(behind, x, eps, eps, 1, norm=norm)

    found = smallest(attack, lambda x: behind(x) > 0, x, 4.0, jax.random.key(0), rounds=16)
    dual = np.abs(W).sum() if norm == "inf" else np.linalg.norm(W)
    np.testing.assert_allclose(found.eps, np.abs(margin(x)) / dual, atol=4.0 / 2**15)
    assert (behind(found.x) > 0).all()


def test_the_smallest_change_is_zero_where_nothing_is_needed_and_infinite_where_nothing_helps() -> None:
    x = jnp.asarray(X)
    never = smallest(
        lambda eps, key: x, lambda x: jnp.zeros(len(x), bool), x, 1.0, jax.random.key(0), rounds=2
    )
    assert np.isinf(never.eps).all()
    already = smallest(
        lambda eps, key: x, lambda x: jnp.ones(len(x), bool), x, 1.0, jax.random.key(0), rounds=2
    )
    assert not np.asarray(already.eps).any()


@hypothesis.given(
    x=arrays(np.float32, (3, 4), elements=st.floats(0, 1, width=32)),
    eps=st.floats(0, 1),
    norm=st.sampled_from(["inf", "2"]),
    seed=st.integers(0, 100),
)
@hypothesis.settings(max_examples=25)
def test_no_change_ever_leaves_the_ball_or_the_range(x: np.ndarray, eps: float, norm: str, seed: int) -> None:
    found = np.asarray(_attacked[norm](jnp.asarray(x), jnp.float32(eps), jax.random.key(seed)))
    change = found - x[None]
    size = np.abs(change).max(axis=-1) if norm == "inf" else np.sqrt((change**2).sum(axis=-1))
    assert (size <= eps + 2e-6).all()
    assert found.min() >= 0
    assert found.max() <= 1


def _all_attacks(norm: str) -> Any:
    w = jnp.asarray([[1.0, -2.0, 0.5, 3.0]]).T

    def loss(x: jax.Array) -> jax.Array:
        return jnp.sin(5 * (x @ w)[:, 0])

    def attacks(x: jax.Array, eps: jax.Array, key: jax.Array) -> jax.Array:
        common: dict[str, Any] = {"norm": norm, "bounds": (0.0, 1.0)}
        return jnp.stack(
            [
                climb(loss, x, eps, eps, 3, key=key, momentum=0.5, **common),
                automatic(loss, x, eps, 5, key=key, **common).x,
                square(loss, x, eps, 5, key, **common).x,
            ]
        )

    return jax.jit(attacks)


_attacked = {norm: _all_attacks(norm) for norm in ("inf", "2")}
