"""RealNVP for vectors: which entries its couplings move and see, whatever the number of entries and of layers."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml

import chainrule as cr
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.models.flow.realnvp.model import RealNVPConfig, became
from chainrule.models.flow.realnvp.model import build as realnvp
from chainrule.networks.flows.audit import layers_of
from chainrule.networks.flows.couplings import Coupling
from chainrule.networks.flows.linear import ReversedEntries

KEY = jax.random.key(0)


def build(size: int, **settings: object) -> FlowModel:
    config = RealNVPConfig(**{"width": 4, "depth": 1, "gain": 1.0, **settings})
    return realnvp(config, Schema("table", (size,)), KEY)


def moves(flow: FlowModel, size: int) -> np.ndarray:
    """Whether each coupling moves each column, from codes to data; columns that change places are followed."""
    order, found = np.arange(size), []
    for layer in layers_of(flow.bijection):
        if isinstance(layer, ReversedEntries):
            order = order[::-1]
        if isinstance(layer, Coupling):
            found.append(np.asarray(layer.moved)[np.argsort(order)])
    return np.asarray(found)


@pytest.mark.parametrize("split", ["halves", "alternate", "random"])
@pytest.mark.parametrize(("size", "layers"), [(2, 2), (3, 2), (3, 3), (4, 5), (5, 4), (13, 6)])
def test_every_column_is_moved_as_often_as_it_tells_how_others_are(
    split: str, size: int, layers: int
) -> None:
    moved = moves(build(size, split=split, layers=layers, width=1), size)
    assert moved.shape == (layers, size)
    for one, other in zip(moved[:-1:2], moved[1::2], strict=True):
        np.testing.assert_array_equal(one, ~other)  # couplings take turns
    assert (moved.sum(axis=0) >= layers // 2).all()
    assert ((~moved).sum(axis=0) >= layers // 2).all()


def test_uneven_halves_lead_back_with_volumes_of_the_jacobian_and_every_entry_depends_on_every_other() -> (
    None
):
    arrays, rest = eqx.partition(build(5, layers=3).bijection, eqx.is_inexact_array)
    draw = np.random.default_rng(0)
    arrays = jax.tree.map(lambda leaf: leaf + 0.3 * draw.normal(size=leaf.shape).astype(np.float32), arrays)
    x = jnp.asarray(draw.normal(size=(3, 5)), jnp.float32)

    @jax.jit
    def found(arrays: object, x: jax.Array) -> tuple[jax.Array, ...]:
        flow = eqx.combine(arrays, rest)
        z, volume = flow.inverse(x)
        slopes = jax.vmap(jax.jacfwd(lambda row: flow.inverse(row[None]).value[0]))(x)
        return flow.forward(z).value, volume, slopes

    back, volume, slopes = found(arrays, x)
    np.testing.assert_allclose(back, x, atol=1e-4)
    np.testing.assert_allclose(volume, np.linalg.slogdet(slopes)[1], atol=1e-4)
    assert (np.abs(slopes).max(axis=0) > 0).all()


def test_settings_of_an_earlier_version_mean_couplings_that_all_move_the_middle_entry() -> None:
    name, settings = became({"split": "halves", "layers": 2}) or ("", {})
    assert name == "realnvp"
    assert moves(build(3, **settings), 3)[:, 1].all()
    assert became(RealNVPConfig().model_dump()) is None


@pytest.mark.slow
def test_a_run_of_an_earlier_version_opens_with_the_middle_entry_as_it_was(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    data = cr.data.from_arrays(rows, kind="table")
    model = cr.models.build("realnvp", data, layers=2, width=4, depth=1, middle="moved")
    run = cr.fit(model, data, run=tmp_path / "old", steps=2, batch=8)
    assert moves(run.model, 3)[:, 1].all()
    x = jnp.asarray(rows[:4])
    expected = run.model.log_prob(x)
    stored = yaml.safe_load((run.path / "config.yaml").read_text())
    del stored["model"]["settings"]["middle"]
    (run.path / "config.yaml").write_text(yaml.safe_dump(stored))
    found = cr.Run.open(run.path)
    np.testing.assert_array_equal(found.model.log_prob(x), expected)
    assert cr.models.build("realnvp", data, layers=2, width=4).config.middle == "alternates"
