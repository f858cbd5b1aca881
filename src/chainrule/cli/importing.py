"""`chainrule import`: weights trained elsewhere become a run, which can be sampled, scored, probed and trained on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from chainrule.cli.options import Json, Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chainrule.data.dataset import Data
    from chainrule.models.interchange import Imported
    from chainrule.models.interchange.exported import Exported
    from chainrule.models.interchange.opening import OpenedWeights
    from chainrule.models.interchange.published import PublishedSettings
    from chainrule.models.protocol import Entry, Model

_OWN = ("tokenizer", "data", "head", "strict", "run", "runs")
_KINDS = ("loaded", "adapted", "missing", "misshapen", "unused")
"""What is told of the arrays of a file."""
_SIDE = 224
"""Pixels a side of the images that published classifiers were trained on, where the file does not say."""


class _Opened(NamedTuple):
    """What becomes a run: the model with its weights, its data, and what of the file was taken where that is told."""

    model: "Model"
    data: "Data"
    weights: "Imported | None" = None
    files: "OpenedWeights | PublishedSettings | None" = None
    """What the files beside the weights say, and what had to be assumed."""


def import_(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model the weights are for.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Weights: .safetensors, a folder of Hugging Face's transformers, or for gpt a .bin of llama2.c.",
        ),
    ],
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Make a run of weights that were trained elsewhere, or of a file that chainrule export wrote.

    Of a folder of Hugging Face's transformers (gpt: GPT-2, Llama, Mistral; bert) everything is read: config.json, the
    tokenizer, weights in one file or several. What its files do not say is assumed, and printed:

      chainrule import gpt gpt2/ run=gpt2

    Settings: tokenizer=FILE (for models of text: tokenizer.json, a folder, or tokenizer.bin of llama2.c; default: the
    one beside the weights), data=NAME or PATH (what the run is scored, probed and trained on; default: the model's
    own) with its options data.*, run=NAME, runs=DIR, strict=false (take the arrays that fit and list the others; by
    default one that is missing, misshapen or unused is an error), and settings of the model that nothing beside the
    weights says, such as heads=12.

    Image classifiers of torchvision, timm and transformers (alexnet, convnext, mobilenet, resnet, vgg, vit) are sized
    by the file, vit in a folder also by config.json and preprocessor_config.json; where nothing says how many heads
    it has, they are taken to be 64 wide unless heads= is given. The run keeps the colours they expect (pixels=imagenet;
    others: half, none) and the size of their images (data.size=224).
    head=new gives them a fresh last layer for the classes of your data, to be trained:

      chainrule import resnet resnet18.safetensors data=photos/ head=new

      chainrule train from=resnet18-resnet-001 recipe=finetune
    """
    import shutil

    from chainrule import models
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import runs_folder
    from chainrule.core.errors import DataError
    from chainrule.models.interchange import weight_files
    from chainrule.train import keep
    from chainrule.train.naming import new_folder

    words = parse([model, file, *(settings or [])])
    name, weights = take(words, "MODEL", "FILE")
    entry, path = models.entry(name), Path(weights).expanduser()
    given = _sorted(words.settings, entry)
    if not path.exists():
        remedy = "name a file of weights, .safetensors, or a folder that holds it"
        raise DataError(f"{weights} is not a file", remedy=remedy)
    stem = path.resolve().name if path.is_dir() else path.stem
    path = weight_files.found(path)
    runs = runs_folder(words.settings.get("runs"))
    folder = (
        _named(words.settings["run"], words.settings.get("runs"))
        if "run" in words.settings
        else new_folder(runs, f"{stem}-{name}")
    )
    try:
        opened = _opened(entry, path, words.settings, given, folder)
        new = {"head": "new"} if words.settings.get("head") == "new" else {}
        run = keep(opened.model, opened.data, run=folder, origin={"file": str(path.resolve()), **new})
    finally:
        if not (folder / "config.yaml").exists():  # it never became a run and would only be in the way
            shutil.rmtree(folder, ignore_errors=True)
    _present(run, opened, new_head=words.settings.get("head") == "new", json=json)


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


