"""Excerpts of pieces of music: windows of events that begin anywhere in a piece and never reach into the next."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.data.batches import Batch
from chainrule.data.splits import Split


@final
@dataclass(frozen=True, repr=False)
class Excerpts(Split):
    """`length` events of `arrays["tokens"]` from each of `arrays["starts"]` on, the class of each in "y" if any.

    "positions" says which share of its piece lies before the middle of each.

    >>> found = Excerpts({"tokens": np.arange(9), "starts": np.array([0, 5])}, 3)
    >>> found.x.tolist()
    [[0, 1, 2], [5, 6, 7]]
    """

    arrays: Mapping[str, np.ndarray]
    length: int

    def __len__(self) -> int:
        return len(self.arrays["starts"])

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Excerpts by number, as int32."""
        locations = arrays["starts"][index][:, None] + np.arange(self.length)[None, :]
        y = arrays["y"][index] if "y" in arrays else None
        position = arrays["positions"][index] if "positions" in arrays else None
        return Batch(arrays["tokens"][locations].astype(np.int32), y, position=position)


__all__ = ["Excerpts"]
