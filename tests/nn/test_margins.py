"""Losses of directions against the formulas of the papers, written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.margins import angular_margin, batch_triplets, partner_surprisal, unit

NOISE = np.random.default_rng(0)


def test_the_angular_margin_is_the_formula_and_goes_on_beyond_pi() -> None:
    theta = np.array([0.3, 1.2, 2.0, 2.9])  # the last is beyond pi with the margin
    cosines = np.stack([np.cos(theta), NOISE.uniform(-1, 1, 4), NOISE.uniform(-1, 1, 4)], axis=1)
    own = np.where(theta + 0.5 <= np.pi, np.cos(theta + 0.5), np.cos(theta) - 0.5 * np.sin(0.5))
    logits = 64 * np.concatenate([own[:, None], cosines[:, 1:]], axis=1)
    expected = (
        np.log(np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1))
        + logits.max(axis=1)
        - logits[:, 0]
    )
    found = angular_margin(jnp.asarray(cosines, jnp.float32), jnp.zeros(4, int))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    slope = jax.jit(jax.grad(lambda c: angular_margin(c, jnp.zeros(1, int)).sum()))
    for value in (-1.0, 0.0, 1.0):  # the ends of the cosine have finite slopes
        assert np.isfinite(slope(jnp.array([[value, 0.1]]))).all()
    with pytest.raises(ArgumentError, match="margin=4"):
        angular_margin(jnp.zeros((1, 2)), jnp.zeros(1, int), margin=4)


def test_triplets_take_the_farthest_partner_and_the_nearest_stranger() -> None:
    v = np.asarray(unit(jnp.asarray(NOISE.normal(size=(9, 4)), jnp.float32)))
    who = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3])  # the last has no partner
    distance = np.square(v[:, None] - v[None]).sum(axis=2)
    each = [
        max(
            0.0,
            max(distance[i, j] for j in range(9) if who[j] == who[i] and j != i)
            - min(distance[i, who != who[i]])
            + 0.2,
        )
        for i in range(8)
    ]
    assert float(batch_triplets(jnp.asarray(v), jnp.asarray(who))) == pytest.approx(np.mean(each), rel=1e-4)
    assert float(batch_triplets(jnp.asarray(v), jnp.arange(9))) == 0
    assert float(batch_triplets(jnp.asarray(v), jnp.zeros(9, int))) == 0


def test_partners_are_found_among_all_others() -> None:
    v = np.asarray(unit(jnp.asarray(NOISE.normal(size=(5, 4)), jnp.float32)), np.float64)
    who = np.array([0, 0, 1, 1, 2])
    each = []
    for i in range(4):
        logits = v @ v[i] / 0.1
        others = np.delete(logits, i)
        partner = logits[[j for j in range(5) if who[j] == who[i] and j != i]]
        each.append(np.log(np.exp(others).sum()) - partner.mean())
    found = partner_surprisal(jnp.asarray(v, jnp.float32), jnp.asarray(who))
    assert float(found) == pytest.approx(np.mean(each), rel=1e-4)
    assert float(partner_surprisal(jnp.asarray(v, jnp.float32), jnp.arange(5))) == 0