def _named(name: str, runs: str | None) -> Path:
    from chainrule.core.errors import RunError
    from chainrule.train.naming import run_folder

    folder = run_folder(name, runs)
    if folder.exists():
        raise RunError(f"there is a run {name!r} already", remedy="give another name with run=")
    folder.mkdir(parents=True)
    return folder


def _opened(
    entry: "Entry", path: Path, words: Any, given: tuple[dict[str, Any], dict[str, Any]], folder: Path
) -> _Opened:
    """The model in the file and its data, with the tokenizer as a file of the run's own folder."""
    from chainrule import data as sources
    from chainrule import models
    from chainrule.core.errors import ArgumentError, check_choice
    from chainrule.data.text import tokenizers
    from chainrule.models.interchange import exported

    settings, options = given
    source = words.get("data", entry.data)
    head = words.get("head", "kept")
    check_choice("import", "head", head, ("kept", "new"))
    check_choice("import", "strict", words.get("strict", "true"), ("true", "false"))
    strict = words.get("strict", "true") == "true"
    said = exported.read_head(path)
    if said is not None:
        _check_model(entry, path, said)
    # A file of text in the layout of another program is read like one of that program; its head says the rest.
    foreign = said is not None and entry.sized is not None and said.layout != "chainrule"
    if said is not None and head == "kept" and not foreign:
        return _reopened(entry, path, said, words, given, folder)
    if entry.published is not None:
        return _classifier(entry, path, source, given, head, said, strict=strict)
    if head == "new":
        raise ArgumentError(
            f"head=new: {entry.name} has no head of published weights to replace",
            remedy=f"to begin layers of a run afresh: chainrule train {entry.name} from=RUN fresh=LAYER",
        )
    if entry.sized is None:
        data = sources.load(source, **options)
        found = models.import_weights(models.build(entry.name, data, **settings), path, strict=strict)
        return _Opened(found.model, data, found)
    found_in = models.opened_weights(entry.name, path, words.get("tokenizer"), strict=strict, **settings)
    schema = found_in.model.schema  # type: ignore[attr-defined]  # models of text have one
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
    model = found_in.model
    if len(data.schema.tokens) > len(schema.tokens):  # data.special added some, which begin afresh
        model = models.begin(entry.name, model, data)
    return _Opened(model, data, found_in.weights, found_in)


def _check_model(entry: "Entry", path: Path, said: "Exported") -> None:
    from chainrule.core.errors import ArgumentError
    from chainrule.core.quoting import shell_word

    if said.model != entry.name:
        raise ArgumentError(
            f"{path.name} holds weights of {said.model}, not of {entry.name}",
            remedy=f"chainrule import {shell_word(said.model)} {shell_word(path)}",
        )


def _reopened(
    entry: "Entry",
    path: Path,
    said: "Exported",
    words: Any,
    given: tuple[dict[str, Any], dict[str, Any]],
    folder: Path,
) -> _Opened:
    """The model in a file that `chainrule export` wrote, and the data it was trained on unless others are named."""
    from chainrule import data as sources
    from chainrule import models
    from chainrule.data.loading.sources import find
    from chainrule.data.text import tokenizers
    from chainrule.models.interchange.opening import exported_tokenizer

    settings, options = given
    source = words.get("data", said.data.get("name_or_path", entry.data))
    known = find(source).options
    options = {name: value for name, value in said.data.items() if name in known} | options
    beside = exported_tokenizer(path)
    if "tokenizer" in known and ("tokenizer" in words or beside.is_file()):
        file = Path(words.get("tokenizer", beside)).expanduser()
        tokenizers.write(tokenizers.read(file, any_length=True), folder / "tokenizer.json")
        options["tokenizer"] = str(folder.resolve() / "tokenizer.json")
    data = sources.load(source, **options)
    return _Opened(models.reopen(path, data, **settings), data)


def _classifier(
    entry: "Entry",
    path: Path,
    source: str,
    given: tuple[dict[str, Any], dict[str, Any]],
    head: str,
    said: "Exported | None",
    *,
    strict: bool,
) -> _Opened:
    """The image classifier in the file for the data, whose images have the size it was trained on unless given.

    Images are brought to that size when they are read, which gives the best pixels, or else by the model; a file of our
    own says what it needs.
    """
    from chainrule import data as sources
    from chainrule import models
    from chainrule.data.loading.sources import find

    settings, options = given
    files = models.read_published(entry.name, path, **settings)
    side = settings.get("size") or files.settings.get("size") or _SIDE
    if "size" in find(source).options:
        read_at = None if said is None else said.data.get("size")
        options = {"size": read_at or side, **options}
    elif said is None:
        settings = {"size": side, **settings}
    data = sources.load(source, **options)
    found = models.with_weights(entry.name, path, data, head=head, strict=strict, **settings)
    return _Opened(found.model, data, found, files)


