"""Langevin dynamics against the distributions it is known to have."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.probability.distributions import GaussianMixture
from chainrule.probability.monte_carlo.langevin import langevin, langevin_chains

KEY = jax.random.key(3)


def test_plain_langevin_has_the_variance_of_its_step_size() -> None:
    x = jax.random.normal(KEY, (20000, 1))
    drawn = langevin(lambda x: -x, x, 0.5, 60, KEY)
    assert float(drawn.var()) == pytest.approx(1 / (1 - 0.25), rel=0.04)


def test_moves_that_may_be_refused_have_the_distribution_itself_whatever_their_size() -> None:
    x = jnp.zeros((2000, 1))
    options = {"kept": 10, "burn_in": 30, "thin": 5}
    corrected = langevin_chains(
        lambda x: -x, x, 0.5, KEY, log_density=lambda x: -jnp.square(x).sum(axis=1) / 2, **options
    )
    plain = langevin_chains(lambda x: -x, x, 0.5, KEY, **options)
    assert corrected.states.shape == plain.states.shape == (10, 2000, 1)
    assert float(corrected.states.var()) == pytest.approx(1, rel=0.04)
    assert float(plain.states.var()) == pytest.approx(4 / 3, rel=0.04)
    assert 0.7 < float(corrected.accepted) < 1 == float(plain.accepted)


def test_walks_from_the_middle_choose_a_mode_by_the_root_of_its_weight() -> None:
    # From between far modes of weights w and 1 - w the right one is reached with (2/pi) atan(sqrt(w/(1 - w))).
    two = GaussianMixture([0.2, 0.8], [[-4.0], [4.0]], [0.25, 0.25])
    drawn = langevin(lambda x: two.score(two.components(x)), jnp.zeros((4000, 1)), 2e-4, 500, KEY)
    assert float((drawn > 0).mean()) == pytest.approx(2 / np.pi * np.arctan(2), abs=0.025)
