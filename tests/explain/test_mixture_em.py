"""EM as a film: it never falls, the bound touches, criteria find the clouds, and a bad start is said to be one."""

import numpy as np

from chainrule.core.pictures import Film
from chainrule.explain import experiments


def test_em_climbs_to_the_clouds_by_a_bound_that_touches() -> None:
    found = experiments.run("mixture-em", n=300, most=3)
    numbers = found.numbers
    values, half = np.array(numbers["log_likelihood"]), np.array(numbers["bound_after_maximisation"])
    assert (np.diff(values) > -1e-9).all()
    assert numbers["touch"] < 1e-12
    assert (half >= values[: len(half)] - 1e-12).all(), "a maximisation lowers the bound"
    assert (values[1 : len(half) + 1] >= half - 1e-12).all(), "the bound is above the log-likelihood"
    assert abs(numbers["gradient"] - values[-1]) < 1e-3
    assert numbers["best"]["bic"] == 3
    film = found.pictures[0]
    assert isinstance(film, Film)
    frames = np.asarray(film.frames)
    assert frames.shape[1:] == (1, 360, 360, 3)
    assert len(film.labels) == len(frames)
    assert frames.min() >= 0
    assert frames.max() <= 1
    assert np.abs(frames[0] - frames[-1]).max() > 0.5, "nothing moves"


def test_a_start_that_leads_to_a_local_maximum_is_said_to() -> None:
    found = experiments.run("mixture-em", points="moons", n=100, components=3, most=3, seed=1)
    numbers = found.numbers
    assert numbers["truth"] is None
    said = any("local maximum" in one for one in found.findings)
    best = float(found.table.rows[2][1]) if found.table else 0.0
    assert said == (best > numbers["log_likelihood"][-1] + 1e-3)
