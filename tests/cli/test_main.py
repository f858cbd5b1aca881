import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from chainrule import __version__, models
from chainrule.core import errors

from .conftest import Command

HEAVY = ("jax", "numpy", "matplotlib", "pydantic", "rich", "equinox", "scipy")


def test_alone_it_prints_three_examples_that_can_be_copied(cli: Command) -> None:
    result = cli()
    assert result.code == 0
    examples = [line.strip() for line in result.out.splitlines() if line.startswith("  chainrule ")]
    assert len(examples) == 3
    for example in examples:
        verb = example.split()[1]
        assert f"\n  {verb} " in cli("--help").out


def test_help_names_every_verb_and_the_version_is_told(cli: Command) -> None:
    result = cli("--help")
    assert result.code == 0
    for verb in ("train", "resume", "sample", "score", "runs", "models", "data", "doctor"):
        assert f"\n  {verb} " in result.out
    assert "--trace" in result.out
    assert cli("--version").out == f"chainrule {__version__}\n"


@pytest.mark.parametrize("group", ["runs", "models", "data"])
def test_a_group_alone_lists_its_commands(cli: Command, group: str) -> None:
    result = cli(group)
    assert result.code == 0
    assert "\n  ls " in result.out


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["runs"], ["sample", "--help"], ["trian"], ["train", "--jsn"]]
)
def test_help_and_mistyped_verbs_do_not_wait_for_heavy_packages(words: list[str]) -> None:
    script = (
        "import sys, contextlib\n"
        "from chainrule.cli import main\n"
        "with contextlib.suppress(SystemExit):\n"
        "    main(sys.argv[1:])\n"
        f"print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=True)
    # Typer reads the words of a verb with pydantic, but not those of the command as a whole.
    verb = words and words != ["--help"]
    assert done.stderr.splitlines()[-1] in (["[]", "['pydantic']"] if verb else ["[]"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "error: no such command 'trian'. Did you mean 'train'?"),
        (["runs", "lss"], "error: no such command 'lss'. Did you mean 'ls'?"),
        (["train", "--steps=5"], "settings are words without dashes: steps=..."),
        (["resume"], "error: missing argument 'RUN'"),
        (["models", "show"], "error: missing argument 'MODEL'"),
        (["sample", "n=3"], "error: missing RUN"),
        (["train", "mlp", "epoch=3"], "error: unknown setting 'epoch' (did you mean 'epochs'?)"),
        (["train", "mlp", "depht=3"], "error: unknown setting 'depht' (did you mean 'depth'?)"),
        (["train", "mlp", "dta=moons"], "error: unknown setting 'dta' (did you mean 'data'?)"),
        (
            ["train", "mlp", "data=moons", "data.nose=1"],
            "unknown setting 'data.nose' (did you mean 'data.noise'?)",
        ),
        (["train", "mlp", "data=moons", "noise=1"], "unknown setting 'noise' (did you mean 'data.noise'?)"),
        (["train", "mlp", "lr=3e-4"], "error: unknown setting 'lr' (did you mean 'optimizer.lr'?)"),
        (["train", "mlp", "name=x"], "(did you mean 'optimizer.name' or 'loss.name' or 'schedule.name'?)"),
        (["train", "mlp", "optimizer=adam"], "error: 'optimizer' has settings of its own: optimizer.name"),
        (["train", "mpl"], "error: unknown model 'mpl' (did you mean 'mlp'?)"),
        (["train", "model=mpl"], "error: unknown model 'mpl' (did you mean 'mlp'?)"),
        (["train", "mlp", "steps", "20"], "error: unexpected word 'steps'"),
        (["train", "mlp", "model=mlp"], "error: unexpected word 'mlp'"),
        (["train", "mlp", "steps=many"], "error: steps='many': input should be a valid integer"),
        (["train", "mlp", "steps=0"], "error: steps='0': input should be greater than or equal to 1"),
        (["train", "mlp", "width=x"], "error: width='x': input should be a valid integer"),
        (["train", "mlp", "activation=rleu"], "error: activation='rleu': input should be 'relu'"),
        (["train", "mlp", "steps=5", "epochs=5"], "error: steps=5 and epochs=5.0: give one of the two"),
        (["train", "mlp", "data=shakespeare"], "error: mlp needs image or table"),
        (["train", "mlp", "data=mons"], "error: unknown data 'mons' (did you mean 'moons'?)"),
        (["train", "mlp", "run=a/b", "runs=c"], "error: run=a/b is a path and runs=c another"),
        (["train", "mlp", "run=a/.b"], "error: run=.b: a name begins with neither a dash nor a dot"),
        (["train", "mlp", "run=.."], "error: run=..: give a plain name"),
        (["train", "config=none.yaml"], "error: config=none.yaml: there is no such file"),
        (["train", "mlp", "=3"], "error: '=3' is not a setting"),
        (["train", "mlp", "data="], "error: data= needs a value"),
        (["train", "mlp", "run="], "error: run= needs a value"),
        (["train", "mlp", "data=moons", "data.split=0.5,0.5"], "split must be three positive numbers"),
        (["score", "nothing"], "error: there is no run 'nothing' in runs, which holds no runs"),
        (["models", "show", "mpl"], "error: unknown model 'mpl' (did you mean 'mlp'?)"),
        (["data", "show", "digit"], "error: unknown data 'digit' (did you mean 'digits'?)"),
        (
            ["data", "show", "moons", "nose=1"],
            "error: unknown option 'nose' of toy data (did you mean 'noise'?)",
        ),
        (["runs", "ls", "digits"], "error: unexpected word 'digits'"),
        (["runs", "ls", "root=x"], "error: unknown setting 'root'"),
    ],
)
def test_a_mistake_in_the_words_is_told_in_six_lines_with_exit_code_2(
    cli: Command, words: list[str], message: str
) -> None:
    result = cli(*words)
    assert result.code == 2
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert message in result.err
    assert len(result.err.splitlines()) <= 6
    assert "Traceback" not in result.err
    assert not Path("runs").exists()


