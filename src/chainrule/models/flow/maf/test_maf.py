"""Masked autoregressive flow without hidden units: the best Gaussian, found by gradients."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.stats import multivariate_normal

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Schema
from chainrule.models.flow.flow_model import FlowModel

ROWS, SIZE = 50_000, 3


def test_with_a_linear_conditioner_it_reaches_the_likelihood_of_the_best_gaussian() -> None:
    draw = np.random.default_rng(0)
    mixing = np.array([[1.0, 0.5, 0.2], [0.0, 0.7, -0.4], [0.0, 0.0, 1.5]])
    x = draw.normal(size=(ROWS, SIZE)) @ mixing + [1.0, -2.0, 0.5]
    covariance = np.cov(x.T, bias=True)
    best = SIZE / 2 * (1 + math.log(2 * math.pi)) + np.linalg.slogdet(covariance)[1] / 2
    assert best == pytest.approx(-multivariate_normal(x.mean(axis=0), covariance).logpdf(x).mean(), abs=1e-9)
    with jax.enable_x64(True):
        model = models.build("maf", Schema("table", (SIZE,)), layers=1, width=0, norm="none", bound=50)
        assert isinstance(model, FlowModel)
        batch = Batch(jnp.asarray(x))
        arrays, rest = eqx.partition(model, eqx.is_inexact_array)
        optimiser = optax.lbfgs()

        def cost(arrays: FlowModel) -> jax.Array:
            return eqx.combine(arrays, rest).loss(batch, jax.random.key(0))[0]

        @jax.jit
        def fitted(arrays: FlowModel) -> FlowModel:
            def step(_: int, carry: tuple[FlowModel, optax.OptState]) -> tuple[FlowModel, optax.OptState]:
                at, state = carry
                value, slope = optax.value_and_grad_from_state(cost)(at, state=state)
                moves, state = optimiser.update(slope, state, at, value=value, grad=slope, value_fn=cost)
                return optax.apply_updates(at, moves), state

            return jax.lax.fori_loop(0, 40, step, (arrays, optimiser.init(arrays)))[0]

        found = float(cost(fitted(arrays)))
    # Scales may depend on entries, too, which fits a sample of this size better by about 3 / (2 ROWS) nats.
    assert found == pytest.approx(best, abs=1e-4)
    assert found < best + 1e-6


def test_vectors_are_conditions_one_for_all_or_one_for_each() -> None:
    schema = Schema("table", (SIZE,), "value", target_shape=(2,))
    model = models.build("maf", schema, layers=2, width=0, conditional=True, condition_width=4)
    assert isinstance(model, FlowModel)
    shapes = {leaf.shape for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))}
    assert {(2, 2, SIZE, SIZE), (2, 2, 4, SIZE)} <= shapes  # layers, numbers, of entries or of what is told
    draw = np.random.default_rng(0)
    given = draw.normal(size=(64, 2)).astype(np.float32)
    x = (draw.normal(size=(64, SIZE)) + 3 * given[:, :1]).astype(np.float32)
    batch = Batch(jnp.asarray(x), jnp.asarray(given))

    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    optimiser = optax.adam(0.02)

    @jax.jit
    def fitted(arrays: FlowModel, keys: jax.Array) -> FlowModel:
        def step(
            carry: tuple[FlowModel, optax.OptState], key: jax.Array
        ) -> tuple[tuple[FlowModel, optax.OptState], None]:
            at, state = carry
            slope = jax.grad(lambda one: eqx.combine(one, rest).loss(batch, key)[0])(at)
            moves, state = optimiser.update(slope, state)
            return (optax.apply_updates(at, moves), state), None

        return jax.lax.scan(step, (arrays, optimiser.init(arrays)), keys)[0][0]

    model = eqx.combine(fitted(arrays, jax.random.split(jax.random.key(0), 150)), rest)
    key = jax.random.key(1)
    low, high = (np.asarray(model.sample(key, 200, condition=one)) for one in ([-1.0, 0.0], [1.0, 0.0]))
    assert (high - low).mean() > 2
    each = np.asarray(model.sample(key, 64, condition=given))
    assert np.corrcoef(each.mean(axis=1), given[:, 0])[0, 1] > 0.8
    with pytest.raises(ArgumentError, match=r"trained on conditions of shape \(2,\)"):
        model.sample(key, 5, condition=[1.0, 0.0, 0.0])
