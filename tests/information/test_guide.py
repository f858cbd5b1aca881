"""The code of the guide to information runs, and its numbers are right."""

from pathlib import Path

import pytest

from tests.explain.test_guide import followed


@pytest.mark.slow
def test_the_guide_to_information_runs_and_finds_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = followed("information.md", tmp_path, capsys)
    assert made["rates"].entropy_rate == pytest.approx(0.557496, abs=1e-6)
    assert made["passed"].value == pytest.approx(0.321928, abs=1e-6)
    assert made["curve"].relevances == pytest.approx([0, 0.4072, 0.5306], abs=1e-4)
