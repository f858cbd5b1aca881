"""`chainrule completion`: verbs, models, runs, data and settings at the tab key of bash, zsh and fish.

The script a shell sources asks the hidden verb `complete` with the line up to the cursor. Names of runs are read from
their folder; everything that needs the models is gathered once and kept beside the compiled programs, because a
person does not wait for JAX at every tab.
"""

import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from chainrule.cli.options import RunName

Words: TypeAlias = Mapping[str, list[str]]
"""Settings by name, each with the values it can take where those can be listed."""

_FIRST_WORDS = {
    "train": "models",
    "import": "models",
    "models show": "models",
    "data show": "data",
    "data check": "data",
}
"""What the first word after a verb is, where it is not the name of a run."""
_SECOND_WORDS = {"probe": "probes", "runs diff": "runs"}
_ENDS = " "
"""After a finished word the shell goes on to the next; after `key=` it stays."""

SCRIPTS = {
    "bash": """# source <(chainrule completion bash)
_chainrule() {
    local line=${COMP_LINE:0:COMP_POINT} IFS=$'\\n'
    local current=${line##* } before=""
    # To bash an equals sign ends a word: what stands before it is on the line already.
    [[ $current == *=* ]] && before=${current%=*}=
    COMPREPLY=($(chainrule complete -- "$line" 2> /dev/null))
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
}
complete -o default -o nospace -F _chainrule chainrule
""",
    "zsh": """# source <(chainrule completion zsh)
_chainrule() {
    local -a found
    found=("${(@f)$(chainrule complete -- "${BUFFER[1,CURSOR]}" 2> /dev/null)}")
    if [[ -n $found ]]; then
        compadd -Q -S '' -- $found
    else
        _files
    fi
}
compdef _chainrule chainrule
""",
    "fish": """# chainrule completion fish | source
complete -c chainrule -a '(chainrule complete -- (commandline -cp) 2> /dev/null | string trim)'
""",
}


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(help="The shell to complete in.")],
) -> None:
    """Print what makes a shell complete verbs, models, runs and settings: source <(chainrule completion bash)."""
    from chainrule.cli.output import show

    show(SCRIPTS[shell], end="")


def complete(line: Annotated[str, typer.Argument(help="The command up to the cursor.")]) -> None:
    """Print the words that can follow, one a line."""
    from chainrule.cli import app
    from chainrule.cli.output import show
    from chainrule.core.quoting import shell_word

    for word in candidates(line, app):
        if shell_word(word.rstrip()) == word.rstrip():  # a shell would read anything else as more than a name
            show(word)


def candidates(line: str, app: typer.Typer) -> list[str]:
    """The words that can stand where a line ends; a finished one ends in a space, `key=` does not."""
    *done, current = line.split(" ")
    words = [word for word in done[1:] if word]
    verbs = _verbs(app)
    if not words:
        return _beginning({verb.split(" ")[0] for verb in verbs}, current)
    verb = words.pop(0)
    if any(one.startswith(f"{verb} ") for one in verbs):
        if not words:
            return _beginning({one.split(" ")[1] for one in verbs if one.startswith(f"{verb} ")}, current)
        verb = f"{verb} {words.pop(0)}"
    if verb not in verbs:
        return []
    key, equals, _ = current.partition("=")
    if equals:
        return _beginning((f"{key}={value}" for value in _values(verb, key, words)), current)
    names = [word for word in words if "=" not in word and not word.startswith("-")]
    found = _names(verb, names, takes_run=verbs[verb])
    return [
        *_beginning(found, current),
        *_beginning((f"{name}=" for name in _settings(verb, names)), current, ends=""),
    ]


def _beginning(words: Iterable[str], current: str, ends: str = _ENDS) -> list[str]:
    return [word + ends for word in sorted(set(words)) if word.startswith(current)]


def _verbs(app: typer.Typer) -> dict[str, bool]:
    """Every verb that is not hidden, those of a group after its name, and whether it wants a run first."""
    found = {}
    for command in app.registered_commands:
        if command.name and not command.hidden:
            found[command.name] = _takes_run(command.callback)
    for group in app.registered_groups:
        for command in group.typer_instance.registered_commands if group.typer_instance else []:
            found[f"{group.name} {command.name}"] = _takes_run(command.callback)
    return found


def _takes_run(callback: Callable[..., Any] | None) -> bool:
    return callback is not None and RunName in callback.__annotations__.values()


def _names(verb: str, names: list[str], *, takes_run: bool) -> list[str]:
    """Plain words that can stand after others."""
    position = len(names)
    if verb == "probe" and position == 0:
        return [*_vocabulary()["experiments"], *_runs()]
    if verb == "probe" and names[0] in _vocabulary()["experiments"]:
        return []
    table = {0: _FIRST_WORDS, 1: _SECOND_WORDS}.get(position, {})
    what = "runs" if position == 0 and takes_run else table.get(verb)
    if what == "models" and verb != "import":
        return [*_vocabulary()["models"], *_vocabulary()["algorithms"]]
    return [] if what is None else _runs() if what == "runs" else list(_vocabulary()[what])


