"""What the commands write is never under version control: runs, pages of probes, samples."""

from collections.abc import Iterable

import pytest

TOP = {
    *(".ci", "benchmarks", "docs", "src", "tests"),
    *(".gitignore", "LICENSE", "Makefile", "conftest.py", "constraints.txt", "pyproject.toml"),
    *("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md"),
}
"""Files and folders at the root of the repository."""


def strays(files: Iterable[str]) -> list[str]:
    """Files that belong nowhere."""
    return [name for name in files if name.split("/")[0] not in TOP]


def test_nothing_a_command_wrote_is_tracked(tracked: list[str]) -> None:
    assert strays(tracked) == []
    assert {name.split("/")[0] for name in tracked} == TOP


@pytest.mark.parametrize("name", ["probes/distances-001/index.html", "runs/a/config.yaml", "samples.txt"])
def test_what_a_command_wrote_is_named(name: str) -> None:
    assert strays(["README.md", name]) == [name]
