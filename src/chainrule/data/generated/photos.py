"""Pictures that people are said to have voted on: what was done to each says what it deserves.

A scene of shapes is blurred, lit too much or too little, flattened or covered with noise, each more or less. The damage
adds up to a grade, voters scatter around it, and some pictures please for no reason: no model can know everything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import scipy.ndimage
from jaxtyping import Float, UInt8

from chainrule.data.generated.shapes import scene
from chainrule.data.loading.options import Option, whole
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader

GRADES = 10
_BLUR, _NOISE, _STOPS, _FLAT = 2.0, 0.2, 1.5, 0.75
"""The worst of each: pixels of an image of 48, deviation of noise, stops of light, contrast that is lost."""
_TASTE, _SCATTER = 0.35, 1.2
"""Deviations: of what cannot be seen, and of the votes for one picture, in grades."""


class Photo(NamedTuple):
    """A picture and the votes for it."""

    image: UInt8[np.ndarray, "size size 3"]
    votes: Float[np.ndarray, " grades"]


def photo(rng: np.random.Generator, size: int, voters: int) -> Photo:
    """One picture, damaged in some ways, and so many votes."""
    x = scene(rng, size, 4).image / 255.0
    faults = rng.beta(0.6, 1.2, 4)  # most of them small, some large
    blur, noise, stops, flat = faults
    x = scipy.ndimage.gaussian_filter(x, (blur * _BLUR * size / 48,) * 2 + (0,))
    x = 0.5 + (x - 0.5) * (1 - flat * _FLAT)
    x = x * 2 ** (stops * _STOPS * rng.choice([-1, 1])) + noise * _NOISE * rng.standard_normal(x.shape)
    deserved = GRADES - 0.5 - (GRADES - 2) * (1 - np.prod(1 - 0.75 * faults))
    taste = deserved + _TASTE * rng.standard_normal()
    given = np.clip(np.rint(taste + _SCATTER * rng.standard_normal(voters)), 1, GRADES).astype(int)
    return Photo(
        (np.clip(x, 0, 1) * 255).astype(np.uint8), np.bincount(given - 1, minlength=GRADES).astype(float)
    )


@final
@dataclass(frozen=True)
class Photos:
    """Pictures with their votes, or with the mean of these."""

    summary: str
    contents: Callable[[np.ndarray, np.ndarray], Contents]
    """From images and votes."""

    @property
    def reader(self) -> SourceReader:
        """The pictures as a source of data."""
        options = {
            "n": Option(2000, whole(10, 10**6), "number of pictures"),
            "size": Option(48, whole(16, 1024), "pixels a side"),
            "voters": Option(100, whole(1, 10**6), "votes for each"),
        }
        return SourceReader("photos", "images", options, self._scan)

    def _scan(self, request: ReadRequest) -> Scan:
        n, size, voters = (request.options[name] for name in ("n", "size", "voters"))
        rng = np.random.default_rng(request.seed)
        made = [photo(rng, size, voters) for _ in range(n)]
        images, votes = np.stack([one.image for one in made]), np.stack([one.votes for one in made])
        return Scan(n, n, contents=self.contents(images, votes))


def _votes(images: np.ndarray, votes: np.ndarray) -> Contents:
    names = tuple(str(k + 1) for k in range(GRADES))
    shares = (votes / votes.sum(axis=1, keepdims=True)).astype(np.float32)
    return Contents("image", images, shares, "votes", classes=names, levels=256)


def _scores(images: np.ndarray, votes: np.ndarray) -> Contents:
    mean = votes @ np.arange(1.0, GRADES + 1) / votes.sum(axis=1)
    return Contents("image", images, mean, "value", levels=256)


PHOTOS = {
    "photo-votes": Photos("pictures with faults and ten bins of votes for each, 48×48 in colour", _votes),
    "photo-scores": Photos("the same pictures with the mean of their votes, from 1 to 10", _scores),
}

__all__ = ["GRADES", "PHOTOS", "Photo", "Photos", "photo"]
