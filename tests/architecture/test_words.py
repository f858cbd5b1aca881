"""The repository speaks to its readers only: no paths of somebody's machine, no numbers of somebody's work list."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

MACHINE_PATH = re.compile(r"(?<![\w./~-])/(?:work|root|home)\b")
LIST_NUMBER = re.compile(r"\b(?:DER|NET|VIS|SEQ|PRB|LAT|INF|ADV|OTR|FLO|DIF|KER|TRA|EXP|AGT)-[0-9]{2}\b")


def stray_words(root: Path, files: Iterable[str]) -> list[str]:
    """Every machine path or work-list number in text files, as `file:line: word`."""
    found = []
    for name in files:
        path = root / name
        content = path.read_bytes() if path.is_file() else b""
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), start=1):
            for pattern in (MACHINE_PATH, LIST_NUMBER):
                found += [f"{name}:{number}: {match.group()}" for match in pattern.finditer(line)]
    return found


def test_no_tracked_file_names_a_machine_or_a_work_list(repository: Path) -> None:
    if not (repository / ".git").exists():
        pytest.skip("not a git checkout: there is no list of tracked files")
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=True
    )
    files = [name for name in listing.stdout.split("\0") if name]
    assert "pyproject.toml" in files
    found = stray_words(repository, files)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "word", ["/" + "home/ada/data", "/" + "root", "`/" + "work/shared`", "DER" + "-01", "see AGT" + "-12."]
)
def test_a_stray_word_is_named(tmp_path: Path, word: str) -> None:
    (tmp_path / "notes.md").write_text(f"first line\nhere: {word}\n", encoding="utf-8")
    found = stray_words(tmp_path, ["notes.md"])
    assert len(found) == 1
    assert found[0].startswith("notes.md:2: ")


@pytest.mark.parametrize(
    "text", ["derive/implicit/root.py", "https://example.org/home", "SHA-25", "DER-1", "homework/"]
)
def test_ordinary_text_is_accepted(tmp_path: Path, text: str) -> None:
    (tmp_path / "notes.md").write_text(text, encoding="utf-8")
    assert stray_words(tmp_path, ["notes.md"]) == []


def test_binary_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"PK\0 /" + b"home/ada")
    assert stray_words(tmp_path, ["a.npz"]) == []
