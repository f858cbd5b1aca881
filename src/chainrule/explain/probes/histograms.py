"""Weights, gradients and outputs of one layer as histograms, at every checkpoint that a run has kept."""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random, tree
from chainrule.core.errors import ArgumentError, CapabilityError, suggest
from chainrule.core.pictures import Heatmap, Table
from chainrule.core.types import Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods import histograms, taps
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models import layer_activations
from chainrule.models.protocol import HasParts, Model, parts_of
from chainrule.train import Run
from chainrule.train.state import trainable

_MOST = 24
"""Checkpoints that are looked at, evenly spread over those there are."""


@final
class HistogramsProbeSettings(Settings):
    """Which numbers to look at, and on what."""

    layer: str = Field(
        "",
        description="layer, tensor or tap (such as a nonlinearity: blocks.0.linear.relu) by name; unless given the "
        "second affine layer, or the largest",
    )
    examples: int = Field(256, ge=1, description="training examples for outputs and gradients")


def examine(run: Run, data: Data, settings: HistogramsProbeSettings) -> Outcome:
    """Histograms of a layer over the run, and the spread of every tensor before and after."""
    count = min(settings.examples, len(data.train))
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(count)))
    found = _models(run)
    steps, first, last = list(found), next(iter(found.values())), list(found.values())[-1]
    loss = _loss(batch)
    known, hidden = _taps(first, loss)
    tensor = _tensor(first, settings.layer, known)
    slopes = _gradient(first, batch)
    weights = [_flat(dict(_weights(model))[tensor]) for model in found.values()]
    grads = [_flat(dict(tree.named_leaves(slopes(model)))[tensor]) for model in found.values()]
    outputs, idle = _outputs(list(found.values()), loss, known, settings.layer, tensor)
    shown = {"weights": weights, "gradients": grads, **outputs}
    rows = _rows(first, last, slopes(last))
    kept = "" if len(steps) > 3 else " Train with keep=100 to keep more checkpoints to look at."
    return Outcome(
        [
            f"{what.capitalize()} of {tensor}: standard deviation {values[0].std():.3g} at step {steps[0]:,} and "
            f"{values[-1].std():.3g} at step {steps[-1]:,}."
            for what, values in shown.items()
        ]
        + hidden,
        [*(_picture(what, tensor, values, steps, count, kept) for what, values in shown.items()), *idle],
        Table(
            "histograms-tensors",
            f"Every tensor at steps {steps[0]:,} and {steps[-1]:,}",
            ["tensor", "entries", "deviation first", "last", "gradient last", "zeros last"],
            rows,
        ),
        {
            "tensor": tensor,
            "steps": steps,
            **{what: [float(values.std()) for values in columns] for what, columns in shown.items()},
        },
    )


def _models(run: Run) -> dict[int, Model]:
    """The model before training, where its weights can be drawn again, and at the checkpoints."""
    known, steps = run.config["model"], run.checkpoints
    chosen = sorted({steps[i] for i in np.linspace(0, len(steps) - 1, min(_MOST, len(steps))).astype(int)})
    found = {step: run.model_at(step) for step in chosen}
    drawn = known["name"] is not None or "file" in known
    if drawn and "from" not in known and 0 not in found:
        return {0: eqx.nn.inference_mode(run.skeleton()), **found}
    return found


def _weights(model: Model) -> list[tuple[str, Any]]:
    return tree.named_leaves(eqx.filter(model, trainable(model, parts_of(model))))


def _tensor(model: Model, wanted: str, known: list[str]) -> str:
    """The tensor that is meant: the one of this name, or the largest of a layer, or of the layer before a tap."""
    sizes = {name: leaf.size for name, leaf in _weights(model)}
    names = layer_activations.layers(model)
    layer = wanted or (names[min(1, len(names) - 1)] if names else "")
    chosen = [name for name in sizes if not layer or tree.matches(name, layer)]
    if not chosen and wanted in known:  # a nonlinearity has no tensor of its own
        before = known[: known.index(wanted)]
        owner = max((name for name in before if wanted.startswith(f"{name}.")), key=len, default="")
        chosen = [name for name in sizes if tree.matches(name, owner)]
    if not chosen and wanted:
        tops = list(dict.fromkeys([*names, *known, *sizes]))
        raise ArgumentError(
            f"layer={wanted}: there is no such layer or tensor{suggest(wanted, tops)}",
            remedy=f"there are: {', '.join(tops[:8])}{', ...' if len(tops) > 8 else ''}",
        )
    return max(chosen or sizes, key=lambda name: sizes[name])


