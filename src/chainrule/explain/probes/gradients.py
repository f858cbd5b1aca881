"""Gradients of a trained model tensor by tensor, beside the size of the weights."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random, tree
from chainrule.core.pictures import Bars, Table
from chainrule.core.types import Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import NoSettings, Outcome, Probe
from chainrule.models.protocol import HasOwnTraining, Model, Part, parts_of
from chainrule.train import Run
from chainrule.train.state import trainable


def examine(run: Run, data: Data, settings: NoSettings) -> Outcome:
    """Root mean squares of every weight and of its gradient on one training batch."""
    del settings
    model, config = run.model, run.settings
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(min(config.batch, len(data.train)))))
    rows: list[list[str | float]] = []
    several = len(parts_of(model)) > 1  # whose tensors may have the same names
    for part in parts_of(model):
        before = f"{part.name}." if several else ""
        grads = _gradient(model, part, batch)
        weights = dict(
            tree.named_leaves(eqx.filter(part.where(model), part.where(trainable(model, parts_of(model)))))
        )
        for name, grad in tree.named_leaves(grads):
            root = math.sqrt(max(grad.size, 1))
            weight, slope = float(tree.norm(weights[name])) / root, float(tree.norm(grad)) / root
            rows.append([before + name, weight, slope, slope / weight if weight else math.inf])
    order = sorted(rows, key=lambda row: -float(row[2]))
    picture = Bars(
        "gradient-ratio",
        "Gradient over weight, tensor by tensor",
        "tensor",
        "ratio of root mean squares",
        [str(row[0]) for row in rows],
        {"ratio": np.array([float(row[3]) for row in rows])},
        caption=f"On a batch of {len(batch.x)} training examples at step {run.step:,}. Times the learning rate, "
        "this is the share by which plain descent would move each tensor.",
    )
    return Outcome(
        [
            f"The largest gradient is that of {order[0][0]} (root mean square {float(order[0][2]):.3g}), the "
            f"smallest that of {order[-1][0]} ({float(order[-1][2]):.3g})."
        ],
        [picture],
        Table("gradients-table", "Weights and gradients", ["tensor", "weight", "gradient", "ratio"], rows),
        {
            # A weight that is zero has no ratio, and JSON no infinity.
            str(row[0]): {"weight": row[1], "gradient": row[2], "ratio": row[3] if row[1] else None}
            for row in rows
        },
    )


def _gradient(model: Model, part: Part, batch: Batch) -> Tree:
    owned, rest = eqx.partition(part.where(model), part.where(trainable(model, parts_of(model))))

    def objective(owned: Tree) -> jax.Array:
        whole = eqx.tree_at(part.where, model, eqx.combine(owned, rest))
        return part.loss(whole, batch, random.key(0, "probe"))[0]

    return eqx.filter_jit(jax.grad(objective))(owned)


def _applies(model: Model, schema: Schema) -> bool:
    """Not to models that are solved for: no gradient moved their numbers, or will."""
    del schema
    return not isinstance(model, HasOwnTraining)


probe = Probe(
    "Size of every weight and of its gradient on a training batch.",
    "models that are trained by gradients",
    _applies,
    examine,
)

__all__ = ["examine", "probe"]
