"""The guide to bounds of the evidence runs, and prints what it says."""

from pathlib import Path

import pytest

from tests.explain.test_guide import followed


@pytest.mark.slow
def test_the_guide_to_bounds_runs_and_prints_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = followed("variational.md", tmp_path, capsys)
    assert "by linear-Gaussian" in str(made["report"])
    assert "an upper bound on the NLL in expectation" in str(made["found"])
