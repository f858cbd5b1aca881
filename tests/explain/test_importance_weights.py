"""The weight report: the known effective share of a wide proposal, and a warning for a narrow one."""

import pytest

from chainrule.explain import experiments


def test_a_wide_proposal_has_its_known_share_and_a_narrow_one_is_warned_of() -> None:
    wide = experiments.run("importance-weights", scale=2.0, draws=50_000).numbers
    assert wide["exact_share"] == pytest.approx(0.6614, abs=1e-4)
    assert wide["effective_share"] == pytest.approx(0.6614, abs=0.006)
    assert abs(wide["log_mean"]) < 4 * wide["standard_error"]
    assert wide["concern"] == ""
    narrow = experiments.run("importance-weights", scale=0.7)
    assert "Pareto k is" in narrow.numbers["concern"]
    assert "weights have no variance" in narrow.findings[0]
