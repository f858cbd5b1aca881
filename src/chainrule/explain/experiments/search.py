"""Validation search: settings chosen on the validation split, the test split looked at once."""

import itertools
from typing import Any, Literal, final

import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines, Table
from chainrule.explain.base import Experiment, Listener, Outcome, Settings
from chainrule.explain.training import Trained, train
from chainrule.train import TrainConfig
from chainrule.train.metrics import score


@final
class SearchSettings(Settings):
    """What is searched and how."""

    model: str = Field("mlp", description="name of a model")
    data: str = Field("digits", description="name or path of data")
    method: Literal["grid", "random"] = Field("grid", description="every combination, or random ones")
    search: dict[str, Any] = Field(
        default_factory=lambda: {"width": [16, 64], "optimizer.lr": [3e-4, 3e-3, 3e-2]},
        description="values of any setting of the model or of training: search.width=16,64 "
        "search.optimizer.lr=1e-3,1e-2",
    )
    trials: int = Field(8, ge=1, description="random: how many combinations")
    seeds: int = Field(1, ge=1, le=20, description="runs of each combination")
    steps: int = Field(300, ge=1, description="steps of each run")
    seed: int = Field(0, ge=0, description="first seed, and that of the random choice")


def run(settings: SearchSettings, listener: Listener) -> Outcome:
    """Try combinations, choose the one with the lowest validation loss, and test that one."""
    data = sources.load(settings.data)
    if not len(data.val) or not len(data.test):
        raise ArgumentError(f"search(data={settings.data}): needs a validation and a test split")
    fields = flatten(settings.search)
    trials: list[tuple[dict[str, Any], list[Trained]]] = []
    for chosen in combinations(fields, settings):
        runs = [_once(settings, chosen, settings.seed + k, data) for k in range(settings.seeds)]
        trials.append((chosen, runs))
        listener(f"{_words(chosen)}: validation loss {_val(runs):.4g}")
    order = sorted(trials, key=lambda trial: _val(trial[1]))
    best, runs = order[0]
    tested = score(runs[0].model, data, "test", seed=settings.seed)
    rows: list[list[Any]] = [
        [
            *(str(chosen[name]) for name in fields),
            _val(done),
            float(np.ptp([one.val["loss"][-1] for one in done])),
        ]
        for chosen, done in order
    ]
    judged = ", ".join(f"{name.replace('_', ' ')} {metric.value:.4g}" for name, metric in tested.items())
    return Outcome(
        [
            f"Of {len(trials)} combinations the best on the validation split is {_words(best)} (loss "
            f"{_val(runs):.4g}).",
            f"On the test split, looked at once: {judged}.",
        ],
        [
            Lines(
                "search",
                "Validation loss of the best and the worst",
                "step",
                "loss",
                {
                    _words(chosen): (done[0].steps, done[0].val["loss"])
                    for chosen, done in (order[:4] + order[4:][-2:])
                },
                log_y=True,
            )
        ],
        Table("search-table", "All combinations, best first", [*fields, "validation loss", "spread"], rows),
        {
            "best": best,
            "val_loss": _val(runs),
            "test": {name: metric.value for name, metric in tested.items()},
            "trials": [{"settings": chosen, "val_loss": _val(done)} for chosen, done in order],
        },
    )


def combinations(fields: dict[str, list[Any]], settings: SearchSettings) -> list[dict[str, Any]]:
    """The combinations to try: all of them, or different ones at random; a pair of numbers is a range then.

    >>> len(combinations({"width": [8, 16], "depth": [2, 3, 4]}, SearchSettings()))
    6
    """
    if settings.method == "grid":
        return [dict(zip(fields, values, strict=True)) for values in itertools.product(*fields.values())]
    random = np.random.default_rng(settings.seed)
    found: list[dict[str, Any]] = []
    for _ in range(20 * settings.trials):
        trial = {name: _draw(values, random) for name, values in fields.items()}
        if trial not in found:
            found.append(trial)
        if len(found) == settings.trials:
            break
    return found


def flatten(search: dict[str, Any], prefix: str = "") -> dict[str, list[Any]]:
    """Settings by dotted name, each with the list of its values.

    >>> flatten({"width": [8, 16], "optimizer": {"lr": 0.1}})
    {'width': [8, 16], 'optimizer.lr': [0.1]}
    """
    flat: dict[str, list[Any]] = {}
    for name, values in search.items():
        if isinstance(values, dict):
            flat |= flatten(values, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = list(values) if isinstance(values, list | tuple) else [values]
    if not flat and not prefix:
        raise ArgumentError("search: names no setting", remedy="for example search.width=16,64")
    return flat


def _draw(values: list[Any], random: np.random.Generator) -> Any:
    """One of several values; between two floating numbers anything, evenly by logarithm where both are positive."""
    if len(values) == 2 and all(isinstance(value, float) for value in values):
        low, high = values
        return float(np.exp(random.uniform(*np.log(values)))) if low > 0 else float(random.uniform(low, high))
    return values[int(random.integers(len(values)))]


def _once(settings: SearchSettings, chosen: dict[str, Any], seed: int, data: sources.Data) -> Trained:
    of_model = models.entry(settings.model).config.model_fields
    model: dict[str, Any] = {}
    training: dict[str, Any] = {}
    for name, value in chosen.items():
        group, _, leaf = name.partition(".")
        place = model if group in of_model else training
        if leaf:
            place.setdefault(group, {})[leaf] = value
        else:
            place[group] = value
    base = {**models.entry(settings.model).training, "epochs": None}
    merged = {**base, **training}
    if isinstance(base.get("optimizer"), dict):
        merged["optimizer"] = {**base["optimizer"], **training.get("optimizer", {})}
    merged["batch"] = min(TrainConfig.parse(**merged).batch, len(data.train))
    return train(
        models.build(settings.model, data, seed=seed, **model),
        data,
        steps=settings.steps,
        every=max(1, settings.steps // 10),
        **{**merged, "seed": seed},
    )


def _val(runs: list[Trained]) -> float:
    """The mean of the last validation losses; a run that did not stay finite loses against every other."""
    return float(np.mean([one.val["loss"][-1] if one.is_finite else np.inf for one in runs]))


def _words(chosen: dict[str, Any]) -> str:
    return " ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in chosen.items()
    )


experiment = Experiment(
    "Validation search: a grid or random settings, chosen on the validation split, tested once.",
    SearchSettings,
    run,
    toy={"data": "moons", "search": {"width": [4, 8]}, "steps": 10},
    reference="Bergstra and Bengio, Random search for hyper-parameter optimization, JMLR 13, 2012",
)

__all__ = ["SearchSettings", "combinations", "experiment", "flatten", "run"]
