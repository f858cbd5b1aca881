"""`chainrule probe`: experiments that show a mechanism at work, and looks into a trained run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainrule.cli.options import Context, Json

if TYPE_CHECKING:
    from chainrule.explain import Outcome, Settings
    from chainrule.report import Album, Chapter

_OWN = {"out": "folder for the pictures", "runs": "folder of the runs; default $CHAINRULE_RUNS or ./runs"}

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[EXPERIMENT|RUN] [PROBE] [KEY=VALUE]",
        show_default=False,
        help="An experiment, or a run and a probe into it, and settings; alone, everything there is.",
    ),
]
Help = Annotated[
    bool, typer.Option("--help", "-h", help="Show this, or the settings of what is named.", is_eager=True)
]


def probe(context: Context, words: Words = None, json: Json = False, wants_help: Help = False) -> None:
    """Show a mechanism at work, or look inside a trained run.

    `chainrule probe` lists the experiments and probes; `chainrule probe NAME` runs an experiment; `chainrule probe RUN`
    looks into a run with every probe that applies, `chainrule probe RUN NAME` with one. Pictures, a page and the
    numbers are written to out=DIR (probes/NAME-001, or the folder of the run).
    """
    from chainrule.cli.words import parse

    if wants_help and not words:
        print(context.get_help())
        return
    given = parse(words or [])
    if not given.names:
        _list(given.settings, json)
        return
    from chainrule.explain import experiments

    first, *rest = given.names
    if wants_help:
        _explain(given.names[-1])
    elif first in experiments.names():
        _experiment(first, rest, given.settings, json)
    else:
        _run(first, rest, given.settings, json)


def _list(given: Mapping[str, str], json: bool) -> None:
    from chainrule.cli.output import emit, paint, table
    from chainrule.cli.settings import unknown
    from chainrule.explain import experiments, probes

    for name in given:
        raise unknown(name, (), "to run an experiment, name it: chainrule probe distances")
    shows = {name: experiments.get(name).summary for name in experiments.names()}
    looks = {name: (probes.get(name).summary, probes.get(name).needs) for name in probes.names()}
    if json:
        emit(
            {
                "experiments": [{"name": name, "summary": summary} for name, summary in shows.items()],
                "probes": [
                    {"name": n, "summary": summary, "needs": needs} for n, (summary, needs) in looks.items()
                ],
            }
        )
        return
    print(f"{paint('Experiments', 'bold')}: chainrule probe NAME\n")
    table(["experiment", "what it shows"], [[name, summary] for name, summary in shows.items()])
    print(
        f"\n{paint('Probes', 'bold')} into a trained run: chainrule probe RUN, or chainrule probe RUN NAME\n"
    )
    table(["probe", "what it shows", "needs"], [[name, *words] for name, words in looks.items()])


def _explain(name: str) -> None:
    """The settings of an experiment or a probe."""
    from chainrule.cli import settings
    from chainrule.cli.models import settings_table
    from chainrule.explain import experiments, probes

    if name in probes.names() and name not in experiments.names():
        found: Any = probes.get(name)
        print(f"{found.summary}\nIt needs {found.needs}.\n")
    else:
        found = experiments.get(name)
        print(f"{found.summary}\n{found.reference}\n")
    known = settings.of(found.settings)
    if known:
        settings_table(known)
    else:
        print("It has no settings.")


def _experiment(name: str, rest: list[str], given: Mapping[str, str], json: bool) -> None:
    from chainrule.cli.output import say
    from chainrule.cli.words import Words as Sorted
    from chainrule.cli.words import take
    from chainrule.explain import experiments
    from chainrule.train.folder import new_folder

    take(Sorted((name, *rest), {}), "NAME")
    found = experiments.get(name)
    settings = experiments.configure(name, **_settings(name, found.settings, given))
    if "runs" in given:
        raise _unknown("runs", found.settings, name)
    out = given.get("out")
    outcome = found.run(settings, (lambda line: None) if json else lambda line: say("", line))
    folder = Path(out).expanduser() if out else new_folder(Path("probes"), name)
    chapter = _chapter(name, found.summary, outcome)
    command = " ".join(["chainrule probe", name, *(f"{key}={value}" for key, value in given.items())])
    from chainrule.report import write_album

    album = write_album(
        folder,
        name,
        found.reference,
        [chapter],
        settings=settings.model_dump(),
        again={"Run it again": command, "Its settings": f"chainrule probe {name} --help"},
    )
    _tell({"experiment": name}, {name: settings}, [chapter], album, {name: outcome}, json)


def _run(word: str, rest: list[str], given: Mapping[str, str], json: bool) -> None:
    from chainrule.cli.folders import find, handle, place
    from chainrule.cli.words import Words as Sorted
    from chainrule.cli.words import take
    from chainrule.core.errors import ArgumentError, ChainruleError, RunError, suggest
    from chainrule.explain import experiments, probes
    from chainrule.report import Chapter, write_album
    from chainrule.train import Run

    if rest:
        take(Sorted((word, *rest), {}), "RUN", "PROBE")
    try:
        run = Run.open(find(word, place(given.get("runs"))))
    except RunError as error:
        hint = suggest(word, experiments.names())
        if not hint:
            raise
        raise ArgumentError(
            f"{word!r} is neither an experiment nor a run{hint}", remedy="list experiments: chainrule probe"
        ) from error
    chosen = rest or probes.applicable(run)
    chapters, outcomes, settings = [], {}, {}
    for name in chosen:
        found = probes.get(name)
        values = _settings(
            name, found.settings, given if rest else {k: v for k, v in given.items() if k in _OWN}
        )
        settings[name] = probes.configure(name, **values)
        try:
            outcomes[name] = probes.look(name, run, **values)
            chapters.append(_chapter(name, found.summary, outcomes[name]))
        except ChainruleError as error:
            if rest:
                raise
            chapters.append(Chapter(name, found.summary, problem=str(error)))
    if not rest and set(given) - set(_OWN):
        name = next(iter(set(given) - set(_OWN)))
        raise ArgumentError(
            f"{name}={given[name]}: settings belong to one probe",
            remedy=f"name it: chainrule probe {word} PROBE",
        )
    default = run.path / "probes" / rest[0] if rest else run.path / "probes"
    folder = Path(given["out"]).expanduser() if "out" in given else default
    album = write_album(
        folder,
        f"{run.id}: {rest[0]}" if rest else f"Inside {run.id}",
        f"Step {run.step:,} of {run.id}, {run.config['model']['name'] or 'a model of your own'} on {run.data.name}.",
        chapters,
        settings={"run": run.id, "step": run.step, **{n: s.model_dump() for n, s in settings.items()}},
        again={"Look again": " ".join(["chainrule probe", handle(run.path), *rest])},
    )
    _tell({"run": run.id, "step": run.step}, settings, chapters, album, outcomes, json)


def _settings(name: str, schema: "type[Settings]", given: Mapping[str, str]) -> dict[str, Any]:
    """Settings as the schema types them; the words of the verb itself are left out."""
    from chainrule.cli import settings
    from chainrule.cli.words import nest

    known = settings.of(schema)
    values = {}
    for word, text in given.items():
        if word in _OWN:
            continue
        found = settings.find(word, known)
        if found is None:
            raise _unknown(word, schema, name)
        values[word] = settings.read(text, found.annotation)
    return nest(values)


def _unknown(word: str, schema: "type[Settings]", name: str) -> Exception:
    from chainrule.cli import settings

    return settings.unknown(
        word, ["out", *settings.of(schema)], f"settings of {name}: chainrule probe {name} --help"
    )


def _chapter(name: str, summary: str, outcome: "Outcome") -> "Chapter":
    from chainrule.report import Chapter

    tables = [outcome.table] if outcome.table is not None else []
    return Chapter(name, summary, outcome.findings, [*tables, *outcome.pictures], outcome.numbers)


def _tell(
    what: dict[str, Any],
    settings: "Mapping[str, Settings]",
    chapters: "list[Chapter]",
    album: "Album",
    outcomes: "Mapping[str, Outcome]",
    json: bool,
) -> None:
    from chainrule.cli.output import emit, number, paint, say, table

    files = {"page": album.page, "numbers": album.numbers, "pictures": list(album.pictures)}
    if json:
        results = {
            chapter.name: {
                "settings": settings[chapter.name].model_dump(),
                "findings": list(chapter.findings),
                "numbers": chapter.numbers,
                **({"problem": chapter.problem} if chapter.problem else {}),
            }
            for chapter in chapters
        }
        emit({**what, "results": results, "files": files})
        return
    for chapter in chapters:
        if len(chapters) > 1 or chapter.problem:
            print(f"\n{paint(chapter.name, 'bold')}: {chapter.problem or chapter.summary}")
        for sentence in chapter.findings:
            print(sentence)
        shown = outcomes[chapter.name].table if chapter.name in outcomes else None
        if shown is not None:
            print()
            rows = [
                [cell if isinstance(cell, str) else number(float(cell)) for cell in row] for row in shown.rows
            ]
            table(list(shown.columns), rows)
    print()
    say("pictures", f"{len(album.pictures)} in {album.page.parent}")
    say("numbers", str(album.numbers))
    say("page", str(album.page))


__all__ = ["probe"]
