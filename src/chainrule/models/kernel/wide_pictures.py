"""Pictures of networks of infinite width: what they take for alike, what more examples bring, how sure they are."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.pictures import Heatmap, Lines, Picture
from chainrule.core.types import Array, Key
from chainrule.data import targets
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.kernels.infinite import kernel_matrices
from chainrule.models.kernel import gram_pictures, keeping
from chainrule.models.kernel.settings import rows
from chainrule.models.kernel.wide_training import applied, descended, to_the_end
from chainrule.models.protocol import CanPredict, HasPredictiveDistribution

if TYPE_CHECKING:
    from chainrule.models.kernel.wide import WideNetwork

_GRID = 200
"""Positions along the only column."""
_HELD = 500
"""Held-out examples that are predicted."""
_LEARNT = 1000
"""Kept examples, at most, from which parts are learnt."""
_PARTS = 6
"""Sizes of parts, each twice the one before."""
_SHOWN = 120
"""Examples whose probabilities are shown."""
_REACH = 1.645
"""Standard deviations to either side that hold 90 % of a normal variable."""


def all_of(model: "WideNetwork", data: Data, key: Key) -> Sequence[Picture]:
    """What these data can show."""
    gram = functools.partial(correlations, model)
    found: list[Picture] = [
        gram_pictures.similarities(gram, data),
        gram_pictures.spectrum(gram, data, len(model.points)),
    ]
    if len(data.val):
        found.append(by_training_size(model, data, key))
        if targets.of(data.schema).one_class:
            found.append(certainty(model, data))
    if isinstance(model, HasPredictiveDistribution) and data.schema.dimensions == 1:
        found.append(band(model, data))
    return found


def kernel(model: "WideNetwork", x: np.ndarray, y: np.ndarray | None = None) -> np.ndarray:
    """The kernel of examples as rows, of the inputs less the mean, in double precision."""
    middle = np.asarray(model.center, np.float64)
    batches = [(rows(a) - middle).reshape(len(a), *model.input_shape) for a in (x, y) if a is not None]
    found = kernel_matrices(model.network(), *batches, ntk=model.config.tangent)
    return np.asarray(found.ntk if model.config.tangent else found.nngp)


def correlations(model: "WideNetwork", x: np.ndarray) -> np.ndarray:
    """The kernel over the roots of its diagonal: of examples with like directions, whatever their lengths."""
    matrix = kernel(model, x)
    roots = np.sqrt(np.diagonal(matrix))
    return matrix / np.outer(roots, roots)


@eqx.filter_jit
def _predict(model: CanPredict, x: Array) -> Array:
    return model.predict(x)


def _held(data: Data) -> Batch:
    return data.val.batch(keeping.spread(len(data.val), _HELD))


def by_training_size(model: "WideNetwork", data: Data, key: Key) -> Lines:
    """What validation examples cost when fewer training examples are learnt from, with the ridge as it is."""
    some = keeping.drawn(key, len(data.train), min(_LEARNT, len(model.points)))
    # In any order: parts are the first of them.
    some = np.random.default_rng(0).permutation(some)
    batch, held = data.train.batch(some), _held(data)
    matrix, cross = kernel(model, rows(batch.x)), kernel(model, rows(held.x), rows(batch.x))
    ridge = float(model.ridge) * float(np.diagonal(matrix).mean())
    sizes = sorted({max(2, len(some) >> part) for part in range(_PARTS)})
    errors = []
    for size in sizes:
        known, offset = model.values_of(np.asarray(batch.y)[:size])
        part, time = matrix[:size, :size], model.config.time
        if time is None:
            coefficients = to_the_end(part, known, np.ones(size), ridge).coefficients
        else:
            coefficients = applied(descended(part, part, known, np.arange(size), ridge, time), known)
        errors.append(_error(data, held, cross[:, :size] @ coefficients + offset))
    classes = targets.of(data.schema).one_class
    return Lines(
        "training-size",
        "What more training examples bring",
        "training examples",
        "share that is wrong" if classes else "root mean squared error, units of the data",
        {f"{len(held.x)} validation examples": (np.array(sizes, float), np.array(errors))},
        log_x=True,
        log_y=min(errors) > 0,
        caption="Learnt from parts of the training examples in closed form, with the ridge of all of them.",
    )


def _error(data: Data, held: Batch, outputs: Float[np.ndarray, "rows outputs"]) -> float:
    y = np.asarray(held.y)
    if targets.of(data.schema).one_class:
        return float((outputs.argmax(axis=1) != y).mean())
    found, true = (_in_units(data, a.reshape(len(y), *data.schema.target_shape)) for a in (outputs, y))
    return float(np.sqrt(np.square(found - true).mean()))


def _in_units(data: Data, values: np.ndarray) -> np.ndarray:
    """Values of the target in the units of the data."""
    exact = np.asarray(values, np.float64)
    return exact if data.target_scaling is None else np.asarray(data.target_scaling.inverse(exact))


def certainty(model: CanPredict, data: Data) -> Heatmap:
    """Probabilities of validation examples, by true class and then from sure to unsure."""
    batch = data.val.batch(keeping.spread(len(data.val), _SHOWN))
    found = np.asarray(_predict(model, jnp.asarray(batch.x)))
    y = np.asarray(batch.y)
    order = np.lexsort((-found[np.arange(len(y)), y], y))
    names = data.schema.classes
    return Heatmap(
        "certainty",
        "Predicted classes and how sure they are",
        "validation example, by its true class",
        "probability",
        found[order].T,
        rows=list(names),
        columns=[names[int(i)] for i in y[order]],
        caption=f"{len(y)} validation examples, those of each class from the surest to the least sure.",
    )


def band(model: HasPredictiveDistribution, data: Data) -> Lines:
    """Values along the only column, with the intervals that hold 90 % of new ones."""
    some = data.train.batch(keeping.spread(len(data.train), _HELD))
    seen = rows(some.x)[:, 0]
    margin = 0.1 * max(float(np.ptp(seen)), 1e-9)
    along = np.linspace(seen.min() - margin, seen.max() + margin, _GRID)
    middle, scale = (
        np.asarray(a, np.float64) for a in _normal(model, jnp.asarray(along[:, None], jnp.float32))
    )

    def column(values: Float[np.ndarray, "rows ..."]) -> np.ndarray:
        return _in_units(data, values).reshape(len(values), -1)[:, 0]

    def position(values: Float[np.ndarray, " rows"]) -> np.ndarray:
        shaped = values.astype(np.float32).reshape(-1, *data.schema.shape)
        return np.asarray(data.inverse(shaped), np.float64).reshape(-1)

    return Lines(
        "band",
        "Prediction",
        data.schema.columns[0] if data.schema.columns else "x",
        data.reading.targets[0] if data.reading is not None and data.reading.targets else "target",
        {"prediction": (position(along), *(column(middle + s * scale) for s in (0.0, -_REACH, _REACH)))},
        dots=(position(seen), column(np.asarray(some.y, np.float64))),
        caption="The band holds 90 % of new values; dots are training examples.",
    )


@eqx.filter_jit
def _normal(model: HasPredictiveDistribution, x: Array) -> tuple[Array, Array]:
    found = model.predictive(x)
    return found.mean, jnp.sqrt(found.variance)


__all__ = ["all_of", "band", "by_training_size", "certainty", "correlations", "kernel"]
