"""Pictures of a Gaussian process: bands, scales of columns, the evidence around what was learnt, targets left out."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.linalg import eigh

from chainrule.core import tree
from chainrule.core.formatting import number
from chainrule.core.pictures import Bars, Lines, Picture, Scatter, Table
from chainrule.core.types import Array
from chainrule.data.dataset import Data
from chainrule.kernels import Kernel
from chainrule.kernels.functions import Constant, Product, Sum
from chainrule.kernels.functions.stationary import Stationary
from chainrule.kernels.host import Lower
from chainrule.kernels.precision import in_double

if TYPE_CHECKING:
    from chainrule.models.kernel.gp.function import GPFunction
    from chainrule.models.kernel.gp.laplace import LaplaceGPClassifier
    from chainrule.models.kernel.gp.model import GPRegressor

_GRID = 200
"""Positions along a column."""
_COLUMNS = 3
"""Columns whose bands are drawn, those that matter most."""
_BARS = 30
_SURFACE = 25
"""Values of each hyper-parameter of the surface."""
_EXAMPLES = 300
"""Kept examples by which the surface is computed."""
_DOTS = 1000
_FACTOR = 1.5
"""Half the width of the surface, in powers of ten."""
_REACH = 1.645
"""Standard deviations to either side that hold 90 % of a normal variable."""


def all_of(model: "GPFunction", data: Data) -> Sequence[Picture]:
    """What these data can show of any process of values."""
    found: list[Picture] = [hyperparameters(model, data)]
    if model.schema.dimensions <= 100:
        found += [band(model, data, column) for column in _most_relevant(model, data)]
    scales = column_scales(model)
    if scales is not None:
        found.append(relevance(model, scales, _spread(model, data)))
    return [*found, evidence_surface(model, data)]


def column_scales(model: "GPFunction | LaplaceGPClassifier") -> Float[np.ndarray, " features"] | None:
    """The scale of every column, where each has its own."""
    stationary = stationary_part(model.kernel)
    if stationary is None or not stationary.scale.ndim:
        return None
    return np.asarray(stationary.scale, np.float64)


def stationary_part(kernel: Kernel) -> Stationary | None:
    """The kernel of the distance, where there is one beside the variance."""
    if isinstance(kernel, Product) and isinstance(kernel.first, Constant):
        return stationary_part(kernel.second)
    return kernel if isinstance(kernel, Stationary) else None


def numbers_of(kernel: Kernel) -> list[tuple[str, float]]:
    """Numbers of the parts of a kernel by their names; scales of columns are left out.

    >>> from chainrule.kernels import RBF, Periodic
    >>> [name for name, _ in numbers_of(Constant(2.0) * RBF(1.0) + Periodic(1.0, 3.0))]
    ['variance', 'RBF scale', 'Periodic scale', 'Periodic period']
    """
    if isinstance(kernel, Sum | Product):
        return [*numbers_of(kernel.first), *numbers_of(kernel.second)]
    if isinstance(kernel, Constant):
        return [("variance", float(kernel.value))]
    found = []
    for name, leaf in tree.named_leaves(kernel):
        if leaf.size == 1:
            given = float(np.asarray(leaf).reshape(()))
            shown = math.exp(given) if name.startswith("log_") else given
            found.append(
                (f"{type(kernel).__name__.removesuffix('Kernel')} {name.removeprefix('log_')}", shown)
            )
    return found


def _names(model: "GPFunction | LaplaceGPClassifier") -> list[str]:
    count = model.schema.dimensions
    given = list(model.schema.columns)
    return given if len(given) == count else [f"x{i + 1}" if count > 1 else "x" for i in range(count)]


def _most_relevant(model: "GPFunction", data: Data) -> list[int]:
    scales = column_scales(model)
    if scales is None:
        return [0] if model.schema.dimensions == 1 else []
    spread = _spread(model, data)
    return np.argsort(-spread / scales, kind="stable")[:_COLUMNS].tolist()


def _spread(model: "GPFunction", data: Data) -> Float[np.ndarray, " features"]:
    """The standard deviation of every column."""
    return np.asarray(model.known(data)[0], np.float64).std(axis=0)


def _outputs(model: "GPFunction", data: Data, values: np.ndarray) -> np.ndarray:
    """Values of all outputs in the units of the data, one column each."""
    shaped = np.asarray(values, np.float64).reshape(len(values), *model.schema.target_shape)
    back = shaped if data.target_scaling is None else data.target_scaling.inverse(shaped)
    return np.asarray(back).reshape(len(values), -1)


def hyperparameters(model: "GPFunction", data: Data) -> Table:
    """What was learnt, in the units of the model and, of variances, in those of the data."""
    unit = 1.0
    if data.target_scaling is not None:
        unit = float(np.mean(1 / np.abs(np.asarray(data.target_scaling.factor))))
    points, _ = model.known(data)
    noise = float(np.exp(model.log_noise))
    rows: list[list[str | float | int]] = [
        ["noise, standard deviation", float(f"{noise**0.5:.4g}"), float(f"{noise**0.5 * unit:.4g}")]
    ]
    spread = float(np.sqrt(np.asarray(model.kernel.diagonal(jnp.asarray(points))).mean()))
    rows.append(["function, standard deviation", float(f"{spread:.4g}"), float(f"{spread * unit:.4g}")])
    stationary = stationary_part(model.kernel)
    if stationary is None:
        rows += [[name, float(f"{value:.4g}"), ""] for name, value in numbers_of(model.kernel)]
    elif not stationary.scale.ndim:
        rows.append(["scale", float(f"{float(stationary.scale):.4g}"), ""])
    caption = f"Learnt from {len(points):,} training examples by {model.config.objective}."
    if not model.config.learn:
        caption = f"As they were given, with {len(points):,} training examples."
    columns = ["hyper-parameter", "model units", "units of the data"]
    return Table("hyper-parameters", "Hyper-parameters", columns, rows, caption=caption)


@eqx.filter_jit
def _latent(model: "GPFunction", x: Array) -> tuple[Array, Array]:
    return model.latent(x)


def band(model: "GPFunction", data: Data, column: int) -> Lines:
    """The first output along one column: the function and a new observation, 90 % of each."""
    examples, values = model.known(data)
    points = np.asarray(examples, np.float64)
    low, high = points[:, column].min(), points[:, column].max()
    margin = 0.1 * max(high - low, 1e-9)
    along = np.linspace(low - margin, high + margin, _GRID)
    x = np.repeat(np.median(points, axis=0)[None], _GRID, axis=0)
    x[:, column] = along
    mean, variance = (np.asarray(a, np.float64) for a in _latent(model, jnp.asarray(x, examples.dtype)))
    total = variance + float(np.exp(model.log_noise))

    def ends(spread: np.ndarray) -> list[np.ndarray]:
        reach = _REACH * np.sqrt(spread)[:, None]
        return [_outputs(model, data, mean + sign * reach)[:, 0] for sign in (-1, 1)]

    shaped = x.reshape(_GRID, *model.schema.shape)
    at = np.asarray(data.inverse(shaped.astype(np.float32)), np.float64).reshape(_GRID, -1)[:, column]
    middle = _outputs(model, data, mean)[:, 0]
    some = np.unique(np.linspace(0, len(points) - 1, min(len(points), _DOTS)).astype(int))
    kept = np.asarray(data.inverse(examples[some].reshape(-1, *model.schema.shape)), np.float64)
    dots = kept.reshape(len(some), -1)[:, column], _outputs(model, data, values[some])[:, 0]
    name, several = _names(model)[column], model.schema.dimensions > 1
    others = (
        " All other columns are at their medians, so that examples lie around the curve." if several else ""
    )
    return Lines(
        f"band-{column}",
        f"Prediction along {name}" if several else "Prediction",
        name,
        data.reading.targets[0] if data.reading is not None and data.reading.targets else "target",
        {"observation": (at, middle, *ends(total)), "function": (at, middle, *ends(variance))},
        dots=dots,
        caption="The wide band holds 90 % of new observations, the narrow one the function with 90 % probability; dots "
        f"are training examples.{others}",
    )


def relevance(
    model: "GPFunction | LaplaceGPClassifier",
    scales: Float[np.ndarray, " features"],
    spread: Float[np.ndarray, " features"],
) -> Bars:
    """How much each column matters: its spread in units of its scale."""
    found = spread / scales
    order = np.argsort(-found, kind="stable")[:_BARS]
    names = _names(model)
    left = len(found) - len(order)
    return Bars(
        "relevance",
        "Relevance of the columns",
        "column",
        "spread / scale",
        [names[i] for i in order],
        {"relevance": found[order]},
        caption="The standard deviation of a column in units of the scale over which predictions change along it; near "
        "zero a column does not matter." + (f" {left} less relevant ones are not shown." if left else ""),
    )


def evidence_surface(model: "GPFunction", data: Data) -> Scatter:
    """The log marginal likelihood over the noise and the scales, around what was learnt."""
    points, values = model.known(data)
    size = min(len(points), _EXAMPLES)
    some = np.unique(np.linspace(0, len(points) - 1, size).astype(int))
    x, y = points[some], np.asarray(values, np.float64)[some]
    powers = np.linspace(-_FACTOR, _FACTOR, _SURFACE)
    noise = float(np.exp(model.log_noise))
    noises = noise * 10.0**powers
    stretched = stationary_part(model.kernel) is not None
    # Points that lie closer together are the same as longer scales; without scales the variance is varied.
    field = np.stack(
        [
            _evidence(
                _gram(model.kernel, x / factor if stretched else x), 1.0 if stretched else factor, y, noises
            )
            for factor in 10.0**powers
        ]
    )
    field = field / size
    middle = np.log10(noise)
    extent = middle - _FACTOR, middle + _FACTOR, -_FACTOR, _FACTOR
    top = field.max()
    what = "scales" if stretched else "variance of the function"
    return Scatter(
        "evidence-surface",
        "Evidence around the hyper-parameters",
        "noise variance, power of ten",
        f"factor of the {what}, power of ten",
        {"learnt": np.array([[middle, 0.0]])},
        np.maximum(field, top - 2),
        extent,
        [(top - drop, f"-{number(drop, 2)}") for drop in (0.02, 0.1, 0.5)],
        caption=f"Log marginal likelihood of {size} training examples, nats an example; lines say how much less than "
        f"the highest, {number(top, 3)}.",
    )


@in_double
def _gram(kernel: Kernel, x: Array) -> Array:
    return kernel.gram(x)


def _evidence(gram: Any, factor: float, y: np.ndarray, noises: np.ndarray) -> np.ndarray:
    """The evidence for every noise by one decomposition of the kernel matrix."""
    values, vectors = eigh(gram)
    values = np.maximum(values, 0)[None] * factor + noises[:, None]
    squares = np.square(vectors.T @ y)
    outputs = y.shape[1]
    quadratic = (squares.sum(axis=1)[None] / values).sum(axis=1)
    return -0.5 * (quadratic + outputs * (np.log(values).sum(axis=1) + len(y) * np.log(2 * np.pi)))


def left_out(model: "GPRegressor", data: Data) -> list[Picture]:
    """Every kept target against its prediction from the others, in closed form."""
    with jax.enable_x64(True):
        lower, weights = np.asarray(model.lower.double()), np.asarray(model.weights.double())
    own = Lower(np.asfortranarray(lower), 0.0).inverse_diagonal()[:, None]
    true, missed = np.asarray(model.values, np.float64), weights / own
    away = np.abs(missed) * np.sqrt(own)
    share = float((away <= _REACH).mean())
    answer, seen = (_outputs(model, data, a)[:, 0] for a in (true - missed, true))
    density = -0.5 * (np.square(missed) * own - np.log(own) + np.log(2 * np.pi))
    some = np.unique(np.linspace(0, len(true) - 1, min(len(true), _DOTS)).astype(int))
    root = float(np.sqrt(np.square(answer - seen).mean()))
    return [
        Scatter(
            "left-out",
            "Training examples left out one by one",
            "true",
            "predicted from all others",
            {"examples": np.stack([seen[some], answer[some]], axis=1)},
            diagonal=True,
            caption=f"Root mean squared error {number(root, 3)}; {100 * share:.0f} % lie in their 90 % intervals; "
            f"{number(float(density.sum(axis=1).mean()), 3)} nats an example in model units.",
        )
    ]


__all__ = [
    "all_of",
    "band",
    "column_scales",
    "evidence_surface",
    "hyperparameters",
    "left_out",
    "numbers_of",
    "relevance",
    "stationary_part",
]
