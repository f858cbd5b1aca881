"""The code of the guide to chains, tables and directed models runs, and its comments are true."""

from pathlib import Path

import numpy as np
import pytest

from tests.explain.test_guide import followed


@pytest.mark.slow
def test_the_guide_runs_and_its_numbers_are_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = followed("markov.md", tmp_path, capsys)
    probability, chain = made["P"], made["A"]
    np.testing.assert_allclose(made["pi"], np.array([6, 5, 4, 5, 4]) / 24)
    after = [
        probability.markov.next_symbol(chain, [[0, 1, 2], [3, 4]], history)[0] for history in ((1, 0), (0, 0))
    ]
    assert after == pytest.approx([5 / 6, 19 / 24])
    assert made["test"].inverted(probability.JointTable([0.99, 0.01], "ill")).at(positive=1).values[1] > 0.15
    assert np.diff(made["fitted"].trace.log_likelihoods).min() > -1e-9
