"""The trainer of agents: from the newest checkpoint to the end, a signal or an error.

Steps are those of the environment that one agent takes. The compiled program takes whole iterations of the learner; how
many of them in a call is chosen so that a signal is handled soon. States hold all random keys, so that a run that was
killed and goes on from its newest checkpoint ends with the same bits as one that was not.
"""

import math
import os
import time
from dataclasses import replace
from typing import Any, final

import equinox as eqx
import jax
import numpy as np

from chainrule.agents import envs
from chainrule.agents.evaluation.baselines import facts
from chainrule.agents.evaluation.watch import Facts, alarms
from chainrule.agents.learning.loop import run_iterations, run_of
from chainrule.agents.training.judging import Judgement, judge
from chainrule.agents.training.run import AgentRun
from chainrule.agents.training.states import restored, storable, storable_shapes
from chainrule.core import random, tree
from chainrule.core.errors import CheckpointError, DivergedError
from chainrule.core.formatting import count
from chainrule.core.types import Tree
from chainrule.train import checkpoints, events, folder, naming
from chainrule.train.files import make_folder, sweep
from chainrule.train.interruption import Audience, Clock, Signals
from chainrule.train.outcome import recorded

_LOGGED, _EVALUATED = 100, 10
"""Lines of metrics and evaluations that a run has unless told otherwise."""


