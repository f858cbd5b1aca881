"""`chainrule import`: weights trained elsewhere become a run, which can be sampled, scored, probed and trained on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainrule.cli.options import Json, Settings

if TYPE_CHECKING:
    from chainrule.data.dataset import Data
    from chainrule.models.protocol import Entry, Model

_OWN = ("tokenizer", "data", "run", "runs")


def import_(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model the weights are for.")],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Weights: .safetensors, or for gpt a .bin of llama2.c.")
    ],
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Make a run of weights that were trained elsewhere.

    Settings: tokenizer=FILE (for models of text: tokenizer.json, or tokenizer.bin of llama2.c; default: the one beside
    the weights), data=NAME or PATH (what the run is scored, probed and trained on; default: the model's own) with its
    options data.*, run=NAME, runs=DIR, and settings of the model that a file does not hold, such as heads=12.
    """
    import shutil

    from chainrule import models
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import runs_folder
    from chainrule.core.errors import DataError
    from chainrule.train import keep
    from chainrule.train.naming import new_folder

    words = parse([model, file, *(settings or [])])
    name, weights = take(words, "MODEL", "FILE")
    entry, path = models.entry(name), Path(weights).expanduser()
    given = _sorted(words.settings, entry)
    if not path.is_file():
        raise DataError(f"{weights} is not a file", remedy="name a file of weights, .safetensors")
    runs = runs_folder(words.settings.get("runs"))
    folder = (
        _named(runs, words.settings["run"])
        if "run" in words.settings
        else new_folder(runs, f"{path.stem}-{name}")
    )
    try:
        built, data = _opened(entry, path, words.settings, given, folder)
        run = keep(built, data, run=folder, origin={"file": str(path.resolve())})
    finally:
        if not (folder / "config.yaml").exists():  # it never became a run and would only be in the way
            shutil.rmtree(folder, ignore_errors=True)
    _present(run, built, data, json=json)


def _sorted(given: Any, entry: "Entry") -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the model and of the data; words of the command itself are left out."""
    from chainrule import models
    from chainrule.cli import settings
    from chainrule.cli.arguments import nest

    known = settings.of(entry.config)
    model, data = {}, {}
    for word, text in given.items():
        if word in _OWN:
            continue
        if word.startswith("data."):
            data[word.removeprefix("data.")] = settings.guess(text)
        elif found := settings.find(word, known):
            model[word] = settings.read(text, found.annotation)
        else:
            raise settings.unknown(
                word,
                [*_OWN, *known],
                f"settings of {entry.name}: chainrule models show {entry.name}",
                entry.former_settings,
            )
    return models.configure(entry.name, **nest(model)).model_dump(exclude_unset=True), data


def _named(runs: Path, name: str) -> Path:
    from chainrule.core.errors import RunError
    from chainrule.train.naming import check_name

    check_name("run", name)
    folder = runs / name
    if folder.exists():
        raise RunError(f"there is a run {name!r} already", remedy="give another name with run=")
    folder.mkdir(parents=True)
    return folder


def _opened(
    entry: "Entry", path: Path, words: Any, given: tuple[dict[str, Any], dict[str, Any]], folder: Path
) -> "tuple[Model, Data]":
    """The model in the file and its data, with the tokenizer as a file of the run's own folder."""
    from chainrule import data as sources
    from chainrule import models
    from chainrule.core.errors import ArgumentError
    from chainrule.data.text import tokenizers

    settings, options = given
    source = words.get("data", entry.data)
    if entry.sized is None:
        data = sources.load(source, **options)
        built = models.build(entry.name, data, **settings)
        return models.import_weights(built, path).model, data
    built = models.open_weights(entry.name, path, _tokenizer(entry, path, words.get("tokenizer")), **settings)
    schema = built.schema  # type: ignore[attr-defined]  # models of text have one
    tokenizers.write(tokenizers.of(schema), folder / "tokenizer.json")
    options = {
        "window": schema.shape[0] - 1,
        **options,
        "tokenizer": str(folder.resolve() / "tokenizer.json"),
    }
    data = sources.load(source, **options)
    if data.schema.shape[0] > schema.shape[0]:
        raise ArgumentError(
            f"data.window={options['window']}: this model reads {schema.shape[0] - 1} tokens at most",
            remedy=f"use data.window={schema.shape[0] - 1} or less, or leave it out",
        )
    return built, data


def _tokenizer(entry: "Entry", path: Path, given: str | None) -> Path:
    from chainrule.core.errors import DataError

    if given is not None:
        return Path(given).expanduser()
    beside = path.with_name(f"tokenizer{path.suffix if path.suffix in entry.formats else '.json'}")
    if not beside.is_file():
        raise DataError(
            f"there is no {beside.name} beside {path.name}",
            remedy="name the tokenizer that the weights were trained with: tokenizer=FILE",
        )
    return beside


def _present(run: Any, model: "Model", data: "Data", *, json: bool) -> None:
    import equinox as eqx

    from chainrule.cli.folders import handle
    from chainrule.cli.output import emit, say
    from chainrule.core import tree
    from chainrule.core.formatting import count
    from chainrule.models.protocol import CanSample

    name = run.config["model"]["name"]
    parameters = tree.size(eqx.filter(model, eqx.is_inexact_array))
    if json:
        emit(
            {
                "run": run.id,
                "path": run.path.resolve(),
                "model": name,
                "parameters": parameters,
                "step": run.step,
            }
        )
        return
    say("model", f"{name}   {count(parameters)} parameters")
    say("data", f"{data.name}   {data.describe()}")
    say("run", str(run.path))
    verbs = [*(["sample"] if isinstance(model, CanSample) else []), "score", "probe", "resume"]
    say("next", "   ·   ".join(f"chainrule {verb} {handle(run.path)}" for verb in verbs))


__all__ = ["import_"]
