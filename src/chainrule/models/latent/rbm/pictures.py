"""Pictures of a restricted Boltzmann machine: filters, fantasy particles, reconstructions, free energies."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Heatmap, Images, Lines, Picture, Scatter
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.splits import Split
from chainrule.models.latent import latent_pictures

if TYPE_CHECKING:
    from chainrule.models.latent.rbm.model import RBM

_FILTERS = 100
_SHOWN = 10
_SWEEPS = (1, 10, 100, 1000)
_JUDGED = 1000
"""Examples of each split whose free energies are shown."""
_BINS = 20
_GRID = 101


def all_of(model: "RBM", data: Data, key: Key) -> Sequence[Picture]:
    """Every picture that suits the data."""
    held_out = data.val if len(data.val) else data.train
    x = jnp.asarray(held_out.batch(np.arange(min(_SHOWN, len(held_out)))).x)
    kind = kinds.of(model.schema)
    found: list[Picture] = []
    if kind.shows_pixels(model.schema):
        found = [
            filters(model),
            particles(model, key),
            latent_pictures.triptych(
                np.asarray(x), _rebuilt(model, x), "From the probabilities of the hidden units. "
            ),
        ]
    elif kind.is_plane(model.schema):
        found = [landscape(model, held_out)]
    else:
        found = [couplings(model)]
    return [*found, free_energies(model, data, key)]


@eqx.filter_jit
def _rebuilt_of(model: "RBM", x: Array) -> Array:
    return model.decode(model.encode(x))


def _rebuilt(model: "RBM", x: Array) -> np.ndarray:
    return np.asarray(_rebuilt_of(model, x))


def _strongest(model: "RBM") -> np.ndarray:
    """Hidden units by the size of their couplings, largest first."""
    return np.argsort(-np.linalg.norm(np.asarray(model.machine.weights), axis=0))


def filters(model: "RBM") -> Images:
    """The couplings of each hidden unit as an image: grey is none."""
    weights = np.asarray(model.machine.weights).T[_strongest(model)[:_FILTERS]]
    reach = float(np.quantile(np.abs(weights), 0.995)) or 1.0
    shades = np.clip(0.5 + weights / (2 * reach), 0, 1).reshape(len(weights), *model.schema.shape)
    count = model.config.hidden
    some = f"The {len(weights)} of {count:,} units with" if len(weights) < count else "All units, those with"
    return Images(
        "filters",
        "What every hidden unit looks for",
        shades,
        caption=f"Couplings of hidden units with the pixels: light pixels make a unit likelier, and it makes them "
        f"lighter; grey ones do not matter. {some} the strongest couplings first; white is {reach:.2g}.",
    )


def particles(model: "RBM", key: Key) -> Images:
    """Fantasy particles: Gibbs chains from random states, after more and more sweeps, and those of training."""
    rows = [
        np.asarray(model.sample(key, _SHOWN, sweeps=sweeps, chains="fresh", entries="mean"))
        for sweeps in _SWEEPS
    ]
    labels = [f"{sweeps:,} sweep{'s' if sweeps > 1 else ''}" for sweeps in _SWEEPS]
    if model.particles is not None:
        rows.append(np.asarray(model.sample(key, _SHOWN, sweeps=1, chains="training", entries="mean")))
        labels.append("training")
    beside = " Last row: where the chains of training are." if model.particles is not None else ""
    return Images(
        "particles",
        "Fantasy particles",
        np.clip(np.concatenate(rows), 0, 1),
        [label for label in labels for _ in range(_SHOWN)],
        _SHOWN,
        caption="The same chains of Gibbs sampling from random hidden units after more and more sweeps; shown is the "
        f"mean of each pixel. A column that never changes is a chain that is stuck.{beside}",
        aligned=True,
    )


def couplings(model: "RBM") -> Heatmap:
    """Couplings of entries and hidden units as a matrix."""
    chosen = _strongest(model)[: _SHOWN * 2]
    columns = model.schema.columns or [str(entry + 1) for entry in range(model.schema.dimensions)]
    return Heatmap(
        "couplings",
        "What every hidden unit looks for",
        "hidden unit",
        "entry",
        np.asarray(model.machine.weights)[:, chosen],
        list(columns),
        [str(unit + 1) for unit in chosen],
        diverging=True,
        caption="Couplings of the entries with the hidden units whose couplings are strongest.",
    )


def landscape(model: "RBM", split: Split) -> Scatter:
    """Points over the density up to its factor."""
    x = np.asarray(split.batch(np.arange(min(300, len(split)))).x)
    low, high = x.min(axis=0), x.max(axis=0)
    low, high = low - 0.2 * (high - low), high + 0.2 * (high - low)
    first, second = (np.linspace(low[axis], high[axis], _GRID, dtype=np.float32) for axis in (0, 1))
    grid = np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2)
    energy = np.asarray(_free_energy(model, jnp.asarray(grid)))
    return Scatter(
        "landscape",
        "The density up to its factor",
        "first coordinate",
        "second coordinate",
        {"held out": x},
        field=np.exp(energy.min() - energy).reshape(_GRID, _GRID),
        extent=(float(low[0]), float(high[0]), float(low[1]), float(high[1])),
        caption="exp(-F), dark where the free energy F is low; 1 at its lowest.",
    )


@eqx.filter_jit
def _free_energy(model: "RBM", x: Array) -> Array:
    return model.free_energy(x)


def free_energies(model: "RBM", data: Data, key: Key) -> Lines:
    """Free energies of training examples, held-out ones and samples: where the two first part, it overfits."""
    count = min(_JUDGED, len(data.train))
    sets = {"training": jnp.asarray(data.train.batch(np.arange(count)).x)}
    if len(data.val):
        sets["held out"] = jnp.asarray(data.val.batch(np.arange(min(_JUDGED, len(data.val)))).x)
    sets["samples"] = model.sample(key, min(200, count), entries="drawn")
    found = {name: np.asarray(_free_energy(model, x), np.float64) for name, x in sets.items()}
    low, high = np.quantile(np.concatenate(list(found.values())), [0.005, 0.995])
    edges = np.linspace(low, max(high, low + 1e-6), _BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    series = {
        name: (middle, np.histogram(values, edges)[0] / (len(values) * (edges[1] - edges[0])))
        for name, values in found.items()
    }
    gap = ""
    if "held out" in found:
        error = np.hypot(
            *(found[name].std() / np.sqrt(len(found[name])) for name in ("training", "held out"))
        )
        above = found["held out"].mean() - found["training"].mean()
        gap = (
            f" Held-out examples lie {above:.3g} ± {error:.2g} nats above training examples: the overfitting gap of "
            "-log p, in which log Z cancels."
        )
    return Lines(
        "free-energy",
        "Free energies",
        "free energy F(x) = -log p(x) - log Z, in nats",
        "share of the examples per nat",
        series,
        caption=f"Samples should lie where the data do.{gap}",
    )


__all__ = ["all_of", "couplings", "filters", "free_energies", "landscape", "particles"]
