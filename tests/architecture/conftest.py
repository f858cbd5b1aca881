"""Made-up packages to try the rules on, and the real one."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

Write = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def package(tmp_path: Path) -> Write:
    """Writes files into a package called `chainrule` in a temporary folder and returns its root."""

    def write(files: Mapping[str, str]) -> Path:
        root = tmp_path / "chainrule"
        for name, text in {"__init__.py": "", **files}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text), encoding="utf-8")
            for folder in path.relative_to(root).parents:
                (root / folder / "__init__.py").touch()
        return root

    return write


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).parents[2]


@pytest.fixture(scope="session")
def chainrule(repository: Path) -> Path:
    """The folder of the real package."""
    return repository / "src" / "chainrule"


@pytest.fixture(scope="session")
def tracked(repository: Path) -> list[str]:
    """Files under version control."""
    if not (repository / ".git").exists():
        pytest.skip("not a git checkout: there is no list of tracked files")
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=True
    )
    files = [name for name in listing.stdout.split("\0") if name]
    assert "pyproject.toml" in files
    return files