@final
class AgentTrainer:
    """Trains agents from where they stand; the caller holds the run folder."""

    def __init__(self, run: AgentRun, listener: events.Listener) -> None:
        self.run, self.config, self.learner = run, run.settings, run.learner
        self.notify = Audience(listener)
        self.each = self.learner.steps_per_iteration
        self.total = math.ceil(self.config.steps / self.each)
        """Iterations of the whole run."""
        self.store = run.path / "checkpoints"
        self.writer = folder.RunWriter(run.path, self.total * self.each)
        self.signals, self.clock = Signals(), Clock()
        self.saved: int | None = None
        self.finished = ""
        self.facts = self._facts()
        self.journal: dict[str, Any] = {
            **{"best": {}, "metrics_bytes": 0, "alarms": [], "pending": {}},
            "seconds": [],  # of training, at each evaluation: no metrics, which are the same for every such run
        }
        self.marks = {
            "log": self._every(self.config.log_every, _LOGGED),
            "eval": self._every(self.config.eval_every, _EVALUATED),
            "save": self._every(self.config.save_every, _EVALUATED),
        }

    def start(self) -> AgentRun:
        """Train; always leaves an honest status behind."""
        states, done = self._restore()
        if folder.plain(self.run.config) != folder.read_config(self.run.path):
            folder.write_config(self.run.path, self.run.config)  # only now: these settings fit the checkpoint
        with recorded(self.writer, lambda: self.journal["best"]) as outcome:
            with self.signals:
                self.writer.write(step=done * self.each, best=self.journal["best"])
                self.notify(self._started(states, done))
                self._say_what_may_surprise()
                if done < self.total:
                    states, done = self._train(states, done)
            outcome.status, outcome.message = self._outcome(done)
        seconds = self.writer.status["seconds"]
        ended = outcome.status, done * self.each, self.journal["best"], seconds, outcome.message
        self.notify(events.Finished(self.run.id, str(self.run.path), *ended))
        if self.notify.lost is not None:
            raise self.notify.lost  # only now: the run is saved
        return AgentRun.open(self.run.path)

    def _facts(self) -> Facts | None:
        """What the watch can make use of."""
        known = self.run.baselines
        if known is None:
            return None
        settings = self.run.config["model"]["settings"]
        found = facts(self.run.env, known, settings, self.run.threshold, self.config.steps)
        if not self.run.wrappers.change_rewards:
            return found
        # Values are of rewards that are learnt from: those that are earned do not bound them.
        return replace(found, rewards=None, rewards_known=False, earned=False)

    def _every(self, steps: int | None, parts: int) -> int:
        """Iterations between two marks."""
        return max(1, round(steps / self.each) if steps else self.total // parts)

    def _outcome(self, done: int) -> tuple[str, str]:
        if self.finished or done >= self.total:
            return "done", self.finished or "all steps done"
        if self.signals.received:
            return "interrupted", f"interrupted by {self.signals.received}"
        assert self.notify.lost is not None, "a run ends early for a reason"
        return "interrupted", f"its output could not be written ({self.notify.lost.strerror})"

    # ------------------------------------------------------------------ before

    def _restore(self) -> tuple[Tree, int]:
        """The states to go on from: the newest checkpoint that is whole, or the beginning."""
        sweep(self.run.path)
        checkpoints.sweep(self.store)
        available = checkpoints.steps(self.store)
        like = eqx.filter_eval_shape(self.run.beginning)
        for step in reversed(available):
            try:
                arrays, journal = checkpoints.load(checkpoints.path(self.store, step), storable_shapes(like))
            except checkpoints.DamagedError as error:
                self.writer.log(f"left out: {error.message}")
                continue
            self.journal |= journal
            self.saved = step
            checkpoints.prune(self.store, {s for s in available if s <= step})
            self.writer.cut(self.journal["metrics_bytes"])
            self.writer.log(f"resumed at step {step}")
            return restored(arrays, like), step // self.each
        if available:
            raise CheckpointError(
                f"every checkpoint of {self.run.id} is damaged",
                remedy=f"train it again: chainrule train {naming.recipe_word(self.run.path)}",
            )
        (self.run.path / "metrics.jsonl").unlink(missing_ok=True)
        make_folder(self.store)
        self.writer.log(f"started: {self.run.config['env']['name']}")
        return self.run.beginning(), 0

    def _started(self, states: Tree, done: int) -> events.Started:
        device, seeds = jax.devices()[0], self.config.seeds
        several = f"{len(jax.local_devices())} x " if len(jax.local_devices()) > 1 else ""
        cores = (
            f", {os.cpu_count()} cores" if device.platform == "cpu" else f" ({several}{device.device_kind})"
        )
        held = tree.nbytes(storable(states)) / seeds
        agents = f"{seeds:,} agents side by side" if seeds > 1 else "one agent"
        return events.Started(
            run=self.run.id,
            path=str(self.run.path),
            data=f"{self.run.config['env']['name']}   {self.config.steps:,} steps",
            model=f"{self.run.config['model']['name']}   {agents}, {count(round(held))}B each",
            device=f"{device.platform}{cores}",
            seed=self.config.seed,
            step=done * self.each,
            total=self.total * self.each,
        )

    def _say_what_may_surprise(self) -> None:
        """Worlds of others are stepped on the host, slower than ours; those of one's own may never end."""
        source = self.run.source
        line = ""
        if isinstance(source, envs.GymEnvironment):
            line = f"{envs.bridge_note(source)}; cartpole: {envs.bridge_note(envs.make('cartpole'))}"
        elif isinstance(source, envs.OwnEnvironment):
            line = envs.check_env(source).endless
        if line:
            self.writer.log(line)
            self.notify(events.Noticed(line))

    # ------------------------------------------------------------------ on the way

    def _train(self, states: Tree, done: int) -> tuple[Tree, int]:
        began = time.perf_counter()
        limit = math.inf if self.config.minutes is None else time.monotonic() + 60 * self.config.minutes
        compiled = False
        while done < self.total and not (self.signals.received or self.finished or self.notify.lost):
            wanted = min(self._to_mark(done), self.clock.steps_per_call(self.marks["log"]) if compiled else 1)
            self.clock.begin()
            states, metrics = run_iterations(self.learner, states, wanted, most=self.marks["log"])
            if not compiled:
                self.notify(events.Compiled(time.perf_counter() - began))
                compiled, self.clock = True, Clock()
            else:
                self.clock.ran(wanted)
            self._log(done, metrics, wanted)
            done += wanted
            self._check_finite(states, metrics, done)
            self._at_marks(states, done)
            if self.clock.rate:
                self._progress(done, metrics)
            if done < self.total and time.monotonic() > limit:
                self.finished = f"the limit of {self.config.minutes:g} minutes is reached"
        if self.saved != done * self.each:
            self._save(states, done)
        return states, done

    def _to_mark(self, done: int) -> int:
        return min(self.total - done, *(every - done % every for every in self.marks.values()))

    def _log(self, done: int, metrics: dict[str, np.ndarray], count: int) -> None:
        """Means over agents and iterations since the last line; what an iteration has no number of is left out."""
        pending = self.journal["pending"]
        for name, values in metrics.items():
            for i in range(count):  # one by one: sums must not depend on how many iterations a call took
                finite = values[:, i][np.isfinite(values[:, i])].astype(np.float64)
                total, many = pending.get(name, (0.0, 0))
                pending[name] = [total + float(finite.sum()), many + finite.size]
        done += count
        if done % self.marks["log"] == 0 or done == self.total:
            means = {name: total / many for name, (total, many) in pending.items() if many}
            pending.clear()
            self.writer.metrics(done * self.each, "train", means)
            self.notify(events.Logged(done * self.each, "train", means))

    def _check_finite(self, states: Tree, metrics: dict[str, np.ndarray], done: int) -> None:
        """A loss that is not finite never comes back: stop, and say which number, agent and array it was."""
        for name, values in metrics.items():
            if not name.endswith("loss") or np.isfinite(values).all():
                continue
            agent = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
            of = f" of agent {agent}" if self.config.seeds > 1 else ""
            array = tree.first_nonfinite(run_of(storable(states), agent))
            first = "" if array is None else f"; first bad array: {array}"
            kept = (
                "no checkpoint was saved"
                if self.saved is None
                else f"last good checkpoint: step {self.saved}"
            )
            raise DivergedError(
                f"{name}{of} is not finite at step {done * self.each:,}{first}",
                remedy=f"{kept}   train again with a smaller learning_rate",
            )

    def _at_marks(self, states: Tree, done: int) -> None:
        improved = False
        if done % self.marks["eval"] == 0 or done == self.total:
            improved = self._evaluate(states, done)
        if improved or done % self.marks["save"] == 0 or done == self.total:
            self._save(states, done)

    def _evaluate(self, states: Tree, done: int) -> bool:
        """Judge all agents; whether they were never better."""
        key = random.key(self.config.seed, "evaluation")
        found: Judgement = judge(self.learner, self.run.env, states, key, self.config.eval_episodes)
        values, step = found.numbers(), done * self.each
        self.writer.write(durable=False, step=step)
        self.journal["seconds"].append([step, self.writer.status["seconds"]])
        self.writer.metrics(step, "val", values)
        self.writer.log(f"step {step}: return {values['return_mean']:g}")
        self.notify(events.Logged(step, "val", values))
        known = {name for name, *_ in self.journal["alarms"]}
        for alarm in alarms(self.run.metrics, self.facts, storable(states)):
            if alarm.name not in known:
                self.journal["alarms"].append([alarm.name, alarm.step, alarm.text])
                self.writer.log(f"alarm: step {step}: {alarm.text}")
                self.notify(events.Noticed(f"step {step:,}: {alarm.text}"))
        best = self.journal["best"]
        if best and best["return_mean"] > values["return_mean"]:
            return False
        agent = int(found.by_agent.argmax())
        self.journal["best"] = {"return_mean": values["return_mean"], "step": step, "agent": agent}
        return True

    def _save(self, states: Tree, done: int) -> None:
        step = done * self.each
        self.journal["metrics_bytes"] = self.writer.sync()
        checkpoints.save(self.store, storable(states), step, self.journal)
        self.saved = step
        kept = sorted(checkpoints.steps(self.store))[-self.config.keep :]
        checkpoints.prune(self.store, {*kept, self.journal["best"].get("step", step)})
        self.writer.write(step=step, best=self.journal["best"])
        self.notify(events.Saved(step))

    def _progress(self, done: int, metrics: dict[str, np.ndarray]) -> None:
        latest = {
            name: float(values[np.isfinite(values)].mean())
            for name, values in metrics.items()
            if np.isfinite(values).any()
        }
        self.writer.beat(step=done * self.each)
        rate = self.clock.rate
        self.notify(
            events.Progress(
                done * self.each,
                self.total * self.each,
                latest,
                rate * self.each * self.config.seeds,
                (self.total - done) / max(rate, 1e-9),
                self.saved,
            )
        )


__all__ = ["AgentTrainer"]