def _settings(verb: str, names: list[str]) -> list[str]:
    """Settings of a verb: for `train` of training and the model, for `sample` of the model of the run."""
    if verb.startswith("runs "):
        return ["runs"]
    return list(_known(verb, names))


def _known(verb: str, names: list[str]) -> Words:
    """Settings of a verb after some names, with the values that can be listed."""
    known, first = _vocabulary(), names[0] if names else ""
    if verb == "resume":
        return dict(known["training"])
    if verb == "train":
        if first in known["algorithms"]:
            return {**known["acting"], **known["algorithms"][first]}
        return {**known["own"], **known["training"], **known["models"].get(first, {})}
    if verb == "sample":
        return {**known["sample"], **known["sampling"].get(_model_of(first), {})}
    if verb == "probe":
        chosen = known["probes"].get(names[1]) if len(names) > 1 else known["experiments"].get(first)
        return {"out": [], **(chosen or {})}
    return dict(known.get(verb, {})) if verb in ("play", "predict", "score") else {}


def _model_of(run: str) -> str:
    """The name of the model of a run; empty if there is none."""
    import yaml

    from chainrule.cli.folders import runs_folder

    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, yaml.YAMLError):  # no run, no settings
        config = yaml.safe_load((runs_folder() / run / "config.yaml").read_text(encoding="utf-8"))
        return str(config["model"]["name"])
    return ""


def _values(verb: str, key: str, words: list[str]) -> list[str]:
    """Values that a setting can take, where those can be listed."""
    known = _vocabulary()
    if key in ("from", "run") and verb == "train":
        return _runs()
    if key == "env":
        return list(known["environments"])
    if key in ("data", "model"):
        return list(known["models" if key == "model" else "data"])
    names = [word for word in words if "=" not in word and not word.startswith("-")]
    if key == "recipe":
        return list(known["recipes"].get(names[0], []) if names else [])
    return list(_known(verb, names).get(key, []))


def _runs() -> list[str]:
    from chainrule.cli.folders import names, runs_folder

    return names(runs_folder())


@functools.cache
def _vocabulary() -> dict[str, Any]:
    """Names of models, data and probes, and all settings; from a file, unless the package changed since."""
    from chainrule import __version__
    from chainrule.cli.doctor import cache_folder

    file = Path(cache_folder()).with_name("completion.json")
    stamp = (
        f"{__version__} {max(path.stat().st_mtime_ns for path in Path(__file__).parents[1].rglob('*.py'))}"
    )
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # made anew below
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["stamp"] == stamp:
            return dict(kept)
    made = {"stamp": stamp, **_gathered()}
    with contextlib.suppress(
        OSError
    ):  # a home that cannot be written costs the next tab its second, nothing else
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_suffix(".tmp")
        temporary.write_text(json.dumps(made), encoding="utf-8")
        temporary.replace(file)
    return made


def _gathered() -> dict[str, Any]:
    from chainrule import models
    from chainrule.agents import algorithms
    from chainrule.agents import sources as worlds
    from chainrule.agents.envs.wrappers import WrapperSettings
    from chainrule.agents.training.config import AgentConfig
    from chainrule.cli import agents, play, predict, sample, score, settings
    from chainrule.cli.models import sampling_settings
    from chainrule.cli.training_request import WORDS
    from chainrule.data.loading import sources
    from chainrule.explain import agent_probes, experiments, probes
    from chainrule.train import TrainConfig

    entries = {name: models.entry(name) for name in models.names()}
    return {
        "own": {word: [] for word in WORDS},
        "training": _listed(settings.of(TrainConfig)),
        "models": {name: _listed(settings.of(entry.config)) for name, entry in entries.items()},
        "recipes": {name: list(entry.recipes) for name, entry in entries.items()},
        "acting": {
            **{word: [] for word in agents.WORDS},
            **_listed(settings.of(AgentConfig)),
            **_listed(settings.of(WrapperSettings, "wrap.")),
        },
        "algorithms": {
            name: _listed(settings.of(algorithms.entry(name).config)) for name in algorithms.names()
        },
        "environments": worlds.names(),
        "data": [known.name for known in sources.names()],
        "probes": {
            name: _listed(settings.of(kit.get(name).settings))
            for kit in (agent_probes, probes)
            for name in kit.names()
        },
        "experiments": {
            name: _listed(settings.of(experiments.get(name).settings)) for name in experiments.names()
        },
        "sampling": {name: _listed(sampling_settings(entry)) for name, entry in entries.items()},
        "sample": {word: [] for word in sample.OWN},
        "play": {**{word: [] for word in play.OWN}, "side": ["first", "second", "both", "none"]},
        "predict": {word: [] for word in predict.OWN},
        "score": {**{word: [] for word in score.OWN}, "split": ["train", "val", "test"]},
    }


def _listed(known: Mapping[str, Any]) -> dict[str, list[str]]:
    from chainrule.cli.settings import members

    return {name: members(setting.annotation) for name, setting in known.items()}


__all__ = ["SCRIPTS", "candidates", "complete", "completion"]
