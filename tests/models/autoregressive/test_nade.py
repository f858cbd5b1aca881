"""NADE against the recursion it is defined by."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core import tree
from chainrule.data import Schema
from chainrule.models.autoregressive.nade import SharedHidden
from chainrule.models.autoregressive.nade import model as nade


def by_definition(network: SharedHidden, x: np.ndarray) -> np.ndarray:
    w, v, c, b = (np.asarray(a) for a in (network.inputs, network.outputs, network.hidden_bias, network.bias))
    logits = np.zeros_like(x)
    for row in range(len(x)):
        a = c.copy()
        for t in range(x.shape[1]):
            logits[row, t] = b[t] + v[t] @ (1 / (1 + np.exp(-a)))
            a += w[t] * x[row, t]
    return logits


@pytest.mark.parametrize("cached", [1, 1 << 21], ids=["strip by strip", "in one sweep"])
@pytest.mark.parametrize("entries", [1, 8, 21])
def test_products_give_what_the_recursion_gives(
    entries: int, cached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nade, "CACHED", cached)
    rng = np.random.default_rng(0)
    network = jax.tree.map(
        lambda leaf: leaf + rng.normal(size=leaf.shape), SharedHidden(entries, 6, jax.random.key(0))
    )
    x = rng.integers(0, 2, (5, entries)).astype(float)
    assert np.allclose(network(jnp.asarray(x))[..., 0], by_definition(network, x), atol=1e-12)


def test_it_has_the_parameters_of_the_paper() -> None:
    model = cr.models.build("nade", Schema("image", (28, 28, 1), levels=2))
    assert tree.size(eqx.filter(model, eqx.is_inexact_array)) == 2 * 784 * 500 + 784 + 500


def test_its_cost_grows_with_entries_times_width() -> None:
    def flops(entries: int) -> float:
        network = SharedHidden(entries, 64, jax.random.key(0))
        compiled = jax.jit(lambda network, x: network(x)).lower(network, jnp.zeros((4, entries))).compile()
        return float(compiled.cost_analysis()["flops"])

    assert flops(512) / flops(128) < 4.3
