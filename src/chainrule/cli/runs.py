"""`chainrule runs`: list, show, compare and remove run folders."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainrule.cli.options import Json, RunName, Settings

if TYPE_CHECKING:
    from chainrule.train import Run

app = typer.Typer(help="Runs: list, show, compare and remove run folders.")


@app.command("ls")
def ls(settings: Settings = None, json: Json = False) -> None:
    """List all runs with date, duration and best validation loss, oldest first.

    They are looked for in runs=DIR, $CHAINRULE_RUNS or ./runs. sort=name, model, data, status, step, date, duration or
    best orders them otherwise; a minus before it turns the order round: sort=-date.
    """
    from chainrule.cli.output import complain, emit, show, table
    from chainrule.core.errors import ChainruleError

    rows = []
    given, folder = _words(settings, ["sort"])
    for path in sorted(folder.glob("*/config.yaml")):
        try:
            rows.append(_row(path.parent))
        except ChainruleError as error:  # one damaged folder must not hide the others
            complain(str(error))
    rows = _sorted(rows, given.get("sort", "date"))
    if json:
        emit(rows)
    elif rows:
        table(
            ["run", "model", "data", "status", "step", "date", "time", "best"], [_cells(row) for row in rows]
        )
    else:
        show(f"no runs in {folder}   begin with: chainrule train")


@app.command("show")
def show(
    name: RunName,
    settings: Settings = None,
    json: Json = False,
    summary: Annotated[
        bool,
        typer.Option("--summary", help="Layers with shapes, parameters, multiply-adds and receptive fields."),
    ] = False,
) -> None:
    """Show the state, settings and last numbers of a run, or the layers of its model."""
    from chainrule.cli.arguments import of_data
    from chainrule.cli.output import emit, say
    from chainrule.core.formatting import short_duration, short_number
    from chainrule.train.folder import decisive, of_agents

    run = _open(name, _runs_folder(settings))
    if summary:
        _show_layers(run, json)
        return
    status, last = run.status, last_numbers(run)
    if json:
        emit({"id": run.id, "path": run.path, "config": run.config, "status": status, "last": last})
        return
    say("run", str(run.path))
    say(
        "status",
        f"{status['status']} at step {status['step']} of {status['total']}, {short_duration(status['seconds'])}",
    )
    if status["message"]:
        say("", status["message"])
    if status["best"]:
        name = decisive(status["best"])
        say("best", f"val {name} {short_number(status['best'][name])} at step {status['best']['step']}")
    for split, values in last.items():
        say(f"{split}", "  ".join(f"{key} {short_number(value)}" for key, value in values.items()))
    config = run.config
    say("model", f"{config['model']['name'] or '(your own)'}  {_as_words(config['model']['settings'])}")
    if of_agents(config):
        say("env", f"{config['env']['name']}  {_as_words(config['env']['settings'])}")
    else:
        say("data", _as_words(of_data(config["data"])))
    say("train", _as_words(config["train"]))
    report = run.path / "report.html"
    if report.exists():
        say("report", str(report))


def _show_layers(run: "Run", json: bool) -> None:
    from chainrule import models
    from chainrule.cli.output import emit, show

    found = models.summary(run.model, run.data, name=models.title(run.model))
    if json:
        emit(found.to_json())
    else:
        show(str(found))


@app.command("trust")
def trust(name: RunName, settings: Settings = None, json: Json = False) -> None:
    """Allow the Python file of a run to be run on this machine.

    A run of `chainrule train FILE.py:CLASS` that came from elsewhere runs no code until you say so: look at the file
    first. What is allowed is the file as it is now; after a change it is asked for again.
    """
    from chainrule.cli.output import emit, say

    run = _open(name, _runs_folder(settings))
    file = run.code_file()
    file.allow()
    if json:
        emit({"run": run.id, **file.to_json()})
    else:
        say("allowed", f"{file.path}   SHA-256 {file.sha256}")


@app.command("diff")
def diff(
    first: RunName,
    second: Annotated[
        str, typer.Argument(metavar="RUN", show_default=False, help="The run to compare it with.")
    ],
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Show the settings and final numbers in which two runs differ."""
    from chainrule.cli.output import emit, show, table
    from chainrule.cli.settings import write
    from chainrule.core.formatting import short_number

    folder = _runs_folder(settings)
    a, b = _open(first, folder), _open(second, folder)
    changed = _differences(_settings_of(a), _settings_of(b))
    numbers = _differences(_final(a), _final(b))
    if json:
        emit({"runs": [a.id, b.id], "settings": changed, "numbers": numbers})
        return
    rows = [[key, *("-" if v is None else write(v) for v in pair)] for key, pair in changed.items()]
    rows += [[key, *("-" if v is None else short_number(v) for v in pair)] for key, pair in numbers.items()]
    if rows:
        table(["", a.id, b.id], rows)
    else:
        show(f"{a.id} and {b.id} have the same settings and the same numbers")


