"""Digits with captions, made of the embedded ones: small data on which a model of text and images visibly works.

Every digit stands on a canvas twice as wide as it is, in four ways: in the middle ("a three"), on the left, on the
right, and beside another of its kind ("two threes"). The digits are divided into training, validation and test first,
so that no digit of a test image was seen in training.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import UInt8

from chainrule.data.division import divide
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader
from chainrule.data.readers import arrays
from chainrule.data.readers.pairs import numbered
from chainrule.data.text.captions import spelled

_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_FILE = Path(__file__).parents[1] / "embedded" / "digits.npz"
_SHARES = (0.8, 0.1, 0.1)
_WIDTH = 8

Picture = UInt8[np.ndarray, "8 16 1"]


@final
@dataclass(frozen=True)
class CaptionedDigits:
    """The digits, placed and described."""

    summary: str

    @property
    def reader(self) -> SourceReader:
        """The images and captions as a source of data."""
        return SourceReader("captioned digits", "images", {}, _scan)


def embedded_digits(seed: int = 0) -> Contents:
    """The 1,797 embedded digits with their classes."""
    plain = {name: option.default for name, option in arrays.reader.options.items()}
    found = arrays.reader.scan(ReadRequest(_FILE, seed, {**plain, "kind": "image", "levels": 17}))
    assert found.contents is not None, "the embedded digits can be read"
    return found.contents


def _scan(request: ReadRequest) -> Scan:
    digits = embedded_digits(request.seed)
    x, y = digits.x, digits.y
    assert y is not None, "the embedded digits have classes"
    images, captions, parts = [], [], []
    for part, indices in enumerate(divide(len(x), _SHARES, request.seed, y)):
        for number in range(len(_WORDS)):
            own = x[indices[y[indices] == number]]
            for image, caption in _described(own, _WORDS[number]):
                images.append(image)
                captions.append(spelled(caption))
                parts.append(part)
    rows, alphabet = numbered(captions)
    contents = Contents(
        "image",
        np.stack(images),
        rows,
        "text",
        target_alphabet=alphabet,
        levels=17,
        parts=np.array(parts),
        tokenizer="word",
    )
    return Scan(len(images), len(images), contents=contents)


def _described(digits: UInt8[np.ndarray, "n 8 8 1"], word: str) -> Iterator[tuple[Picture, str]]:
    """Each of some digits of one kind in four ways; the pair is of a digit and the next."""
    several = f"two {word}es" if word == "six" else f"two {word}s"
    one = f"an {word}" if word == "eight" else f"a {word}"
    for index, digit in enumerate(digits):
        for left, caption in ((4, one), (0, f"{one} on the left"), (8, f"{one} on the right")):
            canvas = np.zeros((_WIDTH, 2 * _WIDTH, 1), np.uint8)
            canvas[:, left : left + _WIDTH] = digit
            yield canvas, caption
        yield np.concatenate([digit, digits[(index + 1) % len(digits)]], axis=1), several


CAPTIONED = {
    "captioned-digits": CaptionedDigits(
        "digits on 8×16, one or two of a kind, with captions such as a three on the left"
    )
}

__all__ = ["CAPTIONED", "CaptionedDigits", "embedded_digits"]
