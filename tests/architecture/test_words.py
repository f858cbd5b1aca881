"""The repository speaks to its readers only, in the words of the field.

No paths of a machine, no numbers of a work list; and no identifiers that were given up for the literature's
(docs/glossary.md says what is said instead).
"""

import io
import re
import tokenize
from collections.abc import Iterable
from pathlib import Path

import pytest

MACHINE_PATH = re.compile(r"(?<![\w./~-])/(?:work|root|home)\b")
LIST_NUMBER = re.compile(r"\b(?:DER|NET|VIS|SEQ|PRB|LAT|INF|ADV|OTR|FLO|DIF|KER|TRA|EXP|AGT)-[0-9]{2}\b")

RETIRED = {
    "Stretch": "Trainer",
    "Journalist": "RunWriter",
    "Voice": "ProgressPrinter",
    "Wish": "Condition",
    "Told": "Conditioning",
    "Transducer": "EncoderDecoder",
    "nobody": "null_embedding",
    "dropping": "condition_dropout",
    "law": "distribution",
    "laws": "distributions",
    "player": "part",
    "players": "parts",
    "Player": "Part",
    "Players": "Parts",
    "surprise": "surprisal",
    "Surprise": "Surprisal",
    "told": "condition, conditioning or metrics",
    "place": "position, index or location",
    "places": "positions, indices or locations",
}
"""Names given up, alone or as a part of a class name, and what took their place."""
GAMES = {"player", "players", "Player", "Players"}
"""Games of coalitions and board games have players in all of the literature; they alone keep the word."""
OF_GAMES = re.compile(
    r"(?:^|/)(?:shapley/|experiments/(?:fair_division|value_functions|shapley_sampling)\.py$"
    r"|agents/(?:games|tree_search|arena|records|algorithms/alphazero)/|cli/(?:test_)?play\.py$)"
)


def retired_in(name: str) -> set[str]:
    """The words that a file may not use as identifiers."""
    return RETIRED.keys() - GAMES if OF_GAMES.search(name) else set(RETIRED)


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


def retired_identifiers(root: Path, files: Iterable[str]) -> list[str]:
    """Every retired identifier of Python files, as `file:line: identifier, now ...`."""
    found = []
    for name in files:
        path = root / name
        if not name.endswith(".py") or not path.is_file():
            continue
        with tokenize.open(path) as stream:
            text = stream.read()
        if not any(word in text for word in RETIRED):  # most files: no need to look closer
            continue
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                gone = retired_in(name) & {token.string, *re.findall(r"[A-Z][a-z0-9]*", token.string)}
                found += [f"{name}:{token.start[0]}: {token.string}, now {RETIRED[word]}" for word in gone]
    return found


def test_no_tracked_file_names_a_machine_or_a_work_list(repository: Path, tracked: list[str]) -> None:
    found = stray_words(repository, tracked)
    assert not found, "\n".join(found)


def test_no_identifier_uses_a_retired_word(repository: Path, tracked: list[str]) -> None:
    found = retired_identifiers(repository, tracked)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "class Stretch: ...",
        "x = TrainStretch(1)",
        "def f(*, dropping=0.1): ...",
        "self.nobody = 0",
        "import a.Told",
        "y = conditions.Wish",
        "for place in range(3): ...",
    ],
)
def test_a_retired_identifier_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.py").write_text(f"# first\n{text}\n", encoding="utf-8")
    found = retired_identifiers(tmp_path, ["own.py"])
    assert len(found) == 1
    assert found[0].startswith("own.py:2: ")


def test_only_games_have_players(tmp_path: Path) -> None:
    names = ["shapley/own.py", "explain/experiments/fair_division.py", "models/own.py", "shapley_own.py"]
    names += ["agents/games/own.py", "agents/learning/own.py", "own/games/own.py"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("players = Wish\n", encoding="utf-8")
    found = retired_identifiers(tmp_path, names)
    assert sorted(line for line in found if "players" in line) == [
        "agents/learning/own.py:1: players, now parts",
        "models/own.py:1: players, now parts",
        "own/games/own.py:1: players, now parts",
        "shapley_own.py:1: players, now parts",
    ]
    assert sum("Wish" in line for line in found) == len(names)


@pytest.mark.parametrize(
    "text",
    [
        "stretch = 2.0",
        "voice = 'Voice'",
        "# the Stretch of old",
        "Stretched = 1",
        "in_place = True",
        "FORMER = {'dropping': 'x'}",
    ],
)
def test_other_identifiers_strings_and_comments_are_accepted(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.py").write_text(text + "\n", encoding="utf-8")
    assert retired_identifiers(tmp_path, ["own.py"]) == []


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
