"""Pictures of a flow in the plane: data, codes, noise and draws by the same colours, the density, and a grid's way.

Data and draws are in the units of the data, codes and noise in those of the base distribution.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Picture, Scatter, Slides
from chainrule.core.types import Array, Key
from chainrule.data.dataset import Data
from chainrule.data.previews import heads
from chainrule.derive.svg import Canvas
from chainrule.networks.flows.audit import layer_name, layers_of

if TYPE_CHECKING:
    from chainrule.models.flow.flow_model import FlowModel

_POINTS = 512
_FIELD = 120
"""Points of the density along each axis."""
_GRID, _ALONG = 13, 61
"""Lines of the grid each way, and points along a line."""
_REACH = 2.5
"""How far the grid reaches from zero, in codes."""
_SIDE = 360.0
_CODES = ("z1", "z2")


def pictures(model: "FlowModel", data: Data, x: Array, key: Key) -> Sequence[Picture]:
    """Four panels, the density and the warped grid, of examples in model units."""
    codes = np.asarray(eqx.filter_jit(model.encode)(x))
    drawn = eqx.filter_jit(lambda flow, k: flow.sample_and_log_prob(k, _POINTS))(model, key)
    noise, back = np.asarray(drawn.z), data.scaling.inverse
    seen, draws = (np.asarray(back(np.asarray(points))) for points in (x, drawn.x))
    axes = heads(data.schema, 2)
    panels = [
        ("data", "Data", axes, seen, codes),
        ("codes", "Codes of the data", _CODES, codes, codes),
        ("noise", "Noise", _CODES, noise, noise),
        ("draws", "Draws: what the noise becomes", axes, draws, noise),
    ]
    found: list[Picture] = [_panel(*panel) for panel in panels]
    return [*found, _density(model, data, np.asarray(x)), _film(model)]


def _panel(name: str, title: str, axes: Sequence[str], points: np.ndarray, codes: np.ndarray) -> Scatter:
    return Scatter(
        f"panel-{name}",
        title,
        axes[0],
        axes[1],
        _by_quadrant(points, codes),
        caption="Colours are those of the quadrant of the code, in all four panels."
        if name == "data"
        else "",
    )


def _by_quadrant(points: np.ndarray, codes: np.ndarray) -> Mapping[str, np.ndarray]:
    quadrant = 2 * (codes[:, 1] < 0) + (codes[:, 0] < 0)
    names = ("upper right", "upper left", "lower right", "lower left")
    return {name: points[quadrant == number] for number, name in enumerate(names)}


def _density(model: "FlowModel", data: Data, x: np.ndarray) -> Scatter:
    low, high = x.min(axis=0), x.max(axis=0)
    margin = 0.25 * (high - low)
    (left, bottom), (right, top) = low - margin, high + margin
    across, up = np.meshgrid(np.linspace(left, right, _FIELD), np.linspace(bottom, top, _FIELD))
    points = np.stack([across, up], axis=-1).reshape(-1, 2).astype(np.float32)
    logs = np.asarray(eqx.filter_jit(model.log_prob)(jnp.asarray(points)))
    field = np.exp(logs).reshape(_FIELD, _FIELD)
    highest = float(field.max())
    back = data.scaling.inverse
    (west, south), (east, north) = np.asarray(back(np.array([[left, bottom], [right, top]])), float).tolist()
    across_label, up_label = heads(data.schema, 2)
    return Scatter(
        "density",
        "The density of the model",
        across_label,
        up_label,
        {"held-out data": np.asarray(back(x))},
        field=field,
        extent=(west, east, south, north),
        contours=[(share * highest, f"{share:.0%}") for share in (0.1, 0.5)],
        caption="Exact at every point; lines at a tenth and half of its highest value.",
    )


def _film(model: "FlowModel") -> Slides:
    """A grid of codes after each layer, on the way to the data."""
    along = np.linspace(-_REACH, _REACH, _ALONG)
    across = np.linspace(-_REACH, _REACH, _GRID)
    lines = [np.stack([along, np.full_like(along, at)], axis=1) for at in across]
    lines += [line[:, ::-1] for line in lines]
    at = jnp.asarray(np.stack(lines).reshape(-1, 2), jnp.float32)
    given = model.no_condition(len(at))
    steps, notes = [np.asarray(at)], ["A grid of codes"]
    for number, layer in enumerate(layers_of(model.bijection), 1):
        at = _forward(layer, at, given)
        steps.append(np.asarray(at))
        notes.append(f"After layer {number}, {layer_name(layer)}")
    drawings = [
        _drawn(step.reshape(len(lines), _ALONG, 2), note) for step, note in zip(steps, notes, strict=True)
    ]
    return Slides(
        "warped-grid",
        "What becomes of a grid of codes",
        drawings,
        notes,
        caption="Lines never cross: every layer is invertible. Where the grid is squeezed, the density is high. Each "
        "step has a scale of its own.",
    )


@eqx.filter_jit
def _forward(layer: object, at: Array, given: Array | None) -> Array:
    return layer.forward(at, given).value  # type: ignore[attr-defined]  # a bijection


def _drawn(lines: np.ndarray, label: str) -> str:
    low, high = lines.reshape(-1, 2).min(axis=0), lines.reshape(-1, 2).max(axis=0)
    scale = (_SIDE - 20) / max(float((high - low).max()), 1e-6)
    middle = (low + high) / 2
    canvas = Canvas(_SIDE, _SIDE, label)
    for number, line in enumerate(lines):
        placed = (line - middle[None]) * np.array([[scale, -scale]]) + _SIDE / 2
        path = "M" + " L".join(f"{a:.1f} {b:.1f}" for a, b in placed)
        canvas.path(path, "none thin s-1" if number < len(lines) // 2 else "none thin s-2")
    return canvas.render()


__all__ = ["pictures"]
