"""Activations over the first steps of training, with and without batch norm; units that are dead or saturated."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines, Picture, Table
from chainrule.data.dataset import Data
from chainrule.explain.methods import histograms, taps
from chainrule.explain.methods.taps import Tap
from chainrule.explain.methods.training import train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.models import layer_activations
from chainrule.models.protocol import Entry, Model, parts_of
from chainrule.models.wrapping import ModelFile


@final
class HistogramsSettings(Settings):
    """The network, and where and when it is watched."""

    data: str = Field("digits", description="name or path of data")
    load: dict[str, Any] = Field(default_factory=dict, description="options of the data: load.target=price")
    model: str = Field(
        "mlp", description="name of a model, or a file of yours: nets.py:Net (the file is run)"
    )
    config: dict[str, Any] = Field(default_factory=dict, description="settings of the model: config.depth=18")
    compare: dict[str, Any] = Field(
        default_factory=dict,
        description="a setting of the model and its two values: compare.batch_norm=false,true; default: with and "
        "without batch norm, where the model has normalization=",
    )
    width: int = Field(64, ge=1, description="of the mlp: units of each hidden layer")
    depth: int = Field(4, ge=2, le=50, description="of the mlp: affine layers")
    activation: Literal["relu", "tanh", "sigmoid"] = Field("relu", description="of the mlp: nonlinearity")
    layer: str = Field("", description="name of the watched tap; default: the second affine layer")
    steps: int = Field(50, ge=2, description="steps of training")
    every: int = Field(1, ge=1, description="steps between two histograms")
    batch: int = Field(64, ge=2, description="examples per step")
    lr: float = Field(0.1, gt=0, description="learning rate of plain gradient descent")
    seed: int = Field(0, ge=0, description="weights and batches")


def run(settings: HistogramsSettings, listener: Listener) -> Outcome:
    """Watch one tap, and the idle units of all, while the network learns; twice, to compare."""
    data = sources.load(settings.data, **settings.load)
    seen: dict[str, dict[int, dict[str, Tap]]] = {}
    tap: dict[str, str] = {}
    for label, model in _networks(settings, data).items():
        tap[label], seen[label] = _watched(settings, model, data)
        last = list(seen[label].values())[-1]
        idle = taps.nonlinearity_after(last, tap[label])
        said = (
            f"{100 * _idle(last[idle]):.1f} % of the units of {idle} idle at the end" if idle else "trained"
        )
        listener(f"{label}: {said}")
    return _outcome(settings, seen, tap)


def _networks(settings: HistogramsSettings, data: Data) -> dict[str, Model]:
    """The networks that are compared, by what is said of them."""
    name = settings.model
    found = ModelFile.named(name).entry() if ".py" in name else models.entry(name)
    own = {
        "width": settings.width,
        "depth": settings.depth,
        "activation": settings.activation,
        "dropout": 0.0,
    }
    shared = {**(own if name == "mlp" else {}), **settings.config}

    def make(**changed: Any) -> Model:
        chosen = {**shared, **changed}
        if ".py" not in name:
            return models.build(name, data, seed=settings.seed, **chosen)
        config = models.configured(found, chosen, f"arguments of {name}: config.NAME=VALUE")
        return found.build(config, data.schema, random.key(settings.seed, "init"))

    if settings.compare:
        setting, values = next(iter(settings.compare.items()))
        if len(settings.compare) > 1 or not isinstance(values, list | tuple) or len(values) != 2:
            raise ArgumentError(
                f"histograms(compare={settings.compare}): one setting and two values",
                remedy="compare.normalization=none,batch",
            )
        return {f"{setting}={value}": make(**{setting: value}) for value in values}
    if _has_batch_norm(found):
        return {"plain": make(normalization="none"), "batch norm": make(normalization="batch")}
    return {name: make()}


def _has_batch_norm(found: Entry) -> bool:
    """Whether batch normalisation is a setting of a model that can be switched off."""
    field = found.config.model_fields.get("normalization")
    return field is not None and {"none", "batch"} <= set(getattr(field.annotation, "__args__", ()))


def _watched(settings: HistogramsSettings, model: Model, data: Data) -> tuple[str, dict[int, dict[str, Tap]]]:
    """The tap that is watched, and all taps every few steps of a training."""
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(min(256, len(data.train)))))
    part = parts_of(model)[0]

    def loss(model: Model) -> Any:
        return part.loss(model, batch, jax.random.key(0))[0]

    tap = settings.layer or _second(model, taps.names(model, loss))
    look = taps.observer(model, loss, [tap])
    seen: dict[int, dict[str, Tap]] = {}

    def watch(step: int, model: Model) -> None:
        seen[step] = look(model)

    train(
        model,
        data,
        steps=settings.steps,
        every=min(settings.every, settings.steps),
        watch=watch,
        seed=settings.seed,
        batch=min(settings.batch, len(data.train)),
        optimizer={"name": "sgd", "lr": settings.lr},
        schedule={"name": "constant"},
    )
    return tap, seen


def _second(model: Model, known: Sequence[str]) -> str:
    """The second affine layer, or the second tap where there is none."""
    affine = [name for name in layer_activations.layers(model) if name in known] or list(known)
    return affine[min(1, len(affine) - 1)]


def _idle(tap: Tap) -> float:
    """The share of units that do not learn."""
    return (tap.dead or 0.0) + (tap.saturated or 0.0)


def _outcome(
    settings: HistogramsSettings, seen: Mapping[str, dict[int, dict[str, Tap]]], tap: Mapping[str, str]
) -> Outcome:
    columns = {
        label: [np.ravel(found[tap[label]].values) for found in by_step.values()]  # type: ignore[arg-type]
        for label, by_step in seen.items()
    }
    steps = list(next(iter(seen.values())))
    bins = histograms.edges([values for some in columns.values() for values in some])
    pictures: list[Picture] = [
        histograms.heatmap(
            f"histogram-{label.replace(' ', '-').replace('=', '-')}",
            f"{tap[label]}, {label}",
            "value",
            values,
            bins,
            steps,
            "Darker: more of the values at this tap.",
        )
        for label, values in columns.items()
    ]
    bends = {label: taps.nonlinearity_after(by_step[steps[0]], tap[label]) for label, by_step in seen.items()}
    curves = {
        label: (np.array(steps), np.array([_idle(found[bend]) for found in by_step.values()]))
        for (label, by_step), bend in zip(seen.items(), bends.values(), strict=True)
        if bend is not None
    }
    if curves:
        pictures.append(
            Lines(
                "idle-units",
                "Share of dead or saturated units",
                "step",
                "share",
                curves,
                caption="Of the first nonlinearity after the tap.",
            )
        )
    pictures.append(_every_nonlinearity(seen))
    numbers: dict[str, Any] = {}
    for label, values in columns.items():
        idle = [float(curves[label][1][i]) for i in (0, -1)] if label in curves else [None, None]
        numbers[label] = {
            **{"std_first": float(values[0].std()), "std_last": float(values[-1].std())},
            **{"idle_first": idle[0], "idle_last": idle[1], "idle_tap": bends[label]},
            **{"tap": tap[label], "taps": list(seen[label][steps[0]])},
        }
    return Outcome(_findings(settings, numbers), pictures, numbers=numbers)


def _findings(settings: HistogramsSettings, numbers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    findings = []
    for label, seen in numbers.items():
        idle = seen["idle_last"]
        end = "" if idle is None else f"; {100 * idle:.1f} % of the units of {seen['idle_tap']} are idle then"
        findings.append(
            f"{label}: standard deviation of {seen['tap']} {seen['std_first']:.3g} before training and "
            f"{seen['std_last']:.3g} after {settings.steps} steps{end}."
        )
    if len(numbers) == 1:
        findings.append(
            f"{settings.model} has no normalization=none,batch to compare; any setting will do: compare.NAME=A,B."
        )
    first = next(iter(numbers.values()))
    others = [name for name in first["taps"] if name != first["tap"]]
    more = f" and {len(others) - 6} more in numbers.json" if len(others) > 6 else ""
    return [*findings, f"Other taps (layer=NAME): {', '.join(others[:6])}{more}."]


def _every_nonlinearity(seen: Mapping[str, dict[int, dict[str, Tap]]]) -> Table:
    """Dead and saturated shares of every nonlinearity before and after training."""
    rows: list[list[str | float]] = []
    for label, by_step in seen.items():
        first, last = (list(by_step.values())[i] for i in (0, -1))
        for name, before in first.items():
            after = last[name]
            if before.dead is not None and after.dead is not None:
                saturated = [
                    "-" if one.saturated is None else f"{one.saturated:.3g}" for one in (before, after)
                ]
                rows.append([label, name, before.dead, after.dead, *saturated])
    columns = ["network", "nonlinearity", "dead before", "after", "saturated before", "after"]
    return Table("histograms-table", "Units that do not learn, as shares", columns, rows)


experiment = Experiment(
    "Activations of any network over the first steps of training, with and without batch norm; dead units.",
    HistogramsSettings,
    run,
    toy={"steps": 6, "every": 2, "width": 8, "depth": 3, "data": "moons", "batch": 16},
    reference="Ioffe and Szegedy, Batch normalization, 2015, arXiv:1502.03167",
)

__all__ = ["HistogramsSettings", "experiment", "run"]
