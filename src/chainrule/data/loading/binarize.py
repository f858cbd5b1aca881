"""Grey images and shares as zeros and ones, for models of binary vectors.

Done once, when the data are loaded, so that every model and every score sees the same bits: likelihoods of binary data
are probabilities, exact and comparable between models. "threshold" cuts at one half; "stochastic" lets every entry be
one with a probability equal to its value, by a coin that the seed of the data decides. "dynamic" keeps the values
beside such bits: training throws the coins anew whenever it sees an example, and all else sees the one throw.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Shaped, UInt8

from chainrule.data import kinds
from chainrule.data.loading.moments import chunks
from chainrule.data.loading.problems import Refused
from chainrule.data.loading.scan import Contents


def binarize(contents: Contents, how: str, seed: int, where: str) -> Contents:
    """The same examples with every entry 0 or 1.

    >>> grey = Contents("image", np.array([[[[0], [8], [9], [16]]]], np.uint8), levels=17)
    >>> binarize(grey, "threshold", seed=0, where="a row of pixels").x.ravel().tolist()
    [0, 0, 1, 1]
    """
    if not kinds.of(contents).can_be_binary:
        raise Refused("not binary", where, f"binarize={how}: {contents.kind} data have no zeros and ones")
    highest = max(contents.levels - 1, 1)
    coin = None if how == "threshold" else np.random.default_rng(seed)
    pieces = [_bits(piece, highest, coin, where) for piece in chunks(contents.x, contents.rows)]
    grey = np.concatenate(list(chunks(contents.x, contents.rows))) if how == "dynamic" else None
    return replace(
        contents,
        x=np.concatenate(pieces),
        rows=None,
        levels=2,
        standardise=None,
        grey=grey,
        brightest=highest if how == "dynamic" else 0,
    )


def _bits(
    piece: Shaped[np.ndarray, "rows ..."], highest: int, coin: np.random.Generator | None, where: str
) -> UInt8[np.ndarray, "rows ..."]:
    share = piece.astype(np.float32) / np.float32(highest)
    if share.size and not (share.min() >= 0 and share.max() <= 1):
        found = f"values from {piece.min():g} to {piece.max():g}"
        raise Refused(
            "not binary", where, f"binarize takes values between 0 and 1; found {found}", "rescale them first"
        )
    level = np.float32(0.5) if coin is None else coin.random(share.shape, np.float32)
    return (share > level).astype(np.uint8)


__all__ = ["binarize"]
