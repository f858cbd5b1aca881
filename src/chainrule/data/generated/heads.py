"""Heads that never were: drawn from numbers, turned and lit at random, so that who each is, is known exactly.

A head is an ellipsoid with soft patches on it: eyes, brows, a nose, a mouth, cheeks and some marks, whose positions,
sizes and tones make an identity. It is turned to the side, nodded, lit from anywhere, tinted by the light and covered
with noise. All heads have the same parts, so that an identity lies in how they are, never in what there is.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, UInt8

from chainrule.data.loading.options import Option, number, whole
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader

_MARKS = 3
_NOISE = 0.03


class HeadTraits(NamedTuple):
    """What makes an identity."""

    skin: Float[np.ndarray, " colours"]
    centres: Float[np.ndarray, "patches 2"]
    """Longitude and latitude of each patch, in radians; 0, 0 is the tip of the nose."""
    widths: Float[np.ndarray, "patches 2"]
    tones: Float[np.ndarray, "patches 3"]
    """What each patch adds to the colour of the skin."""
    shape: Float[np.ndarray, " axes"]
    """Half the width and height, as shares of half the image."""


def head(rng: np.random.Generator) -> HeadTraits:
    """An identity."""
    apart, above = rng.uniform(0.3, 0.52), rng.uniform(0.12, 0.32)
    eye, iris = rng.uniform(0.1, 0.17), rng.uniform(-0.75, -0.3)
    brow, mouth = above + rng.uniform(0.18, 0.3), rng.uniform(-0.62, -0.42)
    spots = np.stack([rng.uniform(-0.9, 0.9, _MARKS), rng.uniform(-0.8, 0.9, _MARKS)], axis=1)
    centres = [
        *((side * apart, above) for side in (-1, 1)),
        *((side * apart, brow) for side in (-1, 1)),
        (0.0, rng.uniform(-0.15, 0.0)),
        (0.0, mouth),
        *((side * rng.uniform(0.5, 0.7), rng.uniform(-0.3, -0.1)) for side in (-1, 1)),
        (0.0, rng.uniform(1.0, 1.25)),
    ]
    thick = rng.uniform(0.03, 0.07)
    widths = [
        *((eye, 0.7 * eye),) * 2,
        *((rng.uniform(0.12, 0.22), thick),) * 2,
        (rng.uniform(0.05, 0.12), rng.uniform(0.12, 0.25)),
        (rng.uniform(0.15, 0.32), rng.uniform(0.04, 0.09)),
        *((0.18, 0.18),) * 2,
        (1.2, rng.uniform(0.2, 0.45)),
    ]
    hair = rng.uniform(-0.6, 0.1) * np.array([1.0, 1.0, 1.0]) + rng.uniform(-0.1, 0.1, 3)
    lips = np.array([rng.uniform(-0.15, 0.15), rng.uniform(-0.5, -0.2), rng.uniform(-0.4, -0.15)])
    tones = [
        *(np.full(3, iris),) * 2,
        *(0.8 * hair,) * 2,
        np.full(3, rng.uniform(-0.25, 0.2)),
        lips,
        *(np.array([0.15, -0.05, -0.05]) * rng.uniform(0, 1),) * 2,
        hair,
    ]
    return HeadTraits(
        np.array([0.72, 0.56, 0.46]) * rng.uniform(0.75, 1.15) + rng.uniform(-0.04, 0.04, 3),
        np.concatenate([np.array(centres), spots]),
        np.concatenate([np.array(widths), np.full((_MARKS, 2), 1) * rng.uniform(0.04, 0.12, (_MARKS, 1))]),
        np.concatenate([np.array(tones), rng.uniform(-0.5, 0.3, (_MARKS, 1)) * np.ones((1, 3))]),
        np.array([rng.uniform(0.6, 0.75), rng.uniform(0.8, 0.95)]),
    )


def portrait(
    rng: np.random.Generator, who: HeadTraits, size: int, yaw: float
) -> UInt8[np.ndarray, "size size 3"]:
    """A picture of a head turned by so many degrees, under some light, before some wall."""
    y, x = 1 - 2 * (np.mgrid[:size, :size] + 0.5) / size
    shift, scale, nod = rng.uniform(-0.06, 0.06, 2), rng.uniform(0.92, 1.05), rng.uniform(-0.15, 0.15)
    u, v = ((-x - shift[0]) / scale / who.shape[0], (y - shift[1]) / scale / who.shape[1])
    radius = u**2 + v**2
    inside = np.clip((1 - radius) * size / 8 + 0.5, 0, 1)
    w = np.sqrt(np.clip(1 - radius, 1e-6, None))
    normal = np.stack([u, v, w], axis=-1)
    # The picture shows the head after it was nodded and turned: what lies at a pixel is found by turning back.
    turn, tip = np.deg2rad(yaw), nod
    up, front = v * np.cos(tip) - w * np.sin(tip), v * np.sin(tip) + w * np.cos(tip)
    across, ahead = u * np.cos(turn) - front * np.sin(turn), u * np.sin(turn) + front * np.cos(turn)
    spot = np.stack([np.arctan2(across, ahead), np.arcsin(np.clip(up, -1, 1))], axis=-1)
    away = (spot[..., None, :] - who.centres) / who.widths
    share = np.exp(-0.5 * np.square(away).sum(axis=-1))
    colour = who.skin + share @ who.tones
    light = np.array([rng.uniform(-1, 1), rng.uniform(-0.3, 1), rng.uniform(0.4, 1)])
    lit = np.clip(normal @ (light / np.linalg.norm(light)), 0, None)
    ambient = rng.uniform(0.35, 0.6)
    tint = rng.uniform(0.85, 1.15, 3)
    shaded = np.clip(colour, 0.02, 1) * (ambient + (1.25 - ambient) * lit[..., None]) * tint
    wall = rng.uniform(0.1, 0.9, 3) + 0.1 * rng.uniform(-1, 1) * x[..., None]
    seen = inside[..., None] * shaded + (1 - inside[..., None]) * wall
    seen = seen + _NOISE * rng.standard_normal(seen.shape)
    return (np.clip(seen, 0, 1) * 255).astype(np.uint8)


def turned(rng: np.random.Generator, most: float) -> float:
    """A yaw in degrees: every second picture is nearly frontal, the others are turned by anything up to `most`."""
    return float(rng.uniform(-0.15, 0.15) * most if rng.random() < 0.5 else rng.uniform(-1, 1) * most)


@final
@dataclass(frozen=True)
class Heads:
    """Portraits of several identities."""

    summary: str

    @property
    def reader(self) -> SourceReader:
        """The portraits as a source of data."""
        options = {
            "identities": Option(200, whole(3, 10**6), "heads"),
            "n": Option(12, whole(2, 10**4), "portraits of each"),
            "size": Option(32, whole(16, 512), "pixels a side"),
            "most_yaw": Option(60.0, number(0), "how far heads are turned at most, in degrees"),
        }
        return SourceReader("heads", "images", options, self._scan)

    def _scan(self, request: ReadRequest) -> Scan:
        identities, n, size = (request.options[name] for name in ("identities", "n", "size"))
        rng = np.random.default_rng(request.seed)
        images, y = [], []
        for k in range(identities):
            who = head(rng)
            for _ in range(n):
                yaw = turned(rng, min(request.options["most_yaw"], 90.0))
                images.append(portrait(rng, who, size, yaw))
                y.append((k, round(yaw)))
        names = tuple(f"head {k + 1:0{len(str(identities))}d}" for k in range(identities))
        contents = Contents(
            "image", np.stack(images), np.array(y, np.int32), "identity", classes=names, levels=256
        )
        return Scan(len(images), len(images), contents=contents)


HEADS = {"heads": Heads("generated heads of 200 identities with how far each is turned, 32×32 in colour")}

__all__ = ["HEADS", "HeadTraits", "Heads", "head", "portrait", "turned"]