def _present(run: Any, opened: _Opened, *, new_head: bool, json: bool) -> None:
    from chainrule.cli.folders import handle
    from chainrule.cli.output import emit, say
    from chainrule.cli.training import what_next
    from chainrule.core.formatting import count
    from chainrule.models.protocol import parameter_count
    from chainrule.nn.modes import mode

    model, data, weights, files = opened
    name, facts = run.config["model"]["name"], _facts(model, data, new_head)
    parameters, in_mode = parameter_count(model), mode(run.model)
    if json:
        emit(
            {
                "run": run.id,
                "path": run.path.resolve(),
                "model": name,
                "parameters": parameters,
                "step": run.step,
                "mode": in_mode,
                "weights": None
                if weights is None
                else {kind: list(getattr(weights, kind)) for kind in _KINDS},
                **({} if files is None else {"config": dict(files.said), "assumed": dict(files.assumed)}),
                **facts,
            }
        )
        return
    say("model", f"{name}   {count(parameters)} parameters")
    if weights is not None:
        say("weights", str(weights))
    if files is not None and files.said:
        say("config", f"config.json, which the arrays agree with: {_listed(files.said)}")
    if files is not None and files.assumed:
        say(
            "assumed",
            f"{_listed(files.assumed)}   nothing beside the weights says so; if it is wrong, set it",
        )
    if in_mode:
        say("mode", in_mode)
    for label, text in facts.items():
        say(label, text)
    say("data", f"{data.name}   {data.describe()}")
    say("run", str(run.path))
    if new_head:
        say("next", f"chainrule train from={handle(run.path)} recipe=finetune")
        say("or", "without recipe=finetune: the new head first, then all layers at a tenth of the usual rate")
        say("or", f"the new head alone: add freeze={','.join(_body(model))}")
        return
    say("next", "   ·   ".join([*what_next(run, model), f"chainrule resume {handle(run.path)}"]))


def _listed(settings: "Mapping[str, Any]") -> str:
    """Settings as they are given, one after the other."""
    from chainrule.cli.settings import write

    return ", ".join(f"{name}={write(value)}" for name, value in settings.items())


def _facts(model: "Model", data: "Data", new_head: bool) -> dict[str, str]:
    """What an image classifier expects of its images, and what its head is for."""
    from chainrule import models
    from chainrule.models.protocol import output_count
    from chainrule.networks.image_towers import PIXELS

    entry, config = models.entry_of(model), model.config  # type: ignore[attr-defined]  # registered models have one
    if entry is None or entry.published is None:
        return {}
    height, width = (config.size, config.size) if config.size else data.schema.shape[:2]
    facts = {"images": f"{height}×{width}, pixels as they are"}
    if config.pixels in PIXELS:
        mean, deviation = (", ".join(f"{number:g}" for number in values) for values in PIXELS[config.pixels])
        facts["images"] = (
            f"{height}×{width}, (pixels - ({mean})) / ({deviation}); other colours: pixels=none, imagenet or half"
        )
    if new_head:
        count, names = output_count(data.schema), ", ".join(data.schema.classes[:5])
        more = ", ..." if len(data.schema.classes) > 5 else ""
        facts["head"] = f"new, {count} outputs{f': {names}{more}' if names else ''}"
    return facts


def _body(model: "Model") -> list[str]:
    """The layers that published weights filled, by name."""
    import equinox as eqx

    from chainrule import models
    from chainrule.core import tree

    entry = models.entry_of(model)
    head = "" if entry is None else entry.head.split(".")[0]
    names = tree.names(eqx.filter(model, eqx.is_inexact_array))
    return [top for top in dict.fromkeys(name.split(".")[0] for name in names) if top != head]


__all__ = ["import_"]
