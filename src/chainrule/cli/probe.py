"""`chainrule probe`: experiments that show a mechanism at work, and probes of a trained run."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chainrule.cli.options import Context, Json

if TYPE_CHECKING:
    from chainrule.agents import AgentRun
    from chainrule.explain import Outcome, Settings
    from chainrule.report import Album, Chapter
    from chainrule.train import Run

_EXPERIMENT = ("out",)
_RUN = ("out", "to", "runs")
_RUN_TO = ("to", "runs")
"""Of a probe that has an `out` of its own: the output that it explains."""
_DATA_OPTION = re.compile(r"\bdata\.(?=\w+=)")
"""An option of the data in a message, as training has it."""

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[EXPERIMENT|RUN] [PROBE] [KEY=VALUE]",
        show_default=False,
        help="An experiment, or a run and a probe of it, and settings; nothing lists what there is.",
    ),
]
Help = Annotated[bool, typer.Option("--help", "-h", help="Show this, or the settings of what is named.")]


def probe(context: Context, words: Words = None, json: Json = False, wants_help: Help = False) -> None:
    """Show a mechanism at work, or examine a trained run.

    `chainrule probe` lists the experiments and probes; `chainrule probe NAME` runs an experiment; `chainrule probe RUN`
    examines a run with every probe that applies, `chainrule probe RUN NAME` with one. A text=... of your own is for
    all probes that read one. Pictures, a page and the numbers are written to out=DIR (probes/NAME-001, or the folder of
    the run); of a run also to=DIR, the only word where out=... names the output that a probe explains. A probe that
    does not apply after all says why and changes nothing; if one fails, the exit status is 1.
    """
    from chainrule.cli.arguments import parse
    from chainrule.cli.output import show

    if wants_help and not words:
        show(context.get_help())
        return
    given = parse(words or [])
    if not given.names:
        _list(given.settings, json)
        return
    from chainrule.explain import experiments

    if wants_help:
        _explain(given.names, json)
    elif given.names[0] in experiments.names():
        _experiment(given.names, given.settings, json)
    else:
        _run(given.names, given.settings, json)


def _list(given: Mapping[str, str], json: bool) -> None:
    from chainrule.cli.output import emit, heading, table
    from chainrule.cli.settings import unknown
    from chainrule.explain import agent_probes, experiments, probes

    for name in given:
        raise unknown(name, (), "to run an experiment, name it: chainrule probe distances")
    shows = [{"name": name, "summary": experiments.get(name).summary} for name in experiments.names()]
    examinations = [
        {"name": name, "summary": probes.get(name).summary, "needs": probes.get(name).needs}
        for name in probes.names()
    ]
    of_agents = [
        {"name": name, "summary": agent_probes.get(name).summary, "needs": agent_probes.get(name).needs}
        for name in agent_probes.names()
    ]
    if json:
        emit({"experiments": shows, "probes": examinations, "agent_probes": of_agents})
        return
    heading("Experiments", ": chainrule probe NAME")
    table(["experiment", "what it shows"], [list(one.values()) for one in shows])
    heading("Probes", " of a trained run: chainrule probe RUN, or chainrule probe RUN NAME")
    table(["probe", "what it shows", "needs"], [list(one.values()) for one in examinations])
    heading("Probes of agents", ": chainrule probe RUN, or chainrule probe RUN NAME")
    table(["probe", "what it shows", "needs"], [list(one.values()) for one in of_agents])


def _explain(names: tuple[str, ...], json: bool) -> None:
    """What an experiment or a probe is, and its settings; a name after that of a run is a probe."""
    from chainrule.cli import settings
    from chainrule.cli.models import settings_table
    from chainrule.cli.output import emit, show
    from chainrule.explain import agent_probes, experiments, probes

    name = names[-1]
    of_agents = name in agent_probes.names() and name not in (*probes.names(), *experiments.names())
    is_probe = of_agents or len(names) > 1 or (name in probes.names() and name not in experiments.names())
    found: Any = (agent_probes if of_agents else probes).get(name) if is_probe else experiments.get(name)
    more = f"It needs {found.needs}." if is_probe else found.reference
    known = settings.of(found.settings)
    if json:
        rows = [
            {"name": s.name, "default": s.default, "allowed": s.allowed, "description": s.description}
            for s in known.values()
        ]
        emit({"name": name, "summary": found.summary, "settings": rows})
        return
    show(f"{found.summary}\n{more}\n")
    if known:
        settings_table(known)
    else:
        show("It has no settings.")


def _experiment(names: tuple[str, ...], given: Mapping[str, str], json: bool) -> None:
    from chainrule.cli.arguments import Words as Sorted
    from chainrule.cli.arguments import take
    from chainrule.cli.output import say
    from chainrule.core.errors import ChainruleError
    from chainrule.core.quoting import shell_word
    from chainrule.explain import experiments
    from chainrule.report import write_album
    from chainrule.train.naming import new_folder

    (name,) = take(Sorted(names, {}), "EXPERIMENT")
    found = experiments.get(name)
    settings = experiments.configure(name, **_typed(name, found.settings, given, _EXPERIMENT))
    try:
        outcome = found.run(settings, (lambda line: None) if json else lambda line: say("", line))
    except ChainruleError as error:
        if "load" not in found.settings.model_fields:
            raise
        raise type(error)(_as_load(error.message), remedy=_as_load(error.remedy)) from error
    chapter = _chapter(name, found.summary, outcome)
    folder = Path(given["out"]).expanduser() if "out" in given else new_folder(Path("probes"), name)
    words = [shell_word(f"{key}={value}") for key, value in given.items() if key not in _EXPERIMENT]
    album = write_album(
        folder,
        name,
        found.reference,
        [chapter],
        settings=settings.model_dump(),
        again={
            "Run it again": " ".join(["chainrule probe", name, *words]),
            "Its settings": f"chainrule probe {name} --help",
        },
    )
    _present({"experiment": name}, {name: settings}, [chapter], album, json)


def _as_load(text: str) -> str:
    """Options of the data as experiments have them, load.target=; in a command of its own they stay data.target=.

    >>> _as_load("use data.target=none; list: chainrule data check t.csv data.n=3")
    'use load.target=none; list: chainrule data check t.csv data.n=3'
    """
    lines = []
    for line in text.split("\n"):
        own, command, rest = line.partition("chainrule ")
        lines.append(_DATA_OPTION.sub("load.", own) + command + rest)
    return "\n".join(lines)


def _run(names: tuple[str, ...], given: Mapping[str, str], json: bool) -> None:
    from chainrule.cli.arguments import Words as Sorted
    from chainrule.cli.arguments import take
    from chainrule.cli.folders import handle
    from chainrule.cli.output import complain
    from chainrule.cli.progress_line import progress_line
    from chainrule.core.progress import update
    from chainrule.core.quoting import shell_word
    from chainrule.report import Chapter, write_album

    word, *chosen = take(Sorted(names, {}), "RUN", *["PROBE"][: len(names) - 1])
    run = _open(word, given)
    probes = _probes_of(run)
    own = _RUN_TO if any("out" in probes.get(name).settings.model_fields for name in chosen) else _RUN
    settings = {
        name: probes.configure(name, **_typed(name, probes.get(name).settings, given, own)) for name in chosen
    }
    if not chosen:
        settings = _all_settings(run, given)
    chapters, failed = [], []
    with progress_line(silent=json):
        for number, (name, one) in enumerate(settings.items()):
            update(name, number, len(settings))
            try:
                chapters.append(_examine(name, run, one, alone=bool(chosen)))
            except Exception as error:  # a bug in one probe must not cost what the others found
                if chosen:
                    raise
                failed.append(name)
                problem = f"{type(error).__name__}: {error}".splitlines()[0]
                chapters.append(Chapter(name, probes.get(name).summary, problem=problem))
    default = run.path.joinpath("probes", *chosen)
    folder = _folder(given, own) or default
    words = [shell_word(f"{key}={value}") for key, value in given.items() if key not in own]
    where, in_mode = _described(run)
    album = write_album(
        folder,
        f"{chosen[0]}: {run.id}" if chosen else f"Inside {run.id}",
        " ".join([where, *([f"The network is in {in_mode}."] if in_mode else [])]),
        chapters,
        settings={"run": run.id, "step": run.step, **{n: s.model_dump() for n, s in settings.items()}},
        again={"Run it again": " ".join(["chainrule probe", handle(run.path), *chosen, *words])},
    )
    _present({"run": run.id, "step": run.step, "mode": in_mode}, settings, chapters, album, json)
    if not (chosen or json):
        _tell_others(run)
    if failed:
        complain(
            f"{len(failed)} of {len(settings)} probes failed: {', '.join(failed)}\n"
            f"see where: chainrule probe {handle(run.path)} {failed[0]} --trace"
        )
        raise typer.Exit(1)


def _tell_others(run: "Run | AgentRun") -> None:
    """Probes that are run by name alone."""
    from chainrule.cli.folders import handle
    from chainrule.cli.output import say
    from chainrule.explain import probes
    from chainrule.train import Run

    if isinstance(run, Run):
        for name in probes.applicable(run):
            if probes.get(name).by_name:
                say("more", f"chainrule probe {handle(run.path)} {name}")


def _folder(given: Mapping[str, str], own: tuple[str, ...]) -> Path | None:
    """Where pictures go, if that is said."""
    from chainrule.core.errors import ArgumentError

    named = [word for word in ("out", "to") if word in own and word in given]
    if len(named) > 1:
        raise ArgumentError("out and to: both name the folder of the pictures", remedy="give one of them")
    return Path(given[named[0]]).expanduser() if named else None


def _probes_of(run: "Run | AgentRun") -> ModuleType:
    """What can examine a run: probes of models, or of agents."""
    from chainrule.explain import agent_probes, probes
    from chainrule.train import Run

    return probes if isinstance(run, Run) else agent_probes


def _described(run: "Run | AgentRun") -> tuple[str, str]:
    """A line about a run, and the mode its network is in, if it has one of those."""
    from chainrule.nn.modes import mode
    from chainrule.train import Run

    name = run.config["model"]["name"] or "a model of your own"
    if isinstance(run, Run):
        return f"Step {run.step:,} of {run.id}, {name} on {run.data.name}.", mode(run.model)
    return f"Step {run.step:,} of {run.id}, {name} in {run.config['env']['name']}.", ""


def _open(word: str, given: Mapping[str, str]) -> "Run | AgentRun":
    """The run a word names; a misspelt experiment is recognised as one."""
    from chainrule.cli.agents import open_any
    from chainrule.cli.folders import find, runs_folder
    from chainrule.core.errors import ArgumentError, RunError, suggest
    from chainrule.explain import experiments

    try:
        return open_any(find(word, runs_folder(given.get("runs"))))
    except RunError as error:
        hint = suggest(word, experiments.names())
        if not hint:
            raise
        raise ArgumentError(
            f"{word!r} is neither an experiment nor a run{hint}", remedy="list experiments: chainrule probe"
        ) from error


def _all_settings(run: "Run | AgentRun", given: Mapping[str, str]) -> "dict[str, Settings]":
    """Defaults of every probe that applies; a text is for all that read one."""
    from chainrule.core.errors import ArgumentError
    from chainrule.explain import agent_probes, probes
    from chainrule.train import Run

    if not isinstance(run, Run):
        _typed("probes", None, given, _RUN)
        return {name: agent_probes.configure(name) for name in agent_probes.applicable(run)}
    _typed("probes", None, {word: text for word, text in given.items() if word != "text"}, _RUN)
    names = [name for name in probes.applicable(run) if not probes.get(name).by_name]
    reading = [name for name in names if probes.get(name).reads_text(run.schema)]
    if "text" in given and not reading:
        raise ArgumentError(
            f"text: no probe of {run.id} reads a text", remedy="leave it out, or probe a model of text"
        )
    own = {"text": given["text"]} if "text" in given else {}
    return {name: probes.configure(name, **(own if name in reading else {})) for name in names}


def _examine(name: str, run: "Run | AgentRun", settings: "Settings", *, alone: bool) -> "Chapter":
    """What one probe finds; among others, one that cannot be applied says why."""
    from chainrule.core.errors import ChainruleError
    from chainrule.report import Chapter

    probes = _probes_of(run)
    summary = probes.get(name).summary
    try:
        return _chapter(name, summary, probes.examine(name, run, **settings.model_dump()))
    except ChainruleError as error:
        if alone:
            raise
        return Chapter(name, summary, problem=str(error), declined=True)


def _typed(
    name: str, schema: "type[Settings] | None", given: Mapping[str, str], own: tuple[str, ...]
) -> dict[str, Any]:
    """Settings as the schema types them; the words of the verb itself are left out."""
    from chainrule.cli import settings
    from chainrule.cli.arguments import nest

    known = settings.of(schema) if schema is not None else {}
    values = {}
    for word, text in given.items():
        if word in own:
            continue
        found = settings.find(word, known)
        if found is None:
            remedy = f"settings of {name}: chainrule probe {'RUN ' if 'runs' in own else ''}{name} --help"
            if schema is None:
                remedy = "settings belong to one probe: chainrule probe RUN PROBE KEY=VALUE"
            # Errors of the data name their options as training has them: data.missing is load.missing here.
            option = "load." + word.removeprefix("data.")
            elsewhere = {word: option} if word.startswith("data.") and settings.find(option, known) else {}
            raise settings.unknown(word, [*own, *known], remedy, elsewhere)
        values[word] = settings.read(text, found.annotation)
    return nest(values)


def _chapter(name: str, summary: str, outcome: "Outcome") -> "Chapter":
    from chainrule.report import Chapter

    tables = [outcome.table] if outcome.table is not None else []
    return Chapter(name, summary, outcome.findings, [*tables, *outcome.pictures], outcome.numbers)


def _present(
    what: dict[str, Any],
    settings: "Mapping[str, Settings]",
    chapters: "list[Chapter]",
    album: "Album",
    json: bool,
) -> None:
    from chainrule.cli.output import emit, heading, say, show, table
    from chainrule.core.formatting import short_number
    from chainrule.core.pictures import Table

    if json:
        results = {
            chapter.name: {
                "settings": settings[chapter.name].model_dump(),
                "findings": list(chapter.findings),
                "numbers": chapter.numbers,
                "problem": chapter.problem,
                "declined": chapter.declined,
            }
            for chapter in chapters
        }
        files = {"page": album.page, "numbers": album.numbers, "pictures": list(album.pictures)}
        emit({**what, "results": results, "files": files})
        return
    for chapter in chapters:
        if len(chapters) > 1 or chapter.problem:
            why = "does not apply here: " if chapter.declined else ""
            heading(chapter.name, f": {why}{chapter.problem or chapter.summary}")
        show("\n".join(chapter.findings))
        for shown in chapter.pictures:
            if isinstance(shown, Table):
                show()
                cells = [
                    [c if isinstance(c, str) else short_number(float(c)) for c in row] for row in shown.rows
                ]
                table(list(shown.columns), cells)
    show()
    if declined := [chapter.name for chapter in chapters if chapter.declined]:
        say("declined", f"{len(declined)} of {len(chapters)} probes do not apply here: {', '.join(declined)}")
    say("pictures", f"{len(album.pictures)} in {album.page.parent}")
    say("numbers", str(album.numbers))
    say("page", str(album.page))


__all__ = ["probe"]
