"""Runs of agents: the handle on a run folder, during training and after it."""

import functools
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents import algorithms, envs, sources
from chainrule.agents.algorithms.alphazero.moves import evaluator
from chainrule.agents.envs.wrappers import WrapperSettings, changed_world, wrapped
from chainrule.agents.evaluation.baselines import Baselines, baselines
from chainrule.agents.evaluation.recording import Recording, record_extremes
from chainrule.agents.games.base import Game
from chainrule.agents.learning import loop
from chainrule.agents.learning.base import HasGameNetwork, Learner, Policy
from chainrule.agents.training.config import AgentConfig
from chainrule.agents.training.judging import judge, judged_in
from chainrule.agents.training.states import restored, storable_shapes
from chainrule.agents.tree_search.fast import EvaluateBatch
from chainrule.core import notebook, random
from chainrule.core.errors import ArgumentError, CapabilityError, CheckpointError, RunError
from chainrule.core.quoting import shell_word
from chainrule.core.types import Tree
from chainrule.models.protocol import Alarm
from chainrule.train import Metric, checkpoints, folder, history, naming

_RANDOM = 100
"""Episodes of random actions, as something to compare with."""


@final
class AgentRun:
    """A finished, running or interrupted run of agents, read from its folder.

    `run.policy()` is what was learnt, at the evaluation that went best; `run.score()` judges it anew.
    """

    def __init__(self, path: Path, config: dict[str, Any] | None = None) -> None:
        self.path = path
        self._config = config

    @classmethod
    def open(cls, path: str | Path) -> "AgentRun":
        """The run in a folder, or of a name where run folders go."""
        found = Path(path)
        if not found.is_dir() and isinstance(path, str) and "/" not in path:
            found = naming.root().expanduser() / path
        if not found.is_dir():
            raise RunError(f"there is no run folder {str(path)!r}", remedy="list runs: chainrule runs ls")
        run = cls(found)
        if not folder.of_agents(run.config):
            raise RunError(f"{run.id} is no run of agents", remedy=f"open it with cr.Run.open({str(path)!r})")
        return run

    def __repr__(self) -> str:
        status = self.status
        return f"AgentRun({str(self.path)!r}, {status['status']}, step {status['step']} of {status['total']})"

    def report(self, height: int = 800) -> notebook.InlinePage:
        """The report of the run, to be shown inside a notebook."""
        return folder.inline_report(self.path, height)

    @property
    def id(self) -> str:
        """The name of the folder."""
        return self.path.name

    @property
    def config(self) -> dict[str, Any]:
        """Every setting, resolved: the sections model (the algorithm), env and train of config.yaml."""
        if self._config is None:
            folder.refuse_links(self.path)
            self._config = folder.read_config(self.path)
        return self._config

    @property
    def status(self) -> dict[str, Any]:
        """The state of the run as it is now; `status` is running, done, interrupted, diverged or failed."""
        return folder.read_status(self.path)

    @property
    def settings(self) -> AgentConfig:
        """The training settings."""
        return AgentConfig.parse(**self.config["train"])

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """The history as columns: `step`, `split`, and every named number (NaN where a line does not have it)."""
        return history.columns(self.path)

    # ------------------------------------------------------------------ the parts

    @functools.cached_property
    def source(self) -> Any:
        """The environment, or the game."""
        return sources.make(self.config["env"]["name"], **self.config["env"]["settings"])

    @property
    def wrappers(self) -> WrapperSettings:
        """What is put around the environment; runs of earlier versions have none."""
        return WrapperSettings.parse(self.config["env"].get("wrappers", {}))

    @functools.cached_property
    def env(self) -> Any:
        """The same as its learner sees it: wrapped, and whole numbers as vectors, unless it wants them as they are."""
        if self.of_game:
            if given := self.config["env"].get("wrappers"):
                raise ArgumentError(f"{next(iter(given))}: wrappers are for environments, not for games")
            return self.source
        whole_numbers = algorithms.entry(self.config["model"]["name"]).whole_numbers
        return wrapped(self.source, self.wrappers, gamma=self.gamma, whole_numbers=whole_numbers)

    @property
    def threshold(self) -> float | None:
        """Mean return that counts as solved, where it is known: not where a wrapper cuts episodes off."""
        name = self.config["env"]["name"]
        known = name in envs.names() and self.wrappers.limit is None
        return envs.entry(name).threshold if known else None

    @property
    def gamma(self) -> float:
        """The discount that the agents learn with."""
        return float(self.config["model"]["settings"].get("gamma", 1.0))

    @property
    def of_game(self) -> bool:
        """Whether the agents play a game against each other."""
        return isinstance(self.source, Game)

    @property
    def measure(self) -> str:
        """What `return_mean` measures, in words."""
        found = algorithms.entry(self.config["model"]["name"]).numbers.get("return_mean")
        return "return of an episode" if found is None else found

    @functools.cached_property
    def learner(self) -> Learner[Any]:
        """The algorithm, set up for the environment."""
        name, source = self.config["model"]["name"], self.config["env"]["name"]
        entry = algorithms.entry(name)
        if entry.of_games and not self.of_game:
            raise ArgumentError(
                f"{name} learns games of two, and {source} is none",
                remedy="name a game: env=tic-tac-toe, or learn this environment with ppo",
            )
        if self.of_game and not entry.of_games:
            raise ArgumentError(
                f"{name} learns in environments of one agent, and {source} is a game of two",
                remedy=f"games are learnt by alphazero: chainrule train alphazero env={shell_word(source)}",
            )
        config = algorithms.configure(name, **self.config["model"]["settings"])
        if entry.begun is not None and self.path != Path() and self.checkpoints:
            config = entry.begun(config)
        return entry.build(config, self.env, self.settings.steps)

    def beginning(self) -> Tree:
        """The states that training begins with, one for each seed."""
        root = random.key(self.settings.seed, "agents")
        keys = jax.vmap(functools.partial(random.at, root))(jnp.arange(self.settings.seeds))
        return loop.start(self.learner, keys)

    @property
    def checkpoints(self) -> list[int]:
        """Steps with a checkpoint."""
        return checkpoints.steps(self.path / "checkpoints")

    @property
    def step(self) -> int:
        """The step of the checkpoint `states` come from: that of the best evaluation."""
        available = self.checkpoints
        if not available:
            raise CheckpointError(
                f"{self.id} has no checkpoint yet",
                remedy=f"go on with it: chainrule resume {naming.handle(self.path)}",
            )
        best = self.status["best"].get("step")
        return best if best in available else available[-1]

    def states_at(self, step: int) -> Tree:
        """What all agents knew at a checkpoint."""
        if step not in self.checkpoints:
            raise ArgumentError(
                f"{self.id} has no checkpoint of step {step}", remedy=f"it has: {self.checkpoints}"
            )
        like = eqx.filter_eval_shape(self.beginning)
        stored = checkpoints.path(self.path / "checkpoints", step)
        try:
            arrays, _ = checkpoints.load(stored, storable_shapes(like))
        except checkpoints.DamagedError:
            raise
        except CheckpointError as error:
            name = self.config["env"]["name"]
            raise CheckpointError(
                error.message,
                remedy=f"has {name} changed since? What is seen and done there has to be as it was in training",
            ) from error
        return restored(arrays, like)

    @functools.cached_property
    def states(self) -> Tree:
        """What all agents knew when they were best."""
        return self.states_at(self.step)

    @property
    def alarms(self) -> list[Alarm]:
        """What went wrong on the way, with steps, causes and remedies."""
        return [Alarm(*one) for one in self._journal().get("alarms", [])]

    @property
    def seconds(self) -> dict[int, float]:
        """How long training had taken at each evaluation, by step; runs of earlier versions do not tell."""
        return {int(step): float(taken) for step, taken in self._journal().get("seconds", [])}

    def _journal(self) -> dict[str, Any]:
        """What the newest checkpoint tells beside its arrays."""
        available = self.checkpoints
        if not available:
            return {}
        newest = checkpoints.read_manifest(checkpoints.path(self.path / "checkpoints", available[-1]))
        journal: dict[str, Any] = newest["journal"]
        return journal

    @functools.cached_property
    def baselines(self) -> Baselines | None:
        """What random and optimal actions earn here; nothing for a game."""
        if self.of_game:
            return None
        return baselines(
            changed_world(self.source, self.wrappers),
            jax.random.split(random.key(self.settings.seed, "baselines"), _RANDOM),
        )

    @property
    def best_agent(self) -> int:
        """Which of the agents did best at that evaluation."""
        return int(self.status["best"].get("agent", 0))

    def state(self, agent: int | None = None, step: int | None = None) -> Tree:
        """What one of the agents knew, the best one unless told, at its best or at the checkpoint of a step."""
        chosen = self.best_agent if agent is None else agent
        if not 0 <= chosen < self.settings.seeds:
            raise ArgumentError(f"agent={chosen}: {self.id} has agents 0 to {self.settings.seeds - 1}")
        return loop.run_of(self.states if step is None else self.states_at(step), chosen)

    def judged_in(self, agent: int | None = None, step: int | None = None) -> Any:
        """The environment as an agent is judged in it: observations by its own moments, rewards as they are earned."""
        return judged_in(self.learner, self.env, self.state(agent, step))

    def policy(self, agent: int | None = None, step: int | None = None) -> Policy:
        """What one of the agents had learnt: the best agent at its best, or at the checkpoint of a step."""
        return self.learner.policy(self.state(agent, step))

    def evaluator(self, agent: int | None = None, step: int | None = None) -> EvaluateBatch:
        """What an agent thinks of positions of its game, as a search is guided by it; at its best unless told."""
        if not isinstance(self.learner, HasGameNetwork):
            raise CapabilityError(
                f"{self.id} is no run of a game that is played by search",
                remedy="train one: chainrule train alphazero env=tic-tac-toe",
            )
        return evaluator(self.env, self.learner.network(self.state(agent, step)))

    # ------------------------------------------------------------------ at work

    def score(self, episodes: int | None = None, seed: int | None = None) -> dict[str, Metric]:
        """The numbers that judge the agents, from episodes that training never saw, with standard errors."""
        count = self.settings.eval_episodes if episodes is None else episodes
        if count < 2:
            raise ArgumentError(f"score(episodes={count}): at least 2 are needed for an error")
        key = random.key(self.settings.seed if seed is None else seed, "score")
        return judge(self.learner, self.env, self.states, key, count).metrics()

    @functools.cached_property
    def recordings(self) -> dict[str, Recording]:
        """The best, the median and the worst greedy episode of an evaluation, of the agent that did best."""
        return self.recordings_at(self.step)

    def recordings_at(self, step: int) -> dict[str, Recording]:
        """The same of what that agent knew at a checkpoint."""
        keys = jax.random.split(random.key(self.settings.seed, "evaluation"), self.settings.eval_episodes)
        return record_extremes(self.policy(step=step), self.judged_in(step=step), keys)


__all__ = ["AgentRun"]
