"""`chainrule data`: the data sets at hand, what is in them, and what is wrong with them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainrule.cli.options import Json, Settings

if TYPE_CHECKING:
    from chainrule.data.dataset import Data

app = typer.Typer(help="Data: what is there, what is in it, what is wrong with it.")

Source = Annotated[
    str,
    typer.Argument(
        metavar="DATA", show_default=False, help="Name of a data set, or path of a file or folder."
    ),
]


@app.command("ls")
def ls(json: Json = False) -> None:
    """List the data sets that have a name, and the environments and games that agents learn in."""
    from chainrule.cli import agents
    from chainrule.cli.output import emit, heading, table
    from chainrule.cli.settings import write
    from chainrule.data import names

    if json:
        rows = [
            {"name": k.name, "summary": k.summary, "where": k.where, "options": k.options} for k in names()
        ]
        emit(rows)
        return
    shown = [[k.name, k.summary, k.where or "not on this machine", write(k.options)] for k in names()]
    table(["data", "what it is", "where", "options"], shown)
    heading("Environments and games", ": chainrule train ALGORITHM env=NAME")
    table(["name", "what it is"], agents.source_rows())


@app.command("show")
def show(source: Source, settings: Settings = None, json: Json = False) -> None:
    """Show what some data hold, or what an environment is.

    Settings: options of the data (window=64), and out=DIR for a picture.
    """
    from chainrule.cli import agents
    from chainrule.cli.output import emit, say
    from chainrule.cli.settings import write
    from chainrule.core.formatting import file_size
    from chainrule.data import load, preview
    from chainrule.data.loading.load import check_command
    from chainrule.report import save

    name, options = _words(source, settings)
    if not options and agents.is_source(name):
        agents.show_source(name, json)
        return
    out = options.pop("out", None)
    data = load(name, **options)
    facts = {"data": data.name, "hash": data.hash}
    picture = None if out is None else save(preview(data)[0], Path(str(out)).expanduser(), data.name, facts)
    counts = {part: len(data.split(part)) for part in ("train", "val", "test")}
    if json:
        schema = data.schema.to_json()
        shown = {
            "name": data.name,
            "hash": data.hash,
            "schema": schema,
            "counts": counts,
            "source": data.source,
        }
        reading = data.reading.to_json() if data.reading else None
        emit({**shown, "skipped": data.skipped, "notes": data.notes, "reading": reading, "picture": picture})
        return
    say("data", f"{data.name}   {data.describe()}")
    say("holds", _schema(data))
    held = sum(data.split(part).nbytes for part in counts)
    say(
        "counts",
        "  ".join(f"{part} {count:,}" for part, count in counts.items()) + f"   {file_size(held)} in memory",
    )
    if data.notes:
        kinds = ", ".join(f"{kind} ({many:,})" for kind, many in data.notes)
        say("noted", f"{kinds}   see: {check_command({**data.source, 'name_or_path': name})}")
    if data.skipped:
        say("skipped", f"{len(data.skipped):,}; first: {data.skipped[0][0]} ({data.skipped[0][1]})")
    say("hash", data.hash)
    say("options", "  ".join(f"data.{k}={write(v)}" for k, v in data.source.items() if k != "name_or_path"))
    _print_columns(data.reading.table() if data.reading else ())
    _print_examples(data, drawn=picture is not None)
    if picture is not None:
        say("picture", str(picture))


@app.command("check")
def check(source: Source, settings: Settings = None, json: Json = False) -> None:
    """Look for everything that is wrong with some data; exit code 3 if they cannot be used as they are."""
    from chainrule.cli.output import emit, show
    from chainrule.data import check as examine

    name, options = _words(source, settings)
    report = examine(name, **options)
    if json:
        emit(report.to_json())
    else:
        show("\n".join(report.lines()))
        _print_columns(report.columns)
    if not report.ok:
        raise typer.Exit(3)


@app.command("tokens")
def tokens(source: Source, settings: Settings = None, json: Json = False) -> None:
    """Show how a text becomes tokens.

    Settings: tokenizer=byte-bpe (or word, character, FILE.json), vocab=500, and out=DIR for pictures and the tokenizer.
    """
    from chainrule.cli.tokens import show

    name, options = _words(source, settings)
    show(name, options, json)


def _words(source: str, settings: list[str] | None) -> tuple[str, dict[str, Any]]:
    """The data and their options; `data.window=64`, as `train` writes it, means the same as `window=64`."""
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.settings import guess

    words = parse([source, *(settings or [])])
    (name,) = take(words, "DATA")
    return name, {key.removeprefix("data."): guess(text) for key, text in words.settings.items()}


def _schema(data: "Data") -> str:
    from chainrule.data import kinds, targets

    schema = data.schema
    shape = "×".join(str(n) for n in schema.shape)
    levels = f" with {schema.levels} levels" if schema.levels else ""
    lists = [
        f"{len(values)} {what}: {', '.join(values[:12])}{', ...' if len(values) > 12 else ''}"
        for what, values in [*kinds.of(schema).details(schema), *targets.of(schema).details(schema)]
        if values
    ]
    value = f"numeric target of shape {schema.target_shape}" if targets.of(schema).has_values else ""
    return "   ".join(filter(None, [f"{schema.kind} of {shape}{levels}", *lists, value]))


def _print_columns(columns: Sequence[Sequence[str]]) -> None:
    """How the columns of a table were read."""
    from chainrule.cli.output import show, table

    if columns:
        show()
        table(["column", "read as", "missing", "range or examples"], columns)


def _print_examples(data: "Data", *, drawn: bool) -> None:
    """The beginning of a text, rows of a table, pairs of texts; other data are better drawn, unless they are."""
    from chainrule.cli.output import say, show, table
    from chainrule.cli.settings import write
    from chainrule.core.pictures import Table
    from chainrule.core.quoting import shell_word
    from chainrule.data import excerpt, kinds, preview

    if kinds.of(data.schema).is_corpus(data.schema):
        show(f"\n{excerpt(data)}")
        return
    tables = [picture for picture in preview(data) if isinstance(picture, Table)]
    for picture in tables:
        show()
        table(list(picture.columns), [[write(cell) for cell in row] for row in picture.rows])
    if not (tables or drawn):
        say("look", f"chainrule data show {shell_word(data.source['name_or_path'])} out=DIR")


__all__ = ["app"]
