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


def test_without_hidden_units_it_has_a_matrix_for_each_number_and_learns_conditions() -> None:
    schema = Schema("table", (SIZE,), "value")
    model = models.build("maf", schema, layers=2, width=0, conditional=True, condition_width=4)
    shapes = {leaf.shape for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array))}
    assert {(2, 2, SIZE, SIZE), (2, 2, 4, SIZE)} <= shapes
