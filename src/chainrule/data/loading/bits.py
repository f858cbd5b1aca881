"""Images with fewer bits: the highest ones of every number, as likelihoods of 5-bit images are published.

Done once, when the data are loaded, so that every model and every score sees the same levels, and bits per dimension
of two runs on them compare. Levels are dropped from below: 8-bit values 0 to 7 become level 0 of 32, 8 to 15 level 1.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Shaped

from chainrule.data import kinds
from chainrule.data.loading.moments import chunks
from chainrule.data.loading.problems import Refused
from chainrule.data.loading.scan import Contents


def highest_bits(x: Shaped[np.ndarray, "..."], levels: int, bits: int) -> Shaped[np.ndarray, "..."]:
    """Whole numbers below `levels`, a power of two, by their highest bits alone.

    >>> highest_bits(np.array([0, 7, 8, 255]), 256, 5).tolist()
    [0, 0, 1, 31]
    """
    return np.asarray(x) // (levels >> bits)


def reduce_bits(contents: Contents, bits: int, where: str) -> Contents:
    """The same images with so many bits of each number.

    >>> grey = Contents("image", np.array([[[[0], [15], [16], [255]]]], np.uint8), levels=256)
    >>> reduce_bits(grey, 4, where="a row of pixels").x.ravel().tolist()
    [0, 0, 1, 15]
    """
    levels = contents.levels
    if not kinds.of(contents).spatial:
        raise _refused(where, bits, f"{contents.kind} data keep their numbers")
    if levels < 2 or levels & (levels - 1):
        found = f"these images have {levels} levels" if levels else "these images hold fractions"
        raise _refused(where, bits, f"{found}, which is no whole number of bits")
    if 2**bits >= levels:
        raise _refused(where, bits, f"these images have {levels.bit_length() - 1} bits already")
    pieces = [
        highest_bits(piece, levels, bits).astype(np.uint8 if bits <= 8 else np.uint16)
        for piece in chunks(contents.x, contents.rows)
    ]
    return replace(contents, x=np.concatenate(pieces), rows=None, levels=2**bits)


def _refused(where: str, bits: Any, why: str) -> Refused:
    remedy = (
        "leave data.bits out; images of 8 bits take 1 to 7, and data.binarize=threshold makes black and white"
    )
    return Refused("no bits to drop", where, f"bits={bits}: {why}", remedy)


__all__ = ["highest_bits", "reduce_bits"]
