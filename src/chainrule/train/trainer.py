"""The trainer of one run: from its newest checkpoint to the end, a signal or an error.

The order of writes carries the promises. Metrics are on the disk before the checkpoint that counts them; a checkpoint
is complete before it is announced; whatever came after the last checkpoint is cut off and done again on resume, with
the same numbers, because batches, noise and learning rates are pure functions of the step. A state that holds a value
that is not finite is never saved.
"""

import copy
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, final

import equinox as eqx
import numpy as np

from chainrule.core.errors import CheckpointError, DivergedError
from chainrule.data.loading.load import check_command
from chainrule.models.protocol import HasSnapshots
from chainrule.train import checkpoints, events, folder, former, naming, snapshots
from chainrule.train.alarms import of_its_own, raised
from chainrule.train.beginning import check_space, started, unexpected
from chainrule.train.callbacks import Callback, Moment, kept, named
from chainrule.train.diagnose import first_bad_value, not_finite
from chainrule.train.files import make_folder, sweep
from chainrule.train.interruption import Audience, Clock, Signals
from chainrule.train.iterations import Iterations
from chainrule.train.outcome import recorded
from chainrule.train.robust_accuracy import collapse
from chainrule.train.run import Run
from chainrule.train.settling import settled
from chainrule.train.state import State, initial_state
from chainrule.train.steppers import stepper_for
from chainrule.train.watching import Watched

_SECONDS_BEFORE_ESTIMATE = 1.0


