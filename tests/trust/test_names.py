"""Names from files reach the screen visibly, commands to copy quoted, and runs only when they can be typed again."""

import json
import shlex
import subprocess
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chainrule.core.errors import ArgumentError, ChainruleError
from chainrule.core.quoting import plain, printable, shell_word
from chainrule.train.naming import check_name, stem_of
from tests.cli.conftest import Command

HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\u202egnp.\x9b31m"
CELL = HOSTILE.replace("\r", "")  # in a table it ends a line
TEXT = st.text(st.characters(codec=None, exclude_characters="\0"))


def shown(text: str) -> list[str]:
    """Characters that a terminal would obey instead of showing them."""
    turns = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return [
        c
        for c in text
        if c != "\n" and (unicodedata.category(c) == "Cc" or unicodedata.bidirectional(c) in turns)
    ]


@given(TEXT)
@example(HOSTILE)
@settings(max_examples=60)
def test_no_text_can_command_a_terminal_or_forge_a_line(text: str) -> None:
    assert not shown(plain(text))
    assert len(plain(text).splitlines()) <= 1
    assert not shown(printable(text).replace("\t", ""))
    error = ChainruleError(f"cannot read {text}", remedy="try again")
    assert len(str(error).splitlines()) == 2
    assert not shown(str(error))


def test_a_shell_reads_every_quoted_word_as_it_was() -> None:
    words = [
        HOSTILE,
        "$(touch stolen)",
        "`x`",
        "it's",
        "a\nb\tc",
        "\\n",
        "'\n'",
        "ü ñ",
        "-x",
        "\udcff\udc80",
        "~",
        "*",
    ]
    script = "printf '%s\\0' " + " ".join(shell_word(word) for word in words)
    assert not shown(script)
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    read = [part.decode("utf-8", "surrogateescape") for part in done.stdout.split(b"\0")[:-1]]
    assert read == words


@pytest.fixture
def table(cli: Command) -> Path:
    """A table whose name, columns and classes are hostile."""
    file = Path(f"a$(touch stolen){HOSTILE}\n.csv")
    rows = [f"{i % 7},{i % 5},{['odd' + CELL, 'even'][i % 2]}" for i in range(60)]
    file.write_text("\n".join([f"x{CELL},y,kind", *rows]), encoding="utf-8")
    return file


def test_hostile_names_are_shown_and_never_obeyed(cli: Command, table: Path) -> None:
    """Through reading, training, listing and scoring: nothing raw on the screen, every command can be copied."""
    said = [cli("data", verb, str(table)) for verb in ("show", "check")]
    trained = cli("train", "mlp", f"data={table}", "data.target=kind", "width=4", "steps=2", "batch=8")
    assert trained.code == 0, trained.err
    (run,) = Path("runs").iterdir()
    said += [trained, cli("runs", "ls"), cli("runs", "show", run.name), cli("score", run.name)]
    said += [
        cli("data", "show", f"{table}-not-there"),
        cli("train", "mlp", f"data={table}", "data.target=none-such"),
    ]
    for result in said:
        assert not shown(result.out + result.err), result
    next_line = next(line for line in trained.out.splitlines() if line.startswith("next"))
    assert shlex.split(next_line.split("   ·   ")[-1]) == ["chainrule", "probe", run.name]
    assert cli("score", run.name, "--json").code == 0
    assert not list(Path().rglob("stolen"))
    page = (run / "report.html").read_text(encoding="utf-8")
    assert not shown(page.replace("\t", ""))


def test_json_keeps_hostile_names_exactly_without_showing_them_raw(cli: Command, table: Path) -> None:
    result = cli("data", "show", str(table), "data.target=kind", "--json")
    assert not shown(result.out)
    assert f"odd{CELL}" in json.loads(result.out)["schema"]["classes"]


@pytest.mark.parametrize(
    "name",
    [
        "a\nb",
        "-x",
        "--help",
        ".hidden",
        "..",
        "a/.b",
        "a\x1b[2J",
        "gpj\u202e",
        " x",
        "x ",
        "a=b",
        "x" * 300,
        "",
    ],
)
def test_a_run_cannot_have_a_name_that_cannot_be_typed(cli: Command, name: str) -> None:
    with pytest.raises(ArgumentError):
        check_name("run", name)
    refused = cli("train", "mlp", "data=moons", "steps=1", f"run={name}")
    assert refused.code == 2
    assert not shown(refused.err)
    assert not Path("runs").exists()


@given(TEXT)
@example(HOSTILE)
@example("--help")
@example("../../etc")
@settings(max_examples=60)
def test_any_name_of_data_gives_a_run_a_name_it_may_have(text: str) -> None:
    check_name("run", f"{stem_of(text)}-mlp-001")
