"""The chain experiment: the numbers of its example, chains of one's own, and what it says of bad ones."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain import experiments

TWO = "0.9,0.1; 1/2,1/2"


def test_the_example_has_its_stationary_distribution_and_a_witness() -> None:
    found = experiments.run("markov-chain", steps=5, paths=2)
    np.testing.assert_allclose(found.numbers["stationary"], [np.array([6, 5, 4, 5, 4]) / 24])
    assert any("no Markov chain" in sentence for sentence in found.findings)
    assert found.table is not None
    assert len(found.table.rows) == 2


def test_a_chain_of_ones_own_is_read_with_fractions() -> None:
    found = experiments.run("markov-chain", transition=TWO, steps=5, paths=2, classes="a,a")
    np.testing.assert_allclose(found.numbers["stationary"], [[5 / 6, 1 / 6]])
    assert found.findings[-1] == "The classes are a Markov chain, whatever the start."
    assert found.table is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transition": "0.9,x; 1,0"}, "'x' is no number"),
        ({"transition": "0.9,0.1; 1"}, "rows of equal length"),
        ({"transition": "0.9,0.5; 0.1,0.5"}, "transpose"),
        ({"transition": TWO, "start": 2}, "numbered 0 to 1"),
        ({"transition": TWO, "classes": "a"}, "1 labels for 2 states"),
    ],
)
def test_bad_chains_are_named(settings, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        experiments.run("markov-chain", **settings)