@final
class Trainer:
    """Trains a run from where it stands; the caller holds the run folder."""

    def __init__(
        self, run: Run, total: int, listener: events.Listener, callbacks: Sequence[Callback] = ()
    ) -> None:
        self.run = run
        self.path = run.path
        self.config = run.settings
        self.total = total
        self.notify = Audience(listener)
        self.data = run.data
        self.model = run.skeleton()
        self.store = run.path / "checkpoints"
        self.writer = folder.RunWriter(run.path, total)
        self.saved: int | None = None
        self.signals = Signals()
        self.estimated = False
        self.finished = ""
        """Why the run ends as it was asked to before the last step: early stopping, or a limit of time."""
        self.journal: dict[str, Any] = {
            "best": {},
            "lowest": {},
            "stale": 0,
            "pending": {},
            "rollbacks": 0,
            "metrics_bytes": 0,
            "callbacks": {},
            "alarms": [],
            "stopped": "",
        }
        self._blank = copy.deepcopy(self.journal)
        self._damaged: list[str] = []
        """Checkpoints that were left out because they are damaged."""
        self.callbacks = named(callbacks)
        self.latest: dict[str, float] = {}
        """The newest line of training metrics."""
        self.stepper = stepper_for(self.model, self.config, self.data, total, run=run)
        self.watched = Watched.of(self.config, self.model, self.data, self.stepper.evaluated)

    def start(self) -> Run:
        """Train; always leaves an honest status behind."""
        state, step = self._restore()
        if step < self.total and not self.finished:
            check_space(self.path, self.model, self.config, have=len(checkpoints.steps(self.store)))
        if folder.plain(self.run.config) != folder.read_config(self.path):
            folder.write_config(self.path, self.run.config)  # only now: these settings fit the checkpoint
        with recorded(self.writer, lambda: self.journal["best"]) as outcome:
            with self.signals:
                self.writer.write(step=step, best=self.journal["best"])
                self.notify(started(self.run, self.model, step, self.total))
                for message in self._damaged:
                    text = f"{message}; it is left out, and the run goes on from step {step}"
                    self.notify(events.Noticed(text))
                self._notice()
                if self.saved is None and "from" in self.run.config["model"]:
                    self._keep_first(state)
                if step < self.total and not self.finished:
                    state, step = self._train(state, step)
            outcome.status, outcome.message = self._outcome(step)
        best, seconds = self.journal["best"], self.writer.status["seconds"]
        ended = outcome.status, step, best, seconds, outcome.message
        self.notify(events.Finished(self.run.id, str(self.path), *ended))
        if self.notify.lost is not None:
            raise self.notify.lost  # only now: the run is saved
        return Run.open(self.path, model=self.run._template, data=self.data)

    def keep(self) -> None:
        """Save the model as it is, at step 0, and train nothing."""
        state, step = self._restore()
        self._save(state, step)
        self.writer.write(status="done", total=step, message="nothing trained yet")

    def _keep_first(self, state: State) -> None:
        """Evaluate and save weights that come from elsewhere before anything moves them."""
        if self.run._template is None:
            raise CheckpointError(
                f"{self.run.id} was stopped before the weights it begins with were saved",
                remedy=f"train it again: chainrule train {naming.recipe_word(self.path)}",
            )
        self._evaluate(state, 0)
        self._save(state, 0)

    def _outcome(self, step: int) -> tuple[str, str]:
        if self.finished or step >= self.total:
            return "done", self.finished or "all steps done"
        if self.signals.received:
            return "interrupted", f"interrupted by {self.signals.received}"
        assert self.notify.lost is not None, "a run ends early for a reason"
        return "interrupted", f"its output could not be written ({self.notify.lost.strerror})"

    @property
    def _must_stop(self) -> bool:
        return bool(self.signals.received or self.finished or self.notify.lost)

    # ------------------------------------------------------------------ before

    def _restore(self) -> tuple[State, int]:
        """The state to go on from: the newest checkpoint that is whole, or the beginning."""
        sweep(self.path)
        checkpoints.sweep(self.store)
        state = initial_state(self.model, self.config)
        self.tolerated = not_finite(state)
        checkpoints.table(state)  # refuses what could not be saved, before it is trained
        available = checkpoints.steps(self.store)
        for step in reversed(available):
            try:
                state, journal = self._load(step, state)
            except checkpoints.DamagedError as error:
                self.writer.log(f"left out: {error.message}")
                self._damaged.append(error.message)
                continue
            self._take_up(journal)
            self._check_convergence(state, step)
            self.saved = step
            checkpoints.prune(self.store, {s for s in available if s <= step})
            self.writer.cut(self.journal["metrics_bytes"])
            self.writer.log(f"resumed at step {step}")
            return state, step
        if available:
            raise CheckpointError(
                f"every checkpoint of {self.run.id} is damaged",
                remedy=f"train it again: chainrule train {naming.recipe_word(self.path)}",
            )
        (self.path / "metrics.jsonl").unlink(missing_ok=True)
        make_folder(self.store)
        self.writer.log(f"started: {self.data.describe()}")
        return state, 0

    def _load(self, step: int, like: State) -> tuple[State, dict[str, Any]]:
        found = checkpoints.path(self.store, step)
        return checkpoints.load(found, like, former=former.arrays_of(self.run.config))

    def _take_up(self, journal: dict[str, Any]) -> None:
        """Go on with the small values of a checkpoint."""
        for name, value in self.journal.items():
            if not isinstance(journal.get(name, value), type(value)):
                raise CheckpointError(
                    f"the checkpoint of {self.run.id} was not written by a training run: {name} is not usable",
                    remedy=f"train it again: chainrule train {naming.recipe_word(self.path)}",
                )
        self.journal |= journal
        self._check_patience()
        # A run that one of its callbacks ended stays so; without them it goes on.
        if self.callbacks:
            self.finished = self.finished or self.journal["stopped"]

    def _train(self, state: State, step: int) -> tuple[State, int]:
        began = time.perf_counter()
        self.stepper.compile(state)
        self.notify(events.Compiled(time.perf_counter() - began))
        clock = Clock()
        limit = math.inf if self.config.minutes is None else time.monotonic() + 60 * self.config.minutes
        while step < self.total and not self._must_stop:
            wanted = min(self._steps_to_boundary(step), clock.steps_per_call(self.stepper.most))
            clock.begin()
            state, metrics, done = self.stepper.run(state, step, wanted)
            clock.ran(done)
            self._check_convergence(state, step + done)
            self._log(step, metrics, done)
            step += done
            self._estimate(step, clock)
            if done < wanted or (self._at_mark(step) and not_finite(state) - self.tolerated):
                state, step = self._diverged(state, step)
                continue
            state = self._at_boundaries(state, step)
            self._progress(step, metrics, clock)
            if step < self.total and time.monotonic() > limit:
                self.finished = f"the limit of {self.config.minutes:g} minutes is reached"
        if self.saved != step:
            if not_finite(state) - self.tolerated:
                return self._diverged(state, step)
            self._save(settled(self.model, state, self.stepper.static, self.data.train), step)
        return state, step

    def _steps_to_boundary(self, step: int) -> int:
        """Steps to the next evaluation, checkpoint or the end."""
        marks = (self.config.eval_every, self.config.save_every)
        return min(self.total - step, *(mark - step % mark for mark in marks))

    def _at_mark(self, step: int) -> bool:
        """Whether an evaluation or a checkpoint may be due."""
        return step == self.total or step % self.config.eval_every == 0 or step % self.config.save_every == 0

    def _log(self, step: int, metrics: dict[str, np.ndarray], done: int) -> None:
        """Mean of each metric over every `log_every` steps, at whole multiples of it and at the end.

        A part of the model that rested in a step says nothing about it: a mean counts the steps that have a value.
        """
        pending, every = self.journal["pending"], self.config.log_every
        for i in range(done):
            for name, values in metrics.items():
                if not np.isnan(values[i]):
                    total, steps = pending.get(name, (0.0, 0))
                    pending[name] = [total + float(values[i]), steps + 1]
            now = step + i + 1
            if now % every == 0 or now == self.total:
                means = {name: total / steps for name, (total, steps) in pending.items()}
                rates = {name: values[i] for name, values in metrics.items() if name.split(".")[-1] == "lr"}
                means |= {name: float(rate) for name, rate in rates.items() if not np.isnan(rate)}
                pending.clear()
                self.latest = means
                self.writer.metrics(now, "train", means)
                self.notify(events.Logged(now, "train", means))

    def _at_boundaries(self, state: State, step: int) -> State:
        if self._at_mark(step):
            state = settled(self.model, state, self.stepper.static, self.data.train)
        improved = False
        if step % self.config.eval_every == 0 or step == self.total:
            values = self._evaluate(state, step)
            improved = bool(values) and self.journal["best"].get("step") == step
            plateau, stale = self.config.schedule, self.journal["stale"]
            if plateau.name == "plateau" and stale and stale % plateau.patience == 0:
                state = eqx.tree_at(lambda s: s.factor, state, state.factor * plateau.gamma)
            state = self._ask(state, step, values)
        if improved or step % self.config.save_every == 0 or step == self.total:
            self._save(state, step)
        return state

    def _evaluate(self, state: State, step: int) -> dict[str, float]:
        """Loss and metrics on the validation split, compared with the best so far; nothing without such a split."""
        if not len(self.data.val):
            return {}
        model = eqx.nn.inference_mode(self.stepper.model(state))
        values = self.watched.measure(model, self.data, self.stepper.evaluated, self.config)
        self.writer.metrics(step, "val", values)
        self.notify(events.Logged(step, "val", values))
        # What an algorithm converges to is its answer, whatever came by on the way.
        own = isinstance(self.stepper, Iterations)
        if self.watched.takes(self.journal, values, step, self.config.stopping.min_delta, model) or own:
            name = self.watched.name
            self.journal["best"] = {"loss": values["loss"], name: values[name], "step": step}
            self.journal["stale"] = 0
        else:
            self.journal["stale"] += 1
            self._check_patience()
        if isinstance(model, HasSnapshots):
            snapshots.keep(self.path, model, step, self.config.seed)
        self.finished = self.finished or collapse(self.config.adversary, self.run.metrics)
        for text in raised(model, self.run.metrics, self.journal["alarms"]):
            self.writer.log(f"alarm: step {step}: {text}")
            self.notify(events.Noticed(f"step {step}: {text}"))
        return values

    def _ask(self, state: State, step: int, values: Mapping[str, float]) -> State:
        """Let the callbacks of the user stop the run or change its rate."""
        memories = self.journal["callbacks"]
        for name, callback in self.callbacks.items():
            memory = memories.get(name, {})
            moment = Moment(step, self.total, values, self.latest, self.journal["best"], memory)
            callback(moment)
            memories[name] = kept(moment.memory, name)
            if moment.factor != 1:
                state = eqx.tree_at(lambda s: s.factor, state, state.factor * moment.factor)
                self.writer.log(f"step {step}: {name} multiplied the learning rate by {moment.factor:g}")
            if moment.reason:
                self.finished = self.journal["stopped"] = moment.reason
        return state

    def _notice(self) -> None:
        """Say what a user may not expect of these settings."""
        for text in unexpected(self.model, self.config, set(self.journal["callbacks"]) - set(self.callbacks)):
            self.writer.log(f"note: {text}")
            self.notify(events.Noticed(text))

    def _check_patience(self) -> None:
        patience = self.config.stopping.patience
        if patience and self.journal["stale"] >= patience:
            of = "" if self.watched.name == "loss" else f" of {self.watched.name}"
            self.finished = f"no improvement{of} for {patience} evaluations"

    def _check_convergence(self, state: State, step: int) -> None:
        """End a run whose own algorithm has nothing left to do."""
        if isinstance(self.stepper, Iterations) and step and self.stepper.converged(state):
            self.finished = f"converged after {step} iteration{'' if step == 1 else 's'}"
            self.total = step

    def _save(self, state: State, step: int) -> None:
        self.journal["metrics_bytes"] = self.writer.sync()
        checkpoints.save(self.store, state, step, self.journal)
        self.saved = step
        kept = sorted(checkpoints.steps(self.store))[-self.config.keep :]
        checkpoints.prune(self.store, {*kept, self.journal["best"].get("step", step)})
        self.writer.write(step=step, best=self.journal["best"])
        self.notify(events.Saved(step))

    def _progress(self, step: int, metrics: dict[str, np.ndarray], clock: Clock) -> None:
        measured = {name: values[~np.isnan(values)] for name, values in metrics.items()}
        latest = {name: float(values[-1]) for name, values in measured.items() if values.size}
        self.writer.beat(step=step)
        self.notify(
            events.Progress(
                step,
                self.total,
                latest,
                clock.rate * self.config.batch,
                (self.total - step) / max(clock.rate, 1e-9),
                self.saved,
            )
        )

    def _estimate(self, step: int, clock: Clock) -> None:
        """Say once, after a second of steps, how long the rest will take, unless that is no longer."""
        if self.estimated or clock.seconds < _SECONDS_BEFORE_ESTIMATE:
            return
        if isinstance(self.stepper, Iterations):
            return  # it ends when it has converged, and nobody knows when
        self.estimated = True
        left = self.total - step
        seconds = left * clock.seconds / clock.steps
        if seconds > _SECONDS_BEFORE_ESTIMATE:
            self.notify(events.Estimated(left, seconds, self.stepper.nbytes))

    def _diverged(self, state: State, step: int) -> tuple[State, int]:
        """A value was not finite: go back if that was asked for, otherwise say which one it was and stop."""
        if isinstance(self.stepper, Iterations):
            raise DivergedError(
                f"iteration {step + 1} gave a loss that is not finite",
                remedy=f"look for odd values: {check_command(self.data.source)}"
                if self.data.source
                else "look for odd values in the data",
            )
        what = first_bad_value(self.stepper, state, step, self.tolerated)
        halved = self.config.optimizer.lr * float(state.factor) / 2
        if self.saved is None:
            # Made again rather than kept from the start: few runs come to this, and all would have to write it.
            checkpoints.save(self.store, initial_state(self.model, self.config), 0, self._blank)
            self.saved = 0
        if self.journal["rollbacks"] < self.config.rollbacks:
            used = self.journal["rollbacks"] + 1
            text = f"step {step}: {what}; back to step {self.saved} at learning rate {halved:g}"
            self.writer.log(text)
            self.notify(events.Noticed(text))
            factor = state.factor / 2
            state, journal = self._load(self.saved, state)
            self.journal = {**self.journal, **journal, "rollbacks": used}
            self.writer.cut(journal["metrics_bytes"])
            return eqx.tree_at(lambda s: s.factor, state, factor), self.saved
        again = f"chainrule resume {naming.handle(self.path)} optimizer.lr={halved:.2g}"
        advice = [f"last good checkpoint: step {self.saved}.   retry: {again}", *of_its_own(self.model)]
        raise DivergedError(f"{what} at step {step}", remedy="\n".join(advice))


__all__ = ["Trainer"]
