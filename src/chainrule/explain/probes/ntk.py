"""The tangent kernel of a trained network: spectrum, what layers add to it, labels in it, and how training moved it.

The kernel says which examples a step of gradient descent on one of them moves along. Its large eigenvalues belong to
what is learnt fast; where it is aligned with the labels, learning the labels is fast. In very wide networks training
leaves it as it is, so how far it moved says how far a network is from that limit.

References: Jacot, Gabriel and Hongler, Neural tangent kernel, 2018, arXiv:1806.07572; alignment of centred kernels:
Cortes, Mohri and Rostamizadeh, Algorithms for learning kernels based on centered alignment, JMLR 13, 2012; effective
rank: Roy and Vetterli, The effective rank, EUSIPCO 2007.
"""

from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule import models
from chainrule.core import tree
from chainrule.core.pictures import Bars, Heatmap, Lines, Picture, Table
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.kernels.empirical import layer_shares, ntk_by_layer
from chainrule.models.protocol import HasLogits, HasOwnTraining, HasPredictiveDistribution, Model, parts_of
from chainrule.train import Run
from chainrule.train.state import trainable

_NOTHING = 1e-10
"""Share of the trained kernel's size below which the one at the start is rounding alone."""


@final
class NtkSettings(Settings):
    """The examples."""

    examples: int = Field(64, ge=2, le=5000, description="training examples, spread evenly over all of them")
    memory: str | None = Field(
        None, description='most scratch memory, e.g. "2GiB"; none: a quarter of what is free'
    )


class TangentKernel(NamedTuple):
    """A kernel over examples, and what each layer adds to its trace."""

    matrix: np.ndarray
    shares: dict[str, float]
    values: np.ndarray
    """Eigenvalues, largest first."""

    @property
    def first_share(self) -> float:
        """What the largest eigenvalue holds of the trace."""
        return float(self.values[0]) / max(float(self.values.sum()), 1e-300)

    @property
    def rank(self) -> float:
        """The effective rank: the exponential of the entropy of the eigenvalues' shares."""
        shares = np.maximum(self.values, 0) / max(np.maximum(self.values, 0).sum(), 1e-300)
        shares = shares[shares > 0]
        return float(np.exp(-(shares * np.log(shares)).sum()))


def examine(run: Run, data: Data, settings: NtkSettings) -> Outcome:
    """The kernel of some training examples, after training and, where its beginning is known, before."""
    batch, order = _examples(data, settings.examples)
    x, labels = jnp.asarray(batch.x), _coded(run.schema, np.asarray(batch.y))
    now = kernel(run.model, x, settings.memory)
    aligned = {"trained": alignment(now.matrix, labels @ labels.T)}
    first, said = initial(run, data)
    before = None if first is None else kernel(first, x, settings.memory)
    if before is not None and np.linalg.norm(before.matrix) <= _NOTHING * np.linalg.norm(now.matrix):
        before = None
        said = ["At the start nothing that gradients train moved an output: nothing is compared."]
    kernels = {"trained": now}
    findings = [
        f"Of {len(x)} training examples the tangent kernel has the effective rank {now.rank:.3g}; its largest "
        f"eigenvalue holds {now.first_share:.1%} of the trace.",
        _said_of_layers(now.shares),
    ]
    numbers: dict[str, Any] = {}
    if before is None:
        findings.append(f"Its alignment with the labels is {aligned['trained']:.3g}.")
    else:
        kernels["at the start"] = before
        aligned["at the start"] = alignment(before.matrix, labels @ labels.T)
        size, first_size, moved = (
            float(np.linalg.norm(m)) for m in (now.matrix, before.matrix, now.matrix - before.matrix)
        )
        drift = moved / max(first_size, 1e-300)
        turned = 1 - float((now.matrix * before.matrix).sum()) / max(size * first_size, 1e-300)
        findings += [
            f"Its alignment with the labels is {aligned['trained']:.3g}, at the start it was "
            f"{aligned['at the start']:.3g}.",
            f"Training moved it by {drift:.3g} of its size at the start, and turned it by {turned:.3g} (one minus the "
            "cosine between both); in the limit of infinite width it stays.",
        ]
        numbers |= {"drift": drift, "turned": turned}
    numbers |= {
        name: {
            "effective_rank": one.rank,
            "eigenvalues": one.values.tolist(),
            "alignment": aligned[name],
            "shares": one.shares,
        }
        for name, one in kernels.items()
    }
    return Outcome([*findings, *said], _pictures(kernels, order), _table(kernels), numbers)


