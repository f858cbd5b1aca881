"""What the tab key offers."""

import shutil
import subprocess
from pathlib import Path

import pytest

from chainrule.cli import app
from chainrule.cli.completion import SCRIPTS, candidates

from .conftest import Command


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINRULE_RUNS", str(tmp_path))
    for name in ("photos-cnn-001", "photos-mlp-001", "poems"):
        (tmp_path / name).mkdir()
        model = {"poems": "gpt"}.get(name, name.split("-")[1] if "-" in name else "")
        (tmp_path / name / "config.yaml").write_text(f"model:\n  name: {model}\n")
    (tmp_path / "notes").mkdir()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("chainrule sc", ["score "]),
        ("chainrule train pixel", ["pixel-cnn ", "pixel-rnn "]),
        ("chainrule score ph", ["photos-cnn-001 ", "photos-mlp-001 "]),
        ("chainrule probe poems gradients", ["gradients "]),
        ("chainrule runs r", ["rm "]),
        ("chainrule runs show po", ["poems "]),
        ("chainrule models show ml", ["mlp "]),
        ("chainrule train mlp dep", ["depth="]),
        (
            "chainrule train mlp optimizer.cl",
            ["optimizer.clip=", "optimizer.clip_adaptive=", "optimizer.clip_value="],
        ),
        (
            "chainrule train mlp steps=3 optimizer.name=adag",
            ["optimizer.name=adagrad ", "optimizer.name=adagrad-full "],
        ),
        ("chainrule train gpt recipe=char-c", ["recipe=char-cpu "]),
        ("chainrule train mlp data=moo", ["data=moons "]),
        ("chainrule train from=po", ["from=poems "]),
        ("chainrule resume poems shuf", ["shuffle="]),
        ("chainrule predict poems fil le", ["level="]),
        ("chainrule score poems s", ["samples=", "split=", "stride="]),
        ("chainrule score poems split=t", ["split=test ", "split=train "]),
        ("chainrule sample poems te", ["temperature=", "text="]),
        ("chainrule sample photos-cnn-001 te", ["text="]),
        (
            "chainrule probe p",
            [
                "permutation ",
                "photos-cnn-001 ",
                "photos-mlp-001 ",
                "phrase-tree ",
                "poems ",
                "point-flow ",
                "positions ",
                "posterior-collapse ",
            ],
        ),
        ("chainrule probe fric", ["friction "]),
        ("chainrule probe friction l", ["lr="]),
        ("chainrule probe histograms activation=t", ["activation=tanh "]),
        ("chainrule probe poems histograms lay", ["layer="]),
        ("chainrule resume poems shuffle=t", ["shuffle=true "]),
        ("chainrule nonsense a", []),
    ],
)
@pytest.mark.usefixtures("runs")
def test_the_words_that_can_follow(line: str, expected: list[str]) -> None:
    assert candidates(line, app) == expected


def test_hidden_verbs_are_not_offered() -> None:
    assert candidates("chainrule comp", app) == ["completion ", "compress "]


def test_a_script_for_each_shell_is_printed(cli: Command) -> None:
    for shell, script in SCRIPTS.items():
        assert cli("completion", shell).out == script
    assert cli("completion", "tcsh").code == 2


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_can_read_its_script(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n"], input=SCRIPTS[shell], text=True, check=True)


def test_bash_puts_the_end_of_a_word_behind_an_equals_sign(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    fake = tmp_path / "chainrule"
    fake.write_text("#!/bin/sh\nprintf '%s\\n' 'optimizer.name=adam ' 'optimizer.name=adamw '\n")
    fake.chmod(0o755)
    script = SCRIPTS["bash"] + (
        "COMP_LINE='chainrule train optimizer.name=ad'; COMP_POINT=${#COMP_LINE}; _chainrule; "
        'printf "<%s>" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        text=True,
        capture_output=True,
        check=True,
    )
    assert done.stdout == "<adam ><adamw >"
