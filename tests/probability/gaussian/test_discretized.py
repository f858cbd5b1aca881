"""Normal distributions on a grid against SciPy's."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import pytest
from scipy import stats

from chainrule.probability.gaussian import discretized_log_prob


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_probabilities_of_levels_sum_to_one_and_are_those_of_their_bins() -> None:
    values = jnp.linspace(-1, 1, 17)
    mean, index = jnp.full((17, 1), 0.31), jnp.arange(17)[:, None]
    cost = -discretized_log_prob(mean, 0.2, index, values)
    assert float(jnp.exp(-cost).sum()) == pytest.approx(1, abs=1e-12)
    expected = stats.norm.cdf(0.5625, 0.31, 0.2) - stats.norm.cdf(0.4375, 0.31, 0.2)
    assert float(cost[12]) == pytest.approx(-math.log(expected), rel=1e-9)
    far = -discretized_log_prob(jnp.array([[-1.0]]), 0.05, jnp.array([[16]]), values)
    assert float(far[0]) == pytest.approx(-stats.norm.logsf(0.9375, -1, 0.05), rel=1e-9)
