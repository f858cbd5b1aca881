"""`fit` and `resume`: from a model and data to a run folder that survives whatever happens to the process."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from chainrule import __version__, models
from chainrule.core.errors import ArgumentError, RunError
from chainrule.core.quoting import shell_word
from chainrule.core.types import Tree
from chainrule.data import targets
from chainrule.data.batches import Batches
from chainrule.data.dataset import Data
from chainrule.data.division import NAMES
from chainrule.data.domains import with_target
from chainrule.models.protocol import Model
from chainrule.models.wrapping import FromFile
from chainrule.train import anchoring, checkpoints, events, folder, former, iterations, naming
from chainrule.train.beginning import check_batch, check_space
from chainrule.train.callbacks import Callback
from chainrule.train.config import TrainConfig
from chainrule.train.files import make_folder, sole_writer, write_atomic
from chainrule.train.preparing import prepared
from chainrule.train.run import Run
from chainrule.train.state import initial_state
from chainrule.train.trainer import Trainer

_FEWEST_STEPS = 300
_LOGGED = 50
"""Lines of training metrics that a run has at least, if it has as many steps."""
_EVALUATED = 10
_MOST_EVALUATIONS = 100
_APART = 10
"""Fewest steps between two evaluations."""


def fit(
    model: Model,
    data: Data,
    *,
    target: Data | None = None,
    target_labels: int = 0,
    run: str | Path | None = None,
    runs: str | Path | None = None,
    listener: events.Listener = events.silent,
    callbacks: Sequence[Callback] = (),
    origin: Mapping[str, Any] | None = None,
    code: FromFile | None = None,
    importance: Tree | None = None,
    **settings: Any,
) -> Run:
    """Train a model and leave a run folder.

    `settings` are the fields of `TrainConfig` (steps, batch, seed, optimizer, ...); what is not given comes from the
    model's registry entry, then from the general defaults. `run` is the name of the run or the path of its folder and
    `runs` where named runs go (see `naming.run_folder`); without them a folder is made under `$CHAINRULE_RUNS` or
    `./runs`. If the folder holds an unfinished run of the same model, data and settings, it is resumed.

    `target` is another domain that the model is brought to (`data.with_target`): training sees its examples without
    their targets, but for `target_labels` of them. Nothing is chosen by its targets.

    `callbacks` are functions that are asked after every evaluation and may stop the run or change its learning rate;
    see `Moment`. A run folder does not hold them: give them again to go on with it.

    `origin` says where the weights of the model come from when they are not those it was built with; such a run
    evaluates and saves them before the first step, because nothing else could bring them back. `code` says which Python
    file the model comes from, so that the run can be opened without building it again by hand. `importance` says how
    much each parameter counts where `anchor` holds them (`fisher_diagonal`).
    """
    data = data if target is None else with_target(data, target, labels=target_labels)
    model = prepared(model, data)
    recipe, config, total = _recipe(model, data, origin, settings, code)
    if run is None:
        check_space(naming.root(runs), model, config)
        path = naming.new_folder(naming.root(runs).expanduser(), f"{data.name}-{models.title(model).lower()}")
    else:
        path = naming.run_folder(run, runs)
        if (path / "config.yaml").exists():
            return _continue(Run.open(path, model=model, data=data), recipe, settings, listener, callbacks)
        check_space(path, model, config)
        make_folder(path)
    with sole_writer(path):
        folder.write_data(path, data)
        folder.write_environment(path)
        if code:
            write_atomic(path / folder.CODE, code.file.path.read_bytes())
        opened = Run(path, model=model, data=data, config=recipe)
        if importance is not None:
            anchoring.write(opened, model, importance)
        trainer = Trainer(opened, total, listener, callbacks)
        # Last, because this file makes the folder a run: settings that cannot be used must not leave one behind.
        folder.write_config(path, recipe)
        return trainer.start()


def keep(model: Model, data: Data, *, run: str | Path, origin: Mapping[str, Any], **settings: Any) -> Run:
    """Leave a run folder for a model that was trained elsewhere, at step 0 of the training it may still get."""
    path = naming.run_folder(run)
    model = prepared(model, data)
    recipe, config, total = _recipe(model, data, origin, settings)
    check_space(path, model, config)
    make_folder(path)
    with sole_writer(path):
        if (path / "config.yaml").exists():
            raise RunError(f"{path} holds a run already", remedy="choose another folder")
        folder.write_data(path, data)
        folder.write_environment(path)
        Trainer(Run(path, model=model, data=data, config=recipe), total, events.silent).keep()
        folder.write_config(path, recipe)
    return Run.open(path, model=model, data=data)


def _recipe(
    model: Model,
    data: Data,
    origin: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    code: FromFile | None = None,
) -> tuple[dict[str, Any], TrainConfig, int]:
    """All that config.yaml holds, the training settings in it, and how many steps they mean."""
    entry = models.entry_of(model)
    for name in NAMES:
        y = data.split(name).arrays.get("y")
        if y is not None:
            targets.of(data.schema).check(data.schema, y, f"{data.name}, {name} split")
    iterations.check(model, settings)
    config, total = settled(iterations.defaults(model, data), settings, len(data.train))
    check_batch(model, config)
    if config.balanced and not targets.of(data.schema).one_class:
        raise ArgumentError(
            f"balanced=true: {data.name} has no classes to take turns", remedy="leave balanced out"
        )
    described: dict[str, Any] = {"name": entry.name if entry else None, "settings": {}}
    if entry:
        described["settings"] = model.config.model_dump()  # type: ignore[attr-defined]
    if code:
        described |= {"settings": dict(code.settings), "file": code.file.to_json()}
    if origin:
        described["from"] = dict(origin)
    sections = {"model": described, "data": dict(data.source), "train": config.model_dump()}
    if data.other is not None:
        sections["target"] = {"data": dict(data.other.source), "labels": data.labels}
        if data.label_map is not None:
            sections["target"]["label_map"] = dict(data.label_map)
    return {"chainrule": __version__, **sections}, config, total


def settled(
    defaults: Mapping[str, Any], settings: Mapping[str, Any], examples: int
) -> tuple[TrainConfig, int]:
    """All training settings, given ones over a model's own, and how many steps they mean for so many examples.

    Defaults give way to the data: a batch holds at most all examples, a warm-up takes at most a tenth of a short run,
    and a short run is logged and evaluated more often, so that its curves are curves.
    """
    config = TrainConfig.parse(**merge(defaults, settings))
    if "batch" not in settings:
        config = config.model_copy(update={"batch": min(config.batch, examples)})
    total = config.total_steps(_steps_per_epoch(config, examples))
    if total < _FEWEST_STEPS and config.epochs is not None and settings.get("epochs") is None:
        total = _FEWEST_STEPS  # the epochs that suit a model are meant for more data than these
        config = config.model_copy(update={"steps": total, "epochs": None})
    if "warmup" not in settings.get("schedule", {}) and config.schedule.warmup > total // 10:
        shorter = config.schedule.model_copy(update={"warmup": total // 10})
        config = config.model_copy(update={"schedule": shorter})
    paces = {
        "log_every": min(config.log_every, max(1, total // _LOGGED)),
        "eval_every": _evaluation_pace(config, total),
    }
    own = {name: pace for name, pace in paces.items() if name not in settings and name not in defaults}
    return config.model_copy(update=own), total


def _evaluation_pace(config: TrainConfig, total: int) -> int:
    """Steps between two evaluations unless given: whole epochs where epochs were asked for, a tenth of a short run.

    Never fewer than ten steps, whose time one evaluation may well take.
    """
    if config.epochs is None:
        return min(config.eval_every, max(_APART, total // _EVALUATED))
    epoch = total / config.epochs
    pieces = math.ceil(_EVALUATED / config.epochs)  # of an epoch, or whole epochs where they are short
    pace = epoch / pieces if epoch / pieces >= _APART else epoch * math.ceil(_APART / epoch)
    return max(1, round(pace), total // _MOST_EVALUATIONS)


def _steps_per_epoch(config: TrainConfig, examples: int) -> float:
    """Also refuses a batch that cannot be filled, before a model is built for it."""
    batches = Batches(examples, config.batch, drop_last=config.drop_last)
    return batches.per_epoch / batches.size


def resume(
    run: str | Path | Run,
    *,
    model: Model | Callable[[], Model] | None = None,
    data: Data | None = None,
    listener: events.Listener = events.silent,
    callbacks: Sequence[Callback] = (),
    **overrides: Any,
) -> Run:
    """Go on with a run from its newest intact checkpoint; `overrides` change training settings from here on.

    `model` and `data` are those of `Run.open`, `callbacks` those of `fit`.
    """
    opened = run if isinstance(run, Run) else Run.open(run, model=model, data=data)
    stored = opened.config  # read before anything is written: a folder that is no run stays untouched
    former.check_goes_on(opened.path)
    with sole_writer(opened.path):
        if overrides:
            iterations.check(opened.skeleton(), overrides)
            merged = merge(stored["train"], overrides)
            if "steps" in overrides:
                merged["epochs"] = None
            if "epochs" in overrides:
                merged["steps"] = None
            recipe = {**stored, "train": TrainConfig.parse(**merged).model_dump()}
            check_batch(opened.skeleton(), TrainConfig.parse(**merged))
            if opened.checkpoints == [0] and "from" not in stored["model"]:
                checkpoints.prune(opened.path / "checkpoints", set())  # drawn again, for whatever optimiser
            if opened.checkpoints:
                _check_state(opened, overrides)
            opened = Run(opened.path, model=opened._template, data=opened._data, config=recipe)
        config = opened.settings
        total = config.total_steps(_steps_per_epoch(config, len(opened.data.train)))
        done = max(opened.checkpoints, default=0)
        if overrides and total < done:
            raise ArgumentError(
                f"{opened.id} is at step {done} already: it cannot end at step {total}",
                remedy=f"name more steps, e.g. steps={2 * done}, or look at an earlier checkpoint with Run.model_at",
            )
        return Trainer(opened, total, listener, callbacks).start()


def _check_state(run: Run, overrides: dict[str, Any]) -> None:
    """Refuse a setting that would need other state than the checkpoints hold, such as another optimiser."""

    def needed(train: Any) -> dict[str, Any]:
        config = TrainConfig.parse(**train)
        return checkpoints.table(jax.eval_shape(lambda: initial_state(run.skeleton(), config)))

    held = needed(run.config["train"])
    for name, value, change in _each(overrides):
        if name not in ("steps", "epochs") and needed(merge(run.config["train"], change)) != held:
            raise ArgumentError(
                f"{name}={value}: {run.id} cannot change this on the way, because its checkpoints hold other state "
                "than that needs",
                remedy=f"train a new run: chainrule train {naming.recipe_word(run.path)} "
                + shell_word(f"{name}={value}"),
            )


def _each(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Every single setting of a nested dictionary: its dotted name, its value, and a dictionary of it alone."""
    for name, value in settings.items():
        if isinstance(value, dict):
            for below, one, change in _each(value):
                yield f"{name}.{below}", one, {name: change}
        else:
            yield name, value, {name: value}