def kernel(model: Model, x: Any, memory: str | None = None) -> TangentKernel:
    """The tangent kernel of a model's logits or values, outputs summed over, by what gradients train."""
    learnt = jax.tree.map(lambda leaf, own: leaf if own else None, model, trainable(model, parts_of(model)))
    names = frozenset(tree.names(learnt))
    parts = ntk_by_layer(model, None, x, where=lambda name: name in names, memory=memory)
    matrix = np.sum([np.asarray(part, np.float64) for part in parts.values()], axis=0)
    matrix = (matrix + matrix.T) / 2
    return TangentKernel(matrix, layer_shares(parts), np.linalg.eigvalsh(matrix)[::-1])


def alignment(a: np.ndarray, b: np.ndarray) -> float:
    """The cosine between two kernels after centring, 0 where one of them is constant.

    >>> alignment(np.eye(3), 2 * np.eye(3))
    1.0
    """
    centred = [k - k.mean(axis=0, keepdims=True) - k.mean(axis=1, keepdims=True) + k.mean() for k in (a, b)]
    size = float(np.linalg.norm(centred[0]) * np.linalg.norm(centred[1]))
    return round(float((centred[0] * centred[1]).sum()) / size, 12) if size else 0.0


def initial(run: Run, data: Data) -> tuple[Model | None, list[str]]:
    """The model as training began with it, where the run tells; and where it does not, why not."""
    if 0 in run.checkpoints:
        return run.model_at(0), []
    described = run.config["model"]
    if described.get("name") is None or "file" in described:
        return None, ["How it began is not known: the network is code of a user's own."]
    if "from" in described:
        return None, ["How it began is not compared: the run began with another one."]
    made = models.build(described["name"], data, seed=run.settings.seed, **described["settings"])
    return made, [f"The start is what the seed of the run ({run.settings.seed}) draws."]


def _examples(data: Data, count: int) -> tuple[Any, np.ndarray]:
    """Training examples spread over the split, and their order by label."""
    chosen = np.unique(np.linspace(0, len(data.train) - 1, min(count, len(data.train))).round().astype(int))
    batch = data.train.batch(chosen)
    y = np.asarray(batch.y).reshape(len(chosen), -1)
    return batch, np.lexsort(y.T[::-1])


def _coded(schema: Schema, y: np.ndarray) -> np.ndarray:
    """Labels as numbers: one column for each class, or values as they are."""
    if targets.of(schema).link == "softmax":
        return np.eye(len(schema.classes))[y]
    return y.reshape(len(y), -1).astype(np.float64)


def _said_of_layers(shares: dict[str, float]) -> str:
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    top = ", ".join(f"{name} {share:.1%}" for name, share in ranked[:3])
    return f"Of its trace layers hold: {top}" + (
        f"; {len(ranked) - 3} others the rest." if len(ranked) > 3 else "."
    )


def _pictures(kernels: dict[str, TangentKernel], order: np.ndarray) -> list[Picture]:
    now = kernels["trained"]
    scale = np.sqrt(np.maximum(np.diagonal(now.matrix), 1e-300))
    cosines = (now.matrix / (scale[:, None] * scale[None, :]))[np.ix_(order, order)]
    spectra = {}
    for name, one in kernels.items():
        positive = one.values[one.values > 1e-7 * max(one.values[0], 1e-300)]
        spectra[name] = (np.arange(1.0, len(positive) + 1), positive)
    layers = list(now.shares)
    return [
        Lines(
            "ntk-spectrum",
            "Eigenvalues of the tangent kernel",
            "number",
            "eigenvalue",
            spectra,
            log_x=True,
            log_y=True,
        ),
        Heatmap(
            "ntk-by-label",
            "Cosines between gradients, examples sorted by label",
            "example",
            "example",
            cosines,
            diverging=True,
            caption="Blocks along the diagonal are examples of one label that are learnt together.",
        ),
        Bars(
            "ntk-layers",
            "What layers add to the tangent kernel",
            "layer",
            "share of the trace",
            layers,
            {
                name: np.array([one.shares.get(layer, 0.0) for layer in layers])
                for name, one in kernels.items()
            },
        ),
    ]


def _table(kernels: dict[str, TangentKernel]) -> Table:
    rows: list[list[str | float]] = [
        [layer, *(one.shares.get(layer, 0.0) for one in kernels.values())]
        for layer in kernels["trained"].shares
    ]
    return Table("ntk-shares", "Shares of the trace by layer", ["layer", *kernels], rows)


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    named = isinstance(model, HasLogits | HasPredictiveDistribution)
    return named and not isinstance(model, HasOwnTraining)


probe = Probe(
    "The tangent kernel: spectrum, shares of layers, alignment with labels, how far training moved it.",
    "what follows a gradient and gives logits or values: a network, or gp method=sparse",
    _applies,
    examine,
    NtkSettings,
    toy={"examples": 6},
)

__all__ = ["NtkSettings", "TangentKernel", "alignment", "examine", "initial", "kernel", "probe"]
