"""`chainrule train`: a model, data and settings become a run folder."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainrule.cli import defaults
from chainrule.cli.options import Context, Json, Quiet, Settings

if TYPE_CHECKING:
    from chainrule.cli.training_request import TrainingRequest
    from chainrule.data.dataset import Data
    from chainrule.models.protocol import Model


def train(
    context: Context,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help=f"Name of a model or an algorithm, or FILE.py:CLASS, which is run; {defaults.MODEL} if not given.",
        ),
    ] = None,
    settings: Settings = None,
    json: Json = False,
    quiet: Quiet = False,
    find_lr: Annotated[
        bool, typer.Option("--find-lr", help="Try learning rates on a few batches instead.")
    ] = False,
    one_batch: Annotated[
        bool, typer.Option("--one-batch", help="See whether a single batch can be learnt by heart instead.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, time two steps and show it; keep nothing.")
    ] = False,
    help: Annotated[
        bool, typer.Option("--help", "-h", help="Show this message, with every setting.")
    ] = False,
) -> None:
    """Train a model on data, or agents in an environment, and write a run folder.

    An algorithm learns from experience instead of data: `chainrule train ppo env=cartpole`. env=FILE.py is an
    environment of your own, with functions reset and step; it is run, too.

    FILE.py:CLASS (or a function) trains a network of your own. This runs the Python file, with all that it does when it
    is imported: name only files you trust. Its arguments are the settings of the model; inputs, shape, outputs, schema
    and key come from the data. The run records the file's SHA-256, and other verbs run the file again only while it is
    the same. With data= it can be tried on any data.
    """
    if help:
        _help(context, model)
        return
    if not (json or quiet):
        _greet()
    from chainrule.cli import agents
    from chainrule.cli.arguments import parse
    from chainrule.cli.fine_tuning import with_head_first
    from chainrule.cli.training_request import parse_request

    words = parse([model, *(settings or [])])
    if agents.meant(words):
        agents.train(words, json=json, quiet=quiet, dry_run=dry_run, only=find_lr or one_batch)
        return
    request = parse_request(words)
    if not dry_run:
        request.check_device()
    data = request.load()
    if not (json or quiet or find_lr or one_batch or dry_run):
        _tell_data(request, data)
    before, request = request, request.fitted(data)
    if request is not before and not (json or quiet):
        _tell_head(request, data)
    built, origin = request.build(data)
    request = with_head_first(request, built, data, quiet=json or quiet)
    if find_lr:
        _find_lr(request, built, data, json=json)
    elif one_batch:
        _one_batch(request, built, data, json=json)
    elif dry_run:
        _show(request, built, data, json=json)
    else:
        _train(request, built, data, origin, json=json, quiet=quiet)


def _greet() -> None:
    """A line for whoever is watching, before anything that takes time: JAX alone takes a second to load.

    The first line of the story takes its place.
    """
    if sys.stdout.isatty():
        sys.stdout.write("loading ...\r")
        sys.stdout.flush()


def _tell_data(request: "TrainingRequest", data: "Data") -> None:
    """The first line of the story, as soon as it is known: the model and what trains it take longer than the data."""
    from chainrule.cli.output import say
    from chainrule.train.beginning import described

    request.check(data)
    with contextlib.suppress(OSError):  # whoever listens no more is noticed when there is something to save
        say("data", described(data))
        for line in request.chosen(data):
            say("series", line)


def _tell_head(request: "TrainingRequest", data: "Data") -> None:
    """Which layer begins afresh, though nobody said so."""
    from chainrule.cli.output import say

    assert request.start is not None, "only then there is a head to replace"
    run = request.start.run
    outputs = "classes" if run.schema.classes and data.schema.classes else "targets"
    say("head", f"{request.start.fresh[-1]} begins afresh: {outputs} are others than those of {run.id}")


def _train(
    request: "TrainingRequest",
    model: "Model",
    data: "Data",
    origin: dict[str, Any] | None,
    *,
    json: bool,
    quiet: bool,
) -> None:
    import shutil

    from chainrule.cli.baselines import planned
    from chainrule.cli.fine_tuning import head_alone
    from chainrule.cli.training import handling_models, train_and_report
    from chainrule.train import fit
    from chainrule.train.naming import new_folder

    path = request.run
    new = path is None or not path.exists()
    path = path or new_folder(request.runs_folder, request.stem(data))
    _tell_vectors(origin, json=json, quiet=quiet)
    baselines = planned(request, data, json=json, quiet=quiet)
    try:
        if not (path / "config.yaml").exists():
            model = head_alone(request, model, data)
        train_and_report(
            lambda listener: fit(
                model,
                data,
                run=path,
                listener=listener,
                origin=origin if request.start is None else request.start.to_json(),
                code=request.code,
                callbacks=request.callbacks,
                importance=request.importance(),
                **request.train,
            ),
            path,
            handling_models(data.schema, model, json=json, quiet=quiet, baselines=baselines),
            json=json,
            quiet=quiet,
            data_told=True,
        )
    finally:
        if new and not (path / "config.yaml").exists():  # it never became a run and would only be in the way
            shutil.rmtree(path, ignore_errors=True)


def _tell_vectors(origin: dict[str, Any] | None, *, json: bool, quiet: bool) -> None:
    """How much of the vocabulary and of the text the vectors of a file cover."""
    from chainrule.cli.output import emit, say

    if origin is None or "vectors" not in origin:
        return
    known = origin["coverage"]
    if json:
        emit({"event": "vectors", "path": origin["vectors"], **known})
    elif not quiet:
        shares = f"{known['of_tokens']:.0%} of the tokens, {known['of_text']:.0%} of the training text"
        say("vectors", f"{Path(origin['vectors']).name}   known are {shares}")


def _find_lr(request: "TrainingRequest", model: "Model", data: "Data", *, json: bool) -> None:
    from chainrule.cli.output import emit, say
    from chainrule.core.formatting import scientific
    from chainrule.report import save
    from chainrule.train import find_lr

    found = find_lr(model, data, **request.train)
    facts = {"model": request.entry.name, "data": data.name, "settings": dict(request.train)}
    picture = save(found.picture(), request.runs_folder, f"{request.stem(data)}-learning-rate", facts)
    if json:
        emit({"steepest": found.steepest, "safe": found.safe, "picture": picture})
        return
    say("steepest", f"optimizer.lr={scientific(found.steepest)}   the loss falls fastest here")
    say("safe", f"optimizer.lr={scientific(found.safe)}   a tenth of the rate of the lowest loss")
    say("picture", str(picture))


def _one_batch(request: "TrainingRequest", model: "Model", data: "Data", *, json: bool) -> None:
    from chainrule.cli.output import emit, say
    from chainrule.report import save
    from chainrule.train import overfit_one_batch

    found = overfit_one_batch(model, data, **request.train)
    facts = {"model": request.entry.name, "data": data.name, "settings": dict(request.train)}
    picture = save(found.picture(), request.runs_folder, f"{request.stem(data)}-one-batch", facts)
    if json:
        emit(
            {
                "first": found.losses[0],
                "last": found.losses[-1],
                "steps": len(found.losses),
                "picture": picture,
            }
        )
        return
    say("loss", found.summary)
    say("picture", str(picture))


def _show(request: "TrainingRequest", model: "Model", data: "Data", *, json: bool) -> None:
    """What would be trained, with every setting resolved."""

    from chainrule.cli.arguments import flatten, of_data
    from chainrule.cli.output import emit, say, show, table
    from chainrule.cli.progress import tell_estimate
    from chainrule.cli.settings import write
    from chainrule.core.formatting import count
    from chainrule.models.protocol import parameter_count
    from chainrule.report.progress import Unit
    from chainrule.train import freezing, rehearse

    parameters = parameter_count(model)
    train, steps = request.settled(data)
    chosen = model.config.model_dump()  # type: ignore[attr-defined]  # every registered model has them
    sections = {"model": chosen, "data": dict(data.source), "train": train.model_dump()}
    found = rehearse(model, data, **request.train)
    if json:
        about = {"seconds": found.seconds, "bytes": found.nbytes}
        emit(
            {
                "model": request.entry.name,
                "parameters": parameters,
                "steps": steps,
                **about,
                "settings": sections,
            }
        )
        return
    say("data", f"{data.name}   {data.describe()}")
    say("model", f"{request.entry.name}   {count(parameters)} parameters")
    say("train", f"{steps} steps of {train.batch} examples")
    tell_estimate(found, Unit.of(data.schema, model))
    if learning := freezing.learning(model, train):
        show()
        table(["layer", "learn", "stay as they are"], [[name, f"{a:,}", f"{b:,}"] for name, a, b in learning])
    for values in (chosen, of_data(data.source), train.model_dump()):
        show()
        for name, value in flatten(values).items():
            show(f"{name}={write(value)}")


def _help(context: Context, name: str | None) -> None:
    """Help with every setting of training and, when a model is named, of that model."""
    from chainrule import models
    from chainrule.cli import agents, settings
    from chainrule.cli.models import recipes_table, settings_table
    from chainrule.cli.output import heading, show, table
    from chainrule.cli.training_request import WORDS
    from chainrule.models.wrapping import ModelFile
    from chainrule.train import TrainConfig

    show(context.get_help())
    chosen = name if name and "=" not in name else None
    if chosen in agents.names():
        agents.help(chosen)
        return
    heading("Words of the command")
    table(["word", "meaning"], [[f"{word}=", meaning] for word, meaning in WORDS.items()])
    heading("Training settings")
    settings_table(settings.of(TrainConfig))
    if chosen:
        found = ModelFile.named(chosen).entry() if ".py" in chosen else models.entry(chosen)
        heading(f"Settings of {chosen}")
        settings_table(settings.of(found.config))
        recipes_table(found)
    else:
        show("\nSettings of a model: chainrule models show MODEL   ·   of data: chainrule data show NAME")


__all__ = ["train"]