def _continue(
    found: Run,
    recipe: dict[str, Any],
    settings: Mapping[str, Any],
    listener: events.Listener,
    callbacks: Sequence[Callback],
) -> Run:
    """`fit` into a folder that holds a run already: the same run goes on, another one is refused.

    Training settings that are not given are those the run has: defaults follow the length of a run.
    """
    longer = {"steps": None, "epochs": None}
    # Options of data that came later are left to the hash of the data.
    known = {name: value for name, value in recipe["data"].items() if name in found.config["data"]}
    recipe = {**recipe, "data": known, "train": merge(found.config["train"], settings)}
    mine, stored = (
        {
            **r,
            "chainrule": None,
            "model": {**r["model"], "settings": _resolved(found.data, **r["model"])},
            "train": {**TrainConfig.parse(**r["train"]).model_dump(), **longer},
        }
        for r in (recipe, found.config)
    )
    if folder.plain(mine) != folder.plain(stored):
        raise RunError(
            f"{found.path} holds a run with other settings",
            remedy=f"choose another folder, or remove it: chainrule runs rm {naming.handle(found.path)}",
        )
    further = {k: settings[k] for k in longer if settings.get(k) is not None}
    return resume(found, listener=listener, callbacks=callbacks, **further)


def _resolved(data: Data, name: str | None, settings: Mapping[str, Any], **_: Any) -> Mapping[str, Any]:
    """Settings of a model with every default of today and what is measured today, whatever version wrote them."""
    if name is None or name not in models.names():
        return settings
    chosen, measured = models.configure(name, **settings), models.entry(name).measured
    return {**chosen.model_dump(), **({} if measured is None else measured(chosen, data))}


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


__all__ = ["fit", "keep", "merge", "resume", "settled"]
