"""Families of densities side by side: exact ones and bounds, on data as they are asked for."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain import experiments


def test_densities_and_bounds_are_told_apart_and_both_directions_measured() -> None:
    outcome = experiments.run("families", models=["realnvp", "vae"], steps=2, batch=16, load={"n": 60})
    exact, bound = (outcome.numbers[name] for name in ("realnvp", "vae"))
    assert (exact["bound"], bound["bound"]) == (False, True)
    assert exact["passes"] is not None
    assert exact["inverse_error"] < 1e-4
    assert bound["passes"] is None
    assert all(np.isfinite(one["nats"]) and one["bits"] is None for one in (exact, bound))
    assert outcome.table is not None
    assert [row[3] for row in outcome.table.rows] == ["exact", "bound"]


def test_what_cannot_be_compared_is_refused_before_anything_is_trained() -> None:
    with pytest.raises(ArgumentError, match=r"models=gan.*neither the density"):
        experiments.run("families", models=["maf", "gan"], steps=1_000_000, load={"n": 60})
