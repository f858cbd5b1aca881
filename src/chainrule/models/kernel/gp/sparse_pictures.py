"""Pictures of Gaussian processes by inducing inputs: what was learnt, where these lie, the band of the function."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Lines, Picture, Scatter, Table
from chainrule.core.types import Array
from chainrule.data.dataset import Data
from chainrule.kernels.gaussian_processes.likelihoods import GaussianLikelihood, Predicted

if TYPE_CHECKING:
    from chainrule.models.kernel.gp.sparse import SparseModel

_GRID = 200
_DOTS = 1000
_REACH = 1.645
"""Standard deviations to either side that hold 90 % of a normal variable."""


def all_of(model: "SparseModel", data: Data) -> Sequence[Picture]:
    """What these data can show."""
    found: list[Picture] = [learnt(model)]
    features = model.schema.dimensions
    if features == 1 and isinstance(model.process.likelihood, GaussianLikelihood):
        found.append(band(model, data))
    if features == 1:
        found.append(moves(model, data))
    if 2 <= features <= 100:
        found.append(locations(model, data))
    return found


def learnt(model: "SparseModel") -> Table:
    """Noise, spread of the function and number of inducing inputs."""
    process = model.process
    spread = float(np.sqrt(np.asarray(process.kernel.diagonal(process.inducing)).mean()))
    rows: list[list[str | float | int]] = [
        ["inducing inputs", len(process.inducing)],
        ["training examples", int(model.examples)],
        ["function, standard deviation", float(f"{spread:.4g}")],
    ]
    if isinstance(process.likelihood, GaussianLikelihood):
        noise = float(np.exp(0.5 * np.asarray(process.likelihood.log_noise)))
        rows.append(["noise, standard deviation", float(f"{noise:.4g}")])
    caption = "In model units; learnt by the evidence lower bound."
    return Table("hyper-parameters", "Hyper-parameters", ["what", "value"], rows, caption=caption)


def _examples(model: "SparseModel", data: Data) -> tuple[np.ndarray, np.ndarray]:
    some = np.unique(np.linspace(0, len(data.train) - 1, min(len(data.train), _DOTS)).astype(int))
    batch = data.train.batch(some)
    return np.asarray(batch.x).reshape(len(some), *model.schema.shape), np.asarray(batch.y)


def _inputs(model: "SparseModel", data: Data, x: np.ndarray) -> np.ndarray:
    """In the units of the data, one row each."""
    shaped = x.reshape(len(x), *model.schema.shape).astype(np.float32)
    return np.asarray(data.inverse(shaped), np.float64).reshape(len(x), -1)


@eqx.filter_jit
def _predicted(model: "SparseModel", x: Array) -> tuple[Predicted, Array]:
    marginals = model.marginals(x)
    return model.precise().likelihood.predictive(*marginals), marginals.variance[:, 0]


def band(model: "SparseModel", data: Data) -> Lines:
    """The function along the one column, 90 % of it and of new observations, and where inducing inputs are."""
    x, y = _examples(model, data)
    low, high = x.min(), x.max()
    margin = 0.1 * max(high - low, 1e-9)
    along = np.linspace(low - margin, high + margin, _GRID, dtype=np.float32)
    found, variance = _predicted(model, jnp.asarray(along.reshape(_GRID, *model.schema.shape)))
    mean = np.asarray(found.mean, np.float64)

    def values(a: np.ndarray) -> np.ndarray:
        shaped = np.asarray(a, np.float64).reshape(len(a), *model.schema.target_shape)
        back = shaped if data.target_scaling is None else data.target_scaling.inverse(shaped)
        return np.asarray(back).reshape(-1)

    def ends(spread: Array) -> list[np.ndarray]:
        reach = _REACH * np.sqrt(np.asarray(spread, np.float64))
        return [values(mean - reach), values(mean + reach)]

    at = _inputs(model, data, along)[:, 0]
    middle = values(mean)
    placed = np.sort(_inputs(model, data, np.asarray(model.process.inducing))[:, 0])
    bottom = np.full(len(placed), min(values(y).min(), ends(found.variance)[0].min()))
    name = model.schema.columns[0] if len(model.schema.columns) == 1 else "x"
    return Lines(
        "band",
        "Prediction",
        name,
        "target",
        {
            "observation": (at, middle, *ends(found.variance)),
            "function": (at, middle, *ends(variance)),
            "inducing inputs": (placed, bottom),
        },
        dots=(_inputs(model, data, x)[:, 0], values(y)),
        caption="The wide band holds 90 % of new observations, the narrow one the function with 90 % probability; dots "
        "are training examples, the line at the bottom spans the inducing inputs.",
    )


def moves(model: "SparseModel", data: Data) -> Lines:
    """Where inducing inputs began along the only column, and where training left them."""
    began, ended = (
        _inputs(model, data, np.asarray(z))[:, 0] for z in (model.beginning(data), model.process.inducing)
    )
    name = model.schema.columns[0] if len(model.schema.columns) == 1 else "x"
    at = np.array([0.0, 1.0])
    spread = float(np.std(began)) or 1.0
    moved = float(np.sqrt(np.square(ended - began).mean()))
    return Lines(
        "inducing-inputs",
        "How training moved the inducing inputs",
        "share of training",
        name,
        {"mean": (at, np.array([began.mean(), ended.mean()]))},
        threads=(at, np.stack([began, ended], axis=1)),
        caption=f"From means of clusters of training examples to where the bound is higher: by {moved:.3g}, which is "
        f"{moved / spread:.2g} of their spread (root mean squares).",
    )


def locations(model: "SparseModel", data: Data) -> Scatter:
    """Training examples and inducing inputs along the two columns that vary most."""
    x, _ = _examples(model, data)
    seen = x.reshape(len(x), -1)
    first, second = np.sort(np.argsort(-seen.std(axis=0), kind="stable")[:2]).tolist()
    given = model.schema.columns
    names = given if len(given) == seen.shape[1] else [f"x{i + 1}" for i in range(seen.shape[1])]
    shown, began, ended = (
        _inputs(model, data, np.asarray(z))[:, [first, second]]
        for z in (seen, model.beginning(data), model.process.inducing)
    )
    return Scatter(
        "inducing-inputs",
        "Where the inducing inputs began, and where they are",
        names[first],
        names[second],
        {"examples": shown, "inducing inputs": ended},
        arrows=(began, ended - began),
        caption="Arrows lead from where they began, the means of clusters of training examples, to where the gradient "
        "of the bound moved them.",
    )


__all__ = ["all_of", "band", "learnt", "locations", "moves"]
