"""Peers of the benchmark of images and sound that may be missing, or be there and broken."""

from pathlib import Path

import pytest

from benchmarks.suite.vision import _has_torchvision


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("RuntimeError: operator torchvision::nms does not exist", True),
        ("ModuleNotFoundError: No module named 'torchvision'", False),
    ],
)
def test_a_torchvision_that_does_not_fit_is_left_out_and_said(
    error: str, said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho Traceback >&2\necho "{error}" >&2\nexit 1\n')
    python.chmod(0o755)
    assert not _has_torchvision(python)
    assert ("left out: " + error in capsys.readouterr().out) == said


def test_one_that_can_be_imported_is_a_peer_and_none_without_an_environment(tmp_path: Path) -> None:
    python = tmp_path / "python"
    assert not _has_torchvision(python)
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)
    assert _has_torchvision(python)
