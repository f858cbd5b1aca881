"""`chainrule models`: what can be trained, what it can do, and every setting it has."""

import inspect
import sys
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from chainrule.cli.options import Json, Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.cli.settings import Setting
    from chainrule.models.protocol import Entry, Model, OptionGroup, Recipe

app = typer.Typer(help="Models: what can be trained, and with which settings.")


@app.command("ls")
def ls(json: Json = False) -> None:
    """List every model, and every algorithm that trains agents."""
    from chainrule import models
    from chainrule.agents import algorithms
    from chainrule.cli.output import emit, table

    rows: list[dict[str, Any]] = []
    for name in models.names():
        found = models.entry(name)
        rows.append(
            {
                "name": name,
                "family": models.family(name),
                "summary": found.summary,
                "can": abilities(model_classes(found)),
                "data": list(found.kinds),
                "targets": list(found.targets),
            }
        )
    for name in algorithms.names():
        about = {"family": "agents", "summary": algorithms.entry(name).summary, "can": ["act"]}
        rows.append({"name": name, **about, "data": ["environment"], "targets": []})
    if json:
        emit(rows)
    else:
        table(
            ["model", "family", "can", "what it is"],
            [[r["name"], r["family"], ", ".join(r["can"]), r["summary"]] for r in rows],
        )


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="MODEL", show_default=False, help="Name of a model.")],
    json: Json = False,
) -> None:
    """Show the card of a model, and every setting and sampling option with default, range and meaning."""
    from chainrule import models
    from chainrule.cli import agents, settings
    from chainrule.cli.arguments import flatten
    from chainrule.cli.output import emit, heading, show

    if name in agents.names():
        _show_algorithm(name, json)
        return
    found = models.entry(name)
    known = settings.of(found.config)
    training = flatten(found.training)
    if json:
        rows = _rows(known)
        card = models.card(name)
        emit(
            {
                "name": name,
                "family": models.family(name),
                "summary": found.summary,
                "settings": rows,
                "sampling": [
                    {
                        "group": group.name,
                        "summary": group.summary,
                        "when": "=".join(group.when) if group.when is not None else None,
                        "options": _rows(settings.of(group.schema)),
                    }
                    for group in _sampling(found)
                ],
                "training": training,
                "recipes": {recipe: _written(value) for recipe, value in found.recipes.items()},
                "card": card,
            }
        )
        return
    _print_card(models.card(name))
    heading("Settings", f" of {name}, written key=value after `chainrule train {name}`")
    settings_table(known)
    if training:
        heading("Training", " settings it brings along (all of them: chainrule train --help)")
        show("  ".join(f"{key}={settings.write(value)}" for key, value in training.items()))
    recipes_table(found)
    sampling_table(found)


def _show_algorithm(name: str, json: bool) -> None:
    """The card and the settings of an algorithm that trains agents."""
    from chainrule.agents import algorithms
    from chainrule.cli import settings
    from chainrule.cli.output import emit, heading

    found = algorithms.entry(name)
    known = settings.of(found.config)
    if json:
        about = {"name": name, "family": "agents", "summary": found.summary, "settings": _rows(known)}
        emit({**about, "training": {"env": found.env, "steps": found.steps}, "card": algorithms.card(name)})
        return
    _print_card(algorithms.card(name))
    heading("Settings", f" of {name}, written key=value after `chainrule train {name}`")
    settings_table(known)


