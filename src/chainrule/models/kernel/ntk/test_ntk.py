"""The trained network of infinite width: gradient descent solved."""

import jax
import jax.numpy as jnp
import numpy as np

import chainrule as cr
from chainrule.kernels.infinite import gradient_descent
from chainrule.models.kernel.wide_targets import WideRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2)).astype(np.float32)


def test_values_are_those_of_gradient_descent_at_the_end() -> None:
    data = cr.data.from_arrays(X, np.sin(2 * X[:, 0]) + X[:, 1], kind="table")
    batch = data.train.batch(np.arange(len(data.train)))
    model = cr.models.build("ntk", data, ridge=1e-3, depth=1)
    model, _ = model.iterate(batch, jax.random.key(0))  # type: ignore[attr-defined]
    assert isinstance(model, WideRegressor)
    x, y = np.asarray(batch.x, np.float64), np.asarray(batch.y, np.float64).reshape(-1)
    network, middle = model.network(), x.mean(axis=0)
    ridge = 1e-3 * float(np.diag(network.ntk(x - middle)).mean())
    trained = gradient_descent(network.ntk, network.nngp, x - middle, y - y.mean(), ridge=ridge)
    expected = trained(np.asarray(data.test.x, np.float64) - middle).mean + y.mean()
    found = np.asarray(model.predict(jnp.asarray(data.test.x))).reshape(-1)
    np.testing.assert_allclose(found, expected, atol=1e-5)
