"""`fit` and `resume`: from a model and data to a run folder, with everything that can go wrong on the way.

The order of writes carries the promises. Metrics are on the disk before the checkpoint that counts them; a checkpoint
is complete before it is announced; whatever came after the last checkpoint is cut off and done again on resume, with
the same numbers, because batches, noise and learning rates are pure functions of the step.
"""

import contextlib
import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import numpy as np

from chainrule import __version__, models
from chainrule.core import random, tree
from chainrule.core.errors import CheckpointError, DiskError, DivergedError, RunError
from chainrule.data.base import Data
from chainrule.models.base import Model
from chainrule.train import checkpoints, events, folder
from chainrule.train.config import TrainConfig
from chainrule.train.diagnose import first_bad_value
from chainrule.train.files import disk_errors, free_bytes, sole_writer
from chainrule.train.metrics import mean_loss
from chainrule.train.run import Run
from chainrule.train.schedules import schedule
from chainrule.train.step import State, Stepper, initial_state

MOST_STEPS_PER_CALL = 256
_SECONDS_PER_CALL = 0.2
_RESIDENT_BYTES = 4 << 30


def fit(
    model: Model,
    data: Data,
    *,
    run: str | Path | None = None,
    listener: events.Listener = events.silent,
    **settings: Any,
) -> Run:
    """Train a model and leave a run folder.

    `settings` are the fields of `TrainConfig` (steps, batch, seed, optimizer, ...); what is not given comes from the
    model's registry entry, then from the general defaults. `run` is the folder; without it one is made under
    `$CHAINRULE_RUNS` or `./runs`. If the folder holds an unfinished run of the same model, data and settings, it is
    resumed.
    """
    entry = models.entry_of(model)
    config = TrainConfig.parse(**merge(entry.training if entry else {}, settings))
    name = entry.name if entry else None
    described = {"name": name, "settings": model.config.model_dump() if entry else {}}  # type: ignore[attr-defined]
    recipe = {
        "chainrule": __version__,
        "model": described,
        "data": dict(data.source),
        "train": config.model_dump(),
    }
    if run is None:
        path = folder.new_folder(folder.root(), f"{data.name}-{name or type(model).__name__.lower()}")
    else:
        path = Path(run)
        if (path / "config.yaml").exists():
            return _continue(Run.open(path, model=model, data=data), recipe, listener)
        with disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
    total = config.total_steps(len(data.train) / config.batch)
    _check_space(path, model, config)
    with sole_writer(path):
        folder.write_data(path, data)
        folder.write_environment(path)
        folder.write_config(path, recipe)
        return _Loop(Run.open(path, model=model, data=data), total, listener).start()


def resume(
    run: str | Path | Run,
    *,
    model: Model | None = None,
    data: Data | None = None,
    listener: events.Listener = events.silent,
    **overrides: Any,
) -> Run:
    """Go on with a run from its newest intact checkpoint; `overrides` change training settings from here on."""
    opened = run if isinstance(run, Run) else Run.open(run, model=model, data=data)
    with sole_writer(opened.path):
        if overrides:
            merged = merge(opened.config["train"], overrides)
            if "steps" in overrides:
                merged["epochs"] = None
            if "epochs" in overrides:
                merged["steps"] = None
            recipe = {**opened.config, "train": TrainConfig.parse(**merged).model_dump()}
            folder.write_config(opened.path, recipe)
            opened = Run.open(opened.path, model=opened._template, data=opened._data)
        config = opened.settings
        total = config.total_steps(len(opened.data.train) / config.batch)
        return _Loop(opened, total, listener).start()


def _continue(found: Run, recipe: dict[str, Any], listener: events.Listener) -> Run:
    """`fit` into a folder that holds a run already: the same run goes on, another one is refused."""
    longer = {"steps": None, "epochs": None}
    mine, stored = (
        {**r, "chainrule": None, "train": {**TrainConfig.parse(**r["train"]).model_dump(), **longer}}
        for r in (recipe, found.config)
    )
    if folder.plain(mine) != folder.plain(stored):
        raise RunError(
            f"{found.path} holds a run with other settings",
            remedy="choose another folder, or remove it: chainrule runs rm",
        )
    train = recipe["train"]
    return resume(found, listener=listener, **{k: train[k] for k in longer if train[k] is not None})


