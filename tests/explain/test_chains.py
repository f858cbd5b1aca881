"""Chains at work: exact moments within stated errors, warnings where they are due, and the remedies that are named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain import experiments
from chainrule.explain.experiments.chains import TARGETS


def test_a_normal_density_is_sampled_and_nothing_is_wrong() -> None:
    found = experiments.run("chains", target="correlated", draws=600, burn_in=400)
    numbers = found.numbers
    off = np.abs(np.subtract(numbers["mean"], numbers["exact_mean"]))
    assert (off < 4 * np.array(numbers["standard_error"])).all()
    assert numbers["deviation"] == pytest.approx(numbers["exact_deviation"], rel=0.1)
    assert numbers["concerns"] == []
    assert {picture.name for picture in found.pictures} == {"traces", "ranks", "diagnostics", "way"}


def test_modes_that_no_walk_crosses_are_warned_of_and_more_acceptance_mends_a_banana() -> None:
    modes = experiments.run("chains", target="two-modes", sampler="metropolis", draws=200, burn_in=200)
    assert any("have not seen the same distribution" in one for one in modes.numbers["concerns"])
    quick, careful = (
        experiments.run("chains", draws=400, burn_in=400, target_acceptance=wanted).numbers
        for wanted in (0.8, 0.95)
    )
    assert careful["divergences"] < 0.2 * quick["divergences"]
    assert min(careful["tail_ess"]) > 2 * min(quick["tail_ess"])


@pytest.mark.parametrize(
    ("name", "reach"), [("banana", 50), ("correlated", 9), ("funnel", 120), ("two-modes", 12)]
)
def test_moments_of_a_target_are_those_of_its_density(name, reach) -> None:
    target = TARGETS[name]
    x, y = np.linspace(-12, 12, 401), np.linspace(-reach, reach, 4001)
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)
    logs = np.asarray(jax.jit(jax.vmap(target.log_density))(jnp.asarray(grid.reshape(-1, 2), jnp.float32)))
    density = np.exp(logs.astype(np.float64).reshape(grid.shape[:2]))
    density /= density.sum()
    mean = np.einsum("xy,xyi->i", density, grid)
    assert mean == pytest.approx(target.mean, abs=2e-3)
    deviation = np.sqrt(np.einsum("xy,xyi->i", density, np.square(grid - mean)))
    assert deviation == pytest.approx(target.deviation, rel=5e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sampler": "gibbs"}, "use target=correlated"),
        ({"sampler": "ula"}, "give step_size=0.1"),
        ({"sampler": "gibbs", "target": "correlated", "step_size": 0.1}, "leave it out"),
        ({"sampler": "ula", "step_size": 0.1, "target_acceptance": 0.9}, "use sampler=hmc"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_with_what_does(settings, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        experiments.run("chains", **settings)


def test_conditionals_are_drawn_from() -> None:
    found = experiments.run("chains", sampler="gibbs", target="correlated", draws=500, burn_in=20).numbers
    assert found["acceptance"] == 1.0
    assert found["deviation"] == pytest.approx([1.0, 1.0], rel=0.15)
