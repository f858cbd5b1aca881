"""Flows as codes: examples of levels come back to the last bit at minus the log-density with noise between levels."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data.schema import Schema
from chainrule.models.flow.flow_model import FlowModel
from chainrule.train.compression.bound import bound_bits

LEVELS = Schema("table", (4,), levels=8)


def flow(schema: Schema = LEVELS, **settings: Any) -> FlowModel:
    """With weights that matter."""
    draw = np.random.default_rng(0)
    model = models.build("realnvp", schema, **{"layers": 2, "width": 8, **settings})
    moved = jax.tree.map(
        lambda leaf: (
            leaf + 0.15 * jnp.asarray(draw.normal(size=leaf.shape), leaf.dtype)
            if eqx.is_inexact_array(leaf)
            else leaf
        ),
        model,
    )
    assert isinstance(moved, FlowModel)
    return moved


def test_levels_come_back_at_the_density_with_noise() -> None:
    pytest.importorskip("constriction")
    draw = np.random.default_rng(1)
    symbols = draw.normal(3.5, 1.5, (2000, 1)) + draw.normal(0, 0.7, (2000, 4))
    symbols = np.clip(np.rint(symbols), 0, 7).astype(np.int32)
    model = flow()
    code = model.code().with_rows(128).fitted(symbols)
    coded = code.encode(symbols, (0, 0), lambda done: None)
    bound = bound_bits(model, LEVELS, symbols)
    assert bound is not None
    assert sum(coded.ledger.values()) == pytest.approx(bound, rel=0.01)
    np.testing.assert_array_equal(code.decode(coded, len(symbols), (0, 0), lambda done: None), symbols)
    with pytest.raises(ArgumentError, match="codes of this model are symbols"):
        model.code().with_rows(128).fitted(symbols, step=0.1)


def test_flows_without_an_exact_code_say_why() -> None:
    with pytest.raises(CapabilityError, match="continuous numbers"):
        flow(Schema("table", (4,))).code()
    with pytest.raises(CapabilityError, match="base=student"):
        flow(base="student").code()
    with pytest.raises(CapabilityError, match="2,048 entries"):
        flow(Schema("table", (2048,), levels=8)).code()
