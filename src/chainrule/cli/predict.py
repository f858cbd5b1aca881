"""`chainrule predict`: the answers of a trained model for new data, as a CSV file."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainrule.cli.adapters import USAGE, WORDS
from chainrule.cli.options import Json, RunName, Settings

if TYPE_CHECKING:
    from chainrule.train.predictions import Written

OWN = ("out", "level", "horizon", "calibrated", "crf", "tiled", "gallery", "text", "runs", *WORDS)
_HOW = (
    "settings of predict: out=DIR, level=0.9, horizon=50, calibrated=true, crf=true, tiled=false, "
    f"gallery=DIR, text=TEXT, {USAGE}, runs=DIR"
)
_PROBLEMS = 3
"""Inputs that cannot be used, shown one by one."""
_COLUMNS = 8
"""Columns of the first predictions that are shown."""

Inputs = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE-OR-FOLDER",
        show_default=False,
        help="New images, rows, texts: what the run was trained on.",
    ),
]


def predict(name: RunName, given: Inputs = None, settings: Settings = None, json: Json = False) -> None:
    """Predict classes, labels, values or texts for new data, which need no targets.

    FILE-OR-FOLDER is an image or a folder of images, a CSV file with or without the target, a .npy or .npz file, a file
    with a text on every line or a folder of texts, a series to go on with. Everything is prepared as the training data
    were. predictions.csv has a row for every input, in its order; inputs that cannot be used are named and have empty
    rows (exit code 3 if that is all of them). Where targets are there (a column, folders called like the classes), the
    scores are shown too.

    Settings: out=DIR (default: predictions in the folder of the run), level=0.9 (how probably intervals of values
    hold the truth), horizon=50 (models of series: steps to forecast), calibrated=true (probabilities of classes at
    a temperature that is fitted on the validation examples), crf=true (masks: refined by a conditional random
    field), tiled=false (masks: images larger than those of training as a whole, scaled down, instead of tile by
    tile), gallery=DIR (models of identities: whom to look for, a folder of images for each), text="a text" (instead
    of a file), lora=RUN or lora=FILE.safetensors (adapters of other runs to predict with, lora_strength=1 times),
    runs=DIR.
    """
    from chainrule.cli.adapters import with_adapters
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import find, runs_folder
    from chainrule.cli.output import emit
    from chainrule.cli.progress_line import progress_line
    from chainrule.cli.settings import unknown
    from chainrule.train import Run

    words = parse([name, given, *(settings or [])])
    text = words.settings.get("text")
    for word in words.settings:
        if word not in OWN:
            raise unknown(word, OWN, _HOW)
    wanted, *where = take(words, "RUN") if text is not None else take(words, "RUN", "FILE-OR-FOLDER")
    folder = runs_folder(words.settings.get("runs"))
    run = with_adapters(Run.open(find(wanted, folder)), words.settings, folder)
    out = Path(words.settings.get("out", str(run.path / "predictions"))).expanduser()
    options = _options(words.settings)
    source: Any = [text] if text is not None else _existing(where[0], wanted)
    with progress_line(silent=json):
        written = run.write_predictions(source, out, **options)
    if json:
        emit(_machine(run.id, written))
    else:
        _show(written)
    if len(written.problems) == written.total:
        raise typer.Exit(3)  # the code of errors in data: scripts need not read the file to know


def _options(given: Mapping[str, str]) -> dict[str, Any]:
    from chainrule.cli.settings import yes_or_no
    from chainrule.core.errors import ArgumentError

    calibrated = yes_or_no("calibrated", given)
    level, horizon = given.get("level", "0.9"), given.get("horizon")
    if horizon is not None and not horizon.isdecimal():
        raise ArgumentError(f"horizon={horizon}: horizon must be a whole number of steps")
    try:
        found = {"level": float(level), "horizon": None if horizon is None else int(horizon)}
    except ValueError:
        raise ArgumentError(f"level={level}: level must be a number between 0 and 1") from None
    tiled = yes_or_no("tiled", given) if "tiled" in given else None
    masks = {"crf": yes_or_no("crf", given), "tiled": tiled}
    return {**found, **masks, "calibrated": calibrated, "gallery": given.get("gallery")}


def _existing(word: str, run: str) -> Path:
    from chainrule import data
    from chainrule.core.errors import DataError, suggest
    from chainrule.core.quoting import shell_word

    path = Path(word).expanduser()
    if not path.exists():
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        meant = f"if it is a text itself: {shell_word(f'text={word}')}" if " " in word else ""
        if any(word == known.name for known in data.names()):
            score = f"chainrule score {shell_word(run)} {shell_word(f'data={word}')}"
            meant = f"to judge the run on examples that come along: {score}"
        raise DataError(f"{word} does not exist{suggest(path.name, siblings)}", remedy=meant)
    return path


def _machine(run: str, written: "Written") -> dict[str, Any]:
    return {
        "run": run,
        "path": written.path,
        "columns": written.heads,
        "rows": written.total,
        "problems": [one._asdict() for one in written.problems],
        "problems_path": written.problems_path,
        "metrics": {name: metric.to_json() for name, metric in written.metrics.items()},
        "notes": written.notes,
    }


def _show(written: "Written") -> None:
    from chainrule.cli import output, score
    from chainrule.core.quoting import shell_word

    heads = written.heads[:_COLUMNS]
    output.table(heads, [row[:_COLUMNS] for row in written.first])
    more = written.total - len(written.first)
    if more > 0:
        output.show(f"and {more:,} more")
    output.show()
    for note in written.notes:
        output.say("note", note)
    for problem in written.problems[:_PROBLEMS]:
        output.say("problem", f"{problem.where} ({problem.reason})")
    if written.problems:
        total = f"{len(written.problems):,} of {written.total:,} inputs cannot be used and have empty rows"
        output.say("", f"{total}: {shell_word(str(written.problems_path))}")
    output.say("written", str(written.path))
    if written.metrics:
        output.show()
        score.show(written.metrics)


__all__ = ["predict"]