def _gradient(model: Model, batch: Batch) -> Callable[[Model], Tree]:
    """The gradient of every tensor by the loss of the part it belongs to, as one compiled function of the model."""
    moving = trainable(model, parts_of(model))
    key = random.key(0, "probe")

    @eqx.filter_jit
    def slopes(model: Model) -> Tree:
        whole = eqx.filter(model, moving)
        for part in parts_of(model):
            owned, rest = eqx.partition(part.where(model), part.where(moving))

            def objective(owned: Tree, part: Any = part, rest: Tree = rest) -> jax.Array:
                changed = eqx.tree_at(part.where, model, eqx.combine(owned, rest))
                return part.loss(changed, batch, key)[0]

            whole = eqx.tree_at(
                part.where, whole, jax.grad(objective)(owned), is_leaf=lambda leaf: leaf is None
            )
        return whole

    return slopes


def _loss(batch: Batch) -> Callable[[Model], Any]:
    key = random.key(0, "probe")
    return lambda model: model.loss(batch, key)[0]


def _taps(model: Model, loss: Callable[[Model], Any]) -> tuple[list[str], list[str]]:
    """The names of all taps, or a sentence on why there are none."""
    if isinstance(model, HasParts):
        return [], []
    try:
        return taps.names(model, loss), []
    except CapabilityError as error:
        return [], [f"Outputs of layers are not shown: {error.message}."]


def _outputs(
    found: list[Model], loss: Callable[[Model], Any], known: list[str], wanted: str, tensor: str
) -> tuple[dict[str, list[np.ndarray]], list[Table]]:
    """What the tap gives, or the layer of a tensor, and the dead and saturated units of every nonlinearity."""
    if not known:
        return {}, []
    owners = [name for name in known if tree.matches(tensor, name)]
    tap = wanted if wanted in known else max(owners, key=len, default=None)
    look = taps.observer(found[0], loss, [] if tap is None else [tap])
    seen = [look(model) for model in found]
    outputs = {} if tap is None else {"outputs": [_flat(one[tap].values) for one in seen]}
    return outputs, _idle(seen[0], seen[-1])


def _idle(first: dict[str, taps.Tap], last: dict[str, taps.Tap]) -> list[Table]:
    """Shares of units that do not learn, where there are nonlinearities that can be seen."""
    shares = {
        name: (before.dead, last[name].dead, before.saturated, last[name].saturated)
        for name, before in first.items()
        if before.dead is not None
    }
    rows: list[list[str | float | int]] = [
        [name, *("-" if one is None else f"{one:.3g}" for one in some)] for name, some in shares.items()
    ]
    columns = ["nonlinearity", "dead first", "last", "saturated first", "last"]
    return [Table("histograms-idle", "Units that do not learn, as shares", columns, rows)] if rows else []


def _flat(values: Any) -> np.ndarray:
    return np.asarray(values, np.float32).ravel()


def _rows(first: Model, last: Model, slopes: Tree) -> list[list[str | float | int]]:
    before, grads = dict(_weights(first)), dict(tree.named_leaves(slopes))
    rows: list[list[str | float | int]] = []
    for name, leaf in _weights(last):
        spreads = [float(_flat(values).std()) for values in (before[name], leaf, grads[name])]
        rows.append([name, int(leaf.size), *spreads, float((_flat(leaf) == 0).mean())])
    return rows


def _picture(
    what: str, tensor: str, values: list[np.ndarray], steps: list[int], count: int, more: str
) -> Heatmap:
    of = "" if what == "weights" else f" On {count} training examples."
    return histograms.heatmap(
        f"histogram-{what}",
        f"{what.capitalize()} of {tensor}",
        what,
        values,
        histograms.edges(values),
        steps,
        f"A column is a checkpoint; the darker, the more lie there.{of}{more}",
    )


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return bool(_weights(model))


probe = Probe(
    "Histograms of the weights, gradients and outputs of a layer at the checkpoints of a run.",
    "parameters that training moves",
    _applies,
    examine,
    HistogramsProbeSettings,
    toy={"examples": 16},
)

__all__ = ["HistogramsProbeSettings", "examine", "probe"]
