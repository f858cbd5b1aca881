"""Digits as other domains show them: on textures, blurred, noisy, rescaled.

Those of MNIST are put on textures where MNIST is on the machine; the rest are made of the embedded digits. Each keeps
the order and the classes of the digits, so that the same seed divides them in the same way: a test digit of one domain
was not seen in training in any other. Grey ones keep the 17 levels of the digits and go with them as they are; embedded
digits on textures have 256 levels, and `texture=0` gives their plain partner.

Reference: Ganin et al., Domain-adversarial training of neural networks, 2016 (digits blended as |digit - texture|);
Hendrycks and Dietterich, Benchmarking neural network robustness, 2019 (corruptions at five strengths).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import Float, UInt8

from chainrule.data.generated.captioned_digits import embedded_digits
from chainrule.data.loading.options import Option, number, whole
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader

Grey: TypeAlias = Float[np.ndarray, "n height width"]
Colour: TypeAlias = Float[np.ndarray, "n height width 3"]
Random: TypeAlias = np.random.Generator

_LEVELS = 17
_NOISE = (0.1, 0.2, 0.3, 0.4, 0.5)
_BLUR = (0.4, 0.6, 0.8, 1.0, 1.25)
_WAVES = 4
_CHUNK = 1000
"""Images that get their textures at once."""
_TEXTURE = Option(0.5, number(0), "how bright the texture is; 0: none, 1: hard")


@final
@dataclass(frozen=True)
class ShiftedDigits:
    """The digits after a change of their looks that keeps what they are."""

    summary: str
    options: Mapping[str, Option]
    change: Callable[[Grey, Random, Mapping[str, Any]], np.ndarray]
    """From digits between 0 and 1 to images between 0 and 1, grey or in colour."""
    levels: int = _LEVELS

    @property
    def reader(self) -> SourceReader:
        """The changed digits as a source of data."""
        return SourceReader("changed digits", "images", self.options, self._scan)

    def _scan(self, request: ReadRequest) -> Scan:
        digits = embedded_digits(request.seed)
        assert digits.y is not None, "the embedded digits have classes"
        grey = digits.x[..., 0] / (_LEVELS - 1.0)
        images = self.change(grey, np.random.default_rng(request.seed), request.options)
        images = images.reshape(*images.shape[:3], -1)
        x = np.rint((self.levels - 1) * images.clip(0, 1)).astype(np.uint8)
        contents = Contents("image", x, digits.y, "class", classes=digits.classes, levels=self.levels)
        return Scan(len(x), len(x), contents=contents)


@final
@dataclass(frozen=True)
class TexturedImages:
    """The grey images of a data set that is on the machine, on coloured textures."""

    summary: str
    of: str
    """The data set."""

    @property
    def options(self) -> Mapping[str, Option]:
        """Those of its own."""
        return {"texture": _TEXTURE}

    def reader(self, plain: SourceReader) -> SourceReader:
        """The images of a reader on textures."""
        guards = {name: option for name, option in plain.options.items() if option.guard}
        others = {name: option.default for name, option in plain.options.items()}

        def scan(request: ReadRequest) -> Scan:
            own = {**others, **{name: request.options[name] for name in guards}}
            found = plain.scan(replace(request, options=own))
            if found.contents is None:
                return found
            rng, texture = np.random.default_rng(request.seed), request.options["texture"]
            grey = found.contents.x[..., 0]
            # All textures at once would take gigabytes.
            pieces = [_blended(part, texture, rng) for part in np.array_split(grey, -(-len(grey) // _CHUNK))]
            return replace(found, contents=replace(found.contents, x=np.concatenate(pieces)))

        return SourceReader(f"textured {self.of}", plain.unit, {**self.options, **guards}, scan)


def _blended(
    grey: UInt8[np.ndarray, "n height width"], texture: float, rng: Random
) -> UInt8[np.ndarray, "n height width 3"]:
    """8-bit images on textures."""
    height, width = grey.shape[1:]
    colours = texture * textures(rng, len(grey), max(height, width))[:, :height, :width]
    return np.rint(255 * np.abs(grey[..., None] / 255 - colours).clip(0, 1)).astype(np.uint8)


def _textured(digits: Grey, rng: Random, options: Mapping[str, Any]) -> Float[np.ndarray, "n size size 3"]:
    enlarged = resized(digits, options["size"])
    colours = options["texture"] * textures(rng, len(digits), options["size"])
    return np.abs(enlarged[..., None] - colours)


def _noisy(digits: Grey, rng: Random, options: Mapping[str, Any]) -> Grey:
    return digits + _NOISE[options["strength"] - 1] * rng.standard_normal(digits.shape)


def _blurred(digits: Grey, _rng: Random, options: Mapping[str, Any]) -> Grey:
    return _both_ways(_blur(digits.shape[1], _BLUR[options["strength"] - 1]), digits)


def _rescaled(digits: Grey, _rng: Random, options: Mapping[str, Any]) -> Grey:
    """Enlarged or made smaller about the centre; nothing lies beyond the edges."""
    size, factor = digits.shape[1], options["factor"]
    at = (np.arange(size) - (size - 1) / 2) / factor + (size - 1) / 2
    # A pixel of a smaller digit is about the mean of those that it covers.
    soft = digits if factor >= 1 else _both_ways(_blur(size, 0.5 * (1 / factor - 1)), digits)
    return _both_ways(_interpolation(at, size), soft)


def resized(digits: Float[np.ndarray, "n old old"], size: int) -> Float[np.ndarray, "n new new"]:
    """Square images brought to another size, bilinearly.

    >>> resized(np.ones((1, 8, 8)), 16).shape
    (1, 16, 16)
    """
    old = digits.shape[1]
    at = np.clip((np.arange(size) + 0.5) * old / size - 0.5, 0, old - 1)
    return digits if size == old else _both_ways(_interpolation(at, old), digits)


def _both_ways(
    matrix: Float[np.ndarray, "new old"], images: Float[np.ndarray, "n old old"]
) -> Float[np.ndarray, "n new new"]:
    """A linear map of rows and the same of columns."""
    return np.asarray(matrix @ images @ matrix.T)


def _interpolation(at: Float[np.ndarray, " new"], size: int) -> Float[np.ndarray, "new old"]:
    """The matrix that looks a row of pixels up at these places, linearly; nothing lies beyond its ends."""
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(size))))


def _blur(size: int, width: float) -> Float[np.ndarray, "size size"]:
    """The matrix that convolves a row of pixels with a normal density of this standard deviation."""
    apart = np.arange(-2 * size, 2 * size + 1)
    total = np.exp(-(apart**2) / (2 * width**2)).sum()
    return np.asarray(
        np.exp(-(np.subtract.outer(np.arange(size), np.arange(size)) ** 2) / (2 * width**2)) / total
    )


def textures(rng: Random, count: int, size: int) -> Colour:
    """Coloured textures between 0 and 1: a few waves in random directions about a random colour.

    >>> textures(np.random.default_rng(0), 2, 8).shape
    (2, 8, 8, 3)
    """
    position = (np.arange(size) + 0.5) / size
    angle, phase = rng.uniform(0, 2 * np.pi, (2, count, _WAVES))
    often = rng.uniform(0.2, 1.2, (count, _WAVES))
    along = np.cos(angle)[..., None, None] * position[:, None] + np.sin(angle)[..., None, None] * position
    waves = np.sin(2 * np.pi * often[..., None, None] * along + phase[..., None, None])
    tint = rng.standard_normal((count, _WAVES, 3)) * (0.25 / np.sqrt(_WAVES))
    base = rng.uniform(0.1, 0.9, (count, 1, 1, 3))
    return np.clip(base + np.einsum("nkhw,nkc->nhwc", waves, tint), 0.0, 1.0)


_STRENGTH = Option(3, whole(1, 5), "how strong the change is, 1 to 5")

SHIFTED_DIGITS = {
    "textured-digits": ShiftedDigits(
        "digits on coloured textures, |digit - texture|; texture=0 gives plain ones in colour",
        {
            "texture": _TEXTURE,
            "size": Option(8, whole(8, 64), "height and width"),
        },
        _textured,
        levels=256,
    ),
    "noisy-digits": ShiftedDigits("digits with noise at five strengths", {"strength": _STRENGTH}, _noisy),
    "blurred-digits": ShiftedDigits(
        "digits out of focus at five strengths", {"strength": _STRENGTH}, _blurred
    ),
    "rescaled-digits": ShiftedDigits(
        "digits enlarged or made smaller within their frame",
        {"factor": Option(0.8, number(0.25), "size of a digit, as a multiple of what it was")},
        _rescaled,
    ),
}

TEXTURED = {
    "textured-mnist": TexturedImages(
        "those of mnist on coloured textures, |digit - texture|; texture=0 gives plain ones in colour",
        "mnist",
    )
}

__all__ = ["SHIFTED_DIGITS", "TEXTURED", "ShiftedDigits", "TexturedImages", "resized", "textures"]