def test_a_file_given_as_model_is_taken_for_what_it_is(cli: Command, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    result = cli("train", "table.csv")
    assert result.code == 2
    assert "to train on it: chainrule train data=table.csv" in result.err


def test_data_that_do_not_exist_end_with_exit_code_3(cli: Command) -> None:
    result = cli("train", "mlp", "data=nowhere.csv")
    assert result.code == 3
    assert result.err.startswith("error: nowhere.csv does not exist")


@pytest.mark.parametrize(
    "words", [["train", "data=moons", "runs=file"], ["data", "show", "digits", "out=file"]]
)
def test_a_place_that_is_no_folder_ends_with_exit_code_5(
    cli: Command, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "file").touch()
    result = cli(*words)
    assert result.code == 5
    assert result.err.startswith("error: file")
    assert result.err.endswith(("not a directory\n", "file exists\n"))


def test_machines_get_errors_as_json_too(cli: Command) -> None:
    result = cli("train", "mlp", "epoch=3", "--json")
    assert result.code == 2
    assert result.err.startswith("error: unknown setting 'epoch'")
    assert result.last["exit_code"] == 2
    assert result.last["error"].startswith("unknown setting 'epoch' (did you mean 'epochs'?)")


def test_the_traceback_is_shown_on_demand_only(cli: Command) -> None:
    result = cli("train", "mlp", "epoch=3", "--trace")
    assert result.code == 2
    assert "Traceback (most recent call last)" in result.err
    assert result.err.splitlines()[-2].startswith("error: unknown setting 'epoch'")


def test_a_bug_is_one_line_and_exit_code_1(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[str]:
        raise ZeroDivisionError("oops\nmore")

    monkeypatch.setattr(models, "names", broken)
    result = cli("models", "ls")
    assert result.code == 1
    assert (
        result.err == "error: ZeroDivisionError: oops\n       run again with --trace to see where it arose\n"
    )
    shown = cli("models", "ls", "--trace")
    assert shown.code == 1
    assert "in broken" in shown.err


def test_too_little_memory_is_told_as_such(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy() -> list[str]:
        return [str(jax.numpy.zeros(2**50, "uint8").device)]

    monkeypatch.setattr(models, "names", greedy)
    result = cli("models", "ls")
    assert result.code == 2
    assert result.err.startswith("error: there is not enough memory for what was asked\n       ask for less")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ArgumentError, 2),
        (errors.CapabilityError, 2),
        (errors.RunError, 2),
        (errors.CheckpointError, 2),
        (errors.DataError, 3),
        (errors.DivergedError, 4),
        (errors.DiskError, 5),
    ],
)
def test_every_error_has_its_exit_code(
    cli: Command, monkeypatch: pytest.MonkeyPatch, error: type[errors.ChainruleError], code: int
) -> None:
    def fail() -> list[str]:
        raise error("it went wrong", remedy="do this")

    monkeypatch.setattr(models, "names", fail)
    result = cli("models", "ls")
    assert result.code == code
    assert result.err == "error: it went wrong\n       do this\n"


def test_ctrl_c_outside_training_ends_with_130(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped() -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "names", stopped)
    assert cli("models", "ls").code == 130


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m chainrule data ls | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "data"
    assert done.stderr == ""


def test_python_m_and_a_terminal_without_unicode_work() -> None:
    command = [sys.executable, "-m", "chainrule", "data", "show", "digits", "--trace"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "8?8?1" in done.stdout


def test_compiled_programs_are_kept_unless_that_is_unwanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    show = "import os, json; print(json.dumps(dict(os.environ)))"
    report = f"from chainrule.cli import quiet_environment; quiet_environment(); {show}"

    def environment(**changes: str) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "CHAINRULE_"))}
        done = subprocess.run(
            [sys.executable, "-c", report],
            env={**kept, **changes},
            capture_output=True,
            text=True,
            check=True,
        )
        found: dict[str, str] = json.loads(done.stdout)
        return found

    kept = environment(XDG_CACHE_HOME=str(tmp_path))
    assert kept["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "chainrule" / "jax")
    assert "JAX_COMPILATION_CACHE_DIR" not in environment(CHAINRULE_NO_CACHE="1")
    assert environment(JAX_COMPILATION_CACHE_DIR="elsewhere")["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"
