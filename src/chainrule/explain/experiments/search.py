"""Validation search: settings chosen on the validation split, the test split looked at once."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal, final

import jax
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core import random
from chainrule.core.errors import ArgumentError, DivergedError
from chainrule.core.pictures import Lines, Table
from chainrule.core.quoting import shell_word
from chainrule.explain.methods.training import Trained, band, train_seeds
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.kernels import SurrogateSearch
from chainrule.train import score
from chainrule.train.loop import settled

Trial = tuple[dict[str, Any], list[Trained]]
"""Settings, and what came of every seed."""
_EVEN = 6
"""Combinations that are spread evenly before a surrogate proposes, at most; half of all of them where these are few."""


@final
class SearchSettings(Settings):
    """What is searched and how."""

    model: str = Field("mlp", description="name of a model")
    data: str = Field("digits", description="name or path of data")
    load: dict[str, Any] = Field(
        default_factory=dict, description="options of the data: load.target=price load.size=32"
    )
    method: Literal["grid", "random", "surrogate"] = Field(
        "grid",
        description="every combination, random ones, or some spread evenly and then those that a Gaussian process of "
        "the losses so far expects the most of",
    )
    search: dict[str, Any] = Field(
        default_factory=lambda: {"width": [16, 64], "optimizer.lr": [3e-4, 3e-3, 3e-2]},
        description="values of any setting of the model or of training: search.width=16,64 "
        "search.optimizer.lr=1e-3,1e-2; random: two numbers with a point are ends of a range; surrogate: all are",
    )
    trials: int = Field(8, ge=1, description="random, surrogate: how many combinations")
    seeds: int = Field(1, ge=1, le=20, description="runs of each combination, all in one compiled program")
    steps: int = Field(300, ge=1, description="steps of each run")
    seed: int = Field(0, ge=0, description="first seed, and that of the random choice")


def run(settings: SearchSettings, listener: Listener) -> Outcome:
    """Try combinations, choose the one with the lowest validation loss, and test that one."""
    data = sources.load(settings.data, **settings.load)
    if not len(data.val) or not len(data.test):
        raise ArgumentError(f"search(data={settings.data}): needs a validation and a test split")
    fields = flatten(settings.search)
    if "seed" in fields:
        raise ArgumentError("search.seed: a seed is not chosen", remedy="several of each: seeds=3 seed=0")
    trials: list[Trial] = []
    propose = proposals if settings.method == "surrogate" else combinations
    for chosen in propose(fields, settings, trials):
        trials.append((chosen, _tried(settings, chosen, data)))
        listener(f"{_words(chosen)}: validation loss {_val(trials[-1][1]):.4g}")
    order = sorted(trials, key=lambda trial: _val(trial[1]))
    best, runs = order[0]
    if not np.isfinite(_val(runs)):
        raise DivergedError("search: no combination stayed finite", remedy="search smaller learning rates")
    scores = [score(one.model, data, "test", seed=settings.seed) for one in runs]
    tested = {name: [one[name].value for one in scores] for name in scores[0]}
    rows: list[list[Any]] = [
        [*(_written(chosen[name]) for name in fields), _val(done), max(_last(done)) - min(_last(done))]
        for chosen, done in order
    ]
    seeds = f", means over {settings.seeds} seeds" if settings.seeds > 1 else ""
    judged = ", ".join(f"{name.replace('_', ' ')} {np.mean(values):.4g}" for name, values in tested.items())
    length = {} if {"steps", "epochs"} & best.keys() else {"steps": settings.steps}
    options = {f"data.{name}": value for name, value in settings.load.items()}
    words = {"data": settings.data, **options, **best, **length, "seed": settings.seed}
    return Outcome(
        [
            f"Of {len(trials)} combinations the best on the validation split is {_words(best)} (loss "
            f"{_val(runs):.4g}{seeds}).",
            f"On the test split, looked at once{seeds}: {judged}.",
            f"Train it: chainrule train {settings.model} "
            + " ".join(shell_word(f"{name}={_written(value)}") for name, value in words.items()),
        ],
        [_picture(order)],
        Table("search-table", "All combinations, best first", [*fields, "validation loss", "spread"], rows),
        {
            "best": best,
            "val_loss": _val(runs),
            "test": {name: float(np.mean(values)) for name, values in tested.items()},
            "test_of_seeds": tested,
            "trials": [
                {"settings": chosen, "val_loss": _val(done), "val_loss_of_seeds": _last(done)}
                for chosen, done in order
            ],
        },
    )


def _picture(order: list[Trial]) -> Lines:
    series = {}
    for chosen, done in order[:4] + order[4:][-2:]:
        middle, low, high = band([one.val["loss"] for one in done])
        series[_words(chosen)] = (done[0].steps[: len(middle)], middle, low, high)
    return Lines(
        "search",
        "Validation loss of the best and the worst",
        "step",
        "loss",
        series,
        log_y=True,
        caption="Bands reach from the best to the worst seed." if len(order[0][1]) > 1 else "",
    )


def combinations(
    fields: dict[str, list[Any]], settings: SearchSettings, trials: Sequence[Trial] = ()
) -> list[dict[str, Any]]:
    """The combinations to try: all of them, or different ones at random; a pair of numbers is a range then.

    >>> len(combinations({"width": [8, 16], "depth": [2, 3, 4]}, SearchSettings()))
    6
    """
    del trials  # what came of some changes nothing for the others
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


def proposals(
    fields: dict[str, list[Any]], settings: SearchSettings, trials: Sequence[Trial]
) -> Iterator[dict[str, Any]]:
    """Combinations one after another, each by what came of those before, which `trials` holds by then.

    Whole numbers stay whole, and positive ones are searched by their logarithm. What was tried is not tried again.
    """
    ends = {name: _ends(name, values) for name, values in fields.items()}
    surrogate = SurrogateSearch(
        ends,
        logarithmic=tuple(name for name, (low, _) in ends.items() if low > 0),
        begin=max(2, min(_EVEN, settings.trials // 2)),
    )
    whole = {name for name, values in fields.items() if all(isinstance(v, int) for v in values)}
    for number in range(settings.trials):
        point = surrogate.ask(jax.random.fold_in(random.key(settings.seed, "proposals"), number))
        chosen: dict[str, Any] = {name: round(v) if name in whole else v for name, v in point.items()}
        if all(chosen != tried for tried, _ in trials):
            yield chosen
        loss = next(_val(done) for tried, done in trials if tried == chosen)
        surrogate = surrogate.tell(chosen, loss)


def _ends(name: str, values: list[Any]) -> tuple[float, float]:
    """The least and the largest of some numbers."""
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < max(2, len(values)) or not min(numbers) < max(numbers):
        raise ArgumentError(
            f"search.{name}={_written(values)}: a surrogate searches between numbers",
            remedy=f"give the ends of a range, such as search.{name}=1e-4,1e-1, or use method=random",
        )
    return min(numbers), max(numbers)


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


def _tried(settings: SearchSettings, chosen: dict[str, Any], data: sources.Data) -> list[Trained]:
    """One combination, all its seeds in one program."""
    entry = models.entry(settings.model)
    sides: dict[bool, dict[str, Any]] = {True: {}, False: {}}
    for name, value in chosen.items():
        group, _, leaf = name.partition(".")
        side = sides[group in entry.config.model_fields]
        if leaf:
            side.setdefault(group, {})[leaf] = value
        else:
            side[group] = value
    training = sides[False]
    length = {} if {"steps", "epochs"} & training.keys() else {"steps": settings.steps}
    config, steps = settled(entry.training_for(data.schema), {**training, **length}, len(data.train))
    return train_seeds(
        lambda seed: models.build(settings.model, data, seed=seed, **sides[True]),
        data,
        range(settings.seed, settings.seed + settings.seeds),
        every=max(1, steps // 10),
        **{**config.model_dump(), "steps": steps, "epochs": None},
    )


def _last(runs: list[Trained]) -> list[float]:
    """The last validation loss of every seed; one that did not stay finite loses against every other."""
    return [float(one.val["loss"][-1]) if one.is_finite else float("inf") for one in runs]


def _val(runs: list[Trained]) -> float:
    return float(np.mean(_last(runs)))


def _words(chosen: dict[str, Any]) -> str:
    return " ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in chosen.items()
    )


def _written(value: Any) -> str:
    """A value as a word of the command line.

    >>> _written((0.9, 0.99)), _written(True), _written(3e-4)
    ('0.9,0.99', 'true', '0.0003')
    """
    if isinstance(value, list | tuple):
        return ",".join(map(_written, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


experiment = Experiment(
    "Validation search: a grid or random settings, chosen on the validation split, tested once.",
    SearchSettings,
    run,
    toy={"data": "moons", "search": {"width": [4, 8]}, "steps": 10, "seeds": 2},
    reference="Bergstra and Bengio, Random search for hyper-parameter optimization, JMLR 13, 2012",
)

__all__ = ["SearchSettings", "combinations", "experiment", "flatten", "run"]
