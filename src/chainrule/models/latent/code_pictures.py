"""Pictures of codes that have no prior: what is rebuilt from them, where they lie, and a sweep through them."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.pictures import Images, Picture, Scatter
from chainrule.core.types import Array
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.models.latent.latent_pictures import by_class, moved, triptych
from chainrule.probability.linear import principal_components

_SHOWN = 10
"""Examples that are rebuilt."""
_CODES = 1000
"""Examples whose codes are looked at."""
_SIDE = 12
"""Codes along each side of the sweep."""
_RANGE = (1.0, 99.0)
"""Percentiles of the codes between which the sweep goes."""


class Plane(NamedTuple):
    """Up to two directions in the space of the codes, and what they are called."""

    centre: Float[np.ndarray, " size"]
    axes: Float[np.ndarray, "directions size"]
    names: tuple[str, ...]
    note: str

    def coordinates(self, codes: Float[np.ndarray, "rows size"]) -> Float[np.ndarray, "rows directions"]:
        """Where codes lie in the plane."""
        return (codes - self.centre[None]) @ self.axes.T

    def codes(self, coordinates: Float[np.ndarray, "rows directions"]) -> Float[np.ndarray, "rows size"]:
        """The codes of the plane with these coordinates."""
        return coordinates @ self.axes + self.centre[None]


def plane_of(codes: Float[np.ndarray, "rows size"]) -> Plane:
    """The entries of the code where it has at most two, otherwise the two directions in which codes vary most.

    >>> plane_of(np.zeros((3, 2))).names
    ('entry 1', 'entry 2')
    """
    size = codes.shape[1]
    if size <= 2 or len(codes) < 2:
        axes = np.eye(min(size, 2), size)
        return Plane(np.zeros(size), axes, tuple(f"entry {i + 1}" for i in range(len(axes))), "")
    found = principal_components(codes, 2)
    share = float(found.explained.sum())
    note = f" Axes are the two directions in which the codes vary most: {share:.0%} of their variance."
    return Plane(found.mean, found.axes, ("first direction", "second direction"), note)


def pictures(encode: Callable[[Array], Array], decode: Callable[[Array], Array], data: Data) -> list[Picture]:
    """All that applies to the data."""
    schema = data.schema
    part = data.val if len(data.val) else data.train
    batch = part.batch(np.arange(min(_CODES, len(part))))
    codes = np.asarray(encode(jnp.asarray(batch.x)), np.float64)
    plane = plane_of(codes)
    coordinates = plane.coordinates(codes)
    found: list[Picture] = []
    if kinds.of(schema).is_plane(schema):
        found.append(moved(batch.x[:300], np.asarray(decode(jnp.asarray(codes[:300], jnp.float32)))))
    elif kinds.of(schema).shows_pixels(schema):
        back = np.asarray(decode(jnp.asarray(codes[:_SHOWN], jnp.float32)))
        found.append(triptych(np.asarray(batch.x[:_SHOWN]), back, ""))
    if coordinates.shape[1] > 1:
        found.append(
            Scatter(
                "codes",
                "Codes of held-out examples",
                plane.names[0],
                plane.names[1],
                by_class(coordinates, batch, schema),
                caption=f"Nothing keeps codes near each other, or near zero.{plane.note}",
            )
        )
    if kinds.of(schema).shows_pixels(schema):
        found.append(sweep(decode, plane, coordinates))
    return found


def sweep(
    decode: Callable[[Array], Array], plane: Plane, coordinates: Float[np.ndarray, "rows directions"]
) -> Images:
    """Examples at even steps between percentiles of the codes, along one or two directions."""
    low, high = np.percentile(coordinates, _RANGE, axis=0)
    steps = np.linspace(low, high, _SIDE)
    if coordinates.shape[1] == 1:
        at = steps
    else:
        across, upwards = np.meshgrid(steps[:, 0], steps[::-1, 1])
        at = np.stack([across.ravel(), upwards.ravel()], axis=1)
    ways = ("to the right", "upwards")
    spans = [f"{a:.3g} to {b:.3g} {way}" for a, b, way in zip(low, high, ways, strict=False)]
    along = " and ".join(f"{name} from {span}" for name, span in zip(plane.names, spans, strict=True))
    images = decode(jnp.asarray(plane.codes(at), jnp.float32))
    return Images(
        "sweep",
        "A sweep through the codes",
        np.clip(np.asarray(images), 0, 1),
        columns=_SIDE,
        caption=f"{along[0].upper()}{along[1:]}, in even steps from the 1st to the 99th percentile of held-out codes; "
        f"where no codes lie, nothing says what is decoded.{plane.note}",
        aligned=True,
    )


__all__ = ["Plane", "pictures", "plane_of", "sweep"]
