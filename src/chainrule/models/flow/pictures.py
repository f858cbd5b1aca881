"""Pictures of a flow: whether codes are normal, what layers do to volumes, its audit; in the plane the map itself."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from chainrule.core.pictures import Bars, Heatmap, Images, Lines, Picture
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.models.flow import jacobian_pictures, plane, solver_pictures
from chainrule.networks.flows.audit import volumes_by_layer
from chainrule.networks.flows.audit_pictures import audit_table

if TYPE_CHECKING:
    from chainrule.models.flow.flow_model import FlowModel

_EXAMPLES = 512
_ENTRIES = 32
"""Correlations are shown of so many entries of a code at most."""
_QUANTILES = 199
_TEMPERATURES = (0.0, 0.3, 0.5, 0.7, 0.85, 1.0, 1.2)
_COLUMNS = 10


def all_of(
    model: "FlowModel", data: Data, key: Key, filled: Callable[[Array, Key], Array] | None = None
) -> Sequence[Picture]:
    """Every picture that suits the data; `filled` puts noise between their levels, that of the model unless given."""
    for_noise, for_audit, for_plane = jax.random.split(key, 3)
    split, _ = data.held_out()
    some = split.batch(np.arange(min(_EXAMPLES, len(split))))
    x = (filled or model.filled)(jnp.asarray(some.x, jnp.float32), for_noise)
    codes = np.asarray(eqx.filter_jit(model.encode)(x), np.float64)
    found: list[Picture] = []
    if model.schema.shape == (2,):
        found += plane.pictures(model, data, x, for_plane)
    if kinds.of(model.schema).shows_pixels(model.schema):
        found += [_temperatures(model, for_plane)]
        found += [_interpolation(model, x)] if len(x) > 1 else []
    found += [_quantiles(codes), _radius(codes)]
    found += [_correlations(codes)] if codes.shape[1] > 1 else []
    found += solver_pictures.pictures(model.bijection, model.no_condition(len(x)), for_plane)
    found += [_volumes(model, x), *jacobian_pictures.pictures(model, x)]
    given = some.y if model.conditional else None
    return [*found, audit_table(model.audit(x, for_audit, given))]


def _quantiles(codes: np.ndarray) -> Lines:
    levels = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    return Lines(
        "code-quantiles",
        "Are the codes normal?",
        "quantile of the normal distribution",
        "quantile of the codes",
        {"all entries": (stats.norm.ppf(levels), np.quantile(codes.reshape(-1), levels))},
        diagonal=True,
        caption="Entries of the codes of held-out examples, all together. A flow to normal noise that fits has them on "
        "the diagonal; a slope above one is a code that is wider than the noise.",
    )


def _radius(codes: np.ndarray) -> Lines:
    lengths = np.sort(np.sqrt(np.square(codes).sum(axis=1)))
    grid = np.linspace(0, max(lengths[-1], stats.chi.ppf(0.999, codes.shape[1])), 200)
    share = (np.arange(len(lengths)) + 1) / len(lengths)
    return Lines(
        "code-radius",
        "How far codes are from zero",
        "length of the code",
        "share of examples",
        {"codes": (lengths, share), "normal noise": (grid, stats.chi.cdf(grid, codes.shape[1]))},
        caption="In many dimensions normal noise lies in a thin shell; held-out examples whose codes lie outside of it "
        "are ones that the flow did not expect.",
    )


def _correlations(codes: np.ndarray) -> Heatmap:
    shown = codes[:, :_ENTRIES]
    spread = shown.std(axis=0)
    unit = (shown - shown.mean(axis=0)) / np.where(spread > 0, spread, 1)
    more = f" The first {_ENTRIES} of {codes.shape[1]} entries." if codes.shape[1] > _ENTRIES else ""
    return Heatmap(
        "code-correlations",
        "Correlations between entries of the codes",
        "entry",
        "entry",
        unit.T @ unit / len(unit),
        numbers=shown.shape[1] <= 8,
        diverging=True,
        caption=f"Of held-out examples; normal noise has none off the diagonal.{more}",
    )


def _volumes(model: "FlowModel", x: Array) -> Bars:
    names, volumes = volumes_by_layer(model.bijection, x, model.no_condition(len(x)))
    return Bars(
        "layer-volumes",
        "What each layer does to volumes",
        "layer, as data pass them",
        "nats per example",
        names,
        {"log |det|": np.asarray(volumes).mean(axis=1)},
        caption="The mean over held-out examples of what each layer adds to the log-density: positive where it spreads "
        "data out.",
    )


def _temperatures(model: "FlowModel", key: Key) -> Images:
    rows = [np.asarray(model.sample(key, _COLUMNS, temperature=warmth)) for warmth in _TEMPERATURES]
    return Images(
        "temperatures",
        "The same noise at several temperatures",
        np.concatenate(rows),
        [f"{warmth:g}" for warmth in _TEMPERATURES for _ in range(_COLUMNS)],
        columns=_COLUMNS,
        caption="Noise times the temperature; only at 1 is it the distribution of the model.",
        smooth=True,
        aligned=True,
    )


def _interpolation(model: "FlowModel", x: Array) -> Images:
    """From one example to another along the straight line between their codes."""
    count = min(6, len(x) // 2)
    shares = np.linspace(0, 1, _COLUMNS, dtype=np.float32)
    codes = np.asarray(eqx.filter_jit(model.encode)(x[: 2 * count]))
    ends = codes[:count, None], codes[count:, None]
    path = (1 - shares)[None, :, None] * ends[0] + shares[None, :, None] * ends[1]
    images = np.asarray(eqx.filter_jit(model.decode)(jnp.asarray(path.reshape(-1, codes.shape[1]))))
    return Images(
        "interpolation",
        "From one example to another",
        np.clip(images, 0, 1),
        columns=_COLUMNS,
        caption="Each row begins and ends with a held-out example; between them, the line between their codes.",
        smooth=True,
        aligned=True,
    )


__all__ = ["all_of"]