@app.command("summary")
def summary(
    name: Annotated[str, typer.Argument(metavar="MODEL", show_default=False, help="Name of a model.")],
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Show the layers of a model with shapes, parameters, multiply-adds and receptive fields.

    Settings are those of `chainrule train`: data=NAME-OR-PATH and the model's own decide its size.
    """
    from chainrule import models
    from chainrule.cli.arguments import parse
    from chainrule.cli.output import emit, show
    from chainrule.cli.training_request import parse_request

    request = parse_request(parse([name, *(settings or [])]))
    data = request.load()
    found = models.summary(request.build(data)[0], data, name=name)
    if json:
        emit(found.to_json())
    else:
        show(str(found))


def sampling_table(found: "Entry") -> None:
    """The options of sampling, group by group; nothing for a model that does not sample."""
    from chainrule.cli import settings
    from chainrule.cli.output import heading

    for group in _sampling(found):
        known = settings.of(group.schema)
        if known:
            under = f", with {group.when[0]}={group.when[1]}" if group.when is not None else ""
            heading("Sampling", f": {group.name}{under}. {group.summary}")
            settings_table(known)


def sampling_settings(found: "Entry") -> "dict[str, Setting]":
    """Every option of sampling by name, of all groups together."""
    from chainrule.cli import settings

    return {name: one for group in _sampling(found) for name, one in settings.of(group.schema).items()}


def _sampling(found: "Entry") -> "Sequence[OptionGroup]":
    from chainrule.models.protocol import CanSample

    groups: list[OptionGroup] = []
    for kind in model_classes(found):
        for group in kind.sample_options() if issubclass(kind, CanSample) else ():
            fields = group.schema.model_fields.keys()
            if not any(fields <= one.schema.model_fields.keys() for one in groups if one.when == group.when):
                groups.append(group)
    return groups


def recipes_table(found: "Entry") -> None:
    """Settings that go together under a name, each with the words it stands for; nothing for a model without any."""
    from chainrule.cli.output import heading, table

    if found.recipes:
        heading("Recipes", f" of {found.name}, settings under one name")
        rows = [[f"recipe={name}", one.summary, _written(one)] for name, one in found.recipes.items()]
        table(["word", "what it is", "stands for"], rows)


def _written(recipe: "Recipe") -> str:
    """The words a recipe stands for."""
    from chainrule.cli import settings
    from chainrule.cli.arguments import flatten

    options = {f"data.{name}": value for name, value in recipe.data.items()}
    words = {**recipe.model, **options, **flatten(recipe.train)}
    return " ".join(f"{name}={settings.write(value)}" for name, value in words.items())


def _rows(known: "dict[str, Setting]") -> list[dict[str, str]]:
    return [
        {"name": s.name, "default": s.default, "allowed": s.allowed, "description": s.description}
        for s in known.values()
    ]


def settings_table(known: "dict[str, Setting]") -> None:
    """Settings with default, range and meaning."""
    from chainrule.cli.output import table

    rows = [[s.name, s.default, s.allowed, s.description] for s in known.values()]
    table(["setting", "default", "allowed", "meaning"], rows)


def model_classes(found: "Entry") -> "tuple[type[Model], ...]":
    """The classes of the models an entry builds, known without building one; settings may decide between several."""
    from chainrule.models.protocol import Model

    made = found.build if isinstance(found.build, type) else inspect.signature(found.build).return_annotation
    kinds = get_args(made) or (made,)
    if not all(isinstance(kind, type) and issubclass(kind, Model) for kind in kinds):
        raise TypeError(f"the build function of {found.name} must name the class it returns")
    return kinds


def abilities(kinds: "Sequence[type[Model]]") -> list[str]:
    """What models of any of these classes can do beyond being trained, in words."""
    from chainrule.models import protocol

    words = {
        protocol.CanPredict: "predict",
        protocol.CanSample: "sample",
        protocol.HasLogProb: "likelihood",
        protocol.HasBound: "bound",
        protocol.CanEncode: "encode",
        protocol.CanDecode: "decode",
    }
    return [word for capability, word in words.items() if any(issubclass(kind, capability) for kind in kinds)]


def _print_card(text: str) -> None:
    from chainrule.cli.output import show

    if not sys.stdout.isatty():
        show(text.rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(text))


__all__ = ["abilities", "app", "model_classes", "recipes_table", "settings_table"]
