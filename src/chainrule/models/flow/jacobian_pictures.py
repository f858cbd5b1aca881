"""Pictures of the slopes of a flow: which entry of a code depends on which of an example, how far layers stretch.

A network that is masked shows as a triangle; a scale far from the others is what an audit finds first.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Heatmap, Picture
from chainrule.core.types import Array
from chainrule.networks.flows.audit import LARGEST_JACOBIAN, forwarded, jacobians, layer_name, layers_of
from chainrule.networks.flows.base import Bijection, Conditions

if TYPE_CHECKING:
    from chainrule.models.flow.flow_model import FlowModel

_EXAMPLES = 16
_BINS = 25
_LEAST = 0.5
"""Logarithms of scales that the histogram reaches on either side at least."""


def pictures(model: "FlowModel", x: Array) -> Sequence[Picture]:
    """Dependences of the layer next to the data and of the whole flow, and the scales of every layer."""
    if not 1 < model.schema.dimensions <= LARGEST_JACOBIAN:
        return []
    x = x[:_EXAMPLES]
    given = model.no_condition(len(x))
    every = layers_of(model.bijection)
    found: list[Picture] = [_scales(every, x, given)] if len(every) > 1 else []
    named = _outermost(every, x, given)
    if named is not None:
        found.append(
            _dependences(
                "layer-dependences", f"What the layer next to the data sees: {named[0]}", named[1], model
            )
        )
    whole = jacobians(model.bijection, x, given)
    return [*found, _dependences("dependences", "What each entry of a code depends on", whole, model)]


def _outermost(every: Sequence[Bijection], x: Array, given: Conditions) -> tuple[str, Array] | None:
    """The name and the slopes of the first layer with a network that data meet, if it is one of several."""
    for number, layer in reversed(list(enumerate(every, 1))):
        if layer.passes.inverse and len(every) > 1:
            return f"{number}, {layer_name(layer)}", jacobians(layer, x, given)
        x = forwarded(layer, x, given, backwards=True)
    return None


def _dependences(name: str, title: str, slopes: Array, model: "FlowModel") -> Heatmap:
    size = np.abs(np.asarray(slopes, np.float64)).mean(axis=0)
    columns = list(model.schema.columns) if len(model.schema.columns) == len(size) else []
    none = float((size == 0).mean())
    return Heatmap(
        name,
        title,
        "entry of the data",
        "entry after it",
        size,
        columns=columns,
        numbers=len(size) <= 8,
        caption=f"|∂z/∂x|, the mean over {len(slopes)} held-out examples; {none:.0%} of the entries are exactly zero.",
    )


def _scales(every: Sequence[Bijection], x: Array, given: Conditions) -> Heatmap:
    """Of each layer a histogram of the logarithms of what single entries are multiplied by."""
    logs, names = [], []
    for number, layer in reversed(list(enumerate(every, 1))):
        own = jnp.abs(jnp.diagonal(jacobians(layer, x, given), axis1=1, axis2=2))
        # Entries that only change places have no slope of their own.
        logs.append(np.log(np.asarray(own[own > 0], np.float64)))
        names.append(f"{number} {layer_name(layer)}")
        x = forwarded(layer, x, given, backwards=True)
    reach = max(_LEAST, *(float(np.abs(one).max(initial=0.0)) for one in logs))
    edges = np.linspace(-reach, reach, _BINS + 1)
    counts = np.stack([np.histogram(one, edges)[0] / max(len(one), 1) for one in logs])
    middles = (edges[1:] + edges[:-1]) / 2
    return Heatmap(
        "layer-scales",
        "Scales of each layer",
        "logarithm of the scale of an entry",
        "layer, as data pass them",
        counts,
        names,
        [f"{middle:.2g}" if number % 4 == 0 else "" for number, middle in enumerate(middles)],
        caption=f"Histograms of log |∂z_i/∂x_i|, a row for each layer, over {_EXAMPLES} held-out examples; empty where "
        "entries only change places. Scales far out are what an inverse loses digits by.",
    )


__all__ = ["pictures"]
