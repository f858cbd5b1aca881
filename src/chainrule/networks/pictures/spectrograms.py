"""Pictures of sound: spectrograms, masks over them, and what the masks leave, to look at and to listen to."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Inexact

from chainrule.core.pictures import Bars, Heatmap, Images, Lines, Picture, Sounds
from chainrule.nn.spectral import STFT, decibels, power, window

_RANGE = 60.0
"""Decibels below the loudest that are told apart."""
_ROWS = 128
"""Rows of a picture: neighbouring bins are averaged until there are no more."""


_PIXELS = 2
"""Of a point of a picture."""


class ShownMixture(NamedTuple):
    """A mixture and what a model makes of it."""

    transform: STFT
    names: Sequence[str]
    """Of the sources."""
    mixture: Float[np.ndarray, "samples channels"]
    sources: Float[np.ndarray, "sources samples channels"]
    """As they are."""
    masks: Inexact[np.ndarray, "sources channels bins frames"]
    found: Float[np.ndarray, "sources samples channels"]
    """The sources as the model finds them."""
    rate: int
    """Samples a second."""


def separation(apart: ShownMixture) -> list[Picture]:
    """A mixture, and for each source its spectrogram, the mask, and the masked mixture; then all of it as sound."""
    said = ("Sources, masks, what they leave", "The mixture, and its sources as found and as they are")
    return [
        spectrogram(apart.transform, apart.mixture, apart.rate),
        *_parts(apart, ("separation", "separated"), said),
    ]


def found_worst(number: int, ratio: float, apart: ShownMixture) -> list[Picture]:
    """The held-out mixture with the lowest ratio, by its number and that ratio, to look at and to listen to."""
    which = f"mixture {number}, {ratio:.1f} dB"
    said = (f"What is found worst: {which}", f"The same to listen to: {which}")
    return _parts(apart, ("worst-losses", "worst-separated"), said)


def _parts(apart: ShownMixture, called: tuple[str, str], titles: tuple[str, str]) -> list[Picture]:
    """A sheet of spectrograms with a row for each source, and the same as sound."""
    transform, names, mixture, sources, masks, found, rate = apart
    top = float(_loudness(transform, mixture).max())
    shown, labels = [], []
    for source, true, mask, own in zip(names, sources, masks, found, strict=True):
        shown += [
            _shade(transform, true, top),
            _rows(np.clip(np.abs(mask[0]), 0, 1)),
            _shade(transform, own, top),
        ]
        labels += [source, f"mask of {source}", f"{source} as found"]
    sheet = Images(
        called[0],
        titles[0],
        np.repeat(np.repeat(np.stack(shown), _PIXELS, axis=1), _PIXELS, axis=2)[..., None],
        labels,
        columns=3,
        aligned=True,
        caption="Time to the right, frequency upwards. Left and right: light is loud, as in the mixture, black is "
        f"{_RANGE:.0f} dB below its loudest; in the middle the share of the mixture, white is all of it.",
    )
    clips = {"mixture": mixture, **{f"{name}, as found": one for name, one in zip(names, found, strict=True)}}
    clips |= {f"{name}, the truth": one for name, one in zip(names, sources, strict=True)}
    return [sheet, Sounds(called[1], titles[1], clips, rate)]


def spectrogram(
    transform: STFT,
    x: Float[np.ndarray, "samples channels"],
    rate: int,
    name: str = "spectrogram",
    title: str = "Spectrogram of the mixture",
) -> Heatmap:
    """Decibels by frequency, upwards, and time."""
    values = _rows(_loudness(transform, x))
    top = float(values.max())
    kilohertz = np.linspace(rate / 2000, 0, len(values))
    seconds = np.arange(values.shape[1]) * transform.hop_seconds(rate)
    return Heatmap(
        name,
        title,
        "seconds",
        "kHz",
        np.maximum(values, top - _RANGE),
        rows=[f"{one:.1f}" for one in kilohertz],
        columns=[f"{one:.1f}" for one in seconds],
        caption=f"In decibels, {transform.describe(rate)}; a sine of amplitude one has 0 dB.",
    )


def ceilings(
    names: Sequence[str],
    mixture: Float[np.ndarray, "examples sources"],
    found: Float[np.ndarray, "examples sources"],
    ideal: Mapping[str, Float[np.ndarray, "examples sources"]],
) -> Bars:
    """Mean ratios by source: of the mixture, of what was found, and of ideal masks."""
    every = {"mixture": mixture, "found": found, **{spoken(name): values for name, values in ideal.items()}}
    heard = {label: np.isfinite(values) for label, values in every.items()}
    return Bars(
        "separation-ceilings",
        "Found, and the ceilings of ideal masks",
        "source",
        "SI-SDR, dB",
        list(names),
        {
            label: np.where(heard[label], values, 0).sum(axis=0) / heard[label].sum(axis=0).clip(1)
            for label, values in every.items()
        },
        caption="Ideal masks know the sources. Silent sources are left out.",
    )


def worst_to_best(
    found: Float[np.ndarray, "examples sources"], ideal: Mapping[str, Float[np.ndarray, "examples sources"]]
) -> Lines:
    """Examples in the order of their ratios, beside what an ideal mask makes of each."""
    some = np.isfinite(found).any(axis=1)
    own, best = (np.nanmean(one[some], axis=1) for one in (found, ideal["ideal_ratio"]))
    order, index = np.argsort(own), np.arange(len(own))
    return Lines(
        "separation-examples",
        "Mixtures from the worst to the best",
        "mixture",
        "SI-SDR, dB",
        {"found": (index, own[order]), spoken("ideal_ratio"): (index, best[order])},
        caption="Means over the sources of each that can be heard.",
    )


def worst_of(found: Float[np.ndarray, "examples sources"]) -> tuple[int, float] | None:
    """The example with the lowest mean ratio, and that ratio; none where nothing is to be heard.

    >>> worst_of(np.array([[9.0, np.nan], [np.nan, np.nan], [4.0, 2.0]]))
    (2, 3.0)
    """
    heard = np.isfinite(found)
    if not heard.any():
        return None
    means = np.where(heard, found, 0).sum(axis=1) / heard.sum(axis=1).clip(1)
    number = int(np.where(heard.any(axis=1), means, np.inf).argmin())
    return number, float(means[number])


def spoken(mask: str) -> str:
    """What an ideal mask is called.

    >>> spoken("ideal_ratio")
    'ideal ratio mask'
    """
    return f"{mask.replace('_', ' ')} mask"


def _loudness(transform: STFT, x: Float[np.ndarray, "samples channels"]) -> Float[np.ndarray, "bins frames"]:
    """Decibels of the first channel."""
    unit = float(window(transform.window, transform.size).sum() / 2)
    return np.asarray(decibels(power(transform(jnp.asarray(x[:, 0], jnp.float32))) / unit**2))


def _shade(transform: STFT, x: np.ndarray, top: float) -> Float[np.ndarray, "rows frames"]:
    return np.clip(1 + (_rows(_loudness(transform, x)) - top) / _RANGE, 0, 1)


def _rows(values: Float[np.ndarray, "bins frames"]) -> Float[np.ndarray, "rows frames"]:
    """High frequencies first, as few rows as can be seen."""
    size = -(-len(values) // _ROWS)
    edges = np.arange(0, len(values), size)
    counts = np.diff([*edges, len(values)])
    return np.asarray((np.add.reduceat(values, edges, axis=0) / counts[:, None])[::-1])


__all__ = [
    "ShownMixture",
    "ceilings",
    "found_worst",
    "separation",
    "spectrogram",
    "spoken",
    "worst_of",
    "worst_to_best",
]