@app.command("rm")
def rm(
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            show_default=False,
            help="Whole name of a run, or its folder; 'exp-*' for all whose names are like this.",
        ),
    ],
    more: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN...", show_default=False, help="More of them; runs=DIR, the folder of the runs."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Remove run folders with everything in them.

    Only what is named in full goes. Nothing is removed if one of the runs cannot be.
    """
    from chainrule.cli.arguments import parse
    from chainrule.cli.folders import find_matching
    from chainrule.cli.output import emit, say
    from chainrule.core.errors import ArgumentError
    from chainrule.core.formatting import file_size
    from chainrule.core.quoting import plain

    given = parse([name, *(more or [])])
    folder = _folder_in(given.settings)
    if not given.names:
        raise ArgumentError("missing RUN", remedy="list runs: chainrule runs ls")
    doomed = list(dict.fromkeys(path for word in given.names for path in find_matching(word, folder)))
    for path in doomed:
        _check_removable(path)
    held = {path: sum(file.lstat().st_size for file in path.rglob("*")) for path in doomed}
    total = file_size(sum(held.values()))
    if not yes:
        one = len(doomed) == 1
        if not _a_person_is_there():
            raise ArgumentError(
                f"removing {', '.join(path.name for path in doomed)} needs a yes", remedy="add --yes"
            )
        for path in doomed if not one else ():
            say("", f"{path}   {file_size(held[path])}")
        if not typer.confirm(f"Remove {plain(doomed[0]) if one else f'these {len(doomed)} runs'} ({total})?"):
            return
    for path in doomed:
        _remove(path)
        if json:
            emit({"removed": path.name, "path": path})
        else:
            say("removed", f"{path}   {file_size(held[path])}")


def _check_removable(path: Path) -> None:
    from chainrule.cli.agents import open_any
    from chainrule.core.errors import RunError
    from chainrule.train.folder import read_status

    if path.is_symlink():
        raise RunError(
            f"{path} is a link to another folder",
            remedy="remove the link itself, or name the folder it leads to",
        )
    open_any(path)
    if not (path / "status.json").is_file():
        raise RunError(
            f"{path} is not a run folder: it has no status.json",
            remedy=f"look at it, then remove it yourself: {path}",
        )
    if read_status(path)["status"] == "running":
        raise RunError(f"{path.name} is running", remedy="stop it with Ctrl-C first, or wait for it")


def _remove(path: Path) -> None:
    import shutil

    from chainrule.train.files import disk_errors, sole_writer

    with sole_writer(path), disk_errors(path):
        shutil.rmtree(path)  # removes links, never what they lead to


def last_numbers(run: "Run") -> dict[str, dict[str, float]]:
    """The last line of metrics of each split."""
    columns = run.metrics
    found: dict[str, dict[str, float]] = {}
    for split in dict.fromkeys(columns["split"].tolist()):
        row = int((columns["split"] == split).nonzero()[0][-1])
        values = {name: float(column[row]) for name, column in columns.items() if name != "split"}
        found[split] = {
            name: value for name, value in values.items() if value == value
        }  # NaN: not in this line
    return found


def _a_person_is_there() -> bool:
    return sys.stdin.isatty()


def _runs_folder(words: list[str] | None) -> Path:
    """The folder of runs; `runs=` is the only setting most of these commands have."""
    return _words(words, [])[1]


def _words(words: list[str] | None, known: Sequence[str]) -> tuple[Mapping[str, str], Path]:
    """Settings of a command that knows these beside `runs=`, and the folder of runs."""
    from chainrule.cli.arguments import parse
    from chainrule.core.errors import ArgumentError

    given = parse(words or [])
    if given.names:
        raise ArgumentError(
            f"unexpected word {given.names[0]!r}",
            remedy="settings are written key=value, for example runs=DIR",
        )
    return given.settings, _folder_in(given.settings, known)


def _folder_in(settings: Mapping[str, str], known: Sequence[str] = ()) -> Path:
    """The folder of runs, after a check that all other settings are known."""
    from chainrule.cli.folders import runs_folder
    from chainrule.cli.settings import unknown

    for name in settings:
        if name not in ("runs", *known):
            words = ", ".join(["runs=DIR, the folder of the runs", *(f"{one}=" for one in known)])
            raise unknown(name, ["runs", *known], f"this command knows: {words}")
    return runs_folder(settings.get("runs"))


def _open(name: str, folder: Path) -> "Run":
    from chainrule.cli.agents import open_any
    from chainrule.cli.folders import find

    return open_any(find(name, folder))


def _row(path: Path) -> dict[str, Any]:
    from chainrule.train.folder import of_agents, read_config, read_data, read_status

    config, status = read_config(path), read_status(path)
    data = config["env"] if of_agents(config) else read_data(path)
    return {
        "id": path.name,
        "model": config["model"]["name"],
        "data": data["name"],
        "status": status["status"],
        "step": status["step"],
        "date": (path / "config.yaml").stat().st_mtime,
        "seconds": status["seconds"],
        "best": status["best"],
        **_verdict(path),
    }


def _verdict(path: Path) -> dict[str, str]:
    """What came of comparing a run with its baselines, where that was done."""
    from chainrule.train.verdicts import transfer_verdict

    found = transfer_verdict(path)
    return {} if found is None else {"transfer": found.words}


_ORDERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "name": lambda row: row["id"],
    "model": lambda row: row["model"] or "",
    "data": lambda row: row["data"],
    "status": lambda row: row["status"],
    "step": lambda row: row["step"],
    "date": lambda row: row["date"],
    "duration": lambda row: row["seconds"],
    "best": lambda row: row["best"].get("loss", math.inf),
}


def _sorted(rows: list[dict[str, Any]], word: str) -> list[dict[str, Any]]:
    """Rows in the order that `sort=` names; those that are equal in it by name."""
    from chainrule.core.errors import ArgumentError, suggest

    order = word.removeprefix("-")
    if order not in _ORDERS:
        raise ArgumentError(
            f"sort={word}: there is no such order{suggest(order, _ORDERS)}",
            remedy=f"orders: {', '.join(_ORDERS)}",
        )
    ordered = sorted(rows, key=_ORDERS[order], reverse=word.startswith("-"))
    if order == "best":  # runs that were never judged come last, whichever way the others are ordered
        ordered.sort(key=lambda row: "loss" not in row["best"])
    return ordered


def _cells(row: Mapping[str, Any]) -> list[str]:
    import time

    from chainrule.core.formatting import short_duration, short_number
    from chainrule.core.quoting import plain
    from chainrule.train.folder import decisive

    date = time.strftime("%Y-%m-%d %H:%M", time.localtime(row["date"]))
    by = decisive(row["best"])
    best = short_number(row["best"][by]) if by in row["best"] else "-"
    best = best if by == "loss" else f"{by} {best}"
    model = row["model"] or "(your own)"
    status = row["status"]
    if row.get("transfer", "").startswith("negative"):
        status += f", {plain(row['transfer'])}"
    what = [row["id"], model, row["data"], status, str(row["step"])]
    return [*what, date, short_duration(row["seconds"]), best]


def _as_words(settings: Mapping[str, Any]) -> str:
    from chainrule.cli.arguments import flatten
    from chainrule.cli.settings import write

    return "  ".join(f"{name}={write(value)}" for name, value in flatten(settings).items())


def _settings_of(run: "Run") -> dict[str, Any]:
    from chainrule.cli.arguments import flatten, of_data

    model = run.config["model"]
    data, train = of_data(run.config["data"]), run.config["train"]
    return {"model": model["name"], **flatten(model["settings"]), **data, **flatten(train)}


def _final(run: "Run") -> dict[str, float]:
    status = run.status
    best = {f"best.{key}": float(value) for key, value in status["best"].items()}
    last = {f"{split}.{key}": v for split, values in last_numbers(run).items() for key, v in values.items()}
    return {"step": float(status["step"]), **best, **last}


def _differences(a: dict[str, Any], b: dict[str, Any]) -> dict[str, list[Any]]:
    keys = dict.fromkeys([*a, *b])
    return {key: [a.get(key), b.get(key)] for key in keys if a.get(key) != b.get(key)}


__all__ = ["app", "last_numbers"]
