"""Costs whose rows are spread over several devices."""

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_rows_spread_over_devices_give_the_same_plan_and_stay_where_they_are() -> None:
    """In a process of its own, which has four devices."""
    program = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from chainrule.probability.transport import cost_matrix, point_costs, sinkhorn

random = np.random.default_rng(0)
x, y = random.normal(size=(64, 2)), random.normal(size=(48, 2)) + 1
rows = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows", None))
costs = np.asarray(cost_matrix(x, y))
alone, spread = sinkhorn(None, None, costs, 0.1), sinkhorn(None, None, jax.device_put(costs, rows), 0.1)
np.testing.assert_allclose(spread.plan, alone.plan, rtol=1e-3, atol=1e-7)
np.testing.assert_allclose(spread.bounds, alone.bounds, rtol=1e-4)
slope = jax.grad(lambda matrix: sinkhorn(None, None, matrix, 0.1).value)(jax.device_put(costs, rows))
np.testing.assert_allclose(slope, alone.plan, rtol=1e-3, atol=1e-7)
for one in (spread.plan, slope):
    assert one.sharding.shard_shape(one.shape) == (16, 48), one.sharding
points = sinkhorn(None, None, point_costs(jax.device_put(x, rows), y, block=8), 0.1)
np.testing.assert_allclose(points.value, alone.value, rtol=1e-5)
"""
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