def merge(below: Any, above: Any) -> dict[str, Any]:
    """Nested settings, `above` winning; giving steps takes a default of epochs away, and the other way round."""
    merged = dict(below)
    for one, other in (("steps", "epochs"), ("epochs", "steps")):
        if above.get(one) is not None and other not in above:
            merged.pop(other, None)
    for name, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = merge(merged[name], value) if both else value
    return merged


def _check_space(path: Path, model: Model, config: TrainConfig) -> None:
    """Refuse to start a run whose checkpoints will not fit on the disk."""
    needed = (config.keep + 2) * tree.nbytes(jax.eval_shape(lambda: initial_state(model, config))) + (
        16 << 20
    )
    free = free_bytes(path)
    if free < needed:
        raise DiskError(
            f"{path} has {free / 1e6:,.0f} MB free; the checkpoints of this run need about {needed / 1e6:,.0f} MB",
            remedy="free some space or choose another place with runs=DIR",
        )


@final
class _Loop:
    """One stretch of training, from wherever the run stands to its end, a signal, or an error."""

    def __init__(self, run: Run, total: int, listener: events.Listener) -> None:
        self.run = run
        self.path = run.path
        self.config = run.settings
        self.total = total
        self.tell = listener
        self.data = run.data
        self.model = run.skeleton()
        self.store = run.path / "checkpoints"
        self.notes = folder.Journalist(run.path, total)
        self.saved: int | None = None
        self.stop_reason = ""
        self.journal: dict[str, Any] = {
            "best": {},
            "stale": 0,
            "pending": {},
            "pending_steps": 0,
            "rollbacks": 0,
            "metrics_bytes": 0,
        }
        split = self.data.train
        resident = split.nbytes <= _RESIDENT_BYTES
        # Streamed data are copied into every call: keep those calls small.
        most = MOST_STEPS_PER_CALL if resident else 8
        self.stepper = Stepper(
            self.model,
            self.config,
            split,
            schedule(self.config.schedule, total),
            resident=resident,
            most=most,
        )

    def start(self) -> Run:
        """Train; always leaves an honest status behind."""
        state, step = self._restore()
        began = time.perf_counter()
        self.notes.write(step=step, best=self.journal["best"])
        self.tell(self._started(step))
        status, message = "failed", ""
        try:
            with _signals(self):
                if step < self.total:
                    state, step = self._train(state, step)
            status = "done" if not self.stop_reason.startswith("interrupted") else "interrupted"
            message = self.stop_reason or "all steps done"
        except DivergedError as error:
            status, message = "diverged", str(error)
            raise
        except KeyboardInterrupt:
            status, message = "interrupted", "stopped at once by a second signal"
            raise
        except BaseException as error:
            message = f"{type(error).__name__}: {error}"
            raise
        finally:
            # With a full disk even this may fail; the error on its way out is the one that matters then.
            with contextlib.suppress(DiskError):
                self.notes.log(f"{status} at step {self.notes.status['step']}: {message}")
                self.notes.write(status=status, message=message, best=self.journal["best"])
        seconds = time.perf_counter() - began
        self.tell(
            events.Finished(self.run.id, str(self.path), status, step, self.journal["best"], seconds, message)
        )
        return Run.open(self.path, model=self.run._template, data=self.data)

    # ------------------------------------------------------------------ before

    def _restore(self) -> tuple[State, int]:
        """The state to go on from: the newest checkpoint that is whole, or the beginning."""
        checkpoints.sweep(self.store)
        state = initial_state(self.model, self.config)
        for step in reversed(checkpoints.steps(self.store)):
            try:
                state, journal = checkpoints.load(checkpoints.path(self.store, step), state)
            except CheckpointError as error:
                if "damaged" not in error.message:
                    raise
                self.notes.log(f"left out: {error.message}")
                continue
            self.journal |= journal
            self.saved = step
            checkpoints.prune(self.store, {s for s in checkpoints.steps(self.store) if s <= step})
            self.notes.cut(journal["metrics_bytes"])
            self.notes.log(f"resumed at step {step}")
            return state, step
        if checkpoints.steps(self.store):
            raise CheckpointError(
                f"every checkpoint of {self.run.id} is damaged",
                remedy=f"train it again: chainrule train config={self.path / 'config.yaml'}",
            )
        (self.path / "metrics.jsonl").unlink(missing_ok=True)
        self.store.mkdir(exist_ok=True)
        self.notes.log(f"started: {self.data.describe()}")
        return state, 0

    def _started(self, step: int) -> events.Started:
        device = jax.devices()[0]
        cores = f", {os.cpu_count()} cores" if device.platform == "cpu" else f" ({device.device_kind})"
        parameters = tree.size(eqx.filter(self.model, eqx.is_inexact_array))
        name = self.run.config["model"]["name"] or type(self.model).__name__
        return events.Started(
            run=self.run.id,
            path=str(self.path),
            data=f"{self.data.name}   {self.data.describe()}",
            model=f"{name}   {count(parameters)} parameters",
            device=f"{device.platform}{cores}",
            seed=self.config.seed,
            step=step,
            total=self.total,
        )

    # ------------------------------------------------------------------ the loop

    def _train(self, state: State, step: int) -> tuple[State, int]:
        began = time.perf_counter()
        self.stepper.compile(state)
        self.tell(events.Compiled(time.perf_counter() - began))
        clock = _Clock()
        limit = math.inf if self.config.minutes is None else time.monotonic() + 60 * self.config.minutes
        while step < self.total and not self.stop_reason:
            wanted = min(self._stretch_from(step), clock.steps_per_call(self.stepper.most))
            state, metrics, done = self.stepper.run(state, step, wanted)
            clock.ran(done)
            self._log(step, metrics, done)
            step += done
            if done < wanted:
                state, step = self._diverged(state, step)
                continue
            state = self._at_boundaries(state, step)
            self._progress(step, metrics, clock)
            if time.monotonic() > limit and not self.stop_reason:
                self.stop_reason = f"interrupted: the limit of {self.config.minutes:g} minutes is reached"
        if self.saved != step:
            self._save(state, step)
        return state, step

    def _stretch_from(self, step: int) -> int:
        """Steps to the next evaluation, checkpoint or the end."""
        marks = (self.config.eval_every, self.config.save_every)
        return min(self.total - step, *(mark - step % mark for mark in marks))

    def _log(self, step: int, metrics: dict[str, np.ndarray], done: int) -> None:
        """Mean of each metric over every `log_every` steps, at whole multiples of it and at the end."""
        pending, every = self.journal["pending"], self.config.log_every
        for i in range(done):
            for name, values in metrics.items():
                pending[name] = pending.get(name, 0.0) + float(values[i])
            self.journal["pending_steps"] += 1
            now = step + i + 1
            if now % every == 0 or now == self.total:
                means = {name: total / self.journal["pending_steps"] for name, total in pending.items()}
                means |= {name: float(metrics[name][i]) for name in metrics if name.split(".")[-1] == "lr"}
                pending.clear()
                self.journal["pending_steps"] = 0
                self.notes.metrics(now, "train", means)
                self.tell(events.Logged(now, "train", means))

    def _at_boundaries(self, state: State, step: int) -> State:
        improved = False
        if step % self.config.eval_every == 0 or step == self.total:
            improved = self._evaluate(state, step)
            plateau = self.config.schedule
            stale = self.journal["stale"]
            if plateau.name == "plateau" and stale and stale % plateau.patience == 0:
                state = eqx.tree_at(lambda s: s.factor, state, state.factor * plateau.gamma)
        if improved or step % self.config.save_every == 0 or step == self.total:
            self._save(state, step)
        return state

    def _evaluate(self, state: State, step: int) -> bool:
        """Loss on the validation split; true when it is the best so far."""
        if not len(self.data.val):
            return False
        arrays = state.model if state.ema is None else state.ema
        model = eqx.nn.inference_mode(eqx.combine(arrays, self.stepper.static))
        key = random.key(self.config.seed, "evaluate")
        values, _ = mean_loss(model, self.data.val, key, most=self.config.eval_examples)
        self.notes.metrics(step, "val", values)
        self.tell(events.Logged(step, "val", values))
        best = self.journal["best"]
        if math.isfinite(values["loss"]) and (
            not best or values["loss"] < best["loss"] - self.config.stopping.min_delta
        ):
            self.journal["best"] = {"loss": values["loss"], "step": step}
            self.journal["stale"] = 0
            return True
        self.journal["stale"] += 1
        patience = self.config.stopping.patience
        if patience and self.journal["stale"] >= patience:
            self.stop_reason = f"no improvement for {patience} evaluations"
        return False

    def _save(self, state: State, step: int) -> None:
        self.journal["metrics_bytes"] = self.notes.sync()
        checkpoints.save(self.store, state, step, self.journal)
        self.saved = step
        kept = sorted(checkpoints.steps(self.store))[-self.config.keep :]
        checkpoints.prune(self.store, {*kept, self.journal["best"].get("step", step)})
        self.notes.write(step=step, best=self.journal["best"])
        self.tell(events.Saved(step))

    def _progress(self, step: int, metrics: dict[str, np.ndarray], clock: "_Clock") -> None:
        latest = {name: float(values[-1]) for name, values in metrics.items()}
        rate = clock.steps_per_second()
        self.notes.beat(step=step)
        self.tell(
            events.Progress(
                step,
                self.total,
                latest,
                rate * self.config.batch,
                (self.total - step) / max(rate, 1e-9),
                self.saved,
            )
        )

    def _diverged(self, state: State, step: int) -> tuple[State, int]:
        """A value was not finite: go back if that was asked for, otherwise say which one it was and stop."""
        what = first_bad_value(self.stepper, state, step)
        halved = self.config.optimizer.lr * float(state.factor) / 2
        if self.journal["rollbacks"] < self.config.rollbacks and self.saved is not None:
            used = self.journal["rollbacks"] + 1
            self.notes.log(f"step {step}: {what}; back to step {self.saved} at learning rate {halved:g}")
            factor = state.factor / 2
            state, journal = checkpoints.load(checkpoints.path(self.store, self.saved), state)
            self.journal = {**self.journal, **journal, "rollbacks": used}
            self.notes.cut(journal["metrics_bytes"])
            return eqx.tree_at(lambda s: s.factor, state, factor), self.saved
        saved = f"last good checkpoint: step {self.saved}.   " if self.saved is not None else ""
        raise DivergedError(
            f"{what} at step {step}",
            remedy=f"{saved}retry: chainrule resume {self.run.id} optimizer.lr={halved:.2g}",
        )


