"""Pictures of the slopes of a flow: which entry of a code depends on which of an example, how far layers stretch.

A network that is masked shows as a triangle; a scale far from the others is what an audit finds first.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.core.pictures import Heatmap, Picture
from chainrule.core.types import Array, Float
from chainrule.networks.flows.audit import LARGEST_JACOBIAN, forwarded, jacobians, layer_name, layers_of
from chainrule.networks.flows.base import Bijection, Conditions

if TYPE_CHECKING:
    from chainrule.models.flow.flow_model import FlowModel

_EXAMPLES = 16
_BINS = 25
_LEAST = 0.5
"""Logarithms of scales that the histogram reaches on either side at least."""


class _Slopes(NamedTuple):
    """What a layer does to examples that reach it."""

    name: str
    has_network: bool
    slopes: Float[np.ndarray, "examples entries entries"]
    """`dz/dx` of the layer."""


def pictures(model: "FlowModel", x: Array) -> Sequence[Picture]:
    """The scales of every layer, and dependences of the layer next to the data and of the whole flow."""
    if not 1 < model.schema.dimensions <= LARGEST_JACOBIAN:
        return []
    x = x[:_EXAMPLES]
    given = model.no_condition(len(x))
    found: list[Picture] = []
    if len(layers_of(model.bijection)) > 1:
        each = _along(model.bijection, x, given)
        found.append(_scales(each))
        outermost = next((one for one in each if one.has_network), None)
        if outermost is not None:
            title = f"What the layer next to the data sees: {outermost.name}"
            found.append(_dependences("layer-dependences", title, outermost.slopes, model))
    whole = np.asarray(jacobians(model.bijection, x, given))
    return [*found, _dependences("dependences", "What each entry of a code depends on", whole, model)]


def _along(bijection: Bijection, x: Array, given: Conditions) -> list[_Slopes]:
    """The slopes of every layer, as data pass them."""
    found = []
    for number, layer in reversed(list(enumerate(layers_of(bijection), 1))):
        slopes = np.asarray(jacobians(layer, x, given))
        found.append(_Slopes(f"{number} {layer_name(layer)}", bool(layer.passes.inverse), slopes))
        x = forwarded(layer, x, given, backwards=True)
    return found


def _dependences(name: str, title: str, slopes: np.ndarray, model: "FlowModel") -> Heatmap:
    size = np.abs(slopes.astype(np.float64)).mean(axis=0)
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


def _scales(each: Sequence[_Slopes]) -> Heatmap:
    """Of each layer a histogram of the logarithms of what single entries are multiplied by."""
    own = [np.abs(np.diagonal(one.slopes, axis1=1, axis2=2)).astype(np.float64) for one in each]
    # Entries that only change places have no slope of their own.
    logs = [np.log(sizes[(sizes > 0) & np.isfinite(sizes)]) for sizes in own]
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
        [one.name for one in each],
        [f"{middle:.2g}" if number % 4 == 0 else "" for number, middle in enumerate(middles)],
        caption=f"Histograms of log |∂z_i/∂x_i|, a row for each layer, over {_EXAMPLES} held-out examples; empty where "
        "entries only change places. Scales far out are what an inverse loses digits by.",
    )


__all__ = ["pictures"]
