"""FVSBN: as many logistic regressions as entries."""

from collections.abc import Callable
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree

import chainrule as cr
from chainrule.core import tree
from chainrule.data import Batch, Schema
from chainrule.models.autoregressive.vectors import VectorModel


def fitted(x: np.ndarray) -> VectorModel:
    """The maximum of the likelihood, by L-BFGS."""
    model = cr.models.build("fvsbn", Schema("table", x.shape[1:], levels=2))
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    flat, unravel = ravel_pytree(arrays)
    batch = Batch(jnp.asarray(x))

    @jax.jit
    def loss(flat: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.value_and_grad(lambda v: eqx.combine(unravel(v), rest).loss(batch, jax.random.key(0))[0])(
            flat
        )

    found = scipy.optimize.minimize(
        loss, np.asarray(flat), jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 1e-16}
    )
    return eqx.combine(unravel(jnp.asarray(found.x)), rest)


def test_it_has_one_bias_per_entry_and_one_weight_per_pair() -> None:
    model = cr.models.build("fvsbn", cr.data.load("binary-digits"))
    assert tree.size(eqx.filter(model, eqx.is_inexact_array)) == 64 * 65 // 2


def test_two_entries_fit_every_joint_table() -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        counts = rng.integers(1, 50, 4)
        x = np.repeat(np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]]), counts, axis=0)
        p = np.exp(np.asarray(fitted(x).log_prob(jnp.asarray([[0.0, 0], [0, 1], [1, 0], [1, 1]]))))
        assert np.allclose(p, counts / counts.sum(), atol=1e-6)


def test_it_equals_unpenalised_logistic_regressions(oracle: Callable[[str], ModuleType]) -> None:
    linear_model = oracle("sklearn.linear_model")
    rng = np.random.default_rng(1)
    z = rng.normal(size=(600, 5)) @ rng.normal(size=(5, 5))
    x = (z + rng.logistic(size=z.shape) > 0).astype(float)
    member = fitted(x).members[0]
    assert np.isclose(jax.nn.sigmoid(member.bias[0]), x[:, 0].mean(), atol=1e-6)
    for t in range(1, 5):
        theirs = linear_model.LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(x[:, :t], x[:, t])
        assert np.allclose(member.matrix[t, :t], theirs.coef_[0], atol=1e-4)
        assert np.isclose(member.bias[t], theirs.intercept_[0], atol=1e-4)