@final
class _Clock:
    """Speed of the run, and how many steps a call may take so that a signal is heard soon."""

    def __init__(self) -> None:
        self.last = time.perf_counter()
        self.rate = 0.0

    def ran(self, steps: int) -> None:
        now = time.perf_counter()
        current = steps / max(now - self.last, 1e-9)
        self.rate = current if self.rate == 0.0 else 0.7 * self.rate + 0.3 * current
        self.last = now

    def steps_per_call(self, most: int) -> int:
        return max(1, min(most, int(self.rate * _SECONDS_PER_CALL)))

    def steps_per_second(self) -> float:
        return self.rate


@contextlib.contextmanager
def _signals(loop: _Loop) -> Iterator[None]:
    """First signal: finish the call in progress, save, stop. Second: stop now. Only the main thread hears signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hear(number: int, frame: Any) -> None:
        del frame
        if loop.stop_reason:
            raise KeyboardInterrupt
        loop.stop_reason = f"interrupted by {signal.Signals(number).name}"

    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def count(number: int) -> str:
    """A number of parameters for people.

    >>> count(669_706), count(1_240_000_000)
    ('0.67 M', '1.24 G')
    """
    for unit, size in (("G", 1e9), ("M", 1e5), ("k", 1e3)):
        if number >= size:
            return f"{number / (1e6 if unit == 'M' else size):.3g} {unit}"
    return str(number)


__all__ = ["count", "fit", "merge", "resume"]
