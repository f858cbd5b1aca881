"""Agents on the command line: what `train`, `resume` and `score` do where there is an environment instead of data."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.cli.arguments import Words

if TYPE_CHECKING:
    from chainrule.agents import AgentRun
    from chainrule.cli.training import Handling
    from chainrule.train import Run

WORDS = {
    "env": "environment or game: a name (chainrule data ls), FILE.py of your own, which is run, gym:NAME or pgx:NAME",
    "config": "config.yaml of an earlier run to repeat; other words override it",
    "run": "name of the run, or path of its folder",
    "runs": "folder of the runs; default $CHAINRULE_RUNS or ./runs",
}
"""Words of `chainrule train ALGORITHM`; numbers of the world are written env.gravity=1.6, wrappers wrap.frames=4."""
SCORE = ("episodes", "seed", "runs")
_PREFIX, _AROUND = "env.", "wrap."
_RUNS = ("start", "teacher")
"""Settings of algorithms that are names of runs: they are looked for where `runs=` says, like all others."""


class Request(NamedTuple):
    """What the words of `chainrule train` ask for: names, and settings by name."""

    algorithm: str
    env: str
    own: dict[str, Any]
    """Of the algorithm."""
    world: dict[str, Any]
    wrappers: dict[str, Any]
    settings: dict[str, Any]
    """Of the training."""


def names() -> list[str]:
    """Every algorithm."""
    from chainrule.agents import algorithms

    return algorithms.names()


def holds(path: Path) -> bool:
    """Whether a folder holds a run of agents."""
    from chainrule.train.folder import of_agents, read_config

    return of_agents(read_config(path))


def open_any(path: Path) -> "Run | AgentRun":
    """The run in a folder, of models or of agents."""
    from chainrule.agents import AgentRun
    from chainrule.train import Run

    return AgentRun.open(path) if holds(path) else Run.open(path)


def meant(words: Words) -> bool:
    """Whether the words of `chainrule train` are about agents: an algorithm, an environment, or a recipe with one."""
    if "env" in words.settings or (words.names and words.names[0] in names()):
        return True
    config = Path(words.settings.get("config", "")).expanduser()
    return config.is_file() and holds(config)


def train(words: Words, *, json: bool, quiet: bool, dry_run: bool, only: bool) -> None:
    """Train agents as the words say."""
    from chainrule.agents import fit
    from chainrule.cli.folders import find, runs_folder
    from chainrule.cli.training import train_and_report
    from chainrule.core.errors import ArgumentError
    from chainrule.train.naming import new_folder, run_folder

    if only:
        raise ArgumentError("--find-lr and --one-batch are for models of data, not for agents")
    given = words.settings
    asked = request(words)
    for name in _RUNS:
        if given.get(name) and name in asked.own:
            asked.own[name] = str(find(given[name], runs_folder(given.get("runs"))))
    if dry_run:
        _show(asked, json=json)
        return
    named = run_folder(given["run"], given.get("runs")) if "run" in given else None
    new = named is None or not named.exists()
    stem = f"{asked.env.rpartition('/')[2].removesuffix('.py').replace(':', '-')}-{asked.algorithm}"
    path = named or new_folder(runs_folder(given.get("runs")), stem)
    try:
        train_and_report(
            lambda listener: fit(
                asked.algorithm,
                asked.env,
                algorithm_settings=asked.own,
                env_settings=asked.world,
                wrappers=asked.wrappers,
                run=path,
                listener=listener,
                **asked.settings,
            ),
            path,
            _handling(),
            json=json,
            quiet=quiet,
        )
    finally:
        if new and not (path / "config.yaml").exists():  # it never became a run and would only be in the way
            shutil.rmtree(path, ignore_errors=True)


def resume(path: Path, given: Mapping[str, str], *, json: bool, quiet: bool) -> None:
    """Go on with a run of agents; steps may be more than before."""
    from chainrule.agents import AgentRun
    from chainrule.agents import resume as go_on
    from chainrule.agents.training.config import AgentConfig
    from chainrule.cli import settings
    from chainrule.cli.training import train_and_report

    known = settings.of(AgentConfig)
    for name in given:
        if settings.find(name, known) is None:
            raise settings.unknown(
                name, [*known, "runs"], "a resumed run keeps its algorithm and environment"
            )
    typed = AgentConfig.parse(
        **{name: settings.read(text, known[name].annotation) for name, text in given.items()}
    )
    overrides = typed.model_dump(exclude_unset=True)
    run = AgentRun.open(path)
    train_and_report(
        lambda listener: go_on(run, listener=listener, **overrides), path, _handling(), json=json, quiet=quiet
    )


def score(path: Path, given: Mapping[str, str], *, json: bool) -> None:
    """Judge agents by episodes that training never saw."""
    from chainrule.agents import AgentRun
    from chainrule.cli.output import emit
    from chainrule.cli.score import show
    from chainrule.cli.settings import unknown, whole_number

    for word in given:
        if word not in SCORE:
            raise unknown(word, SCORE, "settings of score for agents: episodes=100, seed=1, runs=DIR")
    episodes = whole_number("episodes", given["episodes"], low=2) if "episodes" in given else None
    seed = whole_number("seed", given["seed"], low=0) if "seed" in given else None
    found = AgentRun.open(path).score(episodes, seed)
    if json:
        emit({"metrics": {name: metric.to_json() for name, metric in found.items()}})
    else:
        show(found)


def help(name: str) -> None:
    """Every word and setting of `chainrule train ALGORITHM`."""
    from chainrule.agents import algorithms
    from chainrule.agents.envs.wrappers import WrapperSettings
    from chainrule.agents.training.config import AgentConfig
    from chainrule.cli import settings
    from chainrule.cli.models import settings_table
    from chainrule.cli.output import heading, table

    heading("Words of the command")
    rows = [[f"{word}=", meaning] for word, meaning in WORDS.items()]
    table(["word", "meaning"], [*rows, ["env.NAME=", "a number of the world: chainrule data show ENV"]])
    heading("Training settings of agents")
    settings_table(settings.of(AgentConfig))
    heading(f"Settings of {name}")
    settings_table(settings.of(algorithms.entry(name).config))
    if not algorithms.entry(name).of_games:
        heading("Wrappers of the environment")
        settings_table(settings.of(WrapperSettings, _AROUND))


def is_source(name: str) -> bool:
    """Whether a name is that of an environment or a game."""
    from chainrule.agents import sources

    return name in sources.names()


def source_rows() -> list[list[str]]:
    """Every environment and game, and what it is."""
    from chainrule.agents import sources

    return [[name, sources.summary(name)] for name in sources.names()]


def show_source(name: str, json: bool) -> None:
    """What an environment or a game is, and the numbers of its world."""
    from chainrule.agents import sources
    from chainrule.cli.models import settings_table
    from chainrule.cli.output import emit, say, show
    from chainrule.cli.settings import of

    known = of(sources.schema(name))
    facts = sources.facts(name)
    if json:
        rows = [{"name": s.name, "default": s.default, "allowed": s.allowed} for s in known.values()]
        emit({"name": name, "summary": sources.summary(name), **facts, "settings": rows})
        return
    say("env", f"{name}   {sources.summary(name)}")
    for what, fact in facts.items():
        say(what, fact)
    if known:
        show()
        settings_table(
            {f"{_PREFIX}{word}": replace(one, name=f"{_PREFIX}{word}") for word, one in known.items()}
        )


def request(words: Words) -> Request:
    """What is asked for, every word checked."""
    from chainrule.agents import algorithms
    from chainrule.agents.envs.wrappers import WrapperSettings
    from chainrule.agents.training.config import AgentConfig
    from chainrule.cli import settings
    from chainrule.cli.arguments import nest, take
    from chainrule.core.errors import ArgumentError
    from chainrule.train.folder import read_config

    given = words.settings
    recipe = read_config(Path(given["config"]).expanduser()) if "config" in given else None
    if len(words.names) > 1:
        take(words, "ALGORITHM")
    name = words.names[0] if words.names else recipe["model"]["name"] if recipe else "ppo"
    if recipe and name != recipe["model"]["name"]:
        raise ArgumentError(
            f"{given['config']} is a recipe for {recipe['model']['name']}, not for {name}",
            remedy=f"leave {name!r} out, or leave config= out",
        )
    if "data" in given:
        raise ArgumentError(
            f"data={given['data']}: agents learn from an environment, not from data",
            remedy="name one: env=cartpole",
        )
    entry = algorithms.entry(name)
    of_own, of_train = settings.of(entry.config), settings.of(AgentConfig)
    of_wrappers = settings.of(WrapperSettings, _AROUND)
    own, world, around, train = {}, {}, {}, {}
    for word, text in given.items():
        if found := of_wrappers.get(word):
            around[word.removeprefix(_AROUND)] = settings.read(text, found.annotation)
        elif word.startswith(_PREFIX):
            world[word.removeprefix(_PREFIX)] = settings.guess(text)
        elif found := settings.find(word, of_own):
            own[word] = settings.read(text, found.annotation)
        elif found := settings.find(word, of_train):
            train[word] = settings.read(text, found.annotation)
        elif word not in WORDS:
            known = [*WORDS, *of_own, *of_train, *of_wrappers]
            raise settings.unknown(word, known, f"all settings: chainrule train {name} --help")
    env = given.get("env") or (recipe["env"]["name"] if recipe else entry.env)
    before = recipe["env"] if recipe and env == recipe["env"]["name"] else {}
    typed = AgentConfig.parse(**nest(train)).model_dump(exclude_unset=True)
    chosen = algorithms.configure(name, **nest(own)).model_dump(exclude_unset=True)
    return Request(
        name,
        env,
        {**(recipe["model"]["settings"] if recipe else {}), **chosen},
        {**before.get("settings", {}), **world},
        {**before.get("wrappers", {}), **around},
        {**(recipe["train"] if recipe else {}), **typed},
    )


def _handling() -> "Handling":
    from chainrule.agents import AgentRun
    from chainrule.cli.folders import handle
    from chainrule.cli.training import Handling
    from chainrule.report.agents import write
    from chainrule.report.progress import Unit

    def following(run: AgentRun) -> list[str]:
        verbs = ["play", "score", "probe"] if run.of_game else ["score", "probe"]
        return [f"chainrule {verb} {handle(run.path)}" for verb in verbs]

    return Handling(Unit("steps/s", 1), AgentRun.open, write, following)


def _show(asked: Request, *, json: bool) -> None:
    """What would be trained, with every setting resolved."""
    from chainrule.agents.training.fitting import described
    from chainrule.cli.arguments import flatten
    from chainrule.cli.output import emit, say, show
    from chainrule.cli.settings import write

    recipe = described(*asked[:4], asked.settings, wrappers=asked.wrappers)
    if json:
        emit({key: recipe[key] for key in ("model", "env", "train")})
        return
    say("env", asked.env)
    say("agent", asked.algorithm)
    around = {f"{_AROUND}{name}": value for name, value in recipe["env"].get("wrappers", {}).items()}
    for section in (recipe["model"]["settings"], recipe["env"]["settings"], around, recipe["train"]):
        if section:
            show()
        for key, value in flatten(section).items():
            show(f"{key}={write(value)}")


__all__ = [
    "SCORE",
    "WORDS",
    "Request",
    "help",
    "holds",
    "is_source",
    "meant",
    "names",
    "open_any",
    "request",
    "resume",
    "score",
    "show_source",
    "source_rows",
    "train",
]
