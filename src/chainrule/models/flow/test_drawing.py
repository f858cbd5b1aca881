"""Draws that agree with what is known of them, and what captions say of passes."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError
from chainrule.data import Schema, from_arrays
from chainrule.models.flow.drawing import inpainted, passes_in_words
from chainrule.networks.flows.linear import Triangular

KEY = jax.random.key(0)


def test_draws_that_fit_what_is_known_of_a_gaussian_are_those_of_the_posterior() -> None:
    covariance = np.array([[1.0, 0.8, 0.3], [0.8, 1.5, 0.1], [0.3, 0.1, 0.7]])
    factor = np.linalg.cholesky(covariance)
    layer = eqx.tree_at(
        lambda one: (one.log_diagonal, one.below),
        Triangular(3),
        (jnp.log(jnp.diagonal(jnp.asarray(factor, jnp.float32))), jnp.asarray(factor, jnp.float32)),
    )
    z = jax.random.normal(KEY, (4000, 3))
    mask = jnp.array([True, False, True])
    found = np.asarray(inpainted(layer, z, jnp.array([2.0, 0.0, -0.5]), mask, None, 500))
    seen = np.array([0, 2])
    gain = covariance[1, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    spread = np.sqrt(covariance[1, 1] - gain @ covariance[seen, 1])
    np.testing.assert_allclose(found[:, seen], np.broadcast_to([2.0, -0.5], (4000, 2)), atol=1e-6)
    assert found[:, 1].mean() == pytest.approx(gain @ np.array([2.0, -0.5]), abs=4 * spread / np.sqrt(4000))
    assert found[:, 1].std() == pytest.approx(spread, rel=0.05)


@pytest.mark.parametrize("name", ["maf", "residual-flow", "cnf"])
def test_every_flow_fills_in_what_is_missing(name: str) -> None:
    settings = dict(cr.models.entry(name).toy)
    model = cr.models.build(name, Schema("points", (2,)), **settings)
    mask = np.array([True, False])
    drawn = model.sample(KEY, 3, inpaint=(np.array([0.7, 0.0]), mask), inpaint_steps=2)
    np.testing.assert_allclose(drawn[:, 0], 0.7, atol=1e-6)
    assert np.isfinite(np.asarray(drawn)).all()
    assert "2 steps of descent" in model.sample_caption(inpaint=1, inpaint_steps=2)
    with pytest.raises(ArgumentError, match="one true"):
        model.sample(KEY, 3, inpaint=(np.zeros(2), np.array([True])))


def test_a_row_with_empty_cells_is_filled_in_and_whole_numbers_stay_whole(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    count = draw.poisson(4.0, 200)
    rows = ["count,size", *(f"{a},{a + draw.normal():.9f}" for a in count)]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    data = cr.data.load(tmp_path / "rows.csv", target="none")
    with pytest.warns(UserWarning, match="equally spaced"):
        model = cr.models.build("realnvp", data, layers=2, width=8)
    run = cr.fit(model, data, steps=5, run=tmp_path / "run")
    (tmp_path / "row.csv").write_text("count,size\n,5.5\n")
    drawn = run.sample(6, inpaint=tmp_path / "row.csv", inpaint_steps=5)
    np.testing.assert_allclose(drawn[:, 1], 5.5, atol=1e-4)
    np.testing.assert_allclose(drawn[:, 0], np.rint(drawn[:, 0]), atol=1e-3)


def test_captions_say_at_most_where_equations_are_solved() -> None:
    schema = Schema("points", (2,))
    build = cr.models.build
    assert passes_in_words(build("realnvp", schema, layers=6).bijection).startswith("6 passes")
    residual = build("residual-flow", schema, blocks=2, coefficient=0.5).bijection
    assert passes_in_words(residual).startswith("at most 40 passes")  # twice as many as 0.5^20 < 1e-6 takes
    assert "tolerance of the solver" in passes_in_words(build("cnf", schema).bijection)
    images = from_arrays(np.random.default_rng(0).integers(0, 256, (20, 8, 8, 1), np.uint8))
    assert build("glow", images, depth=3, levels=2, width=4).passes == (6, 6)
