"""`fit` and `resume` of agents: from an algorithm and an environment to a run folder."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from chainrule import __version__
from chainrule.agents import algorithms
from chainrule.agents.envs.checking import never_ends
from chainrule.agents.envs.wrappers import WrapperSettings
from chainrule.agents.training.config import AgentConfig
from chainrule.agents.training.run import AgentRun
from chainrule.agents.training.trainer import AgentTrainer
from chainrule.core.errors import ArgumentError, RunError
from chainrule.core.quoting import shell_word
from chainrule.train import events, folder, naming
from chainrule.train.files import make_folder, sole_writer


def fit(
    algorithm: str,
    env: str | None = None,
    *,
    algorithm_settings: Mapping[str, Any] | None = None,
    env_settings: Mapping[str, Any] | None = None,
    wrappers: Mapping[str, Any] | None = None,
    run: str | Path | None = None,
    runs: str | Path | None = None,
    listener: events.Listener = events.silent,
    **settings: Any,
) -> AgentRun:
    """Train agents by an algorithm in an environment, and leave a run folder.

    `settings` are the fields of `AgentConfig` (steps, seed, seeds, ...); `algorithm_settings` those that `chainrule
    models show ALGORITHM` lists, `env_settings` the numbers of the world, `wrappers` what is put around it
    (`envs.wrappers.WrapperSettings`). A folder that holds this run already is gone on with.
    """
    recipe = described(
        algorithm, env, algorithm_settings or {}, env_settings or {}, settings, wrappers=wrappers or {}
    )
    if run is None:
        name = recipe["env"]["name"].rpartition("/")[2].removesuffix(".py")
        path = naming.new_folder(naming.root(runs).expanduser(), f"{name}-{algorithm}")
    else:
        path = naming.run_folder(run, runs)
        if (path / "config.yaml").exists():
            return _continue(AgentRun.open(path), recipe, listener)
        make_folder(path)
    with sole_writer(path):
        folder.write_environment(path)
        trainer = AgentTrainer(AgentRun(path, recipe), listener)
        folder.write_config(path, recipe)
        return trainer.start()


def resume(
    run: str | Path | AgentRun, *, listener: events.Listener = events.silent, **overrides: Any
) -> AgentRun:
    """Go on with a run from its newest checkpoint; `steps` may be more than before."""
    opened = run if isinstance(run, AgentRun) else AgentRun.open(run)
    stored = opened.config
    for name in ("seed", "seeds"):
        if name in overrides and overrides[name] != stored["train"][name]:
            raise ArgumentError(
                f"{name}={overrides[name]}: {opened.id} has begun with {stored['train'][name]}",
                remedy=f"train a new run: chainrule train {naming.recipe_word(opened.path)} "
                f"{name}={shell_word(str(overrides[name]))}",
            )
    train = AgentConfig.parse(**{**stored["train"], **overrides}).model_dump()
    done = max(opened.checkpoints, default=0)
    if overrides and train["steps"] < done:
        raise ArgumentError(
            f"{opened.id} is at step {done} already: it cannot end at step {train['steps']}",
            remedy=f"name more steps, e.g. steps={2 * done}",
        )
    with sole_writer(opened.path):
        return AgentTrainer(AgentRun(opened.path, {**stored, "train": train}), listener).start()


def described(
    algorithm: str,
    env: str | None,
    own: Mapping[str, Any],
    world: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    wrappers: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """All that config.yaml holds; what cannot be learnt is said here, before there is a folder."""
    entry = algorithms.entry(algorithm)
    chosen = algorithms.configure(algorithm, **own)
    name = entry.env if env is None else env
    if name.endswith(".py"):
        name = str(Path(name).expanduser().resolve())
    config = AgentConfig.parse(**{"steps": entry.steps, **settings})
    around = WrapperSettings.parse(wrappers).model_dump(exclude_defaults=True)
    recipe: dict[str, Any] = {
        "chainrule": __version__,
        "model": {"name": algorithm, "settings": chosen.model_dump()},
        "data": {},
        "env": {"name": name, "settings": dict(world), **({"wrappers": around} if around else {})},
        "train": config.model_dump(),
    }
    run = AgentRun(Path(), recipe)
    run.learner  # noqa: B018  # refuses what it cannot learn
    if run.gamma == 1 and "gamma" in recipe["model"]["settings"] and never_ends(run.env):
        raise ArgumentError(
            f"gamma=1: {name} never ends by itself, so that returns have no limit",
            remedy="use gamma below 1, such as gamma=0.99",
        )
    if entry.resolve is not None:
        recipe["model"]["settings"] = entry.resolve(chosen, run.env).model_dump()
    return recipe


def _continue(found: AgentRun, recipe: dict[str, Any], listener: events.Listener) -> AgentRun:
    """`fit` into a folder that holds a run already: the same run goes on, another one is refused."""
    mine, stored = (
        folder.plain({**one, "chainrule": None, "train": {**one["train"], "steps": None}})
        for one in (recipe, found.config)
    )
    if mine != stored:
        raise RunError(
            f"{found.path} holds a run with other settings",
            remedy=f"choose another folder, or remove it: chainrule runs rm {naming.handle(found.path)}",
        )
    return resume(found, listener=listener, steps=recipe["train"]["steps"])


__all__ = ["described", "fit", "resume"]
