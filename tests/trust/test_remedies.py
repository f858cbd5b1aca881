"""Remedies that the source offers name commands, options and settings that there are.

Every text that can be shown is collected from the source: its parts that stand fast, without what is filled in.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from chainrule.cli import app, settings
from chainrule.data.loading import sources
from chainrule.data.loading.options import COMMON
from chainrule.data.readers import (
    arrays,
    boxed,
    captioned,
    cifar,
    documents,
    idx,
    images,
    masked,
    midi_files,
    pairs,
    recordings,
    sound,
    table,
    text,
)
from chainrule.train import TrainConfig

REPOSITORY = Path(__file__).parents[2]
READERS = [
    *(arrays.reader, captioned.reader, cifar.reader, documents.folder_reader, documents.lines_reader),
    *(idx.reader, images.reader, pairs.reader, text.reader),
    *(boxed.reader, masked.reader, midi_files.reader, recordings.reader, sound.reader),
    *(format.reader for format in table.FORMATS.values()),
]
OPTIONS = {
    *COMMON,
    *(name for reader in READERS for name in reader.options),
    *(name for known in sources.names() for name in known.options),
}
# Words that mean an option of data without `data.` before them, and where: commands that take them so.
OWN_WORDS = {
    "src/chainrule/cli/importing.py",
    "src/chainrule/cli/data.py",
    "src/chainrule/cli/tokens.py",
    "src/chainrule/kernels/sequences/files.py",
}
# Words that follow the name of the package where it is not a command.
NO_VERBS = {"as", "does", "or", "sparse"}
ONLY_DATA = {
    "tokenizer",
    "vocab",
    "binarize",
    "packing",
    "max_bytes",
    "max_files",
    "max_ratio",
    "max_pixels",
    "links",
}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Texts of a file that are not docstrings, with a question mark for each part that is filled in."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)
    }
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "?" for part in node.values),
            )
        elif (
            isinstance(node, ast.Constant)
            and id(node) not in inside | docstrings
            and isinstance(node.value, str)
        ):
            yield node.lineno, node.value


def offered() -> list[tuple[str, str]]:
    """Every text of the package, with where it stands."""
    files = [path for path in (REPOSITORY / "src").rglob("*.py") if not path.name.startswith("test_")]
    return [
        (f"{path.relative_to(REPOSITORY).as_posix()}:{line}", text)
        for path in files
        for line, text in texts(path)
    ]


@pytest.fixture(scope="module")
def found() -> list[tuple[str, str]]:
    return offered()


def commands() -> dict[str, set[str]]:
    """Every verb, and the verbs below it."""
    groups = {
        str(group.name): {str(command.name) for command in group.typer_instance.registered_commands}
        for group in app.registered_groups
        if group.typer_instance is not None
    }
    return {str(command.name): set() for command in app.registered_commands} | groups


def test_commands_in_texts_exist(found: list[tuple[str, str]]) -> None:
    known = commands()
    seen, wrong = 0, []
    for where, shown in found:
        for verb, below in re.findall(r"\bchainrule ([a-z]+)(?: ([a-z]+))?(?=[ `,.;:)\n]|$)", shown):
            seen += 1
            if (verb not in known and verb not in NO_VERBS) or (
                known.get(verb) and below and below not in known[verb]
            ):
                wrong.append(f"{where}: chainrule {verb} {below}")
    assert seen > 50
    assert wrong == []


def test_options_of_data_in_texts_exist(found: list[tuple[str, str]]) -> None:
    named = [(where, name) for where, shown in found for name in re.findall(r"\bdata\.([a-z_]+)=", shown)]
    assert len(named) > 15
    assert [f"{where}: data.{name}" for where, name in named if name not in OPTIONS] == []


def test_options_of_data_are_written_as_they_are_typed(found: list[tuple[str, str]]) -> None:
    wrong = [
        f"{where}: {name}="
        for where, shown in found
        for name in re.findall(r"(?<![\w.\"'({])([a-z_]+)=(?=[a-z0-9?])", shown)
        if name in ONLY_DATA
        and where.split(":")[0] not in OWN_WORDS
        and re.search(rf"(use|with|or|leave|raise|allow|choose|try|trust\w*[^.]*:) {name}=", shown)
    ]
    assert wrong == []


def test_settings_in_texts_exist(found: list[tuple[str, str]]) -> None:
    groups = {"optimizer", "schedule", "stopping", "augment", "adversary"}
    known = {*settings.of(TrainConfig)}
    named = [
        (where, f"{group}.{name}")
        for where, shown in found
        for group, name in re.findall(r"\b([a-z]+)\.([a-z_]+)=", shown)
        if group in groups
    ]
    assert len(named) > 5
    assert [f"{where}: {name}" for where, name in named if name not in known] == []


def test_extras_in_texts_exist(found: list[tuple[str, str]]) -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = [
        (where, name) for where, shown in found for name in re.findall(r"chainrule\[([a-z0-9]+)\]", shown)
    ]
    assert named
    assert [f"{where}: {name}" for where, name in named if name not in extras] == []


def test_the_collection_can_fail(tmp_path: Path) -> None:
    file = tmp_path / "made.py"
    file.write_text('"""chainrule nothing"""\nx = f"use tokenizer=bpe: chainrule data chekc {x}"\n')
    assert list(texts(file)) == [(2, "use tokenizer=bpe: chainrule data chekc ?")]
    assert "chekc" not in commands()["data"]
