"""The report of a run of agents: one self-contained page and its pictures, written from the run folder."""

from collections.abc import Sequence
from pathlib import Path

from chainrule.agents import algorithms
from chainrule.agents.training import pictures
from chainrule.agents.training.run import AgentRun
from chainrule.core.errors import ChainruleError
from chainrule.core.formatting import duration, number
from chainrule.core.pictures import Picture
from chainrule.report import page
from chainrule.report.gallery import PictureGroup
from chainrule.report.pieces import (
    device,
    draw_all,
    environment,
    footer,
    group_section,
    score_card,
    state_notices,
)
from chainrule.report.style import one_color_per_series
from chainrule.train.files import write_atomic
from chainrule.train.naming import handle, recipe_word

_NAMES = {
    "return_mean": "return, greedy",
    "return_stochastic": "return, exploring",
    "episode_length": "length of an episode",
}


def write(run: AgentRun) -> Path:
    """Write `plots/*.svg`, films as `*.gif`, and `report.html` into the folder of a run; the path of the page."""
    found = groups(run)
    about = {"run": run.id, "step": run.status["step"], "seed": run.settings.seed, "settings": run.config}
    draw_all([picture for group in found for picture in group.pictures], run.path / "plots", about)
    path = run.path / "report.html"
    write_atomic(path, _page(run, found))
    return path


def groups(run: AgentRun) -> list[PictureGroup]:
    """Every picture of a run, by what it shows."""
    found = [PictureGroup("Learning", pictures.learning(run))]
    if run.checkpoints:
        for title, draw in (("Episodes", pictures.episodes), ("What was learnt", pictures.learnt)):
            shown: Sequence[Picture] = ()
            try:
                shown, problem = draw(run), ""
            except ChainruleError as error:
                problem = str(error)
            if shown or problem:
                found.append(PictureGroup(title, shown, problem))
    return [group for group in found if group.pictures or group.problem]


def _page(run: AgentRun, found: Sequence[PictureGroup]) -> str:
    header = [
        *("<header>", f"<h1>{page.say(run.id)}</h1>", _lead(run)),
        *state_notices(run.status, run.step if run.checkpoints else None),
        *([page.notice(*(alarm.text for alarm in alarms))] if (alarms := run.alarms) else []),
        "</header>",
    ]
    with one_color_per_series():
        shown = [group_section(group) for group in found]
    main = ["<main>", _scores(run), *shown, _settings(run), _again(run), "</main>"]
    return page.document(f"{run.id} · Chainrule", [*header, *main, footer()])


def _lead(run: AgentRun) -> str:
    status, config = run.status, run.config
    seeds = run.settings.seeds
    agents = f"{seeds:,} agents" if seeds > 1 else "one agent"
    sentence = (
        f"<strong>{page.say(config['model']['name'])}</strong>, {agents} trained in "
        f"<strong>{page.say(config['env']['name'])}</strong> for {status['step']:,} steps in "
        f"{duration(status['seconds'])} on {page.say(device(run.path))}."
    )
    if best := status["best"]:
        sentence += f" Best return {number(best['return_mean'])} at step {best['step']:,}."
    return f'<p class="lead">{sentence}</p>'


def _scores(run: AgentRun) -> str:
    try:
        found = run.score()
    except ChainruleError as error:
        return page.section("Scores", page.notice("There are no scores.", str(error)))
    names = {**_NAMES, **algorithms.entry(run.config["model"]["name"]).numbers}
    each = " of each agent" if run.settings.seeds > 1 else ""
    what = "games" if run.of_game else "episodes"
    return page.section(
        f"On {run.settings.eval_episodes:,} {what}{each} that training never saw",
        page.numbers(
            {names.get(name, name.replace("_", " ")): score_card(metric) for name, metric in found.items()}
        ),
    )


def _settings(run: AgentRun) -> str:
    config = run.config
    entry = algorithms.entry(config["model"]["name"])
    about = f"<p>{page.say(entry.summary)}</p>\n<p><cite>{page.say(entry.citation)}</cite></p>\n"
    around = {f"wrap.{name}": value for name, value in config["env"].get("wrappers", {}).items()}
    return page.section(
        "Settings",
        page.fold("Algorithm", about + page.pairs({"name": entry.name, **config["model"]["settings"]})),
        page.fold(
            "Environment", page.pairs({"name": config["env"]["name"], **config["env"]["settings"], **around})
        ),
        page.fold("Training", page.pairs(config["train"]), long=True),
        page.fold("Machine", page.pairs(environment(run.path)), long=True),
    )


def _again(run: AgentRun) -> str:
    """What to type to repeat the run, go on with it and use it."""
    name = handle(run.path)
    lines = {
        "Repeat the run": f"chainrule train {recipe_word(run.path)}",
        "Go on with it": f"chainrule resume {name}",
        "Judge it": f"chainrule score {name} episodes=100",
    }
    if run.status["status"] == "done":
        lines["Go on with it"] += f" steps={2 * run.status['total']:d}"
    if run.of_game:
        lines["Play against it"] = f"chainrule play {name}"
    opened = f"run = cr.agents.AgentRun.open({str(run.path)!r})"
    lines["Use it in Python"] = f"import chainrule as cr\n\n{opened}\nrun.policy(), run.score()"
    return page.section("Again", page.commands(lines))


__all__ = ["groups", "write"]
