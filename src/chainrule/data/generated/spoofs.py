"""Pictures of pictures: what becomes of an image that is shown on a screen, printed, or held before a camera.

A screen leaves coloured stripes that beat with the pixels of the camera (moire), a press dots of ink (halftone), and
whoever holds up a picture often lets its border be seen. Images are generated heads, or those of a folder; each of them
is used once, live or as one kind of spoof, so that no picture is in two splits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
import scipy.ndimage
from jaxtyping import Float

from chainrule.data.generated.heads import head, portrait, turned
from chainrule.data.loading.options import Option, optional, whole
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader
from chainrule.data.loading.walking import files_of
from chainrule.data.readers.images import PICTURES
from chainrule.data.readers.picture import MOST_PIXELS, Unusable, decode

Image: TypeAlias = Float[np.ndarray, "height width 3"]
Random: TypeAlias = np.random.Generator
LIVE = "live"
_MOST_FILES = 1_000_000
_MOST_BYTES = 2**28


def moire(rng: Random, x: Image) -> Image:
    """An image on a screen: stripes of its colours that are nearly as fine as pixels, and less contrast."""
    row, column = np.mgrid[: x.shape[0], : x.shape[1]]
    angle, period = rng.uniform(0, np.pi), rng.uniform(2.1, 4.0)
    phase = 2 * np.pi * (column * np.cos(angle) + row * np.sin(angle)) / period
    # The three colours of a screen lie side by side: a third of a period apart.
    stripes = np.cos(phase[..., None] + np.arange(3) * 2 * np.pi / 3)
    slow = np.cos(2 * np.pi * (column * np.sin(angle) + row * np.cos(angle)) / rng.uniform(8, 20))
    strength = rng.uniform(0.06, 0.2)
    return (0.1 + 0.85 * x) * (1 + strength * stripes + 0.5 * strength * slow[..., None])


def halftone(rng: Random, x: Image) -> Image:
    """A printed image: dots of each colour on a screen of its own angle, larger where it is darker."""
    row, column = np.mgrid[: x.shape[0], : x.shape[1]]
    period, share = rng.uniform(2.5, 4.5), rng.uniform(0.3, 0.8)
    inks = []
    for colour, angle in enumerate(np.deg2rad([15.0, 75.0, 45.0]) + rng.uniform(0, np.pi)):
        u = (column * np.cos(angle) + row * np.sin(angle)) * 2 * np.pi / period
        v = (row * np.cos(angle) - column * np.sin(angle)) * 2 * np.pi / period
        screen = 0.5 + 0.25 * (np.cos(u) + np.cos(v))
        inks.append(1 / (1 + np.exp(-12 * (x[..., colour] - screen))))
    dots = scipy.ndimage.gaussian_filter(np.stack(inks, axis=-1), (0.4, 0.4, 0))
    return (1 - share) * x + share * dots


def border(rng: Random, x: Image) -> Image:
    """An image held up: smaller, a little tilted, with an edge of paper or a frame and what is behind it."""
    height, width, _ = x.shape
    row, column = np.mgrid[:height, :width]
    scale, tilt = rng.uniform(0.72, 0.9), rng.uniform(-0.12, 0.12)
    u = (column - width / 2 - rng.uniform(-2, 2)) / scale
    v = (row - height / 2 - rng.uniform(-2, 2)) / scale
    u, v = u * np.cos(tilt) + v * np.sin(tilt), v * np.cos(tilt) - u * np.sin(tilt)
    where = [v + height / 2 - 0.5, u + width / 2 - 0.5]
    small = np.stack(
        [scipy.ndimage.map_coordinates(x[..., c], where, order=1, mode="nearest") for c in range(3)], axis=-1
    )
    outside = np.maximum(abs(u) - width / 2, abs(v) - height / 2)[..., None]
    edge = rng.uniform(0, 0.15, 3) if rng.random() < 0.5 else rng.uniform(0.85, 1, 3)
    framed = np.where(outside > rng.uniform(1.5, 4.0), rng.uniform(0.1, 0.9, 3), edge)
    return np.where(outside > 0, framed, small)


SPOOFS: Mapping[str, Callable[[Random, Image], Image]] = {
    "border": border,
    "halftone": halftone,
    "moire": moire,
}
CLASSES = (LIVE, *SPOOFS)


@final
@dataclass(frozen=True)
class Spoofs:
    """Live images, and spoofs of others."""

    summary: str

    @property
    def reader(self) -> SourceReader:
        """The images as a source of data."""
        options = {
            "n": Option(1600, whole(12, 10**6), "images; of a folder, at most so many"),
            "size": Option(40, whole(16, 512), "pixels a side"),
            "images": Option(None, optional(_folder), "folder of live images in place of generated heads"),
        }
        return SourceReader("spoofs", "images", options, self._scan)

    def _scan(self, request: ReadRequest) -> Scan:
        n, size, folder = (request.options[name] for name in ("n", "size", "images"))
        rng = np.random.default_rng(request.seed)
        problems: list[Problem] = []
        if folder is None:
            live = [portrait(rng, head(rng), size, turned(rng, 45.0)) for _ in range(n)]
        else:
            live, problems = _read(Path(folder), size)
            live = [live[k] for k in rng.permutation(len(live))[:n]]
        if len(live) < len(CLASSES):
            detail = f"{len(live)} images can be read; each class needs one at least"
            return Scan(
                len(live), len(live), (*problems, Problem("too few images", str(folder), detail, "stop"))
            )
        # Two of five are live, the others spoofs of all kinds in turn.
        y = np.array([0, 1, 0, 2, 3])[np.arange(len(live)) % 5]
        x = [
            image if k == 0 else _bytes(_spoofed(rng, CLASSES[k], image / 255.0))
            for k, image in zip(y.tolist(), live, strict=True)
        ]
        contents = Contents("image", np.stack(x), y.astype(np.int32), "class", classes=CLASSES, levels=256)
        bad = sum(problem.effect == "skip" for problem in problems)
        return Scan(len(live) + bad, len(live), tuple(problems), contents)


def _spoofed(rng: Random, name: str, x: Image) -> Image:
    spoof: Image = SPOOFS[name](rng, x)
    return spoof + 0.02 * rng.standard_normal(x.shape)


def _bytes(x: Image) -> np.ndarray:
    return (np.clip(x, 0, 1) * 255).astype(np.uint8)


def _folder(value: Any) -> str:
    if not isinstance(value, str) or not Path(value).expanduser().is_dir():
        raise ValueError("a folder of images that exists")
    return str(Path(value).expanduser().resolve())


def _read(folder: Path, size: int) -> tuple[list[np.ndarray], list[Problem]]:
    """The images below a folder in colour, and what is wrong with the others."""
    found, problems = [], []
    try:
        files = files_of(folder, _MOST_FILES, "inside")
    except Refused as refused:
        return [], [refused.problem]
    for file in files:
        if file.suffix.lower() not in PICTURES:
            continue
        shown = file.relative_to(folder.parent).as_posix()
        try:
            pixels, notes = decode(file, [size, size], MOST_PIXELS, _MOST_BYTES)
        except Unusable as bad:
            problems.append(Problem(bad.kind, shown, bad.detail))
            continue
        problems += [Problem(kind, shown, detail, "note") for kind, detail in notes]
        found.append(np.broadcast_to(pixels, (size, size, 3)))
    return found, problems


SPOOFED = {"spoofs": Spoofs("live heads, and heads on screens, in print and in frames, 40×40 in colour")}

__all__ = ["CLASSES", "LIVE", "SPOOFED", "SPOOFS", "Spoofs", "border", "halftone", "moire"]
